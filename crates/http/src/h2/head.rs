//! Header blocks into heads, and what makes a head malformed (RFC 9113 section 8).

use std::sync::Arc;

use http::{Method, StatusCode, Version};

use super::hpack::{Block, Decoder, Entry, Line};
use super::{Abuse, EngineLimits, Error, MessageFault, Protocol};
use crate::h1::DecodeError;
use crate::headers::{Appender, Field, Kind, is_protocol};
use crate::message::{RequestHeadInner, ResponseHeadInner, is_host, is_host_and_port, is_scheme, is_target};
use crate::{HeadLimits, Headers, RequestHead, ResponseHead, free_list, h1};

/// Makes heads of header blocks.
#[derive(Debug)]
pub(super) struct HeadDecoder {
    hpack: Decoder,
    limits: Arc<EngineLimits>,
}

/// What one block may hold.
#[derive(Clone, Copy, Debug)]
struct Max {
    bytes: usize,
    fields: usize,
    of_trailers: bool,
}

/// The facts that the engine needs of each head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    pub(super) length: Option<u64>,
}

/// What was made of a header block. The outer error ends the connection, the inner one its stream alone: the whole block was decoded.
pub(super) type Decoded<T> = Result<Result<T, Refusal>, Error>;

/// Why a header block is no head, or no trailers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refusal {
    /// It breaks a rule.
    Malformed(MessageFault),
    /// It is above a limit.
    TooLarge(TooLarge),
}

/// A header block above a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooLarge {
    pub(super) limit: DecodeError,
    /// It is a request whose method is known to be HEAD.
    pub(super) asks_head: bool,
}

impl Refusal {
    fn too_large(limit: DecodeError) -> Self {
        Self::TooLarge(TooLarge { limit, asks_head: false })
    }

    /// That of a request with this method.
    fn of(self, method: &Method) -> Self {
        match self {
            Self::Malformed(_) => self,
            Self::TooLarge(large) => Self::TooLarge(TooLarge { asks_head: *method == Method::HEAD, ..large }),
        }
    }
}

impl From<MessageFault> for Refusal {
    fn from(fault: MessageFault) -> Self {
        Self::Malformed(fault)
    }
}

/// What has been seen of a block.
#[derive(Debug, Default)]
struct Seen {
    bytes: usize,
    refusal: Option<Refusal>,
    length: Option<u64>,
    cookies: usize,
    hosts: usize,
}

impl HeadDecoder {
    pub(super) fn new(limits: Arc<EngineLimits>, table_bytes: usize) -> Self {
        Self { hpack: Decoder::new(table_bytes), limits }
    }

    fn of_head(&self) -> Max {
        Max {
            bytes: self.limits.head.bytes,
            fields: self.limits.head.fields.min(HeadLimits::FIELDS_MAX),
            of_trailers: false,
        }
    }

    fn of_trailers(&self) -> Max {
        let HeadLimits { trailer_bytes, trailer_fields, .. } = self.limits.head;
        Max { bytes: trailer_bytes, fields: trailer_fields.min(HeadLimits::FIELDS_MAX), of_trailers: true }
    }

    /// Decodes the head of a request.
    pub(super) fn request(&mut self, block: &[u8]) -> Decoded<(RequestHead, Facts)> {
        let mut parts = free_list::take::<RequestHeadInner>();
        let RequestHeadInner { headers, path, authority, scheme, method, version, extensions } = &mut *parts;
        *version = Version::HTTP_2;
        // An empty one counts, too.
        let [mut has_method, mut has_scheme, mut has_authority, mut has_path] = [false; 4];
        let mut protocol = None;
        let first = |has: &mut bool| !std::mem::replace(has, true);
        let seen = self.fields(block, headers, self.of_head(), |name, value| {
            match name {
                b":method" if first(&mut has_method) => {
                    if value != b"GET" {
                        *method = Method::from_bytes(value).map_err(|_| MessageFault::Method)?;
                    }
                }
                b":scheme" if first(&mut has_scheme) => match value {
                    b"http" => scheme.push_str("http"),
                    b"https" => scheme.push_str("https"),
                    _ => scheme.push_str(text(value)?),
                },
                b":authority" if first(&mut has_authority) => authority.push_str(text(value)?),
                b":path" if first(&mut has_path) => path.push_str(text(value)?),
                b":protocol" if protocol.is_none() && is_protocol(text(value)?) => {
                    protocol = Some(Protocol(text(value)?.into()))
                }
                _ => return Err(MessageFault::RequestPseudo),
            }
            Ok(())
        })?;
        if let Some(refusal) = seen.refusal {
            return Ok(Err(refusal.of(method)));
        }
        if path.len().max(authority.len()) > self.limits.head.target_bytes {
            let limit = DecodeError::StartLineTooLong { limit: self.limits.head.target_bytes };
            return Ok(Err(Refusal::too_large(limit).of(method)));
        }
        let is_connect = *method == Method::CONNECT;
        if protocol.is_some() && !(is_connect && self.limits.connection.extended_connect) {
            return Ok(Err(MessageFault::Protocol.into()));
        }
        let is_tunnel = is_connect && protocol.is_none();
        let target_fits = if is_tunnel {
            !has_path && !has_scheme && is_host_and_port(authority)
        } else {
            let is_path = path.starts_with('/') || (*method == Method::OPTIONS && path == "*");
            is_scheme(scheme) && is_path && is_target(path)
        };
        if !has_method || !target_fits {
            return Ok(Err(MessageFault::Target.into()));
        }
        if (seen.hosts > 0 || authority.is_empty()) && !host_agrees(headers, seen.hosts, authority) {
            return Ok(Err(MessageFault::Host.into()));
        }
        if seen.cookies > 1 {
            join_cookies(headers);
        }
        if let Some(protocol) = protocol {
            extensions.insert(protocol);
        }
        Ok(Ok((RequestHead::from_parts(parts), Facts { length: seen.length })))
    }

