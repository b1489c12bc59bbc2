//! One loop's part of a device that several loops share.

use std::sync::Arc;
use std::task::Waker;

use anywire_tcp::{Frames, Instant, Meta};

use super::directory::Shards;
use super::early::EarlySyns;
use super::flow::{Concerns, Flow};
use super::flow_hash::Key;
use super::peer::Peer;
use super::queues::{Queue, Queues};
use super::rings::{BATCH_BYTES, Direction, Rings};
use super::steering::{LoopNumber, Owner, Steering};
use super::uplinks::Uplinks;
use crate::device::{Capabilities, Device, DeviceCounters, LinkEvent, Readiness};

/// One loop's part of a device. It belongs to the loop that [joined](Shards::join). If it is dropped, other loops get its
/// queues, and the connections that would have come here.
pub struct Shard {
    shards: Arc<Shards>,
    own: Arc<Peer>,
    queues: Queues,
    /// Frames that came to the queue of another loop.
    arrived: Rings,
    /// Frames that leave by the queue of another.
    departing: Rings,
    steering: Arc<Steering>,
    version: u64,
    /// Whether frames have to be [sorted](Steering::sorts).
    sorts: bool,
    /// SYNs for a loop that has not begun to listen, and whether another table may say where they go.
    early: EarlySyns,
    early_may_go: bool,
    orders: u64,
    /// Frames of other loops that wait for room in our queue.
    leaving: Frames,
    /// The rings have more than there was room for: they come first the next time.
    rings_first: bool,
    /// A queue may have more, though all that it gave was passed on.
    is_queue_left: bool,
    /// By whom it sends while it has no queue.
    uplinks: Uplinks,
    /// Questions that others were given to answer.
    asked_of_others: usize,
    now: Instant,
    counters: ShardCounters,
    has_told_gone: bool,
}

/// What goes from loop to loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ShardCounters {
    /// Frames that came to our queue and belong to another loop, and their bytes.
    passed_on: u64,
    passed_on_bytes: u64,
    /// Frames of ours that came to the queue of another loop.
    taken_over: u64,
    taken_over_bytes: u64,
    /// Frames of ours that another loop was given to send.
    sent_by_others: u64,
    sent_by_others_bytes: u64,
    /// Frames of other loops that left by our queue.
    sent_for_others: u64,
    sent_for_others_bytes: u64,
    /// Frames dropped since the other loop had fallen too far behind.
    rings_full: u64,
    /// Frames dropped since their loop has not begun to listen, or not in time.
    too_early: u64,
    /// Frames of other loops that we had no queue for any more.
    queue_lost: u64,
}

impl Shard {
    pub(super) fn new(shards: Arc<Shards>, own: Arc<Peer>, own_queues: Vec<Queue>) -> Self {
        let mut queues = Queues::default();
        own_queues.into_iter().for_each(|queue| queues.add(queue));
        let mut shard = Self {
            shards,
            arrived: Rings::new(Arc::clone(&own), Direction::In),
            departing: Rings::new(Arc::clone(&own), Direction::Out),
            own,
            queues,
            steering: Arc::new(Steering::new(Key::new([0; 2]))),
            version: u64::MAX,
            sorts: false,
            early: EarlySyns::default(),
            early_may_go: false,
            orders: u64::MAX,
            leaving: batch(),
            rings_first: false,
            is_queue_left: false,
            uplinks: Uplinks::default(),
            asked_of_others: 0,
            now: Instant::default(),
            counters: ShardCounters::default(),
            has_told_gone: false,
        };
        shard.look_after();
        shard
    }

    /// Its number on the device.
    pub(super) fn number(&self) -> LoopNumber {
        self.own.number
    }

    pub(super) fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    /// Follows what others have told.
    fn look_after(&mut self) {
        self.follow_table();
        self.arrived.look_after();
        self.departing.look_after();
        if self.shards.has_orders(self.orders) {
            let (queues, is_wanted) = self.shards.orders(self.own.number, &mut self.orders);
            queues.into_iter().for_each(|queue| self.queues.add(queue));
            if is_wanted && self.queues.len() > 1 {
                self.shards.hand_on(|| self.queues.take());
            }
        }
        self.look_at_uplink();
    }

    #[inline]
    fn follow_table(&mut self) {
        if let Some(steering) = self.shards.newer(&mut self.version) {
            self.sorts = steering.sorts();
            self.early_may_go = !self.early.is_empty();
            self.steering = steering;
        }
    }

