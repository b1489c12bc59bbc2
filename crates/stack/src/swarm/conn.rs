//! A connection as its task sees it: an index, and futures that take a few bytes while they wait.
//!
//! The engine is not in the task: it is put at a fixed place of the thread while the tasks of its swarm run. So a
//! connection is four bytes, and what it waits for is nothing but the number of its task.

use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_sys::lent::Lent;
use anywire_tcp::{ConnId, Engine, Status};

use super::leaf::current;
use super::turn::NOBODY;

/// A connection of a [`Swarm`](super::Swarm). Dropping it closes it: what was sent still leaves.
#[derive(Debug)]
pub struct Conn {
    id: ConnId,
}

impl Conn {
    pub(super) const fn new(id: ConnId) -> Self {
        Self { id }
    }

    /// Its number among the connections of its swarm, and that of its task.
    pub const fn index(&self) -> u32 {
        self.id.index()
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        here(|here| here.engine.status(self.id))
    }

    /// Waits until there is something to read: false once the peer has ended its direction, or the connection has failed,
    /// and all was read.
    pub const fn readable(&mut self) -> Readable<'_> {
        Readable { index: self.id.index(), of: PhantomData }
    }

    /// Shows the next bytes that have arrived and takes as many as `read` says; 0 if there are none.
    #[inline]
    pub fn read(&mut self, read: impl FnOnce(&[u8]) -> usize) -> usize {
        here(|here| here.engine.recv(self.id, read))
    }

    /// Waits for the turn to send. Connections take turns in a ring, as the device has room: what has no room waits here
    /// and not in a queue, and everybody gets a turn a round.
    pub const fn turn(&mut self) -> Turn<'_> {
        Turn { waits: false, of: PhantomData }
    }

    /// Sends a message of at most a segment, written in place; false if the send queue has no room for it, or the
    /// connection no longer sends. To be called in one's [`turn`](Self::turn).
    #[inline]
    pub fn write(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        here(|here| here.engine.send_with(self.id, length, write))
    }

    /// The next message: whatever has arrived by now, or none once the peer has ended its direction.
    ///
    /// ```no_run
    /// # async fn echo(mut conn: anywire_stack::swarm::Conn) {
    /// while let Some(message) = conn.recv().await {
    ///     conn.send(message).await;
    /// }
    /// # }
    /// ```
    pub const fn recv(&mut self) -> Recv<'_> {
        Recv { index: self.id.index(), of: PhantomData }
    }

    /// Sends in turn, and waits as long as there is no room. Gives the bytes that were sent: fewer than all only if the
    /// connection no longer sends.
    pub const fn send<C: Content>(&mut self, content: C) -> Send<'_, C> {
        Send { content, sent: 0, waits: false, of: PhantomData, index: self.id.index() }
    }

    /// Ends the own direction; the peer reads the end after what was sent.
    pub fn shutdown(&mut self) {
        here(|here| here.engine.shutdown(self.id));
    }

    /// Ends the connection at once; the peer sees a reset.
    pub fn abort(self) {
        // Closing it would be for an id that is no longer valid.
        let conn = std::mem::ManuallyDrop::new(self);
        here(|here| here.engine.abort(conn.id));
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // Without an engine the swarm itself is being dropped.
        if Lent::is_lent(&HERE) && Lent::with(&HERE, |here| here.engine.close(self.id)).is_none() {
            outside();
        }
    }
}

/// Bytes that have arrived and were not read yet: the next ones of their connection. What was not read or sent by then
/// comes again with the next message.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    length: u32,
}

impl Message {
    /// Its bytes.
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// Never: an empty message is none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// What can be sent.
pub trait Content {
    /// Bytes in all.
    fn length(&self) -> usize;

    /// Puts a part from `sent` on into the send queue and gives its length; 0 if there is no room.
    fn put(&self, engine: &mut Engine, id: ConnId, sent: usize) -> usize;
}

impl Content for Message {
    fn length(&self) -> usize {
        self.length as usize
    }

