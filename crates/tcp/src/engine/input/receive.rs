//! A batch of frames comes in: in stages, so that the misses of the cache overlap.
//!
//! Parse and hash, fetching the bucket of each; then the protocol, in the order of arrival, while the next segments are looked up
//! and their TCBs are fetched. An address to fetch always comes from data in the cache, never from a line that was just asked for.

use core::net::IpAddr;

use anywire_packet::plain::{V4, V4_TIMESTAMPS, V6, V6_TIMESTAMPS};
use anywire_packet::{
    Addresses, Checks, Flags as Control, Icmp, Link, Mac, Packet, Parsed, Plain, Refusal, general,
};

use crate::engine::input::deliver::InFrame;
use crate::engine::{ConnIndex, Engine, PLACE, Place};
use crate::frames::{Checksum, Frames};
use crate::half_open::Traits;
use crate::hash::{Key, place_hash};
use crate::tcb::{Flags, State};
use crate::time::Instant;

/// A segment of the batch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Arrived {
    /// Its header and options. For a segment at fixed offsets they are filled in only after prediction has failed.
    pub(crate) segment: Parsed,
    pub(crate) hash: u64,
    /// Where the table looks first.
    home: u32,
    /// The value that the table has for this tag: most likely its connection, or [`Place::NOBODY`].
    candidate: u32,
    /// Which frame it is.
    pub(crate) frame: u32,
    pub(crate) form: Form,
}

/// Where the fields of a segment are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// At fixed places behind IPv4, with timestamps.
    V4Timestamps,
    /// At fixed places behind IPv4, without options.
    V4,
    /// At fixed places behind IPv6, with timestamps.
    V6Timestamps,
    /// At fixed places behind IPv6, without options.
    V6,
    /// Anywhere: it was read already.
    #[default]
    General,
}

impl Engine {
    /// Takes a batch of frames in. The engine keeps the batch until the next call, since payload is read from it; what
    /// `frames` holds afterwards is empty.
    ///
    /// A bad frame can only waste its own processing: malformed, forged and excess frames are counted in
    /// [`Counters`](crate::Counters).
    pub fn receive(&mut self, now: Instant, frames: &mut Frames) {
        self.set_now(now);
        self.settle();
        self.left_over.clear();
        if self.received.is_empty() && self.received.room() == 0 {
            // The first batch: from here on two of them change places.
            self.received = frames.empty_like();
        }
        std::mem::swap(&mut self.received, frames);
        frames.clear();
        self.in_frames.resize(self.received.len(), InFrame::NONE);
        let mut batch = std::mem::take(&mut self.batch);
        if batch.len() < self.received.len() {
            batch.resize(self.received.len(), Arrived::default());
        }
        let segments = if self.received.has_metas() {
            self.parse_described(&mut batch)
        } else {
            self.parse_all::<false>(&mut batch)
        };
        let segments = &mut batch[..segments];
        for coming in segments.iter_mut().take(FAR_AHEAD) {
            self.look_up(coming);
        }
        for coming in segments.iter().take(AHEAD) {
            self.prefetch_tail(coming);
        }
        for place in 0..segments.len() {
            if place.is_multiple_of(GROUP) {
                for coming in segments.iter_mut().skip(place + FAR_AHEAD).take(GROUP) {
                    self.look_up(coming);
                }
            }
            if let Some(coming) = segments.get(place + AHEAD) {
                self.prefetch_tail(coming);
            }
            // A TCB, most of the time, and a segment that nearly every one is.
            let arrived = &mut segments[place];
            let index = arrived.candidate;
            if !(index <= PLACE && self.predict(ConnIndex(index), arrived.form, arrived.frame)) {
                self.dispatch(arrived);
            }
            if index <= PLACE {
                self.check(ConnIndex(index));
            }
        }
        self.batch = batch;
    }

    /// Finds the most likely connection of a segment, and asks for its cache lines.
    #[inline(always)]
    fn look_up(&self, coming: &mut Arrived) {
        let found = self.table.find_from(coming.home, coming.hash, |_| true);
        coming.candidate = found.unwrap_or(Place::NOBODY);
        match Place::of(coming.candidate) {
            Place::Tcb(index) => self.tcbs.prefetch(index),
            Place::HalfOpen(place) => self.half_open.prefetch(place),
            Place::TimeWait(place) => self.time_wait.prefetch(place),
        }
    }

