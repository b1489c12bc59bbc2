//! Ethernet II: addresses, types, the 14 bytes in front of every packet.

use std::fmt;
use std::str::FromStr;

use anywire_advice::Advice;

/// The address of an Ethernet interface.
///
/// ```
/// use anywire_packet::Mac;
///
/// let mac: Mac = "02:00:00:00:00:2a".parse()?;
/// assert_eq!(mac, Mac::new([2, 0, 0, 0, 0, 42]));
/// assert_eq!(mac.to_string(), "02:00:00:00:00:2a");
/// assert!(!mac.is_group());
/// # Ok::<(), anywire_packet::MacError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Mac([u8; 6]);

impl Mac {
    /// The address that every interface listens to.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The address of these bytes, in the order in which they travel.
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The bytes in the order in which they travel.
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Whether it stands for several interfaces: multicast, or broadcast.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl From<[u8; 6]> for Mac {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let wrong = || MacError { text: text.to_owned() };
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part =
                parts.next().filter(|part| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit()));
            *byte = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or_else(wrong)?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(bytes)) }
    }
}

/// A text that is no Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no Ethernet address{help}",
    help = Advice("it takes six bytes in hexadecimal, as in 02:00:00:00:00:2a")
)]
pub struct MacError {
    text: String,
}

/// What a frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// A tag of IEEE 802.1Q, behind which another type follows: see [`VlanTag`].
    pub const VLAN: Self = Self(0x8100);
}

/// The two ends of one hop, in the order of a frame's first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(align(16))]
pub struct Link {
    /// Destination and source in one piece: every frame that leaves is given them.
    ends: [u8; ENDS],
}

impl Link {
    /// The hop between these two.
    pub const fn new(destination: Mac, source: Mac) -> Self {
        let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (destination.0, source.0);
        Self { ends: [a, b, c, d, e, f, g, h, i, j, k, l] }
    }

    /// Whom the frame is for.
    #[inline]
    pub const fn destination(&self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.ends;
        Mac([a, b, c, d, e, f])
    }

    /// Who has sent the frame.
    #[inline]
    pub const fn source(&self) -> Mac {
        let [.., a, b, c, d, e, f] = self.ends;
        Mac([a, b, c, d, e, f])
    }

    /// Whether both ends are single interfaces. A group sends nothing (IEEE 802.3 3.2.3), so nobody is to be answered there.
    #[inline]
    pub const fn is_between_hosts(&self) -> bool {
        !self.destination().is_group() && !self.source().is_group()
    }

    /// The way back of a frame.
    pub fn back(self) -> Self {
        let mut ends = self.ends;
        ends.rotate_left(ENDS / 2);
        Self { ends }
    }

    /// The ends, the type and the payload of a frame. None if the frame is shorter than its header.
    #[inline]
    pub fn parse(frame: &[u8]) -> Option<(Self, EtherType, &[u8])> {
        let (head, packet) = frame.split_first_chunk::<HEADER>()?;
        let (&ends, ether_type) = head.split_first_chunk()?;
        let ether_type = EtherType(u16::from_be_bytes(*ether_type.first_chunk()?));
        Some((Self { ends }, ether_type, packet))
    }

    /// The header of a frame with a packet of type `ether_type`.
    pub fn header(&self, ether_type: EtherType) -> [u8; HEADER] {
        let mut head = [0; HEADER];
        self.write(ether_type, &mut head);
        head
    }

    /// The same at the front of `head`.
    #[inline(always)]
    pub fn write<const N: usize>(&self, ether_type: EtherType, head: &mut [u8; N]) {
        head[..ENDS].copy_from_slice(&self.ends);
        head[ENDS..HEADER].copy_from_slice(&ether_type.0.to_be_bytes());
    }
}

/// The tag of a virtual LAN (IEEE 802.1Q), which stands where the type would be.
///
/// ```
/// use anywire_packet::ethernet::{EtherType, VlanTag};
///
/// let tag = VlanTag::new(5, 100);
/// assert_eq!((tag.priority(), tag.id()), (5, 100));
/// let behind = tag.write(EtherType::IPV4);
/// assert_eq!(VlanTag::parse(&behind), Some((tag, EtherType::IPV4, &[][..])));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VlanTag(u16);

impl VlanTag {
    /// The tag of a LAN, 0 to 4095, with a priority, 0 to 7: the lower bits of both count. The LAN 0 is the untagged one.
    pub const fn new(priority: u8, id: u16) -> Self {
        Self((priority as u16) << 13 | id & ID)
    }

    /// The number of the LAN.
    pub const fn id(self) -> u16 {
        self.0 & ID
    }

    /// The priority, 0 to 7.
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// The tag behind [`EtherType::VLAN`], the type behind it, and the payload. None if the frame ends before.
    pub fn parse(behind_type: &[u8]) -> Option<(Self, EtherType, &[u8])> {
        let (head, packet) = behind_type.split_first_chunk::<TAG>()?;
        let [a, b, c, d] = *head;
        Some((Self(u16::from_be_bytes([a, b])), EtherType(u16::from_be_bytes([c, d])), packet))
    }

    /// What stands behind [`EtherType::VLAN`].
    pub const fn write(self, ether_type: EtherType) -> [u8; TAG] {
        let ([a, b], [c, d]) = (self.0.to_be_bytes(), ether_type.0.to_be_bytes());
        [a, b, c, d]
    }
}

/// Bytes of the header.
pub const HEADER: usize = 14;
/// Bytes of the shortest frame, without its check sequence (IEEE 802.3). A shorter one is padded with zeros by whoever hands it to
/// an interface that does not do so itself.
pub const FRAME_MIN: usize = 60;
/// Bytes that a tag takes.
pub const TAG: usize = 4;
/// The bits of a tag that number the LAN.
const ID: u16 = 0x0fff;
/// Bytes of two addresses.
const ENDS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_address_is_refused() {
        for text in [
            "",
            "02",
            "02:00:00:00:00",
            "02:00:00:00:00:2a:",
            "02:00:00:00:00:2a:01",
            "2:0:0:0:0:1",
            "02:00:00:00:00:+1",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
        assert_eq!("02-00-00-00-00-FF".parse(), Ok(Mac([2, 0, 0, 0, 0, 255])));
        assert!(Mac::BROADCAST.is_group());
    }

    #[test]
    fn a_header_reads_as_it_was_written() {
        let link = Link::new(Mac([1, 2, 3, 4, 5, 6]), Mac([7, 8, 9, 10, 11, 12]));
        let mut frame = link.header(EtherType::IPV6).to_vec();
        frame.push(42);
        assert_eq!(Link::parse(&frame), Some((link, EtherType::IPV6, &[42][..])));
        assert_eq!(Link::parse(&frame[..13]), None);
        assert_eq!(link.back(), Link::new(Mac([7, 8, 9, 10, 11, 12]), Mac([1, 2, 3, 4, 5, 6])));
    }
}
