//! The fields of a TCB that mean different things in different states: an accessor for each meaning.
//!
//! The TCB has no byte left, so these fields serve two states each. They are private to the TCB, and in debug builds
//! each accessor checks the state.

use super::{Flags, State, Tcb};
use crate::engine::End;
use crate::peer_acks::PeerAcks;
use crate::time::Tick;

/// `retransmit_at`: the timer of a flight. Once all is acknowledged, it still tells when the last flight began.
impl Tcb {
    /// When to send again: the RTO, a loss probe, a check for reordering, or a probe of a closed window.
    pub(crate) fn retransmit_at(&self) -> Option<Tick> {
        self.has(Flags::RETRANSMIT).then_some(self.retransmit_at)
    }

    pub(crate) fn set_retransmit_at(&mut self, at: Tick) {
        self.flags.set(Flags::RETRANSMIT);
        self.retransmit_at = at;
    }

    /// The same for a caller that sets [`Flags::RETRANSMIT`] together with other flags.
    pub(crate) const fn time_flight(&mut self, at: Tick) {
        self.retransmit_at = at;
    }

    /// The time that only tells whether it was idle, if no flight is timed.
    pub(crate) fn mark_of_idleness_mut(&mut self) -> Option<&mut Tick> {
        (!self.has(Flags::RETRANSMIT)).then_some(&mut self.retransmit_at)
    }

    /// Whether nothing was sent for an RTO (RFC 5681 4.1).
    pub(crate) fn was_idle_for_rto(&self, now: Tick) -> bool {
        debug_assert!(self.flight() == 0, "in {:?}", self.state);
        self.retransmit_at.is_due(now)
    }
}

/// `wheel_at`: the tick of its entry in the wheel. Without one, the tick of its entry in the queue of the fresh.
impl Tcb {
    pub(crate) fn wheel_at(&self) -> Option<Tick> {
        self.has(Flags::IN_WHEEL).then_some(self.wheel_at)
    }

    pub(crate) fn enter_wheel(&mut self, at: Tick) {
        self.flags.set(Flags::IN_WHEEL);
        self.wheel_at = at;
    }

    pub(crate) fn enter_fresh(&mut self, at: Tick) {
        self.flags.set(Flags::FRESH);
        if !self.has(Flags::IN_WHEEL) {
            self.wheel_at = at;
        }
    }

    /// Whether an entry of the fresh for this tick is its own, and not that of an earlier connection in its place.
    pub(crate) fn has_fresh_entry(&self, at: Tick) -> bool {
        self.has(Flags::FRESH) && (self.has(Flags::IN_WHEEL) || self.wheel_at == at)
    }

    /// Whether the wheel leads to all that it waits for: it has nothing in flight and no gaps, and its keep-alive and its user's
    /// deadline are due no earlier than its entry. So its idle timer, a line of the cache, need not be read.
    pub(crate) fn is_left_to_wheel(&self) -> bool {
        self.has(Flags::IN_WHEEL)
            && !self.has(Flags::RETRANSMIT)
            && self.state == State::Established
            && self.extension == Self::NO_EXTENSION
    }

    /// Whether the queue of the fresh or the wheel leads to it by then.
    pub(crate) fn is_looked_at_by(&self, at: Tick) -> bool {
        self.has(Flags::FRESH) || self.has(Flags::IN_WHEEL) && !at.is_before(self.wheel_at)
    }
}

/// `backoff`: in the low four bits how often the timeout is doubled, in three more the timeouts in a row, and in the topmost
/// whether it has answered lately. After the end, its reason.
impl Tcb {
    /// How often the retransmission timeout is doubled (RFC 6298 5.5): up to 15 times.
    #[inline(always)]
    pub(crate) fn backoff(&self) -> u8 {
        debug_assert!(self.state != State::Closed);
        self.backoff & BACKOFF
    }

    /// How often the retransmission timer has fired since there was progress, or how many probes of a closed window have left. All
    /// counts from seven up are equal.
    pub(crate) fn timeouts(&self) -> u8 {
        debug_assert!(self.state != State::Closed);
        (self.backoff & TIMEOUTS) >> TIMEOUTS_SHIFT
    }

    /// The timer has fired: it will take twice as long.
    pub(crate) fn note_timeout(&mut self) {
        debug_assert!(self.state != State::Closed);
        self.backoff += u8::from(self.backoff & BACKOFF < BACKOFF);
        self.backoff += u8::from(self.backoff & TIMEOUTS < TIMEOUTS) << TIMEOUTS_SHIFT;
    }

    /// There was progress. The timeout stays as long as it is: only a measurement [ends the backoff](Self::end_backoff).
    pub(crate) fn end_timeouts(&mut self) {
        debug_assert!(self.state != State::Closed);
        self.backoff &= !TIMEOUTS;
    }

    /// The timeout is that of RFC 6298, section 2, again: a round trip was measured (Karn's rule, section 3), or what the timer was
    /// for is over. No timeouts are in a row.
    #[inline(always)]
    pub(crate) fn end_backoff(&mut self) {
        debug_assert!(self.state != State::Closed);
        self.backoff &= ANSWERED;
    }

    /// Whether it has answered lately what may be forged, or may be an answer itself.
    pub(crate) const fn has_answered(&self) -> bool {
        self.backoff & ANSWERED != 0
    }

    pub(crate) fn note_answer(&mut self) {
        debug_assert!(self.state != State::Closed);
        self.backoff |= ANSWERED;
    }

    /// The place may be that of another connection by now, or of none.
    pub(crate) const fn forget_answer(&mut self) {
        self.backoff &= !ANSWERED;
    }

