//! The state of a connection, and what passes time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::frame::{self, PREFACE, STREAM_ID_MAX};
use super::head::HeadDecoder;
use super::hpack::{DEFAULT_TABLE_BYTES, Encoder};
use super::limits::Budget;
use super::priority::{Priority, Ready};
use super::settings::{self, DEFAULT_WINDOW_BYTES, FRAME_BYTES_MIN, STREAMS_AT_FIRST, Settings, id};
use super::stream::{Half, Resets, Stream, StreamKind, Streams, Turn};
use super::window::InWindow;
use super::{Code, EngineLimits, Error, GoAway, Limits, MessageError, StreamId, Unacknowledged};
use crate::h1::DecodeError;
use crate::{Headers, RequestHead, ResponseHead};

/// The engine of one HTTP/2 connection.
///
/// After each filling of the buffer, call [`Engine::receive`] until it returns `None`. Then send what is ready
/// ([`Engine::next_to_send`]), and write everything at once. An error has ended the connection: write what is in the
/// output, and close.
#[derive(Debug)]
pub struct Engine {
    pub(super) is_server: bool,
    pub(super) limits: Arc<EngineLimits>,
    pub(super) incoming: Incoming,
    /// What the peer has said of itself.
    pub(super) peer: Settings,
    pub(super) heads: HeadDecoder,
    pub(super) encoder: Encoder,
    pub(super) streams: Streams,
    pub(super) ready: Ready,
    /// `None` before the first.
    pub(super) resets: Option<Box<Resets>>,
    /// What the peer may send on all streams.
    pub(super) in_window: InWindow,
    pub(super) out_window: i64,
    /// The newest stream of the peer, and the next one of ours.
    pub(super) newest_of_peer: u32,
    pub(super) next_of_ours: u32,
    /// Streams of the peer, or for a client its own, that have not ended.
    pub(super) open: usize,
    /// The last stream that the peer will process, if it has said `GOAWAY`.
    pub(super) last_of_peer: Option<u32>,
    pub(super) closing: Closing,
    pub(super) reset_budget: Budget,
    pub(super) idle_budget: Budget,
    /// The driver answers what is too large.
    pub(super) leaves_refusals: bool,
    settings_sent: Option<Instant>,
    /// When bytes of the peer have come last.
    pub(super) received_at: Instant,
    /// Bytes of the input that were there already when `receive` returned last, such as the beginning of a frame. They are no sign of life
    /// once more.
    pub(super) left_in_input: u32,
    ping_sent: Option<Instant>,
}

/// What the engine takes next out of the input.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The preface, of which so many bytes have come.
    Preface(usize),
    /// The first frame, which must be SETTINGS.
    First,
    Frame,
    /// The rest of a DATA frame.
    Data {
        id: StreamId,
        left: usize,
        padding: usize,
        end: bool,
    },
    /// The rest of a frame that has no meaning here.
    Skip(usize),
    /// A header block that goes on in CONTINUATION frames.
    Block {
        id: StreamId,
        end: bool,
        bytes: Vec<u8>,
        frames: usize,
    },
    Failed(Error),
}

/// How far the connection is from its end, as we have told the peer by `GOAWAY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    No,
    /// The peer was told to open no more streams; those on their way are still taken, until this time at the latest.
    Announced(Instant),
    /// No stream behind this one is taken.
    After(u32),
}

/// What has come. A stream whose `end` has come, or that was reset, sends nothing more.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'b> {
    /// A request. A server gets it first of each stream.
    Request {
        /// The stream.
        id: StreamId,
        /// The head, whose scheme and authority are those that the request has. An extended CONNECT has a [`Protocol`] in
        /// its extensions.
        head: RequestHead,
        /// The length that the head states.
        length: Option<u64>,
        /// There is no body.
        end: bool,
    },
    /// A response. A client gets it first of each stream, but for interim ones.
    Response {
        /// The stream.
        id: StreamId,
        /// The head.
        head: ResponseHead,
        /// The length that the head states.
        length: Option<u64>,
        /// There is no body.
        end: bool,
    },
    /// An interim response (1xx).
    Informational {
        /// The stream.
        id: StreamId,
        /// The head.
        head: ResponseHead,
    },
    /// A piece of a body, already taken out of the input. Empty only at its end.
    Data {
        /// The stream.
        id: StreamId,
        /// The bytes. Say [`Engine::consumed`] once they were read.
        data: &'b [u8],
        /// The body is complete.
        end: bool,
    },
    /// The trailers, which end a body.
    Trailers {
        /// The stream.
        id: StreamId,
        /// The fields.
        fields: Headers,
    },
    /// The stream is gone, with both of its halves: by the peer, or by us because of a fault of the peer. A server gets it
    /// also for a request that it has not got, because that was malformed, too large (`NO_ERROR`, as it was answered 431),
    /// or one stream too many.
    Reset {
        /// The stream.
        id: StreamId,
        /// Why. [`Code::REFUSED_STREAM`] says that the request was not processed.
        code: Code,
        /// The peer has said so. Else it has broken a rule, and was told so.
        by_peer: bool,
        /// What is wrong with what the peer has sent. `None` if the peer has reset it, or if it was one stream too many.
        why: Option<MessageError>,
    },
    /// A request whose head or trailers are larger than a limit, if [`Engine::leave_refusals`] was called. The driver answers
    /// it with [the status of the error](DecodeError::status), and resets the stream behind that (`NO_ERROR`). Nothing else
    /// comes of its head. If it is the trailers, nothing more comes of its body.
    Refused {
        /// The stream.
        id: StreamId,
        /// The limit.
        limit: DecodeError,
        /// The method is known to be HEAD: the response has no body.
        asks_head: bool,
    },
    /// The peer takes no streams behind [`last`](GoAway::last). Those that it had not processed follow as [`Event::Reset`].
    GoAway(GoAway),
}

