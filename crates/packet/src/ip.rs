//! IPv4 and IPv6 headers (RFC 791, RFC 8200): what a packet says about its payload, and the headers that we
//! send.
//!
//! A packet may be shorter than the bytes that it came in (Ethernet pads to 60), never longer. Fragments and
//! source routes are refused; options of IPv4 and extension headers of IPv6 are passed over where their RFC
//! lets a host do so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anywire_sys::martian::{is_martian_v4, is_martian_v6};

use super::checksum;
use super::ethernet::{EtherType, Link};
use super::fields::{four, put, sixteen, two};
use super::parse::{Checks, Refusal};

/// The addresses of a connection, as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Addresses {
    /// Of IPv4.
    V4 {
        /// Ours.
        local: u32,
        /// The peer's.
        remote: u32,
    },
    /// Of IPv6.
    V6 {
        /// Ours.
        local: u128,
        /// The peer's.
        remote: u128,
    },
}

impl Addresses {
    /// Whether a connection can have them (RFC 9293 MUST-46, MUST-57; RFC 1122 3.2.1.3). Routes are not known here: they
    /// decide on the engine's own addresses and on the broadcast address of a network.
    pub const fn are_of_hosts(self) -> bool {
        match self {
            Self::V4 { local, remote } => !is_martian_v4(local) && !is_martian_v4(remote),
            Self::V6 { local, remote } => !is_martian_v6(local) && !is_martian_v6(remote),
        }
    }

    /// Ours and the peer's.
    pub const fn ips(&self) -> (IpAddr, IpAddr) {
        match *self {
            Self::V4 { local, remote } => {
                (IpAddr::V4(Ipv4Addr::from_bits(local)), IpAddr::V4(Ipv4Addr::from_bits(remote)))
            }
            Self::V6 { local, remote } => {
                (IpAddr::V6(Ipv6Addr::from_bits(local)), IpAddr::V6(Ipv6Addr::from_bits(remote)))
            }
        }
    }

    /// The addresses of the packet in a frame that arrived: the destination is ours. None if it holds no whole packet.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (_, ether_type, packet) = Link::parse(frame)?;
        let header = match ether_type {
            EtherType::IPV4 => Header::parse_v4(packet, Checks::ALL).ok()?,
            EtherType::IPV6 => Header::parse_v6(packet).ok()?,
            _ => return None,
        };
        Some(header.addresses)
    }

    /// Whether they are of IPv4.
    #[inline(always)]
    pub const fn is_v4(&self) -> bool {
        matches!(self, Self::V4 { .. })
    }

    /// Bytes of a header that [`write`](fn@write) writes.
    #[inline(always)]
    pub const fn header_len(&self) -> usize {
        if self.is_v4() { V4 } else { V6 }
    }

    /// The type of their frames.
    pub const fn ether_type(&self) -> EtherType {
        if self.is_v4() { EtherType::IPV4 } else { EtherType::IPV6 }
    }

    /// The sum of the pseudo header for `len` bytes of `protocol`, fields as numbers (RFC 9293 3.1, RFC 8200 8.1).
    pub fn pseudo(&self, protocol: u8, len: usize) -> u64 {
        let addresses = match *self {
            Self::V4 { local, remote } => u64::from(local) + u64::from(remote),
            Self::V6 { local, remote } => thirty_two(local) + thirty_two(remote),
        };
        addresses + u64::from(protocol) + len as u64
    }
}

/// The sum of its four words.
const fn thirty_two(address: u128) -> u64 {
    const LOW: u128 = 0xffff_ffff;
    ((address & LOW) + (address >> 32 & LOW) + (address >> 64 & LOW) + (address >> 96)) as u64
}

/// What an IP header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// `local` is the destination.
    pub addresses: Addresses,
    /// Protocol of the payload, extension headers passed over.
    pub protocol: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Where the payload is in the packet.
    pub start: usize,
    /// Where it ends. Padding may follow.
    pub end: usize,
}

