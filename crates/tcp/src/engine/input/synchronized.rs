//! A segment for an open connection, in the order of RFC 9293 3.10.7.4.

use anywire_packet::{Flags as Control, Parsed};

use crate::engine::ending::is_fin_again;
use crate::engine::input::receive::Arrived;
use crate::engine::{ConnIndex, End, Engine, Place};
use crate::tcb::{Flags, State};
use crate::time::Tick;

impl Engine {
    /// A segment has arrived for this connection.
    #[inline]
    pub(crate) fn on_segment(&mut self, index: ConnIndex, arrived: &Arrived) {
        let segment = &arrived.segment;
        let state = self.tcbs[index].state;
        if state == State::SynSent {
            return self.in_syn_sent(index, arrived);
        }
        if state == State::TimeWait && self.gives_way(index, arrived) {
            return;
        }
        let tcb = &self.tcbs[index];

        // RFC 7323 5.3, R1: a timestamp older than the last one means an old segment, if the last one is not older than
        // 24 days itself.
        if tcb.has(Flags::TIMESTAMPS) {
            let Some((value, _)) = segment.timestamps() else {
                // RFC 7323 3.2: a segment without timestamps is dropped, unless it is a reset.
                if segment.flags.has(Control::RST) {
                    return self.on_reset(index, segment);
                }
                if tcb.state == State::SynReceived
                    && segment.flags.has(Control::SYN)
                    && segment.seq + 1 == tcb.rcv_nxt
                {
                    return self.on_crossed_syn(index, arrived);
                }
                // Some systems leave them out of a keep-alive probe, and reset the connection without an answer (RFC 9293
                // 3.8.4). Nothing of it is taken; it may be anybody's, so it is answered only once in a while.
                if is_keep_alive(segment, tcb.rcv_nxt) && self.may_answer(Place::Tcb(index)) {
                    self.answer(index);
                }
                return;
            };
            let is_old = (value.wrapping_sub(tcb.ts_recent) as i32) < 0;
            if is_old
                && !segment.flags.has(Control::RST)
                && age(self.tick).wrapping_sub(tcb.ts_recent_age) < OUTDATED
            {
                self.counters.refused_by_paws += 1;
                return self.answer_unacceptable(index, segment);
            }
        }

        // First, the sequence number. The later steps run at a closed window too, if the segment begins at RCV.NXT: its
        // ACK, RST and URG count (MUST-66), and its text finds no room. Any other number ends here, because a guessed one
        // would move SND.WL1.
        if segment.seq != tcb.rcv_nxt && !is_acceptable(segment, tcb.rcv_nxt, tcb.rcv_right) {
            if segment.flags.has(Control::RST) {
                return;
            }
            if tcb.state == State::SynReceived && segment.flags.has(Control::SYN) {
                return self.on_crossed_syn(index, arrived);
            }
            self.counters.out_of_window += 1;
            if tcb.state == State::TimeWait && is_fin_again(segment, tcb.rcv_nxt) {
                self.time_last_state(index);
            }
            self.note_duplicate(index, segment);
            return self.answer_unacceptable(index, segment);
        }
        // Second to fourth: reset, SYN.
        if segment.flags.has_any(Control::RST | Control::SYN) {
            if segment.flags.has(Control::RST) {
                return self.on_reset(index, segment);
            }
            if tcb.state == State::SynReceived && segment.seq + 1 == tcb.rcv_nxt {
                // Its text is in the window, and so the number of its last byte.
                return self.on_crossed_syn(index, arrived);
            }
            // RFC 5961 4.2: whatever its number.
            return self.challenge(index);
        }
        // Fifth, the ACK.
        if !segment.flags.has(Control::ACK) || !self.on_ack(index, arrived) {
            return;
        }
        // Now it is the peer's, as far as anybody can tell. What ends above says nothing of the peer: others can send it.
        let tcb = &mut self.tcbs[index];
        if tcb.has(Flags::IDLE_TIMER) && !tcb.times_its_end() && !tcb.is_stalled() {
            tcb.set_heard_at(self.tick);
        }
        // RFC 7323 5.3, R3: a segment at the left edge of the acknowledged data moves TS.Recent on. Only after the number
        // and the ACK have proved right: a guessed segment must not push TS.Recent ahead of the peer.
        if let Some((value, _)) = segment.timestamps()
            && tcb.has(Flags::TIMESTAMPS)
            && segment.seq.le(tcb.last_ack_sent)
            && (value.wrapping_sub(tcb.ts_recent) as i32 >= 0
                || age(self.tick).wrapping_sub(tcb.ts_recent_age) >= OUTDATED)
        {
            tcb.ts_recent = value;
            tcb.ts_recent_age = age(self.tick);
        }
        // Sixth, URG: the data is in line, as RFC 6093 asks, so there is nothing to do.
        // Seventh, the text; eighth, FIN.
        if segment.sequence_len() != 0 {
            self.on_text(index, arrived);
        }
    }

