//! The tasks to poll: a ring of numbers, and a bitmap for the numbers without room in it.
//!
//! As long as they fit, ready tasks are polled in the order of their wakes. The ring is small enough to stay in cache, so
//! that few ready tasks of very many cost no memory traffic. When it is full, each further task sets a bit in a bitmap. While
//! the bitmap has bits, all tasks that become ready go there. The ring is then filled again from the bitmap in the
//! order of the numbers, in a sweep that goes round. So no task starves: between two polls of a task the sweep goes
//! round once. When very many tasks are ready, their order in memory is the better one: a sweep reads memory from front to back.
//!
//! A number must not be added twice; the executor's mark of the task sees to that. So the bound is the number of tasks.

use std::io;

use anywire_sys::arena::Arena;
use anywire_sys::prefetch::prefetch;

/// The ready tasks of one executor, by number.
#[derive(Debug)]
pub(super) struct ReadyQueue {
    /// A power of two; positions count on and wrap, and their low bits are the place.
    ring: Box<[u32]>,
    head: u32,
    tail: u32,
    /// A bit for each that had no room in the ring; none at all if there is room for everybody.
    waiting: Option<Arena<u64>>,
    waiting_len: usize,
    /// The word where the sweep goes on.
    sweep: usize,
}

impl ReadyQueue {
    /// For the numbers below `capacity`, with at least so many places in the ring.
    pub(super) fn new(capacity: usize, ring_entries: usize) -> io::Result<Self> {
        let places = ring_entries.clamp(RING_ENTRIES_MIN, 1 << 31).next_power_of_two();
        let enough = capacity.next_power_of_two().max(RING_ENTRIES_MIN);
        let waiting = if places < enough {
            let mut words = Arena::reserve(capacity.div_ceil(64), 0)?;
            words.grow_to(capacity.div_ceil(64));
            Some(words)
        } else {
            None
        };
        Ok(Self {
            ring: vec![0; places.min(enough)].into_boxed_slice(),
            head: 0,
            tail: 0,
            waiting,
            waiting_len: 0,
            sweep: 0,
        })
    }

    /// How many are to be polled.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.in_ring() + self.waiting_len
    }

    /// How many of them are in the ring, whose order is known.
    #[inline(always)]
    pub(super) fn in_ring(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// How many are not.
    #[inline(always)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting_len
    }

    /// Adds one that is not in there.
    #[inline(always)]
    pub(super) fn push(&mut self, index: u32) {
        if self.waiting_len == 0 && self.in_ring() < self.ring.len() {
            self.append(index);
        } else if let Some(words) = &mut self.waiting {
            debug_assert!(words[index as usize / 64] >> (index % 64) & 1 == 0, "{index} is added twice");
            words[index as usize / 64] |= 1 << (index % 64);
            self.waiting_len += 1;
        }
    }

    /// The next ones in the ring, which stay there. If they are fewer, the last one stands in the places that are left.
    pub(super) fn peek(&self, next: &mut [u32]) {
        let count = next.len().min(self.in_ring());
        let first = self.head as usize & (self.ring.len() - 1);
        let in_lap = count.min(self.ring.len() - first);
        let (known, left) = next.split_at_mut(count);
        let (lap, next_lap) = known.split_at_mut(in_lap);
        lap.copy_from_slice(&self.ring[first..first + in_lap]);
        next_lap.copy_from_slice(&self.ring[..count - in_lap]);
        left.fill(known.last().copied().unwrap_or(0));
    }

    /// Takes the next one, of a ring that is not empty.
    #[inline(always)]
    pub(super) fn skip(&mut self) {
        debug_assert!(self.in_ring() > 0, "the executor counts what it takes");
        self.head = self.head.wrapping_add(1);
    }

    /// Asks for the places of the ring where the next polls but a few dozen will write. A write to a line outside
    /// of the cache holds up all writes after it, and each poll makes many.
    #[inline(always)]
    pub(super) fn prefetch_tail(&self) {
        for ahead in [TAIL_AHEAD, TAIL_AHEAD + LINE_ENTRIES] {
            let place = self.tail.wrapping_add(ahead) as usize & (self.ring.len() - 1);
            if let Some(place) = self.ring.get(place) {
                prefetch(place);
            }
        }
    }

    /// Fills the ring from the bitmap: a part of the sweep, some hundreds.
    pub(super) fn refill(&mut self) {
        let Some(words) = &mut self.waiting else { return };
        let room = (self.ring.len() - self.tail.wrapping_sub(self.head) as usize) / 64;
        let mut words_left = room.min(REFILL_WORDS);
        while words_left > 0 && self.waiting_len > 0 {
            let rest = &words[self.sweep..];
            let Some(skip) = rest.iter().position(|word| *word != 0) else {
                self.sweep = 0;
                continue;
            };
            self.sweep += skip;
            let mut word = std::mem::take(&mut words[self.sweep]);
            self.waiting_len -= word.count_ones() as usize;
            let first = self.sweep as u32 * 64;
            while word != 0 {
                self.ring[self.tail as usize & (self.ring.len() - 1)] = first + word.trailing_zeros();
                self.tail = self.tail.wrapping_add(1);
                word &= word - 1;
            }
            self.sweep = if self.sweep + 1 == words.len() { 0 } else { self.sweep + 1 };
            words_left -= 1;
        }
    }

    /// Bytes of the ring and the bitmap.
    pub(super) fn bytes(&self) -> usize {
        size_of_val::<[u32]>(&self.ring) + self.waiting.as_ref().map_or(0, Arena::bytes)
    }

    #[inline(always)]
    fn append(&mut self, index: u32) {
        let place = self.tail as usize & (self.ring.len() - 1);
        self.ring[place] = index;
        self.tail = self.tail.wrapping_add(1);
    }
}

