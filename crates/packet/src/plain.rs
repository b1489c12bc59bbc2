//! The segment that nearly every frame holds, read where it lies: IPv4 without options and no fragment, or IPv6 without
//! extension headers; TCP with the timestamps alone, or without options.
//!
//! Everything in it is at a fixed place, so nothing is copied out before it is asked for. How long the headers are tells the
//! version and the options apart: [`V4`], [`V4_TIMESTAMPS`], [`V6`] or [`V6_TIMESTAMPS`] bytes.

use super::checksum;
use super::ethernet;
use super::fields::sixteen;
use super::ip::{self, Addresses};
use super::options::TIMESTAMPS_ALONE;
use super::parse::{Checks, FRAME_MAX, Parsed, Refusal};
use super::tcp::{self, Flags};
use crate::seq::Seq;

/// The headers of a plain segment, in their frame.
#[derive(Clone, Copy)]
pub struct Plain<'a, const LEN: usize>(&'a [u8; LEN]);

impl<'a, const LEN: usize> Plain<'a, LEN> {
    /// The same without Ethernet's.
    const PACKET: usize = LEN - ethernet::HEADER;

    /// Where the TCP header starts in the frame.
    const TCP: usize = tcp_at(LEN);

    /// Where the payload begins, in the encoding of the TCP header.
    const OFFSET: u8 = ((LEN - Self::TCP) << 2) as u8;

    /// The headers and the payload of a frame that holds a plain segment; nothing of any other.
    #[inline(always)]
    pub fn of(frame: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = frame.split_first_chunk()?;
        let plain = Self(head);
        // Whatever differs leaves a bit.
        let of_ip = if is_v6(LEN) {
            plain.raw_four(12) & 0x00f0_ffff ^ 0x0060_dd86 | u32::from(head[20] ^ ip::TCP)
        } else {
            plain.raw_four(12) & 0x00ff_ffff ^ 0x0045_0008
                | plain.raw_four(20) & 0xff00_ff3f ^ u32::from(ip::TCP) << 24
        };
        let differs = of_ip
            | if has_timestamps(LEN) {
                plain.raw_four(Self::TCP + tcp::HEADER) ^ TIMESTAMPS_ALONE.swap_bytes()
            } else {
                0
            }
            | u32::from(head[Self::TCP + 12] & 0xf0 ^ Self::OFFSET)
            | u32::from((head[0] | head[6]) & 1);
        let payload = rest.get(..plain.packet_len().checked_sub(Self::PACKET)?)?;
        (differs == 0 && payload.len() <= FRAME_MAX - LEN).then_some((plain, payload))
    }

    /// The headers of a frame that is known to be plain.
    #[inline(always)]
    pub fn again(frame: &'a [u8]) -> Option<Self> {
        frame.first_chunk().map(Self)
    }

    /// Verifies the checksums of these headers and their payload, as far as asked for. The addresses are another question
    /// ([`is_between_hosts`](Self::is_between_hosts)): if there is a connection between them, they are right.
    #[inline(always)]
    pub fn verify(self, payload: &[u8], checks: Checks) -> Result<(), Refusal> {
        let tcp = Self::TCP;
        if !is_v6(LEN) && checks.ip {
            let local = u64::from(self.raw_four(30));
            if !checksum::is_right(checksum::sum_words([self.raw(14), self.raw(22), local], 0)) {
                return Err(Refusal::IpChecksum);
            }
        }
        if checks.tcp {
            // The addresses stand right in front of the segment and are summed with it; the rest of the pseudo header is
            // protocol and length. The payload is summed first, and then the words loaded for the headers stay in
            // registers.
            let segment_len = (self.packet_len() - (tcp - ethernet::HEADER)) as u16;
            let rest = u64::from(segment_len.swap_bytes()) + (u64::from(ip::TCP) << 8);
            let mut sum = checksum::sum(payload, rest);
            if is_v6(LEN) {
                sum = checksum::sum_words([self.raw(22), self.raw(30), self.raw(38)], sum);
            }
            let front = [self.raw(tcp - 8), self.raw(tcp), self.raw(tcp + 8)];
            let sum = if has_timestamps(LEN) {
                checksum::sum_words(
                    [front[0], front[1], front[2], self.raw(tcp + 16), self.raw(tcp + 24)],
                    sum,
                )
            } else {
                checksum::sum_words([front[0], front[1], front[2], self.raw_four(tcp + 16).into()], sum)
            };
            if !checksum::is_right(sum) {
                return Err(Refusal::TcpChecksum);
            }
        }
        Ok(())
    }

