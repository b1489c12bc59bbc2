//! The device: the AF_XDP sockets of one loop.

use std::ops::{ControlFlow, Range};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use anywire_sys::network_interface::{InterfaceChange, InterfaceWatch};
use anywire_sys::xsk::{CopyMode, Counters, FRAME_BYTES_MAX, Settings, Sockets, Statistics};
use anywire_tcp::{Checksum, Frames, Instant, Mac, Meta};

use super::attachment::{Attachment, patiently};
use super::error::OpenError;
use crate::device::{self, Capabilities, Device, DeviceCounters, ETHERNET_BYTES, LinkEvent, Readiness};
use crate::offload::{self, Layout};

/// How [`Xdp::open`] opens its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Frames that may wait in each direction, for each queue: a power of two, at most 32,768. Default 1,024. The UMEM has twice as
    /// many chunks, of 2 KiB, or of 4 KiB if the MTU is above 1,778.
    pub depth: u32,
    /// Whether the kernel copies frames. Default: only if the driver has no zero-copy.
    pub copy: CopyMode,
}

impl Default for Options {
    fn default() -> Self {
        let Settings { depth, mode, .. } = Settings::default();
        Self { depth, copy: mode }
    }
}

/// `xdp:NAME`: some queues of a network interface, for one loop.
///
/// ```no_run
/// use anywire_stack::device::Device;
/// use anywire_stack::xdp::{Attachment, Options, Wanted, WantedMode, Xdp};
///
/// let attachment = Attachment::attach("eth0", WantedMode::Any)?;
/// let device = Xdp::open(&attachment, attachment.share(0, 1)?, Options::default())?;
/// let claim = attachment.claim(Wanted::Address("10.0.0.2".parse()?))?;
/// println!("{} mode, zero-copy: {}", attachment.mode(), device.is_zero_copy());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Xdp {
    sockets: Sockets,
    attachment: Arc<Attachment>,
    watch: InterfaceWatch,
    capabilities: Capabilities,
    /// Bytes of the longest frame that may arrive.
    frame_bytes_max: usize,
    counters: DeviceCounters,
    partial_checksums: u64,
    link: Link,
    /// What the owner was told.
    told: Link,
    /// The time of the last look at the device, and when to ask next whether the program is still attached.
    now: Instant,
    ask_at: Instant,
    /// A frame whose checksum is finished here.
    scratch: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Up,
    Down,
    Gone,
}

impl Xdp {
    /// Opens a socket for each of these queues, and has the program send packets to them. Frames leave by the first queue.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: a queue is not there or is taken, the MTU is too large, the UMEM is more than may be locked, or zero-copy was
    /// demanded and is not to be had.
    pub fn open(
        attachment: &Arc<Attachment>,
        queues: Range<u32>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let interface = attachment.interface();
        let (name, index) = (&interface.name, interface.index);
        let settings = Self::settings(name, interface.mtu, options)?;
        let queues: Vec<_> = queues.collect();
        let sockets = patiently(
            || {
                Sockets::open(index, &queues, settings)
                    .map_err(|error| OpenError::of_sockets(name, interface.receive_queues, error))
            },
            |error| matches!(error, OpenError::QueueTaken { .. }),
        )?;
        let watching = || {
            let watch = InterfaceWatch::new(index)?;
            sockets.watch(&watch)?;
            Ok(watch)
        };
        let watch = watching().map_err(OpenError::system("watching a network interface"))?;
        for (queue, socket) in sockets.each_socket() {
            attachment
                .maps
                .sockets
                .insert(queue, socket)
                .map_err(OpenError::system("telling an XDP program of an AF_XDP socket"))?;
        }
        let may_be_partial = attachment.may_be_partial();
        let mut capabilities = Capabilities::new(interface.mtu as usize);
        capabilities.mac = interface.mac.map(Mac::new);
        capabilities.queues = u16::try_from(interface.receive_queues).unwrap_or(u16::MAX);
        capabilities.receive_checksum = may_be_partial;
        let frame_bytes_max =
            if attachment.may_be_joined() { FRAME_BYTES_MAX } else { ETHERNET_BYTES + capabilities.mtu };
        let link = if interface.is_running { Link::Up } else { Link::Down };
        Ok(Self {
            sockets,
            attachment: Arc::clone(attachment),
            watch,
            capabilities,
            frame_bytes_max,
            counters: DeviceCounters::default(),
            partial_checksums: 0,
            link,
            told: Link::Up,
            now: Instant::default(),
            ask_at: Instant::default(),
            scratch: Vec::new(),
        })
    }

    /// Whether the driver reads and writes the UMEM itself, without a copy by the kernel.
    pub fn is_zero_copy(&self) -> bool {
        self.sockets.is_zero_copy()
    }

    /// The attachment that it was opened on.
    pub fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    /// Frames that arrived with a partial checksum.
    pub fn partial_checksums(&self) -> u64 {
        self.partial_checksums
    }

    /// What the sockets have counted, beside [`Device::counters`].
    pub fn socket_counters(&self) -> Counters {
        self.sockets.counters()
    }

    /// What the kernel has counted: frames for which there was no chunk, or no room in a ring. One system call for each queue.
    ///
    /// # Errors
    ///
    /// What the system said. No cause is known.
    pub fn statistics(&self) -> std::io::Result<Statistics> {
        self.sockets.statistics()
    }

