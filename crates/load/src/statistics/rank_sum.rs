//! The test of Mann and Whitney on ranks: exact where the samples are small, with ties and with strata.
//!
//! Under the null hypothesis each arrangement of a stratum's values on the two sides is as likely as any other. The sum of
//! the ranks of one side is compared with its distribution over all arrangements. With one stratum without ties that is the
//! test as Mann and Whitney wrote it; with several it is the one on aligned ranks of Hodges and Lehmann (1962).

use statrs::distribution::{ContinuousCDF, Normal};

use super::sample::{Aligned, Sample};

/// The result of [`rank_sum`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankSum {
    /// How likely a difference at least as large would be if there was none, 0 .. 1.
    pub p: f64,
    /// Whether all arrangements were counted. Else the normal distribution stands for them.
    pub exact: bool,
}

/// The test of Mann and Whitney, two-sided; `None` if a side has no value, or any is not a finite number above 0.
///
/// Exact up to 50 values in all, ties included. Beyond, by the normal distribution, corrected for ties and for continuity.
///
/// ```
/// use anywire_load::statistics::{Sample, rank_sum};
///
/// let test = rank_sum(&Sample::of(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0])).unwrap();
/// assert!((test.p - 2.0 / 252.0).abs() < 1e-12);
/// ```
pub fn rank_sum(sample: &Sample) -> Option<RankSum> {
    let aligned = sample.aligned()?;
    let ranks = Ranks::of(&aligned);
    let exact = aligned.a.len() + aligned.b.len() <= EXACT_MAX;
    let p = if exact { ranks.exact() } else { ranks.normal() };
    Some(RankSum { p: p.min(1.0), exact })
}

/// The smallest p that any values of this many rounds could have. If it is above the bound, these rounds can show nothing. 1
/// without rounds.
///
/// Each arrangement has a mirror that is as far from the mean, so that it is 2 over their number. Where the sides of a stratum have
/// different numbers of values, ties can leave one without its mirror: it is 1 over their number there.
///
/// ```
/// use anywire_load::statistics::{Sample, least_p};
///
/// assert!((least_p(&Sample::of(&[1.0; 5], &[1.0; 5])) - 0.0079).abs() < 0.0001);
/// assert!((least_p(&Sample::of(&[1.0; 3], &[1.0; 3])) - 0.1).abs() < 0.0001);
/// ```
pub fn least_p(sample: &Sample) -> f64 {
    let of_stratum = |a: usize, b: usize| (1..=a).map(|one| (b + one) as f64 / one as f64).product::<f64>();
    let arrangements: f64 = sample.strata.iter().map(|one| of_stratum(one.a.len(), one.b.len())).product();
    let is_balanced = sample.strata.iter().all(|one| one.a.len() == one.b.len());
    let least: f64 = if is_balanced { 2.0 } else { 1.0 };
    (least / arrangements).min(1.0)
}

/// The ranks of all values, doubled so that those of ties are whole numbers too.
struct Ranks {
    /// Of each stratum, first those of side a.
    strata: Vec<Stratum>,
}

struct Stratum {
    ranks: Vec<usize>,
    /// How many of them are of side a.
    of_a: usize,
}

impl Ranks {
    fn of(aligned: &Aligned) -> Self {
        let (mut a, mut b) = (aligned.a.iter(), aligned.b.iter());
        // By stratum, each time a before b.
        let mut values = Vec::with_capacity(aligned.a.len() + aligned.b.len());
        for &(of_a, of_b) in &aligned.strata {
            values.extend(a.by_ref().take(of_a).chain(b.by_ref().take(of_b)).map(|value| on_grid(*value)));
        }
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let rank = |value: i64| {
            let (below, not_above) =
                (sorted.partition_point(|one| *one < value), sorted.partition_point(|one| *one <= value));
            below + not_above + 1
        };
        let mut ranks = values.into_iter().map(rank);
        let strata = aligned.strata.iter().map(|&(of_a, of_b)| {
            let ranks = ranks.by_ref().take(of_a + of_b).collect();
            Stratum { ranks, of_a }
        });
        Self { strata: strata.collect() }
    }

    /// How far the sum of side a is from the mean of all arrangements.
    fn deviation(&self, sum: f64) -> f64 {
        let mean: f64 = self.strata.iter().map(|one| one.mean() * one.of_a as f64).sum();
        (sum - mean).abs()
    }

    fn sum(&self) -> f64 {
        self.strata.iter().flat_map(|one| &one.ranks[..one.of_a]).map(|rank| *rank as f64).sum()
    }

