//! All deadlines of one loop: a slab of wakers, and a heap of the times at which to wake them.
//!
//! It knows no clock: readings are passed in, and it says when it wants the next one. Times are nanoseconds since it was
//! made. Ticks are counted as they come, at least [`TICK`] apart from the second on.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;
use std::time::{Duration, Instant};

use slab::Slab;

use super::TICK;
use crate::clock::Reading;
use crate::contained::{Contained, contain, wake};

/// The deadlines of one loop.
pub(crate) struct Registry {
    entries: RefCell<Slab<Entry>>,
    /// When to wake which entry, the earliest first. Stale if the entry has another time meanwhile.
    queue: RefCell<BinaryHeap<Reverse<(u64, u32)>>>,
    epoch: Instant,
    /// Ticks so far.
    now: Cell<u32>,
    /// The time of the last look.
    now_ns: Cell<u64>,
    /// When the next tick is expected.
    beat_ns: Cell<u64>,
    /// When to look next: at that tick, or before it for an entry.
    next_look_ns: Cell<u64>,
    /// Wakes the task that looks, if the next look is to be earlier.
    looker: RefCell<Option<Waker>>,
    /// The clocks at the last look; `None` while nobody looks.
    reading: Cell<Option<Reading>>,
    /// Entries that are due, and their wakers. Empty between looks, and kept for their memory.
    due: Cell<(Vec<u32>, Vec<Waker>)>,
}

impl Registry {
    /// Without a deadline, at a time that is not later than any that will be passed in.
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            entries: RefCell::default(),
            queue: RefCell::default(),
            epoch,
            now: Cell::new(0),
            now_ns: Cell::new(0),
            beat_ns: Cell::new(TICK_NS),
            next_look_ns: Cell::new(TICK_NS),
            looker: RefCell::default(),
            reading: Cell::new(None),
            due: Cell::default(),
        }
    }

    /// Adds an unset deadline.
    pub(crate) fn insert(&self) -> u32 {
        let key = self.entries.borrow_mut().insert(Entry::default());
        u32::try_from(key).expect("memory ends before four billion deadlines")
    }

    /// Takes a deadline out.
    pub(crate) fn remove(&self, key: u32) {
        let entry = self.entries.borrow_mut().try_remove(key as usize);
        // Not under the borrow: dropping a waker may drop a task and so another deadline.
        drop(entry);
    }

    /// Ticks so far.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        self.now.get()
    }

    /// The time of the last look.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    /// The time to wake for a deadline that expires at this time: up to 0.8 % of its length later, so that deadlines of many
    /// connections which are seconds away share a look. Short ones share the milliseconds of the runtime's timer.
    pub(crate) fn rounded_up(&self, at_ns: u64) -> u64 {
        let length_ns = at_ns.saturating_sub(self.now_ns.get());
        if length_ns < SHARED_FROM_NS {
            return at_ns;
        }
        let step_ns = 1 << (length_ns / LOOKS_A_LENGTH).ilog2();
        at_ns.checked_next_multiple_of(step_ns).unwrap_or(UNSET_NS)
    }

    /// Wakes the deadline's waiter once, at this time and at no other.
    pub(crate) fn set(&self, key: u32, at_ns: u64) {
        let entries = self.entries.borrow();
        let before = entries[key as usize].wakes_ns.replace(at_ns);
        if at_ns == UNSET_NS || at_ns == before {
            return;
        }
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= entries.len().saturating_mul(2).saturating_add(STALE_MAX) {
            queue.retain(|Reverse((at_ns, key))| is_current(&entries, *at_ns, *key));
        }
        queue.push(Reverse((at_ns, key)));
        if at_ns < self.next_look_ns.get() {
            self.next_look_ns.set(at_ns);
            if let Some(looker) = &*self.looker.borrow() {
                looker.wake_by_ref();
            }
        }
    }

    /// Wakes this task from now on, instead of another one.
    pub(crate) fn wait(&self, key: u32, waker: &Waker) {
        let waker = Contained::new(waker.clone());
        let before = self.entries.borrow()[key as usize].waker.replace(waker);
        // Not under the borrow: dropping a waker may drop a task and so another deadline.
        drop(before);
    }

    /// Called when looks begin; false if they have begun already.
    pub(crate) fn start(&self, reading: Reading) -> bool {
        let started = self.reading.get().is_none();
        if started {
            let now_ns = self.ns_at(reading.instant);
            self.reading.set(Some(reading));
            self.now_ns.set(now_ns);
            self.beat_ns.set(now_ns + TICK_NS);
            self.next_look_ns.set(now_ns + TICK_NS);
        }
        started
    }

    /// When to look next.
    pub(crate) fn next_look(&self) -> Instant {
        // Not beyond the next tick, so the sum is a time.
        self.epoch + Duration::from_nanos(self.next_look_ns.get())
    }

    /// Wakes this task if the next look is to be earlier than was said.
    pub(crate) fn look_again_by(&self, looker: &Waker) {
        let mut present = self.looker.borrow_mut();
        if !present.as_ref().is_some_and(|present| present.will_wake(looker)) {
            *present = Some(looker.clone());
        }
    }

    /// Wakes the waiters of entries that are due. False at the first tick without a deadline: then the looks end.
    pub(crate) fn look(&self, reading: Reading) -> bool {
        let (now_ns, beat_ns) = (self.ns_at(reading.instant), self.beat_ns.get());
        if now_ns >= beat_ns {
            if self.entries.borrow().is_empty() {
                self.reading.set(None);
                self.queue.borrow_mut().clear();
                self.looker.replace(None);
                return false;
            }
            self.now.set(self.now.get() + 1);
            self.beat_ns.set(next_beat(beat_ns, now_ns));
        }
        self.reading.set(Some(reading));
        self.now_ns.set(now_ns);
        self.wake_due(now_ns);
        true
    }

    /// The clocks at the last look, while there are looks.
    #[inline]
    pub(crate) fn reading(&self) -> Option<Reading> {
        self.reading.get()
    }

    fn wake_due(&self, now_ns: u64) {
        let (mut keys, mut wakers) = self.due.take();
        {
            let (entries, mut queue) = (self.entries.borrow(), self.queue.borrow_mut());
            while let Some(&Reverse((at_ns, key))) = queue.peek()
                && at_ns <= now_ns
            {
                queue.pop();
                if is_current(&entries, at_ns, key) {
                    entries[key as usize].wakes_ns.set(UNSET_NS);
                    keys.push(key);
                }
            }
            let first_ns = queue.peek().map_or(UNSET_NS, |Reverse((at_ns, _))| *at_ns);
            self.next_look_ns.set(first_ns.min(self.beat_ns.get()));
        }
        for key in keys.drain(..) {
            // Cloning a waker may run code that sets deadlines, and so writes to the queue.
            let waiter = contain("a waker", || {
                self.entries.borrow().get(key as usize).and_then(|entry| entry.waker.borrow().get().cloned())
            });
            wakers.extend(waiter.ok().flatten());
        }
        // Not under a borrow: waking may run code that sets or drops deadlines.
        wakers.drain(..).for_each(wake);
        self.due.set((keys, wakers));
    }

    /// The tick at which something set now is due.
    ///
    /// The present moment lies between tick `now` and the next, or up to a tick later if that is late. So the time
    /// from there to tick `now + 2 + n` is `n` ticks at least.
    #[inline]
    pub(crate) fn tick_after(&self, after: Duration) -> u32 {
        let ticks = after
            .as_secs()
            .saturating_mul(TICKS_PER_SECOND)
            .saturating_add(u64::from(after.subsec_nanos().div_ceil(TICK.subsec_nanos())));
        let due = ticks.saturating_add(u64::from(self.now.get()) + 2);
        u32::try_from(due).unwrap_or(UNSET_TICK)
    }

    /// When a later tick is expected, unless a task blocks the loop meanwhile.
    #[inline]
    pub(crate) fn tick_ns(&self, tick: u32) -> u64 {
        if tick == UNSET_TICK {
            return UNSET_NS;
        }
        self.beat_ns.get() + u64::from(tick.saturating_sub(self.now.get() + 1)) * TICK_NS
    }

    /// How many times wait in the queue, stale ones too.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.borrow().len()
    }

    /// A time in nanoseconds. One before the first look is 0, and one that is centuries away is [`UNSET_NS`].
    #[inline]
    pub(crate) fn ns_at(&self, instant: Instant) -> u64 {
        nanoseconds(instant.saturating_duration_since(self.epoch))
    }
}

