//! What only a connection in trouble needs: taken from a pool when a loss, a reordering or a gap shows, and given back
//! once all is well.

use std::ops::{Index, IndexMut};

use anywire_packet::{SACK_MAX, Seq};

use crate::congestion::{Prior, Prr};
use crate::engine::{ConnIndex, Pace};
use crate::mtu_search::MtuSearch;
use crate::pool::Cell;
use crate::recovery::{Rack, Tlp};
use crate::slab::{Linked, Slab};
use crate::time::Tick;

/// The rest of a TCB.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Extension {
    /// The last of the segments that arrived out of order, in the order of their numbers, none overlapping another.
    pub(crate) out_of_order_tail: Cell,
    pub(crate) out_of_order_count: u16,
    /// When the first of them came, or the last one that filled a gap.
    pub(crate) out_of_order_since: Tick,
    /// The connection's place.
    pub(crate) owner: ConnIndex,
    /// Segments in flight that the peer has and others before them it has not.
    pub(crate) sacked_segments: u16,
    pub(crate) sacked_bytes: u32,
    /// Bytes of the segments in flight whose marks say that they are lost and not sent again since.
    pub(crate) lost_bytes: u32,
    /// A checksum of the blocks in the last ACK.
    pub(crate) last_blocks: u32,
    /// When an ACK with other blocks told nothing new, and how many did so in that millisecond.
    pub(crate) told_nothing: (Tick, u8),
    /// Sequence numbers within the blocks to report first: the segment that arrived last, then the blocks reported last
    /// (RFC 2018, section 4).
    pub(crate) newest: [Seq; SACK_MAX],
    /// A duplicate to report with the next ACK (RFC 2883): empty if both are equal.
    pub(crate) duplicate: (Seq, Seq),
    /// The window before the last reduction, should that prove mistaken (RFC 3522).
    pub(crate) prior: Option<Prior>,
    /// When the first segment after it was sent again.
    pub(crate) resent_at: Option<Tick>,
    /// Retransmissions since then that were not reported as duplicates.
    pub(crate) resent_count: u16,
    /// Segments out of order that were not answered yet. Without SACK the peer counts the answers.
    pub(crate) acks_owed: u8,
    /// The next segment is a loss probe.
    pub(crate) probe_due: bool,
    pub(crate) prr: Prr,
    pub(crate) rack: Rack,
    pub(crate) tlp: Tlp,
    pub(crate) pace: Pace,
    /// The path's MTU is below the minimum for IPv4, so routers may fragment its packets.
    pub(crate) may_be_fragmented: bool,
    /// Long segments were lost again and again: how long the next ones may be.
    pub(crate) mtu_search: Option<MtuSearch>,
    /// In a free place: which place is free next.
    pub(crate) next_free: u32,
}

const _: () = assert!(size_of::<Extension>() <= 192);

impl Extension {
    /// Forgets the retransmissions so far, and keeps the window to go back to if those to come prove mistaken.
    pub(crate) const fn begin_repair(&mut self, prior: Option<Prior>) {
        self.prior = prior;
        self.resent_at = None;
        self.resent_count = 0;
    }
}

/// The place of an extension, in the 24 bits that a TCB has for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExtensionId([u8; 3]);

impl ExtensionId {
    /// Stands for no extension.
    pub(crate) const NONE: Self = Self([u8::MAX; 3]);
    /// How many there can be.
    pub(crate) const COUNT_MAX: usize = (1 << 24) - 1;

    #[inline(always)]
    pub(crate) const fn new(place: u32) -> Self {
        let [low, middle, high, _] = place.to_le_bytes();
        Self([low, middle, high])
    }

    #[inline(always)]
    pub(crate) const fn place(self) -> u32 {
        let [low, middle, high] = self.0;
        u32::from_le_bytes([low, middle, high, 0])
    }
}

impl Default for ExtensionId {
    fn default() -> Self {
        Self::NONE
    }
}

impl Index<ExtensionId> for Slab<Extension> {
    type Output = Extension;

    #[inline]
    fn index(&self, id: ExtensionId) -> &Extension {
        &self[id.place()]
    }
}

impl IndexMut<ExtensionId> for Slab<Extension> {
    #[inline]
    fn index_mut(&mut self, id: ExtensionId) -> &mut Extension {
        &mut self[id.place()]
    }
}

impl Default for Extension {
    fn default() -> Self {
        Self {
            out_of_order_tail: Cell::NONE,
            out_of_order_count: 0,
            out_of_order_since: Tick(0),
            owner: ConnIndex::NONE,
            sacked_segments: 0,
            sacked_bytes: 0,
            lost_bytes: 0,
            last_blocks: 0,
            told_nothing: (Tick(0), 0),
            newest: [Seq(0); SACK_MAX],
            duplicate: (Seq(0), Seq(0)),
            prior: None,
            resent_at: None,
            resent_count: 0,
            acks_owed: 0,
            probe_due: false,
            prr: Prr::NEW,
            rack: Rack::new(Seq(0), 0),
            tlp: Tlp::NONE,
            pace: Pace::NONE,
            may_be_fragmented: false,
            mtu_search: None,
            next_free: 0,
        }
    }
}

impl Linked for Extension {
    type Place = u32;

    fn next_free(&mut self) -> &mut u32 {
        &mut self.next_free
    }
}
