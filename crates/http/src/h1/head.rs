//! Parsing that request heads, response heads and trailer sections have in common.
//!
//! `httparse` does the parsing. It is lenient about line ends, so we check that each line ends in CR LF, at a fixed
//! cost per line. A head that arrives in pieces is not parsed again for each piece. It is parsed when its end was seen,
//! or when its size has doubled, so that garbage is refused early. So the cost stays linear.
//!
//! `inline(always)` in this file saves 34 of 1,690 instructions that decoding a small request and encoding its
//! response take.

use std::hint::cold_path;
use std::mem::MaybeUninit;

use http::Version;
use httparse::Header;

use super::{DecodeError, Limits, framing};
use crate::HeadLimits;
use crate::headers::{Field, Headers, Kind, Kinds};

/// How far an incomplete head has been searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Bytes that a search or a parse has found to hold no end of a head.
    seen: usize,
    /// Bytes that the last parse was given.
    parsed: usize,
    /// Bytes of the start line that hold no end of it, or [`LINE_ENDED`].
    line_seen: usize,
}

impl Progress {
    /// Before a head.
    pub(super) const IDLE: Self = Self { seen: 0, parsed: 0, line_seen: 0 };

    /// Whether nothing of a head has been seen yet.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.seen == 0
    }

    /// Whether it is worth parsing `data` now; if not, call [`Progress::check_partial`] and wait.
    #[inline]
    pub(super) fn is_worth_parsing(&mut self, data: &[u8]) -> bool {
        self.seen == 0 || self.has_reason(data)
    }

    fn has_reason(&mut self, data: &[u8]) -> bool {
        // The end may straddle old and new bytes.
        let from = self.seen.saturating_sub(HEAD_END.len() - 1).min(data.len());
        let ended = memchr::memmem::find(&data[from..], HEAD_END).is_some();
        self.seen = data.len();
        ended || data.len() / 2 >= self.parsed
    }

    /// Notes that `data` holds no complete head.
    pub(super) fn parsed_partial(&mut self, data: &[u8]) {
        self.seen = data.len();
        self.parsed = data.len();
    }

    /// Refuses a head that can no longer end within its limits. `no_room`: the buffer cannot take another
    /// byte.
    pub(super) fn check_partial(
        &mut self,
        data: &[u8],
        limits: &Limits,
        no_room: bool,
    ) -> Result<(), DecodeError> {
        let line_limit = limits.head.target_bytes;
        let line_bytes_max = line_limit.saturating_add(2);
        if self.line_seen != LINE_ENDED {
            let line = &data[..data.len().min(line_bytes_max)];
            let ended = memchr::memchr(b'\n', &line[self.line_seen.min(line.len())..]).is_some();
            if !ended && data.len() >= line_bytes_max {
                return Err(DecodeError::StartLineTooLong { limit: line_limit });
            }
            self.line_seen = if ended { LINE_ENDED } else { line.len() };
        }
        if data.len() >= limits.head.bytes || no_room {
            return Err(DecodeError::HeadTooLarge { limit: limits.head.bytes.min(data.len()) });
        }
        Ok(())
    }
}

/// Room for the fields of one parse: on the stack up to the default limit. Unused slots are never written.
pub(super) struct FieldRoom<'b> {
    stack: [MaybeUninit<Header<'b>>; STACK_SLOTS],
    heap: Vec<MaybeUninit<Header<'b>>>,
}

impl<'b> FieldRoom<'b> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { stack: [const { MaybeUninit::uninit() }; STACK_SLOTS], heap: Vec::new() }
    }

    #[inline(always)]
    pub(super) fn with_room_for(&mut self, count: usize) -> &mut [MaybeUninit<Header<'b>>] {
        if count <= STACK_SLOTS {
            return &mut self.stack[..count];
        }
        self.heap.resize(count.min(HeadLimits::FIELDS_MAX), MaybeUninit::uninit());
        &mut self.heap
    }
}

/// The facts about a head's fields that the check of its lines collects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scanned<'b> {
    /// Empty for a head that the engine needs to know no more about.
    pub(super) fields: &'b [Header<'b>],
    /// The kinds that appear.
    pub(super) present: Kinds,
    /// The kinds that appear more than once.
    pub(super) repeated: Kinds,
    /// The value of the last `Host`.
    pub(super) host: Option<&'b [u8]>,
    /// The value of the last `Content-Length`.
    pub(super) length: Option<&'b [u8]>,
}

/// The lines of the fields of a complete head (`head`: start line to empty line), after checking the head's limits, the
/// end of its start line and its own.
#[inline(always)]
pub(super) fn field_lines<'b>(
    head: &'b [u8],
    parsed: &[Header<'_>],
    limits: &Limits,
) -> Result<&'b [u8], DecodeError> {
    if !head.ends_with(HEAD_END) {
        return refuse(DecodeError::LineEnding);
    }
    let lines = &head[..head.len() - 2];
    let first = parsed.first().map_or(lines.len(), |first| offset_in(head, first.name.as_bytes()));
    if first.saturating_sub(2) > limits.head.target_bytes {
        return refuse(DecodeError::StartLineTooLong { limit: limits.head.target_bytes });
    }
    if head.len() > limits.head.bytes {
        return refuse(DecodeError::HeadTooLarge { limit: limits.head.bytes });
    }
    if !ends_line(lines, first) {
        return refuse(DecodeError::LineEnding);
    }
    Ok(&lines[first..])
}

