//! The round trip, how long the peer delays its ACKs, and the retransmission timeout (RFC 6298), in four bytes.
//!
//! SRTT is kept as a small floating-point number: 5 bits of exponent, 11 of mantissa. Rounding costs at most 1/4096 of the
//! value, and of a microsecond; so smoothing does not stall on short round trips. RTTVAR has 6 bits of mantissa, and its error
//! of 1/128 moves no timeout by more than a thirtieth of it. The longest round trip that is told from others takes 35 minutes.

/// The smoothed round trip of one connection and how much it varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Rtt {
    srtt: Log,
    /// RTTVAR in the high 11 bits; in the others how long the peer has delayed an ACK at most: 0 if nobody knows yet, else
    /// one more than the number of [`DELAY_STEP_MILLIS`].
    rttvar_and_delay: u16,
}

impl Rtt {
    /// Nothing measured yet.
    pub(crate) const NONE: Self = Self { srtt: Log(0), rttvar_and_delay: 0 };

    /// One measurement: RFC 6298 2.2 for the first, 2.3 for every other. Karn's rule (3) is the caller's: a
    /// round trip of a segment that was sent twice is none, unless timestamps tell which sending was
    /// answered. What is longer than the longest counts as that.
    #[inline(always)]
    pub(crate) fn sample(&mut self, micros: u32) {
        let sample = f64::from(micros.min(LONGEST));
        let (mut srtt, mut rttvar) = (sample, sample / 2.0);
        if self.is_measured() {
            let (before, varied) = (self.srtt.value(), self.rttvar().value());
            srtt = before + (sample - before) / 8.0;
            // With the SRTT from before this sample.
            rttvar = varied + ((sample - before).abs() - varied) / 4.0;
        }
        // Zero would mean that nothing was measured.
        self.srtt = Log(Log::new(srtt).0.max(1));
        self.rttvar_and_delay = short_code(Log::new(rttvar)) << DELAY_BITS | self.delay_code();
    }

    /// The measurement of a segment that was in flight alone, whose ACK the peer may have delayed (RFC 9293 3.8.6.3).
    #[inline(always)]
    pub(crate) fn sample_lone(&mut self, micros: u32) {
        // The first one of all is the round trip, whatever it holds.
        if self.is_measured() {
            let excess = f64::from(micros.min(LONGEST)) - self.srtt.value();
            let known = f64::from(self.delay_code()) - 1.0;
            if excess > known * f64::from(1000 * DELAY_STEP_MILLIS) {
                self.note_delay((excess.max(0.0) / 1000.0).ceil() as u32);
            }
        }
        self.sample(micros);
    }

    /// The peer has delayed an ACK for so long.
    #[inline(never)]
    fn note_delay(&mut self, millis: u32) {
        let steps = millis.min(DELAY_MAX_MILLIS).div_ceil(DELAY_STEP_MILLIS);
        let code = (steps as u16 + 1).max(self.delay_code());
        self.rttvar_and_delay = self.rttvar_and_delay & !DELAY | code;
    }

    /// A timeout was spurious, and for how long the peer has delayed the ACK is not known: as long as most that do, and after
    /// that as long as it may (RFC 9293 MUST-40).
    pub(crate) fn assume_longer_delay(&mut self) {
        let is_within = self.delay_millis() < ASSUMED_DELAY_MILLIS;
        self.note_delay(if is_within { ASSUMED_DELAY_MILLIS } else { DELAY_MAX_MILLIS });
    }

    /// The timeout in milliseconds: SRTT + max(floor + the peer's delay, 4 x RTTVAR) up to the ceiling, doubled `backoff`
    /// times but not beyond the ceiling (RFC 6298 2.3, 5.5). One second before any measurement (2.1).
    ///
    /// A floor of the sum, as in 2.4, would leave no room for a delayed ACK on any path longer than itself: on a steady path
    /// RTTVAR goes to zero.
    #[inline(always)]
    pub(crate) fn rto_millis(self, bounds: &RtoBounds, backoff: u32) -> u32 {
        // Larger numbers have larger codes, and without a measurement the first of them wraps.
        if backoff == 0
            && self.srtt.0.wrapping_sub(1) < Log::ONE_MILLI.0
            && self.rttvar_and_delay >> DELAY_BITS <= bounds.rttvar_at_floor
        {
            return (bounds.floor + self.delay_millis() + 1).min(bounds.ceiling);
        }
        self.rto_millis_any(bounds, backoff)
    }

