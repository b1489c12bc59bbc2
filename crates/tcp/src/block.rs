//! The control block: all that a connection is while nothing goes wrong, in 128 bytes.
//!
//! Two lines of the cache. The hot one is what each segment reads and writes; the warm one is touched when payload
//! moves, a timer is set or the congestion window binds. What only a connection in trouble needs (a scoreboard, what
//! arrived out of order) is an [`Extension`](crate::extension::Extension), taken from a pool while it is needed.
//!
//! Left out are ISS and IRS, which only the handshake needs, and the offset of the timestamps, a keyed function of the
//! peer's address. SND.WL2 is not needed, because SEG.SEQ orders the updates and SND.UNA never goes back.

use std::mem::offset_of;

use crate::congestion::{Algorithm, Window};
use crate::extension::ExtensionId;
use crate::peer_acks::PeerAcks;
use crate::pool::Cell;
use crate::rtt::Rtt;
use crate::seq::Seq;
use crate::slab::Linked;
use crate::time::Tick;

/// A connection.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Block {
    // The hot line.
    /// An IPv4 address, or the number of an IPv6 address in the engine's list of them. In a free place: which place
    /// is free next.
    pub(crate) remote: u32,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
    /// Which of the engine's own addresses. It also tells the address family of the connection.
    pub(crate) local: u16,
    pub(crate) route: u16,
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
    /// When to send again: RTO, loss probe, reordering, or a probe of a closed window; if [`Flags::RETRANSMIT`]. Once all
    /// is acknowledged it still tells when the last flight began.
    pub(crate) retransmit_at: Tick,
    pub(crate) flags: Flags,
    pub(crate) state: State,
    /// The shift of the peer's window in the low four bits, of ours in the high four (RFC 7323, section 2).
    pub(crate) scales: u8,
    /// Duplicate ACKs in a row, and how long the peer delays others. In SYN-SENT the count is the class.
    pub(crate) peer_acks: PeerAcks,
    /// How often the retransmission timer has fired in a row.
    pub(crate) backoff: u8,
    /// The most payload that a segment to the peer carries, options already taken off.
    pub(crate) eff_mss: u16,
    /// When TS.Recent was set, in units of 2^24 ms (4.7 h): it is out of date after 24 days (RFC 7323 5.5).
    pub(crate) ts_recent_age: u8,
    /// A traffic class as IP has it: the Diffserv field of its packets (RFC 2474). In the two bits of ECN, its class among
    /// the connections that wait to send.
    pub(crate) class: u8,

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
    /// The tick at which the wheel will look at it, if [`Flags::IN_WHEEL`]; else if [`Flags::FRESH`], that at which the queue
    /// of the fresh will, to tell its entry from those of earlier connections in this place.
    pub(crate) wheel_at: Tick,
    /// When the timer fired for the first time since the last progress, if `backoff` is not zero.
    pub(crate) stalled_at: Tick,
    /// Bytes that arrived in order and were not read yet.
    pub(crate) unread: u32,
    /// The sequence number after the last byte that the user has given: bytes from SND.UNA up to here are in the send
    /// queue.
    pub(crate) write_end: Seq,
    /// When the peer was last heard of, for keep-alive; in FIN-WAIT-2 and TIME-WAIT without a user, when that state began.
    pub(crate) heard_at: Tick,
    /// Segments in the send queue.
    pub(crate) queued: u16,
    /// The largest window ever offered by the peer, in units of 2^6 (RFC 9293 3.8.6.2.1).
    pub(crate) max_snd_wnd: u16,
}

const _: () = assert!(size_of::<Block>() == 128);
const _: () = assert!(offset_of!(Block, window) == 64);

/// The least payload of a segment that counts as full: what each host takes without having said so (RFC 9293 MUST-15).
const FULL_LEAST: u32 = 536;

impl Block {
    pub(crate) const NO_EXTENSION: ExtensionId = ExtensionId::NONE;

