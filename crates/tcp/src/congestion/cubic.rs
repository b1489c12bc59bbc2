//! CUBIC (RFC 9438): the window as a cubic function of the time since the last loss, in integers.
//!
//! With `W_max` in bytes and time in milliseconds, `C (t - K)^3` segments are `(t - K)^3 x mss x 4 / 10^10` bytes. Times
//! further than [`CURVE_MILLIS_MAX`] from the plateau count as that far, so that 64 bits hold every product. With large
//! windows an ACK mostly adds a fraction of a byte. A hash of SND.UNA decides whether it is rounded up or down, which is
//! right on average and needs no field for the remainder.

use anywire_packet::Seq;

use super::window::{Acked, WINDOW_BYTES_MAX, Window};
use crate::time::Tick;

/// Congestion avoidance (RFC 9438 4.2 to 4.5).
pub(super) fn avoid(window: &mut Window, now: Tick, acked: Acked) {
    let mss = acked.eff_mss.max(1);
    if window.w_est == 0 {
        start_epoch(window, now, mss);
    } else if is_paused(window.w_est) {
        window.plateau = now.after(window.plateau.0);
        window.w_est &= !PAUSED;
    }

    let cwnd = window.cwnd;
    let share = Share::new(acked.bytes, cwnd, acked.una);
    let from_plateau_millis = now.since(window.plateau) as i32;

    // Reno-friendly region, 4.3. Alpha matches Reno's growth despite the smaller reduction until the window has regained
    // its size at the loss, `cwnd_prior`. From there it grows as Reno does. `ssthresh` is 0.7 of the flight, which was all of that
    // window or less; `W_max` is all of it, or 0.85 after fast convergence.
    let flight = u64::from(window.ssthresh) * 10;
    let regained = u64::from(window.w_est) * 7 >= flight && window.w_est >= window.w_max;
    let (alpha, of) = if regained { (1, 1) } else { (9, 17) };
    window.w_est = (window.w_est + share.of(u64::from(mss) * alpha, of)).min(WINDOW_BYTES_MAX);
    if w_cubic(window.w_max, from_plateau_millis, mss) < window.w_est {
        window.cwnd = cwnd.max(window.w_est);
        return;
    }

    // Concave and convex region, 4.4 and 4.5: towards where the curve will be a round trip from now.
    let rtt_millis = (acked.srtt_micros.saturating_add(500) / 1000) as i32;
    let ahead = w_cubic(window.w_max, from_plateau_millis.saturating_add(rtt_millis), mss);
    let target = ahead.clamp(cwnd, cwnd.saturating_add(cwnd / 2).min(WINDOW_BYTES_MAX));
    window.cwnd = cwnd + share.of(u64::from(target - cwnd), 1);
}

/// Multiplicative decrease and fast convergence (RFC 9438 4.6, 4.7): gives 0.7 of the flight, and sets the plateau of the
/// next curve. The caller enforces the lower bound.
pub(super) fn reduce(window: &mut Window, flight: u32) -> u32 {
    let cwnd = window.cwnd.min(WINDOW_BYTES_MAX);
    // A flow that lost before it was back at its old maximum leaves room for a newcomer.
    window.w_max = if cwnd < window.w_max { (u64::from(cwnd) * 17 / 20) as u32 } else { cwnd };
    window.w_est = 0;
    (u64::from(flight) * 7 / 10) as u32
}

/// Stops the curve's time: time limited by the application must not count (RFC 9438 4.2).
pub(super) const fn pause(window: &mut Window, now: Tick) {
    if window.w_est != 0 && !is_paused(window.w_est) {
        window.plateau = Tick(window.plateau.since(now));
        window.w_est |= PAUSED;
    }
}

/// Whether time stands still, and the moment of the plateau is a distance.
pub(super) const fn is_paused(w_est: u32) -> bool {
    w_est & PAUSED != 0
}

