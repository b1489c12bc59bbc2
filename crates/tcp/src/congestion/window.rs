//! The congestion window of one connection: what every algorithm shares, and the way to each.
//!
//! The state is 24 bytes of the TCB's second line, so two things are stored otherwise than the RFCs
//! write them. CUBIC keeps the moment at which its curve reaches `W_max` in place of `epoch_start` and `K`,
//! since the curve needs only their sum. And whether an epoch runs is told by `w_est`, which is never zero
//! within one. In the first slow start these fields are those of [`hystart`]. `recover` is set by the caller on entering a recovery; here it tells the slow start after a
//! timeout from any other.

use anywire_packet::Seq;

use crate::time::Tick;

use super::{cubic, hystart, new_reno};

/// Which algorithm opens the congestion window; of each connection, fixed when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// One segment a round trip, half on a loss (RFC 5681, 6582).
    NewReno = 0,
    /// A cubic function of the time since the last loss, 0.7 on a loss (RFC 9438). What most systems do.
    #[default]
    Cubic = 1,
}

/// The congestion state of one connection. All windows in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Window {
    /// What may be in flight.
    pub(crate) cwnd: u32,
    /// Below it slow start, from it on congestion avoidance. `u32::MAX` in the first slow start, which a loss or
    /// [HyStart++](hystart) ends.
    pub(crate) ssthresh: u32,
    /// SND.NXT when the last recovery began (RFC 6582 3.2, RFC 6675 5); the initial sequence number before
    /// any.
    pub(crate) recover: Seq,
    /// CUBIC: the window at the last loss, lowered by fast convergence; 0: none, the next epoch starts at its
    /// plateau.
    pub(super) w_max: u32,
    /// CUBIC: when the curve is at `w_max`, which is `epoch_start + K`; the distance to it while paused.
    pub(super) plateau: Tick,
    /// CUBIC: what Reno would have by now, 0 outside an epoch, the topmost bit while paused.
    /// NewReno: bytes acknowledged towards the next segment of growth.
    pub(super) w_est: u32,
}

/// One acknowledgement of new data, as congestion control sees it.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Acked {
    /// Bytes that this acknowledgement newly covers.
    pub(crate) bytes: u32,
    /// SND.UNA after it.
    pub(crate) una: Seq,
    /// What a segment may carry now.
    pub(crate) eff_mss: u16,
    /// SND.NXT.
    pub(crate) snd_nxt: Seq,
    /// The smoothed round trip, 0 if none was measured.
    pub(crate) srtt_micros: u32,
    /// The round trip that this acknowledgement measures.
    pub(crate) rtt_micros: Option<u32>,
}

impl Window {
    /// The window of a new connection (RFC 6928), whose first sequence number is `iss`.
    pub(crate) fn new(iss: Seq, eff_mss: u16) -> Self {
        Self { cwnd: initial_window_bytes(eff_mss), ssthresh: u32::MAX, recover: iss, ..Self::default() }
    }

    /// The SYN or its answer had to be sent again: one segment to start with (RFC 5681 3.1).
    pub(crate) fn on_syn_lost(&mut self, eff_mss: u16) {
        self.cwnd = u32::from(eff_mss.max(1));
    }

    /// New data was acknowledged outside recovery. Call it only if the window held the sender back when the data left: an
    /// unused window does not grow (RFC 9438 5.8; RFC 5681 3.1 leaves it open).
    pub(crate) fn on_ack(&mut self, now: Tick, algorithm: Algorithm, acked: Acked) {
        // Whatever a recovery has set it to.
        self.cwnd = self.cwnd.clamp(1, WINDOW_BYTES_MAX);
        if self.cwnd < self.ssthresh {
            self.slow_start(acked);
        } else {
            match algorithm {
                Algorithm::NewReno => new_reno::avoid(self, acked),
                Algorithm::Cubic => cubic::avoid(self, now, acked),
            }
        }
    }

    /// To be called whenever SND.UNA moves: a mark that lies 2^31 behind it would look as if it lay ahead.
    #[inline(always)]
    pub(crate) fn keep_recover_near(&mut self, una: Seq) {
        if una - self.recover > RECOVER_BEHIND_MAX && self.recover.lt(una) {
            self.recover = una;
            if self.is_in_first_slow_start() {
                hystart::keep_round_near(self, una);
            }
        }
    }

