//! Where an endpoint of a mesh sends the frames of its engine: its links to others, and the table that says which of them a frame takes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use anywire_packet::layout::Layout;
use anywire_tcp::Frames;

use super::directory::Mesh;
use super::listen_queue::{Queue, Refused};
use super::{addresses_of, number_of};
use crate::device::{DeviceCounters, ETHERNET_BYTES};
use crate::ring_link::{End, Mailbox, link};

/// Where an endpoint sends the frames of its engine. Clones are of the same endpoint, which they do not keep.
#[derive(Clone)]
pub(super) struct Links {
    pub(super) table: Rc<RefCell<AddressTable>>,
    pub(super) mesh: Mesh,
    pub(super) mailbox: Arc<Mailbox>,
}

/// Which link a frame takes.
pub(super) struct AddressTable {
    pub(super) links: Vec<Option<LinkQueue>>,
    /// The link to each endpoint, by its number.
    to_endpoints: Vec<u16>,
    /// The link for connections from each local port to services.
    pub(super) by_local_port: Box<[u16]>,
    /// Links to queues that no host served when they were made.
    to_queues: Vec<(u64, u16)>,
}

/// A link, and what it had no room for.
pub(super) struct LinkQueue {
    pub(super) end: End,
    /// Frames that wait for room, in their order.
    pub(super) waiting: VecDeque<Vec<u8>>,
}

impl Links {
    pub(super) fn new(mesh: Mesh, mailbox: Arc<Mailbox>) -> Self {
        let table = AddressTable {
            links: Vec::new(),
            to_endpoints: Vec::new(),
            by_local_port: vec![NOWHERE; 1 << 16].into_boxed_slice(),
            to_queues: Vec::new(),
        };
        Self { table: Rc::new(RefCell::new(table)), mesh, mailbox }
    }

    /// The endpoint's own addresses.
    pub(super) fn addresses(&self) -> [IpAddr; 2] {
        addresses_of(self.mailbox.number)
    }

    /// From now on, frames from this local port to a service go to that queue.
    ///
    /// # Errors
    /// [`Refused`] if the queue was dropped.
    pub(super) fn steer(&self, local_port: u16, queue: &Queue) -> Result<(), Refused> {
        let mut table = self.table.borrow_mut();
        let known = table.to_queues.iter().find(|(number, _)| *number == queue.number);
        let index = match known {
            Some(&(_, index)) => index,
            None => self.reach(&mut table, queue)?,
        };
        table.by_local_port[usize::from(local_port)] = index;
        Ok(())
    }

    fn reach(&self, table: &mut AddressTable, queue: &Queue) -> Result<u16, Refused> {
        let mut near = None;
        let listener = queue.leave_link(|| {
            let (own, other) = self.new_link();
            near = Some(own);
            other
        })?;
        if let Some(near) = near {
            let index = table.add(near);
            table.to_queues.push((queue.number, index));
            return Ok(index);
        }
        let mailbox = listener.ok_or(Refused)?;
        let number = mailbox.number;
        if let Some(index) = table.link_to(number) {
            return Ok(index);
        }
        let (own, other) = self.new_link();
        let index = table.add(own);
        if !mailbox.send(other) {
            table.remove(usize::from(index));
            return Err(Refused);
        }
        table.set_endpoint(number, index);
        Ok(index)
    }

    /// A link; this endpoint has one end.
    fn new_link(&self) -> (End, End) {
        let limits = &self.mesh.directory.limits;
        let bytes_min = 3 * Frames::BATCH * (limits.mtu + ETHERNET_BYTES + 8);
        let (own, other) = link(limits.ring_bytes.max(bytes_min));
        own.attach(self.mailbox.number, &self.mailbox.notifier);
        (own, other)
    }

    /// From now on this endpoint receives the frames of this queue, and first the frames that have waited.
    pub(super) fn listen(&self, queue: &Queue) {
        let waiting = queue.listen(&self.mailbox);
        let mut table = self.table.borrow_mut();
        for end in waiting {
            end.attach(self.mailbox.number, &self.mailbox.notifier);
            table.add(end);
        }
        drop(table);
        self.mailbox.notifier.notify();
    }
}

