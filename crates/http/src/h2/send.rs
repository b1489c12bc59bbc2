//! Heads, data and resets on their way out.

use anywire_advice::Advice;
use http::StatusCode;

use super::fields::Fields;
use super::frame::{self, HEAD_BYTES, STREAM_ID_MAX, flag, kind};
use super::hpack::{ENTRY_OVERHEAD_BYTES, Encoder};
use super::settings::FRAME_BYTES_MIN;
use super::stream::{Half, StreamKind, Turn};
use super::{Code, Engine, Protocol, StreamId};
use crate::headers::{Kind, is_protocol};
use crate::message::{is_host, is_host_and_port, is_scheme, is_target};
use crate::{DateLine, Headers, Method, RequestHead};

/// The parts of a response head.
#[derive(Clone, Copy, Debug)]
pub struct ResponseParts<'a> {
    /// The status.
    pub status: StatusCode,
    /// The caller's fields. `Content-Length` is written from `length` alone, and fields that concern one connection
    /// are left out.
    pub headers: &'a Headers,
    /// The length to state.
    pub length: Option<u64>,
    /// A ready `date: ...\r\n` line ([`crate::DateLine`]), used unless `headers` hold a `Date`.
    pub date: Option<&'a [u8; DateLine::BYTES]>,
}

impl<'a> ResponseParts<'a> {
    /// A head without length and date.
    pub fn new(status: StatusCode, headers: &'a Headers) -> Self {
        Self { status, headers, length: None, date: None }
    }
}

/// The parts of a request head.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// The method. CONNECT has neither scheme nor path, unless there is a `protocol`.
    pub method: &'a Method,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port. A CONNECT without `protocol` needs both; else the port may be left out.
    pub authority: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// The protocol that an extended CONNECT asks for (RFC 8441).
    pub protocol: Option<&'a Protocol>,
    /// The caller's fields. `Host` and fields that concern one connection are left out, and `Content-Length` is written
    /// from `length` alone.
    pub headers: &'a Headers,
    /// The length to state.
    pub length: Option<u64>,
}

/// A head or trailers that were not sent: nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsent {
    /// The stream is gone, or its head was sent already.
    #[error("sending on a stream: it has ended, or its head was sent before")]
    Gone,
    /// The peer takes no fields of this size (`SETTINGS_MAX_HEADER_LIST_SIZE`). Their maker is at fault.
    #[error(
        "sending on a stream: its fields have {bytes} bytes, and the peer takes {limit}{help}",
        help = Advice("send fewer or shorter ones")
    )]
    TooLarge {
        /// Bytes of all names and values, and 32 more for each field (RFC 9113 section 6.5.2).
        bytes: usize,
        /// What the peer takes.
        limit: usize,
    },
}

/// A request that cannot be sent on this connection now: nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The peer takes no more streams at once, or the connection ends: [`Engine::slots`] is 0. Wait, or take another one.
    #[error(
        "opening a stream: the peer takes no more of them now{help}",
        help = Advice("wait, or take another connection")
    )]
    Slots,
    /// The head names no scheme, no authority or no path, or it is a CONNECT that names no host and port (RFC 9113 section 8.5). The
    /// caller is at fault.
    #[error(
        "opening a stream: the request names no scheme, no authority or no path, or no host and port for CONNECT{help}",
        help = Advice("set its origin and its path, or for CONNECT host:port as its target")
    )]
    Origin,
    /// It is an extended CONNECT, which the peer has not allowed (RFC 8441).
    #[error("opening a stream: the peer has not allowed an extended CONNECT")]
    ExtendedConnect,
    /// The protocol of its extended CONNECT is not the name of one. The caller is at fault.
    #[error("opening a stream: its protocol is no name such as `websocket`")]
    Protocol,
    /// The peer takes no head of this size (`SETTINGS_MAX_HEADER_LIST_SIZE`). The caller is at fault.
    #[error(
        "opening a stream: its head has {bytes} bytes, and the peer takes {limit}{help}",
        help = Advice("send fewer or shorter fields")
    )]
    TooLarge {
        /// Bytes of all names and values, and 32 more for each field (RFC 9113 section 6.5.2).
        bytes: usize,
        /// What the peer takes.
        limit: usize,
    },
}