    /// Whether the window is used with so much in flight. In avoidance that is all that whole segments can fill. In slow start it is
    /// more than half, so that the window becomes up to twice what was sent (`tcp_is_cwnd_limited` of Linux; RFC 7661 4.3).
    pub(crate) const fn is_filled_by(&self, flight: u32, eff_mss: u16) -> bool {
        if self.cwnd < self.ssthresh {
            flight > self.cwnd / 2
        } else {
            flight.saturating_add(eff_mss as u32) > self.cwnd
        }
    }

    /// The sender is no longer held back by the window, or has nothing to send: time stands still for CUBIC
    /// until the next [`on_ack`](Self::on_ack) (RFC 9438 4.2, 5.8). Once per change is enough, more do no
    /// harm.
    pub(crate) fn on_limit_elsewhere(&mut self, now: Tick, algorithm: Algorithm) {
        if algorithm == Algorithm::Cubic && !self.is_in_first_slow_start() {
            cubic::pause(self, now);
        }
    }

    /// A loss was found and a recovery begins: at most once a window of data. `flight` is SND.NXT - SND.UNA. Sets
    /// `ssthresh`, and `cwnd` to it; [`Prr`](super::Prr) may then say another `cwnd` with each acknowledgement of the
    /// recovery.
    pub(crate) fn on_loss(&mut self, algorithm: Algorithm, flight: u32, eff_mss: u16) {
        // What limited transmit sent beyond the window does not count (RFC 5681 3.2 step 2).
        let reduced = self.reduce(algorithm, flight.min(self.cwnd));
        self.ssthresh = reduced.max(2 * u32::from(eff_mss));
        self.cwnd = self.ssthresh;
    }

    /// The fast recovery is over: everything up to `recover` is acknowledged (RFC 6582 3.2 step 3, RFC 6937
    /// 3). Not after a timeout, where slow start goes on, nor after [`undo`](Self::undo).
    pub(crate) fn on_recovered(&mut self) {
        if self.ssthresh < u32::MAX {
            self.cwnd = self.ssthresh;
        }
    }

    /// The peer echoed a congestion mark (RFC 3168 6.1.2): like a loss, but nothing has to be sent again. At
    /// most once a window of data; the caller sets `recover` and answers with CWR.
    pub(crate) fn on_ecn(&mut self, algorithm: Algorithm, flight: u32, eff_mss: u16) {
        let reduced = self.reduce(algorithm, flight);
        self.ssthresh = reduced.max(2 * u32::from(eff_mss));
        // RFC 9438 4.6: a mark may bring the window down to a single segment, a loss to two.
        self.cwnd = reduced.max(u32::from(eff_mss)).min(self.cwnd.max(1));
    }

    /// The retransmission timer fired for a segment that it had not yet sent again (RFC 5681 3.1, RFC 9438
    /// 4.8).
    pub(crate) fn on_timeout(&mut self, algorithm: Algorithm, flight: u32, eff_mss: u16) {
        let reduced = self.reduce(algorithm, flight);
        self.ssthresh = reduced.max(2 * u32::from(eff_mss));
        // The first avoidance after a timeout starts on its plateau: K = 0, W_max = cwnd (RFC 9438 4.8).
        self.w_max = 0;
        self.on_repeated_timeout(eff_mss);
    }

    /// The timer fired again for the same segment: `ssthresh` stays as it is (RFC 5681 3.1).
    pub(crate) fn on_repeated_timeout(&mut self, eff_mss: u16) {
        self.cwnd = u32::from(eff_mss.max(1));
        self.w_est = 0;
    }

    /// Nothing was sent for longer than a retransmission timeout: the clock of acknowledgements is gone, so
    /// the window is at most the initial one again (RFC 5681 4.1). To be called before the next segment
    /// leaves.
    pub(crate) fn after_idle(&mut self, eff_mss: u16) {
        let restart = initial_window_bytes(eff_mss);
        if self.cwnd > restart {
            self.cwnd = restart;
            self.w_est = 0;
            if self.is_in_first_slow_start() {
                hystart::end(self);
            }
        }
    }

