//! A half-open connection, whose SYN alone has come: a small block, so that a flood of SYNs costs little.

use crate::engine::ListenerId;
use crate::seq::Seq;
use crate::slab::Linked;
use crate::time::Tick;

/// SYN-RECEIVED after a passive open (RFC 9293 3.3.2), in 48 bytes.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct HalfOpen {
    /// As in a block; in a free place: which place is free next.
    pub(crate) remote: u32,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
    pub(crate) local: u16,
    pub(crate) route: u16,
    pub(crate) irs: Seq,
    pub(crate) iss: Seq,
    pub(crate) ts_recent: u32,
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
    pub(crate) offered: Offered,
    /// It is used, and not a free place.
    pub(crate) used: bool,
}

const _: () = assert!(size_of::<HalfOpen>() <= 48);

/// What a SYN offered beside its MSS and window scale.
#[derive(Clone, Copy, Default)]
pub(crate) struct Offered {
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    pub(crate) ecn: bool,
}

impl Linked for HalfOpen {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.remote
    }
}