    #[inline(never)]
    fn rto_millis_any(self, bounds: &RtoBounds, backoff: u32) -> u32 {
        let base = if self.is_measured() {
            let room = f64::from(bounds.floor + self.delay_millis()) * 1000.0;
            let micros = self.srtt.value() + (4.0 * self.rttvar().value()).max(room);
            (micros / 1000.0).ceil() as u64
        } else {
            INITIAL_MILLIS.max(u64::from(bounds.floor))
        };
        // 31 doublings of a millisecond are 24 days.
        (base << backoff.min(31)).min(u64::from(bounds.ceiling)) as u32
    }

    const fn rttvar(self) -> Log {
        Log(self.rttvar_and_delay & !DELAY)
    }

    const fn delay_code(self) -> u16 {
        self.rttvar_and_delay & DELAY
    }

    const fn delay_millis(self) -> u32 {
        match self.delay_code() {
            0 => ASSUMED_DELAY_MILLIS,
            code => (code as u32 - 1) * DELAY_STEP_MILLIS,
        }
    }

    /// Whether there was a measurement.
    pub(crate) const fn is_measured(self) -> bool {
        self.srtt.0 != 0
    }

    /// The smoothed round trip in microseconds, rounded; 0 if none was measured.
    pub(crate) const fn srtt_micros(self) -> u32 {
        self.srtt.micros()
    }

    /// Its mean deviation in microseconds, rounded.
    #[cfg(test)]
    pub(crate) const fn rttvar_micros(self) -> u32 {
        self.rttvar().micros()
    }
}

/// The bounds of the timeout. RFC 6298 asks for one of at least a second (2.4) and for a ceiling of 60 or more (2.5); both
/// are the caller's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RtoBounds {
    floor: u32,
    ceiling: u32,
    /// Up to this RTTVAR, without the bits of the delay, the floor is what counts: so it is on short paths, and no number need
    /// be decoded to know.
    rttvar_at_floor: u16,
}

impl RtoBounds {
    /// The least that the timeout exceeds round trip and delay by, and the most that it is; in milliseconds.
    pub(crate) const fn new(floor: u32, ceiling: u32) -> Self {
        let rttvar_at_floor = Log::at_most(floor as f64 * 250.0).0 >> DELAY_BITS;
        Self { floor, ceiling, rttvar_at_floor }
    }

    /// The upper one, in milliseconds.
    pub(crate) const fn ceiling(&self) -> u32 {
        self.ceiling
    }
}

/// A floating-point number of microseconds: of the 64 bits of one more than it, those
/// that tell numbers from 1 up to 2^32 apart. So zero is zero, and larger numbers have larger codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Log(u16);

impl Log {
    /// Of a millisecond.
    const ONE_MILLI: Self = Self::at_most(1000.0);