impl Engine {
    /// How many more streams the peer takes now: what the pool of a client asks.
    pub fn slots(&self) -> usize {
        if self.is_server
            || self.has_failed()
            || self.last_of_peer.is_some()
            || self.next_of_ours > STREAM_ID_MAX
        {
            return 0;
        }
        self.peer.streams.saturating_sub(self.open)
    }

    /// Opens a stream by a request. `length` is stated; `end` says that there is no body.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn open(
        &mut self,
        head: &RequestHead,
        length: Option<u64>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Refused> {
        let protocol = head.extensions().get::<Protocol>();
        self.may_open(protocol)?;
        let authority = head.host().ok_or(Refused::Origin)?;
        let scheme = head.scheme();
        let is_tunnel = *head.method() == Method::CONNECT && protocol.is_none();
        if !is_tunnel && (scheme.is_none() || head.path_and_query().is_empty()) {
            return Err(Refused::Origin);
        }
        let parts = RequestParts {
            method: head.method(),
            scheme: scheme.unwrap_or_default(),
            authority,
            path: head.path_and_query(),
            protocol,
            headers: head.headers(),
            length,
        };
        self.open_parts(&parts, end, out)
    }

    /// As [`open`](Self::open), of the parts of a head. Scheme, authority and path are those of a [`crate::Url`] or of a
    /// [`RequestHead`], which have checked them.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn open_parts(
        &mut self,
        parts: &RequestParts<'_>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<StreamId, Refused> {
        self.may_open(parts.protocol)?;
        let is_connect = *parts.method == Method::CONNECT;
        let is_tunnel = is_connect && parts.protocol.is_none();
        // Not what a URL or a head has checked: the head may have changed its method, and the authority may be its `Host`.
        if is_tunnel && !is_host_and_port(parts.authority) {
            return Err(Refused::Origin);
        }
        debug_assert!(is_host(parts.authority.as_bytes()), "{:?} is no authority", parts.authority);
        debug_assert!(is_tunnel || is_scheme(parts.scheme) && is_target(parts.path), "{parts:?}");
        let fields = Fields { headers: parts.headers, has_host: false, length: parts.length };
        let own = pseudo_bytes(parts, is_tunnel);
        if let Some(bytes) = fields.above(self.peer.list_bytes, own) {
            return Err(Refused::TooLarge { bytes, limit: self.peer.list_bytes });
        }
        let id = StreamId(self.next_of_ours);
        self.next_of_ours += 2;
        let stream = self.add(id, Half::Head, if end { Half::Ended } else { Half::Body });
        stream.kind = StreamKind::of(parts.method);
        self.send_block(id, end, out, |encoder, out| {
            encoder.pseudo(out, b":method", parts.method.as_str().as_bytes());
            if !is_tunnel {
                encoder.pseudo(out, b":scheme", parts.scheme.as_bytes());
                encoder.pseudo(out, b":path", parts.path.as_bytes());
            }
            encoder.pseudo(out, b":authority", parts.authority.as_bytes());
            if let Some(Protocol(protocol)) = parts.protocol {
                encoder.pseudo(out, b":protocol", protocol.as_bytes());
            }
            fields.encode(encoder, out);
        });
        Ok(id)
    }

    fn may_open(&self, protocol: Option<&Protocol>) -> Result<(), Refused> {
        match protocol {
            _ if self.slots() == 0 => Err(Refused::Slots),
            Some(_) if !self.peer.extended_connect => Err(Refused::ExtendedConnect),
            Some(Protocol(name)) if !is_protocol(name) => Err(Refused::Protocol),
            _ => Ok(()),
        }
    }

    /// Sends an interim response (1xx).
    ///
    /// # Errors
    ///
    /// [`Unsent`].
    pub fn inform(
        &mut self,
        id: StreamId,
        status: StatusCode,
        headers: &Headers,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        self.awaits_head(id)?;
        let fields = Fields { headers, has_host: true, length: None };
        self.takes(fields, STATUS_BYTES)?;
        self.send_block(id, false, out, |encoder, out| {
            encoder.status(out, status);
            fields.encode(encoder, out);
        });
        Ok(())
    }

    /// Sends the head of a response. `end` says that there is no body.
    ///
    /// # Errors
    ///
    /// [`Unsent`].
    pub fn respond(
        &mut self,
        id: StreamId,
        parts: &ResponseParts<'_>,
        end: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        self.awaits_head(id)?;
        let date = parts.date.filter(|_| !parts.headers.present().contains(Kind::Date));
        let fields = Fields { headers: parts.headers, has_host: true, length: parts.length };
        self.takes(fields, STATUS_BYTES + if date.is_some() { DATE_BYTES } else { 0 })?;
        self.send_block(id, end, out, |encoder, out| {
            encoder.status(out, parts.status);
            fields.encode(encoder, out);
            if let Some(date) = date {
                out.extend_from_slice(&DATE_LITERAL);
                out.extend_from_slice(&date[DATE_NAME_BYTES..DateLine::BYTES - 2]);
            }
        });
        if end {
            self.end_half(id, |stream| &mut stream.outgoing, out);
        } else if let Some(stream) = self.streams.get_mut(&id) {
            stream.outgoing = Half::Body;
        }
        Ok(())
    }

    /// Says whether the driver has data of this stream to send, which waits for its turn and for the windows. Nothing else does
    /// (RFC 9113 section 6.9.1): an end without data, trailers and a reset may be sent at any time.
    pub fn wants_to_send(&mut self, id: StreamId, wants: bool) {
        if let Some(stream) = self.streams.get_mut(&id) {
            if !wants {
                stream.leave_turn(id, &mut self.ready);
            } else if stream.turn != Turn::Queued {
                stream.turn = Turn::Wanted;
                self.queue(id);
            }
        }
        self.check();
    }

    /// Whether a whole body of this length may be sent right behind its head by [`Engine::data_head`], without a turn. It must
    /// fit one frame and both windows, and no other stream may wait to send.
    #[inline]
    pub fn may_send_at_once(&self, id: StreamId, length: usize) -> bool {
        let fits = |window: i64| length as i64 <= window;
        length <= FRAME_BYTES_MIN
            && fits(self.out_window)
            && self.ready.is_empty()
            && self.streams.get(&id).is_some_and(|stream| fits(stream.out_window))
    }

    /// Whether a stream has data to send, and a window of the peer's keeps it from that.
    pub fn is_blocked(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(|stream| {
            stream.turn != Turn::Idle && (stream.out_window <= 0 || self.out_window <= 0)
        })
    }

    /// Whether the peer lets this stream send data, were it the only one. A stream that [is blocked](Self::is_blocked) all the same
    /// waits for the window of the connection, which it shares with the others.
    pub fn has_window(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_some_and(|stream| stream.out_window > 0)
    }

    /// Whether the connection's window is used up: no stream may send data until the peer opens it again.
    pub fn is_window_closed(&self) -> bool {
        self.out_window <= 0
    }

    /// Whether unread bodies have used up the connection's window. If the peer sends nothing then, it is not at fault.
    pub fn keeps_peer_waiting(&self) -> bool {
        self.in_window.is_closed()
    }

    /// The stream whose turn it is to send data, and how much it may. Then say [`Engine::data_head`], or that it [wants
    /// nothing](Engine::wants_to_send). `None` if no stream has anything to send, or no window is open.
    pub fn next_to_send(&mut self) -> Option<(StreamId, usize)> {
        if self.out_window <= 0 || self.has_failed() {
            return None;
        }
        loop {
            let id = self.ready.pop()?;
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            stream.turn = Turn::Wanted;
            if stream.can_send() {
                let window = stream.out_window.min(self.out_window) as usize;
                return Some((id, window.min(FRAME_BYTES_MIN)));
            }
        }
    }

    /// Appends the head of a DATA frame, whose `length` bytes the caller appends. They are at most what
    /// [`Engine::next_to_send`] has said; none fit at any time. The stream gets another turn, unless this is its end.
    ///
    /// Does nothing if the stream is gone.
    ///
    /// # Panics
    ///
    /// If the data is longer than a frame may be, which is a mistake of the caller.
    #[inline]
    pub fn data_head(&mut self, id: StreamId, length: usize, end: bool, out: &mut Vec<u8>) {
        assert!(length <= FRAME_BYTES_MIN, "data_head({length}) is more than next_to_send gave");
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.outgoing == Half::Body) else {
            return;
        };
        frame::head(out, length, kind::DATA, if end { flag::END_STREAM } else { 0 }, id.0);
        stream.out_window -= length as i64;
        self.out_window -= length as i64;
        let mut earned = (length / BYTES_THAT_EARN) as u32;
        // What a window cut short earns nothing: a peer could ask for a body byte by byte (CVE-2019-9511).
        if length > 0 && stream.out_window > 0 && self.out_window > 0 {
            earned += EARNED_BY_PIECE;
        }
        self.idle_budget.earn(earned);
        if end {
            stream.leave_turn(id, &mut self.ready);
            self.end_half(id, |stream| &mut stream.outgoing, out);
        } else {
            self.queue(id);
        }
    }

    /// Sends the trailers of a body, which end it.
    ///
    /// # Errors
    ///
    /// [`Unsent`].
    pub fn send_trailers(
        &mut self,
        id: StreamId,
        trailers: &Headers,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsent> {
        if self.streams.get(&id).is_none_or(|stream| stream.outgoing != Half::Body) {
            return Err(Unsent::Gone);
        }
        let fields = Fields { headers: trailers, has_host: false, length: None };
        self.takes(fields, 0)?;
        self.send_block(id, true, out, |encoder, out| fields.encode(encoder, out));
        self.end_half(id, |stream| &mut stream.outgoing, out);
        Ok(())
    }

    /// Ends a stream with both of its halves, if it has not ended.
    pub fn reset(&mut self, id: StreamId, code: Code, out: &mut Vec<u8>) {
        match self.streams.get(&id) {
            Some(stream) if stream.has_ended() => self.remove(id, out),
            Some(_) => self.reset_stream(id, code, out),
            None => {}
        }
        self.check();
    }

    /// Says that so many bytes of a stream's body were read, so that the peer may send as many more.
    pub fn consumed(&mut self, id: StreamId, bytes: usize, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(stream.unread);
        stream.unread -= bytes;
        stream.in_window.free(bytes);
        self.in_window.free(bytes);
        stream.return_window(id, out);
        if stream.has_ended() && stream.unread == 0 {
            self.remove(id, out);
        }
        self.return_window(out);
        self.check();
    }

    /// Says that so many bytes of a stream's body were thrown away. The connection's window opens again for other streams. The
    /// stream's own does not, so that the peer cannot send much without a reader.
    pub fn discarded(&mut self, id: StreamId, bytes: usize, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(stream.unread);
        stream.unread -= bytes;
        stream.in_window.withhold(bytes);
        self.in_window.free(bytes);
        if stream.has_ended() && stream.unread == 0 {
            self.remove(id, out);
        }
        self.return_window(out);
        self.check();
    }

    fn awaits_head(&self, id: StreamId) -> Result<(), Unsent> {
        let awaits = self.streams.get(&id).is_some_and(|stream| stream.outgoing == Half::Head);
        if awaits { Ok(()) } else { Err(Unsent::Gone) }
    }

    /// Whether the peer takes these fields, beside others that count so many bytes.
    #[inline]
    fn takes(&self, fields: Fields<'_>, own_bytes: usize) -> Result<(), Unsent> {
        let limit = self.peer.list_bytes;
        fields.above(limit, own_bytes).map_or(Ok(()), |bytes| Err(Unsent::TooLarge { bytes, limit }))
    }

    /// Appends a header block, in as many frames as it takes.
    #[inline]
    fn send_block(
        &mut self,
        id: StreamId,
        end: bool,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    ) {
        let at = out.len();
        let flags = if end { flag::END_HEADERS | flag::END_STREAM } else { flag::END_HEADERS };
        frame::head(out, 0, kind::HEADERS, flags, id.0);
        self.encoder.begin(out);
        encode(&mut self.encoder, out);
        if out.len() - at - HEAD_BYTES > self.peer.frame_bytes {
            split(out, at, self.peer.frame_bytes, id);
        } else {
            frame::patch_length(out, at);
        }
    }
}

