//! Packets that are written by hand: IPv4 without options, TCP without any but the MSS.

use std::net::Ipv4Addr;

use anywire_sys::checksum::ones_complement_sum;

/// A segment, apart from its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) macs: [[u8; 6]; 2],
    /// From whom, to whom.
    pub(super) addresses: [Ipv4Addr; 2],
    pub(super) ports: [u16; 2],
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) payload_bytes: usize,
}

impl Segment {
    /// That of a frame; none if it is another packet.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        if frame.get(12..15)? != [8, 0, 0x45] || *frame.get(23)? != TCP {
            return None;
        }
        let two = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let four = |at: usize| Some(u32::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let mac = |at: usize| frame.get(at..)?.first_chunk().copied();
        let headers = 20 + usize::from(*frame.get(46)? >> 4) * 4;
        Some(Self {
            macs: [mac(6)?, mac(0)?],
            addresses: [Ipv4Addr::from_bits(four(26)?), Ipv4Addr::from_bits(four(30)?)],
            ports: [two(34)?, two(36)?],
            seq: four(38)?,
            ack: four(42)?,
            flags: *frame.get(47)?,
            payload_bytes: usize::from(two(16)?).checked_sub(headers)?,
        })
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// From its receiver to its sender, with what that acknowledged as its number.
    pub(super) const fn turned_round(&self) -> Self {
        let ([a, b], [c, d], [e, f]) = (self.macs, self.addresses, self.ports);
        Self {
            macs: [b, a],
            addresses: [d, c],
            ports: [f, e],
            seq: self.ack,
            ack: 0,
            flags: 0,
            payload_bytes: 0,
        }
    }

    /// Writes its frame behind what is in `frame`.
    pub(super) fn write(&self, payload: &[u8], frame: &mut Vec<u8>) {
        let start = frame.len();
        let options: &[u8] = if self.has(SYN) { &[2, 4, 5, 0xb4] } else { &[] };
        let transport = 20 + options.len() + payload.len();
        write_ipv4(self.macs, self.addresses, TCP, [0x40, 0], transport, frame);
        let at = frame.len();
        frame.extend(self.ports[0].to_be_bytes());
        frame.extend(self.ports[1].to_be_bytes());
        frame.extend(self.seq.to_be_bytes());
        frame.extend(self.ack.to_be_bytes());
        frame.extend([((20 + options.len()) * 4) as u8, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(options);
        frame.extend(payload);
        let pseudo = ones_complement_sum(&frame[start + 26..start + 34], 0);
        let length = u64::from((transport as u16).swap_bytes()) + u64::from(u16::from(TCP).swap_bytes());
        let sum = fold(ones_complement_sum(&frame[at..], pseudo + length));
        frame[at + 16..at + 18].copy_from_slice(&(!sum).to_le_bytes());
    }
}

/// Writes the headers of Ethernet and IPv4 of a packet with so many bytes behind them.
pub(super) fn write_ipv4(
    [from, to]: [[u8; 6]; 2],
    addresses: [Ipv4Addr; 2],
    protocol: u8,
    fragment: [u8; 2],
    payload_bytes: usize,
    frame: &mut Vec<u8>,
) {
    frame.extend(to);
    frame.extend(from);
    frame.extend([8, 0]);
    let at = frame.len();
    frame.extend([0x45, 0]);
    frame.extend((20 + payload_bytes as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(fragment);
    frame.extend([64, protocol, 0, 0]);
    frame.extend(addresses[0].octets());
    frame.extend(addresses[1].octets());
    let sum = fold(ones_complement_sum(&frame[at..], 0));
    frame[at + 10..at + 12].copy_from_slice(&(!sum).to_le_bytes());
}

/// Whether this is an ARP request for the address (RFC 826).
pub(super) fn is_arp_request_for(frame: &[u8], own: Ipv4Addr) -> bool {
    frame.len() >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, 1] && frame[38..42] == own.octets()
}

/// Writes the answer: we do.
pub(super) fn write_arp_reply(request: &[u8], own: Ipv4Addr, mac: [u8; 6], frame: &mut Vec<u8>) {
    frame.extend(&request[6..12]);
    frame.extend(mac);
    frame.extend(&request[12..20]);
    frame.extend([0, 2]);
    frame.extend(mac);
    frame.extend(own.octets());
    frame.extend(&request[22..32]);
}

/// A sum of little-endian words in 16 bits.
pub(super) const fn fold(sum: u64) -> u16 {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

const TCP: u8 = 6;
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const PSH: u8 = 8;
pub(super) const ACK: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let segment = Segment {
            macs: [[1; 6], [2; 6]],
            addresses: [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)],
            ports: [1, 80],
            seq: 7,
            ack: 9,
            flags: SYN | ACK,
            payload_bytes: 3,
        };
        let mut frame = Vec::new();
        segment.write(b"abc", &mut frame);
        assert_eq!(Segment::read(&frame), Some(segment));
        // A packet with its checksum sums up to zero.
        assert_eq!(fold(ones_complement_sum(&frame[14..34], 0)), u16::MAX);
        assert_eq!(segment.turned_round().addresses[0], segment.addresses[1]);
    }
}