    /// The nearest one to a number from 0 to [`LONGEST`].
    #[inline(always)]
    const fn new(micros: f64) -> Self {
        let bits = (micros + 1.0).to_bits() - ONE;
        // Rounding up may carry into the exponent, which is then the right one.
        Self(((bits + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS) as u16)
    }

    /// The largest one that is not above this, as far as numbers go.
    const fn at_most(micros: f64) -> Self {
        let nearest = Self::new(micros.min(LONGEST as f64));
        if nearest.value() > micros { Self(nearest.0 - 1) } else { nearest }
    }

    #[inline(always)]
    const fn value(self) -> f64 {
        f64::from_bits(((self.0 as u64) << DROPPED_BITS) + ONE) - 1.0
    }

    const fn micros(self) -> u32 {
        (self.value() + 0.5) as u32
    }
}

/// The nearest number that the high bits alone can tell.
#[inline(always)]
const fn short_code(log: Log) -> u16 {
    (log.0 + (1 << (DELAY_BITS - 1))) >> DELAY_BITS
}

/// The bits of the delay, beside RTTVAR.
const DELAY_BITS: u32 = 5;
const DELAY: u16 = (1 << DELAY_BITS) - 1;

/// The unit in which a delay is kept, and the most of it: an ACK waits for less than half a second (RFC 9293 MUST-40).
const DELAY_STEP_MILLIS: u32 = 17;
const DELAY_MAX_MILLIS: u32 = 30 * DELAY_STEP_MILLIS;

/// What a peer is thought to do of which nothing is known: the most that common systems do.
const ASSUMED_DELAY_MILLIS: u32 = 200;

/// The longest round trip in microseconds: its code is the last but 2047.
const LONGEST: u32 = 1 << 31;

/// The bits of 1.0.
const ONE: u64 = 1.0_f64.to_bits();

/// Of the 52 bits of a mantissa, those below the first 11.
const DROPPED_BITS: u32 = 41;

/// RFC 6298 2.1.
const INITIAL_MILLIS: u64 = 1000;

const _: () = assert!(size_of::<Rtt>() == 4);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_sample_sets_both_and_the_timeout_is_three_round_trips() {
        assert_eq!((Rtt::NONE.is_measured(), Rtt::NONE.srtt_micros()), (false, 0));
        let bounds = RtoBounds::new(70, 60_000);
        assert_eq!(Rtt::NONE.rto_millis(&bounds, 0), 1000);
        assert_eq!(Rtt::NONE.rto_millis(&bounds, 3), 8000);
        let mut rtt = Rtt::NONE;
        rtt.sample(400_000);
        let near = |found: u32, exact: u32, part: u32| found.abs_diff(exact) * part < exact;
        assert!(near(rtt.srtt_micros(), 400_000, 2000) && near(rtt.rttvar_micros(), 200_000, 128));
        assert!(near(rtt.rto_millis(&bounds, 0), 1200, 128));
        assert!(near(rtt.rto_millis(&bounds, 2), 4800, 128));
        assert_eq!(rtt.rto_millis(&RtoBounds::new(3000, 60_000), 0), 3600, "beyond round trip and delay");
        assert_eq!(rtt.rto_millis(&bounds, 40), 60_000);
    }

    #[test]
    fn short_round_trips_are_followed_to_the_microsecond() {
        let mut rtt = Rtt::NONE;
        rtt.sample(20);
        for _ in 0..60 {
            rtt.sample(23);
        }
        assert_eq!((rtt.srtt_micros(), rtt.rttvar_micros()), (23, 0));
        assert_eq!(rtt.rto_millis(&RtoBounds::new(1, 60_000), 0), 202);
        let mut nothing = Rtt::NONE;
        nothing.sample(0);
        assert!(nothing.is_measured());
    }

    #[test]
    fn the_timeout_leaves_room_for_as_long_as_the_peer_delays() {
        let bounds = RtoBounds::new(70, 60_000);
        let steady = || {
            let mut rtt = Rtt::NONE;
            for _ in 0..60 {
                rtt.sample(100_000);
            }
            rtt
        };
        let mut rtt = steady();
        assert_eq!(rtt.rto_millis(&bounds, 0).abs_diff(370), 0, "until it is known, for 200 ms");
        rtt.sample_lone(100_000);
        assert!((170..=188).contains(&rtt.rto_millis(&bounds, 0)), "no delay: {rtt:?}");
        rtt.assume_longer_delay();
        assert!((370..=390).contains(&rtt.rto_millis(&bounds, 0)), "what most do: {rtt:?}");
        rtt.assume_longer_delay();
        assert!((670..=690).contains(&rtt.rto_millis(&bounds, 0)), "the most that is lawful: {rtt:?}");
        for delay in 0..=500 {
            let mut rtt = steady();
            rtt.sample_lone((100 + delay) * 1000);
            for _ in 0..60 {
                rtt.sample(100_000);
            }
            let room = rtt.rto_millis(&bounds, 0) - 100 - delay;
            assert!((70..=90).contains(&room), "{room} ms beyond a delay of {delay} ms");
        }
        let mut first = Rtt::NONE;
        first.sample_lone(300_000);
        assert_eq!(first.delay_code(), 0, "nobody knows what of it was the path");
    }

