//! What the tasks of a run write down, each of its own connection and all of them together.
//!
//! A task keeps three numbers ([`Record`], 12 bytes): how many messages, since when the present one is under
//! way, and the longest one. They lie beside what the task touches anyway, so writing them costs no miss of
//! the cache; they are collected when the task is dropped, at the end of the run. Everything common is in
//! cells of the thread.
//!
//! A message is under way from the completion of the one before it: waiting for one's turn counts, and
//! nothing is left out. The time is that of the round, which the driver reads from the clock for each batch
//! of at most 64 frames.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anywire::load::Latency;
use anywire_stack::swarm;

use super::options::Shuffle;

/// What is common to all tasks of a run; each thread has one.
pub(super) struct Book {
    /// Bytes of each payload.
    pub(super) payload_bytes: Cell<usize>,
    /// Messages completed since the start.
    pub(super) completed: Cell<u64>,
    /// Payloads, or messages around them, that were not what was sent.
    pub(super) corrupt: Cell<u64>,
    /// Connections that ended before the run did.
    pub(super) ended_early: Cell<u64>,
    /// Tasks that have come to the gate.
    pub(super) waiting: Cell<u32>,
    /// Tasks that went through it.
    pub(super) begun: Cell<u32>,
    /// The order in which they do.
    shuffle: Cell<Option<Shuffle>>,
    /// Whether what is completed now is measured, and since when.
    measuring: Cell<bool>,
    /// Set once the run is over: the tasks that are dropped now had not ended.
    over_at: Cell<Option<u32>>,
    /// Of messages in a row that took equally long, and are not in `latencies` yet: so many microseconds each, and how
    /// many they are. What goes in one batch comes back in one, so that rows are long.
    row: Cell<(u32, u32)>,
    latencies: RefCell<Option<Latency>>,
    records: RefCell<Vec<Kept>>,
    /// Short connections: when each was asked for, by its index.
    pub(super) asked_at: RefCell<Vec<u32>>,
}

/// What became of a connection in the measured part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    /// Messages completed.
    pub(super) completed: u32,
    /// The longest time without one, in microseconds, that at the end included.
    pub(super) longest: u32,
}

thread_local! {
    pub(super) static BOOK: Book = const {
        Book {
            payload_bytes: Cell::new(0),
            completed: Cell::new(0),
            corrupt: Cell::new(0),
            ended_early: Cell::new(0),
            waiting: Cell::new(0),
            begun: Cell::new(0),
            shuffle: Cell::new(None),
            measuring: Cell::new(false),
            over_at: Cell::new(None),
            row: Cell::new((0, 0)),
            latencies: RefCell::new(None),
            records: RefCell::new(Vec::new()),
            asked_at: RefCell::new(Vec::new()),
        }
    };
}

impl Book {
    /// A new run on this thread, with payloads of this length; tasks go through the gate in this order.
    pub(super) fn open(&self, payload_bytes: usize, shuffle: Shuffle) {
        self.payload_bytes.set(payload_bytes);
        for count in [&self.completed, &self.corrupt, &self.ended_early] {
            count.set(0);
        }
        self.waiting.set(0);
        self.begun.set(0);
        self.shuffle.set(Some(shuffle));
        self.measuring.set(false);
        self.over_at.set(None);
        self.row.set((0, 0));
        self.latencies.replace(Some(Latency::new()));
        self.records.take();
        self.asked_at.take();
    }

    /// From now on what is completed counts.
    pub(super) fn measure(&self) {
        self.measuring.set(true);
    }

    /// From now on nothing counts, and tasks that are dropped say what they have.
    pub(super) fn close(&self, now: u32) {
        self.measuring.set(false);
        self.over_at.set(Some(now));
    }

    /// The time up to which `share` of the measured messages took.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        self.end_row(0);
        self.latencies.borrow().as_ref().and_then(|latencies| latencies.quantile(share))
    }

    /// What was written down.
    pub(super) fn take(&self) -> (Latency, Vec<Kept>) {
        self.end_row(0);
        (self.latencies.take().unwrap_or_default(), self.records.take())
    }

    /// A message is complete that had been under way for so many microseconds. Whether it counts.
    #[inline(always)]
    pub(super) fn complete(&self, micros: u32) -> bool {
        self.completed.set(self.completed.get() + 1);
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
        if let Some(latencies) = &mut *self.latencies.borrow_mut()
            && count > 0
        {
            latencies.record_many(Duration::from_micros(u64::from(micros)), u64::from(count));
        }
    }
}

/// What a task knows of its own connection. It is written down when it is dropped.
pub(super) struct Record {
    /// Messages so far; with the highest bit set those that count, from the first on.
    number: u32,
    /// The time of the last completion, in microseconds that wrap.
    since: u32,
    longest: u32,
}

impl Record {
    pub(super) fn new() -> Self {
        Self { number: 0, since: now(), longest: 0 }
    }

    /// The first message is under way.
    pub(super) fn begin(&mut self) {
        self.since = now();
    }

    /// The number of the message that is under way.
    #[inline(always)]
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    /// The message under way is complete, and the next one begins.
    #[inline(always)]
    pub(super) fn complete(&mut self) {
        let now = now();
        let took = now.wrapping_sub(self.since);
        self.since = now;
        if BOOK.with(|book| book.complete(took)) {
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
        BOOK.with(|book| match book.over_at.get() {
            Some(end) => {
                let completed = if self.number & COUNTS == 0 { 0 } else { self.number & !COUNTS };
                let longest = self.longest.max(end.wrapping_sub(self.since));
                book.records.borrow_mut().push(Kept { completed, longest });
            }
            None => book.ended_early.set(book.ended_early.get() + 1),
        });
    }
}

/// The gate in front of the first message. It opens when everybody is there; then one goes through after the
/// other, in the order of the run, whatever the order in which their connections came about.
pub(super) struct Gate {
    index: u32,
    is_counted: bool,
}

/// Waits at the gate as the task of this connection.
pub(super) const fn gate(index: u32) -> Gate {
    Gate { index, is_counted: false }
}

impl Future for Gate {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        BOOK.with(|book| {
            let Some(shuffle) = book.shuffle.get() else { return Poll::Pending };
            let begun = book.begun.get();
            if !std::mem::replace(&mut self.is_counted, true) {
                book.waiting.set(book.waiting.get() + 1);
                if book.waiting.get() == shuffle.count() {
                    // Several, so that their slots come into the cache in time.
                    (0..WOKEN_AHEAD.min(shuffle.count())).for_each(|place| swarm::wake(shuffle.at(place)));
                }
                return Poll::Pending;
            }
            if book.waiting.get() < shuffle.count() || shuffle.at(begun) != self.index {
                return Poll::Pending;
            }
            book.begun.set(begun + 1);
            // The next one as well: it may have been woken earlier, by something else or out of turn.
            for place in [begun + 1, begun + WOKEN_AHEAD] {
                if place < shuffle.count() {
                    swarm::wake(shuffle.at(place));
                }
            }
            Poll::Ready(())
        })
    }
}

/// The time of this round, in microseconds that wrap after 71 minutes.
#[inline(always)]
pub(super) fn now() -> u32 {
    swarm::now().as_micros() as u32
}

/// How many tasks at the gate are woken ahead of the one whose turn it is.
const WOKEN_AHEAD: u32 = 16;

/// Marks a number of messages of which all count.
const COUNTS: u32 = 1 << 31;
