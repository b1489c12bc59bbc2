//! Offsets of headers and payload of TCP and UDP in their frame, for code that forwards frames or changes headers. Only the fields that
//! lead there are checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::checksum::{fold, sum};
use super::ethernet::{EtherType, HEADER};
use super::ip::{TCP, UDP, V4, V6};

/// Where the parts of a packet of TCP or UDP lie in its frame: all in bytes from the start of the frame.
///
/// ```
/// use anywire_packet::layout::Layout;
/// use anywire_packet::{Addresses, Checks, Flags, Link, OptionsOut, Outgoing, emit};
///
/// let link = Link::new("02:00:00:00:00:02".parse()?, "02:00:00:00:00:01".parse()?);
/// let between = Addresses::V4 { local: 0x0a00_0001, remote: 0x0a00_0002 };
/// let segment = Outgoing { local_port: 49_152, remote_port: 80, flags: Flags::SYN, ..Outgoing::default() };
/// let mut frame = [0; 100];
/// let len = emit(&mut frame, &link, &between, &segment, &OptionsOut::NONE, b"hello", Checks::ALL);
///
/// let layout = Layout::of(&frame[..len]).expect("a whole segment");
/// assert_eq!(&frame[layout.payload_at..layout.end], b"hello");
/// assert_eq!(layout.destination(&frame), Some([10, 0, 0, 2].into()));
/// # Ok::<(), anywire_packet::MacError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Over IPv4, and not IPv6.
    pub is_v4: bool,
    /// TCP, and not UDP.
    pub is_tcp: bool,
    /// The header of TCP or UDP.
    pub transport_at: usize,
    /// Behind that header.
    pub payload_at: usize,
    /// Behind the packet. What is there is padding.
    pub end: usize,
}

impl Layout {
    /// That of a frame, if it holds all of a packet of TCP or UDP, over IPv4 or IPv6 without extensions. None for a fragment.
    #[inline]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (is_v4, transport_at, end, protocol) = match EtherType(two(frame, 12)?) {
            EtherType::IPV4 => {
                let header_bytes = usize::from(frame.get(HEADER)? & 15) * 4;
                // More fragments, or an offset.
                if header_bytes < V4 || two(frame, HEADER + 6)? & 0x3fff != 0 {
                    return None;
                }
                let end = HEADER + usize::from(two(frame, HEADER + 2)?);
                (true, HEADER + header_bytes, end, *frame.get(HEADER + 9)?)
            }
            EtherType::IPV6 => {
                let end = HEADER + V6 + usize::from(two(frame, HEADER + 4)?);
                (false, HEADER + V6, end, *frame.get(HEADER + 6)?)
            }
            _ => return None,
        };
        let (is_tcp, payload_at) = match protocol {
            TCP => (true, transport_at + usize::from(frame.get(transport_at + 12)? >> 4) * 4),
            UDP => (false, transport_at + 8),
            _ => return None,
        };
        let is_whole = payload_at >= transport_at + if is_tcp { 20 } else { 8 };
        (is_whole && payload_at <= end && end <= frame.len()).then_some(Self {
            is_v4,
            is_tcp,
            transport_at,
            payload_at,
            end,
        })
    }

    /// Where the packet goes. None if the frame is shorter than the one of this layout.
    #[inline]
    pub fn destination(&self, frame: &[u8]) -> Option<IpAddr> {
        let header = frame.get(HEADER..)?;
        Some(if self.is_v4 {
            IpAddr::V4(Ipv4Addr::from(*header.get(16..)?.first_chunk::<4>()?))
        } else {
            IpAddr::V6(Ipv6Addr::from(*header.get(24..)?.first_chunk::<16>()?))
        })
    }

    /// The port that the packet is from. None if the frame is shorter than the one of this layout.
    #[inline]
    pub fn source_port(&self, frame: &[u8]) -> Option<u16> {
        two(frame, self.transport_at)
    }

    /// Where the checksum is.
    pub const fn checksum_at(&self) -> usize {
        self.transport_at + if self.is_tcp { 16 } else { 6 }
    }

    /// The sum of the pseudo header (RFC 9293 3.1, RFC 8200 8.1) of a packet with so many bytes from the header of TCP or UDP on.
    fn pseudo_sum(&self, frame: &[u8], transport_bytes: usize) -> u64 {
        let addresses =
            if self.is_v4 { &frame[HEADER + 12..HEADER + 20] } else { &frame[HEADER + 8..HEADER + 40] };
        let protocol = u16::from(if self.is_tcp { TCP } else { UDP });
        let around = u64::from(protocol.swap_bytes()) + u64::from((transport_bytes as u16).swap_bytes());
        sum(addresses, around)
    }

    /// Whether the checksum of the frame that this is the layout of is a partial one: the sum of the pseudo header alone.
    pub fn is_partial(&self, frame: &[u8]) -> bool {
        let sum = fold(self.pseudo_sum(frame, self.end - self.transport_at));
        frame.get(self.checksum_at()..).is_some_and(|rest| rest.starts_with(&sum.to_le_bytes()))
    }

    /// Makes the checksum a partial one: the sum of the pseudo header alone. `headers` reach up to the payload.
    pub fn leave_partial(&self, headers: &mut [u8], transport_bytes: usize) {
        let sum = fold(self.pseudo_sum(headers, transport_bytes));
        headers[self.checksum_at()..][..2].copy_from_slice(&sum.to_le_bytes());
    }

    /// Writes how long the packet is, with so many bytes from the header of TCP or UDP on; with IPv4, the header's checksum too.
    pub fn set_length(&self, headers: &mut [u8], transport_bytes: usize) {
        if self.is_v4 {
            let length = (self.transport_at - HEADER + transport_bytes) as u16;
            headers[HEADER + 2..HEADER + 4].copy_from_slice(&length.to_be_bytes());
            headers[HEADER + 10..HEADER + 12].fill(0);
            let sum = sum(&headers[HEADER..self.transport_at], 0);
            headers[HEADER + 10..HEADER + 12].copy_from_slice(&(!fold(sum)).to_le_bytes());
        } else {
            headers[HEADER + 4..HEADER + 6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
        }
    }
}

