//! Losses. SACK and time detect them (RFC 6675, 8985), or duplicate ACKs without SACK (RFC 6582), or the timer (RFC 6298).
//! PRR sets the pace of the repair (RFC 9937).
//!
//! The scoreboard is no separate structure: each segment in the queue for retransmission carries its marks. The limit on a
//! connection's segments bounds each walk over them. A walk happens only in trouble: for an ACK that tells something new,
//! and not for every segment that is sent. An ACK that tells nothing new costs its sender little, so it must cost little
//! here.

use anywire_packet::Seq;

use crate::congestion::{Progress, Prr};
use crate::engine::input::receive::Arrived;
use crate::engine::{ConnIndex, Engine};
use crate::extension::{Extension, ExtensionId};
use crate::pool::{Cell, Marks};
use crate::recovery::{AckSigns, Delivered, Lost, ProbeAck, ProbeEnd, Rack, Tlp};
use crate::tcb::{Flags, Tcb};
use crate::time::Instant;

impl Engine {
    /// The extension of a connection, made if it has none; nothing if there are too many.
    pub(crate) fn extension_of(&mut self, index: ConnIndex) -> Option<ExtensionId> {
        let tcb = &self.tcbs[index];
        if tcb.extension == Tcb::NO_EXTENSION {
            let rack = Rack::new(tcb.snd_una, tcb.rtt.srtt_micros());
            let lost_bytes = self.lost_bytes(index);
            let extension = Extension { rack, owner: index, lost_bytes, ..Extension::default() };
            let place = self.extensions.insert(extension);
            let place =
                place.or_else(|| self.reclaim_extension().then(|| self.extensions.insert(extension))?)?;
            let tcb = &mut self.tcbs[index];
            tcb.extension = ExtensionId::new(place);
        }
        Some(self.tcbs[index].extension)
    }

    /// Gives the extension back if nothing in it matters any more.
    pub(crate) fn drop_extension_if_calm(&mut self, index: ConnIndex) {
        let tcb = &self.tcbs[index];
        if tcb.extension == Tcb::NO_EXTENSION || tcb.has(Flags::RECOVERING.with(Flags::TIMED_OUT)) {
            return;
        }
        let extension = &self.extensions[tcb.extension];
        let is_calm = extension.out_of_order_tail.is_none()
            && extension.sacked_segments == 0
            && extension.sacked_bytes == 0
            && extension.lost_bytes == 0
            && !extension.probe_due
            && extension.tlp.may_probe()
            && extension.duplicate.0 == extension.duplicate.1
            && extension.pace.is_none()
            && !extension.may_be_fragmented
            && extension.mtu_search.is_none();
        // Data in flight is no reason to keep it: a connection that always sends would never give it back.
        if is_calm {
            let place = tcb.extension;
            self.tcbs[index].extension = Tcb::NO_EXTENSION;
            self.extensions.remove(place.place());
        }
    }

