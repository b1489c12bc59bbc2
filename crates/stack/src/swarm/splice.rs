//! Two connections joined into one.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use anywire_tcp::ConnId;

use super::conn::Conn;
use super::context::{Here, here};

/// Passes on the bytes of each of two connections to the other until both directions have ended. Bytes that one cannot take stay
/// unread in the receive window of the other. The end of a direction is passed on as such. If one of them fails, the other
/// one is left as it is: drop both.
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
    waits: bool,
    is_over: bool,
}

impl Future for Splice<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Self { ends: [one, other], ways: [there, back] } = &mut *self;
        let mut pieces = PIECES.take();
        here(|here| {
            there.pass_on(here, one.id(), other.id(), &mut pieces);
            back.pass_on(here, other.id(), one.id(), &mut pieces);
            here.wait_for(one.id());
            here.wait_for(other.id());
        });
        PIECES.set(pieces);
        if there.is_over && back.is_over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Way {
    const fn new() -> Self {
        Self { waits: false, is_over: false }
    }

    /// Moves the unread bytes, as far as this task may send and there is room.
    fn pass_on(&mut self, here: &mut Here, from: ConnId, to: ConnId, pieces: &mut Vec<u8>) {
        while !self.is_over && here.engine.readable(from) > 0 {
            if !here.is_turn(to, &mut self.waits) {
                return;
            }
            self.waits = false;
            pieces.clear();
            here.engine.peek(from, here.engine.segment_bytes(to), pieces);
            let sent = here.engine.send(to, pieces);
            let mut left = sent;
            while left > 0 {
                left -= here.engine.recv(from, |bytes| bytes.len().min(left));
            }
            if sent == 0 {
                // Its ACKs tell of room, if it still sends.
                self.is_over = !here.engine.wants_room(to);
                return;
            }
        }
        if !self.is_over && here.engine.is_finished(from) {
            self.is_over = true;
            here.engine.shutdown(to);
        }
    }
}

thread_local! {
    /// A segment on its way.
    static PIECES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
