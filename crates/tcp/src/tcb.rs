//! The TCB: all that a connection is while nothing goes wrong, in 128 bytes.
//!
//! Two lines of the cache. The hot one is what each segment reads and writes; the warm one is touched when payload
//! moves, a timer is set or the congestion window binds. What only a connection in trouble needs (a scoreboard, what
//! arrived out of order) is an [`Extension`](crate::extension::Extension), taken from a pool while it is needed.
//!
//! Left out are ISS and IRS, which only the handshake needs. SND.WL2 is not needed, because SEG.SEQ orders the updates and SND.UNA never goes back.

mod service_class;
mod shared;
mod state;

use std::mem::offset_of;

use anywire_packet::Seq;

use crate::congestion::{Algorithm, Window};
use crate::engine::ConnIndex;
use crate::extension::ExtensionId;
use crate::peer_acks::PeerAcks;
use crate::pool::Cell;
use crate::rtt::Rtt;
use crate::slab::Linked;
use crate::time::Tick;

pub(crate) use self::service_class::ServiceClass;
pub(crate) use self::state::{Flags, State};

/// A connection. The private fields mean different things in different states: [`shared`] has an accessor for each meaning.
#[derive(Clone, Copy, Default)]
#[repr(C, align(128))]
pub(crate) struct Tcb {
    // The hot line.
    /// An IPv4 address, or the number of an IPv6 address in the engine's list of them. In a free place: which place
    /// is free next.
    pub(crate) remote: u32,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
    /// Which of the engine's own addresses. It also tells the address family of the connection.
    pub(crate) local: u16,
    /// Which of the engine's neighbours takes its packets.
    pub(crate) neighbour: u16,
    pub(crate) rcv_nxt: Seq,
    /// The right edge of the window that the peer was told. It never goes back (RFC 9293 3.8.6).
    pub(crate) rcv_right: Seq,
    pub(crate) snd_una: Seq,
    pub(crate) snd_nxt: Seq,
    /// The right edge of the window that the peer gives.
    pub(crate) snd_right: Seq,
    pub(crate) snd_wl1: Seq,
    /// TS.Recent of RFC 7323.
    pub(crate) ts_recent: u32,
    /// Last.ACK.sent of RFC 7323; also tells how much waits to be acknowledged.
    pub(crate) last_ack_sent: Seq,
    pub(crate) rtt: Rtt,
    /// The timer of a flight, and after it a mark of idleness.
    retransmit_at: Tick,
    pub(crate) flags: Flags,
    pub(crate) state: State,
    /// The shift of the peer's window in the low four bits, of ours in the high four (RFC 7323, section 2).
    pub(crate) scales: u8,
    /// How the peer acknowledges. During the handshake its own ring of senders.
    peer_acks: PeerAcks,
    /// How often the timeout is doubled, timeouts in a row, and whether it has answered lately. After the end its reason.
    backoff: u8,
    /// The most payload that a segment to the peer carries, options already taken off.
    pub(crate) eff_mss: u16,
    /// When TS.Recent was set, in units of 2^24 ms (4.7 h): it is out of date after 24 days (RFC 7323 5.5).
    pub(crate) ts_recent_age: u8,
    /// How its packets are sent.
    pub(crate) class: ServiceClass,

    // The warm line.
    pub(crate) window: Window,
    /// The last segment that is not acknowledged, or not yet sent.
    pub(crate) send_tail: Cell,
    /// The first segment that was never sent.
    pub(crate) send_next: Cell,
    /// The last segment that waits for the reader, or the frame that does (see [`crate::engine`]).
    pub(crate) receive_tail: Cell,
    pub(crate) extension: ExtensionId,
    /// How many connections have had this place, as far as 8 bits count: tells the ids of successive ones apart, together
    /// with the addresses and ports. It outlives the connection.
    pub(crate) generation: u8,
    /// The tick of its entry in the wheel, or in the queue of the fresh.
    wheel_at: Tick,
    /// Where the clock of its timestamps starts (RFC 7323 7.1).
    pub(crate) ts_offset: u32,
    /// Bytes that arrived in order and were not read yet. In SYN-SENT when the SYN left.
    unread: u32,
    /// The sequence number after the last byte that the user has given: bytes from SND.UNA up to here are in the send
    /// queue.
    pub(crate) write_end: Seq,
    /// When the peer was last heard of, or gave the last sign of progress. In a state that ends by itself, when that began.
    heard_at: Tick,
    /// Segments in the send queue.
    pub(crate) queued: u16,
    /// The largest window ever offered by the peer, in units of 2^6 (RFC 9293 3.8.6.2.1).
    pub(crate) max_snd_wnd: u16,
}

const _: () = assert!(size_of::<Tcb>() == 128);
const _: () = assert!(offset_of!(Tcb, window) == 64);

/// A bit that every tag has, so that none is [that of claimed connections](crate::engine::CLAIMED).
const NOT_CLAIMED: u32 = 1 << 8;