struct Entry {
    /// When to wake, or [`UNSET_NS`].
    wakes_ns: Cell<u64>,
    /// The task that waits for it.
    waker: RefCell<Contained<Waker>>,
}

impl Default for Entry {
    fn default() -> Self {
        Self { wakes_ns: Cell::new(UNSET_NS), waker: RefCell::default() }
    }
}

/// Whether this is the time of the entry, which may have another one, or be another deadline's, or be gone.
fn is_current(entries: &Slab<Entry>, at_ns: u64, key: u32) -> bool {
    entries.get(key as usize).is_some_and(|entry| entry.wakes_ns.get() == at_ns)
}

/// When the next tick is to come, after one that was expected at a time and came `now_ns`.
///
/// Ticks keep to a fixed beat, so that their lateness does not add up over the length of a deadline. After a delay of
/// more than a tick the beat starts anew. Otherwise the missed ticks would follow at once, and a deadline set just
/// before them would be early.
fn next_beat(expected_ns: u64, now_ns: u64) -> u64 {
    let beat_ns = if now_ns.saturating_sub(expected_ns) <= TICK_NS { expected_ns } else { now_ns };
    beat_ns + TICK_NS
}

/// A duration in nanoseconds; from 584 years on [`UNSET_NS`].
#[inline]
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

/// Later than any tick: a loop would have to run for thirteen years to get there.
pub(crate) const UNSET_TICK: u32 = u32::MAX;
/// Later than any time.
pub(crate) const UNSET_NS: u64 = u64::MAX;
const TICK_NS: u64 = TICK.as_nanos() as u64;
const TICKS_PER_SECOND: u64 = 10;
const _: () = assert!(TICKS_PER_SECOND * TICK_NS == 1_000_000_000);
/// Stale entries of the queue that are kept in any case.
const STALE_MAX: usize = 64;
/// From this length on deadlines share looks.
const SHARED_FROM_NS: u64 = 1_000_000_000;
/// A length has at least so many times at which to look.
const LOOKS_A_LENGTH: u64 = 128;
