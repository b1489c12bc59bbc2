//! A cable between two cores: a pair of devices over two rings, one for each direction.
//!
//! The two ends may be in two threads: an engine's device on one core is then the other end of an engine's
//! device on another. Or each joins a switch by a [`Bridge`], so that the ports of both switches reach each
//! other. Frames are copied into the ring and out of it, a batch at a time; both ends are polled.

use anywire_sys::ring::{self, Reader, Writer};
use anywire_tcp::{Frames, Instant, Mac};

use crate::device::{Device, DeviceCounters, ETHERNET_BYTES};

/// How long packets may be, and how much is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest IP packet, in bytes. Default 1500. Longer frames are dropped and counted.
    pub mtu: usize,
    /// Memory of each direction, in bytes, rounded up to a power of two and to room for three batches of the
    /// longest frames. Default 1 MiB: about 680 of the longest frames, half of a second-level cache.
    pub ring_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { mtu: 1500, ring_bytes: 1 << 20 }
    }
}

/// The two ends of a cable, with the addresses of their owners.
///
/// # Panics
///
/// If a ring takes more than 1 GiB.
///
/// ```
/// use anywire_stack::device::Device;
/// use anywire_stack::link;
/// use anywire_tcp::{Frames, Instant, Mac};
///
/// let macs = [Mac::new([2, 0, 0, 0, 1, 1]), Mac::new([2, 0, 0, 0, 1, 2])];
/// let (mut near, mut far) = link::pair(macs, link::Limits::default());
/// let other_core = std::thread::spawn(move || {
///     let mut frames = Frames::new();
///     while far.receive(Instant::default(), &mut frames) == 0 {
///         std::hint::spin_loop();
///     }
///     frames[0].len()
/// });
///
/// let mut frames = Frames::new();
/// assert!(frames.push(&[0; 60]));
/// assert_eq!(near.transmit(Instant::default(), &mut frames), 1);
/// assert_eq!(other_core.join().unwrap(), 60);
/// ```
pub fn pair(macs: [Mac; 2], limits: Limits) -> (Link, Link) {
    let frame_bytes_max = limits.mtu + ETHERNET_BYTES;
    let ring_bytes = limits.ring_bytes.max(3 * Frames::BATCH * (frame_bytes_max + 8));
    let (one_writer, other_reader) = ring::pair(ring_bytes);
    let (other_writer, one_reader) = ring::pair(ring_bytes);
    let end = |mac, writer, reader| Link {
        writer,
        reader,
        mac,
        frame_bytes_max,
        counters: DeviceCounters::default(),
    };
    let [one, other] = macs;
    (end(one, one_writer, one_reader), end(other, other_writer, other_reader))
}

/// One end of a cable. What is sent after the other end was dropped is dropped and counted.
#[derive(Debug)]
pub struct Link {
    writer: Writer,
    reader: Reader,
    mac: Mac,
    frame_bytes_max: usize,
    counters: DeviceCounters,
}

impl Link {
    /// Whether the other end has been dropped: what it sent before may still be received.
    pub fn is_closed(&self) -> bool {
        self.reader.is_closed()
    }
}

impl Device for Link {
    fn receive(&mut self, _now: Instant, frames: &mut Frames) -> usize {
        let Self { reader, counters, .. } = self;
        reader.read(frames.room(), |frame| counters.take_in(frame, frames));
        frames.len()
    }

    fn room(&self) -> usize {
        // Whoever waits for somebody who has gone would wait forever.
        if self.writer.is_closed() { Frames::BATCH } else { self.writer.room(self.frame_bytes_max) }
    }

    fn transmit(&mut self, _now: Instant, frames: &mut Frames) -> usize {
        let (mut taken, mut bytes) = (0, 0);
        let is_open = !self.writer.is_closed();
        for frame in frames.iter() {
            if is_open && frame.len() <= self.frame_bytes_max && self.writer.push(frame) {
                taken += 1;
                bytes += frame.len();
            }
        }
        self.writer.publish();
        self.counters.sent(frames, taken, bytes);
        taken
    }

    fn mtu(&self) -> usize {
        self.frame_bytes_max - ETHERNET_BYTES
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }
}

/// Joins two devices of one core: what comes in by one goes out by the other. With a port of a switch and an
/// end of a cable, it is the switch's way to another core.
///
/// It takes a batch from one only when the other has room for a whole one, so that it drops nothing itself.
///
/// ```
/// use anywire_stack::link::{self, Bridge};
/// use anywire_stack::switch::{Settings, Switch};
/// use anywire_tcp::{Instant, Mac};
///
/// let macs = [Mac::new([2, 0, 0, 0, 9, 1]), Mac::new([2, 0, 0, 0, 9, 2])];
/// let (near, far) = link::pair(macs, link::Limits::default());
/// let core = |end, mac| {
///     let switch = Switch::new(Settings::default());
///     let mut uplink = Bridge::new(switch.port(mac)?, end);
///     // In each turn of the core's loop:
///     uplink.forward(Instant::default());
///     Ok::<_, anywire_stack::switch::SwitchError>(())
/// };
/// core(near, macs[0])?;
/// let other_core = std::thread::spawn(move || core(far, macs[1]));
/// other_core.join().unwrap()?;
/// # Ok::<(), anywire_stack::switch::SwitchError>(())
/// ```
#[derive(Debug)]
pub struct Bridge<A, B> {
    one: A,
    other: B,
    frames: Frames,
}

impl<A: Device, B: Device> Bridge<A, B> {
    /// Joins the two.
    pub fn new(one: A, other: B) -> Self {
        let frame_bytes = one.mtu().max(other.mtu()) + ETHERNET_BYTES;
        let frames = Frames::with_room(Frames::BATCH, frame_bytes.max(Frames::FRAME_BYTES));
        Self { one, other, frames }
    }

    /// Moves what has come, at most sixteen batches each way: other things on this core want their turn.
    /// Gives the number of frames moved.
    pub fn forward(&mut self, now: Instant) -> usize {
        let Self { one, other, frames } = self;
        move_frames(one, other, now, frames) + move_frames(other, one, now, frames)
    }

    /// When one of the two has something to do by itself.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadlines = [self.one.next_deadline(), self.other.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// The two devices, for their counters.
    pub const fn devices(&self) -> (&A, &B) {
        (&self.one, &self.other)
    }
}

fn move_frames(from: &mut impl Device, to: &mut impl Device, now: Instant, frames: &mut Frames) -> usize {
    let mut moved = 0;
    for _ in 0..BATCHES_A_TURN {
        if to.room() < Frames::BATCH || from.receive(now, frames) == 0 {
            break;
        }
        moved += to.transmit(now, frames);
    }
    moved
}

const BATCHES_A_TURN: usize = 16;
