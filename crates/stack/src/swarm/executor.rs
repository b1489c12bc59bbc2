//! The executor: one arena of tasks, who of them is ready, who sleeps, and the loop that polls them.
//!
//! A task's mark (a byte beside its future) says whether it is in the ready ring, so that it is there at most once. The mark
//! stays set while the task is polled: a task that wants another poll goes back into the ring without a write to the mark.
//!
//! Each poll of a task is likely to miss the cache once, for its slot. Prefetches hide that. Slots of the ring's entries are
//! fetched some polls ahead. The slot of a woken task is fetched at once, and its mark is set some polls later.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Context;

use anywire_advice::Message;
use anywire_sys::slots::Slots;
use anywire_sys::waker::unkept;
use anywire_tcp::Instant;

use super::current::{
    AGAIN, CURRENT, Current, LEAVING, Leaving, NOBODY, Running, SLEEPS, WAKES_OTHERS, wake_current,
};
use super::limits::{Counters, Limits, SpawnError};
use super::ready::ReadyQueue;
use super::remote::Remote;
use super::sleep::Sleepers;

/// An executor of tasks of one type, run in steps by its owner on one thread. See the [module](super) for an example.
///
/// Tasks are known by their index, from 0 up to the capacity, which the owner may choose: the task of connection *i*
/// is task *i*.
pub struct Tasks<F> {
    slots: Slots<F>,
    ready: ReadyQueue,
    sleepers: Sleepers,
    /// Numbers on their way from a list to the ring; empty between calls.
    batch: Vec<u32>,
    remote: Remote,
    now: Instant,
    limits: Limits,
    /// One above the highest index ever used.
    reach: u32,
    counters: Counters,
}

impl<F: Future<Output = ()>> Tasks<F> {
    /// Bytes of one task: its future and one byte, rounded up to the future's alignment. In a swarm of more tasks than
    /// the ready ring has entries, a bit of a bitmap comes on top.
    pub const TASK_BYTES: usize = Slots::<F>::SLOT_BYTES;

    /// An executor for up to `capacity` tasks. Their addresses are reserved; memory comes as they are spawned.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `capacity` is 0 or above 2^32 - 2; else what the system said: `OutOfMemory` if it gives no
    /// such range of addresses.
    pub fn with_capacity(capacity: usize) -> io::Result<Self> {
        Self::with_limits(capacity, Limits::default())
    }

