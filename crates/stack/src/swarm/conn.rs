//! A connection as its task sees it: an id, and futures that take a few bytes while they wait.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use anywire_tcp::{ConnId, KeepAlive, ListenerId, Status};

use super::context::{Ending, here, let_go};
use super::frame::show;
use super::receive::{Fill, ReadExact, Readable, Recv};
use super::send::{Content, SendFuture, Writable};

/// A connection of a [`Swarm`](super::Swarm). Dropping it closes it; data given to it still leaves.
///
/// It belongs to its thread. It may be dropped anywhere on it, and closes nothing but itself; a task may go on without its
/// connection. Events of a connection wake the task that waits for it. So a task can hold several connections, and pass them on.
///
/// ```compile_fail
/// fn to_another_thread(conn: anywire_stack::swarm::Conn) {
///     std::thread::spawn(move || drop(conn));
/// }
/// ```
pub struct Conn {
    id: ConnId,
    /// Bytes that the last [`read`](Self::read) has shown without any being taken.
    shown: u32,
    /// Neither `Send` nor `Sync`.
    of: PhantomData<*const ()>,
}

impl Conn {
    pub(super) const fn new(id: ConnId) -> Self {
        Self { id, shown: 0, of: PhantomData }
    }

    /// Its place among the connections of its swarm: below the swarm's limit, and used again once it is closed.
    pub const fn index(&self) -> u32 {
        self.id.index()
    }

    pub(super) const fn id(&self) -> ConnId {
        self.id
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        here(|here| here.engine.status(self.id))
    }

    /// The addresses and ports: ours, and the peer's.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        here(|here| here.engine.addresses(self.id))
    }

    /// Waits until there is more to read than the last [`read`](Self::read) has shown without taking any of it. False once no
    /// more can come: the peer has ended its direction, the connection has failed, or unread bytes fill the receive window.
    pub const fn readable(&mut self) -> Readable<'_> {
        Readable::new(self.id, self.shown)
    }

    /// Shows the next bytes that have arrived and takes as many as `read` says; 0 if there are none.
    ///
    /// There may be more behind them. If `read` took none, because a message is not complete, the next call shows all that has
    /// arrived by then, in one piece. So a decoder works however the bytes were cut:
    ///
    /// ```no_run
    /// # async fn lines(mut conn: anywire_stack::swarm::Conn) {
    /// while conn.readable().await {
    ///     conn.read(|bytes| match bytes.iter().position(|byte| *byte == b'\n') {
    ///         Some(end) => end + 1, // a line
    ///         None => 0,            // not yet
    ///     });
    /// }
    /// # }
    /// ```
    #[inline]
    pub fn read(&mut self, read: impl FnOnce(&[u8]) -> usize) -> usize {
        if self.shown > 0 {
            return self.read_in_one_piece(read);
        }
        let mut shown = 0;
        let taken = here(|here| {
            here.engine.recv(self.id, |bytes| {
                shown = bytes.len() as u32;
                read(bytes)
            })
        });
        if taken == 0 {
            // Only the first part: the bytes behind it count as new.
            self.shown = shown;
        }
        taken
    }

    #[cold]
    fn read_in_one_piece(&mut self, read: impl FnOnce(&[u8]) -> usize) -> usize {
        let unread = here(|here| here.engine.readable(self.id));
        let taken = show(self.id, unread, read);
        self.shown = if taken == 0 { unread as u32 } else { 0 };
        taken
    }

    /// Waits until so many bytes wait to be read; [`read`](Self::read) and [`read_exact`](Self::read_exact) take them.
    ///
    /// # Errors
    ///
    /// - [`ReadError::Ended`](super::ReadError::Ended) if no more can come and there are fewer.
    /// - [`ReadError::TooLong`](super::ReadError::TooLong) if it is more than half of the receive window. The window is 256 KiB unless the engine's
    ///   settings say otherwise.
    pub const fn fill_to(&mut self, length: usize) -> Fill<'_> {
        Fill::new(self.id, length)
    }

    /// Waits until all of `buffer` can be filled, and takes so many bytes.
    ///
    /// # Errors
    ///
    /// As [`fill_to`](Self::fill_to); then nothing was taken.
    pub const fn read_exact<'c>(&'c mut self, buffer: &'c mut [u8]) -> ReadExact<'c> {
        ReadExact::new(self.id, buffer)
    }

    /// The bytes that have arrived by now, to be sent on or measured; none once the peer has ended its direction.
    ///
    /// ```no_run
    /// # async fn echo(mut conn: anywire_stack::swarm::Conn) {
    /// while let Some(received) = conn.recv().await {
    ///     conn.send(received).await;
    /// }
    /// # }
    /// ```
    pub const fn recv(&mut self) -> Recv<'_> {
        Recv::new(self.id)
    }

    /// Sends when the device has room, and waits until then. Gives the bytes that were sent: fewer than all only if the
    /// connection no longer sends.
    pub const fn send<C: Content>(&mut self, content: C) -> SendFuture<'_, C> {
        SendFuture::new(self.id, content)
    }

    /// Waits until this connection may send. Connections share the room of the device round-robin, a message each. A task waits
    /// here before it makes its message, so no message waits in a queue.
    pub const fn writable(&mut self) -> Writable<'_> {
        Writable::new(self.id)
    }

    /// Sends a message of at most a segment, written in place; false if the send queue has no room for it, or the
    /// connection no longer sends. Wait for [`writable`](Self::writable) first. That tells of the room of the device and not of the
    /// queue, which only [`send`](Self::send) waits for: after false, do not try again in a loop.
    #[inline]
    pub fn write(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        here(|here| here.engine.send_with(self.id, length, write))
    }

    /// Gives it a user timeout of its own: how long data may stay without an ACK before the connection is given up. Zero: that
    /// of the engine's settings again (180 s by default).
    pub fn set_user_timeout(&mut self, timeout: Duration) {
        here(|here| here.engine.set_user_timeout(self.id, timeout));
    }

    /// Gives it keep-alive with times of its own, so that a peer that has vanished is found out while nothing is sent; or takes it
    /// away. Off by default.
    pub fn set_keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        here(|here| here.engine.set_keep_alive(self.id, keep_alive));
    }

    /// Sets the Diffserv field of its packets from now on, 0 (the default) to 63.
    pub fn set_dscp(&mut self, dscp: u8) {
        here(|here| here.engine.set_dscp(self.id, dscp));
    }

    /// Switches Nagle's algorithm off, so that small segments leave at once, or on again. Before the first call it is as the
    /// options said with which the connection was opened or its port listened on.
    pub fn set_no_nagle(&mut self, is_off: bool) {
        here(|here| here.engine.set_no_nagle(self.id, is_off));
    }

    /// Ends the own direction; the peer reads the end behind the data.
    pub fn shutdown(&mut self) {
        here(|here| here.engine.shutdown(self.id));
    }

    /// Ends the connection at once; the peer sees a reset. The task may go on.
    pub fn abort(self) {
        // Closing it would be for an id that is no longer valid.
        let conn = std::mem::ManuallyDrop::new(self);
        let_go(conn.id, Ending::Abort);
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        let_go(self.id, Ending::Close);
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A connection that has opened, for the task that is started for it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Incoming {
    /// The connection.
    pub conn: Conn,
    /// The peer's address and port.
    pub peer: SocketAddr,
    /// Ours.
    pub local: SocketAddr,
    /// The listener that it came from; none if it was opened by [`Swarm::open`](super::Swarm::open), or its port is no longer
    /// listened on.
    pub listener: Option<ListenerId>,
}
