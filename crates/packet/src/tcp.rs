//! The TCP header without its options (RFC 9293 3.1).

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// The control bits. The reserved bits are ignored on arrival and sent as zero.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No bit.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// The sequence number is the first one.
    pub const SYN: Self = Self(0x02);
    /// The connection is over.
    pub const RST: Self = Self(0x04);
    /// The reader should have it now.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number means something.
    pub const ACK: Self = Self(0x10);
    /// Congestion was met (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// The window was reduced for it (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Both sets together, where a constant is wanted.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These without the others.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of `other` is set.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// How many sequence numbers the bits take: one for SYN, one for FIN.
    pub const fn sequence_len(self) -> u32 {
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

/// Bytes of the fixed part.
pub const HEADER: usize = 20;

/// Where the checksum is in it.
pub const CHECKSUM_AT: usize = 16;