/// The fields of a trailer section, which has no start line.
pub(super) fn collect_trailers(section: &[u8], parsed: &[Header<'_>]) -> Result<Headers, DecodeError> {
    if !section.ends_with(HEAD_END) {
        return Err(DecodeError::LineEnding);
    }
    let lines = &section[..section.len() - 2];
    let mut headers = Headers::new();
    if collect(&mut headers, lines, parsed)?.present.intersects(framing::SINGLE) {
        return Err(DecodeError::ForbiddenTrailer);
    }
    Ok(headers)
}

/// Copies the lines of the fields into `headers` and [scans](scan) them.
#[inline(always)]
pub(super) fn collect<'b>(
    headers: &mut Headers,
    lines: &[u8],
    parsed: &'b [Header<'b>],
) -> Result<Scanned<'b>, DecodeError> {
    let room = headers.refill(lines, parsed.len());
    let mut records = room.fields.iter_mut();
    let scanned = scan(lines, parsed, |field| {
        if let Some(record) = records.next() {
            *record = field;
        }
    })?;
    *room.present = scanned.present;
    Ok(scanned)
}

/// Checks the ends of all lines except the last, which the caller has checked, and collects facts about the fields.
/// Passes each field to `record`.
#[inline(always)]
pub(super) fn scan<'b>(
    lines: &[u8],
    parsed: &'b [Header<'b>],
    mut record: impl FnMut(Field),
) -> Result<Scanned<'b>, DecodeError> {
    if lines.len() > usize::from(u16::MAX) {
        check_widths(lines, parsed)?;
    }
    // The parser accepts a bare LF as a line end. CR LF must precede each line.
    let mut lines_end_well = true;
    let (mut present, mut repeated, mut host, mut length) = (Kinds::NONE, Kinds::NONE, None, None);
    for header in parsed {
        let name = header.name.as_bytes();
        let kind = Kind::of(name);
        match kind {
            Kind::Host => host = Some(header.value),
            Kind::ContentLength => length = Some(header.value),
            _ => {}
        }
        repeated = repeated.with(present.only(kind));
        present.add(kind);
        let start = offset_in(lines, name);
        lines_end_well &= start == 0 || ends_line(lines, start);
        record(Field {
            start: start as u32,
            value: offset_in(lines, header.value) as u32,
            value_len: header.value.len() as u32,
            name_len: name.len() as u16,
            kind,
            is_sensitive: false,
        });
    }
    if !lines_end_well {
        return refuse(DecodeError::LineEnding);
    }
    Ok(Scanned { fields: parsed, present, repeated, host, length })
}

impl<'b> Scanned<'b> {
    /// All values of a name that the engine knows.
    pub(super) fn values_of(&self, kind: Kind) -> impl Iterator<Item = &'b [u8]> {
        let named = move |field: &&Header<'_>| Kind::of(field.name.as_bytes()) == kind;
        self.fields.iter().filter(named).map(|field| field.value)
    }
}

/// Whether CR LF stands before `position`.
#[inline(always)]
fn ends_line(lines: &[u8], position: usize) -> bool {
    lines.get(position.wrapping_sub(2)..position) == Some(b"\r\n")
}

/// Whether the offsets of the fields fit their integers. They always do unless a configuration allows huge heads.
#[cold]
fn check_widths(lines: &[u8], parsed: &[Header<'_>]) -> Result<(), DecodeError> {
    if lines.len() > SECTION_BYTES_MAX {
        return Err(DecodeError::HeadTooLarge { limit: SECTION_BYTES_MAX });
    }
    if parsed.iter().any(|header| header.name.len() > usize::from(u16::MAX)) {
        return Err(DecodeError::HeaderName);
    }
    Ok(())
}

/// Where `part`, which is a part of `whole`, lies in it.
#[inline(always)]
pub(super) fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// An error, marked as cold. Otherwise the compiler takes both branches for equally likely, and optimizes the code
/// behind a dozen such checks as rare.
#[inline(always)]
pub(super) fn refuse<T>(error: DecodeError) -> Result<T, DecodeError> {
    cold_path();
    Err(error)
}

/// Converts the parser's error.
#[cold]
pub(super) fn refusal(error: httparse::Error, data: &[u8], limits: &Limits) -> DecodeError {
    match error {
        httparse::Error::HeaderName => DecodeError::HeaderName,
        httparse::Error::HeaderValue => DecodeError::HeaderValue,
        // Behind the version is something else than the end of its line.
        httparse::Error::NewLine if version_at(data).is_none() => DecodeError::StartLine,
        httparse::Error::NewLine => DecodeError::LineEnding,
        httparse::Error::TooManyHeaders => DecodeError::TooManyHeaders { limit: limits.head.fields },
        httparse::Error::Version if names_other_version(data) => DecodeError::Version,
        _ => DecodeError::StartLine,
    }
}

/// The same bytes with the version 1.1, if theirs is a later one of HTTP/1, which is to be read so (RFC 9110 section 2.5).
#[cold]
pub(super) fn as_http_1_1(error: httparse::Error, data: &[u8]) -> Option<Vec<u8>> {
    let at = version_at(data).filter(|_| error == httparse::Error::Version)?;
    let mut same = data.to_vec();
    let [.., b'1', b'.', minor @ b'2'..=b'9'] = &mut same[..at + VERSION_BYTES] else { return None };
    *minor = b'1';
    Some(same)
}

/// Whether the start line names a version that is none of ours.
fn names_other_version(data: &[u8]) -> bool {
    version_at(data).is_some_and(|at| !data[at..].starts_with(b"HTTP/1."))
}

/// Where a version stands in its place, well-formed: the last of three words, or the first one.
fn version_at(data: &[u8]) -> Option<usize> {
    let line = data.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let is_version = |word: &[u8]| {
        matches!(word, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit())
    };
    let mut words = line.split(|&byte| byte == b' ');
    if words.next().is_some_and(is_version) {
        return Some(0);
    }
    let last = words.nth(1).filter(|word| is_version(word) && words.next().is_none())?;
    Some(line.len() - last.len())
}

/// `HTTP/1.1`
const VERSION_BYTES: usize = 8;

/// The version from the parser's minor number.
#[inline(always)]
pub(super) fn version(minor: Option<u8>) -> Version {
    if minor == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 }
}

