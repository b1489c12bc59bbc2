//! The verdict on each metric of a comparison.

use serde::{Deserialize, Serialize};

use super::bootstrap::{RatioOfMedians, ratio_of_medians};
use super::rank_sum::{least_p, rank_sum};
use super::sample::{Better, Sample};

/// What is known about one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The second side over the first; `null` if a side has no value.
    pub ratio: Option<RatioOfMedians>,
    /// The p of the test of Mann and Whitney, two-sided; `null` without a test.
    pub p: Option<f64>,
    /// The same after Holm's correction for the number of metrics.
    pub p_holm: Option<f64>,
    /// Up to which deviation of the ratio from 1 a difference did not count.
    pub noise: f64,
    /// The verdict on the second side; `null` if there can be none.
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    pub why_not: Option<String>,
}

/// How the second side stands to the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is better.
    Faster,
    /// It is worse.
    Slower,
    /// These rounds show no difference. There may be one that is too small for them.
    NoDifferenceShown,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceShown => "no difference shown",
        })
    }
}

/// Judges all metrics of a comparison together.
///
/// A difference is shown if its p is at most [`ALPHA`] after Holm's correction, and its ratio is beyond the noise limit.
/// `seed` draws the resamples of the intervals.
pub fn judge(metrics: &[Sample], seed: u32) -> Vec<Judgement> {
    let tests: Vec<_> = metrics.iter().map(rank_sum).collect();
    let known: Vec<f64> = tests.iter().flatten().map(|test| test.p).collect();
    let mut corrected = holm(&known).into_iter();
    let judged = metrics.iter().zip(tests).map(|(metric, test)| {
        let p_holm = test.and_then(|_| corrected.next());
        let ratio = ratio_of_medians(metric, seed);
        let why_not = match test {
            None => Some("it is not known of both sides".to_owned()),
            Some(_) => too_few(metric, known.len()),
        };
        let verdict = ratio.zip(p_holm).filter(|_| why_not.is_none());
        Judgement {
            ratio,
            p: test.map(|test| test.p),
            p_holm,
            noise: metric.noise,
            verdict: verdict.map(|(ratio, p)| Verdict::of(ratio.ratio, p, metric)),
            why_not,
        }
    });
    judged.collect()
}

impl Verdict {
    fn of(ratio: f64, p: f64, metric: &Sample) -> Self {
        // By logarithms, so that swapped sides have the same limit.
        if p > ALPHA || ratio.ln().abs() <= metric.noise.ln_1p() {
            return Self::NoDifferenceShown;
        }
        match (ratio > 1.0, metric.better) {
            (true, Better::More) | (false, Better::Less) => Self::Faster,
            _ => Self::Slower,
        }
    }
}

/// That even the largest difference would not be shown by so many rounds.
fn too_few(metric: &Sample, metrics: usize) -> Option<String> {
    let least = least_p(metric) * metrics as f64;
    let rounds = |side: fn(&super::Stratum) -> usize| metric.strata.iter().map(side).sum::<usize>();
    let (a, b) = (rounds(|one| one.a.len()), rounds(|one| one.b.len()));
    (least > ALPHA).then(|| {
        format!(
            "{a} + {b} rounds can show nothing: p is at least {:.2} for {metrics} metrics, and {ALPHA} is needed",
            least.min(1.0)
        )
    })
}

/// The values of p after Holm's correction, in the order in which they were given: each is what it would have to be below a
/// bound for its own test to be rejected, while the chance that any is rejected wrongly stays below that bound.
///
/// ```
/// use anywire_load::statistics::holm;
///
/// let corrected = holm(&[0.01, 0.04, 0.03]);
/// assert!((corrected[0] - 0.03).abs() < 1e-12 && (corrected[2] - 0.06).abs() < 1e-12);
/// ```
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|one, other| p[*one].total_cmp(&p[*other]));
    let mut corrected = vec![1.0; p.len()];
    let mut most = 0.0_f64;
    for (place, index) in order.into_iter().enumerate() {
        most = most.max(p[index] * (p.len() - place) as f64).min(1.0);
        corrected[index] = most;
    }
    corrected
}

