//! A frame that arrived: everything that the engine needs of it, or why it is refused.
//!
//! Most frames are [`Plain`](super::plain::Plain) and read at fixed offsets. [`general`] walks the headers of all others.
//! Both verify what [`Checks`] asks for. No bytes lead to a panic.

use super::checksum;
use super::ethernet::{self, EtherType, Link};
use super::fields::{four, two};
use super::icmp::{self, Icmp};
use super::ip::{self, Addresses};
use super::options::{Offer, Options};
use super::syn;
use super::tcp::{self, Flags};
use crate::seq::Seq;

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet {
    /// A segment. Its fields are in the place that was given to [`general`].
    Tcp,
    /// A message of ICMP.
    Icmp(Icmp),
    /// No IP: ARP, say.
    Other,
}

/// A TCP segment, in 40 bytes. Rarely used fields stay in the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parsed {
    /// Addresses of IPv4, zero for IPv6; [`Self::addresses`] knows both.
    pub remote_v4: u32,
    /// Ours, likewise.
    pub local_v4: u32,
    /// Remote port above, local port below: with the addresses, what tells connections apart. In one piece, since it is
    /// compared as one right after it was written.
    pub ports: u32,
    /// The sequence number of its first byte.
    pub seq: Seq,
    /// The number that the peer expects next, if the flag ACK is set.
    pub ack: Seq,
    /// TSval and TSecr; they mean something only if the segment has the option.
    pub timestamp: u32,
    /// TSecr, likewise.
    pub timestamp_echo: u32,
    /// The window field, as it came.
    pub window: u16,
    /// Where the payload starts in the frame.
    pub payload_at: u16,
    /// Bytes of payload.
    pub payload_len: u16,
    /// The control bits.
    pub flags: Flags,
    /// DSCP and ECN of the IP header.
    pub traffic_class: u8,
    pub(crate) options_len: u8,
    pub(crate) is_v6: bool,
    pub(crate) has_timestamps: bool,
    /// Whether [`Self::options`] would tell more than the timestamps, a fault included.
    pub has_other_options: bool,
}

impl Parsed {
    /// The addresses, for which IPv6 needs the frame that this was parsed from.
    #[inline]
    pub fn addresses(&self, frame: &[u8]) -> Addresses {
        match frame.get(V6_ADDRESSES..).and_then(|rest| rest.first_chunk::<32>()) {
            Some(both) if self.is_v6 => {
                let both = both.as_chunks::<16>().0;
                Addresses::V6 { local: u128::from_be_bytes(both[1]), remote: u128::from_be_bytes(both[0]) }
            }
            _ => Addresses::V4 { local: self.local_v4, remote: self.remote_v4 },
        }
    }

    /// The peer's port.
    #[inline]
    pub const fn remote_port(&self) -> u16 {
        (self.ports >> 16) as u16
    }

    /// Our port.
    #[inline]
    pub const fn local_port(&self) -> u16 {
        self.ports as u16
    }

    /// TSval and TSecr (RFC 7323 3.2).
    #[inline]
    pub const fn timestamps(&self) -> Option<(u32, u32)> {
        if self.has_timestamps { Some((self.timestamp, self.timestamp_echo)) } else { None }
    }

    /// What a SYN offers, read from the frame that this was parsed from.
    #[inline(always)]
    pub fn offer(&self, frame: &[u8]) -> Offer {
        Offer::parse(self.option_bytes(frame))
    }

    /// All options, read from the frame that this was parsed from.
    pub fn options(&self, frame: &[u8]) -> Options {
        Options::parse(self.option_bytes(frame))
    }

    #[inline(always)]
    fn option_bytes<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let end = usize::from(self.payload_at);
        frame.get(end - usize::from(self.options_len)..end).unwrap_or_default()
    }

    /// Sequence numbers that it takes: its payload, SYN and FIN (SEG.LEN of RFC 9293 3.3.1).
    #[inline]
    pub const fn sequence_len(&self) -> u32 {
        self.payload_len as u32 + self.flags.sequence_len()
    }
}

/// Which checksums are verified on arrival and written on departure. A wire that cannot damage frames, or
/// that has checksums of its own, may go without. ICMP and its IP header always have theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// The header of IPv4.
    pub ip: bool,
    /// TCP with its pseudo header (RFC 9293 MUST-2, MUST-3).
    pub tcp: bool,
}

impl Checks {
    /// Both.
    pub const ALL: Self = Self { ip: true, tcp: true };
    /// Neither.
    pub const NONE: Self = Self { ip: false, tcp: false };
}

/// Why a frame is refused. Each is counted; the peer is told nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Refusal {
    /// The frame ends before what its headers announce.
    Short,
    /// The packet ends after more than 65,535 bytes of the frame.
    Long,
    /// The version of the IP header is not that of the frame's type.
    Version,
    /// A length of the IP header that cannot be.
    HeaderLength,
    /// The checksum of the IPv4 header is wrong.
    IpChecksum,
    /// A fragment; we send nothing that needs them and put none together.
    Fragment,
    /// A source route (RFC 7126, RFC 5095).
    SourceRoute,
    /// Extension headers of IPv6 that are too many, out of order, or not to be passed over.
    Extension,
    /// Addresses between which there is no connection (RFC 9293 MUST-57), or a frame to or from a group.
    Address,
    /// IP with a protocol other than TCP and ICMP.
    Protocol,
    /// No whole TCP header, or a data offset that does not fit.
    TcpHeader,
    /// The checksum of the segment is wrong.
    TcpChecksum,
    /// ICMP that is cut off, or of the other version of IP.
    IcmpHeader,
    /// The checksum of the message is wrong.
    IcmpChecksum,
    /// No whole UDP header, or a length that does not fit.
    UdpHeader,
    /// The checksum of the datagram is wrong, or missing over IPv6.
    UdpChecksum,
}