    /// The same with limits of the caller's.
    ///
    /// # Errors
    ///
    /// As [`with_capacity`](Self::with_capacity).
    pub fn with_limits(capacity: usize, limits: Limits) -> io::Result<Self> {
        let Some(numbers) = u32::try_from(capacity).ok().filter(|numbers| *numbers <= LEAVING) else {
            let found = format!("cannot make a swarm of {capacity} tasks: they are numbered in 32 bits");
            let message = Message::new(found).with_help("use several swarms");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        Ok(Self {
            slots: Slots::reserve(capacity)?,
            ready: ReadyQueue::new(capacity, limits.ring_entries)?,
            sleepers: Sleepers::new(),
            batch: Vec::new(),
            remote: Remote::new(numbers),
            now: Instant::default(),
            limits,
            reach: 0,
            counters: Counters::default(),
        })
    }

    /// Puts a task into a slot; it is ready at once.
    ///
    /// # Errors
    ///
    /// If the slot is taken, or there is none of this index.
    #[inline]
    pub fn spawn_at(&mut self, index: u32, future: F) -> Result<(), SpawnError> {
        self.place_at(index, future)?;
        // A task that was removed while it was ready has left its entry in the ring: that one serves this task.
        self.wake(index);
        Ok(())
    }

    /// The same for a driver that polls the task for the first time itself, by [`run_these`](Self::run_these) or
    /// [`wake_all`](Self::wake_all).
    #[inline]
    pub(super) fn place_at(&mut self, index: u32, future: F) -> Result<(), SpawnError> {
        if self.slots.insert(index as usize, future).is_err() {
            let capacity = self.slots.capacity();
            let is_taken = (index as usize) < capacity;
            return Err(if is_taken {
                SpawnError::Taken { index }
            } else {
                SpawnError::Full { index: index.into(), capacity }
            });
        }
        self.reach = self.reach.max(index + 1);
        Ok(())
    }

    /// Spawns `count` tasks behind the highest index that was ever used, and says which indices they got.
    ///
    /// # Errors
    ///
    /// If there are not so many slots behind it; then none is spawned.
    pub fn spawn_many(
        &mut self,
        count: usize,
        mut make: impl FnMut(u32) -> F,
    ) -> Result<Range<u32>, SpawnError> {
        let capacity = self.slots.capacity();
        let first = self.reach;
        let end = (first as usize).checked_add(count).filter(|end| *end <= capacity);
        let Some(end) = end.and_then(|end| u32::try_from(end).ok()) else {
            return Err(SpawnError::Full {
                index: u64::from(first).saturating_add(count as u64 - 1),
                capacity,
            });
        };
        for index in first..end {
            self.spawn_at(index, make(index))?;
        }
        Ok(first..end)
    }

    /// Drops a task wherever it is; `false` if there is none of this index.
    ///
    /// # Panics
    ///
    /// If its destructor does. The task is gone then, and those that it has woken are ready.
    pub fn remove(&mut self, index: u32) -> bool {
        CURRENT.with(|cells| {
            let running = Running::begin(cells, self.now);
            running.cells.current.set(LEAVING);
            let removed = catch_unwind(AssertUnwindSafe(|| self.slots.remove(index as usize)));
            self.take_wakes(running.cells, running.cells.woken());
            removed.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Has a task polled in one of the next [`run`](Self::run)s; nothing if there is none of this index, or if it is
    /// to have one already.
    ///
    /// This looks at the task's slot: for many tasks, [`wake_all`](Self::wake_all) is faster, or
    /// [`prefetch`](Self::prefetch) some time before.
    #[inline(always)]
    pub fn wake(&mut self, index: u32) {
        if self.slots.exchange_mark(index as usize, IDLE, READY) {
            self.ready.push(index);
        }
    }

    /// Wakes a batch in its order, asking for the slots ahead.
    pub fn wake_all(&mut self, indices: &[u32]) {
        for group in indices.chunks(BATCH) {
            for index in group {
                self.prefetch(*index);
            }
            for index in group {
                self.wake(*index);
            }
        }
    }

    /// Asks for the cache lines of a task's slot, which is about to be woken.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        self.slots.prefetch(index as usize);
    }

    /// Polls the ready tasks in order, until none is ready or `limit` polls were made. Returns how many.
    ///
    /// Tasks that become ready meanwhile are among them: with tasks that always yield, only the limit ends this.
    ///
    /// # Panics
    ///
    /// If it is called from a task of a swarm.
    pub fn run(&mut self, limit: usize) -> usize {
        self.run_with(limit, |_| ())
    }

    /// The same, and tells the index of each task that has ended (or panicked). Its slot is free by then.
    ///
    /// # Panics
    ///
    /// If it is called from a task of a swarm, or if `finished` panics.
    pub fn run_with(&mut self, limit: usize, mut finished: impl FnMut(u32)) -> usize {
        let before = self.counters.polls;
        let until = before.saturating_add(limit as u64);
        CURRENT.with(|cells| {
            let running = Running::begin(cells, self.now);
            self.take_remote();
            // No cost for each poll: a panic leaves the loop, and is looked at here.
            while let Err(panic) =
                catch_unwind(AssertUnwindSafe(|| self.poll_until(running.cells, until, &mut finished)))
            {
                let index = running.cells.current.replace(NOBODY);
                // Wakes count also if `finished` panics, here or there.
                if index == NOBODY {
                    self.take_wakes(running.cells, running.cells.woken());
                    resume_unwind(panic);
                }
                self.drop_panicked(running.cells, index);
                self.slots.set_mark(index as usize, IDLE);
                self.take_wakes(running.cells, running.cells.woken());
                finished(index);
            }
            self.take_wakes(running.cells, running.cells.woken());
        });
        (self.counters.polls - before) as usize
    }

    /// Polls each of these tasks at once, in their order, and skips indices without a task. `fetch` is called some polls ahead
    /// of each: to ask for what the task is about to use beside its slot.
    ///
    /// This is a [`wake_all`](Self::wake_all) and a [`run`](Self::run) in one, for a driver that knows which tasks to run. They
    /// do not go through the ready ring. A task that is in the ring as well stays there. Tasks that become ready
    /// meanwhile wait for the next run.
    ///
    /// # Panics
    ///
    /// If it is called from a task of a swarm.
    pub(super) fn run_these(&mut self, indices: &[u32], fetch: impl Fn(u32)) -> usize {
        let before = self.counters.polls;
        CURRENT.with(|cells| {
            let running = Running::begin(cells, self.now);
            let mut left = indices;
            self.fetch(&indices[..indices.len().min(indices.len() % GROUP + GROUP)], &fetch);
            while let Err(panic) =
                catch_unwind(AssertUnwindSafe(|| self.poll_these(running.cells, &mut left, &fetch)))
            {
                let index = running.cells.current.replace(NOBODY);
                if index == NOBODY {
                    resume_unwind(panic);
                }
                self.drop_panicked(running.cells, index);
            }
            self.take_wakes(running.cells, running.cells.woken());
        });
        (self.counters.polls - before) as usize
    }

    /// Tells the time, and wakes those whose sleep has ended by then, in the order of its end, but not more than
    /// [`Limits::wakes_an_advance`] at once. Returns how many. A time before the last one is taken as the last one.
    ///
    /// If more are due, [`next_deadline`](Self::next_deadline) is not after `now`: advance again after the next run.
    pub fn advance(&mut self, now: Instant) -> usize {
        self.now = self.now.max(now);
        if self.sleepers.len() == 0 {
            return 0;
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.sleepers.wake_due(self.now.as_micros(), self.limits.wakes_an_advance, |index| batch.push(index));
        let woken = batch.len();
        self.wake_all(&batch);
        batch.clear();
        self.batch = batch;
        woken
    }

    /// When the next sleep ends; no later than that, [`advance`](Self::advance) wants to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.sleepers.next().map(Instant::from_micros)
    }

    /// The one way to wake tasks from other threads.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Has `notify` called, on the waking thread, when the first wake comes from another thread after a run: what gets
    /// up a driver that waits. It must not call [`Remote::wake`].
    pub fn on_remote_wake(&self, notify: impl Fn() + Send + 'static) {
        self.remote.notify_with(notify);
    }

    /// Tasks that are ready: 0 if there is nothing to run.
    #[inline(always)]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Tasks there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether there is a task of this index.
    #[inline]
    pub fn contains(&self, index: u32) -> bool {
        self.slots.contains(index as usize)
    }

    /// Slots in all.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Bytes of the slots up to the highest one used, the ring, the bitmap, and the sleepers.
    pub fn bytes(&self) -> usize {
        self.slots.bytes() + self.ready.bytes() + self.sleepers.bytes()
    }

    /// The time that it was told last.
    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    /// One above the highest index ever used.
    pub(super) const fn reach(&self) -> u32 {
        self.reach
    }

    /// A task has panicked before it was one.
    pub(super) const fn note_panic(&mut self) {
        self.counters.panicked += 1;
    }

    /// Counts since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Polls until no task is ready, or the count of polls is `until`.
    ///
    /// They go in batches of some dozen polls, so that wakes and the limit are checked once a batch.
    #[inline(always)]
    fn poll_until(&mut self, cells: &Current, until: u64, finished: &mut impl FnMut(u32)) {
        let waker = unkept(wake_current);
        let mut context = Context::from_waker(&waker);
        // Wakes before this position are at least one batch old, so their prefetched slots are in the cache.
        let mut settled = cells.woken();
        loop {
            self.take_wakes(cells, settled);
            settled = cells.woken();
            self.take_remote();
            self.ready.prefetch_tail();
            if self.ready.waiting() > 0 && self.ready.in_ring() < BATCH + AHEAD {
                self.ready.refill();
            }
            let left = until - self.counters.polls;
            let batch = self.ready.in_ring().min(BATCH).min(usize::try_from(left).unwrap_or(BATCH));
            if batch == 0 && (left == 0 || !cells.has_wakes()) {
                return;
            }
            let mut next = [0; BATCH + AHEAD];
            self.ready.peek(&mut next);
            for (index, ahead) in next[..batch].iter().zip(&next[AHEAD..]) {
                self.slots.prefetch(*ahead as usize);
                self.ready.skip();
                self.poll(cells, &mut context, *index, finished);
            }
        }
    }

    /// Polls a task that has just left the ring.
    #[inline(always)]
    fn poll(
        &mut self,
        cells: &Current,
        context: &mut Context<'_>,
        index: u32,
        finished: &mut impl FnMut(u32),
    ) {
        let Some((task, mark)) = self.slots.pin_marked(index as usize) else {
            // It was removed.
            self.slots.set_mark(index as usize, IDLE);
            return;
        };
        cells.current.set(index);
        self.counters.polls += 1;
        let poll = task.poll(context);
        if poll.is_pending() && !cells.has_requests() {
            return mark.set(IDLE);
        }
        let wants_again = self.take_requests(cells, index);
        if poll.is_ready() {
            self.finish(cells, index);
            self.slots.set_mark(index as usize, IDLE);
            finished(index);
        } else if wants_again {
            self.ready.push(index);
        } else {
            self.slots.set_mark(index as usize, IDLE);
        }
    }

    /// Polls each of these; they need not be in the ring. `left` has the rest of them.
    #[inline(always)]
    fn poll_these(&mut self, cells: &Current, left: &mut &[u32], fetch: &impl Fn(u32)) {
        let waker = unkept(wake_current);
        let mut context = Context::from_waker(&waker);
        while let [index, rest @ ..] = *left {
            if left.len().is_multiple_of(GROUP) {
                let coming = left.get(GROUP..).unwrap_or_default();
                self.fetch(&coming[..coming.len().min(GROUP)], fetch);
            }
            *left = rest;
            let Some((task, _)) = self.slots.pin_marked(*index as usize) else { continue };
            cells.current.set(*index);
            self.counters.polls += 1;
            let poll = task.poll(&mut context);
            if poll.is_pending() && !cells.has_requests() {
                continue;
            }
            let wants_again = self.take_requests(cells, *index);
            if poll.is_ready() {
                self.finish(cells, *index);
            } else if wants_again {
                self.wake(*index);
            }
        }
    }

    /// Asks for the slots of tasks, and for what else they use.
    #[inline(always)]
    fn fetch(&self, indices: &[u32], also: &impl Fn(u32)) {
        for index in indices {
            self.prefetch(*index);
            also(*index);
        }
    }

    /// Does what the last poll asked for; says whether it wants another.
    #[inline]
    fn take_requests(&mut self, cells: &Current, index: u32) -> bool {
        let requests = cells.take_requests();
        if requests & WAKES_OTHERS != 0 {
            cells.see_wakes(|woken| self.slots.prefetch(woken as usize));
        }
        if requests & SLEEPS != 0 {
            let now = self.now.as_micros();
            cells.take_sleeps(|micros| self.sleepers.push(now, micros, index));
        }
        requests & AGAIN != 0
    }

    /// A task has ended.
    fn finish(&mut self, cells: &Current, index: u32) {
        // If dropping it panics, it counts as one that panicked.
        self.slots.remove(index as usize);
        self.counters.finished += 1;
        cells.current.set(NOBODY);
    }

    /// A task has panicked and cannot go on, so it is dropped. Its requests are dropped too, except for wakes of other tasks.
    #[cold]
    fn drop_panicked(&mut self, cells: &Current, index: u32) {
        self.counters.panicked += 1;
        cells.take_requests();
        cells.take_sleeps(|_| ());
        cells.current.set(LEAVING);
        // A second panic, in its destructor, is dropped: the panic hook has printed it.
        let _ = catch_unwind(AssertUnwindSafe(|| self.slots.remove(index as usize)));
        cells.current.set(NOBODY);
    }

    /// Marks the tasks that other tasks have woken as ready, up to a position.
    #[inline(always)]
    fn take_wakes(&mut self, cells: &Current, end: usize) {
        cells.take_wakes(end, |index| self.wake(index));
    }

    #[inline(always)]
    fn take_remote(&mut self) {
        if self.remote.has_wakes() {
            let mut batch = std::mem::take(&mut self.batch);
            self.remote.take(&mut batch);
            self.wake_all(&batch);
            batch.clear();
            self.batch = batch;
        }
    }
}

impl<F> Tasks<F> {
    /// Drops all tasks. They may call [`wake`](super::wake) in their destructors: it comes to nothing.
    pub(super) fn clear(&mut self) {
        CURRENT.with(|cells| {
            let _leaving = Leaving::begin(cells);
            self.slots.clear();
        });
    }
}

impl<F> Drop for Tasks<F> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<F> fmt::Debug for Tasks<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tasks")
            .field("slots", &self.slots)
            .field("ready", &self.ready.len())
            .field("sleeping", &self.sleepers.len())
            .field("now", &self.now)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// A task that has no entry in the ready ring.
const IDLE: u8 = 0;
/// A task that has one, or that runs.
const READY: u8 = 1;
/// How many polls ahead slots are asked for.
const AHEAD: usize = 24;
/// How many tasks run while the slots and other memory of as many are on their way. Not more: each of them touches three lines
/// or more, and a processor fetches only a dozen or two at a time. Not one alone: each fetch may wait for the tables of its page
/// first, and processors overlap such waits if they come in a row.
const GROUP: usize = 4;
/// How many polls go by between two looks at wakes, of tasks and from other threads, and at the limit: time enough for
/// the slots of the woken to arrive.
const BATCH: usize = 32;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::{wake, yield_now};
    use super::*;

    thread_local!(static SEEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });

    fn see(index: u32) {
        SEEN.with_borrow_mut(|seen| seen.push(index));
    }

    /// Sees itself; every third wakes the next and goes on, every fifth panics.
    async fn task(index: u32) {
        loop {
            see(index);
            assert!(!index.is_multiple_of(5), "this one panics");
            if index.is_multiple_of(3) {
                wake(index + 1);
                yield_now().await;
                return;
            }
            super::super::park().await;
        }
    }

    #[test]
    fn these_are_polled_at_once_and_others_later() {
        let mut tasks = Tasks::with_capacity(100).expect("addresses are free");
        for index in 1..100 {
            tasks.spawn_at(index, task(index)).expect("it is free");
        }
        assert_eq!(tasks.run(1), 1);
        SEEN.take();
        let these: Vec<u32> = (1..50).rev().chain([0, 100, u32::MAX]).collect();
        assert_eq!(tasks.run_these(&these, |_| ()), 49);
        assert_eq!(SEEN.take(), Vec::from_iter((1..50).rev()));
        assert_eq!(tasks.counters().panicked, 9);
        // The tasks that did not panic are in their places; the first one has got another.
        tasks.run(usize::MAX);
        let expected: Vec<u32> = (2..100).filter(|index| index % 5 != 0 || *index >= 50).collect();
        let mut seen = SEEN.take();
        assert_eq!(seen.iter().filter(|index| index.is_multiple_of(3) && **index < 50).count(), 0);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(
            seen,
            expected.into_iter().filter(|index| index % 3 != 0 || *index >= 50).collect::<Vec<_>>()
        );
        assert_eq!(tasks.ready(), 0);
        assert_eq!(tasks.run_these(&[1, 2], |_| ()), 2);
        assert_eq!((SEEN.take(), tasks.ready()), (vec![1, 2], 0));
    }
}