    /// Bytes that were sent and not acknowledged.
    pub(crate) fn flight(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// The round trip of a segment that was in flight alone, whose ACK the peer may have delayed. The first one of all is the
    /// round trip, whatever it holds.
    #[inline(always)]
    pub(crate) fn measure_lone(&mut self, micros: u32) {
        if self.rtt.is_measured() {
            self.peer_acks.measure_delay(micros.saturating_sub(self.rtt.srtt_micros()));
        }
        self.rtt.sample(micros);
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

    /// The Diffserv field as it stands in the IP header, whose bits of ECN are zero.
    #[inline(always)]
    pub(crate) const fn dscp(&self) -> u8 {
        self.class & DSCP
    }

    /// Puts it into a class of connections that wait to send.
    #[inline(always)]
    pub(crate) const fn set_turn(&mut self, class: u8) {
        self.class = self.dscp() | class;
    }

    /// Whether `heard_at` is when its last state began, since that state is left by itself.
    pub(crate) const fn times_its_end(&self) -> bool {
        matches!(self.state, State::TimeWait)
            || matches!(self.state, State::FinWait2) && self.has(Flags::DETACHED)
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
            && (self.backoff, self.peer_acks) == (0, PeerAcks::NEW)
    }

    /// The part of a connection's id beside the place: the generation, and bits of the peer's address and of both ports.
    /// None of them changes while a user holds the connection. The 8 bits of the generation alone would repeat after 256
    /// short connections.
    #[inline(always)]
    pub(crate) const fn tag(&self) -> u32 {
        let ports = (self.remote_port as u32) << 16 | self.local_port as u32;
        // The upper bits of a product depend on all bits below them.
        let mixed = (self.remote ^ ports.rotate_left(7)).wrapping_mul(0x9e37_79b1);
        mixed & !0xff | self.generation as u32
    }

    /// Whether anything waits to be sent that never was.
    pub(crate) const fn has_unsent(&self) -> bool {
        !self.send_next.is_none()
    }
}

impl Linked for Block {
    const FREE: Self = Self {
        remote: u32::MAX,
        remote_port: 0,
        local_port: 0,
        local: 0,
        route: 0,
        rcv_nxt: Seq(0),
        rcv_right: Seq(0),
        snd_una: Seq(0),
        snd_nxt: Seq(0),
        snd_right: Seq(0),
        snd_wl1: Seq(0),
        ts_recent: 0,
        last_ack_sent: Seq(0),
        rtt: Rtt::NONE,
        retransmit_at: Tick(0),
        flags: Flags::NONE,
        state: State::Closed,
        scales: 0,
        peer_acks: PeerAcks::NEW,
        backoff: 0,
        eff_mss: 0,
        ts_recent_age: 0,
        class: 0,
        window: Window::CLOSED,
        send_tail: Cell::NONE,
        send_next: Cell::NONE,
        receive_tail: Cell::NONE,
        extension: Self::NO_EXTENSION,
        generation: 0,
        wheel_at: Tick(0),
        stalled_at: Tick(0),
        unread: 0,
        write_end: Seq(0),
        heard_at: Tick(0),
        queued: 0,
        max_snd_wnd: 0,
    };

    fn next_free(&mut self) -> &mut u32 {
        &mut self.remote
    }
}

/// The bits of the Diffserv field in a traffic class.
pub(crate) const DSCP: u8 = 0b1111_1100;

/// The states of RFC 9293 3.3.2 that have a block. LISTEN is a listener; a passive SYN-RECEIVED is a
/// [`HalfOpen`](crate::half_open::HalfOpen); TIME-WAIT is a [`TimeWait`](crate::time_wait::TimeWait) as soon as the
/// connection has no user any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// A free place, or a connection that has ended and that its user still holds.
    Closed,
    SynSent,
    /// After a simultaneous open (RFC 9293 3.5, figure 7).
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

impl State {
    /// Whether the handshake is behind it.
    pub(crate) const fn is_synchronized(self) -> bool {
        self as u8 >= Self::Established as u8
    }

    /// Whether the user may still send.
    pub(crate) const fn may_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Whether payload of the peer is still taken.
    pub(crate) const fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }
}

/// Agreements of the handshake, things owed and things pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags(pub(crate) u32);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    /// Timestamps were agreed (RFC 7323).
    pub(crate) const TIMESTAMPS: Self = Self(1);
    /// SACK was agreed (RFC 2018).
    pub(crate) const SACK: Self = Self(1 << 1);
    /// ECN was agreed (RFC 3168).
    pub(crate) const ECN: Self = Self(1 << 2);
    /// Nagle's algorithm is off for this connection (RFC 9293 3.7.4).
    pub(crate) const NO_NAGLE: Self = Self(1 << 3);
    /// The user has ended its direction; a FIN is queued or sent.
    pub(crate) const FIN_QUEUED: Self = Self(1 << 4);
    /// Everything of the peer has arrived, its FIN included.
    pub(crate) const FIN_RECEIVED: Self = Self(1 << 5);
    /// An ACK is owed, and may wait for company (RFC 9293 3.8.6.3).
    pub(crate) const ACK_OWED: Self = Self(1 << 6);
    /// An ACK must leave at the next transmission.
    pub(crate) const ACK_NOW: Self = Self(1 << 7);
    /// In the queue of delayed ACKs.
    pub(crate) const ACK_QUEUED: Self = Self(1 << 8);
    /// In a ring of connections that wait to send.
    pub(crate) const IN_TURN: Self = Self(1 << 9);
    /// In the list of those whose user has something to see.
    pub(crate) const IN_READY: Self = Self(1 << 10);
    /// Repairing losses (RFC 6675, 6582).
    pub(crate) const RECOVERING: Self = Self(1 << 11);
    /// After a retransmission timeout, until all that was in flight then is acknowledged.
    pub(crate) const TIMED_OUT: Self = Self(1 << 12);
    /// The congestion window, and not the user or the peer, held back the last transmission.
    pub(crate) const CWND_LIMITED: Self = Self(1 << 13);
    /// It has ended otherwise than by FINs; `backoff` holds the reason.
    pub(crate) const BROKEN: Self = Self(1 << 14);
    /// In the wheel, at `wheel_at`.
    pub(crate) const IN_WHEEL: Self = Self(1 << 15);
    /// Among the connections that have sent lately: looked at once before they cost a place in the wheel.
    pub(crate) const FRESH: Self = Self(1 << 16);
    /// `retransmit_at` holds.
    pub(crate) const RETRANSMIT: Self = Self(1 << 17);
    /// The peer's window is closed: `retransmit_at` is the next probe of it.
    pub(crate) const PROBING_WINDOW: Self = Self(1 << 18);
    /// `retransmit_at` is a loss probe (RFC 8985, section 7) or a check for reordering (section 6.2).
    pub(crate) const LOSS_TIMER: Self = Self(1 << 19);
    /// Congestion was experienced: ECE until the peer says CWR (RFC 3168 6.1.3).
    pub(crate) const ECHO_CONGESTION: Self = Self(1 << 20);
    /// The window was reduced because of ECE: CWR with the next new data (RFC 3168 6.1.2).
    pub(crate) const REDUCED: Self = Self(1 << 21);
    /// It has a deadline or keep-alive: its [`Watch`](crate::watch::Watch) says which.
    pub(crate) const WATCHED: Self = Self(1 << 22);
    /// The user has let go of it.
    pub(crate) const DETACHED: Self = Self(1 << 23);
    // What the user has not been told yet.
    pub(crate) const TELL_OPENED: Self = Self(1 << 24);
    pub(crate) const TELL_READABLE: Self = Self(1 << 25);
    pub(crate) const TELL_WRITABLE: Self = Self(1 << 26);
    pub(crate) const TELL_CLOSED: Self = Self(1 << 27);
    /// It came from a listener.
    pub(crate) const PASSIVE: Self = Self(1 << 28);
    /// The user wants to hear when there is room to send.
    pub(crate) const WANTS_ROOM: Self = Self(1 << 29);
    /// NewReno opens its window, not CUBIC.
    pub(crate) const NEW_RENO: Self = Self(1 << 30);
    /// Our FIN has been sent.
    pub(crate) const FIN_SENT: Self = Self(1 << 31);

    /// The flags of the timer for data in flight.
    pub(crate) const TIMES_A_FLIGHT: Self = Self(Self::RETRANSMIT.0 | Self::LOSS_TIMER.0);

    pub(crate) const TELL: Self =
        Self(Self::TELL_OPENED.0 | Self::TELL_READABLE.0 | Self::TELL_WRITABLE.0 | Self::TELL_CLOSED.0);

    pub(crate) const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    pub(crate) const fn set(&mut self, flags: Self) {
        self.0 |= flags.0;
    }

    pub(crate) const fn clear(&mut self, flags: Self) {
        self.0 &= !flags.0;
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
