//! The slots of a service: each is a part of its connections, and belongs to a loop.
//!
//! A loop that begins to listen takes the slots that it had, then free ones, then what others have beyond their share, inherited
//! slots first. Slots of loops that listen no more are dealt out once all others listen. So as few connections as possible lose their
//! owner; the next one resets them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::steering::LoopNumber;

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slots {
    /// Loops that will listen.
    loops: usize,
    /// Those that do, or did when the service ended. Slots of others are still those of an earlier service at this address.
    listening: Vec<LoopNumber>,
    /// Loops that listen at an address which they do not have for now.
    away: Vec<LoopNumber>,
    slots: Arc<[Slot; SLOTS]>,
}

/// A part of the connections of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// The slot waits for a loop.
    Free,
    /// The slot is the loop's share.
    Own(LoopNumber),
    /// The loop has the slot from a loop that has ended.
    Inherited(LoopNumber),
}

impl Slot {
    #[inline]
    const fn owner(self) -> Option<LoopNumber> {
        match self {
            Self::Free => None,
            Self::Own(number) | Self::Inherited(number) => Some(number),
        }
    }
}

impl Slots {
    /// Slots of nobody, for so many loops.
    pub(super) fn new(loops: usize) -> Self {
        let slots = Arc::new([Slot::Free; SLOTS]);
        Self { loops: loops.clamp(1, SLOTS), listening: Vec::new(), away: Vec::new(), slots }
    }

    /// The next service at the same address: so many loops will listen. Until they do, slots stay where they are.
    pub(super) fn open(&mut self, loops: usize) {
        self.loops = loops.clamp(1, SLOTS);
        self.listening.clear();
        self.away.clear();
    }

    /// The loop of the slot that this hash stands for, if it has one.
    #[inline]
    pub(super) fn owner(&self, hash: u64) -> Option<LoopNumber> {
        // Of 32 bits, so many times the number of slots has no more than 64.
        self.slots[(((hash >> 32) * SLOTS as u64) >> 32) as usize].owner()
    }

    pub(super) fn is_listening(&self, number: LoopNumber) -> bool {
        self.listening.contains(&number)
    }

    /// Whether each slot has a loop that listens.
    pub(super) fn are_all_served(&self) -> bool {
        self.slots.iter().all(|slot| slot.owner().is_some_and(|owner| self.is_listening(owner)))
    }

    /// Whether a loop has any.
    pub(super) fn have_owners(&self) -> bool {
        self.slots.iter().any(|slot| *slot != Slot::Free)
    }

    /// A loop begins to listen, and takes its share. False if as many loops listen as the service is for.
    #[must_use]
    pub(super) fn listen(&mut self, number: LoopNumber) -> bool {
        if self.is_listening(number) {
            return true;
        }
        if self.listening.len() >= self.loops {
            return false;
        }
        self.listening.push(number);
        let share = SLOTS / self.loops;
        let wanted = share.saturating_sub(self.slots_of(number));
        for slot in self.spare(share).into_iter().take(wanted) {
            self.give(slot, number);
        }
        if self.listening.len() == self.loops {
            self.deal_rest();
        }
        true
    }

    /// Free slots, and those that loops have beyond their share, in the order in which they are given away.
    fn spare(&self, share: usize) -> Vec<usize> {
        let mut slots: Vec<_> = (0..SLOTS).collect();
        slots.sort_by_key(|slot| matches!(self.slots[*slot], Slot::Inherited(_)));
        // Each with its place among those of its loop. The last of the loop that has most is the first to go.
        let mut counts = BTreeMap::new();
        let placed = slots.into_iter().map(|slot| match self.slots[slot].owner() {
            None => (usize::MAX, slot),
            Some(owner) => {
                let count = counts.entry(owner).or_insert(0);
                *count += 1;
                (*count, slot)
            }
        });
        let mut spare: Vec<_> = placed.filter(|(place, _)| *place > share).collect();
        spare.sort_by_key(|(place, _)| Reverse(*place));
        spare.into_iter().map(|(_, slot)| slot).collect()
    }

    /// All have begun to listen: slots of loops that do not listen any more go to those that have fewest.
    fn deal_rest(&mut self) {
        let mut counts: Vec<_> =
            self.listening.iter().map(|number| (self.slots_of(*number), *number)).collect();
        for slot in 0..SLOTS {
            if !self.slots[slot].owner().is_some_and(|owner| self.is_listening(owner))
                && let Some((count, poorest)) = counts.iter_mut().min()
            {
                *count += 1;
                let poorest = *poorest;
                self.give(slot, poorest);
            }
        }
    }

    fn give(&mut self, slot: usize, owner: LoopNumber) {
        Arc::make_mut(&mut self.slots)[slot] = Slot::Own(owner);
    }

    fn slots_of(&self, number: LoopNumber) -> usize {
        self.slots.iter().filter(|slot| slot.owner() == Some(number)).count()
    }

    /// The address is taken away from a loop, whose connections there have ended: others get its slots, as if it had ended.
    pub(super) fn leave_for_now(&mut self, number: LoopNumber) {
        let listens = self.is_listening(number);
        self.lose(number);
        if listens {
            self.away.push(number);
        }
    }

    /// The loop has the address again, and takes its share, unless another one has begun to listen in its place.
    pub(super) fn come_back(&mut self, number: LoopNumber) {
        if let Some(place) = self.away.iter().position(|away| *away == number) {
            self.away.remove(place);
            let _is_one_of_them = self.listen(number);
        }
    }

    /// A loop has ended. Others that listen inherit the slots where it has listened. Without others these wait for a loop, as do those
    /// that it had of an earlier service.
    pub(super) fn lose(&mut self, number: LoopNumber) {
        self.away.retain(|away| *away != number);
        let place = self.listening.iter().position(|listening| *listening == number);
        place.map(|place| self.listening.remove(place));
        let mut heirs = self.listening.iter().cycle();
        for slot in Arc::make_mut(&mut self.slots).iter_mut().filter(|slot| slot.owner() == Some(number)) {
            let heir = heirs.next().filter(|_| place.is_some());
            *slot = heir.map_or(Slot::Free, |heir| Slot::Inherited(*heir));
        }
    }
}

/// Slots of a service: a multiple of most numbers of loops, and so many times them that a remainder weighs little.
const SLOTS: usize = 240;
