//! A bad network around any device: loss, duplication, reordering, corruption, delay, and a slow line with a
//! queue.
//!
//! For tests and for measurements: what happens follows from the seed and from the frames and moments alone, so that
//! a run can be repeated exactly. It impairs frames that the owner sends, and with [`Impair::incoming`] also frames
//! that it receives. A batch that nothing happens to passes as it is, without a copy.
//!
//! # What happens to a frame, in this order
//!
//! 1. It is lost, or not.
//! 2. It comes twice, or not.
//! 3. One bit of each copy is flipped, or none.
//! 4. It waits for the line, which carries [`rate_bits_per_second`](Impairment::rate_bits_per_second); it is
//!    dropped if [`queue_frames`](Impairment::queue_frames) wait already. The room of the device does not show this
//!    queue: a network does not say that it is congested.
//! 5. It is delayed, give or take the jitter, but not beyond the one behind it; unless
//! 6. it is reordered: held back for up to [`reorder_by`](Impairment::reorder_by) more, so that others overtake
//!    it.
//!
//! A super-frame of a device with [segmentation](crate::device::Segmentation) is cut before, unless nothing ever happens: a
//! network loses segments.
//!
//! Frames that are held back leave when the device is used next: see
//! [`next_deadline`](Device::next_deadline).

mod lane;

use std::net::SocketAddr;
use std::task::Waker;
use std::time::Duration;

use anywire_tcp::{Frames, Instant};

use self::lane::Lane;
use crate::device::{Capabilities, Device, DeviceCounters, LinkEvent, Readiness};

/// How bad the network is, in one direction. Probabilities are per frame, from 0 to 1; others are clamped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impairment {
    /// Probability that a frame is lost. Default 0.
    pub loss: f64,
    /// Probability that it comes twice. Default 0.
    pub duplicate: f64,
    /// Probability that it is held back, so that later ones overtake it. Default 0.
    pub reorder: f64,
    /// For how long it is held back at most; at least a microsecond. Default 1 ms.
    pub reorder_by: Duration,
    /// Probability that one of its bits is flipped, in any place. Default 0.
    pub corrupt: f64,
    /// How long each frame takes. Default 0.
    pub delay: Duration,
    /// By how much that varies, evenly in both directions. Default 0.
    pub jitter: Duration,
    /// How much the line carries: frames queue for it. Ethernet's preamble and gaps are not counted. Default
    /// none, which is any amount.
    pub rate_bits_per_second: Option<u64>,
    /// Frames that wait for the line; more are dropped. Default 1000.
    pub queue_frames: usize,
    /// Frames held back in all, in the queue and on the way; more are dropped. Default 65,536: 100 MB of
    /// frames of the usual length.
    pub held_frames: usize,
    /// Of the random numbers. Default 1.
    pub seed: u64,
}

impl Default for Impairment {
    /// A perfect network.
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: Duration::from_millis(1),
            corrupt: 0.0,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bits_per_second: None,
            queue_frames: 1000,
            held_frames: 65_536,
            seed: 1,
        }
    }
}

/// Counters of the frames of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImpairCounters {
    /// Frames that came, whatever became of them. A super-frame counts as the segments that it holds.
    pub frames: u64,
    /// Frames that were lost at random.
    pub lost: u64,
    /// Frames that came twice.
    pub duplicated: u64,
    /// Frames that were held back for others to overtake.
    pub reordered: u64,
    /// Frames that had a bit flipped.
    pub corrupted: u64,
    /// Frames dropped since the queue of the line, or what may be held in all, was full.
    pub overflowed: u64,
}