    fn look_at_uplink(&mut self) {
        let uplink = self.uplink().filter(|_| self.queues.is_empty());
        self.uplinks.look(self.now, uplink, &self.departing);
    }

    /// Reads the queues, until there is something for us, or another loop has to make room for what belongs to it: the rest waits in the
    /// queue for the next turn.
    fn read_queues(&mut self, now: Instant, frames: &mut Frames) {
        for _ in 0..BATCHES_OF_OTHERS {
            self.is_queue_left = self.queues.receive(now, frames) > 0;
            if !self.is_queue_left {
                return;
            }
            // After the batch was taken: it may have what belongs to a loop that is in this table and was not in the one before.
            self.follow_table();
            if self.sorts {
                self.sort(frames);
            }
            let have_room = self.arrived.publish();
            if !frames.is_empty() || !have_room {
                return;
            }
        }
    }

    /// Passes on what belongs to other loops.
    fn sort(&mut self, frames: &mut Frames) {
        let Self { shards, own, arrived, steering, counters, early, now, asked_of_others, .. } = self;
        // The other loop that has to answer what is for this address, if that is not us.
        let mut answering = |ip| {
            let other = steering.answers(ip, own.number, *asked_of_others);
            let other = other.filter(|other| *other != own.number)?;
            *asked_of_others = asked_of_others.wrapping_add(1);
            Some(other)
        };
        frames.retain(|frame, meta| {
            let (other, is_segment) = match Concerns::of(frame) {
                Concerns::Flow(flow) => match steering.owner(&flow) {
                    Owner::Loop(owner) => (Some(owner).filter(|owner| *owner != own.number), true),
                    Owner::Nobody => (answering(flow.addresses.ips().0), false),
                    Owner::NotYet => {
                        counters.too_early +=
                            if flow.is_syn { early.keep(*now, flow, frame, meta) } else { 1 };
                        return false;
                    }
                },
                Concerns::Any { to } => (to.and_then(&mut answering), false),
                Concerns::All { asked } => {
                    let answers = asked.and_then(&mut answering);
                    for other in steering.members().filter(|other| *other != own.number) {
                        let meta = Meta { is_answered: answers != Some(other), ..meta };
                        if !arrived.is_half_empty(other) || !arrived.push(shards, other, frame, meta) {
                            counters.rings_full += 1;
                        }
                    }
                    return true;
                }
            };
            let Some(other) = other else { return true };
            // What belongs to no connection leaves room for segments.
            if (is_segment || arrived.is_half_empty(other)) && arrived.push(shards, other, frame, meta) {
                counters.passed_on += 1;
                counters.passed_on_bytes += frame.len() as u64;
            } else {
                counters.rings_full += 1;
            }
            false
        });
    }

    /// Sends what other loops have given us. Nothing more is taken from them while something waits for room.
    fn send_for_others(&mut self) {
        if self.leaving.is_empty() {
            self.departing.read(&mut self.leaving);
            self.counters.sent_for_others += self.leaving.len() as u64;
            self.counters.sent_for_others_bytes += bytes_from(&self.leaving, 0);
        }
        if self.leaving.is_empty() {
            return;
        }
        let now = self.now;
        match self.queues.sender() {
            Some(queue) => {
                queue.transmit(now, &mut self.leaving);
            }
            // It went to another loop meanwhile. TCP sends them again.
            None => {
                self.counters.queue_lost += self.leaving.len() as u64;
                self.leaving.clear();
            }
        }
    }

    /// Takes in what has come by the queues of others. Whether there may be more.
    fn read_arrived(&mut self, frames: &mut Frames) -> bool {
        let before = frames.len();
        let is_left = self.arrived.read(frames);
        self.counters.taken_over += (frames.len() - before) as u64;
        self.counters.taken_over_bytes += bytes_from(frames, before);
        is_left
    }

    /// By whom it leaves.
    fn uplink(&self) -> Option<LoopNumber> {
        let uplink = self.uplinks.choose(&self.steering, self.own.number);
        uplink.filter(|uplink| *uplink != self.own.number)
    }
}

