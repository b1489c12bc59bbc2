//! A port of a mesh: the device that an engine is given, and the board on which its connections are led to
//! others.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use anywire_tcp::{Frames, Instant, Mac};

use super::cable::{End, cable};
use super::directory::Mesh;
use super::listen_queue::{Queue, Queued, Refused};
use super::station::Station;
use super::{NETWORK_V4, NETWORK_V6, addresses_of, number_of};
use crate::device::{Capabilities, Device, DeviceCounters, ETHERNET_BYTES, LinkEvent, Readiness};

/// A port of a [`Mesh`]. It belongs to the thread that joined. Dropping it frees it and ends the connections through
/// it.
pub struct Port {
    pub(super) board: Switchboard,
    /// The latest moment that it was used at.
    now: Instant,
    frame_bytes_max: usize,
    counters: DeviceCounters,
    has_departure: bool,
    /// The cable that is asked first for frames.
    first: usize,
}

/// Where a port sends the frames of its engine. Clones are of the same port, which they do not keep.
#[derive(Clone)]
pub(super) struct Switchboard {
    board: Rc<RefCell<Board>>,
    pub(super) mesh: Mesh,
    station: Arc<Station>,
}

struct Board {
    cables: Vec<Option<End>>,
    /// The cable to each port, by its number.
    to_ports: Vec<u16>,
    /// The cable for connections from each local port to services.
    by_local_port: Box<[u16]>,
    /// Cables to queues that no host served when they were made.
    to_queues: Vec<(u64, u16)>,
}

impl Port {
    pub(super) fn new(mesh: Mesh, station: Arc<Station>) -> Self {
        let frame_bytes_max = mesh.directory.limits.mtu + ETHERNET_BYTES;
        let board = Board {
            cables: Vec::new(),
            to_ports: Vec::new(),
            by_local_port: vec![NOWHERE; 1 << 16].into_boxed_slice(),
            to_queues: Vec::new(),
        };
        Self {
            board: Switchboard { board: Rc::new(RefCell::new(board)), mesh, station },
            now: Instant::default(),
            frame_bytes_max,
            counters: DeviceCounters::default(),
            has_departure: false,
            first: 0,
        }
    }

    /// Its address. Only captures show it.
    pub fn mac(&self) -> Mac {
        let [high, low] = self.board.station.number.to_be_bytes();
        Mac::new([2, 0, 0, 1, high, low])
    }

    /// Takes in the cables that others have laid to this port, and throws those away whose other end has
    /// gone.
    fn look_after_cables(&mut self) {
        let station = &self.board.station;
        let mut board = self.board.board.borrow_mut();
        if station.has_mail() {
            for end in station.take_mail() {
                end.attach(station.number, &station.notifier);
                board.add(end);
            }
        }
        for index in 0..board.cables.len() {
            let Some(end) = &mut board.cables[index] else { continue };
            if end.full_since.is_some() && end.writer.room(self.frame_bytes_max) >= Frames::BATCH {
                end.full_since = None;
            }
            if end.is_over() {
                board.remove(index);
                self.has_departure = true;
            }
        }
    }
}

