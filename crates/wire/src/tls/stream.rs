//! TLS on a connection of any wire.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use tokio::task::coop;

use super::client::Dialling;
use super::error::HandshakeError;
use super::records::{RECORD_MAX_BYTES, Records, Session};
use super::server::{Accepting, take_asked_name};
use super::wires::Tls;
use crate::address::Address;
use crate::connection::{Connection, Credentials, Negotiated, Transport};

/// A connection with TLS around it.
pub(super) struct TlsStream {
    /// The wire of its addresses; none if no wire is TLS around the one below, which then names them.
    wire: Option<&'static Tls>,
    inner: Connection,
    records: Records,
    stage: Stage,
    /// The name that the end that dials asks for.
    server_name: Option<String>,
    /// The peer's certificate is taken, whatever it is.
    is_unverified: bool,
    negotiated: Option<Arc<Negotiated>>,
    /// `close_notify` has been sealed.
    has_said_end: bool,
    /// The task that waits until sealed bytes have left.
    writer: Option<Waker>,
}

enum Stage {
    /// A listener looks at the first byte, which tells TLS from clear text. The session is for the options of this generation.
    First {
        accepting: Arc<Accepting>,
        generation: u64,
    },
    Handshake,
    Open,
    /// The peer speaks no TLS, and need not.
    Clear {
        read_before: Vec<u8>,
        at: usize,
    },
    /// The peer is told why there is no handshake, and has the time to read it.
    Refusing {
        cause: io::Error,
        is_half_closed: bool,
    },
    /// Ended by [`Transport::abort`].
    Aborted,
}

impl TlsStream {
    /// The end that listens; it does not know yet whether the peer speaks TLS.
    ///
    /// # Errors
    /// rustls refuses the options.
    pub(super) fn accept(
        wire: Option<&'static Tls>,
        inner: Connection,
        accepting: Arc<Accepting>,
    ) -> Result<Self, rustls::Error> {
        let accepted = accepting.accepted();
        let stage = Stage::First { accepting, generation: accepted.generation };
        let session = accepted.session()?;
        Ok(Self::new(wire, inner, session, stage, None))
    }

    /// The end that dials.
    pub(super) fn connect(
        wire: Option<&'static Tls>,
        inner: Connection,
        name: String,
        Dialling { session, is_unverified }: Dialling,
    ) -> Self {
        let mut stream = Self::new(wire, inner, session, Stage::Handshake, Some(name));
        stream.is_unverified = is_unverified;
        stream
    }

    fn new(
        wire: Option<&'static Tls>,
        inner: Connection,
        session: Session,
        stage: Stage,
        server_name: Option<String>,
    ) -> Self {
        let records = Records::new(session);
        Self {
            wire,
            inner,
            records,
            stage,
            server_name,
            is_unverified: false,
            negotiated: None,
            has_said_end: false,
            writer: None,
        }
    }

