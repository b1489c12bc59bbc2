//! The device: the AF_XDP sockets of one loop.

use std::ops::{ControlFlow, Range};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::Waker;

use anywire_packet::layout::Layout;
use anywire_sys::network_interface::{InterfaceChange, InterfaceWatch, NeighbourMessages, NetworkInterface};
use anywire_sys::xsk::{Class, CopyMode, Counters, FRAME_BYTES_MAX, Settings, Sockets, Statistics};
use anywire_tcp::{Checksum, Frames, Instant, Mac, Meta};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::attachment::{Attachment, patiently};
use super::error::OpenError;
use crate::device::{
    self, Capabilities, Device, DeviceCounters, ETHERNET_BYTES, Housekeeping, LinkEvent, Readiness,
};
use crate::link_state::{Link, LinkState};

/// How [`Xdp::open`] opens its sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Frames that may wait to be sent, and for each queue to be received: so many segments of connections, and so many of all else. A
    /// power of two, at most 32,768. Default: as many as 32 MiB for all queues of the interface have room for, at most 8,192 and at least
    /// 1,024; or fewer if the system lets less memory be locked. For one queue that is 4,096 with chunks of 2 KiB. They have 4 KiB if the
    /// MTU is above 1,778.
    ///
    /// The peers of 10,000 connections may all send at once, and while a loop serves some of them nobody takes from the rings. What finds
    /// no place is sent again after a timeout of 200 ms, by all of them at once.
    pub depth: Option<u32>,
    /// Whether the kernel copies frames. Default: only if the driver has no zero-copy.
    pub copy: CopyMode,
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
    /// What the program has left to the kernel of neighbours that tell their address: all have to hear of one that has moved.
    neighbours: Option<NeighbourMessages>,
    /// Whether there may be some.
    neighbours_wait: bool,
    capabilities: Capabilities,
    /// Bytes of the longest frame that may arrive, also once the MTU is lower.
    frame_bytes_max: usize,
    /// Entries of each ring.
    depth: usize,
    counters: DeviceCounters,
    partial_checksums: u64,
    link: LinkState,
    /// Whether anything has become of the interface, and whether the program is still attached.
    housekeeping: Housekeeping,
}