/// The beginning of an avoidance stage (RFC 9438 4.2): `K` and `W_est` follow from the window of this moment.
fn start_epoch(window: &mut Window, now: Tick, mss: u16) {
    let below = window.w_max.saturating_sub(window.cwnd);
    if below == 0 {
        // After a timeout, after a slow start without a loss (4.8, 4.10), or past the old plateau: K = 0.
        window.w_max = window.cwnd;
    }
    window.plateau = now.after(k_millis(below, mss));
    window.w_est = window.cwnd;
}

/// `K`: how long the curve takes from `below` bytes under its plateau, in milliseconds.
fn k_millis(below: u32, mss: u16) -> u32 {
    let cubed = u64::from(below) * (5 * 1_000_000_000 / 2) / u64::from(mss);
    cube_root(cubed).min(CURVE_MILLIS_MAX as u32)
}

/// `W_cubic` in bytes, at a distance in time from its plateau; below zero it is zero.
fn w_cubic(w_max: u32, from_plateau_millis: i32, mss: u16) -> u32 {
    let millis = u64::from(from_plateau_millis.unsigned_abs()).min(CURVE_MILLIS_MAX);
    // 4 / 10^10 = 2^-8 / 5^10. Dropping eight bits of the cube first costs at most mss / 5^10 bytes.
    let bytes = ((millis * millis * millis) >> 8) * u64::from(mss) / FIVE_TO_THE_TENTH;
    let bytes = bytes.min(u64::from(WINDOW_BYTES_MAX)) as u32;
    if from_plateau_millis < 0 {
        w_max.saturating_sub(bytes)
    } else {
        w_max.saturating_add(bytes).min(WINDOW_BYTES_MAX)
    }
}

/// The largest integer with a cube of at most `value`, found bit by bit, once an epoch.
fn cube_root(mut value: u64) -> u32 {
    let mut root = 0_u64;
    for shift in (0..=63).rev().step_by(3) {
        root *= 2;
        let next = 3 * root * (root + 1) + 1;
        if value >> shift >= next {
            value -= next << shift;
            root += 1;
        }
    }
    root as u32
}

/// What part of the window an ACK covers, to take the same part of something else.
struct Share {
    acked: u64,
    cwnd: u64,
    /// Spread evenly over `0..cwnd`.
    rounding: u64,
}

impl Share {
    fn new(acked: u32, cwnd: u32, una: Seq) -> Self {
        // A mixer with good low and high bits; successive SND.UNA give unrelated values.
        let mut mixed = una.0 ^ (una.0 >> 16);
        mixed = mixed.wrapping_mul(0x7feb_352d);
        mixed ^= mixed >> 15;
        mixed = mixed.wrapping_mul(0x846c_a68b);
        mixed ^= mixed >> 16;
        let rounding = (u64::from(mixed) * u64::from(cwnd)) >> 32;
        Self { acked: u64::from(acked.min(cwnd)), cwnd: u64::from(cwnd), rounding }
    }

    /// `amount / divisor x acked / cwnd`, right in the mean; at most `amount / divisor` rounded up.
    fn of(&self, amount: u64, divisor: u64) -> u32 {
        ((amount * self.acked + self.rounding * divisor) / (self.cwnd * divisor)) as u32
    }
}

/// Set in `w_est` while time stands still; windows leave this bit free.
const PAUSED: u32 = 1 << 31;

/// 262 seconds: 7.2 million segments from the plateau, more than the largest window for segments of 150
/// bytes.
const CURVE_MILLIS_MAX: u64 = (1 << 18) - 1;

const FIVE_TO_THE_TENTH: u64 = 9_765_625;

