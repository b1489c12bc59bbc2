//! Who sleeps until when: a queue for each length of sleep, and a heap for the lengths that have none.
//!
//! Tasks that sleep for the same length wake in the order in which they fell asleep. So a queue is enough: one number
//! a sleeper is written at its end and read at its front, and nothing is compared. Sleepers that share a time share its
//! entry. Services use few lengths; those beyond [`QUEUES`] go into a heap of 16 bytes each.
//!
//! A sleeper cannot be taken out. A task that no longer sleeps ignores its wake.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// All sleepers of one executor. Times are microseconds.
#[derive(Debug)]
pub(super) struct Sleepers {
    queues: Vec<Queue>,
    /// The queue that was used last: in most services, the one that is used next.
    recent: usize,
    others: BinaryHeap<Reverse<(u64, u32)>>,
    spare: Vec<Box<Chunk>>,
    len: usize,
}

impl Sleepers {
    pub(super) const fn new() -> Self {
        Self { queues: Vec::new(), recent: 0, others: BinaryHeap::new(), spare: Vec::new(), len: 0 }
    }

    /// How many sleeps have not ended.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Notes that `index` is to be woken at `now + length`.
    #[inline(always)]
    pub(super) fn push(&mut self, now: u64, length: u64, index: u32) {
        self.len += 1;
        if self.queues.get(self.recent).is_none_or(|queue| queue.length != length) && !self.find(length) {
            self.others.push(Reverse((now.saturating_add(length), index)));
            return;
        }
        self.queues[self.recent].push(now.saturating_add(length), index, &mut self.spare);
    }

    /// Calls `wake` for each sleeper that is due, the earliest first, up to `limit`. Returns how many.
    pub(super) fn wake_due(&mut self, now: u64, limit: usize, mut wake: impl FnMut(u32)) -> usize {
        let mut woken = 0;
        while woken < limit {
            let of_queues = self.queues.iter_mut().filter_map(|queue| queue.next().map(|at| (at, queue)));
            let first = of_queues.min_by_key(|(at, _)| *at);
            let of_others = self.others.peek().map(|Reverse((at, _))| *at);
            match (first, of_others) {
                (Some((at, queue)), other) if at <= now && other.is_none_or(|other| at <= other) => {
                    woken += queue.pop_run(limit - woken, &mut self.spare, &mut wake);
                }
                (_, Some(at)) if at <= now => {
                    if let Some(Reverse((_, index))) = self.others.pop() {
                        wake(index);
                        woken += 1;
                    }
                }
                _ => break,
            }
        }
        self.len -= woken;
        woken
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<u64> {
        let of_queues = self.queues.iter().filter_map(Queue::next).min();
        let of_others = self.others.peek().map(|Reverse((at, _))| *at);
        [of_queues, of_others].into_iter().flatten().min()
    }

    /// Bytes of the queues and the heap.
    pub(super) fn bytes(&self) -> usize {
        let chunks = self.spare.len() + self.queues.iter().map(|queue| queue.chunks.len()).sum::<usize>();
        let runs: usize = self.queues.iter().map(|queue| queue.runs.capacity()).sum();
        chunks * size_of::<Chunk>()
            + runs * size_of::<Run>()
            + self.others.capacity() * size_of::<(u64, u32)>()
    }

    /// Makes the queue of this length the recent one; `false` if it has none, and can get none.
    #[cold]
    fn find(&mut self, length: u64) -> bool {
        let found = self.queues.iter().position(|queue| queue.length == length).or_else(|| {
            if self.queues.len() < QUEUES {
                self.queues.push(Queue::new(length));
                return Some(self.queues.len() - 1);
            }
            let empty = self.queues.iter().position(|queue| queue.next().is_none())?;
            self.queues[empty].length = length;
            Some(empty)
        });
        self.recent = found.unwrap_or(self.recent);
        found.is_some()
    }
}

/// The sleepers of one length.
#[derive(Debug)]
struct Queue {
    length: u64,
    /// The numbers, from `head` in the first chunk to `tail` in the last.
    chunks: VecDeque<Box<Chunk>>,
    head: usize,
    tail: usize,
    runs: VecDeque<Run>,
}

/// So many of the numbers are due at this time.
#[derive(Debug)]
struct Run {
    at: u64,
    count: usize,
}

type Chunk = [u32; CHUNK_ENTRIES];

impl Queue {
    const fn new(length: u64) -> Self {
        Self { length, chunks: VecDeque::new(), head: 0, tail: 0, runs: VecDeque::new() }
    }

    fn next(&self) -> Option<u64> {
        self.runs.front().map(|run| run.at)
    }

    #[inline(always)]
    fn push(&mut self, at: u64, index: u32, spare: &mut Vec<Box<Chunk>>) {
        match self.runs.back_mut() {
            // A clock that stood still, or was set back.
            Some(run) if run.at >= at => run.count += 1,
            _ => self.runs.push_back(Run { at, count: 1 }),
        }
        if self.tail == CHUNK_ENTRIES || self.chunks.is_empty() {
            self.chunks.push_back(spare.pop().unwrap_or_else(|| Box::new([0; CHUNK_ENTRIES])));
            self.tail = 0;
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk[self.tail] = index;
            self.tail += 1;
        }
    }

