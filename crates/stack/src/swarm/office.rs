//! The mailboxes and groups of one thread, and the deliveries under way.

use std::collections::VecDeque;
use std::rc::Rc;

use slab::Slab;

use super::current::NOBODY;
use super::mail::{GroupId, MailCounters, MailError, MailLimits, MailboxId, SlowReader};

/// What the handles of one [`Mail`](super::Mail) share on its thread.
pub(super) struct Office<M> {
    limits: MailLimits,
    boxes: Slab<Letterbox<M>>,
    /// All mailboxes lie below this place.
    reach: usize,
    groups: Slab<Group>,
    /// Of the mailbox or group that was opened last. It tells apart those that have the same place one after the other.
    generation: u32,
    deliveries: VecDeque<Delivery<M>>,
    /// Messages to everyone that were taken in: their numbers, which wrap.
    broadcasts: u32,
    /// Messages that are to be dropped when nobody uses this any more: their destructors may use it.
    done_with: Vec<Rc<M>>,
    pub(super) counters: MailCounters,
}

/// A mailbox.
struct Letterbox<M> {
    generation: u32,
    /// A group has given it up; its messages are gone.
    is_disconnected: bool,
    /// The task that waits for a message.
    waiting: u32,
    /// The number of the next message to everyone that is for it: earlier ones were taken in before it was there.
    next_broadcast: u32,
    /// Nearly always there is one message at most: then there is no allocation.
    first: Option<Rc<M>>,
    rest: VecDeque<Rc<M>>,
    /// Groups, and its place among the members of each.
    memberships: Vec<(u32, u32)>,
}

struct Group {
    generation: u32,
    slow: SlowReader,
    /// Mailboxes by number; [`NOBODY`] where one has left.
    members: Vec<u32>,
    holes: usize,
    /// Messages that are being delivered: meanwhile no member changes its place.
    deliveries: usize,
}

/// A message on its way to several.
struct Delivery<M> {
    message: Rc<M>,
    to: GroupId,
    /// Of a message to everyone.
    broadcast: u32,
    /// Members from here up to the end have not got it.
    next: usize,
    end: usize,
}

/// Whom a message is for.
pub(super) enum To {
    One(MailboxId),
    Group(GroupId),
}

impl<M> Office<M> {
    pub(super) fn new(limits: MailLimits) -> Self {
        Self {
            limits,
            boxes: Slab::new(),
            reach: 0,
            groups: Slab::new(),
            generation: 0,
            deliveries: VecDeque::new(),
            broadcasts: 0,
            done_with: Vec::new(),
            counters: MailCounters::default(),
        }
    }

    /// Messages that the caller is to drop once it has let go of this.
    pub(super) fn take_done_with(&mut self) -> Vec<Rc<M>> {
        std::mem::take(&mut self.done_with)
    }

    /// Opens a mailbox.
    pub(super) fn open(&mut self) -> Result<MailboxId, MailError> {
        if self.boxes.len() >= self.limits.mailboxes {
            return Err(MailError::TooManyMailboxes);
        }
        self.generation = self.generation.wrapping_add(1);
        let place = self.boxes.insert(Letterbox::new(self.generation, self.broadcasts));
        self.reach = self.reach.max(place + 1);
        Ok(MailboxId { place: place as u32, generation: self.generation })
    }

    /// Closes a mailbox and drops its messages.
    pub(super) fn close(&mut self, id: MailboxId) {
        let mut slot = self.boxes.remove(id.place as usize);
        self.done_with.extend(slot.empty());
        for (group, at) in slot.memberships {
            self.vacate(group, at);
        }
    }

    /// Makes a group.
    pub(super) fn group(&mut self, slow: SlowReader) -> Result<GroupId, MailError> {
        if self.groups.len() >= self.limits.groups {
            return Err(MailError::TooManyGroups);
        }
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let group = Group { generation, slow, members: Vec::new(), holes: 0, deliveries: 0 };
        Ok(GroupId { place: self.groups.insert(group) as u32, generation })
    }

