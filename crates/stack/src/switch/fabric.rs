//! The inside of the switch: looks at each frame's addresses once, and moves it to the queue where it
//! belongs.

use anywire_tcp::{Frames, Instant, Mac};

use super::counters::SwitchCounters;
use super::learning::{Address, Learned, Stations, address_of, is_group};
use super::limits::{Settings, SwitchError};
use super::queue::{Queue, Spares};
use crate::device::{DeviceCounters, ETHERNET_BYTES};

/// The inside of the switch.
pub(super) struct Fabric {
    pub(super) settings: Settings,
    frame_bytes_max: usize,
    /// The latest moment that any port was used at.
    now: Instant,
    pub(super) stations: Stations,
    slots: Vec<Option<Slot>>,
    spares: Spares,
    /// Where each frame of the present batch goes: a port, or one of the numbers above all ports.
    places: Vec<u16>,
    pub(super) counters: SwitchCounters,
}

/// A port, seen from inside.
pub(super) struct Slot {
    pub(super) mac: Mac,
    pub(super) queue: Queue,
    /// The address that it last sent from, and when that was looked up: the same one need not be again.
    source: Address,
    source_seen: Instant,
    /// The ports that it lately sent to, the last one first.
    lately: [u16; LATELY],
    pub(super) counters: DeviceCounters,
}

impl Fabric {
    pub(super) fn new(settings: Settings) -> Self {
        let frame_bytes_max = settings.mtu + ETHERNET_BYTES;
        Self {
            settings,
            frame_bytes_max,
            now: Instant::default(),
            stations: Stations::new(settings.limits),
            slots: Vec::new(),
            spares: Spares::new(settings.mtu),
            places: Vec::with_capacity(Frames::BATCH),
            counters: SwitchCounters::default(),
        }
    }

    pub(super) fn open(&mut self, mac: Mac) -> Result<u16, SwitchError> {
        let address = address_of(mac);
        if is_group(address) || address == 0 {
            return Err(SwitchError::NotAStation(mac));
        }
        if self.stations.is_fixed(address) {
            return Err(SwitchError::AddressTaken(mac));
        }
        let limit = self.settings.limits.ports.min(usize::from(PORTS_MAX));
        let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        let index = match u16::try_from(free) {
            Ok(index) if free < limit => index,
            _ => return Err(SwitchError::PortsExhausted { limit }),
        };
        if free == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[free] = Some(Slot {
            mac,
            queue: Queue::new(self.settings.limits.queue_frames),
            source: address,
            source_seen: self.now,
            lately: [NOWHERE; LATELY],
            counters: DeviceCounters::default(),
        });
        self.stations.fix(address, index);
        Ok(index)
    }

    pub(super) fn close(&mut self, index: u16) {
        self.slots[usize::from(index)] = None;
        self.stations.forget_port(index);
    }

    /// The room of the fullest port that this one lately sent to. Ports that have been full for too long do not
    /// count.
    pub(super) fn room(&self, from: u16) -> usize {
        let limits = &self.settings.limits;
        let lately = self.slot(from).lately.iter().map_while(|&to| self.slots.get(usize::from(to)));
        let queues = lately.flatten().map(|slot| &slot.queue);
        let rooms = queues.filter(|queue| !queue.is_stuck(self.now, limits.patience)).map(Queue::room);
        rooms.min().unwrap_or(limits.queue_frames)
    }

    #[inline]
    pub(super) fn receive(&mut self, index: u16, now: Instant, frames: &mut Frames) -> usize {
        self.now = self.now.max(now);
        let slot = self.slots[usize::from(index)].as_mut().expect(OPEN);
        let (count, bytes) = slot.queue.pop(frames, &mut self.spares);
        slot.counters.frames_in += count as u64;
        slot.counters.bytes_in += bytes;
        count
    }