/// Cuts the block of the frame at `at` into several frames.
#[cold]
fn split(out: &mut Vec<u8>, at: usize, frame_bytes: usize, id: StreamId) {
    let block = out.split_off(at + HEAD_BYTES);
    let mut pieces = block.chunks(frame_bytes).peekable();
    out[at + 4] &= !flag::END_HEADERS;
    out.extend_from_slice(pieces.next().unwrap_or_default());
    frame::patch_length(out, at);
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
        frame::head(out, piece.len(), kind::CONTINUATION, flags, id.0);
        out.extend_from_slice(piece);
    }
}

/// What the pseudo-header fields of a request count.
fn pseudo_bytes(parts: &RequestParts<'_>, is_tunnel: bool) -> usize {
    let field = |name: &str, value: &str| name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
    let always = field(":method", parts.method.as_str()) + field(":authority", parts.authority);
    let of_target = if is_tunnel { 0 } else { field(":scheme", parts.scheme) + field(":path", parts.path) };
    always + of_target + parts.protocol.map_or(0, |Protocol(name)| field(":protocol", name))
}

/// `:status` and its three digits.
const STATUS_BYTES: usize = 10 + ENTRY_OVERHEAD_BYTES;

/// `date` and its value.
const DATE_BYTES: usize = 4 + DateLine::BYTES - 2 - DATE_NAME_BYTES + ENTRY_OVERHEAD_BYTES;

