//! A batch of frames comes in: in stages, each over the whole batch, so that the misses of the cache overlap.
//!
//! Parse and hash, fetching the bucket of each; find, fetching the block of each; then the protocol, in the order of
//! arrival. An address to fetch always comes from data at hand, never from a line that was just asked for.

use core::net::IpAddr;

use super::{Engine, PLACE, Place};
use crate::block::{Flags, State};
use crate::frames::Frames;
use crate::hash::place_hash;
use crate::packet::{Addresses, Checks, Flags as Control, Packet, Parsed, Refusal, parse};
use crate::time::Instant;

/// A segment of the batch.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub(super) segment: Parsed,
    pub(super) hash: u64,
    /// What the table has under this tag: most likely its connection.
    candidate: Option<u32>,
    /// Which frame it is.
    pub(super) frame: u32,
}

impl Engine {
    /// Takes a batch of frames in. The engine keeps the batch until the next call, since payload is read from it; what
    /// `frames` holds afterwards is empty.
    ///
    /// No frame can do more than waste its own processing: what is malformed, forged or too much is counted in
    /// [`Counters`](crate::Counters).
    pub fn receive(&mut self, now: Instant, frames: &mut Frames) {
        self.set_now(now);
        self.settle();
        self.echoes.clear();
        if self.held.is_empty() && self.held.room() == 0 {
            // The first batch: from here on two of them change places.
            self.held = frames.empty_like();
        }
        std::mem::swap(&mut self.held, frames);
        frames.clear();
        let mut batch = std::mem::take(&mut self.batch);
        self.parse_all(&mut batch);
        for arrived in &mut batch {
            arrived.candidate = self.table.find(arrived.hash, |_| true);
            match arrived.candidate.map(Place::of) {
                Some(Place::Block(index)) => self.blocks.prefetch(index),
                Some(Place::HalfOpen(place)) => self.half_open.prefetch(place),
                Some(Place::TimeWait(place)) => self.time_wait.prefetch(place),
                None => {}
            }
        }
        for arrived in &batch {
            self.dispatch(arrived);
        }
        batch.clear();
        self.batch = batch;
    }

    fn parse_all(&mut self, batch: &mut Vec<Arrived>) {
        let checks = self.checks();
        self.counters.frames_received += self.held.len() as u64;
        for frame in 0..self.held.len() {
            let number = frame as u32;
            batch.push(Arrived { segment: Parsed::default(), hash: 0, candidate: None, frame: number });
            let Some(arrived) = batch.last_mut() else { return };
            match parse(&self.held[frame], checks, &mut arrived.segment) {
                Ok(Packet::Tcp) => {
                    let segment = &arrived.segment;
                    let hash = if segment.is_v6() {
                        self.hash_of(&segment.addresses(&self.held[frame]), segment.ports())
                    } else {
                        let addresses = u64::from(segment.local_v4) << 32 | u64::from(segment.remote_v4);
                        place_hash(self.table_key, addresses, u64::from(segment.ports()))
                    };
                    self.table.prefetch(hash);
                    arrived.hash = hash;
                    continue;
                }
                Ok(Packet::Icmp(message)) => self.on_icmp(message, frame),
                Ok(Packet::Other(_)) | Err(Refusal::Protocol | Refusal::Address) => {
                    self.counters.frames_ignored += 1
                }
                Err(_) => self.counters.frames_malformed += 1,
            }
            batch.pop();
        }
    }

    #[inline]
    fn dispatch(&mut self, arrived: &Arrived) {
        let found = match arrived.candidate {
            // A block, most of the time, and a segment that nearly every one is.
            Some(value) if self.is_for(value, arrived) => {
                if value <= PLACE && self.predict(value, arrived) {
                    return;
                }
                Some(value)
            }
            // Another connection with this tag, or what was there has ended within this batch.
            _ => self.table.find(arrived.hash, |value| self.is_for(value, arrived)),
        };
        match found.map(Place::of) {
            Some(Place::Block(index)) => self.on_segment(index, arrived),
            Some(Place::HalfOpen(place)) => self.on_half_open(place, arrived),
            Some(Place::TimeWait(place)) => self.on_time_wait(place, arrived),
            None => self.on_stranger(arrived),
        }
    }

