//! The latency histogram: every response is recorded, memory is fixed, and two histograms merge without loss.
//!
//! Three significant digits from 1 us to 60 s. Values are kept in nanoseconds, because a unit of 1 us would leave two
//! digits at 50 us and none below it, where shared memory and in-process wires live. What took longer than 60 s is
//! recorded as 60 s **and** counted, so that the table can say so.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::hdr::{self, HdrError};

/// Latencies of one loop, or of several merged.
///
/// ```
/// use std::time::Duration;
/// use anywire_load::Latency;
///
/// let mut latency = Latency::new();
/// latency.record(Duration::from_micros(250));
/// assert_eq!(latency.count(), 1);
/// assert!((latency.summary().unwrap().p50 - 250.0).abs() < 0.5);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    nanoseconds: Histogram<u64>,
    clamped: u64,
}

impl Latency {
    /// An empty histogram; it takes its whole memory (about 220 KiB) now.
    pub fn new() -> Self {
        let nanoseconds = Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the histogram accepts");
        Self { nanoseconds, clamped: 0 }
    }

    /// The histogram that a text holds: the field `hdr` of a result, of this machine or another. How many of its latencies were
    /// clamped is not in it; [`Latency::from_summary`] knows.
    ///
    /// # Errors
    ///
    /// The text is no histogram, or one with other bounds.
    pub fn from_hdr(text: &str) -> Result<Self, HdrError> {
        let mut latency = Self::new();
        hdr::decode(text, &mut latency.nanoseconds)?;
        Ok(latency)
    }

    /// The histogram of a summary, as it was when it was summed up: histograms of files and machines merge as those of loops do.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use anywire_load::Latency;
    /// # let mut here = Latency::new();
    /// # here.record(Duration::from_secs(61));
    /// # let summary = here.summary().unwrap();
    /// let mut all = Latency::new();
    /// all.merge(&Latency::from_summary(&summary)?);
    /// assert_eq!(all.summary(), Some(summary));
    /// # Ok::<(), anywire_load::HdrError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Latency::from_hdr`]; also if the summary has none.
    pub fn from_summary(summary: &LatencySummary) -> Result<Self, HdrError> {
        let text = summary.hdr.as_deref().ok_or(HdrError::Text)?;
        Ok(Self { clamped: summary.clamped, ..Self::from_hdr(text)? })
    }

    /// Records one latency.
    pub fn record(&mut self, latency: Duration) {
        self.record_many(latency, 1);
    }

    /// Records the same latency `count` times: answers that came in one read to requests that left in one write.
    pub fn record_many(&mut self, latency: Duration, count: u64) {
        let mut nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        if nanoseconds > HIGHEST_NS {
            nanoseconds = HIGHEST_NS;
            self.clamped += count;
        }
        // Never out of range: the value was clamped to the bound that the histogram was built with.
        self.nanoseconds.saturating_record_n(nanoseconds.max(LOWEST_NS), count);
    }

    /// Adds all that another histogram holds; the sum is what one histogram would have recorded.
    pub fn merge(&mut self, other: &Self) {
        self.nanoseconds.add(&other.nanoseconds).expect("both histograms have the same bounds");
        self.clamped = self.clamped.saturating_add(other.clamped);
    }