/// The settings of a peer (RFC 9113 section 6.5.2), and its window for the whole connection at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerSettings {
    /// Streams that we may have open at once. `None`: as many as we like.
    pub streams: Option<usize>,
    /// What may be sent on a new stream before the peer says more, in bytes.
    pub stream_window_bytes: u32,
    /// What may be sent on all streams together now, in bytes.
    pub connection_window_bytes: i64,
    /// The largest frame that it takes, in bytes.
    pub frame_bytes: usize,
    /// The largest head that it takes, in bytes. `None`: it has not said.
    pub head_bytes: Option<usize>,
    /// The largest table of HPACK that it keeps, in bytes.
    pub table_bytes: usize,
    /// Whether requests may be extended CONNECTs (RFC 8441).
    pub extended_connect: bool,
}

/// The protocol that an extended CONNECT asks for, such as `websocket` (RFC 8441): an extension of the request's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub Box<str>);

impl Engine {
    /// A server's end. Appends its settings to `out`.
    pub fn server(limits: impl Into<Arc<EngineLimits>>, now: Instant, out: &mut Vec<u8>) -> Self {
        Self::start(true, limits.into(), now, out)
    }

    /// A client's end. Appends the preface and its settings to `out`.
    pub fn client(limits: impl Into<Arc<EngineLimits>>, now: Instant, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(PREFACE);
        Self::start(false, limits.into(), now, out)
    }

    fn start(is_server: bool, limits: Arc<EngineLimits>, now: Instant, out: &mut Vec<u8>) -> Self {
        let list_bytes = u32::try_from(limits.head.bytes).unwrap_or(u32::MAX);
        let of_connection = &limits.connection;
        let mut settings = vec![(id::LIST_BYTES, list_bytes)];
        if is_server {
            settings.push((id::STREAMS, u32::try_from(of_connection.streams).unwrap_or(u32::MAX)));
            settings.push((id::NO_OLD_PRIORITIES, 1));
            if of_connection.extended_connect {
                settings.push((id::EXTENDED_CONNECT, 1));
            }
        } else {
            settings.push((id::PUSH, 0));
        }
        let (stream_window, connection_window) =
            (of_connection.stream_window(), of_connection.connection_window());
        if stream_window != DEFAULT_WINDOW_BYTES {
            settings.push((id::WINDOW, stream_window));
        }
        settings::write(out, &settings);
        if connection_window > DEFAULT_WINDOW_BYTES {
            frame::window_update(out, 0, connection_window - DEFAULT_WINDOW_BYTES);
        }
        Self {
            is_server,
            incoming: if is_server { Incoming::Preface(0) } else { Incoming::First },
            peer: Settings { streams: STREAMS_AT_FIRST, ..Settings::INITIAL },
            heads: HeadDecoder::new(Arc::clone(&limits), DEFAULT_TABLE_BYTES),
            encoder: Encoder::new(),
            streams: Streams::default(),
            ready: Ready::default(),
            resets: None,
            in_window: InWindow::new(connection_window),
            out_window: i64::from(DEFAULT_WINDOW_BYTES),
            newest_of_peer: 0,
            next_of_ours: if is_server { 2 } else { 1 },
            open: 0,
            last_of_peer: None,
            closing: Closing::No,
            reset_budget: Budget::FULL,
            idle_budget: Budget::FULL,
            leaves_refusals: false,
            settings_sent: Some(now),
            received_at: now,
            left_in_input: 0,
            ping_sent: None,
            limits,
        }
    }

    /// From now on a request that is too large is [`Event::Refused`], for the driver to answer. Without this the engine
    /// answers it without a body, and the driver gets an [`Event::Reset`] at most.
    pub fn leave_refusals(&mut self) {
        self.leaves_refusals = true;
    }