    proptest! {
        #[test]
        fn the_quick_timeout_is_the_slow_one(
            srtt: u16,
            rttvar: u16,
            shift in 0_u32..16,
            floor in 0_u32..5,
        ) {
            let rtt = Rtt { srtt: Log(srtt >> shift), rttvar_and_delay: rttvar >> shift };
            for bounds in [RtoBounds::new(floor, 3), RtoBounds::new(floor * 100, 60_000)] {
                prop_assert_eq!(rtt.rto_millis(&bounds, 0), rtt.rto_millis_any(&bounds, 0));
            }
        }

        #[test]
        fn a_number_is_kept_within_a_4096th(micros in 0..=LONGEST, shift in 0_u32..32) {
            let value = f64::from(micros >> shift);
            let found = Log::new(value).value();
            prop_assert!((found - value).abs() <= (value + 1.0) / 4096.0, "{found} for {value}");
            prop_assert!(Log::new(value + 1.0).0 >= Log::new(value).0);
            prop_assert_eq!(Log::new(found), Log::new(value));
        }

        #[test]
        fn smoothing_is_that_of_the_rfc(
            samples in prop::collection::vec(1_u32..120_000_000, 1..200),
            shift in 0_u32..20,
        ) {
            let mut rtt = Rtt::NONE;
            let (mut srtt, mut rttvar) = (0.0_f64, 0.0_f64);
            for (i, sample) in samples.into_iter().enumerate() {
                let sample = (sample >> shift).max(1);
                rtt.sample(sample);
                let exact = f64::from(sample);
                if i == 0 {
                    (srtt, rttvar) = (exact, exact / 2.0);
                } else {
                    rttvar = 0.75 * rttvar + 0.25 * (srtt - exact).abs();
                    srtt = 0.875 * srtt + 0.125 * exact;
                }
                // Each step rounds by up to 1/4096 and forgets an eighth: at most 8/4096 add up.
                prop_assert!((f64::from(rtt.srtt_micros()) - srtt).abs() <= 0.002 * srtt + 1.0);
                let apart = (f64::from(rtt.rttvar_micros()) - rttvar).abs();
                // Here up to 1/128 each time, and three quarters of what there was remain.
                prop_assert!(apart <= 0.04 * rttvar + 0.02 * srtt + 1.0, "{apart} of {rttvar}, {srtt}");
                let rto = ((srtt + (4.0 * rttvar).max(270_000.0)) / 1000.0).min(60_000.0);
                let found = f64::from(rtt.rto_millis(&RtoBounds::new(70, 60_000), 0));
                prop_assert!((found - rto).abs() <= 0.1 * rto + 2.0, "{found} for {rto}");
            }
        }

        #[test]
        fn any_samples_leave_a_timeout_within_its_bounds_that_grows_with_backoff(
            samples: Vec<u32>, floor: u32, ceiling: u32, backoff in 0_u32..100,
        ) {
            let mut rtt = Rtt::NONE;
            for sample in samples {
                rtt.sample(sample);
                prop_assert!(rtt.is_measured());
            }
            let rto = rtt.rto_millis(&RtoBounds::new(floor, ceiling), backoff);
            prop_assert!(rto <= ceiling && (rto > floor || rto == ceiling));
            prop_assert!(rtt.rto_millis(&RtoBounds::new(floor, ceiling), backoff + 1) >= rto);
        }
    }
}
