//! Devices: what carries the frames of an engine, a batch at a time.
//!
//! One loop owns a [`Device`] and polls it. The device never blocks and reads no clock. It says how many frames it
//! takes, so frames without room wait at the sender and not in a queue. An end of a [pair](crate::pair), an endpoint of a
//! [mesh](crate::mesh) and the wrappers [`Impair`](crate::impair::Impair) and [`Capture`](crate::capture::Capture)
//! are devices. Frames are Ethernet II without the check sequence.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::task::Waker;
use std::time::Duration;

use anywire_tcp::Mac;
pub use anywire_tcp::{Frames, Instant};

/// What carries frames. For a network of your own, implement it:
///
/// ```
/// use std::collections::VecDeque;
/// use anywire_stack::device::{Capabilities, Device, DeviceCounters};
/// use anywire_tcp::{Frames, Instant};
///
/// /// Gives each frame back to its owner.
/// #[derive(Default)]
/// struct Loopback {
///     waiting: VecDeque<Vec<u8>>,
///     counters: DeviceCounters,
/// }
///
/// impl Device for Loopback {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities::new(1500)
///     }
///
///     fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
///         while frames.room() > 0 && let Some(frame) = self.waiting.pop_front() {
///             self.counters.frames_in += u64::from(frames.push(&frame));
///         }
///         frames.len()
///     }
///
///     fn room(&self) -> usize {
///         256_usize.saturating_sub(self.waiting.len())
///     }
///
///     fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
///         let taken = frames.len().min(self.room());
///         self.waiting.extend(frames.iter().take(taken).map(<[u8]>::to_vec));
///         self.counters.frames_out += taken as u64;
///         frames.remove_first(taken);
///         taken
///     }
///
///     fn counters(&self) -> DeviceCounters {
///         self.counters
///     }
/// }
///
/// let (mut device, now) = (Loopback::default(), Instant::default());
/// let mut frames = device.batch();
/// assert!(frames.push(&[7; 60]));
/// assert_eq!(device.transmit(now, &mut frames), 1);
/// assert_eq!((device.receive(now, &mut frames), &frames[0]), (1, &[7; 60][..]));
/// ```
pub trait Device {
    /// What it is able to do, and its MTU. This stays the same for as long as the device is open.
    fn capabilities(&self) -> Capabilities;

    /// Puts the next batch that has arrived into `frames`, which comes in empty, and says how many frames it
    /// holds: 0 if nothing has come.
    ///
    /// Here and in [`transmit`](Self::transmit) the device may exchange the memory of the batch for memory of its own
    /// instead of copying. So each batch that it is given has at least the room of [`batch`](Self::batch), and so has
    /// the memory that it gives back.
    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize;

    /// How many frames [`transmit`](Self::transmit) takes now.
    fn room(&self) -> usize;

    /// Sends the first frames of the batch, as far as there is room, and takes them out of it. Says how many it sent.
    ///
    /// Frames without room stay in the batch, in their order. The owner sends these before it fills the batch again. A device that
    /// cannot carry a frame at all, like one without a link, takes it out, drops it and counts it.
    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize;

    /// Whether so many frames wait to be received that some may soon be dropped: then the owner receives before it does anything else.
    /// Default: never.
    fn is_behind(&self) -> bool {
        false
    }

    /// An empty batch for this device: room for [`Frames::BATCH`] frames of its MTU.
    fn batch(&self) -> Frames {
        batch(self.capabilities().mtu)
    }

    /// When to call [`receive`](Self::receive) again even if no frame is sent. Devices that hold no frames back, and have nothing to look
    /// after, have none.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// How its owner learns that frames have come, or that there is room again. Default: not at all, so a driver looks
    /// once in a millisecond.
    fn readiness(&self) -> Readiness<'_> {
        Readiness::Polled
    }

    /// Called before the owner sleeps. True if frames have come meanwhile, or if there is room where there was none: then the
    /// owner must not sleep. May be true too early.
    ///
    /// A device of [`Readiness::Hook`] keeps the waker, and wakes it when one of the two happens. It may wait until there is room
    /// for several frames, so that they leave together. A device that shares rings with the kernel asks to be woken here. An owner that
    /// always has something to do never calls this, so what must happen in any case happens in [`receive`](Self::receive).
    fn before_sleep(&mut self, owner: &Waker) -> bool {
        let _ = owner;
        false
    }

    /// The next change of the link that its owner has not heard of. Asked after each call of [`receive`](Self::receive).
    fn link_event(&mut self) -> Option<LinkEvent> {
        None
    }

    /// Whether the peer of a connection between these two addresses may still answer. Asked after a [`LinkEvent::Departed`]. True
    /// unless the device knows that it never will.
    fn reaches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let _ = (local, remote);
        true
    }

    /// Counters of the frames so far.
    fn counters(&self) -> DeviceCounters;
}