    /// The addresses.
    #[inline(always)]
    pub fn addresses(self) -> Addresses {
        if is_v6(LEN) {
            Addresses::V6 { local: sixteen(self.0, 38), remote: sixteen(self.0, 22) }
        } else {
            Addresses::V4 { local: self.four(30), remote: self.four(26) }
        }
    }

    /// The peer's address above, ours below, of IPv4.
    #[inline(always)]
    pub fn addresses_v4(self) -> u64 {
        self.raw(26).swap_bytes()
    }

    /// Whether there can be a connection between these addresses (RFC 9293 MUST-57).
    pub fn is_between_hosts(self) -> bool {
        self.addresses().are_of_hosts()
    }

    /// The peer's port above, ours below.
    #[inline(always)]
    pub fn ports(self) -> u32 {
        self.four(Self::TCP)
    }

    /// The sequence number of its first byte.
    #[inline(always)]
    pub fn seq(self) -> Seq {
        Seq(self.four(Self::TCP + 4))
    }

    /// The acknowledgment number.
    #[inline(always)]
    pub fn ack(self) -> Seq {
        Seq(self.four(Self::TCP + 8))
    }

    /// The control bits.
    #[inline(always)]
    pub fn flags(self) -> Flags {
        Flags(self.0[Self::TCP + 13])
    }

    /// The window field, as it came.
    #[inline(always)]
    pub fn window(self) -> u16 {
        self.two(Self::TCP + 14)
    }

    /// TSval, if there is one.
    #[inline(always)]
    pub fn timestamp(self) -> Option<u32> {
        if has_timestamps(LEN) { Some(self.four(Self::TCP + 24)) } else { None }
    }

    /// Bytes of payload, which begins behind the headers.
    #[inline(always)]
    pub fn payload_len(self) -> u16 {
        (self.packet_len() - Self::PACKET) as u16
    }

    /// All of it, in the form that segments of any kind have.
    pub fn parsed(self) -> Parsed {
        let (remote_v4, local_v4, traffic_class) = if is_v6(LEN) {
            (0, 0, (self.two(14) >> 4) as u8)
        } else {
            (self.four(26), self.four(30), self.0[15])
        };
        Parsed {
            remote_v4,
            local_v4,
            ports: self.ports(),
            seq: self.seq(),
            ack: self.ack(),
            timestamp: self.timestamp().unwrap_or(0),
            timestamp_echo: if has_timestamps(LEN) { self.four(Self::TCP + 28) } else { 0 },
            window: self.window(),
            payload_at: LEN as u16,
            payload_len: self.payload_len(),
            flags: self.flags(),
            traffic_class,
            options_len: (LEN - Self::TCP - tcp::HEADER) as u8,
            is_v6: is_v6(LEN),
            has_timestamps: has_timestamps(LEN),
            has_other_options: false,
        }
    }

    /// Bytes of the packet, by its IP header.
    #[inline(always)]
    fn packet_len(self) -> usize {
        if is_v6(LEN) { ip::V6 + usize::from(self.two(18)) } else { usize::from(self.two(16)) }
    }

