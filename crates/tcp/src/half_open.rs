//! A half-open connection, whose SYN alone has come: a small TCB, so that a flood of SYNs costs little.

use anywire_packet::Seq;

use crate::engine::ListenerId;
use crate::slab::Linked;
use crate::time::Tick;

/// SYN-RECEIVED after a passive open (RFC 9293 3.3.2), in 48 bytes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct HalfOpen {
    /// As in a TCB; in a free place: which place is free next.
    pub(crate) remote: u32,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
    pub(crate) local: u16,
    pub(crate) neighbour: u16,
    pub(crate) irs: Seq,
    pub(crate) iss: Seq,
    pub(crate) ts_recent: u32,
    /// As in a TCB.
    pub(crate) ts_offset: u32,
    /// When the SYN-ACK left, in microseconds that wrap: gives the first measurement of the round trip, and tells when it is
    /// sent again.
    pub(crate) sent_at: u32,
    /// When it is looked at next: the tick of its entry in the queue of the young, or in the wheel.
    pub(crate) looked_at: Tick,
    /// The window of the SYN, never scaled (RFC 7323 2.2).
    pub(crate) window: u16,
    pub(crate) peer_mss: u16,
    pub(crate) listener: ListenerId,
    /// The shift that the peer offered.
    pub(crate) window_scale: Option<u8>,
    pub(crate) transmissions: u8,
    pub(crate) traits: Traits,
}

const _: () = assert!(size_of::<HalfOpen>() <= 48);

/// What a half-open connection or a TIME-WAIT has beside its numbers: of its SYN, and how it stands.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits(u8);

impl Traits {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const TIMESTAMPS: Self = Self(1);
    pub(crate) const SACK: Self = Self(1 << 1);
    pub(crate) const ECN: Self = Self(1 << 2);
    /// It is used, and not a free place.
    pub(crate) const USED: Self = Self(1 << 3);
    /// It has answered lately what may be forged, or may be an answer itself.
    pub(crate) const ANSWERED: Self = Self(1 << 4);

    pub(crate) const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn set(&mut self, one: Self) {
        self.0 |= one.0;
    }

    pub(crate) const fn clear(&mut self, one: Self) {
        self.0 &= !one.0;
    }

    /// Of what a SYN offers, only what this one offers, too.
    pub(crate) const fn keep_offers_in(&mut self, offered: Self) {
        let all = Self::TIMESTAMPS.with(Self::SACK).with(Self::ECN);
        self.0 &= offered.0 | !all.0;
    }

    /// Itself if the condition holds, otherwise none.
    pub(crate) const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }
}

impl Linked for HalfOpen {
    type Place = u32;

    fn next_free(&mut self) -> &mut u32 {
        &mut self.remote
    }
}
