//! Two devices of one thread, joined back to back: frames sent to one arrive at the other as they are, without a copy.
//!
//! It joins two engines of one process, so that a million connections need no kernel and no second machine. Loops that share a
//! network are joined by a [mesh](crate::mesh).
//!
//! Each direction has a bounded queue. [`room`](Device::room) is what is left of it, and frames without room stay with their
//! sender. If the other end was dropped, frames are dropped and counted.

mod queue;

use std::cell::RefCell;
use std::rc::Rc;

use anywire_tcp::{Frames, Instant};

use self::queue::{Queue, Spares};
use crate::device::{Capabilities, Device, DeviceCounters, ETHERNET_BYTES};

/// How a pair is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The longest IP packet, in bytes. Default 1500. Longer frames are dropped and counted.
    pub mtu: usize,
    /// Frames that wait for one end; more stay with their sender. Default 1024: frames between two engines then stay in the
    /// second-level cache, and a burst of sixteen batches has room.
    pub queue_frames: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { mtu: 1500, queue_frames: 1024 }
    }
}

/// One end of a pair.
///
/// ```
/// use anywire_stack::device::Device;
/// use anywire_stack::pair::{Endpoint, Settings};
/// use anywire_tcp::{Frames, Instant};
///
/// let [mut one, mut two] = Endpoint::pair(Settings::default());
/// let mut frames = Frames::new();
/// assert!(frames.push(&[7; 60]));
///
/// let now = Instant::default();
/// assert_eq!(one.transmit(now, &mut frames), 1);
/// assert_eq!(two.receive(now, &mut frames), 1);
/// assert_eq!(frames[0], [7; 60]);
/// ```
#[derive(Debug)]
pub struct Endpoint {
    shared: Rc<RefCell<Shared>>,
    /// Which end it is: 0 or 1. The queue of this number is what it receives from.
    own: usize,
    counters: DeviceCounters,
}

/// What both ends share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    queues: [Queue; 2],
    spares: Spares,
}

impl Endpoint {
    /// Two ends, joined.
    pub fn pair(settings: Settings) -> [Self; 2] {
        let queues = [0; 2].map(|_| Queue::new(settings.queue_frames));
        let shared = Rc::new(RefCell::new(Shared { settings, queues, spares: Spares::new(settings.mtu) }));
        [0, 1].map(|own| Self { shared: Rc::clone(&shared), own, counters: DeviceCounters::default() })
    }

    /// How many frames wait to be received.
    pub fn waiting(&self) -> usize {
        self.shared.borrow().queues[self.own].len()
    }

    fn is_alone(&self) -> bool {
        Rc::strong_count(&self.shared) == 1
    }
}

impl Device for Endpoint {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(self.shared.borrow().settings.mtu)
    }

    #[inline]
    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let Shared { queues, spares, .. } = &mut *self.shared.borrow_mut();
        let (count, bytes) = queues[self.own].pop(frames, spares);
        self.counters.frames_in += count as u64;
        self.counters.bytes_in += bytes;
        count
    }

    #[inline]
    fn room(&self) -> usize {
        let shared = self.shared.borrow();
        if self.is_alone() { shared.settings.queue_frames } else { shared.queues[1 - self.own].room() }
    }

    #[inline]
    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        if self.is_alone() {
            self.counters.sent(frames, 0, 0);
            return 0;
        }
        let Shared { settings, queues, spares } = &mut *self.shared.borrow_mut();
        let frame_bytes_max = settings.mtu + ETHERNET_BYTES;
        if frames.iter().any(|frame| frame.len() > frame_bytes_max) {
            let before = frames.len();
            frames.retain(|frame, _| frame.len() <= frame_bytes_max);
            self.counters.dropped_out += (before - frames.len()) as u64;
        }
        let (taken, bytes) = queues[1 - self.own].append(frames, spares);
        self.counters.frames_out += taken as u64;
        self.counters.bytes_out += bytes;
        taken
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }
}