    /// How many streams have not ended.
    pub fn open_streams(&self) -> usize {
        self.open
    }

    /// Whether nothing is under way, so that the connection could be closed without loss.
    pub fn is_idle(&self) -> bool {
        let has_resets = self.resets.as_ref().is_some_and(|resets| !resets.events.is_empty());
        self.streams.is_empty() && !has_resets && !self.is_within_head()
    }

    /// Whether the preface is not whole yet, or a header block has begun to come, and goes on in frames that have not come yet.
    pub fn is_within_head(&self) -> bool {
        matches!(self.incoming, Incoming::Block { .. } | Incoming::Preface(1..))
    }

    /// Whether the peer has begun with its settings, as HTTP/2 does.
    pub fn is_greeted(&self) -> bool {
        !matches!(self.incoming, Incoming::Preface(_) | Incoming::First)
    }

    /// What the peer has said of itself so far, and the defaults of the RFC for the rest.
    pub fn peer_settings(&self) -> PeerSettings {
        let limit = |value: usize| (value != usize::MAX).then_some(value);
        PeerSettings {
            streams: limit(self.peer.streams),
            stream_window_bytes: self.peer.window,
            connection_window_bytes: self.out_window,
            frame_bytes: self.peer.frame_bytes,
            head_bytes: limit(self.peer.list_bytes),
            table_bytes: self.peer.table_bytes,
            extended_connect: self.peer.extended_connect,
        }
    }

    /// Whether a `PING` that [`advance`](Self::advance) has sent is not acknowledged yet.
    pub fn awaits_pong(&self) -> bool {
        self.ping_sent.is_some()
    }

