//! The check of field lines, at run time or at compile time.

use anywire_advice::Advice;

use super::block::Lines;
use super::{Field, Kind, Kinds};
use crate::h1::encode::{LENGTH_NAME, OK_LINE};

/// A field line that was checked when the program was compiled.
///
/// Appending one ([`crate::Headers::append_static`]) cannot fail, and the first one is not even copied before it
/// is sent, which suits the fields that a service sends with each response.
///
/// ```
/// use anywire_http::{Headers, StaticHeader};
///
/// const PLAIN: StaticHeader = StaticHeader::new("content-type: text/plain; charset=utf-8");
///
/// let mut headers = Headers::new();
/// headers.append_static(&PLAIN);
/// assert_eq!(headers.get("content-type"), Some("text/plain; charset=utf-8"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StaticHeader {
    /// The usual beginning of an answer with this field alone, which then is one copy: status line, `name: value\r\n`,
    /// and [`LENGTH_NAME`]. Then unused space: a constant cannot join strings of any length.
    beginning: [u8; OK_LINE.len() + Self::LINE_BYTES_MAX + LENGTH_NAME.len()],
    /// How long the beginning is; 0 if the encoder has something to say about the field.
    beginning_len: usize,
    /// Where the parts of the line are, if it is the first.
    field: Field,
}

impl StaticHeader {
    /// The longest line, with its CR LF.
    pub const LINE_BYTES_MAX: usize = 125;

    /// Takes `text` in the form `name: value`, without a line break.
    ///
    /// # Panics
    ///
    /// If the text has another form, holds what no field may hold, or is longer than 123 bytes. Use it in a
    /// `const`, where that is an error of the compiler.
    pub const fn new(text: &'static str) -> Self {
        let text = text.as_bytes();
        assert!(text.len() + 2 <= Self::LINE_BYTES_MAX, "a static header is at most 123 bytes long");
        let mut beginning = [0; OK_LINE.len() + Self::LINE_BYTES_MAX + LENGTH_NAME.len()];
        copy_to(&mut beginning, 0, OK_LINE);
        let mut name_len = 0;
        while name_len < text.len() && text[name_len] != b':' {
            assert!(TOKEN[text[name_len] as usize], "the name of a static header must be a token");
            name_len += 1;
        }
        assert!(name_len > 0, "a static header needs a name");
        assert!(name_len + 2 < text.len(), "a static header has the form `name: value`");
        assert!(text[name_len + 1] == b' ', "a static header has one space after its colon");
        assert!(
            text[name_len + 2] != b' ' && text[text.len() - 1] != b' ',
            "no white space around the value of a static header"
        );
        let mut index = 0;
        while index < text.len() {
            assert!(is_value_byte(text[index]), "no control character in a static header");
            index += 1;
        }
        copy_to(&mut beginning, OK_LINE.len(), text);
        copy_to(&mut beginning, OK_LINE.len() + text.len(), b"\r\n");
        copy_to(&mut beginning, OK_LINE.len() + text.len() + 2, LENGTH_NAME);
        let value = name_len + 2;
        let field = Field {
            start: 0,
            value: value as u32,
            value_len: (text.len() - value) as u32,
            name_len: name_len as u16,
            kind: Kind::of(text.split_at(name_len).0),
            is_sensitive: false,
        };
        let beginning_len = match field.kind {
            Kind::Other => OK_LINE.len() + text.len() + 2 + LENGTH_NAME.len(),
            _ => 0,
        };
        Self { beginning, beginning_len, field }
    }

    /// [`OK_LINE`], this line, and [`LENGTH_NAME`]; `None` if the encoder has something to say about the field.
    #[inline]
    pub(super) fn ok_beginning(&self) -> Option<&[u8]> {
        if self.beginning_len == 0 { None } else { self.beginning.get(..self.beginning_len) }
    }

    /// This line alone.
    #[inline]
    pub(super) fn lines(&self) -> Lines<'_> {
        let len = (self.field.value + self.field.value_len) as usize + 2;
        Lines {
            bytes: &self.beginning[OK_LINE.len()..OK_LINE.len() + len],
            fields: std::slice::from_ref(&self.field),
            present: Kinds::of(&[self.field.kind]),
        }
    }
}

/// Copies `part` to where it starts in `bytes`.
const fn copy_to(bytes: &mut [u8], start: usize, part: &[u8]) {
    bytes.split_at_mut(start).1.split_at_mut(part.len()).0.copy_from_slice(part);
}

