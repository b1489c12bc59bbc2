//! An endpoint of a mesh: the device that an engine is given.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use anywire_tcp::{Frames, Instant, Mac};

use super::directory::Mesh;
use super::links::{Links, NOWHERE};
use super::number_of;
use crate::device::{Capabilities, Device, DeviceCounters, ETHERNET_BYTES, LinkEvent, Readiness};
use crate::ring_link::Mailbox;

/// An endpoint of a [`Mesh`]. It belongs to the thread that joined. Dropping it frees it and ends the connections through
/// it.
pub struct Endpoint {
    pub(super) links: Links,
    frame_bytes_max: usize,
    counters: DeviceCounters,
    has_departure: bool,
    /// The link that is asked first for frames.
    first: usize,
}

impl Endpoint {
    pub(super) fn new(mesh: Mesh, mailbox: Arc<Mailbox>) -> Self {
        let frame_bytes_max = mesh.directory.limits.mtu + ETHERNET_BYTES;
        Self {
            links: Links::new(mesh, mailbox),
            frame_bytes_max,
            counters: DeviceCounters::default(),
            has_departure: false,
            first: 0,
        }
    }

    /// Its address. Only captures show it.
    pub fn mac(&self) -> Mac {
        let [high, low] = self.links.mailbox.number.to_be_bytes();
        Mac::new([2, 0, 0, 1, high, low])
    }

    /// Takes in the links that others have laid to this endpoint, and throws those away whose other end has
    /// gone.
    fn look_after_links(&mut self) {
        let mailbox = &self.links.mailbox;
        let mut table = self.links.table.borrow_mut();
        if mailbox.has_mail() {
            for end in mailbox.take_mail() {
                end.attach(mailbox.number, &mailbox.notifier);
                table.add(end);
            }
        }
        for index in 0..table.links.len() {
            let Some(line) = &mut table.links[index] else { continue };
            line.go_on(self.frame_bytes_max, &mut self.counters);
            if line.end.is_over() {
                self.counters.dropped_out += line.waiting.len() as u64;
                table.remove(index);
                self.has_departure = true;
            }
        }
    }
}