    #[inline]
    pub(super) fn transmit(&mut self, from: u16, now: Instant, frames: &mut Frames) -> usize {
        if frames.is_empty() {
            return 0;
        }
        self.now = self.now.max(now);
        self.believe_source_no_longer_than_it_lives(from);
        let count = frames.len();
        let (common, bytes) = match self.find_common_place(from, frames) {
            Some((place, bytes)) => (Some(place), bytes),
            None => self.find_places(from, frames),
        };
        let dropped = match common {
            Some(to) if to < PORTS_MAX && self.slot(to).queue.room() >= count => {
                self.hand_over(to, frames, bytes);
                self.slot_mut(from).remember(to);
                Dropped::default()
            }
            Some(place) => {
                self.places.clear();
                self.places.resize(count, place);
                self.distribute(from, frames)
            }
            None => self.distribute(from, frames),
        };
        let counters = &mut self.slot_mut(from).counters;
        counters.frames_out += count as u64 - dropped.frames;
        counters.bytes_out += bytes - dropped.bytes;
        counters.dropped_out += dropped.frames;
        count - dropped.frames as usize
    }

    /// The common place of all frames and their bytes, if all have the same two addresses, as the frames of one
    /// engine do.
    #[inline]
    fn find_common_place(&mut self, from: u16, frames: &Frames) -> Option<(u16, u64)> {
        let first = frames.get(0)?;
        let (destination, source) = self.addresses(first)?;
        let header = first.first_chunk::<ADDRESSES_BYTES>()?;
        let mut bytes = 0;
        for frame in frames.iter() {
            if !self.has_right_length(frame) || frame.first_chunk() != Some(header) {
                return None;
            }
            bytes += frame.len() as u64;
        }
        self.note_source(from, source);
        let place = self.place_of(destination, from);
        self.counters.filtered += if place == NOWHERE { frames.len() as u64 } else { 0 };
        Some((place, bytes))
    }

    /// Writes down where each frame goes. Gives the common place of all, if they have one, and their bytes.
    fn find_places(&mut self, from: u16, frames: &Frames) -> (Option<u16>, u64) {
        self.places.clear();
        let (mut destination_before, mut place, mut bytes) = (NO_ADDRESS, NOWHERE, 0);
        for frame in frames.iter() {
            bytes += frame.len() as u64;
            let Some((destination, source)) = self.addresses(frame) else {
                self.counters.malformed += 1;
                self.places.push(NOWHERE);
                continue;
            };
            if self.note_source(from, source) || destination != destination_before {
                place = self.place_of(destination, from);
                destination_before = destination;
            }
            self.places.push(place);
            self.counters.filtered += u64::from(place == NOWHERE);
        }
        let common = self.places.first().copied();
        (common.filter(|first| self.places.iter().all(|place| place == first)), bytes)
    }

    /// Destination and source of a frame that is neither too short nor too long.
    #[inline]
    fn addresses(&self, frame: &[u8]) -> Option<(Address, Address)> {
        let &[a, b, c, d, e, f, g, h, i, j, k, l] = frame.first_chunk::<ADDRESSES_BYTES>()?;
        let destination = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 16;
        let source = u64::from_be_bytes([e, f, g, h, i, j, k, l]) & ADDRESS_MASK;
        self.has_right_length(frame).then_some((destination, source))
    }

    #[inline]
    const fn has_right_length(&self, frame: &[u8]) -> bool {
        ETHERNET_BYTES <= frame.len() && frame.len() <= self.frame_bytes_max
    }

    /// Has the address that a port last sent from looked up again, well before it would be forgotten.
    #[inline]
    fn believe_source_no_longer_than_it_lives(&mut self, from: u16) {
        let (now, lifetime) = (self.now, self.settings.limits.station_lifetime);
        let slot = self.slot_mut(from);
        if now.since(slot.source_seen) >= lifetime / 4 {
            slot.source = NO_ADDRESS;
        }
    }

    /// Learns where `source` is, unless it is the one that the port last sent from. Whether it was another
    /// one.
    #[inline]
    fn note_source(&mut self, from: u16, source: Address) -> bool {
        let is_new = self.slot(from).source != source;
        if is_new {
            self.learn(from, source);
        }
        is_new
    }

    fn learn(&mut self, from: u16, source: Address) {
        match self.stations.learn(source, from, self.now) {
            Learned::Known => {}
            Learned::Moved { before } => {
                self.counters.stations_moved += 1;
                // Should it come back there, it is to be learned again.
                self.slot_mut(before).source = NO_ADDRESS;
            }
            Learned::Refused => self.counters.stations_refused += 1,
            Learned::Forged => self.counters.stations_forged += 1,
        }
        let now = self.now;
        let slot = self.slot_mut(from);
        (slot.source, slot.source_seen) = (source, now);
    }