    /// Reads from the wire, and opens all whole records. `None` at the end of the wire.
    fn poll_open(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<Option<usize>>> {
        scratch::with(|scratch| {
            let waiting = self.records.move_incoming(scratch);
            if waiting > INCOMING_MAX_BYTES {
                return Poll::Ready(Err(HandshakeError(self.records.refuse_incoming()).into()));
            }
            let end =
                (waiting + into.len() + RECORD_MAX_BYTES).min(waiting + READ_MAX_BYTES).min(scratch.len());
            let polled = self.inner.poll_read(cx, &mut scratch[waiting..end]);
            let read = if let Poll::Ready(Ok(read)) = polled { read } else { 0 };
            let opened = self.records.open(&mut scratch[..waiting + read], into);
            let read = ready!(polled)?;
            Poll::Ready(match opened {
                Ok(opened) => Ok((read > 0).then_some(opened)),
                Err(error) => {
                    self.send_beside(cx);
                    Err(HandshakeError(error).into())
                }
            })
        })
    }

    /// Sends, in the turn of a reader, what rustls has to say by itself: an alert, or the refusal of a new handshake. Bytes of a
    /// writer may be in front of it. The wire wakes one task for its direction, and that stays the writer if one waits.
    fn send_beside(&mut self, cx: &mut Context<'_>) {
        if self.records.outgoing().is_empty() {
            return;
        }
        // An error comes again with the next write.
        let Some(writer) = self.writer.clone() else {
            let _ = self.poll_send(cx);
            return;
        };
        if self.poll_send(&mut Context::from_waker(&writer)).is_ready() {
            // What the writer waits for has been done for it, so the wire may not wake it any more. It may be another task.
            self.writer = None;
            anywire_loops::wake(writer);
        }
    }

    /// Sends all sealed bytes, and remembers who waits for it.
    fn poll_send_for_writer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = self.poll_send(cx);
        match &self.writer {
            _ if polled.is_ready() => self.writer = None,
            Some(writer) if writer.will_wake(cx.waker()) => {}
            _ => self.writer = Some(cx.waker().clone()),
        }
        polled
    }