impl Device for Shard {
    fn capabilities(&self) -> Capabilities {
        Capabilities { mtu: self.shards.mtu(), ..*self.shards.capabilities() }
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.now = self.now.max(now);
        self.look_after();
        self.send_for_others();
        if std::mem::take(&mut self.early_may_go) {
            let waits = |flow: &Flow| self.steering.owner(flow) == Owner::NotYet;
            self.counters.too_early += self.early.release(self.now, frames, waits);
            self.sort(frames);
        }
        // The rings come first if they had more than there was room for, but not twice in turn: with busy loops, they always have.
        let are_rings_first = std::mem::take(&mut self.rings_first);
        if are_rings_first {
            self.read_arrived(frames);
        }
        if frames.is_empty() {
            self.read_queues(now, frames);
        }
        self.rings_first = self.read_arrived(frames) && !are_rings_first;
        self.arrived.publish();
        frames.len()
    }

    fn room(&self) -> usize {
        if self.queues.is_empty() {
            return self.uplink().map_or(0, |uplink| self.departing.room(uplink));
        }
        self.queues.room()
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.now = self.now.max(now);
        if let Some(queue) = self.queues.sender() {
            return queue.transmit(now, frames);
        }
        let Some(uplink) = self.uplink() else { return 0 };
        let mut sent = 0;
        while let Some(frame) = frames.get(sent)
            && self.departing.push(&self.shards, uplink, frame, frames.meta(sent))
        {
            self.counters.sent_by_others_bytes += frame.len() as u64;
            sent += 1;
        }
        self.counters.sent_by_others += sent as u64;
        frames.remove_first(sent);
        self.departing.publish();
        self.look_at_uplink();
        sent
    }

    fn is_behind(&self) -> bool {
        self.queues.is_behind()
    }

    fn batch(&self) -> Frames {
        // The longest frame of any queue has to find room behind others: what comes from another loop may be a super-frame.
        self.queues.batch().filter(|of_queue| of_queue.has_room_for(BATCH_BYTES)).unwrap_or_else(batch)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waits = (!self.leaving.is_empty()).then(|| self.now + ROOM_PATIENCE);
        waits.into_iter().chain(self.queues.next_deadline()).min()
    }

    fn readiness(&self) -> Readiness<'_> {
        self.queues.readiness()
    }

    fn before_sleep(&mut self, owner: &Waker) -> bool {
        self.own.notifier.announce_sleep(owner);
        let is_told = self.shards.has_orders(self.orders)
            || self.shards.is_gone() != self.has_told_gone
            || self.own.has_news();
        let has_event = self.queues.before_sleep(owner)
            || is_told
            || self.is_queue_left
            || self.arrived.has_event(true)
            || self.departing.has_event(self.leaving.is_empty());
        if has_event {
            self.own.notifier.cancel_sleep();
        }
        has_event
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        let event = self.queues.link_event();
        match event {
            Some(LinkEvent::Gone) => self.shards.tell_gone(),
            Some(event) => self.shards.tell_link(self.own.number, event),
            None => {}
        }
        if self.shards.is_gone() {
            return (!std::mem::replace(&mut self.has_told_gone, true)).then_some(LinkEvent::Gone);
        }
        event.or_else(|| self.own.next_news())
    }

    fn counters(&self) -> DeviceCounters {
        let (own, mut all) = (&self.counters, self.queues.counters());
        let shift = |count: u64, more: u64, less| (count + more).saturating_sub(less);
        all.frames_in = shift(all.frames_in, own.taken_over, own.passed_on);
        all.bytes_in = shift(all.bytes_in, own.taken_over_bytes, own.passed_on_bytes);
        all.frames_out = shift(all.frames_out, own.sent_by_others, own.sent_for_others);
        all.bytes_out = shift(all.bytes_out, own.sent_by_others_bytes, own.sent_for_others_bytes);
        all.dropped_in += own.rings_full + own.too_early;
        all.dropped_out += own.queue_lost;
        (all.passed_on, all.taken_over) = (own.passed_on, own.taken_over);
        all
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        let queues = std::mem::take(&mut self.queues);
        self.shards.leave(self.own.number, queues.into_all());
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard")
            .field("number", &self.own.number)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Bytes of the frames from this one on.
fn bytes_from(frames: &Frames, first: usize) -> u64 {
    frames.iter().skip(first).map(|frame| frame.len() as u64).sum()
}

/// Room for super-frames, whatever queue they come by.
fn batch() -> Frames {
    Frames::with_bytes(Frames::BATCH, BATCH_BYTES)
}

/// Batches that are all passed on before the owner has its turn.
const BATCHES_OF_OTHERS: usize = 16;

/// How long a queue without room is left alone.
const ROOM_PATIENCE: std::time::Duration = std::time::Duration::from_millis(1);
