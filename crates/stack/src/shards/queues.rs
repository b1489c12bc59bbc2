//! The queues of a device that one loop reads: mostly one, none if there are fewer than loops, and several if another loop has ended.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::Waker;

use anywire_tcp::{Frames, Instant};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::device::{Device, DeviceCounters, LinkEvent, Readiness};

/// One queue, which may go from loop to loop.
pub(super) type Queue = Box<dyn Device + Send>;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Queues {
    all: Vec<Queue>,
    /// Readable if any of several is.
    epoll: Option<OwnedFd>,
    /// The one that is asked first for frames.
    first: usize,
    /// What those counted that went elsewhere.
    before: DeviceCounters,
}

impl Queues {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn add(&mut self, queue: Queue) {
        self.all.push(queue);
        self.watch_all();
    }

    /// Gives one away.
    pub(super) fn take(&mut self) -> Option<Queue> {
        let queue = self.all.pop()?;
        add(&mut self.before, queue.counters());
        self.watch_all();
        Some(queue)
    }

    /// All of them, for others.
    pub(super) fn into_all(self) -> impl Iterator<Item = Queue> {
        self.all.into_iter()
    }

    /// Frames leave by the first one.
    pub(super) fn sender(&mut self) -> Option<&mut Queue> {
        self.all.first_mut()
    }

    pub(super) fn room(&self) -> usize {
        self.all.first().map_or(0, |queue| queue.room())
    }

    pub(super) fn batch(&self) -> Option<Frames> {
        self.all.first().map(|queue| queue.batch())
    }

    /// A batch of one of them, in turn.
    pub(super) fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        for _ in 0..self.all.len() {
            self.first = if self.first + 1 < self.all.len() { self.first + 1 } else { 0 };
            let count = self.all[self.first].receive(now, frames);
            if count > 0 {
                return count;
            }
        }
        0
    }

    pub(super) fn is_behind(&self) -> bool {
        self.all.iter().any(|queue| queue.is_behind())
    }

    pub(super) fn readiness(&self) -> Readiness<'_> {
        match (&self.all[..], &self.epoll) {
            ([], _) => Readiness::Hook,
            ([queue], _) => queue.readiness(),
            (_, Some(epoll)) => Readiness::Descriptor(epoll.as_fd()),
            (_, None) => Readiness::Polled,
        }
    }

    pub(super) fn before_sleep(&mut self, owner: &Waker) -> bool {
        let mut has_event = false;
        for queue in &mut self.all {
            // Each of them has to be told.
            has_event |= queue.before_sleep(owner);
        }
        has_event
    }

    pub(super) fn link_event(&mut self) -> Option<LinkEvent> {
        self.all.iter_mut().find_map(|queue| queue.link_event())
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.all.iter().filter_map(|queue| queue.next_deadline()).min()
    }

    pub(super) fn counters(&self) -> DeviceCounters {
        let mut sum = self.before;
        self.all.iter().for_each(|queue| add(&mut sum, queue.counters()));
        sum
    }

    /// Has one descriptor readable when any of several is. Without such a descriptor the owner looks from time to time.
    fn watch_all(&mut self) {
        self.epoll = None;
        if self.all.len() < 2 {
            return;
        }
        let watched = || -> Result<OwnedFd, rustix::io::Errno> {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            for queue in &self.all {
                if let Some(descriptor) = descriptor_of(queue) {
                    epoll::add(&epoll, descriptor, EventData::new_u64(0), EventFlags::IN)?;
                }
            }
            Ok(epoll)
        };
        self.epoll = watched().ok();
    }
}

fn descriptor_of(queue: &Queue) -> Option<BorrowedFd<'_>> {
    match queue.readiness() {
        Readiness::Descriptor(descriptor) => Some(descriptor),
        Readiness::Hook | Readiness::Polled => None,
    }
}

fn add(sum: &mut DeviceCounters, more: DeviceCounters) {
    sum.frames_in += more.frames_in;
    sum.bytes_in += more.bytes_in;
    sum.frames_out += more.frames_out;
    sum.bytes_out += more.bytes_out;
    sum.dropped_in += more.dropped_in;
    sum.dropped_out += more.dropped_out;
    sum.super_frames_in += more.super_frames_in;
    sum.super_frames_out += more.super_frames_out;
    sum.no_chunk += more.no_chunk;
    sum.receive_ring_full += more.receive_ring_full;
    sum.invalid_descriptors += more.invalid_descriptors;
    sum.transmit_busy += more.transmit_busy;
}