    /// Sends all sealed bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let outgoing = self.records.outgoing();
            if outgoing.is_empty() {
                return self.inner.poll_flush(cx);
            }
            let sent = ready!(self.inner.poll_write(cx, outgoing))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.records.sent(sent);
        }
    }

    /// Looks at the first bytes of a peer, without which nothing is known.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Stage::First { accepting, generation } = &self.stage else { return Poll::Ready(Ok(())) };
        let (accepting, generation) = (Arc::clone(accepting), *generation);
        if self.wire.is_some_and(Tls::is_over_unix)
            && accepting.accepted().clear_text.is_taken
            && self.peeks_at_clear_text(cx)
        {
            self.stage = Stage::Clear { read_before: Vec::new(), at: 0 };
            return Poll::Ready(Ok(()));
        }
        scratch::with(|scratch| {
            let read = ready!(self.inner.poll_read(cx, &mut scratch[..READ_MAX_BYTES]))?;
            if read == 0 {
                return Poll::Ready(Err(HandshakeError::left()));
            }
            let accepted = accepting.accepted();
            let clear_text = accepted.clear_text;
            if scratch[0] == CONTENT_TYPE_HANDSHAKE {
                // The handshake begins now, however long ago the peer has connected.
                if accepted.generation != generation {
                    self.records = Records::new(accepted.session().map_err(io::Error::other)?);
                }
                self.stage = Stage::Handshake;
                let opened = self.records.open(&mut scratch[..read], &mut []);
                self.server_name = take_asked_name();
                if let Err(error) = opened {
                    self.refuse(HandshakeError(error).into());
                }
            } else if clear_text.is_taken {
                self.stage = Stage::Clear { read_before: scratch[..read].to_vec(), at: 0 };
            } else {
                // The peer is told in its own language, if the wire takes it.
                let answer = clear_text.answer.map(|answer| answer(&scratch[..read])).unwrap_or_default();
                let _ = self.inner.poll_write(cx, &answer);
                self.refuse(HandshakeError::clear_text());
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Whether the first byte is there, and is clear text. It stays in the socket: a Unix socket makes its close a reset if bytes
    /// were not read, and in no other way.
    fn peeks_at_clear_text(&mut self, cx: &mut Context<'_>) -> bool {
        let mut first = [0];
        self.inner.poll_readable(cx).is_ready()
            && self.inner.as_fd().is_some_and(|fd| {
                let peeked = recv(fd, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT);
                matches!(peeked, Ok((1, _)))
            })
            && first[0] != CONTENT_TYPE_HANDSHAKE
    }

    fn refuse(&mut self, cause: io::Error) {
        self.stage = Stage::Refusing { cause, is_half_closed: false };
    }

    /// Sends the reason and waits until the peer closes: a close with bytes unread would be a reset, which may reach the
    /// peer before the reason does. The handshake's deadline ends the wait.
    fn poll_refuse(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_sent = ready!(self.poll_send(cx)).is_ok();
        let Stage::Refusing { cause, is_half_closed } = &mut self.stage else { return Poll::Ready(Ok(())) };
        if is_sent && !*is_half_closed {
            *is_half_closed = ready!(self.inner.poll_half_close(cx)).is_ok();
        }
        if *is_half_closed {
            let is_over = scratch::with(|scratch| {
                for _ in 0..READS_OF_REFUSED_MAX {
                    if !matches!(ready!(self.inner.poll_read(cx, scratch)), Ok(1..)) {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(())
            });
            ready!(is_over);
        }
        Poll::Ready(Err(std::mem::replace(cause, io::ErrorKind::InvalidData.into())))
    }

    fn poll_shake_hands(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            // Before anything is awaited, since the peer waits for it.
            let sent = ready!(self.poll_send(cx));
            if !self.records.state().is_handshaking() {
                // A peer may write and leave before the tickets reach it; its bytes are still read.
                break;
            }
            sent.map_err(HandshakeError::cut)?;
            let opened = if self.records.may_open() {
                let opened = self.records.open_rest(&mut []);
                Poll::Ready(opened.map(Some).map_err(|error| HandshakeError(error).into()))
            } else {
                self.poll_open(cx, &mut []).map_err(HandshakeError::cut)
            };
            if let Some(asked) = take_asked_name() {
                self.server_name = Some(asked);
            }
            let opened = ready!(opened);
            match opened {
                Ok(Some(_)) => {}
                Ok(None) => return Poll::Ready(Err(HandshakeError::left())),
                Err(cause) if self.records.is_server() && self.records.has_failed() => {
                    self.refuse(cause);
                    return Poll::Ready(Ok(()));
                }
                Err(cause) => {
                    let _ = self.poll_send(cx);
                    return Poll::Ready(Err(cause));
                }
            }
        }
        let negotiated = negotiated(self.records.state(), self.server_name.take());
        self.negotiated = Some(Arc::new(Negotiated { is_unverified: self.is_unverified, ..negotiated }));
        self.stage = Stage::Open;
        Poll::Ready(Ok(()))
    }

    /// The error of a stream that has no end, or `Ok` if it has one.
    fn at_end_of_wire(&self) -> io::Result<usize> {
        if self.records.is_at_end() {
            return Ok(0);
        }
        let message = "the connection was cut: it ended without the close_notify that ends a TLS stream";
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
    }

    /// The address for one of the wire below.
    fn outer(&self, inner: Address) -> Address {
        match self.wire {
            Some(wire) => wire.outer(&inner),
            None => inner,
        }
    }

    /// Seals the end of our stream, once.
    fn say_end(&mut self) {
        if !std::mem::replace(&mut self.has_said_end, true) {
            self.records.seal_end();
        }
    }
}

impl Transport for TlsStream {
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.inner.poll_handshake(cx))?;
        loop {
            match &self.stage {
                Stage::First { .. } => ready!(self.poll_first(cx)).map_err(HandshakeError::cut)?,
                Stage::Handshake => ready!(self.poll_shake_hands(cx))?,
                Stage::Refusing { .. } => return self.poll_refuse(cx),
                Stage::Open | Stage::Clear { .. } => return Poll::Ready(Ok(())),
                Stage::Aborted => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
            }
        }
    }

    fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        self.negotiated.as_ref()
    }

    fn is_buffered(&self) -> bool {
        true
    }

    fn held_back(&self) -> usize {
        self.records.outgoing().len() + self.inner.held_back()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send_for_writer(cx)
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_readable = match &self.stage {
            Stage::Clear { read_before, at } => *at < read_before.len(),
            _ => self.records.is_readable(),
        };
        if is_readable { Poll::Ready(Ok(())) } else { self.inner.poll_readable(cx) }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match &mut self.stage {
            Stage::Open => {}
            Stage::Clear { read_before, at } if *at < read_before.len() => {
                let read = buffer.len().min(read_before.len() - *at);
                buffer[..read].copy_from_slice(&read_before[*at..*at + read]);
                *at += read;
                if *at == read_before.len() {
                    (*read_before, *at) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(read));
            }
            Stage::Clear { .. } => return self.inner.poll_read(cx, buffer),
            _ => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            if let taken @ 1.. = self.records.take_plain(buffer) {
                return Poll::Ready(Ok(taken));
            }
            if self.records.is_at_end() {
                return Poll::Ready(Ok(0));
            }
            let opened = if self.records.may_open() || self.records.has_failed() {
                self.records.open_rest(buffer).map_err(HandshakeError)?
            } else {
                self.send_beside(cx);
                match ready!(self.poll_open(cx, buffer))? {
                    Some(opened) => opened,
                    None => return Poll::Ready(self.at_end_of_wire()),
                }
            };
            if opened > 0 {
                return Poll::Ready(Ok(opened));
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &self.stage {
            Stage::Open if !self.has_said_end => {}
            Stage::Clear { .. } => return self.inner.poll_write(cx, bytes),
            _ => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
        let taken = bytes.len().min(HELD_MAX_BYTES);
        let held = self.records.outgoing().len();
        if held > 0 && held + taken > HELD_MAX_BYTES {
            ready!(self.poll_send_for_writer(cx))?;
        }
        self.records.seal(&bytes[..taken]).map_err(HandshakeError)?;
        Poll::Ready(Ok(taken))
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Stage::Clear { .. } = self.stage {
            return self.inner.poll_write_vectored(cx, slices);
        }
        let mut slices = slices.iter().filter(|slice| !slice.is_empty());
        let Some(first) = slices.next() else { return Poll::Ready(Ok(0)) };
        if first.len() >= RECORD_MAX_BYTES {
            return self.poll_write(cx, first);
        }
        // Each record costs its own seal, so small slices share one.
        scratch::with(|scratch| {
            let mut filled = 0;
            for slice in std::iter::once(first).chain(slices) {
                let fitting = slice.len().min(HELD_MAX_BYTES - filled);
                scratch[filled..filled + fitting].copy_from_slice(&slice[..fitting]);
                filled += fitting;
                if filled == HELD_MAX_BYTES {
                    break;
                }
            }
            self.poll_write(cx, &scratch[..filled])
        })
    }

    fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Stage::Open = self.stage {
            self.say_end();
            // A peer that has gone need not be told.
            let _ = ready!(self.poll_send_for_writer(cx));
        }
        self.inner.poll_half_close(cx)
    }

    fn abort(&mut self) {
        self.stage = Stage::Aborted;
        self.records.forget_outgoing();
        self.inner.abort();
    }

    fn local(&self) -> Address {
        self.outer(self.inner.local())
    }

    fn peer(&self) -> Address {
        self.outer(self.inner.peer())
    }

    fn credentials(&self) -> Option<Credentials> {
        self.inner.credentials()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }
}

impl Drop for TlsStream {
    /// Ends the stream as a plain wire would: by an end if the peer's bytes were read, by a reset otherwise.
    fn drop(&mut self) {
        match &self.stage {
            Stage::Open if !self.records.has_failed() => {}
            Stage::Clear { read_before, at } if *at < read_before.len() => return self.inner.abort(),
            _ => return,
        }
        let mut cx = Context::from_waker(Waker::noop());
        // Session tickets and the like are no bytes of the stream. If they stayed unread, the wire would be reset.
        for _ in 0..READS_AT_END_MAX {
            if self.has_said_end || self.records.has_unread() {
                break;
            }
            // Whatever share of its turn the task has left.
            let opening = coop::unconstrained(poll_fn(|cx| self.poll_open(cx, &mut [])));
            if !matches!(pin!(opening).poll(&mut cx), Poll::Ready(Ok(Some(_)))) {
                break;
            }
        }
        if self.records.has_unread() {
            return self.inner.abort();
        }
        self.say_end();
        if self.poll_send(&mut cx).is_pending() {
            let (nowhere, _) = Connection::pair();
            let inner = std::mem::replace(&mut self.inner, nowhere);
            linger(inner, self.records.outgoing());
        }
    }
}

/// Gives a peer that reads slowly some time for the rest of a stream whose connection was dropped. Few may have it at once, since
/// they are beyond the limit of connections, and none once the loop is to stop.
fn linger(mut inner: Connection, rest: &[u8]) {
    thread_local! {
        static LINGERING: Rc<()> = Rc::new(());
    }
    let place = LINGERING.with(Rc::clone);
    // One is the thread's own, and one is this.
    if anywire_loops::current().is_none() || Rc::strong_count(&place) - 2 >= LINGERING_MAX {
        return inner.abort();
    }
    let rest = rest.to_vec();
    drop(anywire_loops::spawn(async move {
        let _place = place;
        tokio::select! {
            biased;
            () = anywire_loops::stopping() => inner.abort(),
            // It has gone, had its time, or read everything.
            _ = tokio::time::timeout(LINGER, inner.write_all(&rest)) => {}
        }
    }));
}

/// The result of a handshake.
fn negotiated(state: &rustls::CommonState, server_name: Option<String>) -> Negotiated {
    Negotiated {
        server_name,
        protocol: state.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into_owned()),
        version: state.protocol_version().map(|version| match version {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
            other => format!("{other:?}"),
        }),
        cipher_suite: state.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite())),
        peer_certificates: state
            .peer_certificates()
            .unwrap_or_default()
            .iter()
            .map(|certificate| certificate.to_vec())
            .collect(),
        is_resumed: state.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
        is_unverified: false,
    }
}