    /// How a connection ended that its user still holds.
    pub(crate) fn end(&self) -> End {
        debug_assert!(self.state == State::Closed);
        match self.backoff {
            2 => End::Reset,
            3 => End::Refused,
            4 => End::TimedOut,
            5 => End::Aborted,
            6 => End::Unreachable,
            7 => End::NetworkDown,
            _ => End::Closed,
        }
    }

    pub(crate) fn set_end(&mut self, end: End) {
        self.state = State::Closed;
        self.backoff = end as u8;
    }
}

/// The parts of the field. With the default bounds, 15 doublings lead from the shortest timeout to the longest.
const BACKOFF: u8 = 15;
const TIMEOUTS: u8 = 7 << TIMEOUTS_SHIFT;
const TIMEOUTS_SHIFT: u32 = 4;
const ANSWERED: u8 = 1 << 7;

const _: () = assert!(BACKOFF ^ TIMEOUTS ^ ANSWERED == u8::MAX);

/// The flag `ACK_NOW`: an ACK leaves at the next transmission. After the end, the reset that tells the peer.
impl Tcb {
    /// Whether its reset has not left. It keeps its place until then.
    #[inline]
    pub(crate) const fn owes_reset(&self) -> bool {
        matches!(self.state, State::Closed) && self.has(Flags::ACK_NOW)
    }
}

/// `unread`: the bytes for the reader. In SYN-SENT, when the SYN left.
impl Tcb {
    /// Bytes that arrived in order and were not read yet.
    pub(crate) fn unread(&self) -> u32 {
        debug_assert!(self.state != State::SynSent);
        self.unread
    }

    /// The same in any state.
    pub(crate) fn readable(&self) -> u32 {
        if self.state == State::SynSent { 0 } else { self.unread }
    }

    pub(crate) fn unread_mut(&mut self) -> &mut u32 {
        debug_assert!(self.state != State::SynSent);
        &mut self.unread
    }

    /// When the SYN left, in microseconds that wrap. It is zero when SYN-SENT begins, and has to be when it ends.
    pub(crate) fn syn_sent_at_mut(&mut self) -> &mut u32 {
        debug_assert!(self.state == State::SynSent);
        &mut self.unread
    }
}

/// `heard_at`: when the peer was last heard of. In a stall, since when it lasts. In a state that ends by itself, when that
/// state began.
impl Tcb {
    /// Whether its state ends by itself: TIME-WAIT, or FIN-WAIT-2 without a user.
    pub(crate) const fn times_its_end(&self) -> bool {
        matches!(self.state, State::TimeWait)
            || matches!(self.state, State::FinWait2) && self.has(Flags::DETACHED)
    }

    /// Whether the peer gives no sign of progress: it has not answered in time, or its window is closed. The timer of the
    /// flight runs meanwhile, so there is no keep-alive (RFC 9293 MUST-26).
    pub(crate) const fn is_stalled(&self) -> bool {
        self.has(Flags::TIMED_OUT.with(Flags::PROBING_WINDOW))
    }

    /// Since when there is no progress: the first timeout in a row, or the last answer to a probe of a closed window.
    pub(crate) fn stalled_at(&self) -> Tick {
        debug_assert!(!self.times_its_end());
        self.heard_at
    }

    pub(crate) fn set_stalled_at(&mut self, now: Tick) {
        debug_assert!(!self.times_its_end());
        self.heard_at = now;
    }

    /// When the peer was last heard of, for keep-alive.
    pub(crate) fn heard_at(&self) -> Tick {
        debug_assert!(!self.is_stalled() && !self.times_its_end());
        self.heard_at
    }

    pub(crate) fn set_heard_at(&mut self, now: Tick) {
        debug_assert!(!self.is_stalled() && !self.times_its_end());
        self.heard_at = now;
    }

    pub(crate) fn last_state_began_at(&self) -> Tick {
        debug_assert!(self.times_its_end());
        self.heard_at
    }

    pub(crate) fn begin_last_state(&mut self, now: Tick) {
        debug_assert!(self.times_its_end());
        self.heard_at = now;
    }
}

/// `peer_acks`: how the peer acknowledges. During the handshake of an active open, the connection's own ring: until then it
/// waits in the ring of new connections.
impl Tcb {
    pub(crate) fn peer_acks(&self) -> PeerAcks {
        debug_assert!(self.state.is_synchronized());
        self.peer_acks
    }

    pub(crate) fn peer_acks_mut(&mut self) -> &mut PeerAcks {
        debug_assert!(self.state.is_synchronized());
        &mut self.peer_acks
    }

    /// The round trip of a segment that was in flight alone, whose ACK the peer may have delayed. The first measurement is
    /// taken for the round trip, even if it contains a delay.
    #[inline(always)]
    pub(crate) fn measure_lone(&mut self, micros: u32) {
        if self.rtt.is_measured() {
            let excess = micros.saturating_sub(self.rtt.srtt_micros());
            self.peer_acks_mut().measure_delay(excess);
        }
        self.rtt.sample(micros);
    }

    /// Lets it wait in the ring of new connections.
    pub(crate) fn begin_handshake(&mut self, ring_of_new: u8) {
        self.peer_acks.set_duplicates(self.class.ring());
        self.class = self.class.with_ring(ring_of_new);
    }

    /// Gives it its own ring.
    pub(crate) fn end_handshake(&mut self) {
        self.class = self.class.with_ring(self.peer_acks.duplicates());
        self.peer_acks = PeerAcks::default();
    }
}