/// How likely it may be that any difference is called where there is none.
pub const ALPHA: f64 = 0.05;

/// The noise limit of which nothing better is known: rounds of one and the same server differ by so much on a machine that
/// does nothing else.
pub const NOISE_DEFAULT: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    fn around(centre: f64, rounds: usize) -> Vec<f64> {
        (0..rounds).map(|round| centre * (1.0 + 0.001 * (round as f64 - rounds as f64 / 2.0))).collect()
    }

    fn verdict_of(a: &[f64], b: &[f64], better: Better, metrics: usize) -> Judgement {
        let sample = Sample { better, ..Sample::of(a, b) };
        judge(&vec![sample; metrics], 1).swap_remove(0)
    }

    #[test]
    fn what_is_better_depends_on_the_metric() {
        let (low, high) = (around(100.0, 8), around(110.0, 8));
        for (a, b, better, verdict) in [
            (&low, &high, Better::More, Verdict::Faster),
            (&low, &high, Better::Less, Verdict::Slower),
            (&high, &low, Better::More, Verdict::Slower),
            (&high, &low, Better::Less, Verdict::Faster),
            (&low, &low, Better::Less, Verdict::NoDifferenceShown),
        ] {
            assert_eq!(verdict_of(a, b, better, 5).verdict, Some(verdict));
        }
    }

    #[test]
    fn a_difference_within_the_noise_limit_does_not_count() {
        let (a, b) = (around(100.0, 10), around(101.5, 10));
        let sample = |noise| Sample { noise, ..Sample::of(&a, &b) };
        let judged = judge(&[sample(0.02)], 1).swap_remove(0);
        assert!(judged.p_holm.unwrap() < ALPHA, "{judged:?}");
        assert_eq!(judged.verdict, Some(Verdict::NoDifferenceShown));
        assert_eq!(judge(&[sample(0.01)], 1)[0].verdict, Some(Verdict::Slower));
    }

    #[test]
    fn too_few_rounds_say_so() {
        // 2/20 for three, 2/70 for four: enough for one metric, not for five.
        for (rounds, metrics, known) in [(3, 1, false), (4, 1, true), (4, 5, false), (5, 6, true)] {
            let judged = verdict_of(&around(100.0, rounds), &around(200.0, rounds), Better::Less, metrics);
            assert_eq!(judged.verdict, known.then_some(Verdict::Slower), "{rounds} {metrics} {judged:?}");
            let says = format!("{rounds} + {rounds} rounds can show nothing");
            assert_eq!(
                judged.why_not.is_some_and(|why| why.starts_with(&says)),
                !known,
                "{rounds} {metrics}"
            );
            // The difference is told all the same.
            assert!(judged.ratio.is_some_and(|ratio| (ratio.ratio - 2.0).abs() < 0.01));
        }
    }

    #[test]
    fn a_metric_without_values_takes_no_part() {
        let known = Sample::of(&around(100.0, 5), &around(200.0, 5));
        let judged = judge(&[Sample::of(&[], &[1.0]), known.clone()], 1);
        assert_eq!((judged[0].verdict, judged[0].p_holm, judged[0].ratio), (None, None, None));
        assert!(judged[0].why_not.is_some());
        assert_eq!(judged[1], judge(&[known], 1)[0]);
    }

    #[test]
    fn holm_keeps_the_order_and_ends_at_one() {
        let corrected = holm(&[0.04, 0.01, 0.9, 0.02, 0.9]);
        for (found, expected) in corrected.iter().zip([0.12, 0.05, 1.0, 0.08, 1.0]) {
            assert!((found - expected).abs() < 1e-12, "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
    }
}