    /// Ends a group; messages on their way to it are dropped.
    pub(super) fn end_group(&mut self, id: GroupId) {
        if self.group_of(id).is_none() {
            return;
        }
        let group = self.groups.remove(id.place as usize);
        for member in group.members.into_iter().filter(|member| *member != NOBODY) {
            self.boxes[member as usize].memberships.retain(|(group, _)| *group != id.place);
        }
    }

    pub(super) fn join(&mut self, id: MailboxId, to: GroupId) -> Result<(), MailError> {
        let Some(group) = self.group_of(to) else { return Err(MailError::NoGroup) };
        let at = group.members.len() as u32;
        let slot = &mut self.boxes[id.place as usize];
        if !slot.memberships.iter().any(|(group, _)| *group == to.place) {
            slot.memberships.push((to.place, at));
            self.groups[to.place as usize].members.push(id.place);
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, id: MailboxId, from: GroupId) {
        if self.group_of(from).is_none() {
            return;
        }
        let memberships = &mut self.boxes[id.place as usize].memberships;
        if let Some(found) = memberships.iter().position(|(group, _)| *group == from.place) {
            let (group, at) = memberships.swap_remove(found);
            self.vacate(group, at);
        }
    }

    /// The next message of a mailbox. Without one, `task` is woken by the next.
    pub(super) fn take(&mut self, id: MailboxId, task: u32) -> Option<Result<Rc<M>, MailError>> {
        let slot = &mut self.boxes[id.place as usize];
        if let Some(message) = slot.pop() {
            return Some(Ok(message));
        }
        if slot.is_disconnected {
            return Some(Err(MailError::TooSlow));
        }
        slot.waiting = task;
        None
    }

    /// Takes a message in, to be delivered by [`deliver`](Self::deliver).
    pub(super) fn accept(&mut self, to: &To, message: M, woken: &mut Vec<u32>) {
        match *to {
            To::One(id) => {
                if self.boxes.get(id.place as usize).is_some_and(|slot| slot.generation == id.generation) {
                    self.put(id.place, Rc::new(message), self.limits.slow, woken);
                } else {
                    self.counters.undeliverable += 1;
                    self.done_with.push(Rc::new(message));
                }
            }
            To::Group(to) => {
                let broadcast = self.broadcasts;
                let end = if to == GroupId::EVERYONE {
                    self.broadcasts = broadcast.wrapping_add(1);
                    self.reach
                } else if let Some(group) = self.group_of(to) {
                    group.deliveries += 1;
                    group.members.len()
                } else {
                    self.counters.undeliverable += 1;
                    return self.done_with.push(Rc::new(message));
                };
                self.deliveries.push_back(Delivery {
                    message: Rc::new(message),
                    to,
                    broadcast,
                    next: 0,
                    end,
                });
            }
        }
    }

    pub(super) fn is_delivering(&self) -> bool {
        !self.deliveries.is_empty()
    }

    /// Messages that some of their group have not got yet.
    pub(super) fn under_way(&self) -> usize {
        self.deliveries.len()
    }

    /// Delivers to as many members of groups as a round may; says how many that were, and whom to wake.
    pub(super) fn deliver(&mut self, woken: &mut Vec<u32>) -> usize {
        let limit = self.limits.deliveries_a_round.max(1);
        let mut left = limit;
        while left > 0
            && let Some(mut delivery) = self.deliveries.pop_front()
        {
            let part = left.min(delivery.end - delivery.next);
            let until = delivery.next + part;
            self.deliver_part(&delivery, until, woken);
            left -= part;
            delivery.next = until;
            if until < delivery.end {
                self.deliveries.push_front(delivery);
                break;
            }
            if let Some(group) = self.group_of(delivery.to) {
                group.deliveries -= 1;
                self.close_holes(delivery.to.place);
            }
            self.done_with.push(delivery.message);
        }
        limit - left
    }

    fn deliver_part(&mut self, delivery: &Delivery<M>, until: usize, woken: &mut Vec<u32>) {
        if delivery.to == GroupId::EVERYONE {
            let slow = self.limits.slow;
            for place in delivery.next..until {
                if self.boxes.get_mut(place).is_some_and(|slot| slot.takes_broadcast(delivery.broadcast)) {
                    self.put(place as u32, Rc::clone(&delivery.message), slow, woken);
                }
            }
            return;
        }
        let Some(group) = self.group_of(delivery.to) else { return };
        let (slow, members) = (group.slow, std::mem::take(&mut group.members));
        for member in members[delivery.next..until].iter().filter(|member| **member != NOBODY) {
            self.put(*member, Rc::clone(&delivery.message), slow, woken);
        }
        self.groups[delivery.to.place as usize].members = members;
    }

    /// Puts a message into a mailbox.
    fn put(&mut self, place: u32, message: Rc<M>, slow: SlowReader, woken: &mut Vec<u32>) {
        let slot = &mut self.boxes[place as usize];
        if slot.is_disconnected {
            return self.done_with.push(message);
        }
        if slot.len() >= self.limits.messages {
            match slow {
                SlowReader::DropOldest if self.limits.messages > 0 => {
                    self.done_with.extend(slot.pop());
                    self.counters.dropped_oldest += 1;
                }
                // With room for none there is no older one.
                SlowReader::DropOldest | SlowReader::Skip => {
                    self.counters.skipped += 1;
                    return self.done_with.push(message);
                }
                SlowReader::Disconnect => {
                    self.counters.disconnected += 1;
                    slot.is_disconnected = true;
                    self.done_with.extend(slot.empty());
                    self.done_with.push(message);
                    return slot.wake(woken);
                }
            }
        }
        slot.push(message);
        self.counters.delivered += 1;
        slot.wake(woken);
    }

    fn group_of(&mut self, id: GroupId) -> Option<&mut Group> {
        let group = self.groups.get_mut(id.place as usize)?;
        Some(group).filter(|group| group.generation == id.generation)
    }

    /// A member has left its place.
    fn vacate(&mut self, group: u32, at: u32) {
        let of = &mut self.groups[group as usize];
        of.members[at as usize] = NOBODY;
        of.holes += 1;
        self.close_holes(group);
    }

    /// Moves the members together if more than half have left.
    fn close_holes(&mut self, place: u32) {
        let group = &mut self.groups[place as usize];
        if group.deliveries > 0 || group.holes * 2 <= group.members.len() {
            return;
        }
        group.members.retain(|member| *member != NOBODY);
        group.holes = 0;
        for (at, member) in group.members.iter().enumerate() {
            let memberships = &mut self.boxes[*member as usize].memberships;
            if let Some((_, old)) = memberships.iter_mut().find(|(group, _)| *group == place) {
                *old = at as u32;
            }
        }
    }
}

impl<M> Letterbox<M> {
    const fn new(generation: u32, next_broadcast: u32) -> Self {
        Self {
            generation,
            is_disconnected: false,
            waiting: NOBODY,
            next_broadcast,
            first: None,
            rest: VecDeque::new(),
            memberships: Vec::new(),
        }
    }