    /// Wakes the sleepers that are due first, up to `limit`. Returns how many.
    fn pop_run(&mut self, limit: usize, spare: &mut Vec<Box<Chunk>>, wake: &mut impl FnMut(u32)) -> usize {
        let Some(run) = self.runs.front_mut() else { return 0 };
        let woken = run.count.min(limit);
        run.count -= woken;
        if run.count == 0 {
            self.runs.pop_front();
        }
        let mut left = woken;
        while left > 0
            && let Some(chunk) = self.chunks.front()
        {
            let part = left.min(CHUNK_ENTRIES - self.head);
            for index in &chunk[self.head..self.head + part] {
                wake(*index);
            }
            self.head += part;
            left -= part;
            let is_last = self.chunks.len() == 1;
            if self.head == CHUNK_ENTRIES || is_last && self.head == self.tail {
                spare.extend(self.chunks.pop_front());
                self.head = 0;
                self.tail = if is_last { 0 } else { self.tail };
            }
        }
        woken
    }
}

/// Lengths of sleep that have a queue of their own, found by looking at each.
const QUEUES: usize = 16;
/// 64 KiB: so few chunks that their list stays in cache, so small that a queue of few sleepers costs nothing.
const CHUNK_ENTRIES: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn due(sleepers: &mut Sleepers, now: u64, limit: usize) -> Vec<u32> {
        let mut woken = Vec::new();
        let count = sleepers.wake_due(now, limit, |index| woken.push(index));
        assert_eq!(count, woken.len());
        woken
    }

    #[test]
    fn equal_lengths_wake_in_their_order() {
        let mut sleepers = Sleepers::new();
        (0..100_000).for_each(|index| sleepers.push(u64::from(index) / 10, 500, index));
        assert_eq!((sleepers.len(), sleepers.next()), (100_000, Some(500)));
        assert_eq!(due(&mut sleepers, 499, usize::MAX), []);
        assert_eq!(due(&mut sleepers, 501, usize::MAX), Vec::from_iter(0..20));
        assert_eq!(due(&mut sleepers, 10_500, 30_000), Vec::from_iter(20..30_020));
        assert_eq!(due(&mut sleepers, 10_500, usize::MAX), Vec::from_iter(30_020..100_000));
        assert_eq!((sleepers.len(), sleepers.next()), (0, None));
    }

    #[test]
    fn chunks_are_used_again() {
        let mut sleepers = Sleepers::new();
        let mut bytes = None;
        for round in 0..50 {
            (0..20_000).for_each(|index| sleepers.push(round * 100, 10 + round % 3, index));
            assert_eq!(due(&mut sleepers, round * 100 + 50, usize::MAX).len(), 20_000);
            assert!(*bytes.get_or_insert(sleepers.bytes()) >= 2 * size_of::<Chunk>());
        }
        assert!(sleepers.bytes() <= 3 * size_of::<Chunk>(), "{}", sleepers.bytes());
    }

    #[test]
    fn a_clock_that_goes_back_wakes_nobody_early() {
        let mut sleepers = Sleepers::new();
        sleepers.push(1000, 10, 1);
        sleepers.push(500, 10, 2);
        assert_eq!(due(&mut sleepers, 1009, usize::MAX), []);
        assert_eq!(due(&mut sleepers, 1010, usize::MAX), [1, 2]);
        sleepers.push(u64::MAX, u64::MAX, 3);
        assert_eq!(sleepers.next(), Some(u64::MAX));
    }

    proptest! {
        /// Beside a list sorted by time: more lengths than there are queues, and a limit on each step.
        #[test]
        fn agrees_with_a_sorted_list(
            steps in prop::collection::vec((0..40_u64, prop::collection::vec(1..60_u64, 0..20), 1..30_usize), 1..100)
        ) {
            let mut sleepers = Sleepers::new();
            let mut model: Vec<(u64, u32)> = Vec::new();
            let (mut now, mut index) = (0, 0);
            for (pass, lengths, limit) in steps {
                now += pass;
                let times: Vec<u64> = due(&mut sleepers, now, limit)
                    .iter()
                    .map(|index| {
                        let place = model.iter().position(|(_, other)| other == index).expect("it slept");
                        model.remove(place).0
                    })
                    .collect();
                prop_assert!(times.is_sorted() && times.last().is_none_or(|at| *at <= now));
                let left = model.iter().filter(|(at, _)| *at <= now).count();
                prop_assert!(times.len() == limit || left == 0, "{left} are due still");
                for length in lengths {
                    sleepers.push(now, length, index);
                    model.push((now + length, index));
                    index += 1;
                }
                prop_assert_eq!(sleepers.len(), model.len());
                prop_assert_eq!(sleepers.next(), model.iter().map(|(at, _)| *at).min());
            }
        }
    }
}
