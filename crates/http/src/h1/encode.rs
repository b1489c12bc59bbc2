//! Messages into bytes, appended to the caller's `Vec<u8>` (RFC 9112).
//!
//! The encoder alone writes what frames a message: `Content-Length`, `Transfer-Encoding`, `Connection`. Such
//! fields of the caller's are left out, so that head and body cannot contradict each other.

use http::{Method, StatusCode, Version};

use super::Framing;
use crate::headers::{Kind, Kinds};
use crate::message::{is_host, is_target};
use crate::{DateLine, Headers};

/// The parts of a response head.
#[derive(Clone, Copy, Debug)]
pub struct ResponseParts<'a> {
    /// The status.
    pub status: StatusCode,
    /// The caller's fields. The encoder skips the fields that frame the message.
    pub headers: &'a Headers,
    /// The framing that fits the body; [`Framing::None`] counts as a length of 0.
    pub framing: Framing,
    /// The length that the head says although no body follows ([`crate::Body::stated_length`]). Used in a 304, and in
    /// an answer to HEAD with a framing of [`Framing::None`]. Ignored elsewhere, because the body itself must follow.
    pub stated_length: Option<u64>,
    /// The version of the request: a 1.0 client gets no chunks.
    pub version: Version,
    /// Whether the connection is to stay open after this response.
    pub keep_alive: bool,
    /// Whether the request was HEAD: the head says what GET would have got, and no body follows.
    pub answers_head: bool,
    /// A ready `date: ...\r\n` line ([`crate::DateLine`]), used unless `headers` hold a `Date`.
    pub date: Option<&'a [u8]>,
}

/// What the sender must do after a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commitment {
    /// How the body must follow: `None` means that no byte of it may be sent; `UntilClose` means that the
    /// connection is to be closed behind it.
    pub framing: Framing,
    /// Whether the connection stays open after the body.
    pub keep_alive: bool,
}

/// A request head that cannot be sent. The caller is at fault; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The target is empty or holds white space, a control character or a `#`.
    #[error(
        "encoding a request: its target is empty or holds white space, control characters or `#`; percent-encode them"
    )]
    Target,
    /// The host is not `host` or `host:port`.
    #[error(
        "encoding a request: its host is no `host` or `host:port`; give what stands between // and / of the URL"
    )]
    Host,
}

/// Appends a response head and tells how the body must follow.
///
/// Adds `Content-Length` or `Transfer-Encoding`, `Connection: close` if the connection ends, `Connection:
/// keep-alive` if a 1.0 client asked for it, and the date. 1xx, 204 and 304 get neither length nor body, except that
/// a 304 gets the length that is stated (RFC 9110 section 8.6). A `Connection: close` among the caller's fields closes
/// the connection.
#[inline]
pub fn response_head(out: &mut Vec<u8>, parts: &ResponseParts<'_>) -> Commitment {
    // Most answers: 200, one field, a length.
    if let Framing::Length(length) = parts.framing
        && parts.status == StatusCode::OK
        && let Some(beginning) = parts.headers.ok_beginning()
    {
        out.extend_from_slice(beginning);
        length_line_end(out, length);
        return finish(out, parts, parts.framing, parts.keep_alive, Kinds::NONE);
    }
    other_response_head(out, *parts)
}

