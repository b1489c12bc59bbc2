//! The way work gets from any thread to a loop, with at most one wake-up while the loop sleeps and none while it
//! does not.
//!
//! Waking a loop costs a write to an eventfd: a system call, and mostly a switch of threads. So it is done only for
//! a loop that sleeps, and only by the first of those who hand something over meanwhile. The others rely on a
//! promise: a loop that is awake looks into its inbox before it sleeps, and after each poll of a task.
//!
//! Why no hand-over is lost: a pusher first makes `pending` true and then reads `state`; a loop that is about to
//! sleep first makes `state` [`PARKED`] and then reads `pending`. All four are sequentially consistent, so at least
//! one of the two sees the other: either the pusher wakes the loop, or the loop does not sleep.

use std::mem;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Something to be done on the loop. It catches its own panics.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The inbox of one loop.
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    /// Whether the queue holds anything; written under its lock, read without.
    pending: AtomicBool,
    /// [`AWAKE`], [`PARKED`] or [`NOTIFIED`].
    state: AtomicU8,
    waiting_max: usize,
    wake_ups: AtomicU64,
    refused: AtomicU64,
}

impl Inbox {
    /// An empty inbox of a loop that is awake, for at most `waiting_max` jobs at a time.
    pub(crate) fn new(waiting_max: usize) -> Self {
        Self {
            queue: Mutex::new(Queue { jobs: Vec::new(), waker: None, closed: false }),
            pending: AtomicBool::new(false),
            state: AtomicU8::new(AWAKE),
            waiting_max,
            wake_ups: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Leaves a job for the loop, and wakes it if it sleeps and nobody has.
    pub(crate) fn push(&self, job: Job) -> Result<(), Refused> {
        let queue = self.lock();
        if queue.closed {
            return Err(Refused::Closed(job));
        }
        if queue.jobs.len() >= self.waiting_max {
            drop(queue);
            self.refused.fetch_add(1, Relaxed);
            return Err(Refused::Full(job));
        }
        self.add(queue, job);
        Ok(())
    }

    /// Leaves a job whatever the limit: the loop's own business, such as being told to stop. Dropped once closed.
    pub(crate) fn push_beyond_limit(&self, job: Job) {
        let queue = self.lock();
        if !queue.closed {
            self.add(queue, job);
        }
    }

    fn add(&self, mut queue: MutexGuard<'_, Queue>, job: Job) {
        queue.jobs.push(job);
        self.pending.store(true, SeqCst);
        if self.state.load(SeqCst) != PARKED
            || self.state.compare_exchange(PARKED, NOTIFIED, SeqCst, SeqCst).is_err()
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

    /// Whether something waits. Cheap enough to ask after each poll of a task.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Relaxed)
    }

    /// Moves all jobs that wait into `jobs`, which is empty; its memory is used for the next ones.
    pub(crate) fn take(&self, jobs: &mut Vec<Job>) {
        debug_assert!(jobs.is_empty());
        if !self.is_pending() {
            return;
        }
        let mut queue = self.lock();
        self.pending.store(false, SeqCst);
        mem::swap(jobs, &mut queue.jobs);
    }

    /// Called by the loop right before it sleeps, and again if something made it stay awake.
    pub(crate) fn parking(&self) {
        self.state.store(PARKED, SeqCst);
        if self.pending.load(SeqCst) {
            self.state.store(AWAKE, SeqCst);
            // Waking the own loop from within costs no system call: the runtime looks again before it sleeps.
            self.wake();
        }
    }

    /// Called by the loop when it no longer sleeps.
    pub(crate) fn unparked(&self) {
        self.state.store(AWAKE, SeqCst);
    }

    /// Sets what wakes the loop. Before this a push wakes nobody, which is right: the loop is still starting.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut queue = self.lock();
        match &mut queue.waker {
            Some(present) => present.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Has the loop look at its inbox and at whether it is to stop.
    pub(crate) fn wake(&self) {
        let waker = self.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Refuses all later jobs, and gives back those that were waiting.
    ///
    /// It also lets the waker go: that holds the runtime, whose hooks hold the inbox.
    pub(crate) fn close(&self) -> Vec<Job> {
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

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under the lock, so a poisoned queue is still whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a job was not taken; it is given back, to be dropped outside the lock.
pub(crate) enum Refused {
    /// As many as the limit allows are waiting.
    Full(Job),
    /// The loop has ended.
    Closed(Job),
}

struct Queue {
    jobs: Vec<Job>,
    /// Wakes the runtime's main future.
    waker: Option<Waker>,
    closed: bool,
}

/// The loop runs, and will look before it sleeps.
const AWAKE: u8 = 0;
/// The loop sleeps, or is about to; it must be woken.
const PARKED: u8 = 1;
/// The loop sleeps and somebody has woken it already.
const NOTIFIED: u8 = 2;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn inbox_and_wakes(waiting_max: usize) -> (Inbox, Arc<Wakes>) {
        let (inbox, wakes) = (Inbox::new(waiting_max), Arc::new(Wakes::default()));
        inbox.set_waker(&Arc::clone(&wakes).into());
        (inbox, wakes)
    }

    fn push(inbox: &Inbox) -> Result<(), Refused> {
        inbox.push(Box::new(|| ()))
    }

    #[test]
    fn a_sleeping_loop_is_woken_once_and_an_awake_one_never() {
        let (inbox, wakes) = inbox_and_wakes(100);
        assert!(push(&inbox).is_ok());
        assert_eq!((inbox.wake_ups(), wakes.0.load(SeqCst)), (0, 0), "awake: no wake-up");

        inbox.take(&mut Vec::new());
        inbox.parking();
        for _ in 0..10 {
            assert!(push(&inbox).is_ok());
        }
        assert_eq!((inbox.wake_ups(), wakes.0.load(SeqCst)), (1, 1), "asleep: the first wakes it");

        inbox.unparked();
        assert!(push(&inbox).is_ok());
        let mut jobs = Vec::new();
        inbox.take(&mut jobs);
        assert_eq!((jobs.len(), inbox.wake_ups()), (11, 1));
        assert!(!inbox.is_pending());
    }

    #[test]
    fn a_loop_with_something_to_do_does_not_sleep() {
        let (inbox, wakes) = inbox_and_wakes(100);
        assert!(push(&inbox).is_ok());
        inbox.parking();
        assert_eq!(wakes.0.load(SeqCst), 1, "it wakes itself");
        assert_eq!(inbox.wake_ups(), 0, "which is not a wake-up from outside");
        assert!(push(&inbox).is_ok());
        assert_eq!(wakes.0.load(SeqCst), 1);
    }

    #[test]
    fn the_limit_refuses_and_counts() {
        let (inbox, _) = inbox_and_wakes(2);
        assert!(push(&inbox).is_ok() && push(&inbox).is_ok());
        assert!(matches!(push(&inbox), Err(Refused::Full(_))));
        assert_eq!(inbox.refused(), 1);
        inbox.push_beyond_limit(Box::new(|| ()));
        assert_eq!(inbox.close().len(), 3);
        assert!(matches!(push(&inbox), Err(Refused::Closed(_))));
        inbox.push_beyond_limit(Box::new(|| ()));
        assert!(inbox.close().is_empty());
    }
}