    /// The share of the arrangements that are at least as far from the mean.
    fn exact(&self) -> f64 {
        // How many arrangements have each sum. Above 2^53 they lose digits that no p shows.
        let mut counts = vec![1.0];
        for stratum in &self.strata {
            let of_stratum = stratum.counts();
            let mut both = vec![0.0; counts.len() + of_stratum.len() - 1];
            // Most sums have no arrangement.
            for (more, times) in of_stratum.iter().enumerate().filter(|(_, times)| **times > 0.0) {
                for (sum, count) in counts.iter().enumerate() {
                    both[sum + more] += count * times;
                }
            }
            counts = both;
        }
        // Less what rounding of the means may have added, so that it excludes none that is as far.
        let found = self.deviation(self.sum()) - 1e-6;
        let far = counts.iter().enumerate().filter(|(sum, _)| self.deviation(*sum as f64) >= found);
        far.map(|(_, count)| count).sum::<f64>() / counts.iter().sum::<f64>()
    }

    fn normal(&self) -> f64 {
        let variance: f64 = self.strata.iter().map(Stratum::variance).sum();
        if variance == 0.0 {
            return 1.0;
        }
        // By a half for continuity: a rank is two steps of the doubled ones.
        let deviation = (self.deviation(self.sum()) - 1.0).max(0.0);
        2.0 * Normal::standard().sf(deviation / variance.sqrt())
    }
}

impl Stratum {
    fn mean(&self) -> f64 {
        self.ranks.iter().sum::<usize>() as f64 / self.ranks.len() as f64
    }

    /// How many choices of so many of its ranks have each sum.
    fn counts(&self) -> Vec<f64> {
        let most: usize = self.ranks.iter().sum();
        let mut counts = vec![vec![0.0; most + 1]; self.of_a + 1];
        counts[0][0] = 1.0;
        for &rank in &self.ranks {
            // From above, so that each rank is chosen once.
            for chosen in (1..=self.of_a).rev() {
                for sum in (rank..=most).rev() {
                    counts[chosen][sum] += counts[chosen - 1][sum - rank];
                }
            }
        }
        counts.swap_remove(self.of_a)
    }

    /// Of the sum, over its arrangements; ties make it smaller.
    fn variance(&self) -> f64 {
        let (all, of_a, mean) = (self.ranks.len() as f64, self.of_a as f64, self.mean());
        let squares: f64 = self.ranks.iter().map(|rank| (*rank as f64 - mean).powi(2)).sum();
        of_a * (all - of_a) / (all * (all - 1.0)) * squares
    }
}

/// Values whose ratio differs from 1 by less than about 1e-9 are the same: rounding makes such differences.
fn on_grid(value: f64) -> i64 {
    // The logarithm of a finite number above 0 is below 750.
    (value.ln() * 1e9).round() as i64
}

