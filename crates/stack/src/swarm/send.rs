//! Sending as the device has room.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_tcp::{ConnId, Engine, SharedPayload};

use super::conn::Conn;
use super::context::swarm_state;

/// Bytes that have arrived and were not read yet: the next ones of their connection. [Sent](Conn::send), they go back to the
/// peer without a copy in the task. Bytes that were neither read nor sent come again with the next [`recv`](Conn::recv).
#[derive(Debug, Clone, Copy)]
pub struct Received {
    length: u32,
}

impl Received {
    pub(super) const fn new(length: u32) -> Self {
        Self { length }
    }

    /// How many.
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// Never: without bytes there is none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// What can be sent: bytes, what was [received](Received), or a payload that many connections share.
pub trait Content: sealed::Put {}

impl Content for Received {}
impl Content for &[u8] {}
impl Content for &SharedPayload {}

mod sealed {
    use super::{ConnId, Engine, Received, SharedPayload};

    #[expect(
        unnameable_types,
        reason = "it is sealed: what is sent must be put into the queue by the engine"
    )]
    pub trait Put {
        /// Bytes in all.
        fn length(&self) -> usize;

        /// Puts a part from `sent` on into the send queue and gives its length; 0 if there is no room.
        fn put(&self, engine: &mut Engine, id: ConnId, sent: usize) -> usize;
    }

    impl Put for Received {
        fn length(&self) -> usize {
            self.length as usize
        }

        #[inline]
        fn put(&self, engine: &mut Engine, id: ConnId, sent: usize) -> usize {
            engine.splice(id, self.length as usize - sent)
        }
    }

    impl Put for &[u8] {
        fn length(&self) -> usize {
            self.len()
        }

        fn put(&self, engine: &mut Engine, id: ConnId, sent: usize) -> usize {
            engine.send(id, &self[sent..])
        }
    }

    impl Put for &SharedPayload {
        fn length(&self) -> usize {
            self.bytes().len()
        }

        fn put(&self, engine: &mut Engine, id: ConnId, sent: usize) -> usize {
            if sent == 0 { engine.send_shared(id, self) } else { engine.send(id, &self.bytes()[sent..]) }
        }
    }
}

/// See [`Conn::writable`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Writable<'c> {
    place: u32,
    of: PhantomData<&'c mut Conn>,
}

impl Writable<'_> {
    pub(super) const fn new(place: u32) -> Self {
        Self { place, of: PhantomData }
    }
}

impl Future for Writable<'_> {
    type Output = ();

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut state = swarm_state();
        if state.engine.wants_room(ConnId::claimed(self.place)) {
            state.wait_for(self.place);
            return Poll::Pending;
        }
        if state.may_send(self.place) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// See [`Conn::send`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct SendFuture<'c, C> {
    content: C,
    sent: u32,
    place: u32,
    of: PhantomData<&'c mut Conn>,
}

impl<C> SendFuture<'_, C> {
    pub(super) const fn new(place: u32, content: C) -> Self {
        Self { content, sent: 0, place, of: PhantomData }
    }
}

impl<C: Content + Unpin> Future for SendFuture<'_, C> {
    type Output = usize;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<usize> {
        let this = &mut *self;
        let state = &mut *swarm_state();
        let length = this.content.length();
        while (this.sent as usize) < length {
            if !state.may_send(this.place) {
                return Poll::Pending;
            }
            let id = ConnId::claimed(this.place);
            let put = this.content.put(&mut state.engine, id, this.sent as usize);
            this.sent += put as u32;
            if put == 0 && !state.engine.wants_room(id) {
                break;
            }
            if put == 0 {
                state.wait_for(this.place);
                return Poll::Pending;
            }
        }
        Poll::Ready(this.sent as usize)
    }
}
