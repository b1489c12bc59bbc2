//! Devices: what carries the frames of an engine, a batch at a time.
//!
//! One loop owns a [`Device`] and polls it. The device never blocks and reads no clock. It says how many frames it
//! takes, so frames without room wait at the sender and not in a queue. A port of the [switch](crate::switch) or of a
//! [mesh](crate::mesh) and the wrappers [`Impair`](crate::impair::Impair) and [`Capture`](crate::capture::Capture)
//! are devices. Frames are Ethernet II without the check sequence.

use anywire_tcp::{Frames, Instant};

/// What carries frames. For a network of your own, implement it:
///
/// ```
/// use std::collections::VecDeque;
/// use anywire_stack::device::{Device, DeviceCounters};
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
///         frames.clear();
///         taken
///     }
///
///     fn mtu(&self) -> usize {
///         1500
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
    /// Puts the next batch that has arrived into `frames`, which comes in empty, and says how many frames it
    /// holds: 0 if nothing has come.
    ///
    /// Here and in [`transmit`](Self::transmit) the device may exchange the memory of the batch for memory of its own
    /// instead of copying. So each batch that it is given has at least the room of [`batch`](Self::batch), and so has
    /// the memory that it gives back.
    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize;

    /// How many frames [`transmit`](Self::transmit) takes now.
    fn room(&self) -> usize;

    /// Sends what there is room for and leaves `frames` empty. Says how many frames it took; the others are
    /// dropped and counted.
    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize;

    /// The longest IP packet that it carries, in bytes.
    fn mtu(&self) -> usize;

    /// An empty batch for this device: room for [`Frames::BATCH`] frames of its MTU.
    fn batch(&self) -> Frames {
        batch(self.mtu())
    }

    /// When to call [`receive`](Self::receive) again even if no frame is sent. Devices that hold no frames back have
    /// none.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Counters of the frames so far.
    fn counters(&self) -> DeviceCounters;
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
    /// Frames of the owner's that found no room.
    pub dropped_out: u64,
}

impl DeviceCounters {
    /// Copies a frame that has arrived to the owner's, and counts it.
    #[inline]
    pub(crate) fn take_in(&mut self, frame: &[u8], frames: &mut Frames) {
        if frames.push(frame) {
            self.frames_in += 1;
            self.bytes_in += frame.len() as u64;
        } else {
            self.dropped_in += 1;
        }
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
    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        (**self).receive(now, frames)
    }

    fn room(&self) -> usize {
        (**self).room()
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        (**self).transmit(now, frames)
    }

    fn mtu(&self) -> usize {
        (**self).mtu()
    }

    fn next_deadline(&self) -> Option<Instant> {
        (**self).next_deadline()
    }

    fn counters(&self) -> DeviceCounters {
        (**self).counters()
    }
}

/// An empty batch of frames with packets of up to `mtu` bytes.
pub(crate) fn batch(mtu: usize) -> Frames {
    Frames::with_room(Frames::BATCH, ETHERNET_BYTES + mtu)
}

/// Bytes in front of the IP packet: two addresses and a type.
pub(crate) const ETHERNET_BYTES: usize = 14;