impl Device for Port {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(self.frame_bytes_max - ETHERNET_BYTES);
        capabilities.mac = Some(self.mac());
        capabilities
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.now = self.now.max(now);
        self.look_after_cables();
        let mut board = self.board.board.borrow_mut();
        let (count, counters) = (board.cables.len(), &mut self.counters);
        // Each time another one is the first, so that a full one does not keep the others waiting.
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
        let (later, sooner) = board.cables.split_at_mut(self.first);
        for end in sooner.iter_mut().chain(later).flatten() {
            if frames.room() == 0 {
                break;
            }
            end.read(frames.room(), |frame| counters.take_in(frame, frames));
        }
        frames.len()
    }

    /// That of the fullest cable, those left out that have been full for too long.
    fn room(&self) -> usize {
        let board = self.board.board.borrow();
        let is_waited_for = |end: &&End| end.full_since.is_none_or(|since| self.now.since(since) <= PATIENCE);
        let rooms = board.cables.iter().flatten().filter(is_waited_for);
        rooms.map(|end| end.writer.room(self.frame_bytes_max)).min().unwrap_or(Frames::BATCH)
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.now = self.now.max(now);
        let mut board = self.board.board.borrow_mut();
        let (mut taken, mut bytes) = (0, 0);
        for frame in frames.iter() {
            let end = board.cable_for(frame);
            if let Some(end) = end.filter(|_| frame.len() <= self.frame_bytes_max)
                && end.writer.push(frame)
            {
                end.has_unpublished = true;
                taken += 1;
                bytes += frame.len();
            }
        }
        for end in board.cables.iter_mut().flatten().filter(|end| end.has_unpublished) {
            end.publish();
            if end.writer.room(self.frame_bytes_max) < Frames::BATCH {
                end.full_since.get_or_insert(self.now);
            }
        }
        self.counters.sent(frames, taken, bytes);
        taken
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Hook
    }

    fn before_sleep(&mut self, owner: &Waker) -> bool {
        let station = &self.board.station;
        station.notifier.announce_sleep(owner);
        let board = self.board.board.borrow();
        let mut cables = board.cables.iter().flatten();
        let has_event =
            station.has_mail() || cables.any(|end| end.has_event(Frames::BATCH, self.frame_bytes_max));
        if has_event {
            station.notifier.cancel_sleep();
        }
        has_event
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        std::mem::take(&mut self.has_departure).then_some(LinkEvent::Departed)
    }

    fn reaches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let mut board = self.board.board.borrow_mut();
        match number_of(remote.ip()) {
            Some(number) => board.cable_to(number).is_some(),
            None => board.by_local_port[usize::from(local.port())] != NOWHERE,
        }
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.board.mesh.directory.leave(&self.board.station);
        // Not left to the last switchboard: the others are to learn it now.
        let cables = std::mem::take(&mut self.board.board.borrow_mut().cables);
        drop(cables);
    }
}

impl Switchboard {
    /// The port's own addresses.
    pub(super) fn addresses(&self) -> [IpAddr; 2] {
        addresses_of(self.station.number)
    }

    /// From now on, frames from this local port to a service go to that queue.
    ///
    /// # Errors
    /// [`Refused`] if the queue was dropped.
    pub(super) fn steer(&self, local_port: u16, place: &Queued) -> Result<(), Refused> {
        let mut board = self.board.borrow_mut();
        let known = board.to_queues.iter().find(|(number, _)| *number == place.queue.number);
        let index = match known {
            Some(&(_, index)) => index,
            None => self.reach(&mut board, &place.queue)?,
        };
        board.by_local_port[usize::from(local_port)] = index;
        Ok(())
    }

    fn reach(&self, board: &mut Board, queue: &Queue) -> Result<u16, Refused> {
        let mut near = None;
        let attended = queue.leave_cable(|| {
            let (own, other) = self.new_cable();
            near = Some(own);
            other
        })?;
        if let Some(near) = near {
            let index = board.add(near);
            board.to_queues.push((queue.number, index));
            return Ok(index);
        }
        let number = attended.ok_or(Refused)?;
        if let Some(index) = board.cable_to(number) {
            return Ok(index);
        }
        let station = self.mesh.station(number).ok_or(Refused)?;
        let (own, other) = self.new_cable();
        let index = board.add(own);
        if !station.send(other) {
            board.remove(usize::from(index));
            return Err(Refused);
        }
        board.set_port(number, index);
        Ok(index)
    }

    /// A cable; this port has one end.
    fn new_cable(&self) -> (End, End) {
        let limits = &self.mesh.directory.limits;
        let bytes_min = 3 * Frames::BATCH * (limits.mtu + ETHERNET_BYTES + 8);
        let (own, other) = cable(limits.ring_bytes.max(bytes_min));
        own.attach(self.station.number, &self.station.notifier);
        (own, other)
    }

    /// From now on this port receives the frames of this queue, and first the frames that have waited.
    pub(super) fn attend(&self, queue: &Queue) {
        let waiting = queue.attend(self.station.number);
        let mut board = self.board.borrow_mut();
        for end in waiting {
            end.attach(self.station.number, &self.station.notifier);
            board.add(end);
        }
        drop(board);
        self.station.notifier.notify();
    }
}