const HEAD_END: &[u8] = b"\r\n\r\n";

/// A value that no count of bytes reaches.
const LINE_ENDED: usize = usize::MAX;

const STACK_SLOTS: usize = 100;

/// Offsets are 32 bits wide. No configuration allows larger heads.
const SECTION_BYTES_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadLimits;

    #[test]
    fn a_trickled_head_is_parsed_a_few_times_only() {
        let data = [b'x'; 10_000];
        let mut progress = Progress::IDLE;
        let mut parses = 0;
        for end in 1..=data.len() {
            if progress.is_worth_parsing(&data[..end]) {
                parses += 1;
                progress.parsed_partial(&data[..end]);
            }
        }
        assert!(parses <= 15, "{parses} parses of 10,000 bytes that came one by one");
    }

    #[test]
    fn a_trickled_start_line_is_searched_once() {
        let mut progress = Progress::IDLE;
        let limits = Limits::from(HeadLimits { target_bytes: 12, ..HeadLimits::default() });
        assert_eq!(progress.check_partial(b"xxxx", &limits, false), Ok(()));
        // A line end among bytes that were searched already must not be found: they are not searched again.
        assert_eq!(progress.check_partial(b"x\nxxx", &limits, false), Ok(()));
        assert_eq!(progress.line_seen, 5);
        assert_eq!(progress.check_partial(b"xxxxx\n", &limits, false), Ok(()));
        assert_eq!(progress.line_seen, LINE_ENDED);
        assert_eq!(progress.check_partial(&[b'x'; 20], &limits, false), Ok(()));
        let mut other = Progress::IDLE;
        assert_eq!(other.check_partial(&[b'x'; 13], &limits, false), Ok(()));
        let too_long = Err(DecodeError::StartLineTooLong { limit: 12 });
        assert_eq!(other.check_partial(b"xxxxxxxxxxxxxx\n", &limits, false), too_long);
    }

    #[test]
    fn an_end_that_straddles_two_reads_is_seen() {
        let mut progress = Progress::IDLE;
        let head = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        for split in 1..head.len() {
            let mut progress_here = progress;
            assert!(progress_here.is_worth_parsing(&head[..split]));
            progress_here.parsed_partial(&head[..split]);
            assert!(progress_here.is_worth_parsing(head), "split at {split}");
        }
        assert!(progress.is_idle() && progress.is_worth_parsing(head));
    }

    #[test]
    fn other_versions_are_told_from_garbage() {
        let limits = Limits::default();
        let of = |data: &[u8]| refusal(httparse::Error::Version, data, &limits);
        assert_eq!(of(b"PRI * HTTP/2.0\r\n\r\n"), DecodeError::Version);
        assert_eq!(of(b"GET / HTTP/0.9\r\n"), DecodeError::Version);
        let later = as_http_1_1(httparse::Error::Version, b"GET / HTTP/1.2\r\n");
        assert_eq!(later.as_deref(), Some(&b"GET / HTTP/1.1\r\n"[..]));
        assert_eq!(as_http_1_1(httparse::Error::Version, b"GET / HTTP/2.0\r\n"), None);
        assert_eq!(of(b"GET / HTTQ/1.1\r\n"), DecodeError::StartLine);
        assert_eq!(of(b"HTTP/3.0 200 OK\r\n"), DecodeError::Version);
        assert_eq!(of(b"GET / HTTP/11\r\n"), DecodeError::StartLine);
        assert_eq!(of(b"GET / a HTTP/1.1\r\n"), DecodeError::StartLine);
    }
}
