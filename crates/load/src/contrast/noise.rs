//! Up to which deviation a difference does not count: 2 %, or what a server against itself has shown.

use std::collections::BTreeMap;

use crate::contrast::Contrast;
use crate::statistics::NOISE_DEFAULT;

/// The noise limit of each metric.
///
/// ```
/// use anywire_load::contrast::Noise;
///
/// assert_eq!(Noise::default().of("p99_us"), 0.02);
/// assert_eq!(Noise::fixed(0.03).of("p99_us"), 0.03);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    /// Where they come from, in words.
    pub from: String,
    usual: f64,
    by_metric: BTreeMap<String, f64>,
}

impl Noise {
    /// The same limit for all metrics: 0.02 is 2 %.
    pub fn fixed(limit: f64) -> Self {
        Self { from: "given".to_owned(), usual: limit, by_metric: BTreeMap::new() }
    }

    /// What a comparison of a server with itself has shown: the farther end of the interval of each metric. What it did not
    /// measure has the default.
    pub fn of_trial(trial: &Contrast) -> Self {
        let farther = |one: &crate::contrast::MetricContrast| {
            let ratio = one.judgement.ratio?;
            let farther = ratio.high.ln().abs().max(ratio.low.ln().abs()).exp_m1();
            Some((one.name.clone(), farther))
        };
        Self {
            from: "a comparison of a server with itself".to_owned(),
            by_metric: trial.metrics.iter().filter_map(farther).collect(),
            ..Self::default()
        }
    }

    /// The limit of the metric of this name: 0.02 is 2 %.
    pub fn of(&self, metric: &str) -> f64 {
        self.by_metric.get(metric).copied().unwrap_or(self.usual)
    }
}

impl Default for Noise {
    fn default() -> Self {
        Self { from: "the default".to_owned(), ..Self::fixed(NOISE_DEFAULT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{Figures, Round};

    #[test]
    fn a_trial_gives_the_farther_end_of_each_interval() {
        let side = |values: [f64; 5]| -> Vec<Round> {
            let round = |(at, value)| Round {
                round: at,
                figures: Figures { p50_us: Some(value), ..Figures::default() },
                ..Round::default()
            };
            values.into_iter().enumerate().map(round).collect()
        };
        let (a, b) = (side([100.0, 101.0, 99.0, 100.0, 100.0]), side([96.0, 97.0, 95.0, 100.0, 101.0]));
        let trial = Contrast::of(&a, &b, true, &Noise::default(), 1);
        let ratio = trial.metrics[0].judgement.ratio.expect("both sides have it");
        let noise = Noise::of_trial(&trial);
        assert!(ratio.low < 0.98 && (noise.of("p50_us") - (1.0 / ratio.low - 1.0)).abs() < 1e-9, "{ratio:?}");
        assert_eq!(noise.of("p99_us"), NOISE_DEFAULT);
        let again = Contrast::of(&a, &b, true, &noise, 1);
        assert_eq!(again.noise_from, "a comparison of a server with itself");
    }
}
