//! `tap:NAME`: frames go to a network interface of the kernel and come from it, so that the kernel is a neighbour at the other end of a
//! link.
//!
//! A [`Tap`] is one queue of a TAP device, which `ip tuntap add dev NAME mode tap` makes. The kernel's end has addresses, routes and
//! neighbours as any interface has; this end has a MAC address of its own ([`Capabilities::mac`]), and the addresses of the engine above it.
//!
//! # Offloads
//!
//! One system call moves one frame, so it pays that a frame is large. Unless [`Options::offloads`] is off:
//!
//! - The kernel sends super-frames of up to 64 KiB, with their checksums unfinished. [`Meta`] says so of each frame.
//! - Frames that leave with a [partial](Checksum::Partial) checksum are finished by the kernel, which hardly ever has to. Segments of one
//!   flow that follow one another in a batch leave as one super-frame, gathered from their frames without a copy.
//!
//! # Links
//!
//! The interface can be switched off and on, and removed, while it is used: see [`LinkEvent`]. Frames to an interface that is off are
//! dropped and counted.
//!
//! # A trap
//!
//! The kernel must not have the address of the engine on any of its interfaces: it would answer itself, and its resets would end the
//! connections. Ask [`Tap::check_address`] before; if it is given the address later, [`LinkEvent::KernelHasAddress`] tells so, with the next
//! frame; if the loop never sleeps, within a second.

mod transmit;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::task::Waker;

use anywire_advice::Advice;
use anywire_packet::layout::{self, Layout};
use anywire_sys::interfaces;
use anywire_sys::network_interface::{InterfaceChange, InterfaceWatch, NetworkInterface};
use anywire_sys::tap::{self, Header, is_gone};
use anywire_tcp::{Checksum, Frames, Instant, Mac, Meta};

use crate::device::{
    self, Capabilities, Device, DeviceCounters, ETHERNET_BYTES, Housekeeping, LinkEvent, Readiness,
    Segmentation,
};
use crate::link_state::{Link, LinkState};

pub use anywire_sys::tap::TapError;

/// How to open a TAP device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether checksums and segmentation are left to the other end, both ways. Default: on.
    pub offloads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { offloads: true }
    }
}

/// One queue of a TAP device.
///
/// ```no_run
/// use anywire_stack::device::Device;
/// use anywire_stack::stream::Interface;
/// use anywire_stack::tap::{Options, Tap};
/// use anywire_tcp::{Engine, Limits, Settings};
///
/// let tap = Tap::open("tap0", Options::default())?;
/// tap.check_address("10.0.0.2".parse()?)?;
/// let mut settings = Settings::new([1, 2, 3, 4]);
/// settings.checksum_offload = tap.capabilities().transmit_checksum;
/// let mut engine = Engine::new(settings, Limits::default())?;
/// engine.add_address("10.0.0.2".parse()?)?;
/// let (interface, driver) = Interface::new(engine, tap);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Tap {
    tap: tap::Tap,
    capabilities: Capabilities,
    kernel_mac: Mac,
    /// Bytes of the longest frame that may come.
    frame_bytes_max: usize,
    counters: DeviceCounters,
    /// What the kernel had dropped before.
    dropped_before: u64,
    /// No other queue of the device counts that.
    counts_drops: bool,
    link: LinkState,
    /// The last frame found no room.
    is_full: bool,
    /// Tells which addresses the kernel is given. None while the system has no descriptor left for it.
    watch: Option<InterfaceWatch>,
    /// Asks it, though the owner never sleeps.
    housekeeping: Housekeeping,
}

/// Why an address cannot be that of an engine on a TAP device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The kernel itself has it. Choose another one, or take it from the kernel.
    #[error(
        "cannot use the address {address} on {device}: the kernel has it on {interface}, and would answer itself{help}",
        help = Advice(format_args!("choose another one, or take it from the kernel: `ip addr del {address} dev {interface}`"))
    )]
    KernelHasIt {
        /// The address.
        address: IpAddr,
        /// The TAP device.
        device: String,
        /// The interface with the address.
        interface: String,
    },
    /// The kernel does not say which addresses it has.
    #[error("cannot see which addresses the kernel has")]
    System(#[source] std::io::Error),
}

