//! A stream: one connection of an engine, as tokio's code wants it.

use std::any::Any;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anywire_tcp::{ConnId, Engine, KeepAlive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::inspect::ConnectionInfo;
use super::interface::Shared;

/// A TCP connection. Dropping it closes it; written bytes still leave. If something that the peer sent was not read,
/// the peer sees a reset (RFC 2525 2.17) behind as much of it as the windows allow at once.
///
/// The errors of kernel TCP: `ConnectionRefused`, `ConnectionReset` and `TimedOut`. A write after the end of the own direction,
/// or after another error, fails with `BrokenPipe`. `ConnectionAborted` if its [`Driver`](super::Driver) is no more.
pub struct Stream {
    pub(super) shared: Rc<Shared>,
    pub(super) id: ConnId,
}

impl Stream {
    /// Treats the stream as connected before the peer has answered. If the stream is dropped before the answer, the
    /// written bytes leave as soon as the peer answers.
    pub fn take_for_open(&mut self) {
        self.take_for_open_with(());
    }

    /// The same with a place among such connections, which is free again once the stream is dropped.
    pub(crate) fn take_for_open_with(&self, place: impl Any) {
        self.shared.with(|core| core.stream(self.id).passes_for_open = Some(Box::new(place)));
    }

    /// Ready once the handshake is done, or has failed.
    pub fn poll_opened(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|core| core.poll_opened(self.id, cx))
    }

    /// Waits until the handshake is done.
    ///
    /// # Errors
    /// `ConnectionRefused`, `ConnectionReset` or `TimedOut`.
    pub async fn opened(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_opened(cx)).await
    }

    /// Ready once a read would give something (bytes, the end, an error), without a buffer to read into.
    #[inline]
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.with(|core| core.poll_readable(self.id, cx))
    }

    /// Waits until a read would give something, without a buffer to read into.
    pub async fn readable(&mut self) {
        poll_fn(|cx| self.poll_readable(cx)).await;
    }

    /// Reads the bytes that are there. 0 means that the peer has ended its direction, or that `buffer` is empty.
    #[inline]
    pub fn poll_read_into(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(self).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Writes a part of the slices, in order.
    #[inline]
    pub fn poll_write_from(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let parts = slices.iter().map(|slice| &**slice);
        self.shared.with(|core| core.poll_write(self.id, cx, parts))
    }

    /// Ends the own direction; the peer reads the end after the written bytes. The other direction goes on.
    ///
    /// # Errors
    /// How the connection ended, if it did otherwise than well.
    pub fn half_close(&mut self) -> io::Result<()> {
        self.shared.with(|core| core.end_writing(self.id))
    }

    /// Makes the close that follows an abrupt one: what the windows do not allow to leave at once is dropped,
    /// and the peer sees a reset. To be dropped next.
    pub fn abort(&mut self) {
        self.shared.with(|core| core.stream(self.id).aborts = true);
    }

    /// Switches Nagle's algorithm on, so that small segments wait for the ACK of those before them, or off again. It is off
    /// unless the connection was opened or listened for with other options.
    pub fn set_no_nagle(&mut self, is_off: bool) {
        self.set(|engine, id| engine.set_no_nagle(id, is_off));
    }

    /// Gives it a user timeout of its own: how long data may stay without an ACK before the connection is given up. Zero: that
    /// of the engine's settings again (180 s by default).
    pub fn set_user_timeout(&mut self, timeout: Duration) {
        self.set(|engine, id| engine.set_user_timeout(id, timeout));
    }

    /// Gives it keep-alive with times of its own, so that a peer that has vanished is found out while nothing is sent; or takes it
    /// away. Off by default. A read or write then fails with `TimedOut`.
    pub fn set_keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        self.set(|engine, id| engine.set_keep_alive(id, keep_alive));
    }

    /// Sets the Diffserv field of its packets from now on, 0 (the default) to 63.
    pub fn set_dscp(&mut self, dscp: u8) {
        self.set(|engine, id| engine.set_dscp(id, dscp));
    }

    /// Sets an option, which may bring the engine's next deadline forward: the driver looks at it again.
    fn set(&self, change: impl FnOnce(&mut Engine, ConnId)) {
        self.shared.with(|core| change(&mut core.engine, self.id));
        self.shared.wake_driver();
    }

    /// What is known of it: its state, its queues, its round trip. None once the engine has given it up.
    pub fn info(&self) -> Option<ConnectionInfo> {
        self.shared.with(|core| core.engine.info(self.id).map(|tcp| core.describe(tcp)))
    }

    /// The address and port at this end.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.with(|core| core.engine.addresses(self.id).0)
    }

    /// The address and port at the other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.shared.with(|core| core.engine.addresses(self.id).1)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.send_before_reset(self.id);
        self.shared.with(|core| core.let_go(self.id));
        // A connection that was half closed has nothing to send, but a deadline from now on. And the driver may be the last one left.
        self.shared.wake_driver();
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.shared.with(|core| core.poll_read(self.id, cx, buffer))
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.with(|core| core.poll_write(self.id, cx, std::iter::once(bytes)))
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_from(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Written bytes belong to the engine, which sends them when it can.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.half_close())
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("local", &self.local_addr()).field("peer", &self.peer_addr()).finish()
    }
}