    #[inline(always)]
    fn is_for(&self, value: u32, arrived: &Arrived) -> bool {
        let segment = &arrived.segment;
        if value > PLACE {
            return self.is_mini_for(value, arrived);
        }
        let block = &self.blocks[value];
        // A free place has no ports; one that has ended within this batch is in no table any more.
        if ports(block.remote_port, block.local_port) != segment.ports() || block.state == State::Closed {
            return false;
        }
        let local = self.local.address_v4(block.local);
        if local != 0 {
            return local == segment.local_v4 && block.remote == segment.remote_v4;
        }
        self.local.addresses(block.local, block.remote)
            == segment.addresses(&self.held[arrived.frame as usize])
    }

    #[cold]
    fn is_mini_for(&self, value: u32, arrived: &Arrived) -> bool {
        let segment = &arrived.segment;
        let (local, remote, ports) = match Place::of(value) {
            Place::Block(_) => return false,
            Place::HalfOpen(place) => {
                let half = &self.half_open[place];
                if !half.used {
                    return false;
                }
                (half.local, half.remote, ports(half.remote_port, half.local_port))
            }
            Place::TimeWait(place) => {
                let wait = &self.time_wait[place];
                if !wait.used {
                    return false;
                }
                (wait.local, wait.remote, ports(wait.remote_port, wait.local_port))
            }
        };
        ports == segment.ports()
            && self.local.addresses(local, remote) == segment.addresses(&self.held[arrived.frame as usize])
    }

    /// A segment for no connection (RFC 9293 3.10.7.1 and 3.10.7.2).
    #[cold]
    fn on_stranger(&mut self, arrived: &Arrived) {
        let segment = &arrived.segment;
        let addresses = segment.addresses(&self.held[arrived.frame as usize]);
        let Some(local) = self.local.number_of(local_address(&addresses)) else {
            self.counters.frames_ignored += 1;
            return;
        };
        if segment.flags.has(Control::RST) {
            return;
        }
        if let Some(listener) = self.local.listener_for(local, segment.local_port) {
            if segment.flags.has(Control::ACK) {
                if !self.accept_cookie(listener, local, addresses, arrived) {
                    self.refuse(addresses, segment);
                }
            } else if segment.flags.has(Control::SYN) {
                self.on_syn(listener, local, addresses, arrived, None);
            }
            return;
        }
        self.refuse(addresses, segment);
    }

    /// Keeps what was not read of the last batch, and sees to the ACKs that it owes.
    pub(super) fn settle(&mut self) {
        self.settle_frames();
        while let Some(index) = self.owing.pop() {
            self.settle_ack(index);
        }
        if !self.waiting_for_memory.is_empty() {
            self.wake_for_memory();
        }
    }

    /// The pool has room again for those who found none.
    fn wake_for_memory(&mut self) {
        while !self.waiting_for_memory.is_empty() && !self.pool.is_full() {
            let Some(index) = self.waiting_for_memory.pop_front() else { return };
            let block = &mut self.blocks[index];
            if block.has(Flags::WANTS_ROOM) {
                block.flags.clear(Flags::WANTS_ROOM);
                return self.tell(index, Flags::TELL_WRITABLE);
            }
        }
    }

    pub(super) const fn checks(&self) -> Checks {
        if self.settings.checksums { Checks::ALL } else { Checks::NONE }
    }

    /// The hash under which a connection is in the table.
    pub(super) fn hash_of(&self, addresses: &Addresses, ports: u32) -> u64 {
        let (local, remote) = fold(self.table_key, addresses);
        place_hash(self.table_key, local << 32 | remote, u64::from(ports))
    }
}

/// Two addresses as two values of 32 bits: themselves if they are of IPv4, and what the key makes of them if not.
pub(super) fn fold(key: crate::hash::Key, addresses: &Addresses) -> (u64, u64) {
    match *addresses {
        Addresses::V4 { local, remote } => (u64::from(local), u64::from(remote)),
        Addresses::V6 { local, remote } => (
            place_hash(key, (local >> 64) as u64, local as u64) >> 32,
            place_hash(key, (remote >> 64) as u64, remote as u64) >> 32,
        ),
    }
}

/// Ports as a segment has them.
pub(super) const fn ports(remote: u16, local: u16) -> u32 {
    (remote as u32) << 16 | local as u32
}

pub(super) fn local_address(addresses: &Addresses) -> IpAddr {
    match addresses {
        Addresses::V4 { local, .. } => IpAddr::from(local.to_be_bytes()),
        Addresses::V6 { local, .. } => IpAddr::from(local.to_be_bytes()),
    }
}

pub(super) fn remote_address(addresses: &Addresses) -> IpAddr {
    match addresses {
        Addresses::V4 { remote, .. } => IpAddr::from(remote.to_be_bytes()),
        Addresses::V6 { remote, .. } => IpAddr::from(remote.to_be_bytes()),
    }
}
