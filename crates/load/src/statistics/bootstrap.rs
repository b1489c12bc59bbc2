//! How large a difference is: the ratio of the medians, with an interval from resampled rounds.

use serde::{Deserialize, Serialize};

use super::sample::{Aligned, Sample};

/// The median of the second side over that of the first, and where it lies in 95 % of the resamples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatioOfMedians {
    /// The ratio; with strata that of the values over the mean of their stratum.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl RatioOfMedians {
    fn inverse(self) -> Self {
        Self { ratio: 1.0 / self.ratio, low: 1.0 / self.high, high: 1.0 / self.low }
    }
}

/// The median; the mean of the two in the middle if their number is even, `None` without values.
///
/// ```
/// use anywire_load::statistics::median;
///
/// assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
/// assert_eq!(median(&[4.0, 1.0]), Some(2.5));
/// assert_eq!(median(&[]), None);
/// ```
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| middle(&sorted))
}

/// The median of side b over that of side a, with its percentile interval of 95 % over 10,000 resamples, which `seed`
/// draws; `None` if a side has no value, or any is not a finite number above 0. Beyond 1,000 values there are fewer resamples, at
/// least 1,000: the medians of so many values hardly differ, and each resample draws as many.
///
/// Swapped sides have the inverse of it, and so have their ends.
pub fn ratio_of_medians(sample: &Sample, seed: u32) -> Option<RatioOfMedians> {
    let mut aligned = sample.aligned()?;
    let swapped = aligned.puts_higher_side_first();
    let Aligned { a, b, .. } = &aligned;
    let (of_a, of_b) = (median(a)?, median(b)?);
    let (a, b) = (spread_out(a, of_a, &aligned), spread_out(b, of_b, &aligned));
    let mut random = fastrand::Rng::with_seed(seed.into());
    let resamples = resamples(a.len().max(b.len()));
    let mut ratios: Vec<f64> = (0..resamples)
        .map(|_| resampled_median(&b, &mut random) / resampled_median(&a, &mut random))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let outside = resamples / 40;
    let found =
        RatioOfMedians { ratio: of_b / of_a, low: ratios[outside], high: ratios[resamples - 1 - outside] };
    let found = if swapped { found.inverse() } else { found };
    // Values at the ends of what a number can hold.
    [found.ratio, found.low, found.high].iter().all(|one| one.is_finite()).then_some(found)
}

impl Aligned {
    /// Whether the sides had to be swapped for it. The same draws then make the same resamples, whichever side is called a.
    fn puts_higher_side_first(&mut self) -> bool {
        let sorted = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        let is_lower = sorted(&self.a) < sorted(&self.b);
        if is_lower {
            std::mem::swap(&mut self.a, &mut self.b);
        }
        is_lower
    }
}

/// The values in rising order, as far from their median as they would be without the division by the mean of their stratum,
/// which holds a share of each: the interval would be too narrow (Davison and Hinkley, Bootstrap Methods, 1997, on modified residuals).
fn spread_out(values: &[f64], median: f64, aligned: &Aligned) -> Vec<f64> {
    let mut sorted = values.to_vec();
    if aligned.strata.len() > 1 {
        let size = (aligned.a.len() + aligned.b.len()) as f64 / aligned.strata.len() as f64;
        let factor = (size / (size - 1.0)).sqrt();
        sorted.iter_mut().for_each(|value| *value = median * (*value / median).powf(factor));
    }
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median of as many values as there are, each drawn from all: counted, because sorting them takes most of the time.
fn resampled_median(sorted: &[f64], random: &mut fastrand::Rng) -> f64 {
    let mut times = vec![0_usize; sorted.len()];
    for _ in sorted {
        times[random.usize(..sorted.len())] += 1;
    }
    let at = |place: usize| {
        let mut below = 0;
        let value = sorted.iter().zip(&times).find(|(_, times)| {
            below += **times;
            below > place
        });
        *value.expect("there are as many draws as places").0
    };
    f64::midpoint(at((sorted.len() - 1) / 2), at(sorted.len() / 2))
}

/// How many resamples of so many values are drawn.
fn resamples(values: usize) -> usize {
    (DRAWS_MAX / values.max(1)).clamp(RESAMPLES_MIN, RESAMPLES)
}

/// Of values in rising order.
fn middle(sorted: &[f64]) -> f64 {
    let at = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[at - 1], sorted[at]),
        _ => sorted[at],
    }
}