/// Memory to read and gather in, which all connections of a thread share.
mod scratch {
    use super::Cell;

    thread_local! {
        static FREE: Cell<Vec<Vec<u8>>> = const { Cell::new(Vec::new()) };
    }

    pub(super) fn with<T>(use_it: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut free = FREE.take();
        // Taken out: a stream within another one, as through a proxy to which TLS is spoken, has memory of its own.
        let mut scratch = free.pop().unwrap_or_else(|| vec![0; SIZE_BYTES]);
        FREE.set(free);
        let result = use_it(&mut scratch);
        let mut free = FREE.take();
        free.push(scratch);
        FREE.set(free);
        result
    }

    /// A read behind what may wait.
    const SIZE_BYTES: usize = 160 * 1024;
}

/// The first byte of a TLS stream (RFC 8446 section 5.1). No method of HTTP begins with it.
const CONTENT_TYPE_HANDSHAKE: u8 = 22;
/// The most that is read in one go: as much as is opened before the next read.
const READ_MAX_BYTES: usize = 64 * 1024;
/// Sealed bytes that wait for a flush, or plain bytes that are sealed in one go: four records.
const HELD_MAX_BYTES: usize = 4 * RECORD_MAX_BYTES;
/// Reads of a refused peer's input before the connection is closed.
const READS_OF_REFUSED_MAX: usize = 16;
/// Looks for what the peer sent besides the stream, when a connection is dropped. It mostly comes in one piece.
const READS_AT_END_MAX: usize = 4;
/// Bytes of a message of a handshake that is not whole: the largest has 64 KiB (rustls' limit), and each of its records a head.
const INCOMING_MAX_BYTES: usize = 96 * 1024;
/// Dropped connections of a loop whose end may be on its way.
const LINGERING_MAX: usize = 64;
/// For the end of a stream to leave, once the connection was dropped.
const LINGER: Duration = Duration::from_secs(5);
