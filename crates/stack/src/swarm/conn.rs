//! A connection as its task sees it: an id, and futures that take a few bytes while they wait.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use anywire_tcp::{ConnId, Engine, KeepAlive, ListenerId, Status};

use super::context::{Ending, SwarmState, let_go, running, swarm_state};
use super::current::NOBODY;
use super::frame::show;
use super::leaf::now;
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
    place: u32,
    /// The number of its swarm.
    swarm: u32,
    /// Neither `Send` nor `Sync`.
    of: PhantomData<*const ()>,
}

impl Conn {
    /// Claims a connection of the swarm with this state.
    pub(super) fn claim(state: &mut SwarmState, id: ConnId) -> Self {
        state.engine.claim(id);
        Self { place: id.index(), swarm: state.number, of: PhantomData }
    }

    /// Its place among the connections of its swarm: below the swarm's limit, and used again once it is closed.
    pub const fn index(&self) -> u32 {
        self.place
    }

    /// Its id in the engine of the swarm that runs; that of no connection if it is one of another swarm.
    #[inline(always)]
    pub(super) fn id(&self) -> ConnId {
        ConnId::claimed(self.place())
    }

    /// Its place, for futures that borrow it: the connection keeps the place meanwhile. [`NOBODY`] if it is not one of the swarm
    /// that runs.
    #[inline(always)]
    fn place(&self) -> u32 {
        if running() == self.swarm { self.place } else { NOBODY }
    }

    /// Does something with it in the engine.
    fn engine<R>(&self, what: impl FnOnce(&mut Engine, ConnId) -> R) -> R {
        what(&mut swarm_state().engine, self.id())
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        self.engine(|engine, id| engine.status(id))
    }