    /// A SYN of the peer after a simultaneous open (RFC 9293 3.5, figure 7). With the ACK of ours it completes the
    /// handshake; the ACK that leaves then completes the peer's. Without, our SYN-ACK may be lost.
    #[cold]
    fn on_crossed_syn(&mut self, index: ConnIndex, arrived: &Arrived) {
        let (tcb, segment) = (&self.tcbs[index], &arrived.segment);
        let is_the_peers = segment.seq + 1 == tcb.rcv_nxt;
        if is_the_peers {
            self.agree_on_less(index, arrived);
            self.hold_text_of_syn(index, arrived);
        }
        let tcb = &self.tcbs[index];
        if is_the_peers && segment.flags.has(Control::ACK) && segment.ack == tcb.snd_nxt {
            if !self.on_ack(index, arrived) {
                return;
            }
            // The window of a SYN is never scaled (RFC 7323 2.2).
            let tcb = &mut self.tcbs[index];
            tcb.snd_right = segment.ack + u32::from(segment.window);
            tcb.max_snd_wnd = segment.window >> 6;
        } else if !self.may_answer(Place::Tcb(index)) {
            // Both ends answer each other's SYN, and would for ever if they disagree.
            return;
        }
        self.acknowledge_now(index);
    }

    /// A reset: at the left edge it is believed, elsewhere in the window it is challenged (RFC 5961 3.2).
    #[cold]
    fn on_reset(&mut self, index: ConnIndex, segment: &Parsed) {
        let tcb = &self.tcbs[index];
        if segment.seq != tcb.rcv_nxt {
            if segment.seq.within(tcb.rcv_nxt, tcb.rcv_right) {
                self.challenge(index);
            }
            return;
        }
        let end = match tcb.state {
            State::SynReceived => End::Refused,
            // RFC 1337: a reset does not shorten TIME-WAIT.
            State::TimeWait => return,
            _ => End::Reset,
        };
        self.break_off(index, end);
    }

    /// An ACK with our present numbers, for a sender that may not be our peer.
    pub(crate) fn challenge(&mut self, index: ConnIndex) {
        if self.may_answer(Place::Tcb(index)) {
            self.counters.challenges += 1;
            self.answer(index);
        }
    }

    /// An ACK for a segment that is not acceptable.
    fn answer_unacceptable(&mut self, index: ConnIndex, segment: &Parsed) {
        if self.may_answer_unacceptable(Place::Tcb(index), segment) {
            self.answer(index);
        }
    }

    /// An ACK with our present numbers. What leaves by itself in SYN-RECEIVED is the SYN-ACK.
    fn answer(&mut self, index: ConnIndex) {
        if self.tcbs[index].state == State::SynReceived {
            self.reply_with_ack(index, self.tcbs[index].snd_nxt);
        } else {
            self.acknowledge_now(index);
        }
    }
}

/// The cases of RFC 9293 3.10.7.4, table 6, for a segment that does not begin at RCV.NXT. At a closed window no such
/// segment is acceptable.
fn is_acceptable(segment: &Parsed, rcv_nxt: anywire_packet::Seq, rcv_right: anywire_packet::Seq) -> bool {
    let length = segment.sequence_len();
    segment.seq.within(rcv_nxt, rcv_right)
        || length > 0 && (segment.seq + (length - 1)).within(rcv_nxt, rcv_right)
}

/// Whether a segment has the form of a keep-alive probe: before what is awaited, with one byte or none (RFC 9293 3.8.4).
fn is_keep_alive(segment: &Parsed, rcv_nxt: anywire_packet::Seq) -> bool {
    segment.seq + 1 == rcv_nxt
        && segment.payload_len <= 1
        && segment.flags.has(Control::ACK)
        && !segment.flags.has_any(Control::SYN | Control::FIN)
}

/// The age of TS.Recent in its TCB's unit.
pub(crate) const fn age(now: Tick) -> u8 {
    (now.0 >> 24) as u8
}

/// 24 days in the unit of [`age`].
pub(crate) const OUTDATED: u8 = 124;