/// Finishes the checksum of TCP or UDP, whatever its field holds. False if the frame has none.
pub fn finish(frame: &mut [u8]) -> bool {
    let Some(layout) = Layout::of(frame) else { return false };
    let at = layout.checksum_at();
    frame[at..at + 2].fill(0);
    let pseudo = layout.pseudo_sum(frame, layout.end - layout.transport_at);
    let checksum = !fold(sum(&frame[layout.transport_at..layout.end], pseudo));
    // Zero would say that UDP has none (RFC 768).
    let checksum = if checksum == 0 && !layout.is_tcp { u16::MAX } else { checksum };
    frame[at..at + 2].copy_from_slice(&checksum.to_le_bytes());
    true
}

/// Finishes a checksum of any protocol, whose field holds the sum of its pseudo header. False if the places are not in the frame.
pub fn finish_at(frame: &mut [u8], start: usize, field_at: usize) -> bool {
    if frame.len() < field_at + 2 || field_at < start {
        return false;
    }
    let checksum = !fold(sum(&frame[start..], 0));
    frame[field_at..field_at + 2].copy_from_slice(&checksum.to_le_bytes());
    true
}

/// A number of 16 bits in a frame.
#[inline]
fn two(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::arbitrary::{checks, segment, timestamps};
    use super::super::{Addresses, Link, Mac, emit};
    use super::*;

    proptest! {
        #[test]
        fn a_segment_lies_where_it_was_written(
            is_v4: bool,
            (local, remote) in any::<(u32, u32)>(),
            segment in segment(),
            options in timestamps(),
            payload in prop::collection::vec(any::<u8>(), 0..200),
            padding in 0_usize..10,
            checks in checks(),
        ) {
            let between = if is_v4 {
                Addresses::V4 { local, remote }
            } else {
                Addresses::V6 { local: local.into(), remote: u128::from(remote) << 64 }
            };
            let [to, from] = [2, 1].map(|last| Mac::new([2, 0, 0, 0, 0, last]));
            let mut frame = vec![0; 400];
            let len = emit(&mut frame, &Link::new(to, from), &between, &segment, &options, &payload, checks);
            frame.truncate(len + padding);
            let layout = Layout::of(&frame).expect("a whole segment");
            prop_assert!(layout.is_v4 == is_v4 && layout.is_tcp && layout.end == len);
            prop_assert_eq!(&frame[layout.payload_at..layout.end], &payload);
            let (_, destination) = between.ips();
            prop_assert_eq!(layout.destination(&frame), Some(destination));
            prop_assert_eq!(layout.source_port(&frame), Some(segment.local_port));
            for cut in 0..len {
                prop_assert!(Layout::of(&frame[..cut]).is_none());
                let _ = (layout.destination(&frame[..cut]), layout.source_port(&frame[..cut]));
            }
        }
    }
}
