//! What a client counts, per loop: plain cells with one writer each, readable from any thread.
//!
//! A cell is written by its loop only, with a load and a store, so that counting costs no locked instruction.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the pools of one loop did so far, and what they hold now.
///
/// ```
/// # fn main() -> Result<(), anywire_client::Error> {
/// let client = anywire_client::Client::new()?;
/// assert_eq!(client.counters().total().requests, 0);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that reached a pool of this loop, the refused ones included.
    pub requests: u64,
    /// Connections that were dialled with success.
    pub dialed: u64,
    /// Dials that failed.
    pub dial_failures: u64,
    /// Requests that went out on a connection that had already served one.
    pub reused: u64,
    /// Requests that were sent again after their reused connection turned out dead.
    pub resent: u64,
    /// Idle connections that were closed because the peer closed them, or sent what nobody asked for.
    pub evicted: u64,
    /// Calls that were refused because the queue was full.
    pub queue_full: u64,
    /// Calls that wait for a connection now.
    pub waiting: u64,
    /// Connections with a call on them now.
    pub active: u64,
    /// Connections without a call now.
    pub idle: u64,
}

/// The counters of all loops of a client, in the order of its loops.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// One for each loop.
    pub per_loop: Vec<Counters>,
}

impl ClientCounters {
    /// The sums over all loops.
    pub fn total(&self) -> Counters {
        self.per_loop.iter().fold(Counters::default(), |sum, part| Counters {
            requests: sum.requests + part.requests,
            dialed: sum.dialed + part.dialed,
            dial_failures: sum.dial_failures + part.dial_failures,
            reused: sum.reused + part.reused,
            resent: sum.resent + part.resent,
            evicted: sum.evicted + part.evicted,
            queue_full: sum.queue_full + part.queue_full,
            waiting: sum.waiting + part.waiting,
            active: sum.active + part.active,
            idle: sum.idle + part.idle,
        })
    }

    /// The busiest loop's requests divided by the mean: 1.0 is even. 1.0 too while there are none.
    pub fn balance(&self) -> f64 {
        let most = self.per_loop.iter().map(|part| part.requests).max().unwrap_or(0);
        let sum = self.total().requests;
        if sum == 0 {
            return 1.0;
        }
        most as f64 * self.per_loop.len() as f64 / sum as f64
    }
}

/// The cells behind [`Counters`].
#[derive(Debug, Default)]
pub(crate) struct Cells {
    pub(crate) requests: Cell,
    pub(crate) dialed: Cell,
    pub(crate) dial_failures: Cell,
    pub(crate) reused: Cell,
    pub(crate) resent: Cell,
    pub(crate) evicted: Cell,
    pub(crate) queue_full: Cell,
    pub(crate) waiting: Cell,
    pub(crate) active: Cell,
    pub(crate) idle: Cell,
}

impl Cells {
    pub(crate) fn read(&self) -> Counters {
        Counters {
            requests: self.requests.value(),
            dialed: self.dialed.value(),
            dial_failures: self.dial_failures.value(),
            reused: self.reused.value(),
            resent: self.resent.value(),
            evicted: self.evicted.value(),
            queue_full: self.queue_full.value(),
            waiting: self.waiting.value(),
            active: self.active.value(),
            idle: self.idle.value(),
        }
    }
}

/// A number that one thread writes and every thread may read.
#[derive(Debug, Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.value() + more, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, less: u64) {
        debug_assert!(self.value() >= less, "a gauge below zero");
        self.0.store(self.value() - less, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_is_the_busiest_over_the_mean() {
        let part = |requests| Counters { requests, ..Counters::default() };
        assert_eq!(ClientCounters::default().balance(), 1.0);
        assert_eq!(ClientCounters { per_loop: vec![part(10), part(10)] }.balance(), 1.0);
        assert_eq!(ClientCounters { per_loop: vec![part(30), part(10)] }.balance(), 1.5);
    }

    #[test]
    fn totals_are_sums() {
        let part = Counters { requests: 2, idle: 1, ..Counters::default() };
        let total = ClientCounters { per_loop: vec![part, part] }.total();
        assert_eq!((total.requests, total.idle), (4, 2));
    }
}
