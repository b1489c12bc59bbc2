//! The round trip and the retransmission timeout (RFC 6298), in four bytes.
//!
//! SRTT and RTTVAR are kept in sixteenths of a microsecond as small floating-point numbers: 5 bits of
//! exponent, 11 of mantissa. Rounding costs at most 1/4096 of the value; below 256 us they are exact to the
//! sixteenth, so that smoothing does not stall on short round trips. The largest value holds any 32-bit count
//! of microseconds (71 minutes).

/// The smoothed round trip of one connection and how much it varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Rtt {
    srtt: Log,
    rttvar: Log,
}

impl Rtt {
    /// Nothing measured yet.
    pub(crate) const NONE: Self = Self { srtt: Log(0), rttvar: Log(0) };

    /// One measurement: RFC 6298 2.2 for the first, 2.3 for every other. Karn's rule (3) is the caller's: a
    /// round trip of a segment that was sent twice is none, unless timestamps tell which sending was
    /// answered.
    #[inline(always)]
    pub(crate) fn sample(&mut self, micros: u32) {
        let (srtt, rttvar) = (u64::from(self.srtt.0), u64::from(self.rttvar.0));
        let sample = u64::from(micros) * UNITS;
        // All three are exact, and so are their means: within one process nearly all are.
        if self.is_measured() && (srtt | rttvar | sample) < EXACT {
            *self = Self::smoothed(srtt, rttvar, sample, |value| Log(value as u16));
        } else {
            self.sample_any(sample);
        }
    }

    #[inline(never)]
    fn sample_any(&mut self, sample: u64) {
        *self = if self.is_measured() {
            Self::smoothed(self.srtt.value(), self.rttvar.value(), sample, Log::new)
        } else {
            Self { srtt: Log::new(sample.max(1)), rttvar: Log::new(sample / 2) }
        };
    }

    #[inline(always)]
    fn smoothed(srtt: u64, rttvar: u64, sample: u64, log: impl Fn(u64) -> Log) -> Self {
        Self {
            // Zero would mean that nothing was measured.
            srtt: log(((7 * srtt + sample + 4) / 8).max(1)),
            // With the SRTT from before this sample.
            rttvar: log((3 * rttvar + srtt.abs_diff(sample) + 2) / 4),
        }
    }

    /// The timeout in milliseconds: SRTT + max(G, 4 x RTTVAR), where G is the tick of 1 ms, within the bounds
    /// (RFC 6298 2.3 to 2.5), doubled `backoff` times (5.5) but not beyond the upper one. One second before
    /// any measurement (2.1).
    #[inline(always)]
    pub(crate) fn rto_millis(self, bounds: &RtoBounds, backoff: u32) -> u32 {
        // Larger numbers have larger codes, and without a measurement the first of them wraps.
        if backoff == 0
            && self.srtt.0.wrapping_sub(1) < bounds.at_floor.srtt.0
            && self.rttvar.0 <= bounds.at_floor.rttvar.0
        {
            return bounds.floor;
        }
        self.rto_millis_any(bounds, backoff)
    }

    #[inline(never)]
    fn rto_millis_any(self, bounds: &RtoBounds, backoff: u32) -> u32 {
        let base = if self.is_measured() {
            let units = self.srtt.value() + (4 * self.rttvar.value()).max(1000 * UNITS);
            units.div_ceil(1000 * UNITS)
        } else {
            INITIAL_MILLIS
        };
        // 31 doublings of a millisecond are 24 days.
        (base.max(u64::from(bounds.floor)) << backoff.min(31)).min(u64::from(bounds.ceiling)) as u32
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
        self.rttvar.micros()
    }
}

/// The bounds of the timeout. RFC 6298 asks for a floor of one second (2.4) and for a ceiling of 60 or more
/// (2.5); both are the caller's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RtoBounds {
    floor: u32,
    ceiling: u32,
    /// While neither is above these, the timeout is the floor: so it is on short paths, and no number need be
    /// decoded to know.
    at_floor: Rtt,
}

impl RtoBounds {
    /// Bounds in milliseconds.
    pub(crate) const fn new(floor: u32, ceiling: u32) -> Self {
        // One half for SRTT, one for the deviation or G.
        let half = floor as u64 * (1000 * UNITS / 2);
        let at_floor = if 2 <= floor && floor <= ceiling {
            Rtt { srtt: Log::at_most(half), rttvar: Log::at_most(half / 4) }
        } else {
            Rtt::NONE
        };
        Self { floor, ceiling, at_floor }
    }

    /// The upper one, in milliseconds.
    pub(crate) const fn ceiling(&self) -> u32 {
        self.ceiling
    }
}

/// A floating-point number of sixteenths of a microsecond: below 2048 the value itself, above it a mantissa
/// of twelve bits, whose first is left out, and by how much it is shifted, plus one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Log(u16);

