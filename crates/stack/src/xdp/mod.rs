//! `xdp:NAME`: frames of some addresses go past the kernel's network stack, to and from a real interface (AF_XDP).
//!
//! An [`Attachment`] is an XDP program on an interface, for all loops of the process. It redirects packets that were
//! [claimed](Attachment::claim), and passes all others to the kernel, so the interface stays in use: ssh to the machine goes on. Each
//! loop opens an [`Xdp`] for its [share](Attachment::share) of the receive queues.
//!
//! # Modes
//!
//! The program runs in the driver if the driver knows XDP (*native*), else in the kernel's receive path (*generic*), which is slower:
//! [`Attachment::mode`] tells. Frames reach the loop without a copy by the kernel if the driver has *zero-copy*, which
//! [`Xdp::is_zero_copy`] tells. There is one more copy, between the UMEM and the batch.
//!
//! # Addresses
//!
//! An address of the stack's own ([`Wanted::Address`]) must not be the kernel's: the program takes ARP and neighbour messages about it
//! as well. It is reached from other machines, and over veth from another network namespace; not from this host through its own
//! interface. Of an address of the kernel's, single TCP ports can be had ([`Wanted::Port`]); the kernel then answers ARP, and hears ICMP.
//! Frames with a VLAN tag go to the kernel. **Limit**: the program sees no tag that the card or a veth pair carries beside the frame
//! ([`NetworkInterface::takes_out_vlan_tags`]), and takes such a frame for one without a tag. `ethtool -K NAME rxvlan off` leaves it in the
//! frame; of a veth pair it is `txvlan` at the other end.
//!
//! What neighbours tell everybody of themselves, such as a gateway that has moved to another card (gratuitous ARP, RFC 5227 3; unsolicited
//! advertisements, RFC 4861 7.2.6), concerns the stack and the kernel. XDP cannot double a frame, so it goes to the kernel, and a packet
//! socket gives a copy to the device with queue 0.
//!
//! # Partial checksums
//!
//! A kernel hands frames to a veth pair without computing their TCP checksum, because they do not leave its memory
//! (`CHECKSUM_PARTIAL`). The field then holds the sum of the pseudo-header alone. Generic receive offload writes the same into a frame
//! that it has joined of several, each of which was checked. A descriptor of AF_XDP tells neither. So on veth, and in generic
//! mode, a field with exactly this sum counts as [partial](anywire_tcp::Checksum::Partial), which the engine does not check, and is
//! [counted](Xdp::partial_checksums). A frame that was damaged on the way has this sum by chance once in 65,536, as often as it has a right
//! checksum; so twice as many damaged frames may pass. On a card in native mode nothing counts as partial.
//!
//! # After the process
//!
//! The kernel detaches the program, closes the sockets and leaves the multicast groups when the process ends, even by SIGKILL. On
//! veth, native XDP takes segmentation offload away from the peer; it comes back then, too.
//!
//! Needs Linux 5.9 (5.10 for several queues on a loop), and `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_BPF`. Nothing else: no library, and
//! no compiler for BPF.

mod attachment;
mod device;
mod error;
mod program;

pub use anywire_sys::bpf::{AttachMode, LoadError};
pub use anywire_sys::network_interface::NetworkInterface;
pub use anywire_sys::xsk::{CopyMode, Counters, Statistics};

pub use self::attachment::{Attachment, Claim, Wanted, WantedMode};
pub use self::device::{Options, Xdp};
pub use self::error::OpenError;