    /// Makes this a copy of another histogram. A new one in its place: `Histogram::set_to` clears the old memory before it copies,
    /// which is as much again to write.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        *self = other.clone();
    }

    /// What was recorded since an earlier copy of this histogram; what the copy has and this one has not counts as nothing.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut added = Self::new();
        for slot in self.nanoseconds.iter_recorded() {
            let value = slot.value_iterated_to();
            let count = slot.count_at_value().saturating_sub(earlier.nanoseconds.count_at(value));
            // The histogram would take a value that was recorded no times for its longest.
            if count > 0 {
                added.nanoseconds.saturating_record_n(value, count);
            }
        }
        added.clamped = self.clamped.saturating_sub(earlier.clamped);
        added
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// How many of them took longer than 60 s and were recorded as 60 s.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The latency that the share `quantile` (0 .. 1) of all stayed at or below; `None` if nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_nanos(self.nanoseconds.value_at_quantile(quantile)))
    }

    /// How many latencies were longer than `limit`, to three digits.
    pub fn count_above(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        if limit >= HIGHEST_NS { 0 } else { self.nanoseconds.count_between(limit + 1, HIGHEST_NS) }
    }

    /// How many latencies fell into each of a fixed set of bands, eight a doubling, without those that are empty: enough to draw
    /// how latencies spread, and small enough to keep for each second.
    pub fn bands(&self) -> Vec<Band> {
        let mut bands: Vec<Band> = Vec::new();
        for value in self.nanoseconds.iter_recorded() {
            let up_to_us = Band::of(value.value_iterated_to());
            let count = value.count_since_last_iteration();
            match bands.last_mut() {
                Some(last) if last.up_to_us == up_to_us => last.count += count,
                _ => bands.push(Band { up_to_us, count }),
            }
        }
        bands
    }

    /// The figures for tables and JSON; `None` if nothing was recorded (unknown is never 0).
    pub fn summary(&self) -> Option<LatencySummary> {
        if self.count() == 0 {
            return None;
        }
        let at = |quantile: f64| us(self.nanoseconds.value_at_quantile(quantile));
        Some(LatencySummary {
            unit: "us".to_owned(),
            min: us(self.nanoseconds.min()),
            mean: round(self.nanoseconds.mean() / 1000.0),
            p50: at(0.50),
            p75: at(0.75),
            p90: at(0.90),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: us(self.nanoseconds.max()),
            count: self.count(),
            clamped: self.clamped,
            curve: self.curve(),
            hdr: self.encoded(),
        })
    }

    /// Points of the percentile curve, denser towards the tail: each halving of the rest gets as many.
    fn curve(&self) -> Vec<CurvePoint> {
        // So many that the curve reaches the longest: each doubling of the count brings one more halving.
        let halvings = self.count().max(1).ilog2() + 2;
        let ticks = (CURVE_POINTS_MAX / halvings).clamp(1, TICKS_PER_HALVING);
        let points = self.nanoseconds.iter_quantiles(ticks).map(|value| CurvePoint {
            share: value.quantile_iterated_to(),
            us: us(value.value_iterated_to()),
        });
        points.collect()
    }

    /// As text: what other tools read, and what later runs merge.
    fn encoded(&self) -> Option<String> {
        hdr::encode(&self.nanoseconds)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

/// A histogram in figures, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// The unit of all figures but `count` and `clamped`: `us`.
    pub unit: String,
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// Half of all stayed at or below this.
    pub p50: f64,
    /// 75 % stayed at or below this.
    pub p75: f64,
    /// 90 % stayed at or below this.
    pub p90: f64,
    /// 99 % stayed at or below this.
    pub p99: f64,
    /// 99.9 % stayed at or below this.
    pub p99_9: f64,
    /// 99.99 % stayed at or below this.
    pub p99_99: f64,
    /// The longest.
    pub max: f64,
    /// How many were recorded.
    pub count: u64,
    /// How many of them were longer than 60 s and stand as 60 s.
    pub clamped: u64,
    /// The percentile curve, at most 120 points from the shortest to the longest.
    pub curve: Vec<CurvePoint>,
    /// The whole histogram (nanoseconds) as HdrHistogram V2, deflated, base64; `null` if it could not be encoded.
    pub hdr: Option<String>,
}

/// How many latencies fell into a band.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// The upper end of the band, in microseconds; the lower one is 2^(1/8) times smaller.
    pub up_to_us: f64,
    /// How many.
    pub count: u64,
}

impl Band {
    /// The upper end of the band in which a latency falls, in microseconds.
    fn of(nanoseconds: u64) -> f64 {
        let step = ((nanoseconds.max(1) as f64).log2() * BANDS_PER_DOUBLING).ceil();
        round((step / BANDS_PER_DOUBLING).exp2() / 1000.0)
    }
}

/// One point of a percentile curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The share of all latencies, 0 .. 1.
    pub share: f64,
    /// The latency that this share stayed at or below, in microseconds.
    pub us: f64,
}

fn us(nanoseconds: u64) -> f64 {
    // The histogram gives the upper end of a value's slot, which for the highest lies beyond it.
    round(nanoseconds.min(HIGHEST_NS) as f64 / 1000.0)
}

/// Three decimals: a nanosecond, below which there is only noise of the floating point.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

