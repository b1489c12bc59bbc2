//! What a frame holds, and how one is written: Ethernet II, IPv4 and IPv6, TCP and its options, ICMP.
//!
//! Pure functions over bytes and small `Copy` types, nothing allocated. Nearly every frame is an IPv4 packet without
//! options with a TCP segment whose only option is the timestamp. It is read and written at fixed offsets ([`Plain`],
//! [`emit()`]). All other frames take a general path that gives the same answers ([`general`]).
//!
//! Limits: frames carry no VLAN tag. A fragment is refused, never reassembled. The contents of a frame end within its first
//! 65,535 bytes.

#[cfg(test)]
mod arbitrary;
pub(crate) mod checksum;
pub(crate) mod emit;
pub(crate) mod ethernet;
mod fields;
pub(crate) mod icmp;
pub(crate) mod ip;
pub(crate) mod options;
pub(crate) mod parse;
pub(crate) mod plain;
mod syn;
pub(crate) mod tcp;
#[cfg(test)]
mod tests;

pub(crate) use emit::{Outgoing, emit, headers_len};
pub(crate) use ethernet::Link;
pub use ethernet::{Mac, MacError};
pub(crate) use icmp::{ErrorKind, Icmp};
pub(crate) use ip::Addresses;
pub(crate) use options::{Offer, OptionsOut, SACK_MAX};
pub(crate) use parse::{Checks, Packet, Parsed, Refusal, general};
pub(crate) use plain::Plain;
pub(crate) use tcp::Flags;