impl Xdp {
    /// Opens a socket for each of these queues, and has the program send packets to them. Frames leave by the first queue. The device with
    /// queue 0 receives a copy of ARP and neighbour advertisements that go to the kernel, too.
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
        let queues: Vec<_> = queues.collect();
        let mut settings = Self::settings(interface, options)?;
        let sockets = loop {
            let opened = patiently(
                || {
                    Sockets::open(index, &queues, settings)
                        .map_err(|error| OpenError::of_sockets(name, interface.receive_queues, error))
                },
                |error| matches!(error, OpenError::QueueTaken { .. }),
            );
            match opened {
                Err(OpenError::MemoryLocked) if options.depth.is_none() && settings.depth > DEPTH_LEAST => {
                    settings.depth /= 2;
                }
                opened => break opened?,
            }
        };
        let watching = || {
            let watch = InterfaceWatch::new(interface)?;
            sockets.watch(&watch)?;
            Ok(watch)
        };
        let watch = watching().map_err(OpenError::system("watching a network interface"))?;
        let hearing = || {
            let neighbours = NeighbourMessages::new(interface)?;
            sockets.watch(&neighbours)?;
            Ok(neighbours)
        };
        // One of the loops is enough: it tells the others.
        let neighbours = match queues.first() {
            Some(0) => Some(hearing().map_err(OpenError::system("hearing what neighbours tell the kernel"))?),
            _ => None,
        };
        for (queue, class, socket) in sockets.each_socket() {
            attachment
                .maps
                .set_socket(queue, class, socket)
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
            neighbours,
            neighbours_wait: false,
            capabilities,
            frame_bytes_max,
            depth: settings.depth as usize,
            counters: DeviceCounters::default(),
            partial_checksums: 0,
            link: LinkState::new(link),
            housekeeping: Housekeeping::default(),
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

    /// The smallest chunks that hold a frame of the interface, and as many as there is memory for.
    fn settings(interface: &NetworkInterface, options: Options) -> Result<Settings, OpenError> {
        let (Options { depth, copy: mode }, mtu) = (options, interface.mtu);
        let of = |chunk_bytes| {
            let depth = depth.unwrap_or_else(|| {
                // Two receive rings for each queue, and one to send.
                let chunks =
                    UMEM_BYTES / chunk_bytes as usize / (3 * interface.receive_queues as usize).max(1);
                let chunks = chunks.clamp(DEPTH_LEAST as usize, DEPTH_MOST as usize) as u32;
                1 << chunks.ilog2()
            });
            Settings { depth, chunk_bytes, mode }
        };
        let fits = |settings: &Settings| mtu + ETHERNET_BYTES as u32 <= settings.frame_bytes();
        [2048, 4096].map(of).into_iter().find(fits).ok_or_else(|| OpenError::MtuTooLarge {
            name: interface.name.clone(),
            mtu,
            mtu_max: of(4096).frame_bytes() - ETHERNET_BYTES as u32,
        })
    }

    /// Hears of the interface.
    fn look_at_link(&mut self) {
        loop {
            match self.watch.change() {
                Ok(Some(InterfaceChange::Up)) => self.link.set(Link::Up),
                Ok(Some(InterfaceChange::Down)) => self.link.set(Link::Down),
                Ok(Some(InterfaceChange::Gone)) => self.link.set(Link::Gone),
                Ok(Some(InterfaceChange::Mac(mac))) => {
                    let (from, to) = (self.capabilities.mac, Mac::new(mac));
                    if let Some(from) = from.filter(|from| *from != to) {
                        self.link.note(LinkEvent::MacChanged { from, to });
                    }
                }
                Ok(Some(InterfaceChange::Mtu(mtu))) => self.link.note_mtu(&mut self.capabilities, mtu),
                Ok(Some(InterfaceChange::KernelAddress(address))) => {
                    self.link.note(LinkEvent::KernelHasAddress(address));
                }
                // Or the kernel has no memory to say it: the next look asks again.
                Ok(None) | Err(_) => break,
            }
        }
    }

    /// Hears of the interface, and asks whether the program is still attached, which nobody tells. Looks for what neighbours have told as
    /// well, since a loop that is always busy never asks before it sleeps.
    fn keep_house(&mut self) {
        self.look_at_link();
        self.neighbours_wait = true;
        if !self.attachment.is_attached() {
            self.link.set(Link::Gone);
        }
    }

    /// Receives a few frames that the program has left to the kernel. Whatever neighbours say, they take no more than this of a batch.
    fn hear_neighbours(&mut self, frames: &mut Frames) {
        let Some(neighbours) = &self.neighbours else { return };
        let mut frame = [0; NEIGHBOUR_FRAME_BYTES];
        for _ in 0..NEIGHBOUR_FRAMES {
            let Some(length) = neighbours.receive(&mut frame) else {
                self.neighbours_wait = false;
                return;
            };
            self.counters.take_in(&frame[..length], frames);
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
            self.link.set(Link::Down);
        }
        self.look_at_link();
    }

    /// Copies a frame to the ring, which has room for one, and counts it. One that cannot leave as it is gets dropped: it is longer than a
    /// chunk, or left something to the device that [`capabilities`](Device::capabilities) does not promise.
    fn send(&mut self, frame: &[u8], meta: Meta) {
        let is_whole = meta.checksum != Checksum::Partial && meta.segment_bytes == 0;
        let is_sent = is_whole
            && match frame.len() {
                length @ ..FRAME_BYTES_LEAST => {
                    let mut padded = [0; FRAME_BYTES_LEAST];
                    padded[..length].copy_from_slice(frame);
                    self.sockets.transmit(&padded)
                }
                _ => self.sockets.transmit(frame),
            };
        if is_sent {
            self.counters.frames_out += 1;
            self.counters.bytes_out += frame.len().max(FRAME_BYTES_LEAST) as u64;
        } else {
            self.counters.dropped_out += 1;
        }
    }
}

impl Device for Xdp {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        if self.housekeeping.begin(now) {
            self.keep_house();
        }
        if self.neighbours_wait && frames.has_room_for(self.frame_bytes_max) {
            self.hear_neighbours(frames);
        }
        if !frames.has_room_for(self.frame_bytes_max) {
            return frames.len();
        }
        let Self { sockets, counters, capabilities, partial_checksums, frame_bytes_max, .. } = self;
        sockets.receive(frames.room(), |frame| {
            let is_taken = counters.take_in(frame, frames);
            if is_taken
                && capabilities.receive_checksum
                && Layout::of(frame).is_some_and(|at| at.is_partial(frame))
            {
                frames.describe_last(Meta {
                    checksum: Checksum::Partial,
                    segment_bytes: 0,
                    ..Meta::default()
                });
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
            if self.sockets.room() == 0 {
                break;
            }
            self.send(&frames[index], frames.meta(index));
            taken += 1;
        }
        frames.remove_first(taken);
        self.flush();
        taken
    }

    fn is_behind(&self) -> bool {
        self.sockets.available(Class::Priority) > self.depth / BEHIND
    }

    fn batch(&self) -> Frames {
        if self.attachment.may_be_joined() {
            return Frames::with_bytes(Frames::BATCH, JOINED_BATCH_BYTES);
        }
        device::batch(self.frame_bytes_max - ETHERNET_BYTES)
    }

    /// Once a second, since nobody tells when the program is detached.
    fn next_deadline(&self) -> Option<Instant> {
        (!self.link.is_gone()).then_some(self.housekeeping.due())
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Descriptor(self.sockets.as_fd())
    }

    fn before_sleep(&mut self, _: &Waker) -> bool {
        let wakes = self.sockets.before_sleep();
        self.look_at_link();
        self.neighbours_wait = self.neighbours.as_ref().is_some_and(is_readable);
        let has_news = self.neighbours_wait || self.link.has_news();
        match wakes {
            // What cannot leave an interface that is down waits for the interface.
            Ok(has_more) => has_more && self.link.is_up() || has_news,
            Err(fault) => {
                self.note_fault(&fault);
                has_news || self.link.has_news()
            }
        }
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        let event = self.link.next_event();
        if event == Some(LinkEvent::Up) {
            self.flush();
        }
        event
    }

    /// Asks the kernel as well: a system call for each queue.
    fn counters(&self) -> DeviceCounters {
        // No cause is known for which an open socket would not answer.
        let Statistics { no_chunk, dropped, receive_ring_full, invalid } =
            self.sockets.statistics().unwrap_or_default();
        let Counters { too_long, transmit_busy, .. } = self.sockets.counters();
        DeviceCounters {
            dropped_in: self.counters.dropped_in + dropped + receive_ring_full + too_long,
            no_chunk,
            receive_ring_full,
            invalid_descriptors: invalid,
            transmit_busy,
            ..self.counters
        }
    }
}

/// Whether a socket has something to receive. One that may not be asked has nothing.
fn is_readable(socket: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Frames of neighbours in a batch, which come before all others.
const NEIGHBOUR_FRAMES: usize = 8;

/// More than messages of ARP and of neighbour discovery have.
const NEIGHBOUR_FRAME_BYTES: usize = 512;

/// Memory for frames, unless rings of [`DEPTH_LEAST`] need more.
const UMEM_BYTES: usize = 32 << 20;

/// Bounds of the rings' depth if nobody says it: 5 ms of a flood, and more than 10,000 connections need on a core that is at its limit.
const DEPTH_LEAST: u32 = 1024;
const DEPTH_MOST: u32 = 8192;

/// The part of a receive ring that may wait before the owner is [behind](Device::is_behind).
const BEHIND: usize = 4;

/// Bytes of a batch if frames may be long: four of them, or 64 frames of the usual length.
const JOINED_BATCH_BYTES: usize = 5 * (64 << 10);

/// Bytes of the shortest frame on an Ethernet, without its check sequence (IEEE 802.3 3.2.8). The kernel pads what it sends itself; what
/// AF_XDP sends goes to the driver as it is, and not every card pads it.
const FRAME_BYTES_LEAST: usize = 60;
