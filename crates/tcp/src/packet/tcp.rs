//! The TCP header without its options (RFC 9293 3.1).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use crate::seq::Seq;

/// The control bits. The reserved bits are ignored on arrival and sent as zero.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const FIN: Self = Self(0x01);
    pub(crate) const SYN: Self = Self(0x02);
    pub(crate) const RST: Self = Self(0x04);
    pub(crate) const PSH: Self = Self(0x08);
    pub(crate) const ACK: Self = Self(0x10);
    pub(crate) const ECE: Self = Self(0x40);
    pub(crate) const CWR: Self = Self(0x80);

    /// Both sets together, where a constant is wanted.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` are set.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of `other` is set.
    pub(crate) const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// How many sequence numbers the bits take: one for SYN, one for FIN.
    pub(crate) const fn sequence_len(self) -> u32 {
        (self.0 & 1) as u32 + (self.0 >> 1 & 1) as u32
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.with(other);
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let mut set = f.debug_set();
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 >> bit & 1 == 1 {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

/// The fixed part of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Header {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: Flags,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
}

impl Header {
    /// The header at the front of `segment`, and where its data starts; nothing if the data offset does not
    /// fit.
    #[inline]
    pub(crate) fn parse(segment: &[u8]) -> Option<(Self, usize)> {
        let head = segment.first_chunk::<HEADER>()?;
        let data_offset = usize::from(head[12] >> 4) * 4;
        if data_offset < HEADER || data_offset > segment.len() {
            return None;
        }
        let two = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let four = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let header = Self {
            source_port: two(0),
            destination_port: two(2),
            seq: Seq(four(4)),
            ack: Seq(four(8)),
            flags: Flags(head[13]),
            window: two(14),
            urgent: two(18),
        };
        Some((header, data_offset))
    }

    /// The header as bytes, in front of `options_len` bytes of options, without a checksum.
    #[inline]
    pub(crate) fn bytes(&self, options_len: usize) -> [u8; HEADER] {
        let mut head = [0; HEADER];
        head[..2].copy_from_slice(&self.source_port.to_be_bytes());
        head[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        head[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        head[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        head[12] = (((HEADER + options_len) / 4) << 4) as u8;
        head[13] = self.flags.0;
        head[14..16].copy_from_slice(&self.window.to_be_bytes());
        head[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        head
    }
}

/// Bytes of the fixed part.
pub(crate) const HEADER: usize = 20;

/// Where the checksum is in it.
pub(crate) const CHECKSUM_AT: usize = 16;
