//! Waiting for what the peer sends.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_advice::Advice;
use anywire_tcp::{ConnId, Engine};
use thiserror::Error;

use super::conn::Conn;
use super::context::{SwarmState, swarm_state};
use super::frame::show;
use super::send::Received;

/// Why so many bytes cannot be read. None were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer has ended its direction, or the connection has failed, and fewer wait to be read: its fault, unless there are
    /// none and an end was expected.
    #[error("the peer has ended after {have} of {wanted} bytes: what it was about to say is lost")]
    Ended {
        /// How many bytes wait to be read.
        have: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// The idle deadline has passed, and fewer wait to be read: the peer's fault, or that of the network.
    #[error("nothing has come for the time of the idle deadline, after {have} of {wanted} bytes")]
    Idle {
        /// How many bytes wait to be read.
        have: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// Never so many can wait, as the peer would have to send more than it may: the caller's fault. Ask for less at a time, or
    /// give the engine a larger receive window.
    #[error(
        "cannot wait for {wanted} bytes at once: the receive window allows for {limit}{help}",
        help = Advice("read in parts")
    )]
    TooLong {
        /// How many were asked for.
        wanted: usize,
        /// How many can be: half of the receive window.
        limit: usize,
    },
}

/// The most bytes that can be waited for: a peer stops sending short of the full window, by a segment or more.
pub(super) fn unread_max(engine: &Engine) -> usize {
    engine.settings().receive_window as usize / 2
}

/// See [`Conn::readable`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Readable<'c> {
    place: u32,
    of: PhantomData<&'c mut Conn>,
}

impl Readable<'_> {
    pub(super) const fn new(place: u32) -> Self {
        Self { place, of: PhantomData }
    }
}

impl Future for Readable<'_> {
    type Output = bool;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<bool> {
        let mut state = swarm_state();
        let id = ConnId::claimed(self.place);
        let unread = state.engine.readable(id);
        let shown = state.shown.get(self.place).unwrap_or(0);
        if unread > shown as usize {
            return Poll::Ready(true);
        }
        let is_stuck = shown > 0 && has_no_more(&state, id, unread);
        if is_stuck || state.is_read(id) {
            return Poll::Ready(false);
        }
        state.wait_for(self.place);
        Poll::Pending
    }
}

/// Whether nothing can come behind the unread bytes.
#[cold]
fn has_no_more(state: &SwarmState, id: ConnId, unread: usize) -> bool {
    has_ended(&state.engine, id) || state.is_idle(id.index()) || unread >= unread_max(&state.engine)
}

/// Whether the peer sends no more, whatever is left to be read.
fn has_ended(engine: &Engine, id: ConnId) -> bool {
    engine.has_peer_closed(id) || matches!(engine.status(id), anywire_tcp::Status::Ended(_))
}

/// See [`Conn::recv`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Recv<'c> {
    place: u32,
    of: PhantomData<&'c mut Conn>,
}

impl Recv<'_> {
    pub(super) const fn new(place: u32) -> Self {
        Self { place, of: PhantomData }
    }
}

impl Future for Recv<'_> {
    type Output = Option<Received>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Received>> {
        let mut state = swarm_state();
        let id = ConnId::claimed(self.place);
        match state.engine.readable(id) {
            0 if state.is_read(id) => Poll::Ready(None),
            0 => {
                state.wait_for(self.place);
                Poll::Pending
            }
            length => Poll::Ready(Some(Received::new(length as u32))),
        }
    }
}

/// See [`Conn::fill_to`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Fill<'c> {
    place: u32,
    length: usize,
    of: PhantomData<&'c mut Conn>,
}

impl Fill<'_> {
    pub(super) const fn new(place: u32, length: usize) -> Self {
        Self { place, length, of: PhantomData }
    }
}

impl Future for Fill<'_> {
    type Output = Result<(), ReadError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        let mut state = swarm_state();
        let id = ConnId::claimed(self.place);
        let (wanted, have, limit) = (self.length, state.engine.readable(id), unread_max(&state.engine));
        if have >= wanted {
            return Poll::Ready(Ok(()));
        }
        if wanted > limit {
            return Poll::Ready(Err(ReadError::TooLong { wanted, limit }));
        }
        if has_ended(&state.engine, id) {
            return Poll::Ready(Err(ReadError::Ended { have, wanted }));
        }
        if state.is_idle(self.place) {
            return Poll::Ready(Err(ReadError::Idle { have, wanted }));
        }
        state.wait_for(self.place);
        Poll::Pending
    }
}

/// See [`Conn::read_exact`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct ReadExact<'c> {
    fill: Fill<'c>,
    buffer: &'c mut [u8],
}

impl<'c> ReadExact<'c> {
    pub(super) const fn new(place: u32, buffer: &'c mut [u8]) -> Self {
        Self { fill: Fill::new(place, buffer.len()), buffer }
    }
}

impl Future for ReadExact<'_> {
    type Output = Result<(), ReadError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), ReadError>> {
        let filled = Pin::new(&mut self.fill).poll(cx);
        if let Poll::Ready(Ok(())) = filled {
            let (id, buffer) = (ConnId::claimed(self.fill.place), &mut *self.buffer);
            show(id, buffer.len(), |bytes| {
                buffer.copy_from_slice(bytes);
                bytes.len()
            });
        }
        filled
    }
}
