//! HyStart++ (RFC 9406): the first slow start ends when round trips grow, before the queue of a line overflows.
//!
//! Without it a flow takes a queue whole, and loses as much as it has sent at once; flows that came with more care are left a small share
//! of the line for as long as the window at that loss is remembered.
//!
//! The state lies in the fields that congestion avoidance uses, which begins when this ends: `w_max` is the end of the round, the others
//! hold what [`State`] says. Zero is the state before the first ACK.

use anywire_packet::Seq;

use super::window::{Acked, Window};
use crate::time::Tick;

/// What is known of the round trips. Times in units of 64 us; 0 is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    /// The least of the last round, and of this one.
    last_min: u16,
    current_min: u16,
    /// The least when conservative slow start began.
    baseline: u16,
    /// Measurements in this round, at most [`SAMPLES`].
    samples: u8,
    /// Rounds of conservative slow start that have begun; 0 outside of it.
    conservative_rounds: u8,
    /// There is a round.
    has_begun: bool,
}

/// By how much the window grows with an ACK that covers `bytes`, `limit` at most. Ends slow start by setting `ssthresh` if round trips
/// have been longer for several rounds.
pub(super) fn grow(window: &mut Window, acked: Acked, limit: u32) -> u32 {
    let mut state = State::of(window);
    if !state.has_begun {
        (state.has_begun, window.w_max) = (true, acked.snd_nxt.0);
    }
    if let Some(micros) = acked.rtt_micros {
        let rtt = (micros >> UNIT_SHIFT).clamp(1, u32::from(u16::MAX)) as u16;
        state.current_min = if state.current_min == 0 { rtt } else { state.current_min.min(rtt) };
        state.samples = (state.samples + 1).min(SAMPLES);
    }
    if state.samples == SAMPLES && state.last_min != 0 {
        state.judge();
    }
    let growth =
        acked.bytes.min(limit) / if state.conservative_rounds > 0 { CONSERVATIVE_DIVISOR } else { 1 };
    if acked.una.ge(Seq(window.w_max)) {
        if state.conservative_rounds == CONSERVATIVE_ROUNDS {
            end(window);
            window.ssthresh = window.cwnd;
            return growth;
        }
        state.next_round();
        window.w_max = acked.snd_nxt.0;
    }
    state.store(window);
    growth
}

/// A round whose end was passed while the window was not used ends with the next ACK that counts. To be called at least once while
/// SND.UNA moves by 2^30.
pub(super) const fn keep_round_near(window: &mut Window, una: Seq) {
    if State::of(window).has_begun && Seq(window.w_max).lt(una) {
        window.w_max = una.0;
    }
}

/// Slow start is over, or begins anew: nothing is known of round trips.
pub(super) const fn end(window: &mut Window) {
    (window.w_max, window.plateau, window.w_est) = (0, Tick(0), 0);
}

impl State {
    const fn of(window: &Window) -> Self {
        let (times, rest) = (window.plateau.0, window.w_est);
        Self {
            last_min: (times >> 16) as u16,
            current_min: times as u16,
            baseline: (rest >> 16) as u16,
            samples: (rest >> 8) as u8 & 0xf,
            conservative_rounds: rest as u8 & 0xf,
            has_begun: rest & HAS_BEGUN != 0,
        }
    }

    fn store(self, window: &mut Window) {
        let Self { last_min, current_min, baseline, samples, conservative_rounds, has_begun } = self;
        window.plateau = Tick(u32::from(last_min) << 16 | u32::from(current_min));
        let begun = if has_begun { HAS_BEGUN } else { 0 };
        let counts = u32::from(samples) << 8 | u32::from(conservative_rounds);
        window.w_est = u32::from(baseline) << 16 | begun | counts;
    }

    fn next_round(&mut self) {
        (self.last_min, self.current_min, self.samples) = (self.current_min, 0, 0);
        self.conservative_rounds += u8::from(self.conservative_rounds > 0);
    }

    /// Begins conservative slow start if this round took longer than the last one, and ends it if that was nothing.
    fn judge(&mut self) {
        if self.conservative_rounds > 0 {
            if self.current_min < self.baseline {
                (self.baseline, self.conservative_rounds) = (0, 0);
            }
            return;
        }
        let longer = (self.last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        if self.current_min >= self.last_min.saturating_add(longer) {
            // The part of a round that remains counts as one.
            (self.baseline, self.conservative_rounds) = (self.current_min, 1);
        }
    }
}

/// 64 us.
const UNIT_SHIFT: u32 = 6;

/// In `w_est`, beside the counts.
const HAS_BEGUN: u32 = 1 << 7;

/// RFC 9406 4.3: N_RTT_SAMPLE.
const SAMPLES: u8 = 8;
const MIN_RTT_DIVISOR: u16 = 8;
/// 4 ms and 16 ms.
const MIN_RTT_THRESH: u16 = (4000 >> UNIT_SHIFT) as u16;
const MAX_RTT_THRESH: u16 = (16_000 >> UNIT_SHIFT) as u16;
/// CSS_GROWTH_DIVISOR and CSS_ROUNDS.
const CONSERVATIVE_DIVISOR: u32 = 4;
const CONSERVATIVE_ROUNDS: u8 = 5;

#[cfg(test)]
mod tests {
    use super::super::Algorithm;
    use super::*;