/// What a device is able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The longest IP packet that it carries, in bytes.
    pub mtu: usize,
    /// The Ethernet address to send from, if the device has one. Otherwise any address does.
    pub mac: Option<Mac>,
    /// How many loops may open it, each with a queue of its own. Default 1.
    pub queues: u16,
    /// Whether frames may arrive whose checksum needs no check: [`Meta`](anywire_tcp::Meta) says so of each. Default false.
    pub receive_checksum: bool,
    /// Whether it completes the checksum of TCP in frames that leave with a [partial](anywire_tcp::Checksum::Partial) one: then
    /// [`Settings::checksum_offload`](anywire_tcp::Settings::checksum_offload) saves the engine that work. Default false.
    pub transmit_checksum: bool,
    /// Whether frames may arrive, and be sent, that hold the payload of several segments, and how long these are. Default none.
    pub segmentation: Option<Segmentation>,
}

impl Capabilities {
    /// Those of a device that does nothing for its owner but carry frames.
    pub const fn new(mtu: usize) -> Self {
        Self {
            mtu,
            mac: None,
            queues: 1,
            receive_checksum: false,
            transmit_checksum: false,
            segmentation: None,
        }
    }
}

/// Frames that hold the payload of several segments of TCP behind one header, cut by the device or by the kernel's end of it (TSO,
/// GRO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segmentation {
    /// Bytes of the longest one, its Ethernet header included.
    pub frame_bytes: usize,
    /// Over IPv4.
    pub ipv4: bool,
    /// Over IPv6.
    pub ipv6: bool,
}

/// How the owner of a device learns that frames have come, or that there is room again.
#[derive(Debug, Clone, Copy)]
pub enum Readiness<'d> {
    /// The descriptor is readable when frames have come, and writable when there is room. Its owner knows it by its number: a device
    /// that may have another one later keeps this one open.
    Descriptor(BorrowedFd<'d>),
    /// The device wakes the waker that [`Device::before_sleep`] was given.
    Hook,
    /// Not at all: the owner has to look.
    Polled,
}

/// What has become of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkEvent {
    /// It carries frames again.
    Up,
    /// It carries no frames for now. Frames to it are dropped and counted, and TCP sends them again.
    Down,
    /// It will never carry frames again: somebody has removed the device, or [detached](crate::xdp::Attachment::was_detached) the XDP
    /// program of an interface.
    Gone,
    /// The interface has another Ethernet address than when the device was opened: frames for the former one do not arrive any more.
    MacChanged {
        /// The address that it had.
        from: Mac,
        /// The one that it has now.
        to: Mac,
    },
    /// The interface carries shorter packets than before, from now on: what is longer may be dropped. The
    /// [capabilities](Device::capabilities) say so, too. An MTU that is raised again is not told.
    MtuLowered {
        /// Bytes of the longest IP packet.
        mtu: usize,
    },
    /// The kernel has been given this address, on whichever of its interfaces. It answers for it, and its resets end the connections of
    /// an engine that has the address too.
    KernelHasAddress(IpAddr),
    /// Peers that the device reached have gone for good: ask [`Device::reaches`]. Only an in-process network knows.
    Departed,
}

/// Counters of a device, seen by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    /// Frames that the owner has received.
    pub frames_in: u64,
    /// Their bytes, Ethernet headers and padding included, as everywhere here.
    pub bytes_in: u64,
    /// Frames that the owner has sent, and that were taken.
    pub frames_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Frames that arrived for the owner when it had fallen too far behind.
    pub dropped_in: u64,
    /// Frames of the owner's that found no room, or no link.
    pub dropped_out: u64,
    /// Of the received frames, those that held several segments ([`Meta::segment_bytes`](anywire_tcp::Meta::segment_bytes)).
    pub super_frames_in: u64,
    /// Super-frames that the sent frames left as.
    pub super_frames_out: u64,
    /// Frames that came by this loop's queue and belong to another loop, of those that [share](crate::shards) the device. They are not
    /// among those that the owner has received.
    pub passed_on: u64,
    /// Of the received frames, those that came by the queue of another loop, which may have kept a copy (ARP, neighbour discovery).
    pub taken_over: u64,
    /// AF_XDP: times that the kernel had a frame for the owner and found no chunk to put it into. Each is in `dropped_in`.
    pub no_chunk: u64,
    /// AF_XDP: frames that found no room in the receive ring. They are in `dropped_in`.
    pub receive_ring_full: u64,
    /// AF_XDP: descriptors of the owner's that the kernel refused. Each is a fault of this program.
    pub invalid_descriptors: u64,
    /// AF_XDP: times that the interface took no more frames for now, or dropped one.
    pub transmit_busy: u64,
}

