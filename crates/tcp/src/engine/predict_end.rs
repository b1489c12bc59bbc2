//! How a connection without trouble ends, in one go: the peer's FIN comes, and so does the ACK of ours.
//!
//! A short connection is as much of this as of payload: three of its seven segments. Everything here does exactly what the
//! general way would do.

use anywire_packet::Flags as Control;
use anywire_packet::plain::Plain;

use super::predict::{DECISIVE, flags_of};
use super::receive::ports;
use super::{End, Engine};
use crate::block::{Block, Flags, State};
use crate::pool::Marks;

impl Engine {
    /// Handles the plain segment in this frame if it belongs to this block and is either the peer's FIN or the ACK of ours.
    /// It may also acknowledge the one segment in flight, and nothing else. Otherwise returns false and has changed
    /// nothing.
    // Out of line, so that the loop over all segments keeps its registers.
    #[inline(never)]
    pub(super) fn predict_end<const LEN: usize>(&mut self, index: u32, frame: u32) -> bool {
        let head = self.received.part(frame as usize, 0, LEN);
        let Some(segment) = Plain::<LEN>::again(head) else { return false };
        let block = &mut self.blocks[index];
        let flags = segment.flags().without(Control::PSH);
        let has_fin = flags == Control::FIN.with(Control::ACK);
        let (seq, ack, timestamp) = (segment.seq(), segment.ack(), segment.timestamp());
        let is_predicted = match block.state {
            State::Established | State::FinWait1 => has_fin,
            State::LastAck => flags == Control::ACK,
            _ => false,
        } && ports(block.remote_port, block.local_port) == segment.ports()
            && self.local.are_addresses_of(block.local, block.remote, segment)
            && block.flags.0 & DECISIVE == flags_of(LEN)
            && block.extension == Block::NO_EXTENSION
            && segment.payload_len() == 0
            && seq == block.rcv_nxt
            && timestamp.is_none_or(|value| value.wrapping_sub(block.ts_recent) as i32 >= 0)
            && ack == block.snd_nxt
            && !block.send_tail.is_none();
        if !is_predicted {
            return false;
        }
        let tail = block.send_tail;
        let kept = self.pool.segment(tail);
        let is_lone = kept.next == tail
            && kept.end() == ack
            && kept.marks.has(Marks::FIN) == (block.state != State::Established)
            && !kept.marks.has(Marks::RESENT.with(Marks::SACKED));
        if !is_lone {
            return false;
        }
        block.keep_up(ack, segment.window(), timestamp, self.tick);
        let sent_at = kept.sent_at;
        self.pool.free(tail);
        block.all_is_acknowledged(ack);
        block.flags.clear(Flags::TIMES_A_FLIGHT);
        match block.state {
            State::LastAck => self.end(index, End::Closed),
            State::FinWait1 => {
                block.state = State::FinWait2;
                if block.has(Flags::DETACHED) {
                    // There is no event, and the ACK leaves with the block: it does not wait.
                    block.rcv_nxt += 1;
                    block.rcv_right = block.rcv_right.max(block.rcv_nxt);
                    block.flags.set(Flags::FIN_RECEIVED.with(Flags::ACK_NOW));
                    self.enter_time_wait(index);
                } else {
                    self.on_fin(index);
                }
            }
            _ => {
                block.measure_lone(self.now.short().wrapping_sub(sent_at));
                self.on_fin(index);
            }
        }
        true
    }
}