    /// What waited long for its ACK has left the cache, and the answer to this segment will lie there as well.
    #[inline(always)]
    fn prefetch_tail(&self, coming: &Arrived) {
        if let Place::Tcb(index) = Place::of(coming.candidate) {
            self.pool.prefetch(self.tcbs[index].send_tail);
        }
    }

    /// The same as [`parse_all`](Self::parse_all) for a batch of which the device knows something.
    // Apart, so that frames of which nothing is known cost no instruction more: with one loop for both it was twelve each.
    #[inline(never)]
    fn parse_described(&mut self, batch: &mut [Arrived]) -> usize {
        self.parse_all::<true>(batch)
    }

    /// Verifies all frames of the batch, and fills `batch` from the front with the segments. Gives their number.
    #[inline(always)]
    fn parse_all<const DESCRIBED: bool>(&mut self, batch: &mut [Arrived]) -> usize {
        let (wanted, key) = (self.checks(), self.keys.table);
        self.counters.frames_received += self.received.len() as u64;
        let (mut segments, mut errors) = (0, Vec::new());
        for (number, frame) in self.received.iter().enumerate() {
            let arrived = &mut batch[segments];
            let mut checks = wanted;
            if DESCRIBED {
                checks.tcp &= self.received.meta(number).checksum == Checksum::Unchecked;
            }
            let of_plain = |ports: u32, addresses| place_hash(key, addresses, ports.into());
            let (form, read) = if let Some((plain, payload)) = Plain::<V4_TIMESTAMPS>::of(frame) {
                arrived.hash = of_plain(plain.ports(), plain.addresses_v4());
                (Form::V4Timestamps, plain.verify(payload, checks).map(|()| Packet::Tcp))
            } else if let Some((plain, payload)) = Plain::<V4>::of(frame) {
                arrived.hash = of_plain(plain.ports(), plain.addresses_v4());
                (Form::V4, plain.verify(payload, checks).map(|()| Packet::Tcp))
            } else {
                parse_rest(frame, checks, key, arrived)
            };
            match read {
                Ok(Packet::Tcp) => {
                    arrived.home = self.table.home(arrived.hash);
                    self.table.prefetch(arrived.home);
                    arrived.frame = number as u32;
                    arrived.form = form;
                    segments += 1;
                }
                Ok(Packet::Icmp(Icmp::Error(error))) => errors.push(error),
                Ok(Packet::Icmp(Icmp::EchoRequest(_) | Icmp::Other) | Packet::Other)
                | Err(Refusal::Protocol) => {
                    self.counters.frames_ignored += 1;
                    self.left_over.push(number as u32);
                }
                Err(Refusal::Address) => self.counters.frames_ignored += 1,
                Err(Refusal::Fragment) => self.counters.fragments_refused += 1,
                Err(_) => self.counters.frames_malformed += 1,
            }
        }
        for error in errors {
            self.on_icmp(error);
        }
        segments
    }

    /// A segment that was not as predicted.
    fn dispatch(&mut self, arrived: &mut Arrived) {
        let may_end = arrived.candidate <= PLACE && self.settings.predicts;
        let is_read = match arrived.form {
            Form::V4Timestamps => self.end_or_read::<V4_TIMESTAMPS>(arrived, may_end),
            Form::V4 => self.end_or_read::<V4>(arrived, may_end),
            Form::V6Timestamps => self.end_or_read::<V6_TIMESTAMPS>(arrived, may_end),
            Form::V6 => self.end_or_read::<V6>(arrived, may_end),
            Form::General => Taken::Read,
        };
        match is_read {
            Taken::Read => {}
            Taken::Whole => return,
            Taken::Ignored => {
                self.counters.frames_ignored += 1;
                return;
            }
        }
        let mut found = Some(arrived.candidate);
        if arrived.candidate == Place::NOBODY || !self.is_for(arrived.candidate, arrived) {
            // Another connection has this tag, or the connection has ended within this batch.
            found = self.table.find(arrived.hash, |value| self.is_for(value, arrived));
        }
        match found.map(Place::of) {
            Some(Place::Tcb(index)) => self.on_segment(index, arrived),
            Some(Place::HalfOpen(place)) => self.on_half_open(place, arrived),
            Some(Place::TimeWait(place)) => self.on_time_wait(place, arrived),
            None => self.on_stranger(arrived),
        }
    }