impl Board {
    fn add(&mut self, end: End) -> u16 {
        let far = end.far_port();
        let index = self.cables.iter().position(Option::is_none).unwrap_or(self.cables.len());
        if index == self.cables.len() {
            self.cables.push(None);
        }
        self.cables[index] = Some(end);
        // There are at most as many cables as pairs of ports and queues that are alive.
        let index = u16::try_from(index).unwrap_or(NOWHERE);
        if let Some(far) = far {
            self.set_port(far, index);
        }
        index
    }

    fn set_port(&mut self, number: u16, index: u16) {
        let place = usize::from(number);
        if self.to_ports.len() <= place {
            self.to_ports.resize(place + 1, NOWHERE);
        }
        self.to_ports[place] = index;
    }

    fn remove(&mut self, index: usize) {
        self.cables[index] = None;
        let is_it = |other: &u16| usize::from(*other) == index;
        let all = self.to_ports.iter_mut().chain(&mut self.by_local_port);
        all.filter(|cable| is_it(cable)).for_each(|cable| *cable = NOWHERE);
        self.to_queues.retain(|(_, other)| !is_it(other));
    }

    /// The cable to the port of this number.
    #[inline]
    fn cable_to(&mut self, number: u16) -> Option<u16> {
        match self.to_ports.get(usize::from(number)) {
            Some(&index) if index != NOWHERE => Some(index),
            _ => self.search_cable_to(number),
        }
    }

    /// A cable that was laid to a queue before its port was there.
    #[cold]
    fn search_cable_to(&mut self, number: u16) -> Option<u16> {
        let is_it = |end: &Option<End>| end.as_ref().is_some_and(|end| end.far_port() == Some(number));
        let index = u16::try_from(self.cables.iter().position(is_it)?).ok()?;
        self.set_port(number, index);
        Some(index)
    }

    /// Where a frame goes: to the port whose address it is for, or to where its source port is led.
    #[inline]
    fn cable_for(&mut self, frame: &[u8]) -> Option<&mut End> {
        let (number, source_port) = destination_of(frame)?;
        let index = match number {
            Some(number) => self.cable_to(number)?,
            None => self.by_local_port[usize::from(source_port)],
        };
        self.cables.get_mut(usize::from(index))?.as_mut()
    }
}

/// The port of the mesh that a frame is for, if it is for one, and the TCP port that it is from.
#[inline]
fn destination_of(frame: &[u8]) -> Option<(Option<u16>, u16)> {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    match word(12)? {
        ETHERTYPE_IPV4 => {
            let header = usize::from(frame.get(ETHERNET_BYTES)? & 15) * 4;
            let is_port = frame.get(30..32)? == NETWORK_V4;
            Some((is_port.then_some(word(32)?), word(ETHERNET_BYTES + header)?))
        }
        ETHERTYPE_IPV6 => {
            let network = frame.get(38..52)?.chunks_exact(2);
            let is_port = network.zip(NETWORK_V6).all(|(bytes, word)| bytes == word.to_be_bytes());
            Some((is_port.then_some(word(52)?), word(54)?))
        }
        _ => None,
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port")
            .field("mac", &self.mac())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Switchboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switchboard").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// No cable.
const NOWHERE: u16 = u16::MAX;

/// How long a full cable holds back the sender. A loop that a task blocks must not stop the others for good. Longer
/// than a busy machine delays a thread, far shorter than a retransmission timeout.
const PATIENCE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame may end anywhere: an engine sends none such, but a wrapper around the device may cut them.
    #[test]
    fn a_frame_of_any_length_has_a_destination_or_none() {
        let mut frame = [0; 60];
        for (ethertype, network_at, network, port_at) in [
            (ETHERTYPE_IPV4, 30, NETWORK_V4.to_vec(), 34),
            (ETHERTYPE_IPV6, 38, NETWORK_V6.iter().flat_map(|word| word.to_be_bytes()).collect(), 54),
        ] {
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
            frame[ETHERNET_BYTES] = 0x45;
            frame[network_at..network_at + network.len()].copy_from_slice(&network);
            frame[port_at..port_at + 2].copy_from_slice(&80_u16.to_be_bytes());
            for length in 0..frame.len() {
                let found = destination_of(&frame[..length]);
                assert_eq!(found.is_some(), length >= port_at + 2, "{ethertype:#x}, {length} bytes");
            }
        }
    }
}