    /// The smallest chunks that hold a frame of the interface.
    fn settings(name: &str, mtu: u32, options: Options) -> Result<Settings, OpenError> {
        let Options { depth, copy: mode } = options;
        let of = |chunk_bytes| Settings { depth, chunk_bytes, mode };
        let fits = |settings: &Settings| mtu + ETHERNET_BYTES as u32 <= settings.frame_bytes();
        [2048, 4096].map(of).into_iter().find(fits).ok_or_else(|| OpenError::MtuTooLarge {
            name: name.to_owned(),
            mtu,
            mtu_max: of(4096).frame_bytes() - ETHERNET_BYTES as u32,
        })
    }

    /// Hears of the interface, and asks once a second whether the program is still attached.
    fn look_at_link(&mut self) {
        match self.watch.change() {
            Ok(Some(InterfaceChange::Up)) => self.link = Link::Up,
            Ok(Some(InterfaceChange::Down)) => self.link = Link::Down,
            Ok(Some(InterfaceChange::Gone)) => self.link = Link::Gone,
            Ok(None) => {}
            // The kernel had more to tell than it may keep. The next frame that is sent tells the state.
            Err(_) => self.link = if self.link == Link::Gone { Link::Gone } else { Link::Up },
        }
        if self.now >= self.ask_at {
            self.ask_at = self.now + ASK_EVERY;
            if !self.attachment.is_attached() {
                self.link = Link::Gone;
            }
        }
    }

    /// Sends what is in the ring; whether there is nothing more to be done now.
    fn flush(&mut self) {
        if let Err(fault) = self.sockets.flush() {
            self.note_fault(&fault);
        }
    }

    fn note_fault(&mut self, fault: &std::io::Error) {
        if fault.kind() == std::io::ErrorKind::NetworkDown {
            self.link = Link::Down;
        }
        self.look_at_link();
    }

    /// Copies a frame to the ring. False if there is no room.
    fn send(&mut self, frame: &[u8], meta: Meta) -> bool {
        if meta == Meta::default() || meta.checksum != Checksum::Partial {
            return match frame.len() {
                length @ ..FRAME_BYTES_LEAST => {
                    let mut padded = [0; FRAME_BYTES_LEAST];
                    padded[..length].copy_from_slice(frame);
                    self.sockets.transmit(&padded)
                }
                _ => self.sockets.transmit(frame),
            };
        }
        let Self { sockets, scratch, .. } = self;
        let mut is_sent = true;
        offload::segments(frame, meta, scratch, |segment, _| {
            let mut whole = segment.to_vec();
            offload::finish(&mut whole);
            is_sent &= sockets.transmit(&whole);
        });
        is_sent
    }
}

impl Device for Xdp {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.now = now;
        if !frames.has_room_for(self.frame_bytes_max) {
            return frames.len();
        }
        let Self { sockets, counters, capabilities, partial_checksums, frame_bytes_max, .. } = self;
        sockets.receive(|frame| {
            counters.take_in(frame, frames);
            if capabilities.receive_checksum && Layout::of(frame).is_some_and(|at| at.is_partial(frame)) {
                frames.describe_last(Meta { checksum: Checksum::Partial, segment_bytes: 0 });
                *partial_checksums += 1;
            }
            if frames.has_room_for(*frame_bytes_max) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        frames.len()
    }

    fn room(&self) -> usize {
        self.sockets.room()
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        let mut taken = 0;
        for index in 0..frames.len() {
            let frame = &frames[index];
            if self.sockets.room() == 0 {
                break;
            }
            if self.send(frame, frames.meta(index)) {
                self.counters.frames_out += 1;
                self.counters.bytes_out += frame.len() as u64;
            } else {
                // There was room, so it is longer than a chunk.
                self.counters.dropped_out += 1;
            }
            taken += 1;
        }
        frames.remove_first(taken);
        self.flush();
        taken
    }

    fn batch(&self) -> Frames {
        if self.attachment.may_be_joined() {
            return Frames::with_bytes(Frames::BATCH, JOINED_BATCH_BYTES);
        }
        device::batch(self.capabilities.mtu)
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Descriptor(self.sockets.as_fd())
    }

    fn before_sleep(&mut self, _: &Waker) -> bool {
        let wakes = self.sockets.before_sleep();
        self.look_at_link();
        match wakes {
            // What cannot leave an interface that is down waits for the interface.
            Ok(has_more) => has_more && self.link == Link::Up || self.link != self.told,
            Err(fault) => {
                self.note_fault(&fault);
                self.link != self.told
            }
        }
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        if self.told == self.link {
            return None;
        }
        self.told = self.link;
        Some(match self.link {
            Link::Up => {
                self.flush();
                LinkEvent::Up
            }
            Link::Down => LinkEvent::Down,
            Link::Gone => LinkEvent::Gone,
        })
    }

    fn counters(&self) -> DeviceCounters {
        self.counters
    }
}

/// Bytes of a batch if frames may be long: four of them, or 64 frames of the usual length.
const JOINED_BATCH_BYTES: usize = 5 * (64 << 10);

/// Bytes of the shortest frame on an Ethernet, without its check sequence (IEEE 802.3 3.2.8). The kernel pads what it sends itself; what
/// AF_XDP sends goes to the driver as it is, and not every card pads it.
const FRAME_BYTES_LEAST: usize = 60;

/// How often the kernel is asked whether the program is attached: one system call.
const ASK_EVERY: Duration = Duration::from_secs(1);