    /// Ends the connection of a plain segment, if that is what it does, or reads it in the general form.
    fn end_or_read<const LEN: usize>(&mut self, arrived: &mut Arrived, may_end: bool) -> Taken {
        if may_end && self.predict_end::<LEN>(ConnIndex(arrived.candidate), arrived.frame) {
            return Taken::Whole;
        }
        match Plain::<LEN>::again(&self.received[arrived.frame as usize]) {
            Some(plain) if plain.is_between_hosts() => arrived.segment = plain.parsed(),
            // No connection has its addresses.
            _ => return Taken::Ignored,
        }
        Taken::Read
    }

    fn is_for(&self, value: u32, arrived: &Arrived) -> bool {
        let segment = &arrived.segment;
        if value > PLACE {
            return self.is_mini_for(value, arrived);
        }
        let tcb = &self.tcbs[ConnIndex(value)];
        // A free place has no ports; one that has ended within this batch is in no table any more.
        if ports(tcb.remote_port, tcb.local_port) != segment.ports || tcb.state == State::Closed {
            return false;
        }
        let local = self.local.address_v4(tcb.local);
        if local != 0 {
            return local == segment.local_v4 && tcb.remote == segment.remote_v4;
        }
        self.local.addresses(tcb.local, tcb.remote)
            == segment.addresses(&self.received[arrived.frame as usize])
    }

    fn is_mini_for(&self, value: u32, arrived: &Arrived) -> bool {
        let segment = &arrived.segment;
        let place = Place::of(value);
        let is_used = match place {
            Place::Tcb(_) => false,
            Place::HalfOpen(place) => self.half_open[place].traits.has(Traits::USED),
            Place::TimeWait(place) => self.time_wait[place].traits.has(Traits::USED),
        };
        let (local, remote, ports) = self.name_of(place);
        if !is_used || ports != segment.ports {
            return false;
        }
        let local_v4 = self.local.address_v4(local);
        if local_v4 != 0 {
            return local_v4 == segment.local_v4 && remote == segment.remote_v4;
        }
        self.local.addresses(local, remote) == segment.addresses(&self.received[arrived.frame as usize])
    }

    /// A segment for no connection (RFC 9293 3.10.7.1 and 3.10.7.2).
    #[cold]
    pub(crate) fn on_stranger(&mut self, arrived: &Arrived) {
        let segment = &arrived.segment;
        let addresses = segment.addresses(&self.received[arrived.frame as usize]);
        let local = self.local.number_of(local_address(&addresses));
        let Some(local) = local.filter(|_| self.is_for_our_interface(arrived.frame)) else {
            self.counters.frames_ignored += 1;
            return;
        };
        if segment.flags.has(Control::RST) {
            return;
        }
        if let Some(listener) = self.local.listener_for(local, segment.local_port()) {
            if segment.flags.has(Control::ACK) {
                if !self.accept_cookie(listener, local, addresses, arrived, None) {
                    self.refuse(addresses, segment);
                }
            } else if segment.flags.has(Control::SYN) {
                self.on_syn(listener, local, addresses, arrived, None);
            }
            return;
        }
        self.refuse(addresses, segment);
    }

    /// Whether a frame was sent to our interface: a switch may flood what is for another one. Asked only where a connection would
    /// begin or a reset would leave.
    fn is_for_our_interface(&self, frame: u32) -> bool {
        let mac = self.mac();
        let destination = Link::parse(&self.received[frame as usize]).map(|(link, ..)| link.destination());
        self.settings.loops_back || mac == Mac::default() || destination == Some(mac)
    }

    /// Moves the unread payload of the last batch into the pool, and sends or delays the ACKs owed for it.
    pub(crate) fn settle(&mut self) {
        self.settle_frames();
        while let Some(index) = self.delayed_ack_candidates.pop() {
            self.settle_ack(index);
        }
        if self.has_memory_to_give() {
            self.give_memory();
        }
    }

    /// Whether connections wait for memory, and there is some.
    #[inline]
    pub(crate) fn has_memory_to_give(&self) -> bool {
        !self.waiting_for_memory.is_empty() && self.waiting_for_memory.has_next(&self.pool)
            || !self.waiting_to_split.is_empty() && self.pool.has_promised()
    }