impl Log {
    /// The nearest one. `value` is below 2^40: a product of 32 bits and a few.
    #[inline]
    const fn new(value: u64) -> Self {
        let shift = (value | IMPLIED).ilog2() - MANTISSA_BITS;
        // Rounding up may carry into the exponent, which is then the right one.
        let rounded = ((value << 1 >> shift) + 1) >> 1;
        Self(((shift as u64) << MANTISSA_BITS) as u16 + rounded as u16)
    }

    /// The largest one that is not above `value`, as far as numbers go.
    const fn at_most(value: u64) -> Self {
        let value = if value < 1 << 40 { value } else { (1 << 40) - 1 };
        let nearest = Self::new(value);
        if nearest.value() > value { Self(nearest.0 - 1) } else { nearest }
    }

    #[inline]
    const fn value(self) -> u64 {
        let code = self.0 as u64;
        let exponent = code >> MANTISSA_BITS;
        if exponent == 0 {
            return code;
        }
        (code & (IMPLIED - 1) | IMPLIED) << (exponent - 1)
    }

    const fn micros(self) -> u32 {
        let rounded = (self.value() + UNITS / 2) / UNITS;
        if rounded > u32::MAX as u64 { u32::MAX } else { rounded as u32 }
    }
}

/// Units of [`Log`] in a microsecond.
const UNITS: u64 = 16;

const MANTISSA_BITS: u32 = 11;
/// The first bit of a mantissa.
const IMPLIED: u64 = 1 << MANTISSA_BITS;
/// Numbers below this are their own code.
const EXACT: u64 = 2 << MANTISSA_BITS;

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
        assert_eq!(Rtt::NONE.rto_millis(&RtoBounds::new(200, 60_000), 0), 1000);
        assert_eq!(Rtt::NONE.rto_millis(&RtoBounds::new(200, 60_000), 3), 8000);
        let mut rtt = Rtt::NONE;
        rtt.sample(400_000);
        let near = |found: u32, exact: u32| found.abs_diff(exact) * 2000 < exact;
        assert!(near(rtt.srtt_micros(), 400_000) && near(rtt.rttvar_micros(), 200_000));
        assert!(near(rtt.rto_millis(&RtoBounds::new(200, 60_000), 0), 1200));
        assert!(near(rtt.rto_millis(&RtoBounds::new(200, 60_000), 2), 4800));
        assert_eq!(rtt.rto_millis(&RtoBounds::new(3000, 60_000), 0), 3000);
        assert_eq!(rtt.rto_millis(&RtoBounds::new(200, 60_000), 40), 60_000);
    }

    #[test]
    fn short_round_trips_are_followed_to_the_microsecond() {
        let mut rtt = Rtt::NONE;
        rtt.sample(20);
        for _ in 0..60 {
            rtt.sample(23);
        }
        assert_eq!((rtt.srtt_micros(), rtt.rttvar_micros()), (23, 0));
        // G: the deviation counts as one tick at least.
        assert_eq!(rtt.rto_millis(&RtoBounds::new(0, 60_000), 0), 2);
        let mut nothing = Rtt::NONE;
        nothing.sample(0);
        assert!(nothing.is_measured());
    }

    proptest! {
        #[test]
        fn the_quick_ways_are_the_slow_ones(
            srtt in 0_u16..1 << 13,
            rttvar in 0_u16..1 << 13,
            micros in 0_u32..600,
            floor in 0_u32..5,
        ) {
            let rtt = Rtt { srtt: Log(srtt), rttvar: Log(rttvar) };
            let (mut quick, mut slow) = (rtt, rtt);
            quick.sample(micros);
            slow.sample_any(u64::from(micros) * UNITS);
            prop_assert_eq!(quick, slow);
            for rtt in [rtt, Rtt { srtt: Log(srtt << 3), rttvar: Log(rttvar << 3) }] {
                for bounds in [RtoBounds::new(floor, 3), RtoBounds::new(floor * 100, 60_000)] {
                    prop_assert_eq!(rtt.rto_millis(&bounds, 0), rtt.rto_millis_any(&bounds, 0));
                }
            }
        }

        #[test]
        fn a_number_is_kept_within_a_4096th(value in 0_u64..1 << 40, shift in 0_u32..40) {
            let value = value >> shift;
            let found = Log::new(value).value();
            prop_assert!(found.abs_diff(value) * 4096 <= value, "{found} for {value}");
            prop_assert!(Log::new(value + 1).0 >= Log::new(value).0);
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
                prop_assert!(apart <= 0.002 * rttvar + 0.002 * srtt + 1.0);
                let rto = ((srtt + (4.0 * rttvar).max(1000.0)) / 1000.0).clamp(200.0, 60_000.0);
                let found = f64::from(rtt.rto_millis(&RtoBounds::new(200, 60_000), 0));
                prop_assert!((found - rto).abs() <= 0.012 * rto + 2.0, "{found} for {rto}");
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
            prop_assert!(rto <= ceiling && (rto >= floor || rto == ceiling));
            prop_assert!(rtt.rto_millis(&RtoBounds::new(floor, ceiling), backoff + 1) >= rto);
        }
    }
}
