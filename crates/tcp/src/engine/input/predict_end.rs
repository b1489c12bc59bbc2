//! How a connection without trouble ends, in one go: the peer's FIN comes, and so does the ACK of ours.
//!
//! A short connection is as much of this as of payload: three of its seven segments. Everything here does exactly what the
//! general way would do.

use anywire_packet::Flags as Control;
use anywire_packet::plain::Plain;

use crate::engine::input::predict::{DECISIVE, flags_of};
use crate::engine::input::receive::ports;
use crate::engine::{ConnIndex, End, Engine};
use crate::pool::Marks;
use crate::tcb::{Flags, State, Tcb};

impl Engine {
    /// Handles the plain segment in this frame if it belongs to this TCB and is either the peer's FIN or the ACK of ours.
    /// It may also acknowledge the one segment in flight, and nothing else. Otherwise returns false and has changed
    /// nothing.
    // Out of line, so that the loop over all segments keeps its registers.
    #[inline(never)]
    pub(crate) fn predict_end<const LEN: usize>(&mut self, index: ConnIndex, frame: u32) -> bool {
        let head = self.received.part(frame as usize, 0, LEN);
        let Some(segment) = Plain::<LEN>::again(head) else { return false };
        let tcb = &mut self.tcbs[index];
        let flags = segment.flags().without(Control::PSH);
        let has_fin = flags == Control::FIN.with(Control::ACK);
        let (seq, ack, timestamp) = (segment.seq(), segment.ack(), segment.timestamp());
        let is_predicted = match tcb.state {
            State::Established | State::FinWait1 => has_fin,
            State::LastAck => flags == Control::ACK,
            _ => false,
        } && ports(tcb.remote_port, tcb.local_port) == segment.ports()
            && self.local.are_addresses_of(tcb.local, tcb.remote, segment)
            && tcb.flags.0 & DECISIVE == flags_of(LEN)
            && tcb.extension == Tcb::NO_EXTENSION
            && segment.payload_len() == 0
            && seq == tcb.rcv_nxt
            && timestamp.is_none_or(|value| value.wrapping_sub(tcb.ts_recent) as i32 >= 0)
            && ack == tcb.snd_nxt
            && !tcb.send_tail.is_none();
        if !is_predicted {
            return false;
        }
        let tail = tcb.send_tail;
        let kept = self.pool.segment(tail);
        let is_lone = kept.next == tail
            && kept.end() == ack
            && kept.marks.has(Marks::FIN) == (tcb.state != State::Established)
            && !kept.marks.has(Marks::RESENT.with(Marks::SACKED));
        if !is_lone {
            return false;
        }
        tcb.keep_up(ack, segment.window(), timestamp, self.tick);
        let sent_at = kept.sent_at;
        self.pool.free(tail);
        tcb.all_is_acknowledged(ack);
        tcb.flags.clear(Flags::TIMES_A_FLIGHT);
        match tcb.state {
            State::LastAck => self.end(index, End::Closed),
            State::FinWait1 => {
                tcb.state = State::FinWait2;
                if tcb.has(Flags::DETACHED) {
                    // There is no event, and the ACK leaves with the TCB: it does not wait.
                    tcb.rcv_nxt += 1;
                    tcb.rcv_right = tcb.rcv_right.max(tcb.rcv_nxt);
                    tcb.flags.set(Flags::FIN_RECEIVED.with(Flags::ACK_NOW));
                    self.enter_time_wait(index);
                } else {
                    self.on_fin(index);
                }
            }
            _ => {
                tcb.measure_lone(self.now.short().wrapping_sub(sent_at));
                self.on_fin(index);
            }
        }
        true
    }
}