const RESAMPLES: usize = 10_000;
/// 25 of them lie beyond either end of the interval.
const RESAMPLES_MIN: usize = 1_000;
/// Of all resamples of a side together, as long as they are more than the fewest: a fraction of a second.
const DRAWS_MAX: usize = 10_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_interval_again() {
        let sample = Sample::of(&[10.0, 11.0, 12.0, 10.5, 11.5], &[12.0, 13.0, 12.5, 14.0, 13.1]);
        let found = ratio_of_medians(&sample, 1).unwrap();
        assert_eq!(ratio_of_medians(&sample, 1), Some(found));
        assert!((found.ratio - 13.0 / 11.0).abs() < 1e-12);
        assert!(found.low < found.ratio && found.ratio < found.high, "{found:?}");
        // The extremes that the values allow.
        assert!(found.low >= 12.0 / 12.0 && found.high <= 14.0 / 10.0, "{found:?}");
    }

    /// The machine was slow in every other pair, by far more than the sides differ.
    #[test]
    fn what_strikes_both_sides_of_a_pair_is_no_part_of_the_interval() {
        let pairs: Vec<(f64, f64)> = (0..10)
            .map(|round| {
                let machine = if round % 2 == 0 { 1.0 } else { 1.4 };
                (100.0 * machine, (105.0 + f64::from(round) / 10.0) * machine)
            })
            .collect();
        let found = ratio_of_medians(&Sample::of_pairs(&pairs), 3).unwrap();
        assert!((found.ratio - 1.0545).abs() < 0.001, "{found:?}");
        assert!(found.low > 1.045 && found.high < 1.065, "{found:?}");
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let unbound = ratio_of_medians(&Sample::of(&a, &b), 3).unwrap();
        assert!(unbound.low < 0.9 && unbound.high > 1.2, "{unbound:?}");
    }

    #[test]
    fn many_values_have_fewer_resamples() {
        let counts = [1, 10, 1_000, 2_000, 10_000, usize::MAX].map(resamples);
        assert_eq!(counts, [10_000, 10_000, 10_000, 5_000, 1_000, 1_000]);
        let values: Vec<f64> = (0..4_000).map(|value| 100.0 + f64::from(value) / 1_000.0).collect();
        let higher: Vec<f64> = values.iter().map(|value| value * 1.05).collect();
        let found = ratio_of_medians(&Sample::of(&values, &higher), 1).unwrap();
        assert!((found.ratio - 1.05).abs() < 1e-9, "{found:?}");
        assert!(found.low > 1.045 && found.low < found.ratio && found.high < 1.055, "{found:?}");
    }

    #[test]
    fn ends_of_what_a_number_holds_are_unknown() {
        assert_eq!(ratio_of_medians(&Sample::of(&[f64::MIN_POSITIVE], &[f64::MAX]), 1), None);
        assert_eq!(ratio_of_medians(&Sample::of(&[1.0], &[]), 1), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn swapped_sides_have_the_inverse_and_the_unit_does_not_matter(
            pairs in prop::collection::vec((1.0_f64..100.0, 1.0_f64..100.0), 1..14),
            bits in -20_i32..20,
        ) {
            let near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
            let found = ratio_of_medians(&Sample::of_pairs(&pairs), 5).unwrap();
            prop_assert!(found.low <= found.high);
            let swapped: Vec<_> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            let other = ratio_of_medians(&Sample::of_pairs(&swapped), 5).unwrap().inverse();
            prop_assert!(near(found.low, other.low) && near(found.high, other.high), "{found:?} {other:?}");
            let unit = 2.0_f64.powi(bits);
            let scaled: Vec<_> = pairs.iter().map(|&(a, b)| (a * unit, b * unit)).collect();
            let other = ratio_of_medians(&Sample::of_pairs(&scaled), 5).unwrap();
            prop_assert!(near(found.ratio, other.ratio) && near(found.low, other.low), "{found:?} {other:?}");
        }
    }
}
