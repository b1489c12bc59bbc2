//! A queue of small values that may hold a hundred million of them, and gives its memory back.
//!
//! For entries that come due in the order in which they were put in: delayed ACKs, TIME-WAIT, connections that want to
//! send. The values lie in chunks of [`CHUNK`]. So growing copies no values, which would stop the engine for a `VecDeque`
//! of 400 MB. Reading is sequential. An emptied chunk is used again, so a queue of constant length allocates nothing. Of
//! the chunks that are not in use it keeps at most as many as are, or [`SPARE_MIN`].
//!
//! The queue sets no limit of its own: it holds connections, each at most once, and their number is bounded.

use std::collections::VecDeque;
use std::mem;

/// First in, first out. An empty one holds no memory.
#[derive(Default)]
pub(crate) struct Fifo<T> {
    /// The chunk that is being emptied; its values before `head` are gone.
    front: Vec<T>,
    head: usize,
    /// Full chunks, in order.
    middle: VecDeque<Vec<T>>,
    /// The chunk that is being filled.
    back: Vec<T>,
    /// Empty chunks, to be filled again.
    spare: Vec<Vec<T>>,
}

impl<T: Copy> Fifo<T> {
    /// Values in the queue.
    pub(crate) fn len(&self) -> usize {
        self.front.len() - self.head + self.middle.len() * CHUNK + self.back.len()
    }

    /// Bytes of memory that the queue holds, spare chunks included.
    pub(crate) fn bytes(&self) -> usize {
        let ends = self.front.capacity() + self.back.capacity();
        let values = ends + (self.middle.len() + self.spare.len()) * CHUNK;
        let chunks = self.middle.capacity() + self.spare.capacity();
        values * size_of::<T>() + chunks * size_of::<Vec<T>>()
    }

    /// Queues a value behind all others.
    #[inline]
    pub(crate) fn push_back(&mut self, value: T) {
        if self.back.len() == self.back.capacity() {
            self.start_chunk();
        }
        self.back.push(value);
    }

    /// The value that has waited longest.
    #[inline]
    pub(crate) fn front(&self) -> Option<T> {
        self.peek(0)
    }

    /// Takes the value that has waited longest.
    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        if self.head >= self.front.len() {
            self.finish_chunk();
        }
        let value = *self.front.get(self.head)?;
        self.head += 1;
        Some(value)
    }

    /// The value behind `n` others, if the queue is longer than two chunks and this value is in the first one. Only long
    /// queues need it, and not for each value.
    #[inline]
    pub(crate) fn peek_if_long(&self, n: usize) -> Option<T> {
        if self.middle.is_empty() { None } else { self.front.get(self.head + n).copied() }
    }

    /// The value behind `n` others, to prefetch the TCB it names.
    #[inline]
    pub(crate) fn peek(&self, n: usize) -> Option<T> {
        match self.front.get(self.head + n) {
            Some(value) => Some(*value),
            None => self.peek_behind(self.head + n - self.front.len()),
        }
    }

    /// The value `n`, counted behind the front chunk.
    #[inline(never)]
    fn peek_behind(&self, n: usize) -> Option<T> {
        match self.middle.get(n / CHUNK) {
            Some(chunk) => Some(chunk[n % CHUNK]),
            None => self.back.get(n - self.middle.len() * CHUNK).copied(),
        }
    }

    /// The back chunk is full, or there was none yet.
    #[cold]
    #[inline(never)]
    fn start_chunk(&mut self) {
        let mut empty = self.spare.pop().unwrap_or_default();
        // A new one, and the place of the first chunk in front, have no memory yet.
        empty.reserve_exact(CHUNK);
        let full = mem::replace(&mut self.back, empty);
        if !full.is_empty() {
            self.middle.push_back(full);
        }
    }

    /// The front chunk is used up, and the next one takes its place.
    #[inline(never)]
    fn finish_chunk(&mut self) {
        self.front.clear();
        self.head = 0;
        let Some(chunk) = self.middle.pop_front() else {
            // A short queue goes to and fro between two chunks, which stay in the cache.
            mem::swap(&mut self.front, &mut self.back);
            return;
        };
        self.spare.push(mem::replace(&mut self.front, chunk));
        self.spare.truncate(self.middle.len().max(SPARE_MIN));
    }
}

/// Values in a chunk: long enough that changing chunks costs nothing, and a page for `u32`.
const CHUNK: usize = 1024;
/// Spare chunks that a queue keeps however short it is.
const SPARE_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u16),
        Pop(u16),
        Peek(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..5_000_u16).prop_map(Step::Push),
            (0..5_000_u16).prop_map(Step::Pop),
            (0..10_000_u16).prop_map(Step::Peek),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_queue(steps in prop::collection::vec(step(), 1..60)) {
            let (mut fifo, mut model, mut next) = (Fifo::default(), VecDeque::new(), 0_u32);
            for step in steps {
                match step {
                    Step::Push(count) => {
                        for _ in 0..count {
                            fifo.push_back(next);
                            model.push_back(next);
                            next += 1;
                        }
                    }
                    Step::Pop(count) => {
                        for _ in 0..count {
                            prop_assert_eq!(fifo.pop_front(), model.pop_front());
                        }
                    }
                    Step::Peek(n) => prop_assert_eq!(fifo.peek(n.into()), model.get(usize::from(n)).copied()),
                }
                prop_assert_eq!(fifo.len(), model.len());
                prop_assert_eq!(fifo.front(), model.front().copied());
            }
        }
    }

    #[test]
    fn gives_memory_back() {
        let mut fifo = Fifo::default();
        for value in 0..1_000_000_u32 {
            fifo.push_back(value);
        }
        assert!((4_000_000..4_200_000).contains(&fifo.bytes()), "{}", fifo.bytes());
        while fifo.pop_front().is_some() {}
        assert!(fifo.bytes() < 200_000, "{}", fifo.bytes());
    }

    #[test]
    fn a_settled_queue_allocates_nothing() {
        let mut fifo = Fifo::default();
        for value in 0..10_000_u64 {
            fifo.push_back(value);
        }
        let mut turn = |scheduler: usize| {
            for _ in 0..scheduler {
                let value = fifo.pop_front().unwrap();
                fifo.push_back(value);
            }
            fifo.bytes()
        };
        let settled = turn(100_000);
        for _ in 0..10 {
            assert_eq!(turn(12_345), settled);
        }
    }
}