    const MSS: u16 = 1448;

    /// A flow whose windows are acknowledged a segment at a time.
    struct Flow {
        window: Window,
        una: u32,
        snd_nxt: u32,
    }

    impl Flow {
        fn new() -> Self {
            let window = Window::new(Seq(0), MSS);
            Self { window, una: 0, snd_nxt: window.cwnd }
        }

        /// All that is out is acknowledged, and a window more is sent. Returns the growth.
        fn round(&mut self, rtt_micros: impl Fn(u32) -> u32) -> u32 {
            let (before, end) = (self.window.cwnd, self.snd_nxt);
            let mut count = 0;
            while Seq(self.una).lt(Seq(end)) {
                let bytes = u32::from(MSS).min(end.wrapping_sub(self.una));
                self.una = self.una.wrapping_add(bytes);
                let (una, snd_nxt) = (Seq(self.una), Seq(self.snd_nxt));
                let rtt_micros = Some(rtt_micros(count));
                let acked = Acked { bytes, una, snd_nxt, eff_mss: MSS, srtt_micros: 0, rtt_micros };
                self.window.on_ack(Tick(0), Algorithm::Cubic, acked);
                self.snd_nxt = self.una.wrapping_add(self.window.cwnd);
                count += 1;
            }
            self.window.cwnd - before
        }

        fn is_in_slow_start(&self) -> bool {
            self.window.ssthresh == u32::MAX
        }
    }

    #[test]
    fn the_window_doubles_while_round_trips_stay_as_they_are() {
        let mut flow = Flow::new();
        for _ in 0..10 {
            let before = flow.window.cwnd;
            assert_eq!(flow.round(|_| 20_000), before);
        }
        assert!(flow.is_in_slow_start());
    }

    #[test]
    fn longer_round_trips_end_it_after_five_careful_rounds() {
        let mut flow = Flow::new();
        (0..4).for_each(|_| _ = flow.round(|_| 20_000));
        // 3.9 ms more are nothing yet.
        let before = flow.window.cwnd;
        assert_eq!(flow.round(|_| 23_900), before);
        // The rounds of the window lag behind by a few segments, so this is seen in it or in the next one.
        flow.round(|_| 30_000);
        let (mut rounds, mut before) = (0, flow.window.cwnd);
        while flow.is_in_slow_start() {
            flow.round(|_| 30_000);
            rounds += 1;
            if flow.is_in_slow_start() {
                let growth = f64::from(flow.window.cwnd) / f64::from(before);
                assert!((1.2..1.3).contains(&growth), "a quarter a round, but {growth}");
            }
            before = flow.window.cwnd;
        }
        assert_eq!(rounds, 5);
        // From here on it is congestion avoidance, on its plateau.
        let growth = flow.round(|_| 30_000);
        assert!(growth < 3 * u32::from(MSS), "{growth}");
    }

    /// Without need of the window for more bytes than sequence numbers can tell apart. A round that never ended would judge no more.
    #[test]
    fn rounds_end_however_much_the_application_sends_between() {
        for between in [1_u64 << 31, 3 << 30, 5 << 30] {
            let mut flow = Flow::new();
            (0..4).for_each(|_| _ = flow.round(|_| 20_000));
            for _ in 0..between / (1 << 20) {
                flow.una = flow.una.wrapping_add(1 << 20);
                flow.window.keep_recover_near(Seq(flow.una));
            }
            flow.snd_nxt = flow.una.wrapping_add(flow.window.cwnd);
            let mut rounds = 0;
            while flow.is_in_slow_start() && rounds < 10 {
                flow.round(|_| 20_000 + 5_000 * rounds);
                rounds += 1;
            }
            assert!(!flow.is_in_slow_start(), "{between} bytes, {rounds} rounds");
        }
    }

    #[test]
    fn round_trips_that_shrink_again_were_nothing() {
        let mut flow = Flow::new();
        (0..4).for_each(|_| _ = flow.round(|_| 20_000));
        flow.round(|_| 30_000);
        assert!(flow.round(|_| 30_000) * 3 < flow.window.cwnd);
        flow.round(|_| 20_000);
        let before = flow.window.cwnd;
        assert_eq!(flow.round(|_| 20_000), before);
        assert!(flow.is_in_slow_start());
    }

    /// The first segments of a burst say nothing of a queue, so the least of eight counts.
    #[test]
    fn a_few_late_acknowledgements_are_nothing() {
        let mut flow = Flow::new();
        for _ in 0..8 {
            let before = flow.window.cwnd;
            assert_eq!(flow.round(|count| if count % 4 == 0 { 20_000 } else { 80_000 }), before);
        }
        assert!(flow.is_in_slow_start());
    }

    #[test]
    fn a_loss_leaves_nothing_of_it() {
        let mut flow = Flow::new();
        (0..4).for_each(|_| _ = flow.round(|_| 20_000));
        let (prior, cwnd) = (flow.window.prior(), flow.window.cwnd);
        flow.window.on_loss(Algorithm::Cubic, cwnd, MSS);
        assert_eq!(flow.window.w_max, cwnd, "the plateau is where the loss was");
        assert_eq!((flow.window.plateau, flow.window.w_est), (Tick(0), 0));
        flow.window.undo(prior);
        let before = flow.window.cwnd;
        assert_eq!(flow.round(|_| 20_000), before);
    }
}