pub(crate) const LOWEST_NS: u64 = 1;
pub(crate) const HIGHEST_NS: u64 = 60_000_000_000;
pub(crate) const SIGNIFICANT_DIGITS: u8 = 3;
const TICKS_PER_HALVING: u32 = 5;
const CURVE_POINTS_MAX: u32 = 120;
const BANDS_PER_DOUBLING: f64 = 8.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn above_sixty_seconds_is_clamped_and_counted() {
        let mut latency = Latency::new();
        latency.record(Duration::from_secs(61));
        latency.record(Duration::from_secs(59));
        let summary = latency.summary().unwrap();
        assert_eq!((summary.count, summary.clamped), (2, 1));
        assert_eq!(summary.max, 60_000_000.0);
    }

    #[test]
    fn those_above_a_limit_are_counted() {
        let mut latency = Latency::new();
        (1..=1000).for_each(|us| latency.record(Duration::from_micros(us)));
        let above = |us| latency.count_above(Duration::from_micros(us));
        assert_eq!((above(5000), above(0)), (0, 1000));
        assert!(above(900).abs_diff(100) <= 1, "{}", above(900));
    }

    #[test]
    fn what_was_added_has_a_longest_of_its_own() {
        let mut latency = Latency::new();
        latency.record(Duration::from_secs(5));
        let earlier = latency.clone();
        latency.record(Duration::from_millis(1));
        let added = latency.since(&earlier).summary().unwrap();
        assert_eq!((added.count, added.max < 1_100.0), (1, true), "{}", added.max);
    }

    #[test]
    fn bands_hold_every_latency_once() {
        let mut latency = Latency::new();
        for ns in [1, 900, 1_000, 1_001, 250_000, 250_100, 70_000_000_000] {
            latency.record(Duration::from_nanos(ns));
        }
        let bands = latency.bands();
        assert_eq!(bands.iter().map(|band| band.count).sum::<u64>(), 7, "{bands:?}");
        assert!(bands.windows(2).all(|pair| pair[0].up_to_us < pair[1].up_to_us), "{bands:?}");
        let long =
            bands.iter().find(|band| band.count == 2 && band.up_to_us > 200.0).expect("both of 250 us");
        assert!(long.up_to_us >= 250.0 && long.up_to_us <= 250.1 * 1.1, "{long:?}");
    }

    #[test]
    fn nothing_recorded_is_unknown_not_zero() {
        assert_eq!(Latency::new().summary(), None);
        assert_eq!(Latency::new().quantile(0.5), None);
    }

    #[test]
    fn three_digits_hold_from_one_microsecond_to_sixty_seconds() {
        let mut nanoseconds = 1_000_u64;
        while nanoseconds < HIGHEST_NS {
            let mut latency = Latency::new();
            latency.record(Duration::from_nanos(nanoseconds));
            let seen = latency.quantile(0.5).unwrap().as_nanos() as f64;
            assert!((seen / nanoseconds as f64 - 1.0).abs() < 0.001, "{nanoseconds} was kept as {seen}");
            nanoseconds = nanoseconds * 13 / 10;
        }
    }

    #[test]
    fn the_curve_ends_at_the_longest() {
        let mut latency = Latency::new();
        for us in 1..=10_000 {
            latency.record(Duration::from_micros(us));
        }
        let summary = latency.summary().unwrap();
        assert_eq!(summary.curve.last().unwrap().us, summary.max);
        assert!(summary.curve.windows(2).all(|pair| pair[0].us <= pair[1].us));
        assert!(summary.hdr.unwrap().len() > 100);
    }

    #[test]
    fn the_curve_reaches_the_longest_of_any_number() {
        for zeros in [0_u32, 2, 5, 6, 7, 8, 9, 12] {
            let mut latency = Latency::new();
            latency.record_many(Duration::from_micros(100), 10_u64.pow(zeros));
            latency.record_many(Duration::from_micros(300), 10_u64.pow(zeros / 2));
            latency.record(Duration::from_secs(2));
            let summary = latency.summary().unwrap();
            let last = summary.curve.last().unwrap();
            assert_eq!((last.us, last.share), (summary.max, 1.0), "10^{zeros}");
            assert!(summary.curve.len() <= 120, "10^{zeros}: {} points", summary.curve.len());
        }
    }

    proptest! {
        // Each case reads all buckets of two histograms.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn merged_is_the_same_as_recorded_in_one(parts in prop::collection::vec(
            prop::collection::vec(0_u64..70_000_000_000, 0..200), 1..5)) {
            let mut one = Latency::new();
            let mut merged = Latency::new();
            for part in &parts {
                let mut of_loop = Latency::new();
                for &nanoseconds in part {
                    one.record(Duration::from_nanos(nanoseconds));
                    of_loop.record(Duration::from_nanos(nanoseconds));
                }
                merged.merge(&of_loop);
            }
            prop_assert_eq!(merged.summary(), one.summary());
            prop_assert_eq!(merged, one);
        }
    }
}