/// A device behind a bad network.
///
/// ```
/// use anywire_stack::device::Device;
/// use anywire_stack::impair::{Impair, Impairment};
/// use anywire_stack::pair::{Endpoint, Settings};
/// use anywire_tcp::{Frames, Instant};
///
/// let [port, _other] = Endpoint::pair(Settings::default());
/// let mut port = Impair::new(port, Impairment { loss: 0.5, seed: 7, ..Impairment::default() });
/// let mut frames = Frames::new();
/// for _ in 0..64 {
///     assert!(frames.push(&[0; 60]));
/// }
/// port.transmit(Instant::default(), &mut frames);
/// assert!((20..44).contains(&port.outgoing_counters().lost));
/// ```
#[derive(Debug)]
pub struct Impair<D> {
    device: D,
    outgoing: Lane,
    incoming: Option<Lane>,
    /// Frames on their way from the outgoing lane to the device, and those for which that had no room.
    leaving: Frames,
}

impl<D: Device> Impair<D> {
    /// Impairs the frames that `device` sends.
    pub fn new(device: D, outgoing: Impairment) -> Self {
        let (outgoing, leaving) = (Lane::new(outgoing, device.batch()), device.batch());
        Self { device, outgoing, incoming: None, leaving }
    }

    /// Impairs received frames, too.
    #[must_use]
    pub fn incoming(mut self, incoming: Impairment) -> Self {
        self.incoming = Some(Lane::new(incoming, self.device.batch()));
        self
    }

    /// Counters of sent frames.
    pub const fn outgoing_counters(&self) -> ImpairCounters {
        self.outgoing.counters()
    }

    /// Counters of received frames.
    pub fn incoming_counters(&self) -> ImpairCounters {
        self.incoming.as_ref().map_or_else(ImpairCounters::default, Lane::counters)
    }

    /// The device below.
    pub const fn device(&self) -> &D {
        &self.device
    }

    /// Sends the frames whose delay is over, as far as the device has room.
    fn release(&mut self, now: Instant) {
        while self.send_what_waits(now) && self.outgoing.leave(now, &mut self.leaving) > 0 {}
    }

    /// Sends what is on its way to the device. Whether all of it has left.
    fn send_what_waits(&mut self, now: Instant) -> bool {
        if !self.leaving.is_empty() {
            self.device.transmit(now, &mut self.leaving);
        }
        self.leaving.is_empty()
    }
}

impl<D: Device> Device for Impair<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.release(now);
        let Some(lane) = &mut self.incoming else { return self.device.receive(now, frames) };
        loop {
            let due = lane.leave(now, frames);
            if due > 0 {
                return due;
            }
            if self.device.receive(now, frames) == 0 {
                return 0;
            }
            lane.enter(now, frames);
            if !frames.is_empty() {
                return frames.len();
            }
        }
    }

    /// That of the device below: a network does not say how full it is.
    fn room(&self) -> usize {
        if self.leaving.is_empty() { self.device.room() } else { 0 }
    }

    /// The frames that the network swallows count as taken.
    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        if !self.send_what_waits(now) {
            return 0;
        }
        let count = frames.len();
        self.outgoing.enter(now, frames);
        let passed = frames.len();
        let mut dropped = 0;
        if passed > 0 {
            dropped = passed - self.device.transmit(now, frames) - frames.len();
        }
        if !frames.is_empty() {
            // They have passed the network, and must not pass it again.
            std::mem::swap(frames, &mut self.leaving);
        }
        self.release(now);
        count - dropped
    }

    fn batch(&self) -> Frames {
        self.device.batch()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let incoming = self.incoming.as_ref().and_then(Lane::next_deadline);
        [self.device.next_deadline(), self.outgoing.next_deadline(), incoming].into_iter().flatten().min()
    }

    fn is_behind(&self) -> bool {
        self.device.is_behind()
    }

    fn readiness(&self) -> Readiness<'_> {
        self.device.readiness()
    }

    fn before_sleep(&mut self, owner: &Waker) -> bool {
        self.device.before_sleep(owner)
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        self.device.link_event()
    }

    fn reaches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.device.reaches(local, remote)
    }

    /// The counters of the device below. Frames that were lost on the way are counted in
    /// [`Impair::outgoing_counters`].
    fn counters(&self) -> DeviceCounters {
        self.device.counters()
    }
}