    /// Decodes the head of a response, perhaps an interim one.
    pub(super) fn response(&mut self, block: &[u8]) -> Decoded<(ResponseHead, Facts)> {
        let mut parts = free_list::take::<ResponseHeadInner>();
        parts.version = Version::HTTP_2;
        let mut status = None;
        let seen = self.fields(block, &mut parts.headers, self.of_head(), |name, value| {
            if name != b":status" || status.is_some() {
                return Err(MessageFault::ResponsePseudo);
            }
            status = Some(StatusCode::from_bytes(value).map_err(|_| MessageFault::Status)?);
            Ok(())
        })?;
        if let Some(refusal) = seen.refusal {
            return Ok(Err(refusal));
        }
        let Some(status) = status else { return Ok(Err(MessageFault::NoStatus.into())) };
        // The protocol changes by an extended CONNECT, and not by a 101 (RFC 9113 section 8.6).
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Err(MessageFault::SwitchingProtocols.into()));
        }
        parts.status = status;
        Ok(Ok((ResponseHead::from_parts(parts), Facts { length: seen.length })))
    }

    /// Decodes trailers.
    pub(super) fn trailers(&mut self, block: &[u8]) -> Decoded<Headers> {
        let mut headers = Headers::new();
        let max = self.of_trailers();
        let seen = self.fields(block, &mut headers, max, |_, _| Err(MessageFault::TrailersPseudo))?;
        if seen.refusal.is_none() && (seen.hosts > 0 || seen.length.is_some()) {
            return Ok(Err(MessageFault::TrailersField.into()));
        }
        Ok(seen.refusal.map_or(Ok(headers), Err))
    }

    /// Decodes a block whose stream is gone, to keep the table what the peer thinks it is.
    pub(super) fn skip(&mut self, block: &[u8]) -> Result<(), Error> {
        self.fields(block, &mut Headers::new(), self.of_head(), |_, _| Ok(())).map(|_| ())
    }

    /// Decodes all fields of a block. Pseudo-header fields go to `pseudo`, which may refuse them; all others to `headers`.
    /// After a refusal the rest is decoded all the same.
    #[inline]
    fn fields(
        &mut self,
        block: &[u8],
        headers: &mut Headers,
        max: Max,
        mut pseudo: impl FnMut(&[u8], &[u8]) -> Result<(), MessageFault>,
    ) -> Result<Seen, Error> {
        let mut block = Block::new(block);
        let mut seen = Seen::default();
        let mut lines = headers.appender();
        loop {
            // Most of them are entries of the table, and read there.
            if lines.len() == 0
                && let Some(entry) = self.hpack.next_pseudo(&mut block)?
            {
                seen.count(&entry, 0, max, &self.limits.head)?;
                seen.take(entry.name, || {
                    if entry.is_valid {
                        pseudo(entry.name, entry.value)
                    } else {
                        Err(MessageFault::Authority)
                    }
                });
                continue;
            }
            let start = lines.bytes.len();
            let Some(line) = self.hpack.next(&mut block, lines.bytes)? else { return Ok(seen) };
            let entry = line.entry(lines.bytes);
            seen.count(&entry, lines.len(), max, &self.limits.head)?;
            if seen.refusal.is_some() || entry.is_pseudo() {
                seen.take(entry.name, || match lines.len() {
                    0 if entry.is_valid => pseudo(entry.name, entry.value),
                    0 => Err(MessageFault::Authority),
                    _ => Err(MessageFault::PseudoBehindOthers),
                });
                lines.bytes.truncate(start);
            } else if let Err(fault) = seen.field(&line, &mut lines) {
                seen.refusal = Some(fault.into());
            }
        }
    }
}

