//! Routing by IP prefix: which station a packet goes to next, and what a router changes in it (RFC 1812, RFC
//! 8200).
//!
//! A routed packet is one hop older, its IPv4 checksum says so, and its frame runs from the switch to the
//! next hop. Nothing else changes: packets are not fragmented, since all ports have one MTU, and no ICMP is
//! sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::learning::{Address, bytes_of};
use crate::device::ETHERNET_BYTES;

/// A range of IP addresses: those that begin with the same bits.
///
/// ```
/// use anywire_stack::switch::Prefix;
///
/// let prefix: Prefix = "10.1.0.0/16".parse()?;
/// assert!(prefix.contains("10.1.200.3".parse().unwrap()));
/// assert!("10.1.0.0/33".parse::<Prefix>().is_err());
/// # Ok::<(), anywire_stack::switch::PrefixError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// The addresses whose first `bits` bits are those of `address`; its other bits do not matter.
    ///
    /// # Errors
    ///
    /// [`PrefixError::TooLong`] if an address has fewer bits: IPv4 has 32, IPv6 128.
    pub const fn new(address: IpAddr, bits: u8) -> Result<Self, PrefixError> {
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        if bits > bits_max {
            return Err(PrefixError::TooLong { bits, bits_max });
        }
        let address = match address {
            IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask_v4(bits))),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask_v6(bits))),
        };
        Ok(Self { address, bits })
    }

    /// Whether `address` is one of them. No IPv4 address is in an IPv6 prefix, or the other way round.
    pub const fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(prefix), IpAddr::V4(address)) => {
                address.to_bits() & mask_v4(self.bits) == prefix.to_bits()
            }
            (IpAddr::V6(prefix), IpAddr::V6(address)) => {
                address.to_bits() & mask_v6(self.bits) == prefix.to_bits()
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let malformed = || PrefixError::Malformed(text.into());
        let (address, bits) = text.split_once('/').ok_or_else(malformed)?;
        Self::new(address.parse().map_err(|_| malformed())?, bits.parse().map_err(|_| malformed())?)
    }
}

/// Why something is not a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// It is longer than the address.
    #[error("a prefix of {bits} bits is longer than the address, which has {bits_max}")]
    TooLong {
        /// What was asked for.
        bits: u8,
        /// What such an address has.
        bits_max: u8,
    },
    /// It is not an address, a slash and a number of bits.
    #[error("{0:?} is not a prefix; write an address, a slash and a number of bits, as in 10.0.0.0/8")]
    Malformed(Box<str>),
}

/// The routes, the longest prefix first.
#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: Vec<(Prefix, Address)>,
}

/// Why a packet is not routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unroutable {
    /// It is not IPv4 or IPv6, or its header is broken.
    Malformed,
    /// It has come too far: its TTL or hop limit is used up.
    Expired,
    /// No route leads there, or no router may forward it.
    NoRoute,
}

impl Routes {
    pub(super) const fn len(&self) -> usize {
        self.routes.len()
    }

    pub(super) fn contains(&self, prefix: Prefix) -> bool {
        self.routes.iter().any(|(other, _)| *other == prefix)
    }

    pub(super) fn insert(&mut self, prefix: Prefix, next_hop: Address) {
        self.remove(prefix);
        let place = self.routes.partition_point(|(other, _)| other.bits >= prefix.bits);
        self.routes.insert(place, (prefix, next_hop));
    }

    pub(super) fn remove(&mut self, prefix: Prefix) -> bool {
        let before = self.routes.len();
        self.routes.retain(|(other, _)| *other != prefix);
        self.routes.len() < before
    }

    /// Makes a frame to the switch, `own`, one from the switch to the next hop, which it gives back. A frame
    /// that is refused is left as it was.
    pub(super) fn forward(&self, frame: &mut [u8], own: Address) -> Result<Address, Unroutable> {
        let (header, packet) = frame.split_at_mut_checked(ETHERNET_BYTES).ok_or(Unroutable::Malformed)?;
        let next_hop = match header {
            [.., 0x08, 0x00] => self.forward_v4(packet)?,
            [.., 0x86, 0xdd] => self.forward_v6(packet)?,
            _ => return Err(Unroutable::Malformed),
        };
        header[..6].copy_from_slice(&bytes_of(next_hop));
        header[6..12].copy_from_slice(&bytes_of(own));
        Ok(next_hop)
    }