impl LinkQueue {
    /// How many frames there is room for.
    #[inline]
    pub(super) fn room(&self, frame_bytes: usize) -> usize {
        if self.waiting.is_empty() { self.end.writer.room(frame_bytes) } else { 0 }
    }

    /// Takes a frame. False if there is no room, and so many wait already. One that waits counts as sent once there is room.
    #[inline]
    pub(super) fn push(&mut self, frame: &[u8], waiting_max: usize, counters: &mut DeviceCounters) -> bool {
        if self.waiting.is_empty() && self.end.writer.push(frame) {
            counters.sent_one(frame);
            self.end.has_unpublished = true;
            return true;
        }
        let has_room = self.waiting.len() < waiting_max;
        if has_room {
            self.waiting.push_back(frame.to_vec());
            self.end.is_full = true;
        }
        has_room
    }

    /// Shows the other side what was written.
    pub(super) fn publish(&mut self, frame_bytes: usize) {
        self.end.publish();
        self.end.is_full |= self.end.writer.room(frame_bytes) < Frames::BATCH;
    }

    /// Sends what waits, if there is room for a batch by now.
    #[inline]
    pub(super) fn go_on(&mut self, frame_bytes: usize, counters: &mut DeviceCounters) {
        if !self.end.is_full || self.end.writer.room(frame_bytes) < Frames::BATCH {
            return;
        }
        self.end.is_full = false;
        while let Some(frame) = self.waiting.front()
            && self.end.writer.push(frame)
        {
            counters.sent_one(frame);
            self.end.has_unpublished = true;
            self.waiting.pop_front();
        }
        if self.end.has_unpublished {
            self.publish(frame_bytes);
        }
        // The other side may have made room since the last frame found none: nobody would come back for the rest.
        self.end.is_full |= !self.waiting.is_empty();
    }
}

impl AddressTable {
    pub(super) fn add(&mut self, end: End) -> u16 {
        let far = end.far_number();
        let index = self.links.iter().position(Option::is_none).unwrap_or(self.links.len());
        if index == self.links.len() {
            self.links.push(None);
        }
        self.links[index] = Some(LinkQueue { end, waiting: VecDeque::new() });
        // There are at most as many links as pairs of endpoints and queues that are alive.
        let index = u16::try_from(index).unwrap_or(NOWHERE);
        if let Some(far) = far {
            self.set_endpoint(far, index);
        }
        index
    }

    fn set_endpoint(&mut self, number: u16, index: u16) {
        let place = usize::from(number);
        if self.to_endpoints.len() <= place {
            self.to_endpoints.resize(place + 1, NOWHERE);
        }
        self.to_endpoints[place] = index;
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.links[index] = None;
        let is_it = |other: &u16| usize::from(*other) == index;
        let all = self.to_endpoints.iter_mut().chain(&mut self.by_local_port);
        all.filter(|link| is_it(link)).for_each(|link| *link = NOWHERE);
        self.to_queues.retain(|(_, other)| !is_it(other));
    }

    /// The link to the endpoint of this number.
    #[inline]
    pub(super) fn link_to(&mut self, number: u16) -> Option<u16> {
        match self.to_endpoints.get(usize::from(number)) {
            Some(&index) if index != NOWHERE => Some(index),
            _ => self.search_link_to(number),
        }
    }

    /// A link that was laid to a queue before its endpoint was there.
    #[cold]
    fn search_link_to(&mut self, number: u16) -> Option<u16> {
        let is_it = |line: &Option<LinkQueue>| {
            line.as_ref().is_some_and(|line| line.end.far_number() == Some(number))
        };
        let index = u16::try_from(self.links.iter().position(is_it)?).ok()?;
        self.set_endpoint(number, index);
        Some(index)
    }

    /// Where a frame goes: to the endpoint whose address it is for, or to where its source port is led.
    #[inline]
    pub(super) fn link_for(&mut self, frame: &[u8]) -> Option<&mut LinkQueue> {
        let (number, source_port) = destination_of(frame)?;
        let index = match number {
            Some(number) => self.link_to(number)?,
            None => self.by_local_port[usize::from(source_port)],
        };
        self.links.get_mut(usize::from(index))?.as_mut()
    }
}