    /// An ACK of a connection that has an extension or reports blocks, or a duplicate. False if the connection is gone.
    #[cold]
    pub(crate) fn on_ack_in_trouble(&mut self, index: ConnIndex, arrived: &Arrived, was: (Seq, Seq)) -> bool {
        let segment = &arrived.segment;
        let Some(place) = self.extension_of(index) else {
            // No memory for a board: the timer finds losses.
            if segment.ack.gt(self.tcbs[index].snd_una) {
                let covered = self.cover(index, segment);
                let tcb = &mut self.tcbs[index];
                if tcb.has(Flags::TIMED_OUT) && tcb.snd_una.ge(tcb.window.recover) {
                    tcb.flags.clear(Flags::TIMED_OUT);
                }
                self.grow_window(index, covered);
                return self.after_progress(index, segment, covered.bytes);
            }
            return true;
        };
        let options = segment.options(&self.received[arrived.frame as usize]);
        let blocks = if self.tcbs[index].has(Flags::SACK) { options.sack() } else { &[] };
        let duplicate = duplicate_in(blocks, segment.ack);
        let is_progress = segment.ack.gt(self.tcbs[index].snd_una);
        let is_duplicate = self.is_duplicate(index, segment, was);
        let echo = segment.timestamps().map(|(_, echo)| echo);

        let is_new = is_progress || !self.tells_nothing(place, blocks);
        let mut delivered =
            if is_new { self.note_delivered(index, place, segment.ack, blocks, echo) } else { 0 };
        if is_new && !is_progress && delivered == 0 {
            let told_nothing = &mut self.extensions[place].told_nothing;
            *told_nothing = (self.tick, if told_nothing.0 == self.tick { told_nothing.1 + 1 } else { 1 });
        }
        if is_duplicate && !self.tcbs[index].has(Flags::SACK) {
            delivered += self.count_duplicate(index, place);
        }
        let acked = if is_progress { segment.ack - self.tcbs[index].snd_una } else { 0 };
        let is_mistaken = is_progress && self.was_mistaken(index, place, echo, duplicate.is_some());
        let was_lone = is_mistaken && self.has_one_in_flight(index);
        if is_progress {
            let covered = self.cover(index, segment);
            self.note_passed_probe(index, place);
            let tcb = &mut self.tcbs[index];
            if !tcb.has(Flags::SACK) {
                let mss = u32::from(tcb.eff_mss);
                let extension = &mut self.extensions[place];
                extension.sacked_bytes = extension
                    .sacked_bytes
                    .saturating_sub(covered.bytes.saturating_sub(mss))
                    .min(tcb.snd_nxt - tcb.snd_una);
            }
            if covered.rtt_micros.is_some() {
                self.extensions[place].tlp.on_rtt_sample();
            }
            if !self.tcbs[index].has(Flags::RECOVERING) {
                self.grow_window(index, covered);
            }
        }
        if is_mistaken {
            self.undo(index, place, was_lone);
        }
        self.detect(
            index,
            place,
            segment.ack,
            duplicate,
            is_duplicate && blocks.is_empty(),
            acked,
            delivered,
            is_new,
        );
        let goes_on = if is_progress { self.after_progress(index, segment, acked) } else { true };
        if goes_on {
            self.schedule(index);
            self.drop_extension_if_calm(index);
        }
        goes_on
    }