impl Header {
    /// The header at the front of an IPv4 packet.
    pub fn parse_v4(packet: &[u8], checks: Checks) -> Result<Self, Refusal> {
        let head = packet.first_chunk::<V4>().ok_or(Refusal::Short)?;
        if head[0] >> 4 != 4 {
            return Err(Refusal::Version);
        }
        let start = usize::from(head[0] & 15) * 4;
        let end = usize::from(two(head, 2));
        if start < V4 || end < start {
            return Err(Refusal::HeaderLength);
        }
        if end > packet.len() {
            return Err(Refusal::Short);
        }
        if checks.ip && !checksum::is_right(checksum::sum(&packet[..start], 0)) {
            return Err(Refusal::IpChecksum);
        }
        if two(head, 6) & 0x3fff != 0 {
            return Err(Refusal::Fragment);
        }
        check_v4_options(&packet[V4..start])?;
        Ok(Self {
            addresses: Addresses::V4 { local: four(head, 16), remote: four(head, 12) },
            protocol: head[9],
            traffic_class: head[1],
            start,
            end,
        })
    }

    /// The headers at the front of an IPv6 packet, up to the first one that is no extension.
    pub fn parse_v6(packet: &[u8]) -> Result<Self, Refusal> {
        let head = packet.first_chunk::<V6>().ok_or(Refusal::Short)?;
        if head[0] >> 4 != 6 {
            return Err(Refusal::Version);
        }
        let end = V6 + usize::from(two(head, 4));
        let payload = packet.get(V6..end).ok_or(Refusal::Short)?;
        let (protocol, skipped) = skip_extensions(head[6], payload)?;
        Ok(Self {
            addresses: Addresses::V6 { local: sixteen(head, 24), remote: sixteen(head, 8) },
            protocol,
            traffic_class: (two(head, 0) >> 4) as u8,
            start: V6 + skipped,
            end,
        })
    }
}

/// Writes a header from local to remote to the front of `out`, if there is room, and gives its length: IPv4 without options,
/// or IPv6 without extensions and flow label. Without `fragment_id` an IPv4 packet is never to be fragmented, hence has an
/// identification of zero (RFC 6864 4.1).
pub fn write(
    out: &mut [u8],
    addresses: &Addresses,
    protocol: u8,
    class: u8,
    payload: usize,
    fragment_id: Option<u16>,
) -> Option<usize> {
    match *addresses {
        Addresses::V4 { local, remote } => {
            let head = out.first_chunk_mut::<V4>()?;
            *head = [0; V4];
            put(head, 0, [0x45, class]);
            put(head, 2, ((V4 + payload) as u16).to_be_bytes());
            put(head, 4, fragment_id.unwrap_or(0).to_be_bytes());
            put(head, 6, if fragment_id.is_some() { [0; 2] } else { DO_NOT_FRAGMENT.to_be_bytes() });
            put(head, 8, [HOP_LIMIT, protocol]);
            put(head, 12, local.to_be_bytes());
            put(head, 16, remote.to_be_bytes());
            put(head, 10, checksum::header(0, checksum::sum(head, 0)).to_be_bytes());
        }
        Addresses::V6 { local, remote } => {
            let head = out.first_chunk_mut::<V6>()?;
            put(head, 0, (0x6000_0000 | u32::from(class) << 20).to_be_bytes());
            put(head, 4, (payload as u16).to_be_bytes());
            put(head, 6, [protocol, HOP_LIMIT]);
            put(head, 8, local.to_be_bytes());
            put(head, 24, remote.to_be_bytes());
        }
    }
    Some(addresses.header_len())
}

/// Changes the TTL or the hop limit of a packet behind an Ethernet header, and the checksum of an IPv4 header with it. Nothing changes in
/// what holds no packet of IP.
pub fn set_hop_limit(frame: &mut [u8], hop_limit: u8) {
    let Some((ethernet, packet)) = frame.split_first_chunk_mut::<{ crate::ethernet::HEADER }>() else {
        return;
    };
    match (ethernet, packet) {
        ([.., 0x08, 0x00], [_, _, _, _, _, _, _, _, hop, protocol, high, low, ..]) => {
            let [old, new] = [*hop, hop_limit].map(|hop| u16::from_be_bytes([hop, *protocol]));
            let checksum = checksum::update(u16::from_be_bytes([*high, *low]), old, new);
            [*high, *low] = checksum.to_be_bytes();
            *hop = hop_limit;
        }
        ([.., 0x86, 0xdd], [_, _, _, _, _, _, _, hop, ..]) => *hop = hop_limit,
        _ => {}
    }
}