impl Seen {
    /// Counts a field behind so many others, and refuses a block that is larger than it may be.
    #[inline]
    fn count(
        &mut self,
        entry: &Entry<'_>,
        before: usize,
        max: Max,
        limits: &HeadLimits,
    ) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(entry.size());
        if self.bytes > max.bytes || (before >= max.fields && !entry.is_pseudo()) {
            self.refuse_above(max, entry.name, entry.value, before, limits.target_bytes);
            // A few bytes can name large entries of the table again and again.
            let limit = limits.bytes.max(max.bytes);
            if self.bytes / DECODED_TIMES_MAX > limit {
                return Err(Error::Excess { what: Abuse::HeadBytes, limit });
            }
        }
        Ok(())
    }

    /// Takes a pseudo-header field, unless the block was refused.
    #[inline]
    fn take(&mut self, name: &[u8], pseudo: impl FnOnce() -> Result<(), MessageFault>) {
        // Whether a response to it has content depends on the method, wherever that stands.
        if self.refusal.is_some() && name != b":method" {
            return;
        }
        if let Err(fault) = pseudo() {
            self.refusal.get_or_insert(fault.into());
        }
    }

    /// Refuses a block that this field makes larger than it may be, unless it is a piece of a cookie that has begun: all of
    /// these are one field (RFC 9113 section 8.2.3).
    #[cold]
    fn refuse_above(&mut self, max: Max, name: &[u8], value: &[u8], fields: usize, target_bytes: usize) {
        let pieces = self.cookies.saturating_sub(1);
        let is_piece = self.cookies > 0 && name == b"cookie";
        if self.bytes <= max.bytes && (is_piece || fields - pieces < max.fields) {
            return;
        }
        let (bytes, fields) = (max.bytes, max.fields);
        self.refusal.get_or_insert(Refusal::too_large(match max.of_trailers {
            false if name == b":path" && value.len() > target_bytes => {
                DecodeError::StartLineTooLong { limit: target_bytes }
            }
            false if self.bytes > bytes => DecodeError::HeadTooLarge { limit: bytes },
            false => DecodeError::TooManyHeaders { limit: fields },
            true if self.bytes > bytes => DecodeError::TrailersTooLarge { limit: bytes },
            true => DecodeError::TooManyTrailers { limit: fields },
        }));
    }

    /// Checks and records a field.
    #[inline]
    fn field(&mut self, line: &Line, lines: &mut Appender<'_>) -> Result<(), MessageFault> {
        let (name, value) = (&lines.bytes[line.name.clone()], &lines.bytes[line.value.clone()]);
        if !line.is_valid {
            return Err(MessageFault::Field);
        }
        match line.kind {
            Kind::Other if name == b"cookie" => self.cookies += 1,
            Kind::Other => {}
            Kind::Te if !value.eq_ignore_ascii_case(b"trailers") => {
                return Err(MessageFault::Te);
            }
            Kind::Connection
            | Kind::KeepAlive
            | Kind::ProxyConnection
            | Kind::TransferEncoding
            | Kind::Upgrade => return Err(MessageFault::ConnectionField),
            Kind::Host => self.hosts += 1,
            Kind::ContentLength => {
                // Two that are equal as well, as over HTTP/1 (RFC 9110 section 8.6).
                if self.length.is_some() {
                    return Err(MessageFault::TwoLengths);
                }
                self.length = Some(h1::decimal(value).ok_or(MessageFault::Length)?);
            }
            Kind::Te | Kind::Date | Kind::Expect => {}
        }
        lines.push(Field {
            start: line.name.start as u32,
            value: line.value.start as u32,
            value_len: line.value.len() as u32,
            // A name that is longer than the limit of heads is refused before.
            name_len: u16::try_from(line.name.len()).map_err(|_| MessageFault::NameTooLong)?,
            kind: line.kind,
            is_sensitive: line.is_never_indexed,
        });
        Ok(())
    }
}

/// The value of a pseudo-header field.
#[inline]
fn text(value: &[u8]) -> Result<&str, MessageFault> {
    str::from_utf8(value).map_err(|_| MessageFault::PseudoNoText)
}

/// Whether there is one `Host` and it is the authority, or takes its place (RFC 9113 section 8.3.1).
#[cold]
fn host_agrees(headers: &Headers, hosts: usize, authority: &mut String) -> bool {
    let host = headers.value_of(Kind::Host).and_then(|host| str::from_utf8(host).ok());
    let Some(host) = host.filter(|host| hosts == 1 && !host.is_empty() && is_host(host.as_bytes())) else {
        return false;
    };
    if authority.is_empty() {
        authority.push_str(host);
    }
    host.eq_ignore_ascii_case(authority)
}

/// A client may send a cookie in pieces, each a field (RFC 9113 section 8.2.3).
#[cold]
fn join_cookies(headers: &mut Headers) {
    let joined = headers.get_all("cookie").collect::<Vec<_>>().join(&b"; "[..]);
    let is_sensitive = headers.iter_marked().any(|(name, _, is_sensitive)| is_sensitive && name == "cookie");
    // Its pieces were values, so it is one.
    if headers.insert("cookie", joined).is_ok() && is_sensitive {
        headers.mark_last_sensitive();
    }
}

/// How much larger than its limit a head may be before the connection ends. Below that it costs its own stream.
const DECODED_TIMES_MAX: usize = 4;