    /// The moment of the curve becomes no older than this, if there is one.
    pub(crate) fn grow_older(&mut self, now: Tick, oldest_millis: u32) {
        if !self.is_in_first_slow_start() && !cubic::is_paused(self.w_est) {
            self.plateau.keep_near(now, oldest_millis);
        }
    }

    /// No loss so far, and no other reason to end it.
    const fn is_in_first_slow_start(&self) -> bool {
        self.ssthresh == u32::MAX
    }

    /// What [`undo`](Self::undo) needs to take back the reduction that comes next.
    pub(crate) const fn prior(&self) -> Prior {
        Prior {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            w_max: self.w_max,
            plateau: self.plateau,
            w_est: self.w_est,
        }
    }

    /// The reduction was for nothing: timestamps (RFC 3522), F-RTO (RFC 5682) or D-SACK (RFC 3708) proved
    /// that no segment was lost. A window that has outgrown the prior one meanwhile stays as it is (RFC 9438
    /// 4.9).
    pub(crate) fn undo(&mut self, prior: Prior) {
        if self.cwnd >= prior.cwnd {
            return;
        }
        *self = Self {
            cwnd: prior.cwnd,
            ssthresh: prior.ssthresh,
            recover: self.recover,
            w_max: prior.w_max,
            plateau: prior.plateau,
            w_est: prior.w_est,
        };
    }

    /// Appropriate byte counting (RFC 3465 2.2): grows by the acknowledged bytes, at most eight segments for each ACK,
    /// which is the limit of RFC 9406 4.3 for senders without pacing. RFC 3465's limit of two segments assumes a peer that
    /// acknowledges every second segment. With a peer that acknowledges a batch at a time, as this engine does, the window
    /// would grow by the same few segments in each round trip. One segment after a timeout, where an ACK may cover what had
    /// arrived before. The first slow start watches the round trips, too.
    fn slow_start(&mut self, acked: Acked) {
        let segments = if acked.una.le(self.recover) { 1 } else { 8 };
        let limit = segments * u32::from(acked.eff_mss.max(1));
        let growth = if self.is_in_first_slow_start() {
            hystart::grow(self, acked, limit)
        } else {
            acked.bytes.min(limit)
        };
        self.cwnd = self.cwnd.saturating_add(growth).min(WINDOW_BYTES_MAX);
    }

    fn reduce(&mut self, algorithm: Algorithm, flight: u32) -> u32 {
        if self.is_in_first_slow_start() {
            hystart::end(self);
        }
        match algorithm {
            Algorithm::NewReno => new_reno::reduce(self, flight.min(WINDOW_BYTES_MAX)),
            Algorithm::Cubic => cubic::reduce(self, flight.min(WINDOW_BYTES_MAX)),
        }
    }
}

/// A window before its reduction, in case that was a mistake. The caller keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prior {
    cwnd: u32,
    ssthresh: u32,
    w_max: u32,
    plateau: Tick,
    w_est: u32,
}

impl Prior {
    /// As that of the [`Window`].
    pub(crate) fn grow_older(&mut self, now: Tick, oldest_millis: u32) {
        let is_in_first_slow_start = self.ssthresh == u32::MAX;
        if !is_in_first_slow_start && !cubic::is_paused(self.w_est) {
            self.plateau.keep_near(now, oldest_millis);
        }
    }
}

/// Ten segments, or fewer large ones (RFC 6928 2).
pub(crate) const fn initial_window_bytes(eff_mss: u16) -> u32 {
    let mss = if eff_mss == 0 { 1 } else { eff_mss as u32 };
    let large = if 2 * mss > 14_600 { 2 * mss } else { 14_600 };
    if 10 * mss < large { 10 * mss } else { large }
}

/// The largest window that RFC 7323 2.3 lets a peer offer, so the largest that is of use.
pub(crate) const WINDOW_BYTES_MAX: u32 = 1 << 30;

/// `recover` stays at most this far behind SND.UNA, so comparisons of sequence numbers never wrap.
const RECOVER_BEHIND_MAX: u32 = 1 << 30;

