//! Headers from Ethernet to TCP: what a frame holds, and how one is written.
//!
//! Pure functions over bytes and small `Copy` types, nothing allocated. Nearly every frame is an IPv4 packet without
//! options with a TCP segment whose only option is the timestamp. It is read and written at fixed offsets ([`Plain`],
//! [`emit()`]). All other frames take a general path that gives the same answers ([`general`]).
//!
//! | module | holds |
//! | --- | --- |
//! | [`ethernet`], [`ip`], [`icmp`], [`udp`], [`tcp`], [`options`] | the headers, one protocol each |
//! | [`arp`], [`ndp`] | what neighbours ask and tell each other |
//! | [`mld`] | which groups a host listens to |
//! | [`cidr`] | networks |
//! | [`checksum`] | the Internet checksum, made and brought up to date |
//! | [`parse`], [`plain`] | a frame that arrived |
//! | [`layout`] | where the parts of a packet lie, to forward or change it |
//! | [`emit`](mod@emit) | a segment that leaves |
//!
//! Limits: [`general`] reads no frames with a VLAN tag. A fragment is refused, never reassembled. The contents of a frame end within its first
//! 65,535 bytes. No bytes lead to a panic.
//!
//! ```
//! use anywire_packet::{Addresses, Checks, Flags, Link, Mac, OptionsOut, Outgoing, Packet, Parsed, emit, general};
//!
//! let link = Link::new("02:00:00:00:00:02".parse()?, "02:00:00:00:00:01".parse()?);
//! let between = Addresses::V4 { local: 0x0a00_0001, remote: 0x0a00_0002 };
//! let segment = Outgoing { local_port: 49_152, remote_port: 80, flags: Flags::SYN, ..Outgoing::default() };
//! let mut frame = [0; 100];
//! let len = emit(&mut frame, &link, &between, &segment, &OptionsOut::NONE, b"", Checks::ALL);
//!
//! let mut read = Parsed::default();
//! assert_eq!(general(&frame[..len], Checks::ALL, &mut read), Ok(Packet::Tcp));
//! assert_eq!((read.local_port(), read.flags), (80, Flags::SYN));
//! # Ok::<(), anywire_packet::MacError>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(test)]
mod arbitrary;
pub mod arp;
pub mod checksum;
pub mod cidr;
pub mod emit;
pub mod ethernet;
mod fields;
pub mod icmp;
pub mod ip;
pub mod layout;
pub mod mld;
pub mod ndp;
pub mod options;
pub mod parse;
pub mod plain;
mod seq;
mod syn;
pub mod tcp;
#[cfg(test)]
mod tests;
pub mod udp;

pub use crate::cidr::{Cidr, CidrError};
pub use crate::emit::{Outgoing, emit, headers_len};
pub use crate::ethernet::{Link, Mac, MacError};
pub use crate::icmp::{ErrorKind, Icmp};
pub use crate::ip::Addresses;
pub use crate::options::{Offer, OptionsOut, SACK_MAX};
pub use crate::parse::{Checks, Packet, Parsed, Refusal, general};
pub use crate::plain::Plain;
pub use crate::seq::Seq;
pub use crate::tcp::Flags;
