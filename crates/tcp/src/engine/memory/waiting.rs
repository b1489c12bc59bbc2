//! Connections whose users found no memory, and that nothing else would wake: each is told in its turn.

use crate::engine::ConnIndex;
use std::collections::VecDeque;

use crate::engine::memory::usage::bytes_of_queue;
use crate::pool::Pool;
use crate::slab::Slab;
use crate::tcb::{Flags, Tcb};

/// Their places, in the order of their coming. Entries of earlier connections may be among them:
/// [`Flags::WAITS_FOR_MEMORY`] tells.
#[derive(Default)]
pub(crate) struct Waiting {
    /// For a small cell. Eight of these fit into a large one, and need not wait for it.
    small: VecDeque<ConnIndex>,
    large: VecDeque<ConnIndex>,
}

impl Waiting {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.large.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of_queue(&self.small) + bytes_of_queue(&self.large)
    }

    /// Waits for memory for so many bytes.
    pub(crate) fn push_back(&mut self, index: ConnIndex, bytes: usize) {
        if Pool::is_small(bytes) { self.small.push_back(index) } else { self.large.push_back(index) }
    }

    /// Whether there is memory for one of them.
    pub(crate) fn has_next(&self, pool: &Pool) -> bool {
        !self.large.is_empty() && !pool.is_full() || !self.small.is_empty() && pool.has_room_for(1)
    }

    /// The next one that there is memory for.
    pub(crate) fn next(&mut self, pool: &Pool) -> Option<ConnIndex> {
        let large = if pool.is_full() { None } else { self.large.pop_front() };
        large.or_else(|| if pool.has_room_for(1) { self.small.pop_front() } else { None })
    }

    /// Takes entries of earlier connections out: it has at most two for each place.
    #[cold]
    pub(crate) fn forget_earlier(&mut self, tcbs: &mut Slab<Tcb>) {
        // The first entry of each place counts, and takes the mark away from the others.
        for queue in [&mut self.large, &mut self.small] {
            queue.retain(|index| {
                let flags = &mut tcbs[*index].flags;
                let waits = flags.has(Flags::WAITS_FOR_MEMORY);
                flags.clear(Flags::WAITS_FOR_MEMORY);
                waits
            });
        }
        for index in self.large.iter().chain(&self.small) {
            tcbs[*index].flags.set(Flags::WAITS_FOR_MEMORY);
        }
    }
}