    /// Whether a message to everyone is for it. Each comes to each mailbox in turn, so the numbers lie close together.
    fn takes_broadcast(&mut self, number: u32) -> bool {
        let is_for_it = number.wrapping_sub(self.next_broadcast) as i32 >= 0;
        if is_for_it {
            self.next_broadcast = number.wrapping_add(1);
        }
        is_for_it
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    fn push(&mut self, message: Rc<M>) {
        if self.first.is_none() {
            self.first = Some(message);
        } else {
            self.rest.push_back(message);
        }
    }

    fn pop(&mut self) -> Option<Rc<M>> {
        let first = self.first.take();
        self.first = self.rest.pop_front();
        if self.rest.is_empty() && self.rest.capacity() > 0 {
            // No memory is held for a burst that is over.
            self.rest = VecDeque::new();
        }
        first
    }

    /// Takes all messages out.
    fn empty(&mut self) -> impl Iterator<Item = Rc<M>> + use<M> {
        self.first.take().into_iter().chain(std::mem::take(&mut self.rest))
    }

    /// Once for all messages that come before the task runs.
    fn wake(&mut self, woken: &mut Vec<u32>) {
        if self.waiting != NOBODY {
            woken.push(std::mem::replace(&mut self.waiting, NOBODY));
        }
    }
}
