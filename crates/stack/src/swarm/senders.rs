//! The tasks that wait to send: first come, first served, each once.
//!
//! A task may begin to wait, do something else, and begin again. It has one place all the same, or it would get a turn for each
//! time that it has begun.

use std::collections::VecDeque;

use anywire_sys::prefetch::prefetch;

/// The tasks of a swarm that wait to send.
#[derive(Debug, Default)]
pub(super) struct Senders {
    queue: VecDeque<u32>,
    /// A bit for each task that is in the queue.
    waits: Vec<u64>,
}

impl Senders {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Puts a task behind the others, unless it has a place.
    #[inline(always)]
    pub(super) fn push(&mut self, task: u32) {
        let (word, bit) = (task as usize / 64, 1 << (task % 64));
        if self.waits.len() <= word {
            self.grow(word);
        }
        if self.waits[word] & bit == 0 {
            self.waits[word] |= bit;
            self.queue.push_back(task);
        }
    }

    #[cold]
    fn grow(&mut self, word: usize) {
        self.waits.resize((word + 1).next_power_of_two(), 0);
    }

    /// Moves the first so many to the end of `tasks`.
    pub(super) fn take(&mut self, count: usize, tasks: &mut Vec<u32>) {
        for task in self.queue.drain(..count) {
            self.waits[task as usize / 64] &= !(1 << (task % 64));
            tasks.push(task);
        }
        // Those who are likely to be taken next.
        for task in self.queue.iter().take(count) {
            self.prefetch(*task);
        }
    }

    /// Asks for the cache line of a task's bit, which [`push`](Self::push) is about to read. With millions of tasks the bits of most
    /// are not in the fast caches.
    #[inline(always)]
    pub(super) fn prefetch(&self, task: u32) {
        // While the device has room and no task waits for it, a task sends at once.
        if !self.queue.is_empty()
            && let Some(word) = self.waits.get(task as usize / 64)
        {
            prefetch(word);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<u32>() + self.waits.capacity() * size_of::<u64>()
    }
}
