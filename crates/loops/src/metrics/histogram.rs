//! Durations in bands: recorded on one thread, read on others, merged without loss.
//!
//! Eight bands of equal width for each doubling, from 125 ns to 67 s, so that a quantile is at most an eighth too high. Recording is
//! two stores and no lock. The memory is fixed, and small enough for one histogram per phase and origin; the load generator, whose
//! three digits take a hundred times as much, has its own.

use std::time::Duration;

use crate::Counter;

/// Durations with one writer and any number of readers, as a [`Counter`] of each band: two threads must never record into one.
///
/// ```
/// use std::time::Duration;
/// use anywire_loops::metrics::Histogram;
///
/// let waits = Histogram::default();
/// waits.record(Duration::from_micros(250));
/// let read = waits.read();
/// assert_eq!((read.count(), read.sum()), (1, Duration::from_micros(250)));
/// ```
#[derive(Debug)]
pub struct Histogram {
    bands: [Counter; BANDS],
    sum_ns: Counter,
}

impl Histogram {
    /// Records one duration. Only for the one writer.
    #[inline]
    pub fn record(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.bands[band_of(nanoseconds)].increment();
        self.sum_ns.add(nanoseconds);
    }

    /// What was recorded so far. For any thread.
    pub fn read(&self) -> Durations {
        let counts = self.bands.iter().map(Counter::value).collect();
        Durations { counts, sum_ns: self.sum_ns.value() }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bands: std::array::from_fn(|_| Counter::default()), sum_ns: Counter::default() }
    }
}

/// What a [`Histogram`] had recorded at one moment, or several together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    /// One for each band; none at all if nothing was ever recorded.
    counts: Vec<u64>,
    sum_ns: u64,
}

impl Durations {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// The duration that the share `quantile` (0 to 1) of all stayed at or below, at most an eighth too high; `None` if there are none.
    /// What took longer than 67 s counts as that.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let wanted = ((self.count() as f64 * quantile.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut so_far = 0;
        let band = self.counts.iter().position(|count| {
            so_far += count;
            so_far >= wanted
        })?;
        Some(upper_bound(band.min(BANDS - 2)))
    }

    /// How many took as long as `limit` at most. Exact for limits of 2^n us; else some that took up to an eighth longer are counted, too.
    pub fn up_to(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.counts.iter().take(band_of(limit) + 1).sum()
    }

    /// Adds what another one has.
    pub fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }
}

/// The band of a duration: those of its doubling, and which eighth of it.
#[inline]
fn band_of(nanoseconds: u64) -> usize {
    // Less one, because upper bounds belong to their bands.
    let eighths = nanoseconds.saturating_sub(1) / UNIT_NS;
    if eighths < 8 {
        return eighths as usize;
    }
    let doubling = eighths.ilog2() as usize;
    let eighth = (eighths >> (doubling - 3)) as usize & 7;
    ((doubling - 2) * 8 + eighth).min(BANDS - 1)
}

/// The longest duration of a band.
fn upper_bound(band: usize) -> Duration {
    let units = match band {
        0..8 => band as u64 + 1,
        _ => (band as u64 % 8 + 9) << (band / 8 - 1),
    };
    Duration::from_nanos(units * UNIT_NS)
}

/// An eighth of a microsecond.
const UNIT_NS: u64 = 125;

/// Eight below 1 us, eight for each doubling up to 2^26 us, and one for what took longer.
const BANDS: usize = 8 + 26 * 8 + 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bands_follow_each_other_without_a_gap() {
        for band in 0..BANDS - 1 {
            let bound = upper_bound(band).as_nanos() as u64;
            assert_eq!((band_of(bound), band_of(bound + 1)), (band, band + 1), "{bound} ns");
        }
        assert_eq!(upper_bound(BANDS - 2), Duration::from_micros(1 << 26));
        assert_eq!((band_of(0), band_of(u64::MAX)), (0, BANDS - 1));
    }

    #[test]
    fn nothing_has_no_quantile() {
        let read = Histogram::default().read();
        assert_eq!((read.count(), read.quantile(0.5), read.up_to(Duration::MAX)), (0, None, 0));
        assert_eq!(Durations::default().quantile(1.0), None);
    }

    #[test]
    fn what_took_too_long_counts_as_the_longest() {
        let slow = Histogram::default();
        slow.record(Duration::MAX);
        assert_eq!(slow.read().quantile(1.0), Some(Duration::from_micros(1 << 26)));
    }

    proptest! {
        #[test]
        fn quantiles_are_an_eighth_too_high_at_most(mut all in prop::collection::vec(1_000_u64..60_000_000_000, 1..100), share in 0.0_f64..=1.0) {
            let histogram = Histogram::default();
            all.iter().for_each(|ns| histogram.record(Duration::from_nanos(*ns)));
            all.sort_unstable();
            let at = ((all.len() as f64 * share).ceil() as usize).max(1) - 1;
            let (is, said) = (all[at], histogram.read().quantile(share).unwrap().as_nanos() as u64);
            prop_assert!(is <= said && said <= is + is / 8 + 1, "{is} ns, said to be {said}");
        }

        #[test]
        fn merged_is_the_same_as_recorded_in_one(parts in prop::collection::vec(prop::collection::vec(0_u64..90_000_000_000, 0..50), 0..4)) {
            let (one, mut merged) = (Histogram::default(), Durations::default());
            for part in &parts {
                let own = Histogram::default();
                for ns in part {
                    one.record(Duration::from_nanos(*ns));
                    own.record(Duration::from_nanos(*ns));
                }
                merged.merge(&own.read());
            }
            prop_assert_eq!(merged.sum(), one.read().sum());
            prop_assert_eq!(merged.count(), one.read().count());
            for power in 0..27 {
                let limit = Duration::from_micros(1 << power);
                let exact = parts.iter().flatten().filter(|ns| u128::from(**ns) <= limit.as_nanos()).count();
                prop_assert_eq!(merged.up_to(limit), exact as u64);
            }
        }
    }
}
