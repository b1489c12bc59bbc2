//! What always holds of a connection, looked at after every input in builds with debug assertions: tests and fuzzing.

use super::Engine;
use super::deliver::Unread;
use crate::block::{Block, Flags, State};
use crate::pool::Marks;

impl Engine {
    /// Panics if the block of this place is not as every block has to be after an input; does nothing in a release build.
    #[inline(always)]
    pub(super) fn check(&self, index: u32) {
        if cfg!(debug_assertions) {
            self.check_block(index);
        }
    }

    fn check_block(&self, index: u32) {
        let block = &self.blocks[index];
        if block.state == State::Closed {
            assert!(block.send_tail.is_none() && block.send_next.is_none() && block.queued == 0);
            assert!(
                !block.has(Flags::RETRANSMIT.with(Flags::IDLE_TIMER))
                    && block.extension == Block::NO_EXTENSION
            );
            assert!(!block.owes_reset() || block.has(Flags::SCHEDULED), "a reset has a turn");
        } else {
            self.check_numbers(block);
            self.check_send_queue(block);
            self.check_flags(block);
            self.check_extension(index, block);
            self.check_timers(index, block);
        }
        assert_eq!(block.readable() as usize, self.bytes_unread(index), "the bytes that wait for the reader");
    }

    fn check_numbers(&self, block: &Block) {
        let Block { snd_una, snd_nxt, write_end, .. } = *block;
        assert!(snd_una.le(snd_nxt), "SND.UNA {snd_una:?} is behind SND.NXT {snd_nxt:?}");
        assert!(
            snd_nxt.le(write_end),
            "SND.NXT {snd_nxt:?} is behind the end {write_end:?} of what was given"
        );
        if block.state != State::SynSent {
            let Block { last_ack_sent, rcv_nxt, rcv_right, .. } = *block;
            assert!(last_ack_sent.le(rcv_nxt), "more was acknowledged than has arrived");
            assert!(rcv_nxt.le(rcv_right), "more has arrived than was allowed");
            let buffered = u64::from(block.unread()) + u64::from(rcv_right - rcv_nxt);
            assert!(buffered <= u64::from(self.settings.receive_window), "{buffered} bytes may be unread");
        }
    }

    /// The send queue holds all bytes that were written and not acknowledged, in order and without gaps.
    fn check_send_queue(&self, block: &Block) {
        let is_opening = matches!(block.state, State::SynSent | State::SynReceived);
        let first = if is_opening { block.snd_una + 1 } else { block.snd_una };
        let (mut end, mut count, mut is_unsent) = (first, 0, false);
        for cell in self.pool.queue(block.send_tail) {
            let kept = self.pool.segment(cell);
            assert_eq!(kept.seq, end, "segments follow each other");
            if cell == block.send_next {
                is_unsent = true;
                assert!(is_opening || end == block.snd_nxt, "the first unsent one begins at SND.NXT");
            }
            assert!(!kept.marks.has(Marks::FIN) || cell == block.send_tail, "nothing is behind a FIN");
            (end, count) = (kept.end(), count + 1);
        }
        assert_eq!(end, block.write_end, "the queue ends with what was given");
        assert_eq!(count, block.queued, "queued is the length of the queue");
        assert_eq!(is_unsent, block.has_unsent(), "what is unsent is in the queue");
        assert!(is_unsent || is_opening || end == block.snd_nxt, "all of it was sent");
    }

    fn check_flags(&self, block: &Block) {
        use State::{CloseWait, Closing, FinWait1, FinWait2, LastAck, TimeWait};
        let is_in = |states: &[State]| states.contains(&block.state);
        let has_received = is_in(&[CloseWait, Closing, LastAck, TimeWait]);
        assert_eq!(block.has(Flags::FIN_RECEIVED), has_received, "the peer's FIN in {:?}", block.state);
        if block.state.is_synchronized() {
            let has_queued = is_in(&[FinWait1, FinWait2, Closing, LastAck, TimeWait]);
            assert_eq!(block.has(Flags::FIN_QUEUED), has_queued, "our FIN in {:?}", block.state);
        }
        let ends_with_fin =
            !block.send_tail.is_none() && self.pool.segment(block.send_tail).marks.has(Marks::FIN);
        assert!(!ends_with_fin || block.has(Flags::FIN_QUEUED), "only who ends sends a FIN");
        assert_eq!(
            ends_with_fin && !block.has_unsent(),
            block.has_sent_fin() && block.flight() > 0,
            "our FIN"
        );
        assert!(block.flight() == 0 || block.has(Flags::RETRANSMIT), "a timer runs for what is in flight");
        let timer_kinds = Flags::LOSS_TIMER.with(Flags::PROBING_WINDOW);
        assert!(!block.has(timer_kinds) || block.has(Flags::RETRANSMIT), "a timer of some kind runs");
        assert!(!block.has(Flags::TELL) || block.has(Flags::IN_READY), "news are in the ring of news");
        assert!(
            !block.has(Flags::ACK_NOW) || block.has(Flags::SCHEDULED),
            "an ACK that leaves now has a turn"
        );
    }

    fn check_extension(&self, index: u32, block: &Block) {
        if block.extension == Block::NO_EXTENSION {
            assert!(!block.has(Flags::RECOVERING), "a recovery has an extension");
            return;
        }
        let extension = &self.extensions[block.extension];
        assert_eq!(extension.owner, index);
        assert_eq!(extension.lost_bytes, self.lost_bytes(index), "marks of losses");
        if block.has(Flags::SACK) {
            let (mut segments, mut bytes) = (0, 0);
            for cell in self.pool.queue(block.send_tail).take_while(|cell| *cell != block.send_next) {
                let kept = self.pool.segment(cell);
                if kept.marks.has(Marks::SACKED) {
                    (segments, bytes) = (segments + 1, bytes + u32::from(kept.length));
                }
            }
            assert_eq!(
                (extension.sacked_segments, extension.sacked_bytes),
                (segments, bytes),
                "marks of SACK"
            );
        }
        let (mut count, mut end) = (0, block.rcv_nxt);
        for cell in self.pool.queue(extension.out_of_order_tail) {
            let held = self.pool.segment(cell);
            assert!(end.le(held.seq), "held out of order: {held:?} overlaps what ends at {end:?}");
            (count, end) = (count + 1, held.end());
        }
        assert_eq!(count, extension.out_of_order_count);
    }

    /// It is looked at in time.
    fn check_timers(&self, index: u32, block: &Block) {
        if let Some(at) = self.deadline_of(index) {
            // A due timer that could not run yet was postponed.
            let is_late = at.is_due(self.tick) && block.has(Flags::IN_WHEEL);
            assert!(block.is_looked_at_by(at) || is_late, "nobody looks at it at {at:?}");
            let is_in_time = block.wheel_at().is_none_or(|looked_at| !at.is_before(looked_at));
            assert!(!block.is_left_to_wheel() || is_in_time || is_late, "the wheel is late for {at:?}");
        }
    }

    fn bytes_unread(&self, index: u32) -> usize {
        match Unread::of(&self.blocks[index]) {
            Unread::Nothing => 0,
            Unread::InFrame(frame) => {
                assert_eq!(self.in_frames[frame].index, index, "the frame is this connection's");
                self.in_frames[frame].length.into()
            }
            Unread::Kept(tail) => {
                self.pool.queue(tail).map(|cell| usize::from(self.pool.segment(cell).length)).sum()
            }
        }
    }
}
