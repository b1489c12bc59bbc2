//! The segment that nearly every frame holds, read where it lies: IPv4 without options and no fragment, TCP with the
//! timestamps alone, or without options.
//!
//! Everything in it is at a fixed place, so nothing is copied out before it is asked for.

use anywire_sys::martian::is_martian_v4;

use super::checksum;
use super::ethernet;
use super::ip;
use super::options::TIMESTAMPS_ALONE;
use super::parse::{Checks, FRAME_MAX, Parsed, Refusal};
use super::tcp::{self, Flags};
use crate::seq::Seq;

/// The headers of a plain segment, in their frame: [`STAMPED`] or [`BARE`] bytes.
#[derive(Clone, Copy)]
pub struct Plain<'a, const LEN: usize>(&'a [u8; LEN]);

impl<'a, const LEN: usize> Plain<'a, LEN> {
    /// The same without Ethernet's.
    const PACKET: usize = LEN - ethernet::HEADER;

    /// Where the payload begins, in the encoding of the TCP header.
    const OFFSET: u8 = ((Self::PACKET - ip::V4) << 2) as u8;

    /// The headers and the payload of a frame that holds a plain segment; nothing of any other.
    #[inline(always)]
    pub fn of(frame: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = frame.split_first_chunk()?;
        let plain = Self(head);
        // Whatever differs leaves a bit.
        let differs = plain.raw_four(12) & 0x00ff_ffff ^ 0x0045_0008
            | plain.raw_four(20) & 0xff00_ff3f ^ u32::from(ip::TCP) << 24
            | if LEN == STAMPED { plain.raw_four(54) ^ TIMESTAMPS_ALONE.swap_bytes() } else { 0 }
            | u32::from(head[46] & 0xf0 ^ Self::OFFSET)
            | u32::from(head[0] & 1);
        let payload = rest.get(..usize::from(plain.two(16)).checked_sub(Self::PACKET)?)?;
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
        let local = u64::from(self.raw_four(30));
        if checks.ip && !checksum::is_right(checksum::sum_words([self.raw(14), self.raw(22), local], 0)) {
            return Err(Refusal::IpChecksum);
        }
        if checks.tcp {
            // The addresses stand right in front of the segment and are summed with it; the rest of the pseudo header is
            // protocol and length. The payload is summed first, and then the words loaded for the headers stay in
            // registers.
            let rest = u64::from((self.two(16) - ip::V4 as u16).swap_bytes()) + (u64::from(ip::TCP) << 8);
            let payload = checksum::sum(payload, rest);
            let front = [self.raw(26), self.raw(34), self.raw(42)];
            let sum = if LEN == STAMPED {
                checksum::sum_words([front[0], front[1], front[2], self.raw(50), self.raw(58)], payload)
            } else {
                checksum::sum_words([front[0], front[1], front[2], self.raw_four(50).into()], payload)
            };
            if !checksum::is_right(sum) {
                return Err(Refusal::TcpChecksum);
            }
        }
        Ok(())
    }

    /// The peer's address above, ours below.
    #[inline(always)]
    pub fn addresses(self) -> u64 {
        self.raw(26).swap_bytes()
    }

    /// Whether there can be a connection between these addresses (RFC 9293 MUST-57).
    pub fn is_between_hosts(self) -> bool {
        !is_martian_v4(self.four(26)) && !is_martian_v4(self.four(30))
    }

    /// The peer's port above, ours below.
    #[inline(always)]
    pub fn ports(self) -> u32 {
        self.four(34)
    }

    /// The sequence number of its first byte.
    #[inline(always)]
    pub fn seq(self) -> Seq {
        Seq(self.four(38))
    }

    /// The acknowledgment number.
    #[inline(always)]
    pub fn ack(self) -> Seq {
        Seq(self.four(42))
    }

    /// The control bits.
    #[inline(always)]
    pub fn flags(self) -> Flags {
        Flags(self.0[47])
    }

    /// The window field, as it came.
    #[inline(always)]
    pub fn window(self) -> u16 {
        self.two(48)
    }

    /// TSval, if there is one.
    #[inline(always)]
    pub fn timestamp(self) -> Option<u32> {
        if LEN == STAMPED { Some(self.four(58)) } else { None }
    }

    /// Bytes of payload, which begins behind the headers.
    #[inline(always)]
    pub fn payload_len(self) -> u16 {
        self.two(16) - Self::PACKET as u16
    }

    /// All of it, in the form that segments of any kind have.
    pub fn parsed(self) -> Parsed {
        Parsed {
            remote_v4: self.four(26),
            local_v4: self.four(30),
            ports: self.ports(),
            seq: self.seq(),
            ack: self.ack(),
            timestamp: self.timestamp().unwrap_or(0),
            timestamp_echo: if LEN == STAMPED { self.four(62) } else { 0 },
            window: self.window(),
            payload_at: LEN as u16,
            payload_len: self.payload_len(),
            flags: self.flags(),
            traffic_class: self.0[15],
            options_len: (Self::PACKET - ip::V4 - tcp::HEADER) as u8,
            is_v6: false,
            has_timestamps: LEN == STAMPED,
            has_other_options: false,
        }
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

/// Bytes of the headers of a plain segment with timestamps.
pub const STAMPED: usize = BARE + 12;

/// Bytes of the headers of a plain segment without options.
pub const BARE: usize = ethernet::HEADER + ip::V4 + tcp::HEADER;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::{checks, segment, timestamps};
    use crate::parse::general;
    use crate::{Addresses, Link, OptionsOut, Packet, emit};

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
            addresses: (u32, u32),
            segment in segment(),
            options in timestamps(),
            is_bare: bool,
            payload: Vec<u8>,
            damage in 0usize..2000,
            checks in checks(),
            bit in 0..8_u32,
            is_to_group: bool,
        ) {
            let addresses = Addresses::V4 { local: addresses.0, remote: addresses.1 };
            let options = if is_bare { OptionsOut::NONE } else { options };
            let mut frame = vec![0; 1000];
            let link = Link::default();
            let len = emit(&mut frame, &link, &addresses, &segment, &options, &payload, Checks::ALL);
            if let Some(byte) = frame[..len].get_mut(damage) {
                *byte ^= 1_u8 << bit;
            }
            // What a group of interfaces gets is read in one way alone.
            frame[0] |= u8::from(is_to_group);
            let frame = &frame[..len];
            let (stamped, bare) = (reads_the_same::<STAMPED>(frame, checks)?, reads_the_same::<BARE>(frame, checks)?);
            prop_assert!(!(stamped && bare));
            if damage >= len && !is_to_group {
                prop_assert_eq!(bare, is_bare);
            }
        }
    }
}