    fn place_of(&self, destination: Address, from: u16) -> u16 {
        if is_group(destination) {
            return EVERYWHERE;
        }
        match self.stations.find(destination, self.now) {
            Some(port) if port == from => NOWHERE,
            Some(port) => port,
            None => EVERYWHERE,
        }
    }

    /// Gives all frames to one port that has room for them.
    #[inline]
    fn hand_over(&mut self, to: u16, frames: &mut Frames, bytes: u64) {
        let count = frames.len() as u64;
        let slot = self.slots[usize::from(to)].as_mut().expect(OPEN);
        if slot.queue.append(frames, bytes, self.now, &mut self.spares) {
            self.counters.batches_handed_over += 1;
            self.counters.frames_handed_over += count;
        } else {
            self.counters.frames_copied += count;
        }
    }

    /// Copies each frame to its port, or to all ports. Sharing the batch's memory would keep all of it in use, and
    /// replacing that takes 6 us; copying 64 of the longest frames takes 2. Gives what found no room.
    fn distribute(&mut self, from: u16, frames: &mut Frames) -> Dropped {
        let mut dropped = Dropped::default();
        let mut to_before = NOWHERE;
        let places = std::mem::take(&mut self.places);
        for (frame, &to) in frames.iter().zip(&places) {
            if to == EVERYWHERE {
                self.flood(from, frame);
            } else if to < PORTS_MAX {
                if to != to_before {
                    self.slot_mut(from).remember(to);
                    to_before = to;
                }
                if self.copy_to(to, frame) {
                    self.counters.frames_copied += 1;
                } else {
                    dropped.frames += 1;
                    dropped.bytes += frame.len() as u64;
                }
            }
        }
        self.places = places;
        frames.clear();
        dropped
    }

    fn flood(&mut self, from: u16, frame: &[u8]) {
        self.counters.frames_flooded += 1;
        for index in 0..self.slots.len() as u16 {
            if index != from && self.slots[usize::from(index)].is_some() {
                self.copy_to(index, frame);
            }
        }
    }

    #[inline]
    fn copy_to(&mut self, to: u16, frame: &[u8]) -> bool {
        let slot = self.slots[usize::from(to)].as_mut().expect(OPEN);
        let taken = slot.queue.push(frame, self.now, &mut self.spares);
        if !taken {
            slot.counters.dropped_in += 1;
            self.counters.full += 1;
        }
        taken
    }

    /// The port of this number, which is open.
    #[inline]
    pub(super) fn slot(&self, index: u16) -> &Slot {
        self.slots[usize::from(index)].as_ref().expect(OPEN)
    }

    #[inline]
    fn slot_mut(&mut self, index: u16) -> &mut Slot {
        self.slots[usize::from(index)].as_mut().expect(OPEN)
    }
}

impl Slot {
    /// Puts `to` in front of the ports that were lately sent to.
    #[inline]
    fn remember(&mut self, to: u16) {
        if self.lately[0] != to {
            let place = self.lately.iter().position(|&port| port == to).unwrap_or(LATELY - 1);
            self.lately[..=place].rotate_right(1);
            self.lately[0] = to;
        }
    }
}

/// What found no room.
#[derive(Debug, Default)]
struct Dropped {
    frames: u64,
    bytes: u64,
}

/// Ports have lower numbers than this; the places that are no port have higher ones.
const PORTS_MAX: u16 = 65_000;
/// To all ports but the one that it came from.
const EVERYWHERE: u16 = u16::MAX;
/// To no port.
const NOWHERE: u16 = u16::MAX - 1;

/// The number of ports whose queues hold a sender back: as many as a server talks to at a time over a few links. With
/// more, a port that the sender no longer uses could hold it back.
const LATELY: usize = 8;

/// Bytes of destination and source at the start of a frame.
const ADDRESSES_BYTES: usize = 12;

/// More than any address.
const NO_ADDRESS: Address = u64::MAX;
const ADDRESS_MASK: u64 = 0xffff_ffff_ffff;

const OPEN: &str = "a port's number is in use until the port is dropped";
