//! Messages into bytes, appended to the caller's `Vec<u8>` (RFC 9112).
//!
//! The encoder alone writes what frames a message: `Content-Length`, `Transfer-Encoding`, `Connection`. Such
//! fields of the caller's are left out, so that head and body cannot contradict each other.

use std::hint::cold_path;

use anywire_advice::Advice;
use http::{Method, StatusCode, Version};

use super::Framing;
use crate::headers::{Kind, Kinds};
use crate::message::{BodyLength, Content, Target, forbids_body, is_host, is_target};
use crate::{DateLine, Headers};

/// A response head, and how HTTP/1 is to frame what follows it.
#[derive(Clone, Copy, Debug)]
pub struct FramedHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The caller's fields. The encoder skips the fields that frame the message.
    pub headers: &'a Headers,
    /// The framing that fits the body; [`Framing::None`] counts as a length of 0.
    pub framing: Framing,
    /// The length that the head says although no body follows ([`crate::Body::stated_length`]). Used in a 304, and in
    /// a response to HEAD with a framing of [`Framing::None`]. Ignored elsewhere, because the body itself must follow.
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
    /// The target has none of the forms that its method may have (RFC 9112 section 3.2), or holds white space, a control character
    /// or a `#`. A URL has a host, and the target of CONNECT has host and port.
    #[error(
        "encoding a request: its target is none of /path, http://host/path, host:port (CONNECT), * (OPTIONS){help}",
        help = Advice("percent-encode white space, control characters and `#`")
    )]
    Target,
    /// The host is not `host` or `host:port`.
    #[error(
        "encoding a request: its host is no `host` or `host:port`{help}",
        help = Advice("give what stands between // and / of the URL")
    )]
    Host,
}

/// Appends a response head and tells how the body must follow.
///
/// Adds `Content-Length` or `Transfer-Encoding`, `Connection: close` if the connection ends, `Connection:
/// keep-alive` if a 1.0 client asked for it, `Connection: upgrade` beside an `Upgrade`, and the date. 1xx, 204 and 304
/// get neither length nor body, except that a 304 gets the length that is stated (RFC 9110 section 8.6). A `Connection:
/// close` among the caller's fields closes the connection.
// Or else one rare caller more moves it out of the usual one, which takes 24 instructions a response.
#[inline(always)]
pub fn response_head(out: &mut Vec<u8>, parts: &FramedHead<'_>) -> Commitment {
    // Most responses: 200, one field, a length.
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
fn other_response_head(out: &mut Vec<u8>, parts: FramedHead<'_>) -> Commitment {
    let FramedHead { status, headers, version, .. } = parts;
    let lines = headers.lines();
    out.reserve(STATUS_LINE_BYTES_USUAL + lines.bytes.len() + ADDED_BYTES_MAX);
    status_line(out, status);
    lines.write_to(out, FRAMING_FIELDS);

    // A 101 ends by this line anyway.
    if lines.present.contains(Kind::Upgrade) && status != StatusCode::SWITCHING_PROTOCOLS {
        cold_path();
        // The field is for this connection only (RFC 9110 section 7.8).
        out.extend_from_slice(b"connection: upgrade\r\n");
    }
    let closes = headers.has_token(Kind::Connection, "close");
    let mut keep_alive = parts.keep_alive && !closes;
    let content = Content::of(status, parts.answers_head, body_length(&parts));
    let framing = match (content.length, parts.framing) {
        (Some(length), _) => content_length(out, length),
        (None, Framing::Chunked) if content.is_allowed && version == Version::HTTP_11 => {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
            Framing::Chunked
        }
        (None, Framing::Chunked | Framing::UntilClose) if content.is_allowed => {
            keep_alive &= parts.answers_head;
            Framing::UntilClose
        }
        (None, _) => Framing::None,
    };
    // These end with their heads, whatever length they state.
    let framing = if forbids_body(status) { Framing::None } else { framing };
    finish(out, &parts, framing, keep_alive, lines.present)
}

/// What the head may say of the length of its body.
fn body_length(parts: &FramedHead<'_>) -> BodyLength {
    match parts.framing {
        Framing::None => BodyLength::Withheld(parts.stated_length),
        _ if parts.status == StatusCode::NOT_MODIFIED => BodyLength::Withheld(parts.stated_length),
        Framing::Length(length) => BodyLength::Known(length),
        Framing::Chunked | Framing::UntilClose => BodyLength::Unknown,
    }
}

/// Appends the end of a head: date, `Connection`, empty line. `present` are fields of the caller's that the encoder
/// knows.
#[inline]
fn finish(
    out: &mut Vec<u8>,
    parts: &FramedHead<'_>,
    framing: Framing,
    keep_alive: bool,
    present: Kinds,
) -> Commitment {
    let FramedHead { status, version, .. } = *parts;
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
/// of the caller's passes, and a `TE` or `Upgrade` that it does not name is named in another one.
///
/// # Errors
///
/// [`EncodeError`] if the target has no form of a target, or target or host would break the head apart; `out` is unchanged then.
#[inline]
pub fn request_head(
    out: &mut Vec<u8>,
    method: &Method,
    target: &str,
    host: &str,
    headers: &Headers,
    framing: Framing,
) -> Result<(), EncodeError> {
    let has_form = Target::is_origin_form(method, target) || Target::parse(method, target).is_some();
    if !is_target(target) || !has_form {
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
    let lines = headers.lines();
    lines.write_to(out, REQUEST_FIELDS);
    if lines.present.intersects(OF_THIS_CONNECTION) {
        options(out, headers);
    }
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

/// Appends the connection options of the fields that concern this connection alone, unless the caller's `Connection` has them.
/// A proxy that does not know such a field would pass it on without them (RFC 9110 sections 7.8 and 10.1.4).
#[cold]
fn options(out: &mut Vec<u8>, headers: &Headers) {
    for (kind, option) in [(Kind::Te, "te"), (Kind::Upgrade, "upgrade")] {
        if headers.present().contains(kind) && !headers.has_token(Kind::Connection, option) {
            out.extend_from_slice(b"connection: ");
            out.extend_from_slice(option.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
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

/// Appends an interim response (1xx other than 101), which the peer must be of HTTP/1.1 to take (RFC 9110 section 15.2). Fields that
/// frame a message are left out.
///
/// ```
/// use anywire_http::{Headers, StatusCode, h1::encode};
///
/// let mut hints = Headers::new();
/// hints.append("link", "</style.css>; rel=preload")?;
/// let mut out = Vec::new();
/// encode::interim(&mut out, StatusCode::EARLY_HINTS, &hints);
/// assert_eq!(out, b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n");
/// # Ok::<(), anywire_http::InvalidHeader>(())
/// ```
pub fn interim(out: &mut Vec<u8>, status: StatusCode, headers: &Headers) {
    other_status_line(out, status);
    headers.lines().write_to(out, FRAMING_FIELDS);
    out.extend_from_slice(b"\r\n");
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

/// Fields that go with an option of the same name in `Connection`.
const OF_THIS_CONNECTION: Kinds = Kinds::of(&[Kind::Te, Kind::Upgrade]);

/// Fields that are never trailers.
const TRAILER_FIELDS: Kinds = REQUEST_FIELDS.with(OF_THIS_CONNECTION).with(Kinds::of(&[Kind::Connection]));

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
mod tests;
