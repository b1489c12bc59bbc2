//! Loops that share a device whose queues are the test's own.

mod link_news;
mod moved_queues;
mod room_and_turns;
mod tables_that_change;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use anywire_packet::ethernet::Link;
use anywire_packet::{Addresses, Checks, Flags, Mac, OptionsOut, Outgoing, emit};
use anywire_tcp::{Frames, Instant};

use super::{Shard, Shards};
use crate::device::{Capabilities, Device, DeviceCounters, LinkEvent};

/// A queue as the network behind it sees it. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct FakeQueue(Arc<Mutex<Behind>>);

/// Something that happens meanwhile, and may bring frames.
type Happening = Box<dyn FnMut(&mut VecDeque<Vec<u8>>) + Send>;

/// What is behind a queue.
#[derive(Default)]
pub(super) struct Behind {
    pub(super) arriving: VecDeque<Vec<u8>>,
    pub(super) sent: Vec<Vec<u8>>,
    /// It takes none of the frames that are to leave.
    pub(super) is_full: bool,
    pub(super) news: VecDeque<LinkEvent>,
    /// Happens each time that frames are asked for, before they come.
    pub(super) on_receive: Option<Happening>,
    counters: DeviceCounters,
}

impl FakeQueue {
    pub(super) fn behind(&self) -> MutexGuard<'_, Behind> {
        self.0.lock().expect("no panic")
    }

    pub(super) fn device(&self) -> Box<dyn Device + Send> {
        Box::new(self.clone())
    }
}

impl Device for FakeQueue {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let mut behind = self.behind();
        let Behind { on_receive, arriving, .. } = &mut *behind;
        if let Some(happen) = on_receive {
            happen(arriving);
        }
        while frames.room() > 0
            && let Some(frame) = behind.arriving.pop_front()
        {
            assert!(frames.push(&frame), "there is room");
            behind.counters.frames_in += 1;
        }
        frames.len()
    }

    fn room(&self) -> usize {
        if self.behind().is_full { 0 } else { Frames::BATCH }
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let mut behind = self.behind();
        if behind.is_full {
            return 0;
        }
        let count = frames.len();
        behind.counters.frames_out += count as u64;
        behind.sent.extend(frames.iter().map(<[u8]>::to_vec));
        frames.clear();
        count
    }

    fn readiness(&self) -> crate::device::Readiness<'_> {
        crate::device::Readiness::Hook
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        self.behind().news.pop_front()
    }

    fn counters(&self) -> DeviceCounters {
        self.behind().counters
    }
}

/// A device that nobody uses.
pub(super) fn device() -> Arc<Shards> {
    Shards::new(Capabilities::new(1500), None, [77; 2])
}

/// Another loop, with these queues.
pub(super) fn join<'q>(shards: &Arc<Shards>, queues: impl IntoIterator<Item = &'q FakeQueue>) -> Shard {
    shards.join(queues.into_iter().map(FakeQueue::device)).expect("there is room")
}

/// What a loop receives at this time.
pub(super) fn hears(shard: &mut Shard, millis: u64) -> Vec<Vec<u8>> {
    let mut frames = shard.batch();
    shard.receive(at(millis), &mut frames);
    frames.iter().map(<[u8]>::to_vec).collect()
}

/// A loop sends so many frames; how many were taken.
pub(super) fn sends(shard: &mut Shard, millis: u64, count: usize) -> usize {
    let mut frames = shard.batch();
    (0..count).for_each(|_| assert!(frames.push(&nobodys(0xff)), "a batch has room"));
    shard.transmit(at(millis), &mut frames)
}

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1000)
}

/// A frame of no protocol that is known, which any loop may have.
pub(super) fn nobodys(mark: u8) -> Vec<u8> {
    let mut frame = vec![mark; 60];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// A segment to 10.0.0.2.
pub(super) fn segment(local_port: u16, remote_port: u16, flags: Flags) -> Vec<u8> {
    let addresses = Addresses::V4 { local: 0x0a00_0009, remote: 0x0a00_0002 };
    let segment = Outgoing { local_port: remote_port, remote_port: local_port, flags, ..Outgoing::default() };
    let link = Link::new(Mac::new([2, 0, 0, 0, 0, 1]), Mac::new([2, 0, 0, 0, 0, 2]));
    let mut frame = vec![0; 200];
    let length = emit(&mut frame, &link, &addresses, &segment, &OptionsOut::NONE, &[], Checks::ALL);
    frame.truncate(length);
    frame
}

/// Where [`segment`]s of a service go.
pub(super) fn service(port: u16) -> SocketAddr {
    ([10, 0, 0, 2], port).into()
}

/// Counts how often a loop is woken.
#[derive(Default)]
pub(super) struct WakeUps(AtomicUsize);

impl WakeUps {
    pub(super) fn counted() -> (Arc<Self>, Waker) {
        let counted = Arc::<Self>::default();
        (Arc::clone(&counted), counted.into())
    }

    pub(super) fn so_far(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for WakeUps {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