    /// Whether the connection has ended by an error.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.incoming, Incoming::Failed(_))
    }

    /// Begins to end the connection: the peer is told to open no more streams. Streams that were on their way are still
    /// taken, until the peer has seen that (RFC 9113 section 6.8), or until this time: a peer that acknowledges nothing gets the
    /// final `GOAWAY` by [`advance`](Self::advance). The connection is over when [`is_drained`](Self::is_drained) says so.
    pub fn shut_down(&mut self, until: Instant, out: &mut Vec<u8>) {
        if self.closing == Closing::No {
            self.closing = Closing::Announced(until);
            frame::go_away(out, STREAM_ID_MAX, Code::NO_ERROR);
            frame::ping(out, 0, LAST_CALL);
        }
    }

    /// Ends the connection without waiting for streams on their way. The peer is told the last stream that was taken, so
    /// that it may send later ones again elsewhere (RFC 9113 section 6.8).
    pub fn go_away(&mut self, out: &mut Vec<u8>) {
        if !matches!(self.closing, Closing::After(_)) && !self.has_failed() {
            self.closing = Closing::After(self.newest_of_peer);
            frame::go_away(out, self.newest_of_peer, Code::NO_ERROR);
        }
    }

    /// Whether the connection ends, and all its streams have.
    pub fn is_drained(&self) -> bool {
        let is_closing = matches!(self.closing, Closing::After(_)) || self.last_of_peer.is_some();
        is_closing && self.is_idle()
    }

    /// The time at which [`Engine::advance`] is to be called, unless something comes before. A connection that has ended
    /// has none.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.has_failed() {
            return None;
        }
        // A limit that is too long to be added is none.
        let Limits { settings_deadline, ping_interval, ping_deadline, .. } = self.limits.connection;
        let settings = self.settings_sent.and_then(|sent| sent.checked_add(settings_deadline));
        let ping = match self.ping_sent {
            Some(sent) => sent.max(self.received_at).checked_add(ping_deadline),
            None => ping_interval.and_then(|interval| self.received_at.checked_add(interval)),
        };
        let last_call = if let Closing::Announced(until) = self.closing { Some(until) } else { None };
        [settings, ping, last_call].into_iter().flatten().min()
    }

    /// Lets time pass: asks a silent peer whether it is there, and ends a [shutdown](Self::shut_down) that it does not acknowledge.
    ///
    /// # Errors
    ///
    /// [`Error::Silent`] if the peer has not acknowledged in time. The connection has ended then.
    pub fn advance(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.has_failed() {
            return Ok(());
        }
        let passed = |since: Option<Instant>, limit: Duration| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
        };
        let Limits { settings_deadline, ping_interval, ping_deadline, .. } = self.limits.connection;
        if passed(self.settings_sent, settings_deadline) {
            return Err(self.fail(Error::Silent { what: Unacknowledged::Settings }, out));
        }
        // The acknowledgement may stand behind much else. A peer that sends is there.
        if passed(self.ping_sent.map(|sent| sent.max(self.received_at)), ping_deadline) {
            return Err(self.fail(Error::Silent { what: Unacknowledged::Ping }, out));
        }
        if let Some(interval) = ping_interval
            && self.ping_sent.is_none()
            && passed(Some(self.received_at), interval)
        {
            self.ping_sent = Some(now);
            frame::ping(out, 0, ARE_YOU_THERE);
        }
        if let Closing::Announced(until) = self.closing
            && now >= until
        {
            self.go_away(out);
        }
        Ok(())
    }

    /// The peer has acknowledged a ping.
    pub(super) fn pong(&mut self, opaque: [u8; 8], out: &mut Vec<u8>) {
        match opaque {
            ARE_YOU_THERE => self.ping_sent = None,
            LAST_CALL if matches!(self.closing, Closing::Announced(_)) => self.go_away(out),
            _ => {}
        }
    }

    /// The peer knows our settings: from now on a small window holds, also that of streams which are open.
    pub(super) fn settings_acknowledged(&mut self, out: &mut Vec<u8>) {
        if self.settings_sent.take().is_some() {
            let less = DEFAULT_WINDOW_BYTES.saturating_sub(self.limits.connection.stream_window());
            for (id, stream) in self.streams.iter_mut() {
                stream.in_window.shrink(less);
                // What was not worth a frame may be all that the peer can get.
                stream.return_window(id, out);
            }
        }
    }

    /// Whether the peer has acknowledged our settings.
    pub(super) fn are_settings_known(&self) -> bool {
        self.settings_sent.is_none()
    }

    /// How much the peer may send on a new stream.
    fn first_window(&self) -> u32 {
        let window = self.limits.connection.stream_window();
        if self.are_settings_known() { window } else { window.max(DEFAULT_WINDOW_BYTES) }
    }

    /// Ends the connection for a fault.
    #[cold]
    pub(super) fn fail(&mut self, error: Error, out: &mut Vec<u8>) -> Error {
        if !self.has_failed() {
            let last = if let Closing::After(last) = self.closing { last } else { self.newest_of_peer };
            frame::go_away(out, last, error.code());
            self.incoming = Incoming::Failed(error);
        }
        error
    }

    /// A new stream. The caller has made sure that there may be one.
    pub(super) fn add(&mut self, id: StreamId, incoming: Half, outgoing: Half) -> &mut Stream {
        self.open += 1;
        let stream = Stream {
            incoming,
            outgoing,
            in_window: InWindow::new(self.first_window()),
            unread: 0,
            out_window: i64::from(self.peer.window),
            left: None,
            kind: StreamKind::Message,
            priority: Priority::UNSAID,
            turn: Turn::Idle,
        };
        self.streams.insert(id, stream)
    }

    /// Ends one half of a stream. Once both have, the stream counts no more, and it is forgotten when its data was read.
    pub(super) fn end_half(&mut self, id: StreamId, half: fn(&mut Stream) -> &mut Half, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let before = stream.has_ended();
        *half(stream) = Half::Ended;
        if stream.has_ended() {
            let is_read = stream.unread == 0;
            self.open -= usize::from(!before);
            if is_read {
                self.remove(id, out);
            }
        }
    }

    /// Forgets a stream. Its share of the connection's window goes back to the peer at once, since its unread bytes will never
    /// be consumed.
    pub(super) fn remove(&mut self, id: StreamId, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.remove(&id) else { return };
        self.open -= usize::from(!stream.has_ended());
        if stream.unread > 0 {
            self.in_window.free(stream.unread);
            self.return_window(out);
        }
        if stream.turn == Turn::Queued {
            self.ready.remove(id, stream.priority);
        }
        if let Incoming::Data { id: of, left, padding, .. } = self.incoming
            && of == id
        {
            self.incoming = Incoming::Skip(left + padding);
        }
        if self.streams.is_empty() {
            self.ready.clear();
        }
    }

    /// Puts a stream among those that can send, if it can and is not there.
    pub(super) fn queue(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.can_send()
            && stream.turn != Turn::Queued
        {
            stream.turn = Turn::Queued;
            self.ready.push(id, stream.priority);
        }
    }

    /// Ends a stream by a reset. Frames of it that are on their way are ignored.
    pub(super) fn reset_stream(&mut self, id: StreamId, code: Code, out: &mut Vec<u8>) {
        frame::rst_stream(out, id.0, code);
        self.remove(id, out);
        self.resets.get_or_insert_default().remember(id);
    }

    /// Tells the peer of what was read on the connection, once it is worth a frame.
    #[inline]
    pub(super) fn return_window(&mut self, out: &mut Vec<u8>) {
        if let Some(increment) = self.in_window.give_back() {
            frame::window_update(out, 0, increment);
        }
    }
}

const _: () = assert!(FRAME_BYTES_MIN < crate::Buffer::DEFAULT_LIMIT_BYTES);

const ARE_YOU_THERE: [u8; 8] = *b"anywire?";

const LAST_CALL: [u8; 8] = *b"lastcall";