// Takes the parts by value. A reference would force the usual response to store them in memory.
#[inline(never)]
fn other_response_head(out: &mut Vec<u8>, parts: ResponseParts<'_>) -> Commitment {
    let ResponseParts { status, headers, version, .. } = parts;
    let lines = headers.lines();
    out.reserve(STATUS_LINE_BYTES_USUAL + lines.bytes.len() + ADDED_BYTES_MAX);
    status_line(out, status);
    lines.write_to(out, FRAMING_FIELDS);

    if status == StatusCode::UPGRADE_REQUIRED {
        // Its `upgrade` field is for this connection only (RFC 9110 section 7.8).
        out.extend_from_slice(b"connection: upgrade\r\n");
    }
    let closes = headers.has_token(Kind::Connection, "close");
    let mut keep_alive = parts.keep_alive && !closes;
    let framing = if forbids_body(status) {
        if let Some(length) = parts.stated_length
            && status == StatusCode::NOT_MODIFIED
        {
            content_length(out, length);
        }
        Framing::None
    } else if status == StatusCode::RESET_CONTENT {
        // It has no content either, but has to say so (RFC 9110 section 15.3.6).
        content_length(out, 0)
    } else {
        match parts.framing {
            Framing::None => match parts.stated_length.filter(|_| parts.answers_head) {
                // An unknown length is not stated. 0 would be wrong (RFC 9110 section 8.6).
                None if parts.answers_head => Framing::None,
                length => content_length(out, length.unwrap_or(0)),
            },
            Framing::Length(length) => content_length(out, length),
            Framing::Chunked if version == Version::HTTP_11 => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n");
                Framing::Chunked
            }
            Framing::Chunked | Framing::UntilClose => {
                keep_alive &= parts.answers_head;
                Framing::UntilClose
            }
        }
    };
    finish(out, &parts, framing, keep_alive, lines.present)
}

/// Appends the end of a head: date, `Connection`, empty line. `present` are fields of the caller's that the encoder
/// knows.
#[inline]
fn finish(
    out: &mut Vec<u8>,
    parts: &ResponseParts<'_>,
    framing: Framing,
    keep_alive: bool,
    present: Kinds,
) -> Commitment {
    let ResponseParts { status, version, .. } = *parts;
    if let Some(date) = parts.date
        && !present.contains(Kind::Date)
    {
        match <&[u8; DateLine::BYTES]>::try_from(date) {
            // Of a known size, which is a few moves and no call.
            Ok(date) => out.extend_from_slice(date),
            Err(_) => out.extend_from_slice(date),
        }
    }
    if !keep_alive || version == Version::HTTP_10 || status == StatusCode::SWITCHING_PROTOCOLS {
        connection(out, status, keep_alive);
    }
    out.extend_from_slice(b"\r\n");
    Commitment { framing: if parts.answers_head { Framing::None } else { framing }, keep_alive }
}

