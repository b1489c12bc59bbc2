//! A connection: an ordered byte stream on a wire. It lives and dies on one loop.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

use crate::address::Address;
use crate::seats::Seat;

/// What a wire does for a connection. All calls are made on the connection's loop.
///
/// Each direction wakes the task that polled it last. Reading, writing and waiting take part in the task's budget
/// ([`tokio::task::coop`]), so that they may be pending though the wire is ready; then the task is polled again soon.
pub trait Transport {
    /// Ready once a read would give something (bytes, the end, an error), without a buffer to read into.
    ///
    /// May be ready too early, on a new connection or after a read that filled its buffer: then a read is pending, and
    /// from then on so is this until there is something.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Reads what is there; 0 means that the peer has ended its direction.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Writes a part of the bytes.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Writes a part of the slices, in order, in one go.
    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;
    /// Ends the own direction: the peer reads the end after what was written.
    fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Makes the close that follows an abrupt one: what was not sent is dropped, and the peer sees a reset where the
    /// wire has such a thing.
    fn abort(&mut self);
    /// The address at this end.
    fn local(&self) -> Address;
    /// The address at the other end.
    fn peer(&self) -> Address;
    /// Who is at the other end, on wires that know.
    fn credentials(&self) -> Option<Credentials> {
        None
    }
    /// The descriptor behind it, on wires that have one.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Polls within the task's cooperative budget in tokio, as kernel sockets do by themselves. Without it, a task whose peer is
/// always ready would never yield.
#[inline]
pub(crate) fn cooperate<T>(cx: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    let budget = ready!(coop::poll_proceed(cx));
    let polled = poll(cx);
    if polled.is_ready() {
        budget.made_progress();
    }
    polled
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

/// An ordered byte stream to a peer. Dropping it closes it.
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
    /// The place that an accepted connection takes in its listener's limit.
    seat: Option<Seat>,
}

impl Connection {
    /// A connection over this transport.
    pub fn new(transport: Box<dyn Transport>) -> Self {
        Self { transport, seat: None }
    }

    pub(crate) fn seated(transport: Box<dyn Transport>, seat: Seat) -> Self {
        Self { transport, seat: Some(seat) }
    }

    /// Two connected ends in this process, over no kernel at all.
    pub fn pair() -> (Self, Self) {
        let (here, there) = crate::memory::pair("pair");
        (Self::new(Box::new(here)), Self::new(Box::new(there)))
    }

    /// Ready once a read would give something, without a buffer to read into: how an idle connection waits.
    ///
    /// It may be ready too early, on a new connection or after a read that filled its buffer; only a read tells. If
    /// that is pending, so is this until there is something.
    #[inline]
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_readable(cx)
    }

    /// Reads what is there; 0 means that the peer has ended its direction.
    #[inline]
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.transport.poll_read(cx, buffer)
    }

    /// Writes a part of the bytes.
    #[inline]
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.transport.poll_write(cx, bytes)
    }

    /// Writes a part of the slices, in order, in one go.
    #[inline]
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.transport.poll_write_vectored(cx, slices)
    }

    /// Ends the own direction; the other one goes on.
    pub fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_half_close(cx)
    }

    /// Makes the close that follows an abrupt one (TCP: RST). To be dropped next.
    ///
    /// The peer reads what it has received, and then it sees a reset. Over a Unix socket that is so only if something that
    /// the peer sent was not read. Otherwise the peer sees the end.
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

    /// Who is at the other end, on wires that know (Unix sockets).
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
    /// What the wire says: mostly that the peer reset the connection.
    pub async fn readable(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_readable(cx)).await
    }

    /// Reads what is there, at least one byte; 0 means that the peer has ended its direction.
    ///
    /// # Errors
    /// What the wire says: mostly that the peer reset the connection.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Writes all of the bytes.
    ///
    /// # Errors
    /// What the wire says: the peer reset the connection, or closed it.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match poll_fn(|cx| self.poll_write(cx, bytes)).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }

    /// Ends the own direction; the other one goes on.
    ///
    /// # Errors
    /// What the wire says: mostly that the peer reset the connection.
    pub async fn half_close(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_half_close(cx)).await
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("local", &self.local())
            .field("peer", &self.peer())
            .field("accepted", &self.seat.is_some())
            .finish()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(self.transport.poll_read(cx, buffer.initialize_unfilled()))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.transport.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.transport.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_half_close(cx)
    }
}