// The cube without eight bits, times the largest segment, must fit 64 bits; so must the largest window times
// 2.5 x 10^9.
const _: () = assert!(CURVE_MILLIS_MAX.pow(3) >> 8 < u64::MAX / (u16::MAX as u64));
const _: () = assert!((WINDOW_BYTES_MAX as u64) < u64::MAX / 2_500_000_000);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::congestion::Algorithm;

    const C: f64 = 0.4;
    const BETA: f64 = 0.7;

    /// RFC 9438 as it is written: segments, seconds, floating point.
    #[derive(Debug)]
    struct Model {
        cwnd: f64,
        cwnd_prior: f64,
        w_max: f64,
        k: f64,
        w_est: f64,
    }

    impl Model {
        /// In avoidance after a loss at `cwnd`.
        fn after_loss(cwnd: f64, w_max: f64) -> Self {
            let cwnd_prior = cwnd;
            let w_max = if cwnd < w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
            let cwnd = cwnd * BETA;
            Self { cwnd, cwnd_prior, w_max, k: ((w_max - cwnd) / C).cbrt(), w_est: cwnd }
        }

        fn w_cubic(&self, t: f64) -> f64 {
            C * (t - self.k).powi(3) + self.w_max
        }

        fn on_ack(&mut self, t: f64, rtt: f64, segments: f64) {
            let alpha = if self.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - BETA) / (1.0 + BETA) };
            self.w_est += alpha * segments / self.cwnd;
            if self.w_cubic(t) < self.w_est {
                self.cwnd = self.cwnd.max(self.w_est);
            } else {
                let target = self.w_cubic(t + rtt).clamp(self.cwnd, 1.5 * self.cwnd);
                self.cwnd += (target - self.cwnd) / self.cwnd * segments;
            }
        }
    }

    fn window(cwnd: u32, mss: u16) -> Window {
        Window { cwnd, ..Window::new(Seq(0), mss) }
    }

    proptest! {
        #[test]
        fn the_cube_root_is_the_largest_below(value: u64) {
            for value in [value, value >> 20, value >> 40] {
                let root = u128::from(cube_root(value));
                prop_assert!(root.pow(3) <= u128::from(value) && (root + 1).pow(3) > u128::from(value));
            }
        }

        #[test]
        fn the_curve_is_that_of_the_rfc(
            w_max in 1_u32..1 << 30,
            millis in -262_000_i32..262_000,
            mss in 88_u16..9000,
        ) {
            let exact = C * (f64::from(millis) / 1000.0).powi(3) * f64::from(mss) + f64::from(w_max);
            let exact = exact.clamp(0.0, f64::from(WINDOW_BYTES_MAX));
            let found = f64::from(w_cubic(w_max, millis, mss));
            prop_assert!((found - exact).abs() <= 2.0 + exact * 1e-9, "{found} for {exact}");
        }

        #[test]
        fn the_curve_rises(w_max in 1_u32..1 << 30, millis: i32, step in 0_i32..1000, mss: u16) {
            let mss = mss.max(1);
            prop_assert!(w_cubic(w_max, millis, mss) <= w_cubic(w_max, millis.saturating_add(step), mss));
        }

        #[test]
        fn k_is_that_of_the_rfc(below in 0_u32..1 << 30, mss in 300_u16..9000) {
            let exact = (f64::from(below) / f64::from(mss) / C).cbrt() * 1000.0;
            prop_assert!((f64::from(k_millis(below, mss)) - exact).abs() <= 1.001);
        }

        /// ACK by ACK through an epoch, beside the model.
        #[test]
        fn an_epoch_follows_the_rfc(
            (segments, smaller) in (100_u32..100_000, 0_u32..12),
            mss in 536_u16..9000,
            (rtt_millis, shorter) in (64_u32..512, 0_u32..7),
            rounds in 10_u32..150,
            start: u32,
            lost_at in 0.5_f64..1.5,
        ) {
            // Small windows and short round trips keep to Reno's pace, the others to the curve.
            let (segments, rtt_millis) = ((segments >> smaller).max(10), rtt_millis >> shorter);
            let (size, acks_a_round) = (f64::from(mss), 24_u32);
            let cwnd = (segments * u32::from(mss)).min(WINDOW_BYTES_MAX / 4);
            let mut window = window(cwnd, mss);
            // There was a loss before.
            (window.ssthresh, window.w_max) = (cwnd, (f64::from(cwnd) * lost_at) as u32);
            let mut model = Model::after_loss(f64::from(cwnd) / size, f64::from(window.w_max) / size);
            window.on_loss(Algorithm::Cubic, cwnd, mss);
            let mut una = start;
            for round in 0..rounds {
                for ack in 0..acks_a_round {
                    let millis = round * rtt_millis + rtt_millis * ack / acks_a_round;
                    let bytes = window.cwnd / acks_a_round;
                    una = una.wrapping_add(bytes);
                    let srtt_micros = rtt_millis * 1000;
                    let acked = Acked { bytes, una: Seq(una), eff_mss: mss, srtt_micros, ..Acked::default() };
                    window.on_ack(Tick(start).after(millis), Algorithm::Cubic, acked);
                    let (t, rtt) = (f64::from(millis) / 1000.0, f64::from(rtt_millis) / 1000.0);
                    model.on_ack(t, rtt, f64::from(bytes) / size);
                    if window.cwnd > WINDOW_BYTES_MAX / 2 {
                        return Ok(());
                    }
                    let found = f64::from(window.cwnd) / size;
                    // Where the curve crosses Reno, a millisecond decides which of them one ACK follows.
                    let allowed = 0.005 * model.cwnd + 0.15;
                    let apart = (found - model.cwnd).abs();
                    prop_assert!(apart < allowed, "{found} for {} in round {round}", model.cwnd);
                }
            }
        }

        #[test]
        fn rounding_is_right_in_the_mean(cwnd in 1_000_000_u32..1 << 30, acked in 1_u32..5000, start: u32) {
            let (mut sum, mut una, count) = (0_u64, start, 20_000_u32);
            for _ in 0..count {
                una = una.wrapping_add(acked);
                sum += u64::from(Share::new(acked, cwnd, Seq(una)).of(1448 * 9, 17));
            }
            let exact = f64::from(count) * f64::from(acked) / f64::from(cwnd) * 1448.0 * 9.0 / 17.0;
            // Six standard deviations of `count` throws, each with a variance of at most 1.
            let apart = (sum as f64 - exact).abs();
            prop_assert!(apart < 6.0 * exact.min(f64::from(count)).sqrt() + 6.0, "{sum}, {exact}");
        }
    }

    #[test]
    fn the_window_is_back_at_its_maximum_after_k() {
        // 1000 segments: K = cbrt(1000 x 0.3 / 0.4) = 9.086 s; at half of it an eighth of the 300 is missing.
        let mut window = window(1_448_000, 1448);
        window.on_loss(Algorithm::Cubic, 1_448_000, 1448);
        let mut una = 0_u32;
        let mut segments_at = |until: u32, from: u32| {
            for millis in (from..until).step_by(10) {
                let bytes = window.cwnd / 10;
                una += bytes;
                let acked =
                    Acked { bytes, una: Seq(una), eff_mss: 1448, srtt_micros: 100_000, ..Acked::default() };
                window.on_ack(Tick(millis), Algorithm::Cubic, acked);
            }
            f64::from(window.cwnd) / 1448.0
        };
        assert!((segments_at(4540, 0) - 962.5).abs() < 3.0);
        assert!((segments_at(9090, 4540) - 1000.0).abs() < 0.1);
        assert!((segments_at(13_630, 9090) - 1037.5).abs() < 3.0);
    }

    #[test]
    fn short_round_trips_keep_to_the_pace_of_reno() {
        // 100 segments at 10 ms: the curve takes 4 s, Reno less. 9/17 of a segment a round trip, from 100 on
        // a whole.
        let mut window = window(100_000, 1000);
        window.on_loss(Algorithm::Cubic, 100_000, 1000);
        let mut una = 0_u32;
        let mut segments_after = |rounds: u32, from: u32| {
            for ack in from * 10..(from + rounds) * 10 {
                let bytes = window.cwnd / 10;
                una += bytes;
                let acked =
                    Acked { bytes, una: Seq(una), eff_mss: 1000, srtt_micros: 10_000, ..Acked::default() };
                window.on_ack(Tick(ack), Algorithm::Cubic, acked);
            }
            f64::from(window.cwnd) / 1000.0
        };
        assert!((segments_after(51, 0) - 97.0).abs() < 0.2);
        assert!((segments_after(6, 51) - 100.3).abs() < 0.2);
        assert!((segments_after(20, 57) - 120.3).abs() < 0.3);
    }

    #[test]
    fn a_window_that_was_not_filled_is_regained_no_sooner() {
        // 100 segments, half of them in flight: 35 are left. 50 round trips at 9/17 of a segment, also above 50.
        let mut window = window(100_000, 1000);
        window.on_loss(Algorithm::Cubic, 50_000, 1000);
        let mut una = 0_u32;
        for ack in 0..500 {
            let bytes = window.cwnd / 10;
            una += bytes;
            let acked =
                Acked { bytes, una: Seq(una), eff_mss: 1000, srtt_micros: 10_000, ..Acked::default() };
            window.on_ack(Tick(ack), Algorithm::Cubic, acked);
        }
        let segments = f64::from(window.cwnd) / 1000.0;
        assert!((segments - 61.5).abs() < 0.3, "{segments}");
    }

    #[test]
    fn no_round_trip_adds_more_than_half() {
        let mut window = window(100_000, 1000);
        window.on_loss(Algorithm::Cubic, 100_000, 1000);
        let acked =
            |bytes| Acked { bytes, una: Seq(1), eff_mss: 1000, srtt_micros: 10_000, ..Acked::default() };
        window.on_ack(Tick(0), Algorithm::Cubic, acked(0));
        window.on_ack(Tick(60_000), Algorithm::Cubic, acked(70_000));
        assert_eq!(window.cwnd, 105_000);
    }

    #[test]
    fn a_second_loss_below_the_maximum_makes_room() {
        let mut window = window(100_000, 1000);
        window.on_loss(Algorithm::Cubic, 100_000, 1000);
        assert_eq!((window.w_max, window.cwnd), (100_000, 70_000));
        window.on_loss(Algorithm::Cubic, 70_000, 1000);
        assert_eq!((window.w_max, window.cwnd), (59_500, 49_000));
    }

    #[test]
    fn after_a_timeout_the_epoch_begins_on_its_plateau() {
        let mut window = window(100_000, 1000);
        window.on_timeout(Algorithm::Cubic, 100_000, 1000);
        window.cwnd = window.ssthresh;
        let acked = Acked { bytes: 1000, una: Seq(1), eff_mss: 1000, srtt_micros: 1000, ..Acked::default() };
        window.on_ack(Tick(5), Algorithm::Cubic, acked);
        assert_eq!((window.w_max, window.plateau), (70_000, Tick(5)));
    }

    #[test]
    fn time_without_need_of_the_window_does_not_count() {
        let acked =
            Acked { bytes: 10_000, una: Seq(1), eff_mss: 1000, srtt_micros: 100_000, ..Acked::default() };
        let mut busy = window(1_000_000, 1000);
        busy.on_loss(Algorithm::Cubic, 1_000_000, 1000);
        busy.on_ack(Tick(0), Algorithm::Cubic, acked);
        let mut paused = busy;
        paused.on_limit_elsewhere(Tick(100), Algorithm::Cubic);
        paused.on_limit_elsewhere(Tick(5000), Algorithm::Cubic);
        busy.on_ack(Tick(150), Algorithm::Cubic, acked);
        paused.on_ack(Tick(90_050), Algorithm::Cubic, acked);
        assert_ne!(busy.cwnd, paused.cwnd, "50 ms less have passed for it");
        busy = Window { plateau: paused.plateau, ..paused };
        assert_eq!(busy, paused);
        assert_eq!(paused.plateau.since(Tick(90_050)), k_millis(300_000, 1000) - 100);
    }
}