impl Device for Endpoint {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(self.frame_bytes_max - ETHERNET_BYTES);
        capabilities.mac = Some(self.mac());
        capabilities
    }

    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        self.look_after_links();
        let mut table = self.links.table.borrow_mut();
        let (count, counters) = (table.links.len(), &mut self.counters);
        // Each time another one is the first, so that a full one does not keep the others waiting.
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
        let (later, sooner) = table.links.split_at_mut(self.first);
        for line in sooner.iter_mut().chain(later).flatten() {
            if frames.room() == 0 {
                break;
            }
            line.end.read(frames.room(), |frame| _ = counters.take_in(frame, frames));
        }
        frames.len()
    }

    /// That of the emptiest link: one whose loop is slow or stuck holds up no other. Frames for it wait, and above
    /// [`Limits::waiting_frames`](super::Limits::waiting_frames) they are dropped and counted.
    fn room(&self) -> usize {
        let table = self.links.table.borrow();
        let rooms = table.links.iter().flatten().map(|line| line.room(self.frame_bytes_max));
        rooms.max().unwrap_or(Frames::BATCH)
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let mut table = self.links.table.borrow_mut();
        let waiting_max = self.links.mesh.directory.limits.waiting_frames;
        let (mut taken, count) = (0, frames.len());
        for frame in frames.iter().filter(|frame| frame.len() <= self.frame_bytes_max) {
            if let Some(line) = table.link_for(frame)
                && line.push(frame, waiting_max, &mut self.counters)
            {
                taken += 1;
            }
        }
        frames.clear();
        self.counters.dropped_out += (count - taken) as u64;
        for line in table.links.iter_mut().flatten().filter(|line| line.end.has_unpublished) {
            line.publish(self.frame_bytes_max);
        }
        taken
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Hook
    }

    fn before_sleep(&mut self, owner: &Waker) -> bool {
        let mailbox = &self.links.mailbox;
        mailbox.notifier.announce_sleep(owner);
        let table = self.links.table.borrow();
        let mut links = table.links.iter().flatten();
        let has_event =
            mailbox.has_mail() || links.any(|line| line.end.has_event(Frames::BATCH, self.frame_bytes_max));
        if has_event {
            mailbox.notifier.cancel_sleep();
        }
        has_event
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        std::mem::take(&mut self.has_departure).then_some(LinkEvent::Departed)
    }

    fn reaches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let mut table = self.links.table.borrow_mut();
        match number_of(remote.ip()) {
            Some(number) => table.link_to(number).is_some(),
            None => table.by_local_port[usize::from(local.port())] != NOWHERE,
        }
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.links.mesh.directory.leave(&self.links.mailbox);
        // Not left to the last links: the others are to learn it now.
        let links = std::mem::take(&mut self.links.table.borrow_mut().links);
        drop(links);
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("mac", &self.mac())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anywire_packet::{Addresses, Checks, Flags, Link, OptionsOut, Outgoing, emit};

    use super::super::Limits;
    use super::*;

    /// A frame from this port of 10.255.0.1 to 10.0.0.2, with this byte at its end.
    fn frame(local_port: u16, last: u8) -> Vec<u8> {
        let between = Addresses::V4 { local: 0x0aff_0001, remote: 0x0a00_0002 };
        let [to, from] = [2, 1].map(|last| Mac::new([2, 0, 0, 0, 0, last]));
        let segment = Outgoing { local_port, remote_port: 80, flags: Flags::ACK, ..Outgoing::default() };
        let (mut frame, payload) = (vec![0; 60], [0, 0, 0, 0, 0, last]);
        emit(&mut frame, &Link::new(to, from), &between, &segment, &OptionsOut::NONE, &payload, Checks::NONE);
        frame
    }

    /// Sends one frame; whether it was taken.
    fn send(endpoint: &mut Endpoint, frame: &[u8]) -> bool {
        let mut frames = endpoint.batch();
        assert!(frames.push(frame));
        endpoint.transmit(Instant::default(), &mut frames) == 1
    }

    #[test]
    fn a_loop_that_takes_nothing_holds_up_no_other() {
        let mesh = Mesh::new(Limits { waiting_frames: 100, ..Limits::default() });
        let (_service, queues) = mesh.listen("10.0.0.2:80".parse().expect("one"), 2, 16).expect("free");
        let mut sender = mesh.join().expect("room");
        for (local_port, queue) in (1..).zip(&queues) {
            sender.links.steer(local_port, &queue.queue).expect("it is open");
        }
        // Nobody listens at the first queue.
        let mut taken = 0_u64;
        while send(&mut sender, &frame(1, taken as u8)) {
            taken += 1;
        }
        assert_eq!(sender.counters().dropped_out, 1, "what finds too many waiting is dropped and counted");
        let mut other = mesh.join().expect("room");
        other.links.listen(&queues[1].queue);
        let mut frames = other.batch();
        for last in 0..200 {
            assert!(sender.room() > 0 && send(&mut sender, &frame(2, last)));
            assert_eq!(other.receive(Instant::default(), &mut frames), 1);
            assert_eq!(frames[0][59], last);
            frames.clear();
        }

        // All that has waited arrives, in order, once somebody is there.
        let mut late = mesh.join().expect("room");
        late.links.listen(&queues[0].queue);
        let mut expected = 0_u64;
        while expected < taken {
            let count = late.receive(Instant::default(), &mut frames);
            assert!(count > 0, "{expected} of {taken}");
            for arrived in frames.iter() {
                assert_eq!(arrived[59], expected as u8);
                expected += 1;
            }
            frames.clear();
            sender.receive(Instant::default(), &mut frames);
        }
        assert!(send(&mut sender, &frame(1, 7)), "there is room again");
        assert_eq!((sender.counters().frames_out, sender.counters().dropped_out), (taken + 201, 1));

        // What still waits when the other end goes is lost, and was never sent.
        let mut lost = 0;
        while send(&mut sender, &frame(1, 7)) {
            lost += 1;
        }
        drop(late);
        sender.receive(Instant::default(), &mut frames);
        let DeviceCounters { frames_out, dropped_out, .. } = sender.counters();
        assert_eq!((frames_out + dropped_out, dropped_out), (taken + 201 + lost + 2, 102));
    }

    /// A queue that is kept though its host has gone gets no share of the connections.
    #[test]
    fn a_host_that_goes_has_no_turn() {
        let mesh = Mesh::new(Limits::default());
        let service = "10.0.0.2:80".parse().expect("one");
        let (_service, queues) = mesh.listen(service, 2, 16).expect("free");
        let hosts = [0, 1].map(|number: usize| {
            let host = mesh.join().expect("room");
            host.links.listen(&queues[number].queue);
            host
        });
        let [gone, stays] = hosts;
        drop(gone);
        let (known, mut sender) = (RefCell::default(), mesh.join().expect("room"));
        for local_port in 1..=4 {
            let queue = mesh.next_queue(&known, service).expect("one listens");
            sender.links.steer(local_port, &queue).expect("it is there");
            assert!(send(&mut sender, &frame(local_port, 7)));
        }
        drop(stays);
        assert!(mesh.next_queue(&known, service).is_err());
        // Another host may listen at the queue of one that has gone.
        let next = mesh.join().expect("room");
        next.links.listen(&queues[0].queue);
        assert!(mesh.next_queue(&known, service).is_ok());
    }
}