    /// Whether an ACK without progress can skip the walk over the queue. It can if it has the same blocks as the previous
    /// ACK, or if too many ACKs in this millisecond have told nothing.
    fn tells_nothing(&mut self, place: ExtensionId, blocks: &[(Seq, Seq)]) -> bool {
        let words = blocks.iter().flat_map(|(left, right)| [left.0, right.0]);
        let sum = words.fold(0_u32, |sum, word| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b1));
        let extension = &mut self.extensions[place];
        if std::mem::replace(&mut extension.last_blocks, sum) == sum {
            return true;
        }
        let is_too_often = extension.told_nothing == (self.tick, TOLD_NOTHING_MAX);
        self.counters.sacks_ignored += u64::from(is_too_often);
        is_too_often
    }

    /// Marks what this ACK newly covers, cumulatively or selectively; gives the bytes of it.
    fn note_delivered(
        &mut self,
        index: ConnIndex,
        place: ExtensionId,
        ack: Seq,
        blocks: &[(Seq, Seq)],
        echo: Option<u32>,
    ) -> u32 {
        let (now, micros, clock) = (self.now.short(), self.now.as_micros(), self.aging);
        let tcb = &self.tcbs[index];
        let stamp = echo.map(|echo| echo.wrapping_sub(tcb.ts_offset));
        let (tail, unsent, nxt) = (tcb.send_tail, tcb.send_next, tcb.snd_nxt);
        // A block that ends beyond SND.NXT is a lie. Far enough beyond, it would even count as old.
        let blocks = blocks.iter().filter(|(_, right)| (*right - 1).within(ack, nxt));
        let last = blocks.clone().fold(ack, |last, (_, right)| last.max(*right));
        let mut delivered = 0;
        let mut next = self.pool.front(tail);
        while !next.is_none() && next != unsent {
            let cell = next;
            let kept = self.pool.segment_mut(cell);
            if kept.seq.ge(last) {
                break;
            }
            next = if cell == tail { Cell::NONE } else { kept.next };
            let (end, length) = (kept.end(), u32::from(kept.length));
            let is_acked = end.le(ack);
            let extension = &mut self.extensions[place];
            // The bytes that this ACK removes from the queue: all of the segment, its beginning, or none.
            let leaves = if is_acked {
                end - kept.seq
            } else if kept.seq.lt(ack) {
                ack - kept.seq
            } else {
                0
            };
            if kept.marks.has(Marks::LOST) {
                extension.lost_bytes -= leaves;
            }
            if kept.marks.has(Marks::SACKED) {
                extension.sacked_segments -= u16::from(is_acked);
                extension.sacked_bytes -= leaves.min(length);
                continue;
            }
            let is_sacked =
                !is_acked && blocks.clone().any(|(left, right)| left.le(kept.seq) && end.le(*right));
            if !is_acked && !is_sacked {
                delivered += leaves;
                continue;
            }
            delivered += length;
            let retransmitted = kept.marks.has(Marks::RESENT);
            let sent_at = Instant::from_micros(micros.saturating_sub(now.wrapping_sub(kept.sent_at).into()));
            let sent_tick = clock.tick_of(sent_at);
            // The echo tells only of segments acknowledged in order: those behind a gap never move TS.Recent on.
            let echo_is_older =
                is_acked && stamp.is_some_and(|stamp| (stamp.wrapping_sub(sent_tick.0) as i32) < 0);
            extension.rack.on_segment_acked(
                now,
                Delivered { sent_at_micros: kept.sent_at, end_seq: end, retransmitted, echo_is_older },
            );
            if is_sacked {
                if kept.marks.has(Marks::LOST) {
                    extension.lost_bytes -= end - kept.seq - leaves;
                }
                kept.marks.set(Marks::SACKED);
                kept.marks.clear(Marks::LOST);
                extension.sacked_segments += 1;
                extension.sacked_bytes += length - leaves;
            }
        }
        delivered
    }

    /// Without SACK, a duplicate ACK says that some segment has arrived (RFC 5681 3.2, step 2); gives its bytes.
    fn count_duplicate(&mut self, index: ConnIndex, place: ExtensionId) -> u32 {
        let tcb = &mut self.tcbs[index];
        let count = tcb.peer_acks().duplicates();
        tcb.peer_acks_mut().set_duplicates(count + 1);
        let mss = u32::from(tcb.eff_mss).min(tcb.flight());
        let extension = &mut self.extensions[place];
        extension.sacked_bytes = (extension.sacked_bytes + mss).min(tcb.snd_nxt - tcb.snd_una);
        mss
    }

    /// Finds losses, begins, conducts and ends recoveries.
    #[expect(clippy::too_many_arguments, reason = "what one ACK says, taken apart once")]
    fn detect(
        &mut self,
        index: ConnIndex,
        place: ExtensionId,
        ack: Seq,
        duplicate: Option<Seq>,
        bare_duplicate: bool,
        acked: u32,
        delivered: u32,
        is_new: bool,
    ) {
        let is_progress = acked > 0;
        let tcb = &self.tcbs[index];
        let in_recovery = tcb.has(Flags::RECOVERING.with(Flags::TIMED_OUT));
        let ends_recovery = in_recovery && ack.ge(tcb.window.recover);
        let signs =
            AckSigns { una: tcb.snd_una, nxt: tcb.snd_nxt, dsack: duplicate.is_some(), ends_recovery };
        let extension = &mut self.extensions[place];
        extension.rack.on_ack(signs);
        let probe = extension.tlp.on_ack(ProbeAck { ack, dsack_end: duplicate, bare_duplicate });
        if ends_recovery {
            self.end_recovery(index, place);
        }
        let are_found = if self.tcbs[index].has(Flags::SACK) {
            // Otherwise only time has passed, and for that there is the timer.
            is_new && self.mark_lost_by_time(index, place)
        } else {
            self.mark_lost_by_duplicates(index, place, is_progress)
        };
        let has_new_losses = are_found || ends_recovery && self.has_repaired(index);
        let tcb = &self.tcbs[index];
        let is_in = tcb.has(Flags::RECOVERING.with(Flags::TIMED_OUT));
        if (has_new_losses || probe == ProbeEnd::Repaired) && !is_in {
            self.begin_recovery(index, place, acked, delivered);
            if !has_new_losses {
                // The probe has repaired the loss: only the window has to change (RFC 8985 7.4.2).
                self.end_recovery(index, place);
            }
        }
        if self.tcbs[index].has(Flags::RECOVERING) {
            self.pace_recovery(index, place, delivered, is_progress && !has_new_losses);
        }
    }

    /// How much may be in flight now, in a recovery.
    pub(crate) fn pace_recovery(
        &mut self,
        index: ConnIndex,
        place: ExtensionId,
        delivered: u32,
        is_safe: bool,
    ) {
        let pipe = self.pipe(index);
        let tcb = &mut self.tcbs[index];
        let (ssthresh, eff_mss) = (tcb.window.ssthresh, tcb.eff_mss);
        let progress = Progress { delivered, pipe, ssthresh, eff_mss, is_safe };
        tcb.window.cwnd = self.extensions[place].prr.on_ack(progress);
    }

    /// A loss was found, by an ACK that moved SND.UNA by `acked` and delivered so many bytes, or by the timer.
    pub(crate) fn begin_recovery(
        &mut self,
        index: ConnIndex,
        place: ExtensionId,
        acked: u32,
        delivered: u32,
    ) {
        if self.has_lost_probe_alone(index, place) {
            return self.resend_unreduced(index);
        }
        self.counters.fast_recoveries += 1;
        let tcb = &mut self.tcbs[index];
        let extension = &mut self.extensions[place];
        extension.begin_repair(Some(tcb.window.prior()));
        extension.tlp = Tlp::NONE;
        extension.probe_due = false;
        extension.prr = Prr::new((tcb.flight() + delivered).saturating_sub(extension.sacked_bytes));
        if !tcb.has_reacted() {
            tcb.window.on_loss(tcb.algorithm(), tcb.flight() + acked, tcb.eff_mss);
            tcb.flags.set(Flags::REDUCED);
        }
        tcb.window.recover = tcb.snd_nxt;
        tcb.flags.set(Flags::RECOVERING);
    }

    fn end_recovery(&mut self, index: ConnIndex, place: ExtensionId) {
        let tcb = &mut self.tcbs[index];
        if tcb.has(Flags::RECOVERING) {
            tcb.window.on_recovered();
        }
        tcb.flags.clear(Flags::RECOVERING.with(Flags::TIMED_OUT));
        tcb.peer_acks_mut().set_duplicates(0);
        let extension = &mut self.extensions[place];
        extension.begin_repair(None);
        if !tcb.has(Flags::SACK) {
            extension.sacked_bytes = 0;
            extension.sacked_segments = 0;
        }
    }

    /// Whether anything in flight was taken for lost, and perhaps sent again. At the end of a recovery that is a loss in the next
    /// window of data, and so a second sign of congestion (RFC 5681 4.3).
    fn has_repaired(&self, index: ConnIndex) -> bool {
        let tcb = &self.tcbs[index];
        let mut sent = self.pool.queue(tcb.send_tail).take_while(|cell| *cell != tcb.send_next);
        sent.any(|cell| self.pool.segment(cell).marks.has(Marks::LOST.with(Marks::RESENT)))
    }

    /// RFC 8985 6.2, step 5. True if anything was newly marked.
    pub(crate) fn mark_lost_by_time(&mut self, index: ConnIndex, place: ExtensionId) -> bool {
        let now = self.now.short();
        let tcb = &self.tcbs[index];
        let rack = self.extensions[place].rack;
        let recovering = tcb.has(Flags::RECOVERING.with(Flags::TIMED_OUT));
        let sacked = u32::from(self.extensions[place].sacked_segments);
        let window = rack.reo_wnd_micros(tcb.rtt.srtt_micros(), sacked, recovering);
        let (tail, unsent) = (tcb.send_tail, tcb.send_next);
        let (mut lost, mut wait) = (0, 0);
        self.pool.walk(tail, unsent, |kept| {
            if kept.marks.has(Marks::SACKED.with(Marks::LOST)) {
                return true;
            }
            match rack.is_lost(now, kept.sent_at, kept.end(), window) {
                // The segments behind an original were sent later still.
                Lost::Unknown => return kept.marks.has(Marks::RESENT),
                // Sent again at this very moment, as far as the clock tells: what arrives now answers what was sent before.
                Lost::Yes if kept.marks.has(Marks::RESENT) && kept.sent_at == now => wait = wait.max(1),
                Lost::In(micros) => wait = wait.max(micros),
                Lost::Yes => {
                    kept.marks.set(Marks::LOST);
                    lost += kept.end() - kept.seq;
                }
            }
            true
        });
        if wait > 0 {
            // The first tick that is not before the moment: a little too early would find nothing lost.
            let at = self.first_tick(Instant::from_micros(self.now.as_micros() + u64::from(wait)));
            self.set_loss_timer(index, at);
        }
        self.extensions[place].lost_bytes += lost;
        lost > 0
    }

    /// RFC 6582: the third duplicate, or a partial ACK, means that the first segment is lost.
    fn mark_lost_by_duplicates(&mut self, index: ConnIndex, place: ExtensionId, is_progress: bool) -> bool {
        let tcb = &self.tcbs[index];
        let is_partial = is_progress && tcb.has(Flags::RECOVERING);
        // Step 1: not for retransmissions from before the end of the last recovery. A congestion mark made none.
        let is_third = tcb.peer_acks().duplicates() == 3
            && (tcb.snd_una.gt(tcb.window.recover) || tcb.has_reacted())
            && !tcb.has(Flags::RECOVERING);
        let first = self.pool.front(tcb.send_tail);
        if !(is_partial || is_third) || first.is_none() || first == tcb.send_next {
            return false;
        }
        let kept = self.pool.segment_mut(first);
        let is_new = !kept.marks.has(Marks::LOST);
        if is_new {
            kept.marks.set(Marks::LOST);
            self.extensions[place].lost_bytes += kept.end() - kept.seq;
        }
        is_new
    }

    /// The last segment, in order of sending, that the peer has not reported. A loss probe repeats it.
    pub(crate) fn last_sent(&self, index: ConnIndex) -> Option<Cell> {
        let tcb = &self.tcbs[index];
        let sent = self.pool.queue(tcb.send_tail).take_while(|cell| *cell != tcb.send_next);
        sent.filter(|cell| !self.pool.segment(*cell).marks.has(Marks::SACKED)).last()
    }

    /// Segments in flight with more payload than the path takes go again, cut to the present size as they leave.
    pub(crate) fn resend_longer_than(&mut self, index: ConnIndex, payload: u16) {
        let tcb = &self.tcbs[index];
        let (tail, unsent) = (tcb.send_tail, tcb.send_next);
        let mut lost = 0;
        self.pool.walk(tail, unsent, |kept| {
            if kept.length > payload && !kept.marks.has(Marks::SACKED.with(Marks::LOST)) {
                kept.marks.set(Marks::LOST);
                lost += kept.end() - kept.seq;
            }
            true
        });
        if lost == 0 {
            return;
        }
        if let Some(extension) = self.extensions_mut(self.tcbs[index].extension) {
            extension.lost_bytes += lost;
        }
        self.resend_unreduced(index);
    }

    /// Sends again what is marked as lost. The path did not take it because of its length, which is no sign of congestion.
    fn resend_unreduced(&mut self, index: ConnIndex) {
        let is_in = self.tcbs[index].has(Flags::RECOVERING.with(Flags::TIMED_OUT));
        if !is_in && let Some(extension) = self.extensions_mut(self.tcbs[index].extension) {
            // Nothing is reduced, so nothing can be taken back.
            extension.begin_repair(None);
        }
        let tcb = &mut self.tcbs[index];
        tcb.flags.set(if is_in { Flags::NONE } else { Flags::TIMED_OUT });
        tcb.window.recover = tcb.snd_nxt;
        self.schedule(index);
    }

    /// Bytes in flight (RFC 6675, section 4): sent, not held by the peer and not lost.
    pub(crate) fn pipe(&self, index: ConnIndex) -> u32 {
        let tcb = &self.tcbs[index];
        if tcb.extension == Tcb::NO_EXTENSION && !tcb.has(Flags::TIMED_OUT) {
            return tcb.flight();
        }
        let (lost, sacked) = if tcb.extension == Tcb::NO_EXTENSION {
            (self.lost_bytes(index), 0)
        } else {
            let extension = &self.extensions[tcb.extension];
            (extension.lost_bytes, extension.sacked_bytes)
        };
        tcb.flight().saturating_sub(lost).saturating_sub(sacked)
    }

    /// Numbers of the segments in flight that are marked as lost, each with its FIN, as SND.NXT counts it.
    pub(crate) fn lost_bytes(&self, index: ConnIndex) -> u32 {
        let tcb = &self.tcbs[index];
        let sent = self.pool.queue(tcb.send_tail).take_while(|cell| *cell != tcb.send_next);
        let lost = sent.map(|cell| self.pool.segment(cell)).filter(|kept| kept.marks.has(Marks::LOST));
        lost.map(|kept| kept.end() - kept.seq).sum()
    }

    /// The first segment that is to be sent again.
    pub(crate) fn next_lost(&self, index: ConnIndex) -> Option<Cell> {
        let tcb = &self.tcbs[index];
        if tcb.extension != Tcb::NO_EXTENSION && self.extensions[tcb.extension].lost_bytes == 0 {
            return None;
        }
        let mut sent = self.pool.queue(tcb.send_tail).take_while(|cell| *cell != tcb.send_next);
        sent.find(|cell| self.pool.segment(*cell).marks.has(Marks::LOST))
    }

    /// Whether the first ACK after a retransmission answers the original, so that nothing was lost: it echoes the
    /// original's timestamp (RFC 3522), or reports all retransmissions as duplicates (RFC 3708).
    fn was_mistaken(
        &mut self,
        index: ConnIndex,
        place: ExtensionId,
        echo: Option<u32>,
        is_duplicate: bool,
    ) -> bool {
        let extension = &mut self.extensions[place];
        let Some(resent) = extension.resent_at else { return false };
        if is_duplicate {
            extension.resent_count = extension.resent_count.saturating_sub(1);
        }
        let are_all_duplicates = is_duplicate && extension.resent_count == 0;
        let tcb = &self.tcbs[index];
        if extension.prior.is_none() || !tcb.has(Flags::RECOVERING.with(Flags::TIMED_OUT)) {
            return false;
        }
        if are_all_duplicates {
            return true;
        }
        let Some(echo) = echo.filter(|_| tcb.has(Flags::TIMESTAMPS)) else { return false };
        (echo.wrapping_sub(tcb.ts_offset).wrapping_sub(resent.0) as i32) < 0
    }

    /// Whether one segment alone is out.
    fn has_one_in_flight(&self, index: ConnIndex) -> bool {
        let tcb = &self.tcbs[index];
        let first = self.pool.front(tcb.send_tail);
        first == tcb.send_tail || self.pool.segment(first).next == tcb.send_next
    }

    /// Takes back a reduction that was for nothing. If the timer was too early for one segment, its ACK was delayed.
    fn undo(&mut self, index: ConnIndex, place: ExtensionId, was_lone: bool) {
        let tcb = &mut self.tcbs[index];
        if was_lone && tcb.has(Flags::TIMED_OUT) {
            tcb.peer_acks_mut().assume_longer_delay();
        }
        if let Some(prior) = self.extensions[place].prior.take() {
            tcb.window.undo(prior);
        }
        tcb.window.recover = tcb.snd_una;
        self.extensions[place].resent_at = None;
        self.extensions[place].lost_bytes = 0;
        tcb.flags.clear(Flags::RECOVERING.with(Flags::TIMED_OUT));
        let (eff_mss, mut lost) = (tcb.eff_mss, 0);
        self.pool.walk(tcb.send_tail, tcb.send_next, |kept| {
            if kept.length > eff_mss {
                // The path has become narrower, and has not taken it.
                lost += if kept.marks.has(Marks::LOST) { kept.end() - kept.seq } else { 0 };
            } else {
                kept.marks.clear(Marks::LOST);
            }
            true
        });
        self.extensions[place].lost_bytes = lost;
    }

    /// The retransmission timer has fired (RFC 6298, section 5; RFC 6675 5.1).
    pub(crate) fn on_retransmission_timeout(&mut self, index: ConnIndex) {
        self.counters.timeouts += 1;
        let place = self.extension_of(index);
        let tcb = &mut self.tcbs[index];
        let (tail, unsent) = (tcb.send_tail, tcb.send_next);
        let first = self.pool.front(tail);
        // A path that has become narrower sends again as well, and reduces nothing.
        let by_timer = tcb.timeouts() > 1 || place.is_none_or(|place| self.extensions[place].prior.is_some());
        let is_repeated = tcb.has(Flags::TIMED_OUT)
            && by_timer
            && !first.is_none()
            && self.pool.segment(first).transmissions > 1;
        if is_repeated {
            tcb.window.on_repeated_timeout(tcb.eff_mss);
        } else {
            let prior = tcb.window.prior();
            tcb.window.on_timeout(tcb.algorithm(), tcb.flight(), tcb.eff_mss);
            if let Some(place) = place {
                self.extensions[place].begin_repair(Some(prior));
            }
        }
        if let Some(place) = place {
            let extension = &mut self.extensions[place];
            // A peer may discard data that it reported (RFC 2018, section 8). From here on only SND.UNA counts.
            extension.sacked_bytes = 0;
            extension.sacked_segments = 0;
            extension.tlp = Tlp::NONE;
            extension.probe_due = false;
            extension.rack.on_timeout();
        }
        tcb.window.recover = tcb.snd_nxt;
        tcb.flags.clear(Flags::RECOVERING);
        tcb.flags.set(Flags::TIMED_OUT.with(Flags::REDUCED));
        tcb.peer_acks_mut().set_duplicates(0);
        let mut lost = 0;
        self.pool.walk(tail, unsent, |kept| {
            kept.marks.clear(Marks::SACKED);
            kept.marks.set(Marks::LOST);
            lost += kept.end() - kept.seq;
            true
        });
        if let Some(place) = place {
            self.extensions[place].lost_bytes = lost;
        }
        self.schedule(index);
    }
}

/// ACKs of a connection in a millisecond that may each cost a look at the queue and tell nothing new: duplicates that D-SACK
/// reports come in such numbers at most.
const TOLD_NOTHING_MAX: u8 = 16;

/// The right edge of a block that reports a duplicate: the first one, if it is behind the ACK or within the second
/// (RFC 2883, section 4).
fn duplicate_in(blocks: &[(Seq, Seq)], ack: Seq) -> Option<Seq> {
    let (left, right) = *blocks.first()?;
    let is_within = |(outer_left, outer_right): &(Seq, Seq)| outer_left.le(left) && right.le(*outer_right);
    (right.le(ack) || blocks.get(1).is_some_and(is_within)).then_some(right)
}
