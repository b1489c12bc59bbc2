//! The round trip and the retransmission timeout (RFC 6298), in four bytes.
//!
//! SRTT and RTTVAR are small floating-point numbers: 5 bits of exponent, 11 of mantissa. Rounding costs at most 1/4096 of
//! the value, and of a microsecond; so smoothing does not stall on short round trips. The longest round trip that is told
//! from others takes 35 minutes.

/// The smoothed round trip of one connection and how much it varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Rtt {
    srtt: Log,
    rttvar: Log,
}

impl Rtt {
    /// One measurement: RFC 6298 2.2 for the first, 2.3 for every other. Karn's rule (3) is the caller's: a round trip of a
    /// segment that was sent twice is none, unless timestamps tell which sending was answered. A longer time counts as the
    /// longest representable one.
    #[inline(always)]
    pub(crate) fn sample(&mut self, micros: u32) {
        let sample = f64::from(micros.min(LONGEST));
        let (mut srtt, mut rttvar) = (sample, sample / 2.0);
        if self.is_measured() {
            let (before, varied) = (self.srtt.value(), self.rttvar.value());
            srtt = before + (sample - before) / 8.0;
            // With the SRTT from before this sample.
            rttvar = varied + ((sample - before).abs() - varied) / 4.0;
        }
        // Zero would mean that nothing was measured.
        *self = Self { srtt: Log(Log::new(srtt).0.max(1)), rttvar: Log::new(rttvar) };
    }

    /// The timeout in milliseconds: SRTT + max(floor + the peer's delay, 4 x RTTVAR) up to the ceiling, doubled `backoff`
    /// times but not beyond the ceiling (RFC 6298 2.3, 5.5). One second before any measurement (2.1).
    ///
    /// A floor of the sum, as in 2.4, would leave no room for a delayed ACK on any path longer than itself: on a steady path
    /// RTTVAR goes to zero.
    #[inline(always)]
    pub(crate) fn rto_millis(self, bounds: &RtoBounds, delay_millis: u32, backoff: u32) -> u32 {
        // Larger numbers have larger codes, and without a measurement the first of them wraps.
        if backoff == 0
            && self.srtt.0.wrapping_sub(1) < Log::ONE_MILLI.0
            && self.rttvar.0 <= bounds.rttvar_at_floor.0
        {
            return bounds.floor.saturating_add(delay_millis + 1).min(bounds.ceiling);
        }
        self.rto_millis_any(bounds, delay_millis, backoff)
    }

    #[inline(never)]
    fn rto_millis_any(self, bounds: &RtoBounds, delay_millis: u32, backoff: u32) -> u32 {
        let base = if self.is_measured() {
            let room = (f64::from(bounds.floor) + f64::from(delay_millis)) * 1000.0;
            let micros = self.srtt.value() + (4.0 * self.rttvar.value()).max(room);
            // Rounded up. At most a millisecond too long, in few instructions: below SSE4.1 `ceil` is a call.
            (micros as i64 as u64) / 1000 + 1
        } else {
            INITIAL_MILLIS.max(u64::from(bounds.floor))
        };
        // 31 doublings of a millisecond are 24 days.
        (base << backoff.min(31)).min(u64::from(bounds.ceiling)) as u32
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
    pub(crate) const fn rttvar_micros(self) -> u32 {
        self.rttvar.micros()
    }
}

/// The bounds of the timeout. RFC 6298 asks for one of at least a second (2.4) and for a ceiling of 60 or more (2.5); both
/// are the caller's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RtoBounds {
    floor: u32,
    ceiling: u32,
    /// Up to this RTTVAR the floor is what counts: so it is on short paths, and no number need be decoded to know.
    rttvar_at_floor: Log,
}

impl RtoBounds {
    /// The least that the timeout exceeds round trip and delay by, and the most that it is; in milliseconds.
    pub(crate) const fn new(floor: u32, ceiling: u32) -> Self {
        Self { floor, ceiling, rttvar_at_floor: Log::at_most(floor as f64 * 250.0) }
    }

