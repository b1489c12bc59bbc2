//! The queues of a device that one loop reads: mostly one, none if there are fewer than loops, and several if another loop has ended.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::Waker;

use anywire_tcp::{Frames, Instant};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::device::{Device, DeviceCounters, Housekeeping, LinkEvent, Readiness};

/// One queue, which may go from loop to loop.
pub(super) type Queue = Box<dyn Device + Send>;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Queues {
    all: Vec<Held>,
    /// Readable if any of several queues is. The descriptor stays once there is one: a waiter knows it by its number, which another one would get.
    epoll: Option<OwnedFd>,
    /// Tries again to watch queues that could not be watched.
    housekeeping: Housekeeping,
    /// The one that is asked first for frames.
    first: usize,
    /// What queues counted here before they went elsewhere.
    before: DeviceCounters,
}

struct Held {
    queue: Queue,
    /// The descriptor of all tells of it. Else it has none, or the system had none left: the owner looks from time to time.
    is_watched: bool,
    /// What the queue had counted before it came here.
    counted_elsewhere: DeviceCounters,
}

impl Held {
    fn counters(&self) -> DeviceCounters {
        combine(self.queue.counters(), self.counted_elsewhere, u64::saturating_sub)
    }
}

impl Queues {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn add(&mut self, queue: Queue) {
        self.all.push(Held { counted_elsewhere: queue.counters(), is_watched: false, queue });
        self.watch_all();
    }

    /// Watches each of several queues that is not watched yet.
    fn watch_all(&mut self) {
        if self.all.len() < 2 {
            return;
        }
        if self.epoll.is_none() {
            self.epoll = epoll::create(CreateFlags::CLOEXEC).ok();
        }
        let Some(epoll) = &self.epoll else { return };
        for held in self.all.iter_mut().filter(|held| !held.is_watched) {
            held.is_watched = watch(epoll, held).is_ok();
        }
    }

    /// Gives one away.
    pub(super) fn take(&mut self) -> Option<Queue> {
        let held = self.all.pop()?;
        self.before = combine(self.before, held.counters(), u64::wrapping_add);
        if let (Some(epoll), Some(descriptor)) = (&self.epoll, descriptor_of(&held.queue)) {
            // The other loop watches it from now on.
            let _ = epoll::delete(epoll, descriptor);
        }
        Some(held.queue)
    }

    /// All of them, for others.
    pub(super) fn into_all(self) -> impl Iterator<Item = Queue> {
        self.all.into_iter().map(|held| held.queue)
    }

    /// Frames leave by the first one.
    pub(super) fn sender(&mut self) -> Option<&mut Queue> {
        self.all.first_mut().map(|held| &mut held.queue)
    }

    pub(super) fn room(&self) -> usize {
        self.all.first().map_or(0, |held| held.queue.room())
    }

    pub(super) fn batch(&self) -> Option<Frames> {
        self.all.first().map(|held| held.queue.batch())
    }

    /// A batch of one of them, in turn.
    pub(super) fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        if self.housekeeping.begin(now) {
            self.watch_all();
        }
        for _ in 0..self.all.len() {
            self.first = if self.first + 1 < self.all.len() { self.first + 1 } else { 0 };
            let count = self.all[self.first].queue.receive(now, frames);
            if count > 0 {
                return count;
            }
        }
        0
    }

    pub(super) fn is_behind(&self) -> bool {
        self.all.iter().any(|held| held.queue.is_behind())
    }

    pub(super) fn readiness(&self) -> Readiness<'_> {
        match (&self.all[..], &self.epoll) {
            ([], _) => Readiness::Hook,
            ([held], _) => held.queue.readiness(),
            (all, Some(epoll)) if all.iter().all(|held| held.is_watched) => {
                Readiness::Descriptor(epoll.as_fd())
            }
            _ => Readiness::Polled,
        }
    }

    pub(super) fn before_sleep(&mut self, owner: &Waker) -> bool {
        let mut has_event = false;
        for held in &mut self.all {
            // Each of them has to be told.
            has_event |= held.queue.before_sleep(owner);
        }
        has_event
    }

    /// What the first queue tells of the link, and that the device is gone, whichever tells it: of all else each of several tells as well.
    pub(super) fn link_event(&mut self) -> Option<LinkEvent> {
        let (first, others) = self.all.split_first_mut()?;
        for held in others {
            while let Some(event) = held.queue.link_event() {
                if event == LinkEvent::Gone {
                    return Some(event);
                }
            }
        }
        first.queue.link_event()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.all.iter().filter_map(|held| held.queue.next_deadline()).min()
    }

    /// What the queues have counted while they were here.
    pub(super) fn counters(&self) -> DeviceCounters {
        let counted = self.all.iter().map(Held::counters);
        counted.fold(self.before, |sum, more| combine(sum, more, u64::wrapping_add))
    }
}

