//! The way work gets from any thread to a loop, with at most one wake-up while the loop sleeps and none while it
//! does not.
//!
//! Waking a loop costs a write to an eventfd: a system call, and mostly a switch of threads. So only a loop that sleeps
//! is woken, and only by the first hand-over. The others rely on a rule: a loop that is awake looks into its inbox
//! before it sleeps, and after each poll of a task.
//!
//! Why no hand-over is lost: a pusher first makes `pending` true and then reads `state`; a loop that is about to
//! sleep first makes `state` [`PARKED`] and then reads `pending`. A fence stands between the two on either side, so
//! at least one of them sees the other: either the pusher wakes the loop, or the loop does not sleep. A pusher that finds `pending`
//! true leaves it at that: whoever has made it so has done the same for it. The test
//! `no_order_of_steps_loses_a_hand_over` compiles this file against loom and tries the orders that there are.

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;

use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, MutexGuard, PoisonError, fence};

/// The inbox of one loop, for jobs of type `J`.
pub(crate) struct Inbox<J> {
    queue: Mutex<Queue<J>>,
    /// Whether a job may wait, here or already taken by the loop. Written under the queue's lock, read without it.
    pending: AtomicBool,
    /// [`AWAKE`], [`PARKED`] or [`NOTIFIED`].
    state: AtomicU8,
    waiting_max: usize,
    wake_ups: AtomicU64,
    refused: AtomicU64,
}

impl<J> Inbox<J> {
    /// An empty inbox of a loop that is awake, for at most `waiting_max` jobs at a time.
    pub(crate) fn new(waiting_max: usize) -> Self {
        Self {
            queue: Mutex::new(Queue { jobs: VecDeque::new(), waker: None, closed: false }),
            pending: AtomicBool::new(false),
            state: AtomicU8::new(AWAKE),
            waiting_max,
            wake_ups: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Queues a job, and wakes the loop if it sleeps and was not woken yet.
    pub(crate) fn push(&self, job: J) -> Result<(), Refused<J>> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(Refused::Closed(job));
        }
        if queue.jobs.len() >= self.waiting_max {
            drop(queue);
            self.refused.fetch_add(1, Relaxed);
            return Err(Refused::Full(job));
        }
        queue.jobs.push_back(job);
        self.announce(queue);
        Ok(())
    }

    /// Queues a job past the limit. Returns the job if the inbox is closed.
    pub(crate) fn push_always(&self, job: J) -> Result<(), J> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(job);
        }
        queue.jobs.push_back(job);
        self.announce(queue);
        Ok(())
    }

    /// Queues a job before all others and past the limit: for the loop itself, such as the order to stop. Returns the
    /// job if the inbox is closed.
    pub(crate) fn push_first(&self, job: J) -> Result<(), J> {
        let mut queue = self.lock();
        if queue.closed {
            return Err(job);
        }
        queue.jobs.push_front(job);
        self.announce(queue);
        Ok(())
    }

    /// Tells the loop of a job that was just added.
    fn announce(&self, queue: MutexGuard<'_, Queue<J>>) {
        // The loop makes it false under the lock alone, when it takes what is there.
        if self.pending.load(Relaxed) {
            return;
        }
        self.pending.store(true, Relaxed);
        fence(SeqCst);
        if self.state.load(Relaxed) != PARKED
            || self.state.compare_exchange(PARKED, NOTIFIED, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let waker = queue.waker.clone();
        drop(queue);
        self.wake_ups.fetch_add(1, Relaxed);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether a job may wait. Cheap enough to ask after each poll of a task.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Relaxed)
    }

    /// Moves at most [`BATCH`] jobs to `jobs`, which must be empty. The oldest jobs go first.
    ///
    /// If it moves more than one job, the inbox stays pending even when its queue is empty now. The loop may run one
    /// job and be about to sleep, and `pending` is what reminds it of the others. The next call clears it.
    pub(crate) fn take(&self, jobs: &mut VecDeque<J>) {
        debug_assert!(jobs.is_empty());
        if !self.is_pending() {
            return;
        }
        let mut queue = self.lock();
        let count = queue.jobs.len().min(BATCH);
        jobs.extend(queue.jobs.drain(..count));
        if queue.jobs.is_empty() {
            queue.jobs.shrink_to(SPARE_MAX);
            self.pending.store(count > 1, Relaxed);
        }
    }

    /// Called by the loop right before it sleeps, and again if something made it stay awake.
    pub(crate) fn parking(&self) {
        self.state.store(PARKED, Relaxed);
        fence(SeqCst);
        if self.pending.load(Relaxed) {
            self.state.store(AWAKE, Relaxed);
            // Waking the own loop from within costs no system call: the runtime looks again before it sleeps.
            self.wake();
        }
    }

    /// Called by the loop when it no longer sleeps.
    pub(crate) fn unparked(&self) {
        self.state.store(AWAKE, Relaxed);
    }

    /// Sets the waker of the loop. Before this a push needs no waker, because the loop is still starting.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        self.lock().waker = Some(waker.clone());
    }

    /// Makes the loop check its inbox, and whether it must stop.
    pub(crate) fn wake(&self) {
        let waker = self.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Refuses all later jobs if none waits now, so that no job in time is dropped. Returns whether it is closed.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut queue = self.lock();
        if queue.jobs.is_empty() {
            queue.closed = true;
        }
        queue.closed
    }

    /// Refuses all later jobs, and returns the waiting ones.
    ///
    /// It also drops the waker, because that holds the runtime, whose hooks hold the inbox.
    pub(crate) fn close(&self) -> VecDeque<J> {
        let mut queue = self.lock();
        queue.closed = true;
        queue.waker = None;
        mem::take(&mut queue.jobs)
    }

    /// How often a sleeping loop had to be woken for a hand-over.
    pub(crate) fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Relaxed)
    }

    /// How many jobs were refused because too many waited.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<J>> {
        // Nothing that can panic runs under the lock, so a poisoned queue is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a job was refused. The job is returned, so that it is dropped outside the lock.
pub(crate) enum Refused<J> {
    /// As many as the limit allows are waiting.
    Full(J),
    /// The loop has ended.
    Closed(J),
}

struct Queue<J> {
    jobs: VecDeque<J>,
    /// Wakes the runtime's main future.
    waker: Option<Waker>,
    closed: bool,
}

/// The most jobs that a loop takes at a time.
pub(crate) const BATCH: usize = 64;
/// The capacity that the queue keeps after a burst of hand-overs, in jobs.
const SPARE_MAX: usize = 1024;
/// The loop runs, and will look before it sleeps.
const AWAKE: u8 = 0;
/// The loop sleeps, or is about to; it must be woken.
const PARKED: u8 = 1;
/// The loop sleeps and has been woken already.
const NOTIFIED: u8 = 2;
