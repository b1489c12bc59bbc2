//! What always holds of a connection, looked at after every input in builds with debug assertions: tests and fuzzing.

use super::input::deliver::Unread;
use super::{ConnIndex, Engine};
use crate::pool::Marks;
use crate::tcb::{Flags, State, Tcb};

impl Engine {
    /// Panics if the TCB of this place is not as every TCB has to be after an input; does nothing in a release build.
    #[inline(always)]
    pub(crate) fn check(&self, index: ConnIndex) {
        if cfg!(debug_assertions) {
            self.check_tcb(index);
        }
    }

    fn check_tcb(&self, index: ConnIndex) {
        let tcb = &self.tcbs[index];
        if tcb.state == State::Closed {
            assert!(tcb.send_tail.is_none() && tcb.send_next.is_none() && tcb.queued == 0);
            assert!(
                !tcb.has(Flags::RETRANSMIT.with(Flags::IDLE_TIMER)) && tcb.extension == Tcb::NO_EXTENSION
            );
            assert!(!tcb.owes_reset() || tcb.has(Flags::SCHEDULED), "a reset has a turn");
        } else {
            self.check_numbers(tcb);
            self.check_send_queue(tcb);
            self.check_flags(tcb);
            self.check_extension(index, tcb);
            self.check_timers(index, tcb);
        }
        assert_eq!(tcb.readable() as usize, self.bytes_unread(index), "the bytes that wait for the reader");
    }

    fn check_numbers(&self, tcb: &Tcb) {
        let Tcb { snd_una, snd_nxt, write_end, .. } = *tcb;
        assert!(snd_una.le(snd_nxt), "SND.UNA {snd_una:?} is behind SND.NXT {snd_nxt:?}");
        assert!(
            snd_nxt.le(write_end),
            "SND.NXT {snd_nxt:?} is behind the end {write_end:?} of what was given"
        );
        if tcb.state != State::SynSent {
            let Tcb { last_ack_sent, rcv_nxt, rcv_right, .. } = *tcb;
            assert!(last_ack_sent.le(rcv_nxt), "more was acknowledged than has arrived");
            assert!(rcv_nxt.le(rcv_right), "more has arrived than was allowed");
            let buffered = u64::from(tcb.unread()) + u64::from(rcv_right - rcv_nxt);
            assert!(buffered <= u64::from(self.settings.receive_window), "{buffered} bytes may be unread");
        }
    }

    /// The send queue holds all bytes that were written and not acknowledged, in order and without gaps.
    fn check_send_queue(&self, tcb: &Tcb) {
        let is_opening = matches!(tcb.state, State::SynSent | State::SynReceived);
        let first = if is_opening { tcb.snd_una + 1 } else { tcb.snd_una };
        let (mut end, mut count, mut is_unsent) = (first, 0, false);
        for cell in self.pool.queue(tcb.send_tail) {
            let kept = self.pool.segment(cell);
            assert_eq!(kept.seq, end, "segments follow each other");
            if cell == tcb.send_next {
                is_unsent = true;
                assert!(is_opening || end == tcb.snd_nxt, "the first unsent one begins at SND.NXT");
            }
            assert!(!kept.marks.has(Marks::FIN) || cell == tcb.send_tail, "nothing is behind a FIN");
            (end, count) = (kept.end(), count + 1);
        }
        assert_eq!(end, tcb.write_end, "the queue ends with what was given");
        assert_eq!(count, tcb.queued, "queued is the length of the queue");
        assert_eq!(is_unsent, tcb.has_unsent(), "what is unsent is in the queue");
        assert!(is_unsent || is_opening || end == tcb.snd_nxt, "all of it was sent");
    }

    fn check_flags(&self, tcb: &Tcb) {
        use State::{CloseWait, Closing, FinWait1, FinWait2, LastAck, TimeWait};
        let is_in = |states: &[State]| states.contains(&tcb.state);
        let has_received = is_in(&[CloseWait, Closing, LastAck, TimeWait]);
        assert_eq!(tcb.has(Flags::FIN_RECEIVED), has_received, "the peer's FIN in {:?}", tcb.state);
        if tcb.state.is_synchronized() {
            let has_queued = is_in(&[FinWait1, FinWait2, Closing, LastAck, TimeWait]);
            assert_eq!(tcb.has(Flags::FIN_QUEUED), has_queued, "our FIN in {:?}", tcb.state);
        }
        let ends_with_fin =
            !tcb.send_tail.is_none() && self.pool.segment(tcb.send_tail).marks.has(Marks::FIN);
        assert!(!ends_with_fin || tcb.has(Flags::FIN_QUEUED), "only who ends sends a FIN");
        assert_eq!(ends_with_fin && !tcb.has_unsent(), tcb.has_sent_fin() && tcb.flight() > 0, "our FIN");
        assert!(tcb.flight() == 0 || tcb.has(Flags::RETRANSMIT), "a timer runs for what is in flight");
        let timer_kinds = Flags::LOSS_TIMER.with(Flags::PROBING_WINDOW);
        assert!(!tcb.has(timer_kinds) || tcb.has(Flags::RETRANSMIT), "a timer of some kind runs");
        assert!(!tcb.has(Flags::TELL) || tcb.has(Flags::IN_READY), "news are in the ring of news");
        assert!(!tcb.has(Flags::ACK_NOW) || tcb.has(Flags::SCHEDULED), "an ACK that leaves now has a turn");
    }

    fn check_extension(&self, index: ConnIndex, tcb: &Tcb) {
        if tcb.extension == Tcb::NO_EXTENSION {
            assert!(!tcb.has(Flags::RECOVERING), "a recovery has an extension");
            return;
        }
        let extension = &self.extensions[tcb.extension];
        assert_eq!(extension.owner, index);
        assert_eq!(extension.lost_bytes, self.lost_bytes(index), "marks of losses");
        if tcb.has(Flags::SACK) {
            let (mut segments, mut bytes) = (0, 0);
            for cell in self.pool.queue(tcb.send_tail).take_while(|cell| *cell != tcb.send_next) {
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
        let (mut count, mut end) = (0, tcb.rcv_nxt);
        for cell in self.pool.queue(extension.out_of_order_tail) {
            let held = self.pool.segment(cell);
            assert!(end.le(held.seq), "held out of order: {held:?} overlaps what ends at {end:?}");
            (count, end) = (count + 1, held.end());
        }
        assert_eq!(count, extension.out_of_order_count);
    }

    /// It is looked at in time.
    fn check_timers(&self, index: ConnIndex, tcb: &Tcb) {
        if let Some(at) = self.deadline_of(index) {
            // A due timer that could not run yet was postponed.
            let is_late = at.is_due(self.tick) && tcb.has(Flags::IN_WHEEL);
            assert!(tcb.is_looked_at_by(at) || is_late, "nobody looks at it at {at:?}");
            let is_in_time = tcb.wheel_at().is_none_or(|looked_at| !at.is_before(looked_at));
            assert!(!tcb.is_left_to_wheel() || is_in_time || is_late, "the wheel is late for {at:?}");
        }
    }

    fn bytes_unread(&self, index: ConnIndex) -> usize {
        match Unread::of(&self.tcbs[index]) {
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