/// Has the descriptor of all be readable when this one is.
fn watch(epoll: &OwnedFd, held: &Held) -> rustix::io::Result<()> {
    match descriptor_of(&held.queue) {
        Some(descriptor) => epoll::add(epoll, descriptor, EventData::new_u64(0), EventFlags::IN),
        None => Err(rustix::io::Errno::NOTSUP),
    }
}

fn descriptor_of(queue: &Queue) -> Option<BorrowedFd<'_>> {
    match queue.readiness() {
        Readiness::Descriptor(descriptor) => Some(descriptor),
        Readiness::Hook | Readiness::Polled => None,
    }
}

fn combine(one: DeviceCounters, other: DeviceCounters, with: impl Fn(u64, u64) -> u64) -> DeviceCounters {
    DeviceCounters {
        frames_in: with(one.frames_in, other.frames_in),
        bytes_in: with(one.bytes_in, other.bytes_in),
        frames_out: with(one.frames_out, other.frames_out),
        bytes_out: with(one.bytes_out, other.bytes_out),
        dropped_in: with(one.dropped_in, other.dropped_in),
        dropped_out: with(one.dropped_out, other.dropped_out),
        super_frames_in: with(one.super_frames_in, other.super_frames_in),
        super_frames_out: with(one.super_frames_out, other.super_frames_out),
        passed_on: with(one.passed_on, other.passed_on),
        taken_over: with(one.taken_over, other.taken_over),
        no_chunk: with(one.no_chunk, other.no_chunk),
        receive_ring_full: with(one.receive_ring_full, other.receive_ring_full),
        invalid_descriptors: with(one.invalid_descriptors, other.invalid_descriptors),
        transmit_busy: with(one.transmit_busy, other.transmit_busy),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::device::Capabilities;

    /// A queue that nothing comes by.
    struct Silent(OwnedFd);

    impl Device for Silent {
        fn capabilities(&self) -> Capabilities {
            Capabilities::new(1500)
        }

        fn receive(&mut self, _: Instant, _: &mut Frames) -> usize {
            0
        }

        fn room(&self) -> usize {
            0
        }

        fn transmit(&mut self, _: Instant, _: &mut Frames) -> usize {
            0
        }

        fn readiness(&self) -> Readiness<'_> {
            Readiness::Descriptor(self.0.as_fd())
        }

        fn counters(&self) -> DeviceCounters {
            DeviceCounters::default()
        }
    }

    fn good() -> Queue {
        Box::new(Silent(UnixDatagram::unbound().expect("a descriptor").into()))
    }

    /// Files are not watched, as if the system had no descriptor left.
    fn bad() -> Queue {
        Box::new(Silent(File::open("/").expect("it is there").into()))
    }

    #[test]
    fn a_queue_that_cannot_be_watched_is_looked_at_as_long_as_it_is_here() {
        let mut queues = Queues::default();
        queues.add(good());
        queues.add(good());
        assert!(matches!(queues.readiness(), Readiness::Descriptor(_)));
        queues.add(bad());
        assert!(matches!(queues.readiness(), Readiness::Polled));
        drop(queues.take());
        assert!(matches!(queues.readiness(), Readiness::Descriptor(_)));
    }
}
