//! RACK: a segment is lost once one that was sent later has arrived and enough time has passed (RFC 8985 6).
//!
//! With each ACK the engine calls [`Rack::on_segment_acked`] for every newly covered segment, in ascending order of
//! sequence numbers, and then [`Rack::on_ack`] once. Then it asks [`Rack::is_lost`] about the segments still in flight,
//! with the window from [`Rack::reo_wnd_micros`]. The longest [`Lost::In`] is the reordering timer; when it fires, the last
//! step is repeated.
//!
//! Times are 32-bit microseconds that wrap after 71 minutes. A segment in flight for longer has met the retransmission
//! timer, which sets its time anew.

use anywire_packet::Seq;

/// RACK's state of one connection. The names are from RFC 8985 5.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Rack {
    /// When the latest segment that has arrived was sent.
    xmit_ts: u32,
    /// Where it ends.
    end_seq: Seq,
    /// The round trip of the segment delivered last.
    rtt_micros: u32,
    /// The shortest round trip since this state was made, `u32::MAX` if none is known. The state lives only as long as the
    /// trouble, so this is the minimum over a recent window that 6.2 step 1 asks for.
    min_rtt_micros: u32,
    /// The highest sequence number that arrived.
    fack: Seq,
    /// SND.NXT when a D-SACK last widened the window; counts while `in_dsack_round`.
    dsack_round: Seq,
    /// Quarters of the shortest round trip that reordering is given.
    reo_wnd_mult: u8,
    /// Recoveries without D-SACK until that is one again.
    reo_wnd_persist: u8,
    in_dsack_round: bool,
    reordering_seen: bool,
    /// Whether `xmit_ts` and `end_seq` describe a segment.
    any_delivered: bool,
}

/// A segment that an ACK newly covers, cumulatively or selectively.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivered {
    /// When it was last sent.
    pub(crate) sent_at_micros: u32,
    pub(crate) end_seq: Seq,
    /// Whether it was sent more than once.
    pub(crate) retransmitted: bool,
    /// The ACK echoes a timestamp from before the last sending: it answers an earlier one.
    pub(crate) echo_is_older: bool,
}

/// What an ACK says beside the segments that it covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckSigns {
    /// After it.
    pub(crate) una: Seq,
    pub(crate) nxt: Seq,
    /// It carries a D-SACK: something was sent again for nothing (RFC 2883).
    pub(crate) dsack: bool,
    /// It ends a fast or timeout recovery.
    pub(crate) ends_recovery: bool,
}

/// The verdict on a segment in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nothing that was sent after it has arrived.
    Unknown,
    /// It will be, unless it arrives within so many microseconds, at least one.
    In(u32),
    Yes,
}

impl Rack {
    /// For a connection whose oldest byte in flight is `una`. `srtt_micros`, 0 if there is none, stands for
    /// the round trips that were measured before.
    pub(crate) const fn new(una: Seq, srtt_micros: u32) -> Self {
        Self {
            xmit_ts: 0,
            end_seq: una,
            rtt_micros: srtt_micros,
            min_rtt_micros: if srtt_micros == 0 { u32::MAX } else { srtt_micros },
            fack: una,
            dsack_round: una,
            reo_wnd_mult: 1,
            reo_wnd_persist: PERSIST_RECOVERIES,
            in_dsack_round: false,
            reordering_seen: false,
            any_delivered: false,
        }
    }

    /// RFC 8985 6.2, steps 1 to 3, for one segment.
    pub(crate) fn on_segment_acked(&mut self, now_micros: u32, segment: Delivered) {
        self.look_for_reordering(segment);
        let rtt = now_micros.wrapping_sub(segment.sent_at_micros);
        if segment.retransmitted {
            // Which sending arrived is not known. If it cannot have been the last one, nothing is learned.
            if segment.echo_is_older || rtt < self.min_rtt_micros {
                return;
            }
        } else {
            self.min_rtt_micros = self.min_rtt_micros.min(rtt);
        }
        self.rtt_micros = rtt;
        if !self.any_delivered || sent_after((segment.sent_at_micros, segment.end_seq), self.latest()) {
            (self.xmit_ts, self.end_seq) = (segment.sent_at_micros, segment.end_seq);
            self.any_delivered = true;
        }
    }

    /// Everything that was sent has arrived: nothing that is sent from now on was sent before any of it. Without this the
    /// time of the last one would look like one to come, 36 minutes later.
    pub(crate) const fn on_all_acked(&mut self) {
        self.any_delivered = false;
    }

