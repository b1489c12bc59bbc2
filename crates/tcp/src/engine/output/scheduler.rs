//! The order of sending: classes by weight, the connections of a class round-robin.
//!
//! Deficit round robin between classes, a ring inside each. A connection sends a quantum of two segments and goes to the
//! end of its ring if it has more, so that bulk never starves an echo. New connections have a class of their own, so that a
//! storm of them does not starve the others.

use crate::engine::ConnIndex;
use crate::fifo::Fifo;
use crate::tcb::{Flags, ServiceClass, Tcb};

/// Rings of connections that wait to send.
pub(crate) struct Scheduler {
    classes: [Class; CLASSES],
    /// The present class, counted on.
    current: usize,
}

struct Class {
    ring: Fifo<ConnIndex>,
    /// Connections of this class that send in one round.
    weight: u32,
    left: u32,
}

/// How many classes there are: the first is that of new connections.
pub(crate) const CLASSES: usize = 4;

const _: () = assert!(CLASSES == ServiceClass::RINGS);

/// The class of connections that are being opened.
pub(crate) const NEW: u8 = 0;
/// The class of connections that were given none.
pub(crate) const NORMAL: u8 = 1;

impl Class {
    #[inline(always)]
    fn pop(&mut self) -> Option<(ConnIndex, Option<ConnIndex>)> {
        if self.left == 0 {
            return None;
        }
        let next = self.ring.pop_front()?;
        self.left -= 1;
        Some((next, self.ring.peek_if_long(AHEAD)))
    }
}

impl Default for Scheduler {
    fn default() -> Self {
        let class = |weight| Class { ring: Fifo::default(), weight, left: weight };
        Self { classes: [class(8), class(32), class(64), class(128)], current: 1 }
    }
}

impl Scheduler {
    /// Puts a connection into its ring, if it is not there.
    #[inline(always)]
    pub(crate) fn enter(&mut self, index: ConnIndex, tcb: &mut Tcb) {
        if !tcb.has(Flags::SCHEDULED) {
            tcb.flags.set(Flags::SCHEDULED);
            self.classes[usize::from(tcb.class.ring())].ring.push_back(index);
        }
    }

    /// The next one, if any waits. If so many wait that a later one may have left the cache, that one comes with it, to be
    /// prefetched.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<(ConnIndex, Option<ConnIndex>)> {
        self.classes[self.current % CLASSES].pop().or_else(|| self.pop_of_next_class())
    }

    #[inline(never)]
    fn pop_of_next_class(&mut self) -> Option<(ConnIndex, Option<ConnIndex>)> {
        if self.waiting() == 0 {
            return None;
        }
        loop {
            let class = &mut self.classes[self.current % CLASSES];
            class.left = class.weight;
            self.current += 1;
            let next = self.classes[self.current % CLASSES].pop();
            if next.is_some() {
                return next;
            }
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.classes.iter().map(|class| class.ring.len()).sum()
    }

    pub(crate) fn set_weight(&mut self, class: usize, weight: u32) {
        self.classes[class % CLASSES].weight = weight.max(1);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.classes.iter().map(|class| class.ring.bytes()).sum()
    }
}

/// How many connections ahead a TCB is fetched into the cache.
const AHEAD: usize = 8;