impl DeviceCounters {
    /// Copies a frame that has arrived to the owner's, and counts it. False if there was no room, and it is dropped.
    #[inline]
    pub(crate) fn take_in(&mut self, frame: &[u8], frames: &mut Frames) -> bool {
        let has_room = frames.push(frame);
        if has_room {
            self.frames_in += 1;
            self.bytes_in += frame.len() as u64;
        } else {
            self.dropped_in += 1;
        }
        has_room
    }

    /// Counts a frame of the owner's as sent.
    #[inline]
    pub(crate) const fn sent_one(&mut self, frame: &[u8]) {
        self.frames_out += 1;
        self.bytes_out += frame.len() as u64;
    }

    /// Counts `taken` of the owner's frames as sent and the others as dropped, and empties the batch.
    #[inline]
    pub(crate) fn sent(&mut self, frames: &mut Frames, taken: usize, bytes: usize) {
        self.frames_out += taken as u64;
        self.bytes_out += bytes as u64;
        self.dropped_out += (frames.len() - taken) as u64;
        frames.clear();
    }
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        (**self).receive(now, frames)
    }

    fn room(&self) -> usize {
        (**self).room()
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        (**self).transmit(now, frames)
    }

    fn is_behind(&self) -> bool {
        (**self).is_behind()
    }

    fn batch(&self) -> Frames {
        (**self).batch()
    }

    fn next_deadline(&self) -> Option<Instant> {
        (**self).next_deadline()
    }

    fn readiness(&self) -> Readiness<'_> {
        (**self).readiness()
    }

    fn before_sleep(&mut self, owner: &Waker) -> bool {
        (**self).before_sleep(owner)
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        (**self).link_event()
    }

    fn reaches(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        (**self).reaches(local, remote)
    }

    fn counters(&self) -> DeviceCounters {
        (**self).counters()
    }
}

/// An empty batch of frames with packets of up to `mtu` bytes.
pub(crate) fn batch(mtu: usize) -> Frames {
    Frames::with_room(Frames::BATCH, ETHERNET_BYTES + mtu)
}

/// What a device looks after once a second, in [`Device::receive`]: an owner may never sleep, or never wake up.
#[derive(Debug, Default)]
pub(crate) struct Housekeeping {
    due: Instant,
}

impl Housekeeping {
    /// Whether it is time for it. If so, the next one is a second later.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let next = now + HOUSEKEEPING_EVERY;
        // A queue may go to a loop whose clock started later.
        let is_due = self.due <= now || self.due > next;
        if is_due {
            self.due = next;
        }
        is_due
    }

    /// When it is time.
    pub(crate) const fn due(&self) -> Instant {
        self.due
    }
}

/// The period of housekeeping: it costs a few system calls a second, and news that only it finds is at most this old.
const HOUSEKEEPING_EVERY: Duration = Duration::from_secs(1);

/// Bytes in front of the IP packet: two addresses and a type.
pub(crate) const ETHERNET_BYTES: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn housekeeping_is_due_once_a_second_by_any_clock() {
        let mut housekeeping = Housekeeping::default();
        let at = |seconds: f64| Instant::from_micros((seconds * 1e6) as u64);
        let begun = [1.0, 1.5, 1.9, 2.0, 2.5, 9.0, 9.9].map(|seconds| housekeeping.begin(at(seconds)));
        assert_eq!(begun, [true, false, false, true, false, true, false]);
        assert_eq!(housekeeping.due(), at(10.0));
        assert!(housekeeping.begin(at(3.0)), "the clock of another loop");
        assert!(!housekeeping.begin(at(3.5)) && housekeeping.due() == at(4.0));
    }
}
