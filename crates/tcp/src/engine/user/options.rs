//! Options of a single open connection: Nagle's algorithm off (RFC 9293 MUST-17), a user timeout (MUST-21), the Diffserv
//! field (MUST-48), and the size of its segments.

use std::time::Duration;

use crate::engine::timers::deadlines;
use crate::engine::{ConnId, ConnIndex, Engine};
use crate::tcb::{Flags, State};

impl Engine {
    /// Switches Nagle's algorithm off or on again (RFC 9293 3.7.4, MUST-17). Off, what waits because of it leaves at once.
    pub fn set_no_nagle(&mut self, id: ConnId, is_off: bool) {
        if !self.is_held(id) {
            return;
        }
        let tcb = &mut self.tcbs[id.0];
        if !is_off {
            return tcb.flags.clear(Flags::NO_NAGLE);
        }
        tcb.flags.set(Flags::NO_NAGLE);
        if tcb.has_unsent() {
            self.schedule(id.0);
        }
    }

    /// Gives a connection a user timeout of its own: how long data may stay without an ACK before it is given up (R2 of RFC 9293
    /// 3.8.3, MUST-21; RFC 5482), from the first retransmission timeout on. It holds at once, also for what is in flight. Zero: that
    /// of the [`Settings`](crate::Settings) again.
    pub fn set_user_timeout(&mut self, id: ConnId, timeout: Duration) {
        if !self.is_held(id) {
            return;
        }
        if timeout.is_zero() {
            self.user_timeouts.remove(&id.0);
        } else if self.tcbs[id.0].state != State::Closed {
            self.user_timeouts.insert(id.0, deadlines::ticks(timeout).max(1));
        }
        self.end_stall_in_time(id.0);
    }

    /// The user timeout of a connection has changed: a stall ends by the new one, and not with the next retransmission.
    fn end_stall_in_time(&mut self, index: ConnIndex) {
        let limit = self.user_timeout_of(index);
        let tcb = &mut self.tcbs[index];
        if !tcb.state.is_synchronized()
            || tcb.times_its_end()
            || tcb.has(Flags::LOSS_TIMER)
            || tcb.timeouts() == 0 && !tcb.has(Flags::PROBING_WINDOW)
        {
            return;
        }
        let ends_at = tcb.stalled_at().after(limit);
        let ends_at = if ends_at.is_due(self.tick) { self.tick } else { ends_at };
        if tcb.retransmit_at().is_some_and(|at| ends_at.is_before(at)) {
            tcb.set_retransmit_at(ends_at);
            self.set_deadline(index, ends_at);
        }
    }

    /// Sets the Diffserv field of a connection's packets from now on, 0 to 63: the lower six bits count (RFC 2474; RFC 9293
    /// MUST-48, SHLD-21). Segments of its TIME-WAIT, when no user holds it any more, have zero.
    pub fn set_dscp(&mut self, id: ConnId, dscp: u8) {
        if !self.is_held(id) {
            return;
        }
        let tcb = &mut self.tcbs[id.0];
        tcb.class = tcb.class.with_dscp(dscp);
    }

    /// The most payload that a segment of this connection carries now: what both ends' MSS, the path and the options leave.
    pub fn segment_bytes(&self, id: ConnId) -> usize {
        if self.is_held(id) { usize::from(self.tcbs[id.0].eff_mss) } else { 0 }
    }

    /// In ticks.
    pub(crate) fn user_timeout_of(&self, index: ConnIndex) -> u32 {
        self.user_timeouts.get(&index).copied().unwrap_or(self.timings.user_timeout)
    }
}