/// A field that cannot be sent. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHeader {
    /// The name is empty, longer than 65,535 bytes, or holds a byte that no token has (RFC 9110 section
    /// 5.6.2).
    #[error(
        "setting a header: `{name}` is not a field name{help}",
        help = Advice("use letters, digits and any of !#$%&'*+-.^_`|~ (RFC 9110 5.6.2)")
    )]
    Name {
        /// The name, made printable, at most 64 characters of it.
        name: String,
    },
    /// The value holds a line break or another control character (RFC 9110 section 5.5).
    #[error(
        "setting the header `{name}`: its value holds byte {byte:#04x} at {position}{help}",
        help = Advice("encode or remove control characters (RFC 9110 5.5)")
    )]
    Value {
        /// The field's name.
        name: String,
        /// The byte that is not allowed.
        byte: u8,
        /// Where it stands in the value.
        position: usize,
    },
    /// All fields together would pass 4 GiB.
    #[error(
        "setting a header: all fields together would be {bytes} bytes{help}",
        help = Advice("keep them below 4 GiB")
    )]
    TooLarge {
        /// The size that would result.
        bytes: usize,
    },
    /// The value could be sent, but its reader would not take it as it is meant: such as a cookie whose value holds a `;`.
    #[error("setting the header `{name}`: {found}{help}", help = Advice(remedy))]
    Meaning {
        /// The field's name.
        name: &'static str,
        /// What is wrong.
        found: String,
        /// What would help.
        remedy: &'static str,
    },
}

/// Checks a field and gives its name, and its value without the white space around it.
#[inline]
pub(super) fn check<'f>(name: &'f [u8], value: &'f [u8]) -> Result<(&'f str, &'f [u8]), InvalidHeader> {
    let Some(name) = token(name).filter(|name| name.len() <= usize::from(u16::MAX)) else {
        return Err(invalid_name(name));
    };
    // No early exit, so that the compiler tests many bytes at once.
    if !value.iter().fold(true, |valid, &byte| valid & is_value_byte(byte)) {
        return Err(invalid_value(name, value));
    }
    Ok((name, trim(value)))
}

/// `text` if it is a token (RFC 9110 section 5.6.2).
#[inline]
fn token(text: &[u8]) -> Option<&str> {
    let is_token = !text.is_empty() && text.iter().all(|&byte| TOKEN[usize::from(byte)]);
    // A token is ASCII.
    if is_token { std::str::from_utf8(text).ok() } else { None }
}

/// Whether `text` is a token.
pub(crate) fn is_token(text: &[u8]) -> bool {
    token(text).is_some()
}

/// Whether `text` is the name of a protocol, and perhaps its version, as an upgrade names it (RFC 9110 section 7.8).
pub(crate) fn is_protocol(text: &str) -> bool {
    let (name, version) = text.split_once('/').unwrap_or((text, "1"));
    token(name.as_bytes()).is_some() && token(version.as_bytes()).is_some()
}

/// Whether `name` is a token in lower case, as HTTP/2 wants it (RFC 9113 section 8.2.1).
#[inline]
pub(crate) fn is_lower_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| TOKEN[usize::from(byte)] && !byte.is_ascii_uppercase())
}

/// Whether `value` can be that of a field, with nothing to trim.
#[inline]
pub(crate) fn is_value(value: &[u8]) -> bool {
    value.iter().fold(true, |valid, &byte| valid & is_value_byte(byte)) && trim(value).len() == value.len()
}

/// Visible characters, space, tab and obs-text (RFC 9110 section 5.5).
const fn is_value_byte(byte: u8) -> bool {
    (byte >= b' ') & (byte != 0x7f) | (byte == b'\t')
}

fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cold]
fn invalid_name(name: &[u8]) -> InvalidHeader {
    let name = String::from_utf8_lossy(&name[..name.len().min(256)]);
    InvalidHeader::Name { name: name.chars().take(64).flat_map(char::escape_default).collect() }
}

#[cold]
fn invalid_value(name: &str, value: &[u8]) -> InvalidHeader {
    let position = value.iter().position(|&byte| !is_value_byte(byte)).unwrap_or_default();
    InvalidHeader::Value {
        name: name.to_owned(),
        byte: value.get(position).copied().unwrap_or_default(),
        position,
    }
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut index = 0;
    while index < marks.len() {
        table[marks[index] as usize] = true;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_part_that_is_wrong() {
        let error = check(b"x\r\ny", b"1").expect_err("no token");
        assert!(error.to_string().contains(r"x\r\ny"), "{error}");
        let error = check(b"x", b"ab\ncd").expect_err("no value");
        assert_eq!(error, InvalidHeader::Value { name: "x".into(), byte: b'\n', position: 2 });
    }

    #[test]
    fn long_names_are_refused() {
        assert!(check(&[b'n'; 65_536], b"").is_err());
        assert!(check(&[b'n'; 65_535], b"").is_ok());
    }

    #[test]
    fn white_space_around_the_value_is_dropped() {
        assert_eq!(check(b"x", b" \t a b \t"), Ok(("x", &b"a b"[..])));
        assert_eq!(check(b"x", b" \t"), Ok(("x", &b""[..])));
    }
}
