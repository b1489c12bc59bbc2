//! A connection: an ordered byte stream on a wire. It lives and dies on one loop.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
#[cfg(feature = "tls")]
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

use crate::address::Address;
use crate::dial_log::{DialLog, DialStep};
use crate::limit::Permit;
use crate::preceded::Preceded;

/// A wire implements this for its connections. All calls are made on the connection's loop.
///
/// # What every transport must keep
/// - Each direction wakes the task that polled it last.
/// - Bytes arrive whole and in order. A write that cannot take any byte is pending; it never returns 0 for a slice that
///   is not empty, and a write of nothing returns 0 and sends nothing.
/// - A read that returns 0 is the end of the peer's direction. The own direction stays open.
/// - A transport that is dropped closes the connection. The peer first reads all that was written, then the end.
///   If the dropped end had received bytes that it did not read, the peer sees `ConnectionReset` instead of the end.
/// - After [`abort`](Self::abort) the peer reads the bytes that it has received, then sees `ConnectionReset`. On Unix
///   sockets, which have no reset, it sees the end.
/// - Once the peer is gone, a write fails with `BrokenPipe` or `ConnectionReset`. A write that was pending fails, too.
/// - A read never returns an orderly end after a reset, so that a message that was cut short does not look whole.
/// - [`local`](Self::local) and [`peer`](Self::peer) answer even after the connection has failed.
///
/// The tests of this crate hold all wires to this list, and so can a wire of your own: see the example `own_wire`.
///
/// # Transports around a connection
/// A layer such as TLS is a transport that holds a [`Connection`]. It makes its handshake in
/// [`poll_handshake`](Self::poll_handshake). If it holds written bytes back, it says so in
/// [`is_buffered`](Self::is_buffered) and sends them in [`poll_flush`](Self::poll_flush).
pub trait Transport {
    /// Ready once a read would give something (bytes, the end, an error). Needs no buffer.
    ///
    /// May be ready too early, on a new connection or after a read that filled its buffer. The read after that is then
    /// pending, and this as well until there is something.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Reads the bytes that are there; 0 means that the peer has ended its direction.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Writes a part of the bytes.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Writes a part of the slices, in order, in one go.
    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;
    /// Ends the own direction: the peer reads the end after everything that was written.
    fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Makes the following close abrupt: unsent bytes are dropped, and the peer sees a reset if the wire has one.
    fn abort(&mut self);
    /// The address at this end.
    fn local(&self) -> Address;
    /// The address at the other end.
    fn peer(&self) -> Address;

    /// Makes the handshake of this layer. A layer first calls this on the connection that it holds.
    ///
    /// [`Listener`](crate::Listener) and [`Dialer`](crate::Dialer) poll it to its end, with a deadline, before they hand a
    /// connection out. Ready at once on plain wires.
    fn poll_handshake(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    /// The result of the handshake, on wires that have one.
    fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        None
    }
    /// Whether written bytes may stay here until [`poll_flush`](Self::poll_flush). Asked once, when the connection is made.
    fn is_buffered(&self) -> bool {
        false
    }
    /// Bytes that are held back, counted as they leave. Deadlines for writing watch this.
    fn held_back(&self) -> usize {
        0
    }
    /// Sends the bytes that are held back. Called only if [`is_buffered`](Self::is_buffered) says so.
    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    /// Whether its polls charge the task's cooperative budget themselves, as tokio's sockets do ([`tokio::task::coop`]).
    /// Otherwise the connection charges it, so that a peer which is always ready does not starve other tasks. Asked once,
    /// when the connection is made.
    fn is_cooperative(&self) -> bool {
        false
    }
    /// The process at the other end, on wires that know.
    fn credentials(&self) -> Option<Credentials> {
        None
    }
    /// The descriptor behind it, on wires that have one.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The process at the other end of a connection on this machine, as it was when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Its process, if the kernel says (a process of another namespace has none).
    pub pid: Option<i32>,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// The result of a handshake.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Negotiated {
    /// The name that the dialling end asked for (SNI, RFC 6066 section 3).
    pub server_name: Option<String>,
    /// The application protocol that both ends agreed on (ALPN, RFC 7301), such as `h2`.
    pub protocol: Option<String>,
    /// The version: `TLSv1.3` or `TLSv1.2`.
    pub version: Option<String>,
    /// The suite, by the name that the registry of IANA gives it.
    pub cipher_suite: Option<String>,
    /// The peer's certificates as DER (RFC 5280), its own first; none if it showed none.
    pub peer_certificates: Vec<Vec<u8>>,
    /// Whether an earlier session was resumed (RFC 8446 section 2.2), so that no certificate was sent.
    pub is_resumed: bool,
    /// The dialling end takes every certificate (`ClientTlsOptions::dangerously_accept_any_certificate`), so the peer may be an attacker.
    pub is_unverified: bool,
}