impl Tap {
    /// Attaches to a TAP device, in the network namespace of this thread.
    ///
    /// # Errors
    /// See [`TapError`].
    pub fn open(name: &str, options: Options) -> Result<Self, TapError> {
        let tap = tap::Tap::open(name, options.offloads)?;
        let failed = |what| move |cause| TapError::System { name: name.to_owned(), what, cause };
        let mtu = tap.mtu().map_err(failed("asking for its MTU"))?;
        let kernel_mac = tap.mac().map_err(failed("asking for its MAC address"))?;
        let frame_bytes_max =
            if options.offloads { SUPER_FRAME_BYTES } else { ETHERNET_BYTES + VLAN_BYTES + mtu };
        let mut capabilities = Capabilities::new(mtu);
        capabilities.mac = Some(own_mac(kernel_mac));
        capabilities.queues = if tap.has_queues() { QUEUES_MAX } else { 1 };
        capabilities.receive_checksum = options.offloads;
        capabilities.transmit_checksum = options.offloads;
        capabilities.segmentation = options.offloads.then_some(Segmentation {
            frame_bytes: SUPER_FRAME_BYTES,
            ipv4: true,
            ipv6: true,
        });
        Ok(Self {
            capabilities,
            kernel_mac: Mac::new(kernel_mac),
            frame_bytes_max,
            counters: DeviceCounters::default(),
            dropped_before: tap.dropped().unwrap_or(0),
            counts_drops: true,
            // If it is down, the first frame that leaves will tell.
            link: LinkState::new(Link::Up),
            is_full: false,
            watch: watch(name),
            housekeeping: Housekeeping::default(),
            tap,
        })
    }

    /// Leaves it to another queue of the device to count what the kernel drops: it drops for all queues together.
    pub fn leave_drops_to_another(&mut self) {
        self.counts_drops = false;
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        self.tap.name()
    }

    /// The Ethernet address of the kernel's end.
    pub const fn kernel_mac(&self) -> Mac {
        self.kernel_mac
    }

    /// Whether an engine may have this address here.
    ///
    /// # Errors
    /// [`AddressError::KernelHasIt`] if the kernel has it on one of its interfaces.
    pub fn check_address(&self, address: IpAddr) -> Result<(), AddressError> {
        match interfaces::interface_with(address).map_err(AddressError::System)? {
            Some(interface) => {
                Err(AddressError::KernelHasIt { address, device: self.name().to_owned(), interface })
            }
            None => Ok(()),
        }
    }

    /// Reads one frame into a batch that has room for it. False if there is none.
    fn read_into(&mut self, frames: &mut Frames) -> bool {
        let (mut meta, mut fault) = (Meta::default(), None);
        let is_read = frames.push_with(self.frame_bytes_max, |room| match self.tap.receive(room) {
            Ok(Some((header, length))) => {
                meta = meta_of(&header, &mut room[..length]);
                length
            }
            Ok(None) => 0,
            Err(error) => {
                fault = Some(error);
                0
            }
        });
        if let Some(fault) = fault {
            self.note_fault(&fault);
        }
        if !is_read {
            return false;
        }
        if meta != Meta::default() {
            frames.describe_last(meta);
        }
        self.counters.frames_in += 1;
        self.counters.super_frames_in += u64::from(meta.segment_bytes > 0);
        self.link.set(Link::Up);
        true
    }

    /// Asks which addresses the kernel was given, and for another MTU.
    fn look_at_interface(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        // Of the link itself, reads and writes tell.
        while let Ok(Some(change)) = watch.change() {
            match change {
                InterfaceChange::KernelAddress(address) => {
                    self.link.note(LinkEvent::KernelHasAddress(address));
                }
                InterfaceChange::Mtu(mtu) => self.link.note_mtu(&mut self.capabilities, mtu),
                _ => {}
            }
        }
    }