/// Appends a request head in HTTP/1.1, with `host` first unless `headers` hold a `Host`.
///
/// `target` as it stands in the request line: `/path?query`, or a whole URL to a proxy. Of `framing`, `None`
/// writes no length; [`Framing::UntilClose`] cannot frame a request and is written as chunks. A `Connection`
/// of the caller's passes.
///
/// # Errors
///
/// [`EncodeError`] if target or host would break the head apart; `out` is unchanged then.
#[inline]
pub fn request_head(
    out: &mut Vec<u8>,
    method: &Method,
    target: &str,
    host: &str,
    headers: &Headers,
    framing: Framing,
) -> Result<(), EncodeError> {
    if !is_target(target) {
        return Err(EncodeError::Target);
    }
    let host = headers.value_of(Kind::Host).unwrap_or(host.as_bytes());
    if !is_host(host) {
        return Err(EncodeError::Host);
    }
    out.reserve(target.len() + host.len() + headers.wire_bytes().len() + ADDED_BYTES_MAX);
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\n");
    headers.lines().write_to(out, REQUEST_FIELDS);
    match framing {
        Framing::None => {}
        Framing::Length(length) => {
            content_length(out, length);
        }
        Framing::Chunked | Framing::UntilClose => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends one chunk; nothing if `data` is empty, as an empty chunk would end the body.
pub fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    out.reserve(data.len() + CHUNK_FRAME_BYTES_MAX);
    chunk_head(out, data.len());
    out.extend_from_slice(data);
    chunk_tail(out);
}

/// Appends the size line of a chunk of `len` bytes, which must not be 0; then follow the bytes and
/// [`chunk_tail`].
pub fn chunk_head(out: &mut Vec<u8>, len: usize) {
    debug_assert!(len > 0, "a chunk of no bytes ends the body: use last_chunk");
    let digits = (usize::BITS - (len | 1).leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[len >> (digit * 4) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunk.
pub fn chunk_tail(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body, with `trailers` if there are any.
///
/// Trailers that would frame or route a message, or are of one connection, are left out (RFC 9110 section 6.5.1).
pub fn last_chunk(out: &mut Vec<u8>, trailers: Option<&Headers>) {
    out.extend_from_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        trailers.lines().write_to(out, TRAILER_FIELDS);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `100 Continue`: the client may send its body (RFC 9110 section 10.1.1).
pub fn continue_100(out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
}

/// Whether a response of this status never has a body: 1xx, 204, 304 (RFC 9112 section 6.3).
#[inline]
pub fn forbids_body(status: StatusCode) -> bool {
    let code = status.as_u16();
    code < 200 || code == 204 || code == 304
}

#[inline(never)]
fn connection(out: &mut Vec<u8>, status: StatusCode, keep_alive: bool) {
    let value: &[u8] = match status {
        StatusCode::SWITCHING_PROTOCOLS => b"upgrade",
        _ if keep_alive => b"keep-alive",
        _ => b"close",
    };
    out.extend_from_slice(b"connection: ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn content_length(out: &mut Vec<u8>, length: u64) -> Framing {
    out.extend_from_slice(LENGTH_NAME);
    length_line_end(out, length);
    Framing::Length(length)
}

#[inline]
fn length_line_end(out: &mut Vec<u8>, length: u64) {
    if length < 1_000_000 {
        short_line_end(out, length as u32);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a number of at most six digits and CR LF. They fit one word, which is built from its end and written at
/// once.
#[inline]
fn short_line_end(out: &mut Vec<u8>, mut number: u32) {
    let mut word = u64::from_le_bytes(*b"\r\n\0\0\0\0\0\0");
    let mut bytes = 2;
    loop {
        if number < 10 {
            word = word << 8 | u64::from(b'0' + number as u8);
            bytes += 1;
            break;
        }
        word = word << 16 | u64::from(u16::from_le_bytes(PAIRS[number as usize % 100]));
        bytes += 2;
        number /= 100;
        if number == 0 {
            break;
        }
    }
    let end = out.len() + bytes;
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

/// The digits of 0 to 99.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[inline]
fn status_line(out: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        out.extend_from_slice(OK_LINE);
    } else {
        other_status_line(out, status);
    }
}

#[inline(never)]
fn other_status_line(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    // The space stays even where there is no reason (RFC 9112 section 4).
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Fields that the encoder writes itself in a response, and fields without a meaning in HTTP/1.1.
const FRAMING_FIELDS: Kinds = Kinds::of(&[
    Kind::ContentLength,
    Kind::TransferEncoding,
    Kind::Connection,
    Kind::KeepAlive,
    Kind::ProxyConnection,
]);

/// Fields that the encoder writes itself in a request.
const REQUEST_FIELDS: Kinds = Kinds::of(&[
    Kind::ContentLength,
    Kind::TransferEncoding,
    Kind::Host,
    Kind::KeepAlive,
    Kind::ProxyConnection,
]);

/// Fields that are never trailers.
const TRAILER_FIELDS: Kinds = REQUEST_FIELDS.with(Kinds::of(&[Kind::Connection]));

/// The status line that most responses have.
pub(crate) const OK_LINE: &[u8; 17] = b"HTTP/1.1 200 OK\r\n";

/// The name of the field that the encoder writes behind the caller's fields.
pub(crate) const LENGTH_NAME: &[u8; 16] = b"content-length: ";

/// `HTTP/1.1 200 OK\r\n` to the longest canonical reason.
const STATUS_LINE_BYTES_USUAL: usize = 64;

/// Date, length or coding, connection, empty line.
const ADDED_BYTES_MAX: usize = 37 + 38 + 24 + 32;

/// 16 digits and twice CR LF.
const CHUNK_FRAME_BYTES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StaticHeader;

    fn parts(headers: &Headers) -> ResponseParts<'_> {
        ResponseParts {
            status: StatusCode::OK,
            headers,
            framing: Framing::Length(5),
            stated_length: None,
            version: Version::HTTP_11,
            keep_alive: true,
            answers_head: false,
            date: None,
        }
    }

    fn encoded(parts: &ResponseParts<'_>) -> (String, Commitment) {
        let mut out = Vec::new();
        let commitment = response_head(&mut out, parts);
        (String::from_utf8(out).expect("ASCII"), commitment)
    }

    #[test]
    fn framing_fields_of_the_caller_are_left_out() {
        let mut headers = Headers::new();
        for (name, value) in
            [("content-length", "99"), ("x", "y"), ("transfer-encoding", "gzip"), ("keep-alive", "1")]
        {
            headers.append(name, value).expect("valid");
        }
        let (head, _) = encoded(&parts(&headers));
        assert_eq!(head, "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 5\r\n\r\n");
    }

    #[test]
    fn the_usual_answer_is_the_same_as_others() {
        static PLAIN: StaticHeader = StaticHeader::new("content-type: text/plain");
        let mut usual = Headers::new();
        usual.append_static(&PLAIN);
        let mut other = Headers::new();
        other.append("content-type", "text/plain").expect("valid");
        assert!(usual.ok_beginning().is_some() && other.ok_beginning().is_none());
        let date = DateLine::new().line(std::time::UNIX_EPOCH).to_vec();
        for keep_alive in [true, false] {
            for version in [Version::HTTP_10, Version::HTTP_11] {
                for answers_head in [true, false] {
                    for status in [StatusCode::OK, StatusCode::NO_CONTENT] {
                        let date = Some(&date[..]);
                        let usual = parts(&usual);
                        let usual =
                            ResponseParts { status, version, keep_alive, answers_head, date, ..usual };
                        let other = ResponseParts { headers: &other, ..usual };
                        assert_eq!(encoded(&usual), encoded(&other), "{usual:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn static_fields_that_mean_something_are_heeded() {
        static CLOSE: StaticHeader = StaticHeader::new("connection: close");
        let mut headers = Headers::new();
        headers.append_static(&CLOSE);
        let (head, commitment) = encoded(&parts(&headers));
        assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n");
        assert!(!commitment.keep_alive);
    }

    #[test]
    fn lengths_have_all_their_digits() {
        let around = |power: u64| [power - 1, power, power + 1];
        let powers = (0..=9).map(|digits| 10_u64.pow(digits)).flat_map(around);
        for length in powers.chain([54_321, 123_456, u64::MAX]) {
            let headers = Headers::new();
            let (head, _) = encoded(&ResponseParts { framing: Framing::Length(length), ..parts(&headers) });
            assert_eq!(head, format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"));
        }
    }

    #[test]
    fn a_http10_client_gets_no_chunks() {
        let headers = Headers::new();
        let old = ResponseParts { version: Version::HTTP_10, framing: Framing::Chunked, ..parts(&headers) };
        let (head, commitment) = encoded(&old);
        assert_eq!(head, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
        assert_eq!(commitment, Commitment { framing: Framing::UntilClose, keep_alive: false });
    }

    #[test]
    fn a_http10_client_is_told_that_it_may_stay() {
        let headers = Headers::new();
        let (head, commitment) = encoded(&ResponseParts { version: Version::HTTP_10, ..parts(&headers) });
        assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\n");
        assert!(commitment.keep_alive);
    }

    #[test]
    fn statuses_without_body_have_no_length() {
        let headers = Headers::new();
        for (status, line) in
            [(StatusCode::NO_CONTENT, "204 No Content"), (StatusCode::NOT_MODIFIED, "304 Not Modified")]
        {
            let (head, commitment) = encoded(&ResponseParts { status, ..parts(&headers) });
            assert_eq!(head, format!("HTTP/1.1 {line}\r\n\r\n"));
            assert_eq!(commitment.framing, Framing::None);
        }
    }

    #[test]
    fn a_205_says_that_it_is_empty() {
        let headers = Headers::new();
        let (head, commitment) =
            encoded(&ResponseParts { status: StatusCode::RESET_CONTENT, ..parts(&headers) });
        assert_eq!(head, "HTTP/1.1 205 Reset Content\r\ncontent-length: 0\r\n\r\n");
        assert!(commitment.framing.is_empty());
    }

    #[test]
    fn an_answer_to_head_has_the_length_and_no_body() {
        let headers = Headers::new();
        let (head, commitment) = encoded(&ResponseParts { answers_head: true, ..parts(&headers) });
        assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
        assert_eq!(commitment, Commitment { framing: Framing::None, keep_alive: true });
    }

    #[test]
    fn a_stated_length_stands_only_where_no_body_follows() {
        let headers = Headers::new();
        let stated = ResponseParts { framing: Framing::None, stated_length: Some(7), ..parts(&headers) };
        let (head, commitment) = encoded(&ResponseParts { answers_head: true, ..stated });
        assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n");
        assert_eq!(commitment, Commitment { framing: Framing::None, keep_alive: true });
        let (head, commitment) = encoded(&ResponseParts { status: StatusCode::NOT_MODIFIED, ..stated });
        assert_eq!(head, "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n");
        assert_eq!(commitment.framing, Framing::None);
        let (head, _) = encoded(&ResponseParts { status: StatusCode::NO_CONTENT, ..stated });
        assert_eq!(head, "HTTP/1.1 204 No Content\r\n\r\n");
        let (head, _) = encoded(&stated);
        assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        let unknown = ResponseParts { answers_head: true, stated_length: None, ..stated };
        assert_eq!(encoded(&unknown).0, "HTTP/1.1 200 OK\r\n\r\n");
    }

    #[test]
    fn lengths_of_any_size_are_written_in_full() {
        let headers = Headers::new();
        for length in (0..=20).map(|power| 10u64.saturating_pow(power)).flat_map(|n| [n - 1, n]) {
            let (head, _) = encoded(&ResponseParts { framing: Framing::Length(length), ..parts(&headers) });
            assert_eq!(head, format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"));
        }
    }

    #[test]
    fn the_date_of_the_caller_wins() {
        let mut headers = Headers::new();
        let date = Some(&b"date: now\r\n"[..]);
        assert!(encoded(&ResponseParts { date, ..parts(&headers) }).0.contains("date: now\r\n"));
        headers.append("Date", "then").expect("valid");
        let (head, _) = encoded(&ResponseParts { date, ..parts(&headers) });
        assert!(head.contains("Date: then\r\n") && !head.contains("now"));
    }

    #[test]
    fn close_among_the_fields_closes() {
        let mut headers = Headers::new();
        headers.append("Connection", "Close").expect("valid");
        let (head, commitment) = encoded(&parts(&headers));
        assert_eq!(head, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n");
        assert!(!commitment.keep_alive);
    }

    #[test]
    fn unknown_statuses_have_an_empty_reason() {
        let headers = Headers::new();
        let status = StatusCode::from_u16(299).expect("three digits");
        assert!(encoded(&ResponseParts { status, ..parts(&headers) }).0.starts_with("HTTP/1.1 299 \r\n"));
    }

    #[test]
    fn requests_are_refused_before_they_break_apart() {
        let mut out = Vec::new();
        let headers = Headers::new();
        let mut encode =
            |target, host| request_head(&mut out, &Method::GET, target, host, &headers, Framing::None);
        assert_eq!(encode("/a b", "h"), Err(EncodeError::Target));
        assert_eq!(encode("/\r\nx: y", "h"), Err(EncodeError::Target));
        assert_eq!(encode("", "h"), Err(EncodeError::Target));
        assert_eq!(encode("/", "h\r\nx: y"), Err(EncodeError::Host));
        assert_eq!(encode("/", "h"), Ok(()));
        assert_eq!(out, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n");
    }

    #[test]
    fn chunks_have_sizes_in_hexadecimal() {
        let mut out = Vec::new();
        chunk(&mut out, &[b'x'; 26]);
        chunk(&mut out, b"");
        let mut trailers = Headers::new();
        trailers.append("sum", "1").expect("valid");
        trailers.append("content-length", "1").expect("valid");
        trailers.append("connection", "sum").expect("valid");
        last_chunk(&mut out, Some(&trailers));
        assert_eq!(out, [b"1a\r\n", &[b'x'; 26][..], b"\r\n0\r\nsum: 1\r\n\r\n"].concat());
        for len in [1, 15, 16, 255, 256, 65_535, usize::MAX] {
            out.clear();
            chunk_head(&mut out, len);
            assert_eq!(out, format!("{len:x}\r\n").into_bytes());
        }
    }
}