/// The endpoint of the mesh that a frame is for, if it is for one, and the TCP port that it is from.
#[inline]
fn destination_of(frame: &[u8]) -> Option<(Option<u16>, u16)> {
    let layout = Layout::of(frame)?;
    Some((number_of(layout.destination(frame)?), layout.source_port(frame)?))
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

/// No link.
pub(super) const NOWHERE: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::task::{Wake, Waker};

    use anywire_packet::{Addresses, Checks, Link, OptionsOut, Outgoing, emit};
    use anywire_tcp::Mac;

    use super::*;
    use crate::ring_link::Notifier;

    /// The far side of a link, which takes two batches when it is woken.
    struct Drains(Mutex<End>);

    impl Drains {
        fn take(&self, count: usize) -> usize {
            self.0.lock().expect("no panic").read(count, |_| {})
        }
    }

    impl Wake for Drains {
        fn wake(self: Arc<Self>) {
            self.take(2 * Frames::BATCH);
        }
    }

    /// The other side is woken by what was sent, and takes it before the sender looks for room.
    #[test]
    fn what_waits_is_not_forgotten_though_there_is_room_already() {
        let (frame, mut counters) = ([7; 1514], DeviceCounters::default());
        let (near, far) = link(3 * Frames::BATCH * (frame.len() + 8));
        let notifier = Arc::<Notifier>::default();
        far.attach(2, &notifier);
        let far = Arc::new(Drains(Mutex::new(far)));
        let mut line = LinkQueue { end: near, waiting: VecDeque::new() };
        while line.waiting.len() < 500 {
            assert!(line.push(&frame, 500, &mut counters));
        }
        line.publish(frame.len());
        assert_eq!(far.take(Frames::BATCH + 6), Frames::BATCH + 6);
        notifier.announce_sleep(&Waker::from(Arc::clone(&far)));
        line.go_on(frame.len(), &mut counters);
        assert!(!line.waiting.is_empty() && line.end.writer.room(frame.len()) >= Frames::BATCH);
        assert!(line.end.has_room_again(Frames::BATCH, frame.len()), "it sleeps while frames could leave");
        let mut turns = 0;
        while !line.waiting.is_empty() && turns < 100 {
            line.go_on(frame.len(), &mut counters);
            far.take(Frames::BATCH);
            turns += 1;
        }
        assert!(line.waiting.is_empty(), "{} of 500 wait for ever", line.waiting.len());
    }

    /// A frame may end anywhere: an engine sends none such, but a wrapper around the device may cut them.
    #[test]
    fn a_frame_of_any_length_has_a_destination_or_none() {
        let between = |local: SocketAddr, remote: IpAddr| match (local.ip(), remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                Addresses::V4 { local: local.to_bits(), remote: remote.to_bits() }
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                Addresses::V6 { local: local.to_bits(), remote: remote.to_bits() }
            }
            _ => panic!("of one family"),
        };
        let [v4, v6] = addresses_of(7);
        let service = [IpAddr::from([10, 0, 0, 2]), "fd00::2".parse().expect("an address")];
        for (remote, number) in [(v4, Some(7)), (v6, Some(7)), (service[0], None), (service[1], None)] {
            let local = SocketAddr::new(addresses_of(1)[usize::from(remote.is_ipv6())], 20_000);
            let segment = Outgoing { local_port: local.port(), remote_port: 80, ..Outgoing::default() };
            let (mut frame, link) = (vec![0; 200], Link::new(Mac::default(), Mac::default()));
            let len = emit(
                &mut frame,
                &link,
                &between(local, remote),
                &segment,
                &OptionsOut::NONE,
                b"hello",
                Checks::NONE,
            );
            for length in 0..len {
                assert_eq!(destination_of(&frame[..length]), None, "{remote}, {length} bytes");
            }
            assert_eq!(destination_of(&frame[..len]), Some((number, 20_000)));
        }
    }
}