/// A sweep must find room for some words of the bitmap while the executor's look-ahead is in the ring.
const RING_ENTRIES_MIN: usize = 1024;
/// Twice what a batch of polls can write.
const TAIL_AHEAD: u32 = 64;
/// Entries of the ring in a line of the cache.
const LINE_ENTRIES: u32 = 16;
/// Words of the bitmap that one refill takes: 512 numbers at most, 2 KiB of the ring.
const REFILL_WORDS: usize = 8;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pop(ready: &mut ReadyQueue) -> u32 {
        let mut next = [0];
        ready.peek(&mut next);
        ready.skip();
        next[0]
    }

    fn drain(ready: &mut ReadyQueue) -> Vec<u32> {
        std::iter::from_fn(|| {
            if ready.in_ring() == 0 {
                ready.refill();
            }
            (ready.in_ring() > 0).then(|| pop(ready))
        })
        .collect()
    }

    #[test]
    fn what_fits_comes_in_its_order() {
        let mut ready = ReadyQueue::new(1 << 20, 1024).expect("addresses are free");
        let order: Vec<u32> = (0..1024).map(|step: u32| step * 7919 % 1_000_003).collect();
        for round in 0..5 {
            order.iter().for_each(|index| ready.push(*index));
            assert_eq!((ready.len(), ready.waiting()), (1024, 0), "round {round}");
            let mut next = [0; 1030];
            ready.peek(&mut next);
            assert_eq!((&next[..1024], &next[1024..]), (&order[..], &[order[1023]; 6][..]));
            assert_eq!(drain(&mut ready), order);
        }
    }

    #[test]
    fn a_ring_for_everybody_has_no_bitmap() {
        let mut ready = ReadyQueue::new(5000, 1 << 16).expect("addresses are free");
        assert_eq!(ready.bytes(), 8192 * 4);
        (0..5000).rev().for_each(|index| ready.push(index));
        assert_eq!(drain(&mut ready), (0..5000).rev().collect::<Vec<u32>>());
    }

    #[test]
    fn what_does_not_fit_comes_in_the_order_of_its_numbers() {
        let mut ready = ReadyQueue::new(100_000, 1024).expect("addresses are free");
        (0..100_000).rev().for_each(|index| ready.push(index));
        assert_eq!((ready.len(), ready.in_ring()), (100_000, 1024));
        let all = drain(&mut ready);
        assert!(all[..1024].is_sorted_by(|one, next| one > next));
        assert!(all[1024..].is_sorted());
        assert_eq!(BTreeSet::from_iter(all).len(), 100_000);
    }

    /// Numbers become ready while the ring is worked on, as in an executor. Each comes out as often as it went in, and
    /// waits for no more than one poll of each other number.
    fn each_comes_once(steps: &[(u32, u8)]) -> Result<(), TestCaseError> {
        let mut ready = ReadyQueue::new(4096, 1024).expect("addresses are free");
        let mut inside = BTreeSet::new();
        for (index, polls) in steps {
            for offset in 0..64 {
                let index = (index + offset * 61) % 4096;
                if inside.insert(index) {
                    ready.push(index);
                }
            }
            for _ in 0..*polls {
                if ready.in_ring() <= 16 && ready.waiting() > 0 {
                    ready.refill();
                }
                if ready.in_ring() == 0 {
                    break;
                }
                let index = pop(&mut ready);
                prop_assert!(inside.remove(&index), "{index} came without having been added");
            }
            prop_assert_eq!(ready.len(), inside.len());
        }
        let rest = drain(&mut ready);
        prop_assert_eq!(rest.len(), inside.len());
        prop_assert_eq!(BTreeSet::from_iter(rest), inside);
        Ok(())
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in prop::collection::vec((0..4096_u32, 0..96_u8), 1..300)) {
            each_comes_once(&steps)?;
        }
    }
}
