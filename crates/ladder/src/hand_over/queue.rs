//! A queue of numbers from one thread to one other, in memory alone.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Jobs on their way; a job is the time at which it was handed over.
pub(super) struct Queue {
    slots: Box<[AtomicU64]>,
    taken: OwnLine,
    given: OwnLine,
}

/// A count that one side writes, on cache lines of its own, so that a write does not take the other side's count out of its
/// cache. Two lines, because processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct OwnLine(AtomicUsize);

impl Queue {
    /// A queue for at most so many jobs at a time.
    pub(super) fn new(jobs: usize) -> Self {
        let slots = (0..jobs.next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
        Self { slots, taken: OwnLine::default(), given: OwnLine::default() }
    }

    /// Gives a job; called by one thread alone.
    #[inline]
    pub(super) fn push(&self, job: u64) {
        let given = self.given.0.load(Ordering::Relaxed);
        debug_assert!(given.wrapping_sub(self.taken.0.load(Ordering::Acquire)) < self.slots.len());
        self.slots[given & (self.slots.len() - 1)].store(job, Ordering::Relaxed);
        // Release: a thread that sees the count sees the job.
        self.given.0.store(given.wrapping_add(1), Ordering::Release);
    }

    /// Takes the next job, if there is one; called by one thread alone.
    #[inline]
    pub(super) fn pop(&self) -> Option<u64> {
        let taken = self.taken.0.load(Ordering::Relaxed);
        if taken == self.given.0.load(Ordering::Acquire) {
            return None;
        }
        let job = self.slots[taken & (self.slots.len() - 1)].load(Ordering::Relaxed);
        self.taken.0.store(taken.wrapping_add(1), Ordering::Release);
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_in_their_order_round_after_round() {
        let queue = Queue::new(3);
        for round in 0..10 {
            assert_eq!(queue.pop(), None);
            (0..4).for_each(|job| queue.push(round * 10 + job));
            (0..4).for_each(|job| assert_eq!(queue.pop(), Some(round * 10 + job)));
        }
    }

    #[test]
    fn two_threads_lose_nothing() {
        let (forth, back) = (Queue::new(8), Queue::new(8));
        let take = |queue: &Queue| loop {
            if let Some(job) = queue.pop() {
                return job;
            }
            std::thread::yield_now();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..10_000).for_each(|_| back.push(take(&forth) + 1)));
            for job in 0..10_000 {
                forth.push(job);
                assert_eq!(take(&back), job + 1);
            }
        });
    }
}
