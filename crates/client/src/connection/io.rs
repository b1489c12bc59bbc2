//! The wire of a connection, and how long it lasts.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anywire_loops::clock::{self, precise};
use anywire_loops::deadline::Deadline;
use anywire_wire::Connection;

use crate::call::job::Outcome;
use crate::connection::event::Event;
use crate::pool::context::LoopContext;

/// What a session is given with each turn.
pub(crate) struct Io {
    /// Which of the client's connections it is.
    pub(crate) id: u64,
    /// None once it is closed, or left HTTP.
    pub(crate) wire: Option<Connection>,
    /// Holds what the connection waits for: the peer while busy, the next call while idle.
    pub(crate) timer: Deadline,
    /// When it was made.
    pub(crate) made: Instant,
    /// Calls that were put on it.
    pub(crate) calls: u64,
    /// The end of its lifetime.
    pub(crate) until: Instant,
    /// When its latest call was polled last, which is when that ended.
    pub(crate) polled_at: Instant,
}

impl Io {
    /// For a new connection.
    pub(crate) fn new(wire: Connection, context: &LoopContext) -> Self {
        let (timer, now) = (Deadline::new(), precise());
        let timeouts = &context.config().timeouts;
        timer.set_from(now, timeouts.idle.min(timeouts.lifetime));
        let until = clock::after(now, jittered(timeouts.lifetime));
        let id = context.inner().count_connection();
        Self { id, wire: Some(wire), timer, made: now, calls: 0, until, polled_at: now }
    }

    /// Begins to be idle, for `idle` at most. `false` if the lifetime is over.
    pub(crate) fn rest(&self, idle: Duration, context: &LoopContext) -> bool {
        if self.until <= self.polled_at {
            context.count_end(self.until);
            return false;
        }
        self.timer.set_at(clock::after(self.polled_at, idle).min(self.until));
        true
    }

    /// Ready if an idle connection is over, on which the peer has nothing to say.
    pub(crate) fn poll_idle(&mut self, cx: &mut Context<'_>, context: &LoopContext) -> Poll<Event> {
        if self.wire.is_none() {
            return Poll::Ready(Event::Over(Outcome::Nothing));
        }
        if self.timer.poll_expired(cx).is_ready() {
            context.count_end(self.until);
            return Poll::Ready(Event::Over(Outcome::Nothing));
        }
        self.poll_broken(cx).map(|()| Event::Evicted)
    }

    /// Ready if the peer closed an idle connection, or sent bytes that no request asked for.
    pub(crate) fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wire) = self.wire.as_mut() else { return Poll::Ready(()) };
        if ready!(wire.poll_readable(cx)).is_err() {
            return Poll::Ready(());
        }
        // The readiness may date from before the last read. Only a read tells, and one byte is enough.
        wire.poll_read(cx, &mut [0]).map(|_| ())
    }
}

/// `lifetime` give or take 10 %, so that connections which were made together do not all end together.
fn jittered(lifetime: Duration) -> Duration {
    let thousandth = (random() * 200.0) as u32;
    lifetime.saturating_mul(900 + thousandth) / 1000
}

/// A number from 0 to below 1.
pub(crate) fn random() -> f64 {
    // Keys of a hasher are the standard library's randomness, and good enough for this.
    (RandomState::new().hash_one(()) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn lifetimes_differ_by_a_tenth_at_most() {
        let lifetimes: HashSet<_> = (0..100).map(|_| jittered(Duration::from_secs(600))).collect();
        assert!(lifetimes.iter().all(|lifetime| (540..=660).contains(&lifetime.as_secs())), "{lifetimes:?}");
        // Of 100 draws from 200 values some 79 differ.
        assert!(lifetimes.len() > 20, "{} different ones", lifetimes.len());
    }
}