    /// The retransmission timer has fired, so everything in flight is taken for lost: what goes again is sent later than what
    /// has arrived so far. Without this that would look later, 36 minutes from now.
    pub(crate) const fn on_timeout(&mut self) {
        self.any_delivered = false;
    }

    /// RFC 8985 6.2, step 4, the part that remembers: D-SACKs widen the window, once a round trip, for
    /// sixteen recoveries.
    pub(crate) fn on_ack(&mut self, signs: AckSigns) {
        if self.in_dsack_round && signs.una.ge(self.dsack_round) {
            self.in_dsack_round = false;
        }
        if !self.in_dsack_round && signs.dsack {
            self.in_dsack_round = true;
            self.dsack_round = signs.nxt;
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = PERSIST_RECOVERIES;
        } else if signs.ends_recovery {
            self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
            if self.reo_wnd_persist == 0 {
                self.reo_wnd_mult = 1;
            }
        }
    }

    /// RFC 8985 6.2, step 4: how long a segment may be overtaken before it is lost. `recovering`: in a fast
    /// or timeout recovery.
    pub(crate) fn reo_wnd_micros(&self, srtt_micros: u32, sacked_segments: u32, recovering: bool) -> u32 {
        if !self.reordering_seen && (recovering || sacked_segments >= DUP_THRESH) {
            return 0;
        }
        let window = u64::from(self.reo_wnd_mult) * u64::from(self.min_rtt_micros) / 4;
        // At least what the clock tells apart, as for the variance in RFC 6298 2.3: a round trip that the clock does not see takes some
        // time all the same. Without this all reordering would look like loss where the clock moves in long steps.
        window.min(u64::from(srtt_micros)).max(CLOCK_MICROS) as u32
    }

    /// RFC 8985 6.2, step 5, for one segment that is out and not yet marked lost.
    pub(crate) fn is_lost(
        &self,
        now_micros: u32,
        sent_at_micros: u32,
        end_seq: Seq,
        reo_wnd_micros: u32,
    ) -> Lost {
        if !self.any_delivered || !sent_after(self.latest(), (sent_at_micros, end_seq)) {
            return Lost::Unknown;
        }
        match self.remaining_micros(now_micros, sent_at_micros, reo_wnd_micros) {
            0 => Lost::Yes,
            remaining => Lost::In(remaining),
        }
    }

    /// Whether a segment was ever seen to arrive out of order.
    #[cfg(test)]
    pub(crate) const fn reordering_seen(&self) -> bool {
        self.reordering_seen
    }

    fn look_for_reordering(&mut self, segment: Delivered) {
        if segment.end_seq.gt(self.fack) {
            self.fack = segment.end_seq;
        } else if segment.end_seq.lt(self.fack) && !segment.retransmitted {
            self.reordering_seen = true;
        }
    }

    fn latest(&self) -> (u32, Seq) {
        (self.xmit_ts, self.end_seq)
    }

    fn remaining_micros(&self, now_micros: u32, sent_at_micros: u32, reo_wnd_micros: u32) -> u32 {
        let elapsed = now_micros.wrapping_sub(sent_at_micros);
        self.rtt_micros.saturating_add(reo_wnd_micros).saturating_sub(elapsed)
    }
}

/// `RACK_sent_after`: segments of one burst have the same time, so the sequence number decides.
const fn sent_after(a: (u32, Seq), b: (u32, Seq)) -> bool {
    let later = a.0.wrapping_sub(b.0) as i32;
    later > 0 || (later == 0 && a.1.gt(b.1))
}

/// RFC 8985 6.2 step 4, and `DupThresh` of RFC 5681.
const PERSIST_RECOVERIES: u8 = 16;
const DUP_THRESH: u32 = 3;

/// The granularity of the clock.
const CLOCK_MICROS: u64 = 1;