const _: () = assert!(size_of::<Window>() == 24 && size_of::<Prior>() == 20);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MSS: u16 = 1448;

    fn acked(bytes: u32, una: u32) -> Acked {
        Acked { bytes, una: Seq(una), eff_mss: MSS, srtt_micros: 50_000, ..Acked::default() }
    }

    #[test]
    fn the_initial_window_is_ten_segments_or_a_little_over_14_kilobytes() {
        let of = |mss| initial_window_bytes(mss);
        assert_eq!([of(536), of(1448), of(1460), of(4000), of(8960)], [5360, 14_480, 14_600, 14_600, 17_920]);
        assert_eq!(Window::new(Seq(7), MSS).cwnd, 14_480);
        let mut window = Window::new(Seq(7), MSS);
        window.on_syn_lost(MSS);
        assert_eq!(window.cwnd, 1448);
    }

    #[test]
    fn slow_start_counts_at_most_eight_segments_an_ack_and_one_after_a_timeout() {
        let mut window = Window::new(Seq(0), MSS);
        window.on_ack(Tick(0), Algorithm::Cubic, acked(100, 1000));
        window.on_ack(Tick(0), Algorithm::Cubic, acked(10_900, 11_900));
        window.on_ack(Tick(0), Algorithm::Cubic, acked(30_000, 41_900));
        assert_eq!(window.cwnd, 14_480 + 100 + 10_900 + 8 * 1448);

        window.recover = Seq(50_000);
        window.on_timeout(Algorithm::Cubic, 40_000, MSS);
        assert_eq!((window.cwnd, window.ssthresh), (1448, 28_000));
        window.on_ack(Tick(0), Algorithm::Cubic, acked(10_000, 21_000));
        assert_eq!(window.cwnd, 2 * 1448);
        window.on_ack(Tick(0), Algorithm::Cubic, acked(29_000, 50_000));
        assert_eq!(window.cwnd, 3 * 1448, "the last that may cover what had arrived before");
        window.on_ack(Tick(0), Algorithm::Cubic, acked(5000, 55_000));
        assert_eq!(window.cwnd, 3 * 1448 + 5000);
    }

    #[test]
    fn a_loss_leaves_half_or_seven_tenths_but_never_less_than_two_segments() {
        for (algorithm, left) in [(Algorithm::NewReno, 50_000), (Algorithm::Cubic, 70_000)] {
            let mut window = Window { cwnd: 100_000, ..Window::new(Seq(0), MSS) };
            window.on_loss(algorithm, 102_896, MSS);
            assert_eq!((window.cwnd, window.ssthresh), (left, left), "limited transmit does not count");
            window.on_loss(algorithm, 1000, MSS);
            assert_eq!((window.cwnd, window.ssthresh), (2896, 2896));
            window.on_recovered();
            assert_eq!(window.cwnd, 2896);
        }
    }

    #[test]
    fn a_mark_may_go_down_to_one_segment_and_a_repeated_timeout_keeps_ssthresh() {
        let mut window = Window { cwnd: 2 * 1448, ..Window::new(Seq(0), MSS) };
        window.on_ecn(Algorithm::NewReno, 2 * 1448, MSS);
        assert_eq!((window.cwnd, window.ssthresh), (1448, 2 * 1448));
        window.ssthresh = 77_000;
        window.on_repeated_timeout(MSS);
        assert_eq!((window.cwnd, window.ssthresh), (1448, 77_000));
    }

    #[test]
    fn idleness_costs_what_exceeds_the_initial_window() {
        let mut window = Window { cwnd: 100_000, ssthresh: 60_000, ..Window::new(Seq(0), MSS) };
        window.after_idle(MSS);
        assert_eq!((window.cwnd, window.ssthresh), (14_480, 60_000));
        window.cwnd = 3000;
        window.after_idle(MSS);
        assert_eq!(window.cwnd, 3000);
    }

    #[test]
    fn undo_restores_all_but_the_mark_unless_the_window_has_outgrown_it() {
        let mut window = Window { cwnd: 100_000, ssthresh: 90_000, ..Window::new(Seq(0), MSS) };
        window.on_ack(Tick(0), Algorithm::Cubic, acked(1448, 1448));
        let (before, prior) = (window, window.prior());
        window.recover = Seq(9);
        window.on_timeout(Algorithm::Cubic, 100_000, MSS);
        window.undo(prior);
        assert_eq!(window, Window { recover: Seq(9), ..before });
        window.on_loss(Algorithm::Cubic, 100_000, MSS);
        let outgrown = Window { cwnd: 200_000, ..window };
        window = outgrown;
        window.undo(prior);
        assert_eq!(window, outgrown);
    }

    #[test]
    fn the_recovery_mark_never_turns_round() {
        let mut window = Window::new(Seq(0), MSS);
        for una in (0..8_u64 << 30).step_by(1 << 28) {
            window.keep_recover_near(Seq(una as u32));
            assert!(window.recover.le(Seq(una as u32)));
        }
    }

    /// Any call with any arguments.
    #[derive(Debug, Clone)]
    enum Call {
        Ack { now: u32, acked: Acked },
        Elsewhere(u32),
        Loss(u32, u16),
        Ecn(u32, u16),
        Timeout(u32, u16),
        Idle(u16),
        Undo,
        Set(u32, u32),
    }

    fn call() -> impl Strategy<Value = Call> {
        let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
        let ack = (numbers, any::<u16>(), any::<Option<u32>>());
        prop_oneof![
            8 => ack.prop_map(|((now, bytes, una, snd_nxt, srtt_micros), eff_mss, rtt_micros)| {
                let (una, snd_nxt) = (Seq(una), Seq(snd_nxt));
                Call::Ack { now, acked: Acked { bytes, una, snd_nxt, eff_mss, srtt_micros, rtt_micros } }
            }),
            1 => any::<u32>().prop_map(Call::Elsewhere),
            1 => any::<(u32, u16)>().prop_map(|(flight, mss)| Call::Loss(flight, mss)),
            1 => any::<(u32, u16)>().prop_map(|(flight, mss)| Call::Ecn(flight, mss)),
            1 => any::<(u32, u16)>().prop_map(|(flight, mss)| Call::Timeout(flight, mss)),
            1 => any::<u16>().prop_map(Call::Idle),
            1 => Just(Call::Undo),
            1 => any::<(u32, u32)>().prop_map(|(cwnd, ssthresh)| Call::Set(cwnd, ssthresh)),
        ]
    }

    proptest! {
        #[test]
        fn no_input_overflows_or_closes_the_window(
            calls in prop::collection::vec(call(), 1..60),
            cubic: bool,
        ) {
            let algorithm = if cubic { Algorithm::Cubic } else { Algorithm::NewReno };
            let mut window = Window::new(Seq(0), MSS);
            let mut prior = window.prior();
            for call in calls {
                let before = window.cwnd;
                match call {
                    Call::Ack { now, acked } => {
                        window.on_ack(Tick(now), algorithm, acked);
                        prop_assert!(window.cwnd >= before.min(WINDOW_BYTES_MAX), "an ACK only opens it");
                        prop_assert!(window.cwnd <= WINDOW_BYTES_MAX && window.cwnd >= 1);
                    }
                    Call::Elsewhere(now) => window.on_limit_elsewhere(Tick(now), algorithm),
                    Call::Loss(flight, mss) => {
                        prior = window.prior();
                        window.on_loss(algorithm, flight, mss);
                        prop_assert!(window.cwnd <= before.max(2 * u32::from(mss)));
                    }
                    Call::Ecn(flight, mss) => {
                        window.on_ecn(algorithm, flight, mss);
                        prop_assert!(window.cwnd <= before.max(1));
                    }
                    Call::Timeout(flight, mss) => {
                        prior = window.prior();
                        window.on_timeout(algorithm, flight, mss);
                        prop_assert_eq!(window.cwnd, u32::from(mss.max(1)));
                    }
                    Call::Idle(mss) => {
                        window.after_idle(mss);
                        prop_assert!(window.cwnd <= before);
                    }
                    Call::Undo => {
                        window.undo(prior);
                        prop_assert!(window.cwnd >= before);
                    }
                    Call::Set(cwnd, ssthresh) => (window.cwnd, window.ssthresh) = (cwnd.max(1), ssthresh),
                }
            }
        }
    }
}