    fn note_fault(&mut self, fault: &std::io::Error) {
        if is_gone(fault) {
            self.link.set(Link::Gone);
        } else if tap::is_down(fault) {
            self.link.set(Link::Down);
        }
    }
}

impl Device for Tap {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        if self.housekeeping.begin(now) {
            // There may be a descriptor left by now.
            self.watch = self.watch.take().or_else(|| watch(self.tap.name()));
            self.look_at_interface();
        }
        while frames.has_room_for(self.frame_bytes_max) && self.read_into(frames) {}
        self.counters.bytes_in += frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
        frames.len()
    }

    /// As much as anybody sends at a time: it has no queue of its own.
    fn room(&self) -> usize {
        if self.is_full { 0 } else { Frames::BATCH }
    }

    fn transmit(&mut self, _: Instant, frames: &mut Frames) -> usize {
        self.send_all(frames)
    }

    fn batch(&self) -> Frames {
        if self.capabilities.segmentation.is_some() {
            return Frames::with_bytes(Frames::BATCH, BATCH_BYTES);
        }
        device::batch(self.frame_bytes_max - ETHERNET_BYTES)
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Descriptor(self.tap.as_fd())
    }

    fn before_sleep(&mut self, _: &Waker) -> bool {
        self.look_at_interface();
        self.link.has_news()
    }

    fn link_event(&mut self) -> Option<LinkEvent> {
        self.link.next_event()
    }

    /// Asks the system how many frames were dropped because they were not read in time, from all queues of the device.
    fn counters(&self) -> DeviceCounters {
        if !self.counts_drops {
            return self.counters;
        }
        let dropped = self.tap.dropped().unwrap_or(self.dropped_before);
        DeviceCounters { dropped_in: dropped.saturating_sub(self.dropped_before), ..self.counters }
    }
}

/// None if the system has no descriptor left.
fn watch(name: &str) -> Option<InterfaceWatch> {
    NetworkInterface::find(name).and_then(|interface| InterfaceWatch::new(&interface)).ok()
}

/// What the kernel says of a frame. A checksum that only the kernel could finish is finished here.
fn meta_of(header: &Header, frame: &mut [u8]) -> Meta {
    if !header.needs_checksum {
        let checksum = if header.is_verified { Checksum::Verified } else { Checksum::Unchecked };
        return Meta { checksum, segment_bytes: 0, ..Meta::default() };
    }
    let (start, field_at) = (
        usize::from(header.checksum_start),
        usize::from(header.checksum_start) + usize::from(header.checksum_offset),
    );
    match Layout::of(frame) {
        Some(layout) if (layout.transport_at, layout.checksum_at()) == (start, field_at) => {
            let is_super = header.segmentation.is_some() && layout.is_tcp;
            Meta {
                checksum: Checksum::Partial,
                segment_bytes: if is_super { header.segment_bytes } else { 0 },
                ..Meta::default()
            }
        }
        _ => {
            layout::finish_at(frame, start, field_at);
            Meta::default()
        }
    }
}

/// The address of this end: always the same for a device, so that neighbours need not ask again, and never that of the kernel's end. It
/// is one that nobody has assigned (IEEE 802, locally administered).
fn own_mac(kernel_mac: [u8; 6]) -> Mac {
    let [a, b, c, d, e, f] = kernel_mac;
    Mac::new([a & 0xfe | 2, b, c ^ 0x5a, d, e, f])
}

/// Bytes of the longest super-frame: the longest packet of IP, in a frame with a tag of a VLAN.
const SUPER_FRAME_BYTES: usize = ETHERNET_BYTES + VLAN_BYTES + u16::MAX as usize;

const VLAN_BYTES: usize = 4;

/// Bytes of a batch if frames may be long: nearly four super-frames, or 64 frames of the usual length behind each other. An engine has
/// promised memory for so much, and more would not stay in the second-level cache until it is read.
const BATCH_BYTES: usize = 4 * (64 << 10);

/// Queues that the kernel gives a TAP device at most (`MAX_TAP_QUEUES`).
const QUEUES_MAX: u16 = 256;