    /// The pool has room again for connections that found none: for all that cut segments, and for one user, who may take all.
    #[cold]
    fn give_memory(&mut self) {
        if self.pool.has_promised() {
            for index in std::mem::take(&mut self.waiting_to_split) {
                // Another connection may have the place, and has something to send or not.
                if self.tcbs[index].state != State::Closed {
                    self.schedule(index);
                }
            }
        }
        while let Some(index) = self.waiting_for_memory.next(&self.pool) {
            let flags = &mut self.tcbs[index].flags;
            let waits = flags.has(Flags::WAITS_FOR_MEMORY) && flags.has(Flags::WANTS_ROOM);
            flags.clear(Flags::WAITS_FOR_MEMORY);
            if waits {
                flags.clear(Flags::WANTS_ROOM);
                return self.tell(index, Flags::TELL_WRITABLE);
            }
        }
    }

    /// What is checked of frames that arrive.
    const fn checks(&self) -> Checks {
        if self.settings.checksums { Checks::ALL } else { Checks::NONE }
    }

    /// The hash under which a connection is in the table.
    pub(crate) fn hash_of(&self, addresses: &Addresses, ports: u32) -> u64 {
        hash_of(self.keys.table, addresses, ports)
    }
}

/// What became of a plain segment that was not as predicted.
enum Taken {
    /// It was read, and is in the general form.
    Read,
    /// All that it does was done.
    Whole,
    /// It is for nobody.
    Ignored,
}

/// A frame that holds no plain segment of IPv4: its form, and what it holds.
// Apart, so that the loop over all frames keeps its registers.
#[inline(never)]
fn parse_rest(
    frame: &[u8],
    checks: Checks,
    key: Key,
    arrived: &mut Arrived,
) -> (Form, Result<Packet, Refusal>) {
    if let Some((plain, payload)) = Plain::<V6_TIMESTAMPS>::of(frame) {
        arrived.hash = hash_of(key, &plain.addresses(), plain.ports());
        return (Form::V6Timestamps, plain.verify(payload, checks).map(|()| Packet::Tcp));
    }
    if let Some((plain, payload)) = Plain::<V6>::of(frame) {
        arrived.hash = hash_of(key, &plain.addresses(), plain.ports());
        return (Form::V6, plain.verify(payload, checks).map(|()| Packet::Tcp));
    }
    let read = general(frame, checks, &mut arrived.segment);
    if read == Ok(Packet::Tcp) {
        arrived.hash = hash_of(key, &arrived.segment.addresses(frame), arrived.segment.ports);
    }
    (Form::General, read)
}

fn hash_of(key: Key, addresses: &Addresses, ports: u32) -> u64 {
    let (local, remote) = fold(key, addresses);
    place_hash(key, remote << 32 | local, u64::from(ports))
}

/// Two addresses as two values of 32 bits: themselves if they are of IPv4, and what the key makes of them if not.
fn fold(key: Key, addresses: &Addresses) -> (u64, u64) {
    match *addresses {
        Addresses::V4 { local, remote } => (u64::from(local), u64::from(remote)),
        Addresses::V6 { local, remote } => (
            place_hash(key, (local >> 64) as u64, local as u64) >> 32,
            place_hash(key, (remote >> 64) as u64, remote as u64) >> 32,
        ),
    }
}

/// Ports as a segment has them.
pub(crate) const fn ports(remote: u16, local: u16) -> u32 {
    (remote as u32) << 16 | local as u32
}

pub(crate) fn local_address(addresses: &Addresses) -> IpAddr {
    match addresses {
        Addresses::V4 { local, .. } => IpAddr::from(local.to_be_bytes()),
        Addresses::V6 { local, .. } => IpAddr::from(local.to_be_bytes()),
    }
}

pub(crate) fn remote_address(addresses: &Addresses) -> IpAddr {
    match addresses {
        Addresses::V4 { remote, .. } => IpAddr::from(remote.to_be_bytes()),
        Addresses::V6 { remote, .. } => IpAddr::from(remote.to_be_bytes()),
    }
}

/// How many segments ahead a sent segment is fetched into the cache: its TCB has come by then.
const AHEAD: usize = 8;
/// How many segments ahead the connections themselves are looked up, and how many in a row: a processor has a dozen or two fetches
/// under way at a time, and each may wait for the tables of its page first.
const FAR_AHEAD: usize = 32;
const GROUP: usize = 8;
