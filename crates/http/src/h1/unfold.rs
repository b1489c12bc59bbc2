//! Folded lines in responses (RFC 9112 section 5.2), and responses in a later version of HTTP/1 (RFC 9110 section 2.5).
//!
//! A fold is a line break and white space within a value. In a request it is refused. In a response a user agent is to
//! read it as a space. We replace folds in a copy of the lines, before the parser sees them. The lines
//! that say where a body ends may have none, because another reader may take such a line for two.

use super::{DecodeError, Limits};

/// Lines without their folds.
pub(super) struct Unfolded {
    /// The lines up to the empty one, or as many of them as there are.
    pub(super) bytes: Vec<u8>,
    /// Where the folded lines end in their input, if their end is there.
    pub(super) ends_at: Option<usize>,
}

impl Unfolded {
    /// How many bytes of the input a head is that ends at `end` of these.
    pub(super) fn taken(&self, end: usize, limits: &Limits) -> Result<usize, DecodeError> {
        match self.ends_at {
            Some(taken) if end == self.bytes.len() && taken > limits.head.bytes => {
                Err(DecodeError::HeadTooLarge { limit: limits.head.bytes })
            }
            Some(taken) if end == self.bytes.len() => Ok(taken),
            // A bare LF made an end where there is none.
            _ => Err(DecodeError::LineEnding),
        }
    }
}

/// The head at the start of `data` with a space for each fold, and with the version 1.1 for a later one; `None` if it has
/// neither.
///
/// # Errors
///
/// [`DecodeError::HeaderName`] for a fold of the status line, of `Content-Length` and of `Transfer-Encoding`.
#[cold]
pub(super) fn head(data: &[u8]) -> Result<Option<Unfolded>, DecodeError> {
    // The status line is not a field, so its continuation is not one either.
    let mut unfolded = unfold(data, None)?;
    if let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9', ..] = data {
        let unfolded = unfolded.get_or_insert_with(|| {
            let ends_at = section_end(data);
            Unfolded { bytes: data[..ends_at.unwrap_or(data.len())].to_vec(), ends_at }
        });
        unfolded.bytes[VERSION_MINOR_AT] = b'1';
    }
    Ok(unfolded)
}

/// As [`head`], of a trailer section.
#[cold]
pub(super) fn trailers(data: &[u8]) -> Result<Option<Unfolded>, DecodeError> {
    unfold(data, Some(0))
}

/// `field`: where the field starts that a fold of the first line would go on with.
fn unfold(data: &[u8], mut field: Option<usize>) -> Result<Option<Unfolded>, DecodeError> {
    let ends_at = section_end(data);
    let mut rest = &data[..ends_at.unwrap_or(data.len())];
    let mut bytes = Vec::with_capacity(rest.len());
    let mut has_folds = false;
    while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
        bytes.extend_from_slice(&rest[..end]);
        rest = &rest[end + 2..];
        if !matches!(rest, [b' ' | b'\t', ..]) {
            bytes.extend_from_slice(b"\r\n");
            field = Some(bytes.len());
            continue;
        }
        if field.is_none_or(|start| decides_framing(&bytes[start..])) {
            return Err(DecodeError::HeaderName);
        }
        has_folds = true;
        while let [b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        while matches!(bytes.last(), Some(b' ' | b'\t')) {
            bytes.pop();
        }
        bytes.push(b' ');
    }
    bytes.extend_from_slice(rest);
    Ok(has_folds.then_some(Unfolded { bytes, ends_at }))
}

/// Where a section ends, if its end is there.
fn section_end(data: &[u8]) -> Option<usize> {
    memchr::memmem::find(data, SECTION_END).map(|at| at + SECTION_END.len())
}

/// Whether a line says where a body ends.
fn decides_framing(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default().trim_ascii();
    name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"transfer-encoding")
}

const SECTION_END: &[u8] = b"\r\n\r\n";

/// In `HTTP/1.1`.
const VERSION_MINOR_AT: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    fn unfolded(data: &[u8]) -> Option<Vec<u8>> {
        head(data).expect("folds that are allowed").map(|unfolded| unfolded.bytes)
    }

    #[test]
    fn a_fold_and_the_white_space_around_it_are_one_space() {
        assert_eq!(unfolded(b"S\r\na: b \t\r\n \t c\r\n\r\n").as_deref(), Some(&b"S\r\na: b c\r\n\r\n"[..]));
        assert_eq!(unfolded(b"S\r\na:\r\n b\r\n\tc\r\n\r\n").as_deref(), Some(&b"S\r\na: b c\r\n\r\n"[..]));
        assert_eq!(unfolded(b"S\r\na: b\r\n \r\n\r\n").as_deref(), Some(&b"S\r\na: b \r\n\r\n"[..]));
        assert_eq!(unfolded(b"S\r\na: b\r\n\r\n c"), None);
    }

    #[test]
    fn what_follows_the_end_is_left_alone() {
        let found = head(b"S\r\na: b\r\n c\r\n\r\nbody\r\n x").expect("allowed").expect("a fold");
        assert_eq!((&found.bytes[..], found.ends_at), (&b"S\r\na: b c\r\n\r\n"[..], Some(15)));
        let found = head(b"S\r\na: b\r\n c\r\n").expect("allowed").expect("a fold");
        assert_eq!((&found.bytes[..], found.ends_at), (&b"S\r\na: b c\r\n"[..], None));
    }

    #[test]
    fn the_first_line_of_a_trailer_section_may_go_on() {
        let found = trailers(b"a: b\r\n c\r\n\r\n").expect("allowed").expect("a fold");
        assert_eq!(&found.bytes[..], b"a: b c\r\n\r\n");
    }

    #[test]
    fn lines_that_decide_the_framing_have_no_folds() {
        for line in ["Content-Length: 5\r\n ", "Transfer-Encoding:\r\n chunked", "content-length\r\n : 5"] {
            let data = format!("S\r\n{line}\r\n\r\n");
            assert!(matches!(head(data.as_bytes()), Err(DecodeError::HeaderName)), "{line:?}");
        }
        assert!(matches!(head(b"S\r\n a: b\r\n\r\n"), Err(DecodeError::HeaderName)));
    }
}