/// The least payload of a segment that counts as full: what each host takes without having said so (RFC 9293 MUST-15).
const FULL_LEAST: u32 = 536;

impl Tcb {
    pub(crate) const NO_EXTENSION: ExtensionId = ExtensionId::NONE;

    /// Bytes that were sent and not acknowledged.
    pub(crate) fn flight(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// The number of a segment without text: SND.NXT, unless the peer has taken back the window of what is in flight. It accepts
    /// nothing behind the edge of its window then (RFC 9293 3.8.6, MUST-34). A FIN needs no window, and scaling loses less than a
    /// unit.
    pub(crate) fn bare_seq(&self) -> Seq {
        let beyond = (self.snd_nxt - self.snd_right).cast_signed();
        if beyond > 1 << self.send_scale() { self.snd_right.max(self.snd_una) } else { self.snd_nxt }
    }

    /// Whether congestion control has reacted to this window of data outside of a repair, to a mark or to a loss that a probe
    /// has repaired: it reacts once a window (RFC 3168 6.1.2, RFC 8985 7.4.2).
    pub(crate) const fn has_reacted(&self) -> bool {
        self.snd_una.lt(self.window.recover) && !self.has(Flags::RECOVERING.with(Flags::TIMED_OUT))
    }

    /// Whether an ACK may wait no longer, after so many bytes have arrived: every second full segment has one (RFC 9293
    /// 3.8.6.3, SHLD-19). The size of the segment that has arrived counts, because the peer's path may take less than ours
    /// (RFC 5681 4.2). A segment smaller than [`FULL_LEAST`] is not full, and the ACK waits for twice our own segment size.
    #[inline(always)]
    pub(crate) fn owes_ack_now(&self, arrived: u32) -> bool {
        let ours = u32::from(self.eff_mss);
        let full = if arrived < FULL_LEAST { ours } else { arrived.min(ours) };
        self.rcv_nxt - self.last_ack_sent >= 2 * full
    }

    /// Whether it owes an ACK that neither leaves at the next transmission nor is in the queue of delayed ACKs.
    pub(crate) const fn owes_unseen_ack(&self) -> bool {
        let seen = Flags::ACK_NOW.with(Flags::ACK_QUEUED);
        self.flags.0 & (seen.0 | Flags::ACK_OWED.0) == Flags::ACK_OWED.0
    }

    /// The shift of windows that the peer announces.
    pub(crate) const fn send_scale(&self) -> u32 {
        (self.scales & 15) as u32
    }

    /// The shift of windows that we announce.
    pub(crate) const fn receive_scale(&self) -> u32 {
        (self.scales >> 4) as u32
    }

    /// How its congestion window grows.
    pub(crate) const fn algorithm(&self) -> Algorithm {
        if self.has(Flags::NEW_RENO) { Algorithm::NewReno } else { Algorithm::Cubic }
    }

    pub(crate) const fn has(&self, flags: Flags) -> bool {
        self.flags.has(flags)
    }

    /// Whether it equals a free place, except for the link. Code that takes the place relies on that.
    pub(crate) fn is_blank(&self) -> bool {
        (self.state, self.flags, self.extension) == (State::Closed, Flags::NONE, Self::NO_EXTENSION)
            && self.send_tail.is_none()
            && self.send_next.is_none()
            && self.receive_tail.is_none()
            && (self.unread, self.queued, self.max_snd_wnd) == (0, 0, 0)
            && (self.backoff, self.peer_acks) == (0, PeerAcks::default())
    }

    /// The part of a connection's id beside the place: the generation, and bits of the peer's address and of both ports.
    /// None of them changes while a user holds the connection. The 8 bits of the generation alone would repeat after 256
    /// short connections.
    #[inline(always)]
    pub(crate) const fn tag(&self) -> u32 {
        // In the order in which they lie in memory: one load.
        let ports = (self.local_port as u32) << 16 | self.remote_port as u32;
        // The upper bits of a product depend on all bits below them.
        let mixed = (self.remote ^ ports.rotate_left(7)).wrapping_mul(0x9e37_79b1);
        mixed & !0xff | NOT_CLAIMED | self.generation as u32
    }

    /// Whether our FIN has left, which is the last that we send.
    pub(crate) fn has_sent_fin(&self) -> bool {
        self.has(Flags::FIN_QUEUED) && self.snd_nxt == self.write_end
    }

    /// Whether it is in TIME-WAIT, and timestamps tell its segments from those of a new connection that we open.
    pub(crate) fn may_give_way(&self) -> bool {
        self.state == State::TimeWait && self.has(Flags::TIMESTAMPS)
    }

    /// Whether anything waits to be sent that never was.
    pub(crate) const fn has_unsent(&self) -> bool {
        !self.send_next.is_none()
    }
}

impl Linked for Tcb {
    type Place = ConnIndex;

    fn next_free(&mut self) -> &mut u32 {
        &mut self.remote
    }
}