/// `date: ` in a [`DateLine`].
const DATE_NAME_BYTES: usize = 6;

/// A literal without indexing (RFC 7541 section 6.2.2) whose name is entry 33 of the static table, `date`, and the length of its
/// value. The line itself is made once a second for all connections, so that a date is a copy of 32 bytes.
///
/// By callgrind, instructions of a response's head (13 bytes of text, `content-type` in the table), those of our client to
/// read it, and bytes on the wire with the body:
///
/// | date, content type | to write | to read | bytes |
/// | --- | --- | --- | --- |
/// | this; one byte of the table | 765 | 3393 | 70 |
/// | by the encoder, as any field; one byte of the table | 935 | 3393 | 70 |
/// | one byte of the table each | 972 | 3288 | 39 |
/// | this; a literal | 750 | 3488 | 97 |
///
/// In the table each connection would also insert a date every second, and after a minute its other entries would be gone.
const DATE_LITERAL: [u8; 3] = [0x0f, 33 - 0x0f, (DateLine::BYTES - 2 - DATE_NAME_BYTES) as u8];

/// So much data earns a frame that moves nothing: peers open windows for what they have read.
const BYTES_THAT_EARN: usize = 512;

/// Frames that move nothing which a piece of a body makes up for: its two windows, and a PING to measure them. gRPC's core
/// opens both windows for each message.
const EARNED_BY_PIECE: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::Limits;

    /// RFC 9113 section 5.1.1. A connection has as many streams as there are numbers.
    #[test]
    fn numbers_of_streams_run_out() {
        #[allow(clippy::disallowed_methods, reason = "only differences count")]
        let now = std::time::Instant::now();
        let (mut out, mut input) = (Vec::new(), crate::Buffer::new());
        let mut client = Engine::client(Limits::default(), now, &mut out);
        input.fill_from(&[0, 0, 0, kind::SETTINGS, 0, 0, 0, 0, 0]);
        assert!(matches!(client.receive(now, &mut input, &mut out), Ok(None)));
        client.next_of_ours = STREAM_ID_MAX - 2;
        let mut head = RequestHead::new(Method::GET, "/").expect("a target");
        head.set_origin("http", "a").expect("an origin");
        for last in [STREAM_ID_MAX - 2, STREAM_ID_MAX] {
            assert!(client.slots() > 0);
            assert_eq!(client.open(&head, None, true, &mut out), Ok(StreamId(last)));
        }
        out.clear();
        assert_eq!((client.slots(), client.open(&head, None, true, &mut out)), (0, Err(Refused::Slots)));
        assert!(out.is_empty() && client.streams.contains_key(&StreamId(STREAM_ID_MAX)));
    }
}