    fn forward_v4(&self, packet: &mut [u8]) -> Result<Address, Unroutable> {
        let (header, _) = packet.split_first_chunk_mut::<20>().ok_or(Unroutable::Malformed)?;
        let header_bytes = usize::from(header[0] & 0x0f) * 4;
        let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 || header_bytes < 20 || total_bytes < header_bytes {
            return Err(Unroutable::Malformed);
        }
        let ttl = header[8];
        let [source, target] =
            [12, 16].map(|at| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
        // RFC 1812 5.2.2: a router verifies the header's checksum before it believes anything else.
        if packet.len() < total_bytes || checksum(&packet[..header_bytes]) != 0 {
            return Err(Unroutable::Malformed);
        }
        if !may_be_forwarded_v4(source) || !may_be_forwarded_v4(target) {
            return Err(Unroutable::NoRoute);
        }
        let next_hop = self.find(target.into())?;
        if ttl <= 1 {
            return Err(Unroutable::Expired);
        }
        packet[8] = ttl - 1;
        // RFC 1624 3: the word of TTL and protocol went down by 0x0100, so the sum's complement goes up by
        // it; and it is never 0xffff, since no header is all zero.
        let sum = u32::from(u16::from_be_bytes([packet[10], packet[11]])) + 0x0100;
        let sum = sum + u32::from(sum >= 0xffff);
        packet[10..12].copy_from_slice(&(sum as u16).to_be_bytes());
        Ok(next_hop)
    }

    fn forward_v6(&self, packet: &mut [u8]) -> Result<Address, Unroutable> {
        let length = packet.len();
        let (header, _) = packet.split_first_chunk_mut::<40>().ok_or(Unroutable::Malformed)?;
        let payload_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[0] >> 4 != 6 || length < header.len() + payload_bytes {
            return Err(Unroutable::Malformed);
        }
        let address = |at: usize| {
            header[at..].first_chunk().map_or(Ipv6Addr::UNSPECIFIED, |&bytes: &[u8; 16]| bytes.into())
        };
        let (source, target) = (address(8), address(24));
        if !may_be_forwarded_v6(source) || !may_be_forwarded_v6(target) {
            return Err(Unroutable::NoRoute);
        }
        let next_hop = self.find(target.into())?;
        if header[7] <= 1 {
            return Err(Unroutable::Expired);
        }
        header[7] -= 1;
        Ok(next_hop)
    }

    fn find(&self, target: IpAddr) -> Result<Address, Unroutable> {
        let found = self.routes.iter().find(|(prefix, _)| prefix.contains(target));
        found.map(|&(_, next_hop)| next_hop).ok_or(Unroutable::NoRoute)
    }
}

/// RFC 1812 4.2.2.11, 5.3.7 and RFC 3927 2.7: these stay in their network.
const fn may_be_forwarded_v4(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_link_local())
}

/// RFC 4291 2.5.2, 2.5.3, 2.5.6: these stay in their network. Groups are not routed here.
const fn may_be_forwarded_v6(address: Ipv6Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_unicast_link_local())
}

/// The Internet checksum of a header, 0 if it holds the right one already (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const fn mask_v4(bits: u8) -> u32 {
    match u32::MAX.checked_shl(32 - bits as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

const fn mask_v6(bits: u8) -> u128 {
    match u128::MAX.checked_shl(128 - bits as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn routes(routes: &[(&str, Address)]) -> Routes {
        let mut all = Routes::default();
        for (prefix, next_hop) in routes {
            all.insert(prefix.parse().expect("a prefix"), *next_hop);
        }
        all
    }

    #[test]
    fn the_longest_prefix_wins() {
        let all = routes(&[
            ("0.0.0.0/0", 1),
            ("10.0.0.0/8", 2),
            ("10.1.0.0/16", 3),
            ("::/0", 4),
            ("2001:db8::/32", 5),
        ]);
        let next_hop = |target: &str| all.find(target.parse().expect("an address"));
        assert_eq!(next_hop("9.9.9.9"), Ok(1));
        assert_eq!(next_hop("10.2.0.1"), Ok(2));
        assert_eq!(next_hop("10.1.255.255"), Ok(3));
        assert_eq!(next_hop("fd00::1"), Ok(4));
        assert_eq!(next_hop("2001:db8:ffff::1"), Ok(5));
        assert_eq!(routes(&[("10.0.0.0/8", 2)]).find("11.0.0.0".parse().unwrap()), Err(Unroutable::NoRoute));
    }

    #[test]
    fn a_prefix_forgets_its_other_bits() {
        let prefix: Prefix = "10.1.2.3/8".parse().expect("a prefix");
        assert_eq!(prefix.to_string(), "10.0.0.0/8");
        for wrong in ["10.0.0.0", "10.0.0/8", "::/129", "1.2.3.4/-1", "1.2.3.4/"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_forwarded(
            mut frame in prop::collection::vec(any::<u8>(), 0..90),
            kind in 0..3,
        ) {
            if let Some(start) = frame.first_chunk_mut::<15>() {
                match kind {
                    0 => start[12..].copy_from_slice(&[0x08, 0x00, 0x45]),
                    1 => start[12..].copy_from_slice(&[0x86, 0xdd, 0x60]),
                    _ => {}
                }
            }
            let before = frame.clone();
            let forwarded = routes(&[("0.0.0.0/0", 1), ("::/0", 2)]).forward(&mut frame, 9);
            prop_assert!(forwarded.is_ok() || frame == before);
        }

        #[test]
        fn the_checksum_stays_right(mut header in prop::array::uniform20(any::<u8>()), ttl in 2u8..) {
            header[..4].copy_from_slice(&[0x45, 0, 0, 20]);
            header[8] = ttl;
            header[12] = 10;
            header[16] = 11;
            header[10..12].fill(0);
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            prop_assert_eq!(routes(&[("0.0.0.0/0", 7)]).forward_v4(&mut header), Ok(7));
            prop_assert_eq!(header[8], ttl - 1);
            let kept = header[10..12].to_vec();
            header[10..12].fill(0);
            prop_assert_eq!(checksum(&header).to_be_bytes(), &kept[..]);
        }
    }
}
