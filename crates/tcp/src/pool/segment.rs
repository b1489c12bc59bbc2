//! What the pool knows of a segment, beside its bytes.

use anywire_packet::Seq;

use super::Cell;

/// The metadata of a segment.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Segment {
    /// The next one of the queue. The last one points to the first: so one index gives both ends.
    pub(crate) next: Cell,
    /// The sequence number of the first byte.
    pub(crate) seq: Seq,
    /// Microseconds, wrapping: when it was sent last.
    pub(crate) sent_at: u32,
    /// The first byte's place in the cell: moves on while a reader takes parts.
    pub(crate) start: u16,
    pub(crate) length: u16,
    pub(crate) marks: Marks,
    pub(crate) transmissions: u8,
}

/// What became of a segment that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks(pub(crate) u8);

impl Marks {
    pub(crate) const NONE: Self = Self(0);
    /// The peer has said that it holds it (RFC 2018).
    pub(crate) const SACKED: Self = Self(1);
    /// Taken for lost, and not sent again since.
    pub(crate) const LOST: Self = Self(2);
    /// Sent more than once: no measure of the round trip (RFC 6298, section 3).
    pub(crate) const RESENT: Self = Self(4);
    /// Carries the FIN, which takes a sequence number after its bytes.
    pub(crate) const FIN: Self = Self(8);
    /// To be pushed to the reader at once.
    pub(crate) const PUSH: Self = Self(16);

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of these is set.
    pub(crate) const fn has(self, mark: Self) -> bool {
        self.0 & mark.0 != 0
    }

    pub(crate) const fn set(&mut self, mark: Self) {
        self.0 |= mark.0;
    }

    pub(crate) const fn clear(&mut self, mark: Self) {
        self.0 &= !mark.0;
    }
}

impl Segment {
    /// The sequence number after it.
    pub(crate) fn end(&self) -> Seq {
        self.seq + u32::from(self.length) + u32::from(self.marks.has(Marks::FIN))
    }
}