/// The most values whose arrangements are counted: it takes a few milliseconds.
const EXACT_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(sample: &Sample, p: f64, exact: bool) {
        let found = rank_sum(sample).expect("both sides have values");
        assert!((found.p - p).abs() < 1e-9 && found.exact == exact, "{found:?}, and not {p}");
    }

    /// By `scipy.stats.mannwhitneyu(method='exact')` of SciPy 1.17.1.
    #[test]
    fn exact_without_ties() {
        let (a, b) = ([12.1, 13.4, 11.8, 12.9, 13.1], [13.9, 14.2, 13.0, 14.8, 13.6]);
        check(&Sample::of(&a, &b), 0.031746031746031744, true);
        let a = [3.1, 2.2, 5.5, 4.4, 7.7, 6.6, 9.9];
        let b = [8.8, 1.1, 3.3, 10.1, 12.2, 11.1, 4.5, 6.1, 13.3];
        check(&Sample::of(&a, &b), 0.25227272727272726, true);
    }

    /// By `scipy.stats.permutation_test` over all arrangements.
    #[test]
    fn exact_with_ties() {
        let sample = Sample::of(&[1.0, 2.0, 2.0, 3.0, 3.0, 3.0], &[2.0, 3.0, 4.0, 4.0, 5.0]);
        check(&sample, 0.10822510822510822, true);
    }

    /// Aligned pairs are the signed ranks of Wilcoxon: by `scipy.stats.wilcoxon(method='exact')` of the logarithms' differences.
    #[test]
    fn exact_in_pairs() {
        let a = [100.0, 180.0, 90.0, 300.0, 120.0, 110.0, 95.0, 150.0, 210.0, 130.0];
        let b = [104.0, 186.0, 92.5, 304.0, 127.0, 118.0, 94.0, 159.0, 211.0, 141.0];
        let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
        check(&Sample::of_pairs(&pairs), 0.005859375, true);
    }

    /// By `scipy.stats.mannwhitneyu(method='asymptotic')`, with many ties.
    #[test]
    fn normal_beyond_fifty() {
        let a = [
            10.3, 10.8, 10.3, 8.7, 10.9, 10.4, 9.5, 10.6, 10.4, 10.3, 10.0, 10.5, 9.3, 9.8, 9.5, 10.6, 10.0,
            9.7, 9.2, 9.7, 10.0, 9.7, 11.3, 11.0, 7.3, 8.1, 9.8, 9.6, 10.2, 10.2,
        ];
        let b = [
            12.7, 9.5, 10.2, 12.6, 11.2, 11.3, 10.1, 9.0, 10.8, 10.7, 9.4, 9.9, 10.5, 9.7, 10.5, 10.7, 10.6,
            10.1, 11.2, 11.5, 10.9, 9.8, 11.3, 10.1, 11.5, 9.5, 11.5, 10.6,
        ];
        check(&Sample::of(&a, &b), 0.008477219090152635, false);
    }

    #[test]
    fn the_smallest_p_is_that_of_sides_that_do_not_overlap() {
        for count in 1..=12 {
            let a: Vec<f64> = (1..=count).map(f64::from).collect();
            let b: Vec<f64> = a.iter().map(|value| value + 100.0).collect();
            let sample = Sample::of(&a, &b);
            check(&sample, least_p(&sample), true);
            let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b).collect();
            let sample = Sample::of_pairs(&pairs);
            check(&sample, least_p(&sample), true);
        }
    }

    /// Of the ten arrangements no other one is as far from the mean: the ranks are 1.5 twice, and 4 three times.
    #[test]
    fn ties_may_leave_an_arrangement_without_its_mirror() {
        let sample = Sample::of(&[0.25; 2], &[6.5; 3]);
        check(&sample, 0.1, true);
        check(&sample, least_p(&sample), true);
    }

    #[test]
    fn what_is_no_sample_has_no_p() {
        for (a, b) in
            [(vec![], vec![1.0]), (vec![1.0], vec![]), (vec![0.0], vec![1.0]), (vec![1.0], vec![-1.0])]
        {
            assert_eq!(rank_sum(&Sample::of(&a, &b)), None, "{a:?} {b:?}");
        }
        for odd in [f64::NAN, f64::INFINITY] {
            assert_eq!(rank_sum(&Sample::of(&[odd], &[1.0])), None);
        }
    }

    /// 1 to 12 values of either side, with ties, in a number of strata that grows with their number.
    fn sample() -> impl Strategy<Value = Sample> {
        let values = || prop::collection::vec((1_u32..40).prop_map(|value| f64::from(value) / 4.0), 1..12);
        prop::collection::vec((values(), values()), 1..6).prop_map(|strata| {
            let strata = strata.into_iter().map(|(a, b)| crate::statistics::Stratum { a, b }).collect();
            Sample { strata, ..Sample::of(&[], &[]) }
        })
    }

    fn mapped(sample: &Sample, map: impl Fn(f64) -> f64, swap: bool) -> Sample {
        let strata = sample.strata.iter().map(|one| {
            let [a, b] = [&one.a, &one.b].map(|side| side.iter().map(|value| map(*value)).collect());
            let (a, b) = if swap { (b, a) } else { (a, b) };
            crate::statistics::Stratum { a, b }
        });
        Sample { strata: strata.collect(), ..sample.clone() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_is_a_probability_whatever_the_sides_are_called_and_the_unit_is(sample in sample(), unit in 0.001_f64..1e6) {
            let p = rank_sum(&sample).unwrap().p;
            prop_assert!((0.0..=1.0).contains(&p), "{p}");
            prop_assert!(p > least_p(&sample) * 0.999 || !rank_sum(&sample).unwrap().exact);
            let same = |other: &Sample| (rank_sum(other).unwrap().p - p).abs() < 1e-9;
            prop_assert!(same(&mapped(&sample, |value| value, true)));
            prop_assert!(same(&mapped(&sample, |value| value * unit, false)));
        }

        #[test]
        fn identical_sides_have_a_p_of_one(sample in sample()) {
            let strata = sample.strata.iter().map(|one| {
                crate::statistics::Stratum { a: one.a.clone(), b: one.a.clone() }
            }).collect();
            let same = Sample { strata, ..sample };
            prop_assert!((rank_sum(&same).unwrap().p - 1.0).abs() < 1e-12);
        }
    }
}