    /// The upper one, in milliseconds.
    pub(crate) const fn ceiling(&self) -> u32 {
        self.ceiling
    }
}

/// A floating-point number of microseconds: the leading bits of the 64-bit number that is one larger, as many as tell
/// numbers from 1 up to 2^32 apart. So zero is zero, and larger numbers have larger codes.
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
        assert_eq!((Rtt::default().is_measured(), Rtt::default().srtt_micros()), (false, 0));
        let bounds = RtoBounds::new(70, 60_000);
        assert_eq!(Rtt::default().rto_millis(&bounds, 0, 0), 1000);
        assert_eq!(Rtt::default().rto_millis(&bounds, 200, 3), 8000);
        let mut rtt = Rtt::default();
        rtt.sample(400_000);
        let near = |found: u32, exact: u32| found.abs_diff(exact) * 2000 < exact;
        assert!(near(rtt.srtt_micros(), 400_000) && near(rtt.rttvar_micros(), 200_000));
        assert!(near(rtt.rto_millis(&bounds, 200, 0), 1200));
        assert!(near(rtt.rto_millis(&bounds, 200, 2), 4800));
        assert!(near(rtt.rto_millis(&RtoBounds::new(3000, 60_000), 200, 0), 3600), "beyond both");
        assert_eq!(rtt.rto_millis(&bounds, 0, 40), 60_000);
    }

    #[test]
    fn short_round_trips_are_followed_to_the_microsecond() {
        let mut rtt = Rtt::default();
        rtt.sample(20);
        for _ in 0..60 {
            rtt.sample(23);
        }
        assert_eq!((rtt.srtt_micros(), rtt.rttvar_micros()), (23, 0));
        assert_eq!(rtt.rto_millis(&RtoBounds::new(1, 60_000), 0, 0), 2);
        assert_eq!(rtt.rto_millis(&RtoBounds::new(70, 60_000), 200, 0), 271);
        let mut nothing = Rtt::default();
        nothing.sample(0);
        assert!(nothing.is_measured());
    }

    proptest! {
        #[test]
        fn the_quick_timeout_is_the_slow_one(
            srtt: u16,
            rttvar: u16,
            shift in 0_u32..16,
            floor in 0_u32..5,
            delay in 0_u32..600,
        ) {
            let rtt = Rtt { srtt: Log(srtt >> shift), rttvar: Log(rttvar >> shift) };
            for bounds in [RtoBounds::new(floor, 3), RtoBounds::new(floor * 100, 60_000)] {
                prop_assert_eq!(rtt.rto_millis(&bounds, delay, 0), rtt.rto_millis_any(&bounds, delay, 0));
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
            let mut rtt = Rtt::default();
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
                prop_assert!(apart <= 0.002 * rttvar + 0.002 * srtt + 1.0);
                let rto = ((srtt + (4.0 * rttvar).max(270_000.0)) / 1000.0).min(60_000.0);
                let found = f64::from(rtt.rto_millis(&RtoBounds::new(70, 60_000), 200, 0));
                prop_assert!((found - rto).abs() <= 0.012 * rto + 2.0, "{found} for {rto}");
            }
        }

        #[test]
        fn any_samples_leave_a_timeout_within_its_bounds_that_grows_with_backoff(
            samples: Vec<u32>, floor: u32, ceiling: u32, delay in 0_u32..600, backoff in 0_u32..100,
        ) {
            let mut rtt = Rtt::default();
            for sample in samples {
                rtt.sample(sample);
                prop_assert!(rtt.is_measured());
            }
            let rto = rtt.rto_millis(&RtoBounds::new(floor, ceiling), delay, backoff);
            prop_assert!(rto <= ceiling && (rto >= floor || rto == ceiling));
            prop_assert!(rtt.rto_millis(&RtoBounds::new(floor, ceiling), delay, backoff + 1) >= rto);
        }
    }
}