    /// The addresses and ports: ours, and the peer's.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.engine(|engine, id| engine.addresses(id))
    }

    /// Waits until there is more to read than the last [`read`](Self::read) has shown without taking any of it. False once no
    /// more can come: the peer has ended its direction, the connection has failed, or unread bytes fill the receive window.
    #[inline(always)]
    pub fn readable(&mut self) -> Readable<'_> {
        Readable::new(self.place())
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
        let mut state = swarm_state();
        let place = self.place();
        if state.shown.get(place).is_some() {
            drop(state);
            return self.read_in_one_piece(read);
        }
        let taken = state.engine.recv(ConnId::claimed(place), read);
        if taken == 0 {
            note_first_shown(&mut state, place);
        }
        taken
    }

    #[cold]
    fn read_in_one_piece(&self, read: impl FnOnce(&[u8]) -> usize) -> usize {
        let (id, unread) = self.engine(|engine, id| (id, engine.readable(id)));
        let taken = show(id, unread, read);
        let shown = &mut swarm_state().shown;
        if taken == 0 {
            shown.set(self.place, unread as u32)
        } else {
            shown.clear(self.place)
        }
        taken
    }

    /// Waits until so many bytes wait to be read; [`read`](Self::read) and [`read_exact`](Self::read_exact) take them.
    ///
    /// # Errors
    ///
    /// - [`ReadError::Ended`](super::ReadError::Ended) if no more can come and there are fewer.
    /// - [`ReadError::TooLong`](super::ReadError::TooLong) if it is more than half of the receive window. The window is 256 KiB unless the engine's
    ///   settings say otherwise.
    pub fn fill_to(&mut self, length: usize) -> Fill<'_> {
        Fill::new(self.place(), length)
    }

    /// Waits until all of `buffer` can be filled, and takes so many bytes.
    ///
    /// # Errors
    ///
    /// As [`fill_to`](Self::fill_to); then nothing was taken.
    pub fn read_exact<'c>(&'c mut self, buffer: &'c mut [u8]) -> ReadExact<'c> {
        ReadExact::new(self.place(), buffer)
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
    #[inline(always)]
    pub fn recv(&mut self) -> Recv<'_> {
        Recv::new(self.place())
    }

    /// Sends when the device has room, and waits until then. Gives the bytes that were sent: fewer than all only if the
    /// connection no longer sends.
    #[inline(always)]
    pub fn send<C: Content>(&mut self, content: C) -> SendFuture<'_, C> {
        SendFuture::new(self.place(), content)
    }

    /// Waits until this connection may send. Connections share the room of the device round-robin, a message each. A task waits
    /// here before it makes its message, so no message waits in a queue. After a [`write`](Self::write) that found the send queue
    /// full it waits for room there, too.
    #[inline(always)]
    pub fn writable(&mut self) -> Writable<'_> {
        Writable::new(self.place())
    }

    /// Sends a message of at most a segment, written in place; false if the send queue has no room for it, or the
    /// connection no longer sends. Wait for [`writable`](Self::writable) first.
    #[inline]
    pub fn write(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        swarm_state().engine.send_with(self.id(), length, write)
    }

    /// Gives it a user timeout of its own: how long data may stay without an ACK before the connection is given up. Zero: that
    /// of the engine's settings again (180 s by default).
    pub fn set_user_timeout(&mut self, timeout: Duration) {
        self.engine(|engine, id| engine.set_user_timeout(id, timeout));
    }

    /// Gives the peer so long from now to send something, or for ever (`None`, as at first). Once the time has passed, whoever waits
    /// to read waits no more, as if the peer had ended its direction, and [`is_idle`](Self::is_idle) holds. All else goes on.
    ///
    /// To set it again with each message costs a memory write. It is exact to a millisecond, never early, however far away. It takes
    /// the 16 bytes beside the connection in which keep-alive is kept, too, and nothing in the task.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use anywire_stack::swarm::Conn;
    ///
    /// const IDLE: Duration = Duration::from_secs(300);
    ///
    /// async fn device(mut conn: Conn) {
    ///     conn.set_idle_deadline(Some(IDLE));
    ///     // Ends with the peer's end, or when nothing has come for 5 minutes.
    ///     while let Some(received) = conn.recv().await {
    ///         conn.send(received).await;
    ///         conn.set_idle_deadline(Some(IDLE));
    ///     }
    /// }
    /// ```
    #[inline]
    pub fn set_idle_deadline(&mut self, after: Option<Duration>) {
        let mut state = swarm_state();
        let id = self.id();
        state.idle.clear(id.index());
        state.engine.set_idle_deadline(id, after.map(|after| now() + after));
    }

    /// Whether it is past its [idle deadline](Self::set_idle_deadline).
    pub fn is_idle(&self) -> bool {
        swarm_state().is_idle(self.place())
    }

    /// Gives it keep-alive with times of its own, so that a peer that has vanished is found out while nothing is sent; or takes it
    /// away. Off by default.
    pub fn set_keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        self.engine(|engine, id| engine.set_keep_alive(id, keep_alive));
    }

    /// Sets the Diffserv field of its packets from now on, 0 (the default) to 63.
    pub fn set_dscp(&mut self, dscp: u8) {
        self.engine(|engine, id| engine.set_dscp(id, dscp));
    }

    /// Switches Nagle's algorithm off, so that small segments leave at once, or on again. Before the first call it is as the
    /// options said with which the connection was opened or its port listened on.
    pub fn set_no_nagle(&mut self, is_off: bool) {
        self.engine(|engine, id| engine.set_no_nagle(id, is_off));
    }

    /// Ends the own direction; the peer reads the end behind the data.
    pub fn shutdown(&mut self) {
        self.engine(|engine, id| engine.shutdown(id));
    }

    /// Ends the connection at once; the peer sees a reset. The task may go on.
    pub fn abort(self) {
        // Closing it would be for an id that is no longer valid.
        let conn = std::mem::ManuallyDrop::new(self);
        let_go(conn.place, conn.swarm, Ending::Abort);
    }
}

/// A read has taken none of the first part of what has arrived. The bytes behind it count as new.
#[cold]
fn note_first_shown(state: &mut SwarmState, place: u32) {
    state.engine.recv(ConnId::claimed(place), |bytes| {
        state.shown.set(place, bytes.len() as u32);
        0
    });
}

impl Drop for Conn {
    fn drop(&mut self) {
        let_go(self.place, self.swarm, Ending::Close);
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("place", &self.place).finish_non_exhaustive()
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