/// What any frame holds. A segment is written to `place`, where the caller keeps it. Returned by value, it would be built in
/// one place and copied to another while its bytes are still on the way to memory, which stalls. Most segments that come here
/// are SYNs.
#[cold]
#[inline(never)]
pub fn general(frame: &[u8], checks: Checks, place: &mut Parsed) -> Result<Packet, Refusal> {
    if let Some(read) = syn::parse(frame, checks, place) {
        return read.map(|()| Packet::Tcp);
    }
    by_headers(frame, checks, place)
}

/// Any frame, header by header.
fn by_headers(frame: &[u8], checks: Checks, place: &mut Parsed) -> Result<Packet, Refusal> {
    let (link, ether_type, packet) = Link::parse(frame).ok_or(Refusal::Short)?;
    let header = match ether_type {
        EtherType::IPV4 => ip::Header::parse_v4(packet, checks)?,
        EtherType::IPV6 => ip::Header::parse_v6(packet)?,
        _ => return Ok(Packet::Other),
    };
    if ethernet::HEADER + header.end > FRAME_MAX {
        return Err(Refusal::Long);
    }
    let is_to_one = link.is_between_hosts() && header.addresses.are_of_hosts();
    let payload = &packet[header.start..header.end];
    match header.protocol {
        ip::TCP if is_to_one => {
            *place = segment(&header, payload, checks)?;
            Ok(Packet::Tcp)
        }
        ip::TCP => Err(Refusal::Address),
        ip::ICMP | ip::ICMP_V6 => icmp::parse(&header, payload, is_to_one).map(Packet::Icmp),
        _ => Err(Refusal::Protocol),
    }
}

fn segment(header: &ip::Header, bytes: &[u8], checks: Checks) -> Result<Parsed, Refusal> {
    let head = bytes.first_chunk::<{ tcp::HEADER }>().ok_or(Refusal::TcpHeader)?;
    let data_offset = usize::from(head[12] >> 4) * 4;
    let list = bytes.get(tcp::HEADER..data_offset).ok_or(Refusal::TcpHeader)?;
    let pseudo = header.addresses.pseudo(header.protocol, bytes.len());
    if checks.tcp && checksum::header(pseudo, checksum::sum(bytes, 0)) != 0 {
        return Err(Refusal::TcpChecksum);
    }
    let options = Options::parse(list);
    let timestamps = options.timestamps;
    let (timestamp, timestamp_echo) = timestamps.unwrap_or_default();
    let (remote_v4, local_v4) = match header.addresses {
        Addresses::V4 { local, remote } => (remote, local),
        Addresses::V6 { .. } => (0, 0),
    };
    Ok(Parsed {
        remote_v4,
        local_v4,
        ports: four(head, 0),
        seq: Seq(four(head, 4)),
        ack: Seq(four(head, 8)),
        timestamp,
        timestamp_echo,
        window: two(head, 14),
        payload_at: (ethernet::HEADER + header.start + data_offset) as u16,
        payload_len: (bytes.len() - data_offset) as u16,
        flags: Flags(head[13]),
        traffic_class: header.traffic_class,
        options_len: list.len() as u8,
        is_v6: !header.addresses.is_v4(),
        has_timestamps: timestamps.is_some(),
        has_other_options: !options.are_timestamps_at_most(),
    })
}

/// Bytes of a frame up to the end of its packet, so that any place in it has a number of 16 bits.
pub const FRAME_MAX: usize = u16::MAX as usize;

/// Where the addresses of IPv6 start in a frame.
const V6_ADDRESSES: usize = ethernet::HEADER + 8;

const _: () = assert!(size_of::<Parsed>() == 40);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::{checks, offer, segment};
    use crate::emit;

    proptest! {
        #[test]
        fn both_ways_read_the_same_syn(
            addresses: (u32, u32),
            segment in segment(),
            options in offer(),
            damage in 0usize..148,
            checks in checks(),
            bit in 0..8_u32,
            is_to_group: bool,
            is_from_group: bool,
        ) {
            let addresses = Addresses::V4 { local: addresses.0, remote: addresses.1 };
            let mut frame = vec![0; 1000];
            let len = emit(&mut frame, &Link::default(), &addresses, &segment, &options, &[], Checks::ALL);
            if let Some(byte) = frame[..len].get_mut(damage) {
                *byte ^= 1_u8 << bit;
            }
            frame[0] |= u8::from(is_to_group);
            frame[6] |= u8::from(is_from_group);
            let (mut here, mut there) = (Parsed::default(), Parsed::default());
            if let Some(read) = syn::parse(&frame[..len], checks, &mut here) {
                prop_assert_eq!(read.map(|()| Packet::Tcp), by_headers(&frame[..len], checks, &mut there));
                prop_assert_eq!(here, there);
            } else {
                prop_assert!(damage < len || is_to_group || is_from_group, "the usual SYN was not recognised");
            }
        }
    }
}
