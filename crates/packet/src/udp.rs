//! UDP (RFC 768): ports, length and checksum.

use crate::checksum;
use crate::fields::two;
use crate::ip::{Addresses, UDP};
use crate::parse::Refusal;

/// The header of a datagram.
///
/// ```
/// use anywire_packet::udp::Udp;
/// use anywire_packet::Addresses;
///
/// let there = Addresses::V4 { local: 0x0a00_0001, remote: 0x0a00_0002 };
/// let mut datagram = [0; 13];
/// datagram[8..].copy_from_slice(b"hello");
/// Udp { source: 4000, destination: 53 }.write(&mut datagram, &there);
/// let (read, payload) = Udp::parse(&datagram, &there)?;
/// assert_eq!((read.destination, payload), (53, &b"hello"[..]));
/// # Ok::<(), anywire_packet::Refusal>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Udp {
    /// The port of the sender.
    pub source: u16,
    /// The port of the receiver.
    pub destination: u16,
}

impl Udp {
    /// The header and the payload in that of an IP packet between these addresses, in any order.
    ///
    /// # Errors
    /// If the length or the checksum is wrong. Over IPv6 there must be a checksum (RFC 8200 8.1).
    pub fn parse<'a>(bytes: &'a [u8], addresses: &Addresses) -> Result<(Self, &'a [u8]), Refusal> {
        let head = bytes.first_chunk::<HEADER>().ok_or(Refusal::UdpHeader)?;
        let datagram = bytes.get(..usize::from(two(head, 4))).ok_or(Refusal::UdpHeader)?;
        let payload = datagram.get(HEADER..).ok_or(Refusal::UdpHeader)?;
        let has_none = two(head, 6) == 0;
        let pseudo = addresses.pseudo(UDP, datagram.len());
        let is_wrong = if has_none {
            !addresses.is_v4()
        } else {
            checksum::header(pseudo, checksum::sum(datagram, 0)) != 0
        };
        if is_wrong {
            return Err(Refusal::UdpChecksum);
        }
        Ok((Self { source: two(head, 0), destination: two(head, 2) }, payload))
    }

    /// Writes the header to the front of `datagram`, whose payload is in place. Nothing happens if there is no room for it, or
    /// more than a length can say.
    pub fn write(&self, datagram: &mut [u8], addresses: &Addresses) {
        let Ok(length) = u16::try_from(datagram.len()) else { return };
        let Some(head) = datagram.first_chunk_mut::<HEADER>() else { return };
        head[..2].copy_from_slice(&self.source.to_be_bytes());
        head[2..4].copy_from_slice(&self.destination.to_be_bytes());
        head[4..6].copy_from_slice(&length.to_be_bytes());
        head[6..].fill(0);
        let sum = checksum::header(addresses.pseudo(UDP, datagram.len()), checksum::sum(datagram, 0));
        // Zero would say that there is none.
        let sum = if sum == 0 { u16::MAX } else { sum };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Bytes in front of the payload.
pub const HEADER: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_and_a_flipped_bit_is_refused(
            ports: (u16, u16),
            payload: Vec<u8>,
            v6: Option<(u128, u128)>,
            at: prop::sample::Index,
            bit in 0u8..8,
        ) {
            let addresses = match v6 {
                Some((local, remote)) => Addresses::V6 { local, remote },
                None => Addresses::V4 { local: 0x0a00_0001, remote: 0x0a00_0002 },
            };
            let mut datagram = [&[0xee; HEADER][..], &payload].concat();
            let header = Udp { source: ports.0, destination: ports.1 };
            header.write(&mut datagram, &addresses);
            prop_assert_eq!(Udp::parse(&datagram, &addresses), Ok((header, &payload[..])));
            let padded = [&datagram[..], &[0; 9]].concat();
            prop_assert_eq!(Udp::parse(&padded, &addresses), Ok((header, &payload[..])), "padding is not its own");
            let at = at.index(datagram.len());
            datagram[at] ^= 1 << bit;
            let had_none = datagram[6..8] == [0, 0];
            prop_assert!(had_none || Udp::parse(&datagram, &addresses).is_err());
        }

        #[test]
        fn any_bytes_are_parsed(bytes: Vec<u8>) {
            let _ = Udp::parse(&bytes, &Addresses::V4 { local: 1, remote: 2 });
        }
    }

    #[test]
    fn a_checksum_may_be_left_out_over_ipv4_alone() {
        let datagram = [0, 1, 0, 2, 0, 8, 0, 0];
        assert!(Udp::parse(&datagram, &Addresses::V4 { local: 1, remote: 2 }).is_ok());
        let refused = Udp::parse(&datagram, &Addresses::V6 { local: 1, remote: 2 });
        assert_eq!(refused, Err(Refusal::UdpChecksum));
    }
}