/// Source routes are refused (RFC 7126 4.3, 4.4); other options mean nothing to a host and are ignored (RFC
/// 9293 MUST-51).
fn check_v4_options(mut options: &[u8]) -> Result<(), Refusal> {
    loop {
        match options {
            [] | [0, ..] => return Ok(()),
            [1, rest @ ..] => options = rest,
            [131 | 137, ..] => return Err(Refusal::SourceRoute),
            [_, len, ..] if *len >= 2 && usize::from(*len) <= options.len() => {
                options = &options[usize::from(*len)..]
            }
            _ => return Err(Refusal::HeaderLength),
        }
    }
}

/// The protocol behind the extension headers, and how many bytes they have. `next` is the type of the first header in
/// `payload`.
pub fn skip_extensions(mut next: u8, payload: &[u8]) -> Result<(u8, usize), Refusal> {
    let mut at = 0;
    for header in 0..=EXTENSIONS_MAX {
        let len = match (next, &payload[at..]) {
            // Hop-by-hop options come first or not at all (RFC 8200 4.1).
            (HOP_BY_HOP, _) if header > 0 => return Err(Refusal::Extension),
            (HOP_BY_HOP | DESTINATION, [_, len, ..]) => {
                let len = 8 + usize::from(*len) * 8;
                check_v6_options(payload.get(at + 2..at + len).ok_or(Refusal::Short)?)?;
                len
            }
            // Of whatever type: with no segments left it is ignored, else we would have to forward (RFC 8200
            // 4.4).
            (ROUTING, [_, len, _, 0, ..]) => 8 + usize::from(*len) * 8,
            (ROUTING, [_, _, _, _, ..]) => return Err(Refusal::SourceRoute),
            // A fragment that holds the whole packet is treated as the packet (RFC 6946).
            (FRAGMENT, [_, _, high, low, ..]) if *high == 0 && *low & 0xf9 == 0 => 8,
            (FRAGMENT, [_, _, _, _, ..]) => return Err(Refusal::Fragment),
            (HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION, _) => return Err(Refusal::Short),
            (protocol, _) => return Ok((protocol, at)),
        };
        next = payload[at];
        at += len;
        if at > payload.len() {
            return Err(Refusal::Short);
        }
    }
    Err(Refusal::Extension)
}

/// Options that we do not know are passed over, unless their kind says that the packet must then go (RFC 8200
/// 4.2).
fn check_v6_options(mut options: &[u8]) -> Result<(), Refusal> {
    loop {
        match options {
            [] => return Ok(()),
            [0, rest @ ..] => options = rest,
            [kind, ..] if kind >> 6 != 0 => return Err(Refusal::Extension),
            [_, len, rest @ ..] => options = rest.get(usize::from(*len)..).ok_or(Refusal::Extension)?,
            _ => return Err(Refusal::Extension),
        }
    }
}

/// Bytes of an IPv4 header without options.
pub const V4: usize = 20;

/// Bytes of an IPv6 header without extensions.
pub const V6: usize = 40;

/// Extension headers that are passed over at most.
const EXTENSIONS_MAX: usize = 8;

/// What RFC 1700 and everybody says. [`set_hop_limit`] sets another one.
pub(crate) const HOP_LIMIT: u8 = 64;

/// The protocol number of ICMP for IPv4 (RFC 792).
pub const ICMP: u8 = 1;
/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP (RFC 768).
pub const UDP: u8 = 17;
/// The protocol number of ICMP for IPv6 (RFC 4443).
pub const ICMP_V6: u8 = 58;
pub(crate) const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// The bit of the IPv4 header that keeps routers from cutting the packet (RFC 791).
pub const DO_NOT_FRAGMENT: u16 = 0x4000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_sum_as_bytes_do(v6: (u128, u128), v4: (u32, u32), len in 0u16.., protocol: u8) {
            let tail = [&[0, protocol][..], &len.to_be_bytes()].concat();
            let same = |addresses: Addresses, front: &[&[u8]]| {
                let bytes = [&front.concat()[..], &tail].concat();
                let sum = checksum::header(addresses.pseudo(protocol, len.into()), 0);
                prop_assert_eq!(sum, checksum::header(0, checksum::sum(&bytes, 0)));
                Ok(())
            };
            let (local, remote) = v6;
            same(Addresses::V6 { local, remote }, &[&local.to_be_bytes(), &remote.to_be_bytes()])?;
            let (local, remote) = v4;
            same(Addresses::V4 { local, remote }, &[&local.to_be_bytes(), &remote.to_be_bytes()])?;
        }
    }
}