    #[inline]
    fn put(&self, engine: &mut Engine, id: ConnId, sent: usize) -> usize {
        engine.relay(id, self.length as usize - sent)
    }
}

impl Content for &[u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn put(&self, engine: &mut Engine, id: ConnId, sent: usize) -> usize {
        engine.send(id, &self[sent..])
    }
}

/// See [`Conn::readable`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Readable<'c> {
    index: u32,
    of: PhantomData<&'c mut Conn>,
}

impl Future for Readable<'_> {
    type Output = bool;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<bool> {
        here(|here| {
            let id = ConnId::from_index(self.index);
            if here.engine.readable(id) > 0 {
                Poll::Ready(true)
            } else if here.engine.is_finished(id) {
                Poll::Ready(false)
            } else {
                Poll::Pending
            }
        })
    }
}

/// See [`Conn::recv`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Recv<'c> {
    index: u32,
    of: PhantomData<&'c mut Conn>,
}

impl Future for Recv<'_> {
    type Output = Option<Message>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Message>> {
        here(|here| {
            let id = ConnId::from_index(self.index);
            match here.engine.readable(id) {
                0 if here.engine.is_finished(id) => Poll::Ready(None),
                0 => Poll::Pending,
                length => Poll::Ready(Some(Message { length: length as u32 })),
            }
        })
    }
}

/// See [`Conn::turn`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Turn<'c> {
    waits: bool,
    of: PhantomData<&'c mut Conn>,
}

impl Future for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        here(|here| if here.is_turn(&mut self.waits) { Poll::Ready(()) } else { Poll::Pending })
    }
}

/// See [`Conn::send`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Send<'c, C> {
    content: C,
    sent: u32,
    index: u32,
    waits: bool,
    of: PhantomData<&'c mut Conn>,
}

impl<C: Content + Unpin> Future for Send<'_, C> {
    type Output = usize;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<usize> {
        let this = &mut *self;
        here(|here| {
            let length = this.content.length();
            while (this.sent as usize) < length {
                if !here.is_turn(&mut this.waits) {
                    return Poll::Pending;
                }
                this.waits = false;
                let id = ConnId::from_index(this.index);
                let put = this.content.put(&mut here.engine, id, this.sent as usize);
                this.sent += put as u32;
                if put == 0 && !here.engine.wants_room(id) {
                    break;
                }
                if put == 0 {
                    return Poll::Pending;
                }
            }
            Poll::Ready(this.sent as usize)
        })
    }
}

/// What the tasks of a swarm share, at its place while they run.
pub(super) struct Here {
    pub(super) engine: Engine,
    /// Tasks that wait for their turn to send.
    pub(super) turns: VecDeque<u32>,
    /// Messages that may be sent now by whoever asks while nobody waits.
    pub(super) room: usize,
    /// Who did so last: nobody does it twice in a round, as others may be about to ask.
    pub(super) last: u32,
    /// Connections have opened in this round.
    pub(super) has_opened: bool,
    /// Those who run now have been given their turn.
    pub(super) granting: bool,
}

impl Here {
    pub(super) const fn new(engine: Engine) -> Self {
        Self { engine, turns: VecDeque::new(), room: 0, last: NOBODY, has_opened: false, granting: false }
    }

    /// Whether the running task may send; if not, it gets into the ring once.
    #[inline(always)]
    fn is_turn(&mut self, waits: &mut bool) -> bool {
        if *waits {
            return self.granting;
        }
        let index = current();
        if self.turns.is_empty() && self.room > 0 && self.last != index {
            self.room -= 1;
            self.last = index;
            return true;
        }
        // The last ACK of the handshake leaves in any case, and takes the request along.
        if self.has_opened && self.engine.sends_bare(ConnId::from_index(index)) {
            return true;
        }
        self.turns.push_back(index);
        *waits = true;
        false
    }
}

/// Does something with the engine of the swarm whose task runs.
#[inline(always)]
fn here<R>(what: impl FnOnce(&mut Here) -> R) -> R {
    match Lent::with(&HERE, what) {
        Some(result) => result,
        None => outside(),
    }
}

#[cold]
fn outside() -> ! {
    panic!(
        "a connection of a swarm was used outside of a task that runs in it, or while another is read or written: see \
         swarm::Swarm"
    )
}

thread_local! {
    pub(super) static HERE: Lent<Here> = const { Lent::new() };
}