impl fmt::Debug for Negotiated {
    /// Certificates are counted: their bytes tell a reader nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Negotiated")
            .field("server_name", &self.server_name)
            .field("protocol", &self.protocol)
            .field("version", &self.version)
            .field("cipher_suite", &self.cipher_suite)
            .field("peer_certificates", &self.peer_certificates.len())
            .field("is_resumed", &self.is_resumed)
            .field("is_unverified", &self.is_unverified)
            .finish()
    }
}

#[cfg(feature = "tls")]
impl Negotiated {
    /// Whom the peer's own certificate names (RFC 4514): `CN=alice,O=Example`. `None` without a certificate, or if its
    /// encoding is odd.
    pub fn peer_subject(&self) -> Option<String> {
        self.peer()?.subject()
    }

    /// Who has signed the peer's own certificate, in the same form.
    pub fn peer_issuer(&self) -> Option<String> {
        self.peer()?.issuer()
    }

    /// The SHA-256 digest of the peer's public key, by which it can be [pinned](crate::tls::ClientTlsOptions::pins). `None`
    /// without a certificate, or if its encoding is odd.
    pub fn peer_key_digest(&self) -> Option<[u8; 32]> {
        ring::digest::digest(&ring::digest::SHA256, self.peer()?.key).as_ref().try_into().ok()
    }

    /// From when until when the peer's own certificate holds. `None` without a certificate, or if its encoding is odd.
    pub fn peer_validity(&self) -> Option<(SystemTime, SystemTime)> {
        let peer = self.peer()?;
        let at = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        Some((at(peer.not_before)?, at(peer.not_after)?))
    }

    fn peer(&self) -> Option<crate::tls::Certificate<'_>> {
        crate::tls::Certificate::from_der(self.peer_certificates.first()?)
    }
}

/// An ordered byte stream to a peer. Dropping it closes it.
///
/// Its polls take part in the task's cooperative budget ([`tokio::task::coop`]): they may be pending although the wire is
/// ready, and then the task is polled again soon.
///
/// ```
/// use anywire_wire::Connection;
///
/// let loops = anywire_loops::Loops::start(1)?;
/// let read = loops.get(0).spawn(|| async {
///     let (mut here, mut there) = Connection::pair();
///     here.write_all(b"hello").await?;
///     let mut buffer = [0; 16];
///     let read = there.read(&mut buffer).await?;
///     std::io::Result::Ok(buffer[..read].to_vec())
/// });
/// assert_eq!(read.wait()??, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connection {
    transport: Box<dyn Transport>,
    /// The part of its listener's limit that an accepted connection takes.
    permit: Option<Permit>,
    // Both are asked of the transport once, so that plain wires cost no call through its table.
    is_buffered: bool,
    is_cooperative: bool,
}

impl Connection {
    /// A connection over this transport. If it needs a handshake, see [`poll_handshake`](Self::poll_handshake).
    pub fn new(transport: impl Transport + 'static) -> Self {
        Self {
            is_buffered: transport.is_buffered(),
            is_cooperative: transport.is_cooperative(),
            transport: Box::new(transport),
            permit: None,
        }
    }

    /// Two connected ends in this process, without a kernel.
    pub fn pair() -> (Self, Self) {
        let (here, there) = crate::memory::pair("pair");
        (Self::new(here), Self::new(there))
    }

    /// The same connection, with these bytes before what the peer sends: those that were read while something else was looked for,
    /// such as the response of a proxy.
    #[must_use]
    pub fn preceded_by(self, bytes: Vec<u8>) -> Self {
        if bytes.is_empty() { self } else { Self::new(Preceded::new(bytes, self)) }
    }

    pub(crate) fn hold(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }

