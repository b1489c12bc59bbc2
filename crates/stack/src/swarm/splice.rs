//! Two connections joined into one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_tcp::ConnId;

use super::conn::Conn;
use super::context::{SwarmState, swarm_state};
use super::frame::{take, with_pieces};

/// Passes on the bytes of each of two connections to the other until both directions have ended. Bytes that one connection cannot
/// take stay unread in the receive window of the other. The end of a direction is passed on as such. If one connection fails, the
/// other one stays open: drop both.
///
/// For an example see [`connect`](super::connect).
pub const fn splice<'c>(one: &'c mut Conn, other: &'c mut Conn) -> Splice<'c> {
    Splice { ways: [Way::new(), Way::new()], ends: [one, other] }
}

/// The future of [`splice`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Splice<'c> {
    ends: [&'c mut Conn; 2],
    ways: [Way; 2],
}

/// A direction.
#[derive(Debug)]
struct Way {
    is_over: bool,
}

impl Future for Splice<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Self { ends: [one, other], ways: [there, back] } = &mut *self;
        with_pieces(|pieces| {
            let state = &mut *swarm_state();
            let (one_id, other_id) = (one.id(), other.id());
            there.pass_on(state, one_id, other_id, pieces);
            back.pass_on(state, other_id, one_id, pieces);
            state.wait_for(one.index());
            state.wait_for(other.index());
        });
        if there.is_over && back.is_over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Way {
    const fn new() -> Self {
        Self { is_over: false }
    }

    /// Moves the unread bytes, as far as this task may send and there is room.
    fn pass_on(&mut self, state: &mut SwarmState, from: ConnId, to: ConnId, pieces: &mut Vec<u8>) {
        while !self.is_over && state.engine.readable(from) > 0 {
            if !state.may_send(to.index()) {
                return;
            }
            pieces.clear();
            state.engine.peek(from, state.engine.segment_bytes(to), pieces);
            let sent = state.engine.send(to, pieces);
            take(&mut state.engine, from, sent);
            if sent == 0 {
                // Its ACKs tell of room, if it still sends.
                self.is_over = !state.engine.wants_room(to);
                return;
            }
        }
        if !self.is_over && state.engine.is_finished(from) {
            self.is_over = true;
            state.engine.shutdown(to);
        }
    }
}