    #[inline(always)]
    fn two(self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    #[inline(always)]
    fn four(self, at: usize) -> u32 {
        self.raw_four(at).swap_bytes()
    }

    /// Four bytes as they lie there.
    #[inline(always)]
    fn raw_four(self, at: usize) -> u32 {
        u32::from_le_bytes(*self.0[at..].first_chunk().expect("the headers are longer than this"))
    }

    /// Eight bytes as they lie there.
    #[inline(always)]
    fn raw(self, at: usize) -> u64 {
        u64::from_le_bytes(*self.0[at..].first_chunk().expect("the headers are longer than this"))
    }
}

/// Bytes of the headers of a plain segment over IPv4, without options.
pub const V4: usize = ethernet::HEADER + ip::V4 + tcp::HEADER;

/// The same with timestamps.
pub const V4_TIMESTAMPS: usize = V4 + TIMESTAMPS_BYTES;

/// Bytes of the headers of a plain segment over IPv6, without options.
pub const V6: usize = ethernet::HEADER + ip::V6 + tcp::HEADER;

/// The same with timestamps.
pub const V6_TIMESTAMPS: usize = V6 + TIMESTAMPS_BYTES;

/// Whether headers of this length are of IPv6.
#[inline(always)]
pub const fn is_v6(len: usize) -> bool {
    len == V6 || len == V6_TIMESTAMPS
}

/// Whether headers of this length have timestamps.
#[inline(always)]
pub const fn has_timestamps(len: usize) -> bool {
    len == V4_TIMESTAMPS || len == V6_TIMESTAMPS
}

/// Where the TCP header is in headers of this length.
pub(crate) const fn tcp_at(len: usize) -> usize {
    ethernet::HEADER + if is_v6(len) { ip::V6 } else { ip::V4 }
}

/// The option and two bytes in front of it, so that it is aligned (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::{checks, segment, timestamps};
    use crate::parse::general;
    use crate::{Link, OptionsOut, Packet, emit};

    /// Reading at fixed offsets must give the result of the general path. Gives whether the frame was a plain one.
    fn reads_the_same<const LEN: usize>(frame: &[u8], checks: Checks) -> Result<bool, TestCaseError> {
        let Some((plain, payload)) = Plain::<LEN>::of(frame) else { return Ok(false) };
        let mut parsed = Parsed::default();
        let read = plain.verify(payload, checks);
        let general = general(frame, checks, &mut parsed);
        if !plain.is_between_hosts() {
            prop_assert!(general.is_err());
            return Ok(true);
        }
        prop_assert_eq!(read.map(|()| Packet::Tcp), general);
        if read.is_ok() {
            prop_assert_eq!(plain.parsed(), parsed);
            prop_assert_eq!(Plain::<LEN>::again(frame).map(Plain::parsed), Some(parsed));
        }
        Ok(true)
    }

    proptest! {
        #[test]
        fn both_ways_read_the_same(
            addresses: (u128, u128),
            is_v6: bool,
            segment in segment(),
            options in timestamps(),
            is_bare: bool,
            payload: Vec<u8>,
            damage in 0usize..2000,
            checks in checks(),
            bit in 0..8_u32,
            is_to_group: bool,
            is_from_group: bool,
        ) {
            let addresses = match addresses {
                (local, remote) if is_v6 => Addresses::V6 { local, remote },
                (local, remote) => Addresses::V4 { local: local as u32, remote: remote as u32 },
            };
            let options = if is_bare { OptionsOut::NONE } else { options };
            let mut frame = vec![0; 1000];
            let link = Link::default();
            let len = emit(&mut frame, &link, &addresses, &segment, &options, &payload, Checks::ALL);
            if let Some(byte) = frame[..len].get_mut(damage) {
                *byte ^= 1_u8 << bit;
            }
            // What a group of interfaces gets or sends is read in one way alone.
            frame[0] |= u8::from(is_to_group);
            frame[6] |= u8::from(is_from_group);
            let frame = &frame[..len];
            let forms = [
                reads_the_same::<V4>(frame, checks)?,
                reads_the_same::<V4_TIMESTAMPS>(frame, checks)?,
                reads_the_same::<V6>(frame, checks)?,
                reads_the_same::<V6_TIMESTAMPS>(frame, checks)?,
            ];
            prop_assert!(forms.iter().filter(|is_it| **is_it).count() <= 1);
            if damage >= len && !is_to_group && !is_from_group {
                let own = 2 * usize::from(is_v6) + usize::from(!is_bare);
                prop_assert!(forms[own], "{:?}", forms);
            }
        }
    }
}