const _: () = assert!(size_of::<Rack>() <= 32);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(sent_at_micros: u32, end: u32) -> Delivered {
        Delivered { sent_at_micros, end_seq: Seq(end), retransmitted: false, echo_is_older: false }
    }

    #[test]
    fn a_segment_is_lost_a_quarter_of_a_round_trip_after_a_later_one_arrived() {
        let mut rack = Rack::new(Seq(0), 10_000);
        rack.on_segment_acked(10_010, segment(10, 2000));
        let window = rack.reo_wnd_micros(10_000, 1, false);
        assert_eq!(window, 2500);
        assert_eq!(rack.is_lost(10_010, 0, Seq(1000), window), Lost::In(2490));
        assert_eq!(rack.is_lost(12_500, 0, Seq(1000), window), Lost::Yes);
        assert_eq!(rack.is_lost(12_500, 10, Seq(3000), window), Lost::Unknown, "same burst, behind");
        assert_eq!(rack.is_lost(12_500, 10, Seq(2000), window), Lost::Unknown, "that one itself");
        assert_eq!(rack.is_lost(12_500, 10, Seq(1000), window), Lost::In(10), "same burst, before");
    }

    #[test]
    fn what_arrived_long_ago_was_not_sent_later_than_what_is_out() {
        let mut rack = Rack::new(Seq(0), 10_000);
        rack.on_segment_acked(10_000, segment(0, 1000));
        rack.on_all_acked();
        // Forty minutes are more than half of what the clock tells apart.
        let now = 40 * 60 * 1_000_000;
        assert_eq!(rack.is_lost(now, now, Seq(2000), 2500), Lost::Unknown);
        rack.on_segment_acked(now + 10_000, segment(now, 3000));
        assert_eq!(rack.is_lost(now + 20_000, now, Seq(2000), 2500), Lost::Yes);
    }

    #[test]
    fn without_reordering_three_segments_or_a_recovery_leave_no_room_for_it() {
        let mut rack = Rack::new(Seq(0), 10_000);
        assert_eq!([rack.reo_wnd_micros(10_000, 3, false), rack.reo_wnd_micros(10_000, 0, true)], [0, 0]);
        rack.on_segment_acked(20_000, segment(10_000, 2000));
        assert!(!rack.reordering_seen());
        rack.on_segment_acked(20_000, segment(10_000, 1000));
        assert!(rack.reordering_seen());
        assert_eq!(
            [rack.reo_wnd_micros(10_000, 3, false), rack.reo_wnd_micros(10_000, 0, true)],
            [2500, 2500]
        );
    }

    #[test]
    fn a_retransmission_that_cannot_have_arrived_teaches_nothing() {
        let mut rack = Rack::new(Seq(0), 10_000);
        rack.on_segment_acked(10_000, segment(0, 1000));
        let before = rack;
        // Its answer came before any could; or it echoes an earlier timestamp.
        rack.on_segment_acked(25_000, Delivered { retransmitted: true, ..segment(20_000, 500) });
        let older = Delivered { retransmitted: true, echo_is_older: true, ..segment(20_000, 900) };
        rack.on_segment_acked(32_000, older);
        assert_eq!(rack, before);
        rack.on_segment_acked(32_000, Delivered { retransmitted: true, ..segment(20_000, 900) });
        assert_eq!((rack.xmit_ts, rack.end_seq, rack.rtt_micros), (20_000, Seq(900), 12_000));
        assert!(!rack.reordering_seen(), "it was out of order because it was sent again");
    }

    #[test]
    fn duplicates_widen_the_window_once_a_round_trip_and_for_sixteen_recoveries() {
        let mut rack = Rack::new(Seq(0), 8000);
        let signs =
            |una, dsack, ends_recovery| AckSigns { una: Seq(una), nxt: Seq(una + 100), dsack, ends_recovery };
        rack.on_ack(signs(10, true, false));
        rack.on_ack(signs(50, true, true));
        assert_eq!(rack.reo_wnd_micros(8000, 0, false), 4000);
        rack.on_ack(signs(110, true, false));
        assert_eq!(rack.reo_wnd_micros(8000, 0, false), 6000);
        assert_eq!(rack.reo_wnd_micros(5000, 0, false), 5000, "at most SRTT");
        for recovery in 1..=16 {
            assert_eq!(rack.reo_wnd_mult, 3, "before recovery {recovery}");
            rack.on_ack(signs(300, false, true));
        }
        assert_eq!(rack.reo_wnd_mult, 1);
    }

    /// RFC 8985 as it is written, with times and numbers that do not wrap.
    #[derive(Default)]
    struct Model {
        latest: Option<(i64, i64)>,
        rtt: i64,
        min_rtt: i64,
        fack: i64,
        reordering_seen: bool,
    }

    impl Model {
        fn on_segment_acked(&mut self, now: i64, sent_at: i64, end: i64, retransmitted: bool, older: bool) {
            if end > self.fack {
                self.fack = end;
            } else if end < self.fack && !retransmitted {
                self.reordering_seen = true;
            }
            let rtt = now - sent_at;
            if retransmitted && (older || rtt < self.min_rtt) {
                return;
            }
            if !retransmitted {
                self.min_rtt = self.min_rtt.min(rtt);
            }
            self.rtt = rtt;
            if self.latest.is_none_or(|latest| (sent_at, end) > latest) {
                self.latest = Some((sent_at, end));
            }
        }

        fn is_lost(&self, now: i64, sent_at: i64, end: i64, window: i64) -> Lost {
            if self.latest.is_none_or(|latest| latest <= (sent_at, end)) {
                return Lost::Unknown;
            }
            let remaining = sent_at + self.rtt + window - now;
            if remaining <= 0 { Lost::Yes } else { Lost::In(remaining as u32) }
        }
    }

    proptest! {
        /// Segments sent, sent again and delivered in any order, with clocks and numbers that wrap on the
        /// way.
        #[test]
        fn verdicts_are_those_of_the_rfc(
            steps in prop::collection::vec((0_usize..20, 0_u8..4, 0_i64..30_000_000), 1..80),
            time_offset: u32,
            seq_offset: u32,
            srtt in 1_u32..2_000_000,
            sacked in 0_u32..5,
            recovering: bool,
        ) {
            let short = |micros: i64| time_offset.wrapping_add(micros as u32);
            let seq = |number: i64| Seq(seq_offset) + number as u32;
            let mut rack = Rack::new(Seq(seq_offset), srtt);
            let mut model = Model { rtt: srtt.into(), min_rtt: srtt.into(), ..Model::default() };
            // Of each segment: when it was sent, and whether again. All leave in two bursts.
            let mut out: Vec<Option<(i64, bool)>> = (0..20).map(|i| Some((i / 10 * 100, false))).collect();
            let mut now = 1000;
            for (i, what, wait) in steps {
                now += wait >> (wait % 20);
                let end = (i as i64 + 1) * 1000;
                match (out[i], what) {
                    (Some(_), 0) => out[i] = Some((now, true)),
                    (Some((sent_at, retransmitted)), _) => {
                        let echo_is_older = retransmitted && what == 1;
                        let sent_at_micros = short(sent_at);
                        let end_seq = seq(end);
                        let segment = Delivered { sent_at_micros, end_seq, retransmitted, echo_is_older };
                        rack.on_segment_acked(short(now), segment);
                        model.on_segment_acked(now, sent_at, end, retransmitted, echo_is_older);
                        out[i] = None;
                    }
                    (None, _) => {}
                }
                let window = rack.reo_wnd_micros(srtt, sacked, recovering);
                let none = !model.reordering_seen && (recovering || sacked >= 3);
                // At least a microsecond, which is what the clock tells apart.
                let exact = if none { 0 } else { (model.min_rtt / 4).min(srtt.into()).max(1) };
                prop_assert_eq!(i64::from(window), exact);
                for (i, segment) in out.iter().enumerate() {
                    let Some((sent_at, _)) = *segment else { continue };
                    let end = (i as i64 + 1) * 1000;
                    let found = rack.is_lost(short(now), short(sent_at), seq(end), window);
                    prop_assert_eq!(found, model.is_lost(now, sent_at, end, window.into()));
                    if let Lost::In(micros) = found {
                        let then = short(now + i64::from(micros));
                        prop_assert_eq!(rack.is_lost(then, short(sent_at), seq(end), window), Lost::Yes);
                    }
                }
            }
        }

        #[test]
        fn no_input_overflows(
            calls in prop::collection::vec(any::<(u32, u32, u32, bool, bool, u32)>(), 1..40),
            srtt: u32,
        ) {
            let mut rack = Rack::new(Seq(0), srtt);
            for (now, sent_at, end, one, other, micros) in calls {
                let end_seq = Seq(end);
                let segment =
                    Delivered { sent_at_micros: sent_at, end_seq, retransmitted: one, echo_is_older: other };
                rack.on_segment_acked(now, segment);
                rack.on_ack(AckSigns { una: end_seq, nxt: Seq(micros), dsack: one, ends_recovery: other });
                let window = rack.reo_wnd_micros(micros, 0, other);
                prop_assert!(window <= micros);
                let lost = rack.is_lost(now, sent_at, end_seq, window);
                prop_assert!(lost != Lost::In(0));
            }
        }
    }
}