    /// Makes the handshake of the wire, if it has one; to be polled until it is ready, before any byte is read or written.
    /// Connections that a [`Listener`](crate::Listener) or a [`Dialer`](crate::Dialer) gives have made theirs.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_handshake(cx)
    }

    /// Makes the handshake of the wire, or of the TLS that was put around it, if it is not made yet.
    ///
    /// # Errors
    /// Why it failed; [`TimedOut`](io::ErrorKind::TimedOut) if it was not done within this time. Drop the connection then.
    pub async fn handshake(&mut self, timeout: Duration) -> io::Result<()> {
        let handshake = poll_fn(|cx| self.poll_handshake(cx));
        let in_time = tokio::time::timeout(timeout, handshake).await;
        in_time.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("it was not done within {timeout:?}")))
        })?;
        if self.negotiated().is_some() {
            DialLog::note(DialStep::Secured);
        }
        Ok(())
    }

    /// The result of the handshake; `None` on wires without one.
    pub fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        self.transport.negotiated()
    }

    /// Ready once a read would give something. Needs no buffer, so an idle connection waits with it.
    ///
    /// It may be ready too early, on a new connection or after a read that filled its buffer; only a read tells. If
    /// that is pending, so is this until there is something.
    #[inline]
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.charged(cx, |transport, cx| transport.poll_readable(cx))
    }

    /// Reads the bytes that are there; 0 means that the peer has ended its direction.
    #[inline]
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.charged(cx, |transport, cx| transport.poll_read(cx, buffer))
    }

    /// Writes a part of the bytes. What a buffered wire holds back leaves with [`poll_flush`](Self::poll_flush).
    #[inline]
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.charged(cx, |transport, cx| transport.poll_write(cx, bytes))
    }

    /// Writes a part of the slices, in order, in one go. Otherwise as [`poll_write`](Self::poll_write).
    #[inline]
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.charged(cx, |transport, cx| transport.poll_write_vectored(cx, slices))
    }

    /// Whether the wire may hold written bytes back until [`poll_flush`](Self::poll_flush).
    pub fn is_buffered(&self) -> bool {
        self.is_buffered
    }

    /// How many bytes the wire holds back, as they leave.
    pub fn held_back(&self) -> usize {
        if self.is_buffered { self.transport.held_back() } else { 0 }
    }

    /// Sends the bytes that the wire holds back. [`Output`](crate::Output) and [`write_all`](Self::write_all) call it
    /// themselves.
    #[inline]
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_buffered { self.transport.poll_flush(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Ends the own direction after everything that was written; the other one goes on.
    pub fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        self.transport.poll_half_close(cx)
    }

    /// Makes the close abrupt (TCP: RST). Drop the connection next.
    ///
    /// The peer reads the bytes that it has received, and then sees a reset. Over a Unix socket it sees a reset only if
    /// it had sent bytes that were not read, and the end otherwise.
    pub fn abort(&mut self) {
        self.transport.abort();
    }

    /// The address at this end.
    pub fn local(&self) -> Address {
        self.transport.local()
    }

    /// The address at the other end.
    pub fn peer(&self) -> Address {
        self.transport.peer()
    }

    /// The process at the other end, on wires that know (Unix sockets).
    pub fn credentials(&self) -> Option<Credentials> {
        self.transport.credentials()
    }

    /// The descriptor behind it, on wires that have one.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.transport.as_fd()
    }

    /// Waits until a read would give something; may return too early, as [`poll_readable`](Self::poll_readable) says.
    ///
    /// # Errors
    /// The error of the wire, mostly that the peer reset the connection.
    pub async fn readable(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_readable(cx)).await
    }

    /// Reads the bytes that are there, at least one; 0 means that the peer has ended its direction.
    ///
    /// # Errors
    /// The error of the wire, mostly that the peer reset the connection.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Writes all of the bytes and flushes them.
    ///
    /// # Errors
    /// The error of the wire: the peer reset the connection, or closed it.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match poll_fn(|cx| self.poll_write(cx, bytes)).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Ends the own direction; the other one goes on.
    ///
    /// # Errors
    /// The error of the wire, mostly that the peer reset the connection.
    pub async fn half_close(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_half_close(cx)).await
    }

    /// Polls the transport within the task's cooperative budget. Kernel sockets of tokio charge it themselves.
    #[inline]
    fn charged<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut dyn Transport, &mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if self.is_cooperative {
            return poll(&mut *self.transport, cx);
        }
        cooperate(cx, |cx| poll(&mut *self.transport, cx))
    }
}

/// Polls within the task's cooperative budget in tokio. Without it, a task whose peer is always ready would never yield.
#[inline]
pub(crate) fn cooperate<T>(cx: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    let budget = ready!(coop::poll_proceed(cx));
    let polled = poll(cx);
    if polled.is_ready() {
        budget.made_progress();
    }
    polled
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("local", &self.local())
            .field("peer", &self.peer())
            .field("accepted", &self.permit.is_some())
            .finish()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Self::poll_read(self.get_mut(), cx, buffer.initialize_unfilled()))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Self::poll_write(self.get_mut(), cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write_vectored(self.get_mut(), cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_flush(self.get_mut(), cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_half_close(cx)
    }
}
