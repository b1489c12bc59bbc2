//! Notes of the tasks of a run: each on its own connection, and all of them together.
//!
//! A task keeps three numbers ([`Record`], 12 bytes): how many messages, since when the present one is under
//! way, and the longest one. They lie beside what the task touches anyway, so writing them costs no cache miss;
//! they are collected when the task is dropped, at the end of the run. Everything common is in cells of the thread.
//!
//! The time of a message starts when the message before it completes. So waiting in the ring counts, and no time is left
//! out. The clock is that of the round: the driver reads it once for each batch of at most 64 frames.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use anywire_load::Latency;
use anywire_stack::swarm;

use crate::group::Receipts;
use crate::permutation::Permutation;

/// Notes of all tasks of a run together. Each run has a thread of its own, so a book serves one run.
#[derive(Default)]
pub(crate) struct Book {
    /// Bytes of each payload.
    pub(crate) payload_bytes: Cell<usize>,
    /// How long the server of mode echo waits for a message, if it has an idle deadline.
    pub(crate) idle_deadline: Cell<Duration>,
    /// Messages completed since the start.
    pub(crate) completed: Cell<u64>,
    /// Payloads, or messages around them, that differ from the ones sent.
    pub(crate) corrupt: Cell<u64>,
    /// Connections that ended before the run did.
    pub(crate) ended_early: Cell<u64>,
    /// Tasks that have come to the gate.
    pub(crate) waiting: Cell<u32>,
    /// Tasks that went through it.
    pub(crate) begun: Cell<u32>,
    /// The order in which they do.
    pub(crate) order: Cell<Option<Permutation>>,
    /// Whether messages that complete now are measured.
    pub(crate) measuring: Cell<bool>,
    /// The end of the run. Tasks that are dropped after it had not ended early.
    over_at: Cell<Option<u32>>,
    /// Consecutive messages of equal latency that are not in `latencies` yet: microseconds of each, and how many. A batch
    /// of requests comes back as a batch, so rows are long.
    row: Cell<(u32, u32)>,
    latencies: RefCell<Latency>,
    connections: RefCell<Vec<Connection>>,
    /// Short connections: when each was asked for, by its index.
    pub(crate) asked_at: RefCell<Vec<u32>>,
    /// Messages to all: who has not received them yet.
    pub(crate) receipts: Receipts,
}

/// The figures of a connection in the measured part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection {
    /// Messages completed.
    pub(crate) completed: u32,
    /// The longest time without one, in microseconds, including the time at the end.
    pub(crate) longest: u32,
}

thread_local! {
    static BOOK: Book = Book::default();
}

/// The book of this thread.
#[inline(always)]
pub(crate) fn book<T>(read: impl FnOnce(&Book) -> T) -> T {
    BOOK.with(read)
}

/// Adds one.
#[inline(always)]
pub(crate) fn increment(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl Book {
    /// Ends the measured part. Tasks that are dropped from now on add their figures to the book.
    pub(crate) fn close(&self, now: u32) {
        self.measuring.set(false);
        self.over_at.set(Some(now));
    }

    /// The time that this share of the measured messages took at most; zero if there are none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        self.end_row(0);
        self.latencies.borrow().quantile(share).unwrap_or_default()
    }

    /// The latencies, and the figures of each connection.
    pub(crate) fn take(&self) -> (Latency, Vec<Connection>) {
        self.end_row(0);
        (self.latencies.take(), self.connections.take())
    }

    /// A message is complete that had been under way for so many microseconds. Returns whether it counts.
    #[inline(always)]
    pub(crate) fn complete(&self, micros: u32) -> bool {
        increment(&self.completed);
        if !self.measuring.get() {
            return false;
        }
        let (row_micros, count) = self.row.get();
        if micros != row_micros || count == u32::MAX {
            self.end_row(micros);
        }
        self.row.set((micros, self.row.get().1 + 1));
        true
    }

    /// Records the row so far; the next one is of messages that take so many microseconds.
    fn end_row(&self, next_micros: u32) {
        let (micros, count) = self.row.replace((next_micros, 0));
        if count > 0 {
            let time = Duration::from_micros(u64::from(micros));
            self.latencies.borrow_mut().record_many(time, u64::from(count));
        }
    }
}

/// The figures of a task's own connection. Dropping it adds them to the book.
pub(crate) struct Record {
    /// Messages so far. The highest bit is set from the first measured message on, and then only measured ones count.
    number: u32,
    /// The time of the last completion, in microseconds that wrap.
    since: u32,
    longest: u32,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { number: 0, since: now(), longest: 0 }
    }

    /// The first message is under way.
    pub(crate) fn begin(&mut self) {
        self.since = now();
    }

    /// The number of the message that is under way.
    #[inline(always)]
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// The message under way is complete, and the next one begins.
    #[inline(always)]
    pub(crate) fn complete(&mut self) {
        let now = now();
        let took = now.wrapping_sub(self.since);
        self.since = now;
        if book(|book| book.complete(took)) {
            self.longest = self.longest.max(took);
            if self.number & COUNTS == 0 {
                self.number = COUNTS;
            }
        }
        self.number = (self.number + 1) & !COUNTS | self.number & COUNTS;
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        book(|book| match book.over_at.get() {
            Some(end) => {
                let completed = if self.number & COUNTS == 0 { 0 } else { self.number & !COUNTS };
                let longest = self.longest.max(end.wrapping_sub(self.since));
                book.connections.borrow_mut().push(Connection { completed, longest });
            }
            None => increment(&book.ended_early),
        });
    }
}

/// Waits at the gate in front of the first message. The gate opens when all tasks have come to it. Then they pass one after
/// the other, in the order of the run, whatever the order in which their connections came about. In a run the task of a
/// connection has its number.
pub(crate) fn gate() -> impl Future<Output = ()> {
    let mut is_counted = false;
    poll_fn(move |_| {
        book(|book| {
            let Some(order) = book.order.get() else { return Poll::Pending };
            let count = order.count();
            let wake = |place: u32| {
                if place < count {
                    swarm::wake(order.at(place));
                }
            };
            let begun = book.begun.get();
            if !std::mem::replace(&mut is_counted, true) {
                book.waiting.set(book.waiting.get() + 1);
                if book.waiting.get() == count {
                    // Several, so that their slots come into the cache in time.
                    (0..WOKEN_AHEAD).for_each(wake);
                }
                return Poll::Pending;
            }
            if book.waiting.get() < count || order.at(begun) != swarm::current() {
                return Poll::Pending;
            }
            book.begun.set(begun + 1);
            // The next one as well: an earlier wake may have come too soon for it.
            [begun + 1, begun + WOKEN_AHEAD].into_iter().for_each(wake);
            Poll::Ready(())
        })
    })
}

/// The time of this round, in microseconds that wrap after 71 minutes.
#[inline(always)]
pub(crate) fn now() -> u32 {
    swarm::now().as_micros() as u32
}

/// How many tasks at the gate are woken ahead of time.
const WOKEN_AHEAD: u32 = 16;

/// The bit of `Record::number` that says that all its messages are measured.
const COUNTS: u32 = 1 << 31;
