//! What is tested: the values of one metric on both sides, in strata that were measured under like conditions.

/// The values of one metric in the rounds of two sides.
///
/// If rounds of both sides were measured next to each other, they make a [`Stratum`]: what the machine did at that time
/// struck both, so that only their ratio tells. Rounds without such a bond, as those of two files, make one stratum in all.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The strata; those in which a side has no value take no part.
    pub strata: Vec<Stratum>,
    /// Which values are good ones ([`Better::Less`]).
    pub better: Better,
    /// Up to which deviation of the ratio from 1 a difference does not count: 0.02 is 2 % (2 %).
    pub noise: f64,
}

impl Sample {
    /// One stratum of all values.
    pub fn of(a: &[f64], b: &[f64]) -> Self {
        let stratum = Stratum { a: a.to_vec(), b: b.to_vec() };
        Self { strata: vec![stratum], better: Better::Less, noise: super::NOISE_DEFAULT }
    }

    /// A stratum for each round, with a value of each side in it. With too few rounds for such a test they make one stratum.
    ///
    /// In a pair only the sign of the difference can come out the other way. Eight pairs are the fewest of which a test among
    /// six shows anything.
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Self {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        if pairs.len() < PAIRS_MIN {
            return Self::of(&a, &b);
        }
        let strata = pairs.iter().map(|&(a, b)| Stratum { a: vec![a], b: vec![b] }).collect();
        Self { strata, ..Self::of(&a, &b) }
    }

    /// The values of both sides, those of each stratum over its geometric mean; `None` if a side has none, or any is not a
    /// finite number above 0.
    pub(super) fn aligned(&self) -> Option<Aligned> {
        let strata: Vec<&Stratum> =
            self.strata.iter().filter(|one| !one.a.is_empty() && !one.b.is_empty()).collect();
        let mut aligned = Aligned { a: Vec::new(), b: Vec::new(), strata: Vec::new() };
        for stratum in &strata {
            let both = || stratum.a.iter().chain(&stratum.b);
            if !both().all(|value| value.is_finite() && *value > 0.0) {
                return None;
            }
            let mean = both().map(|value| value.ln()).sum::<f64>() / both().count() as f64;
            // The only stratum has nothing to be compared with, and keeps its values exactly.
            let level = if strata.len() == 1 { 1.0 } else { mean.exp() };
            aligned.a.extend(stratum.a.iter().map(|value| value / level));
            aligned.b.extend(stratum.b.iter().map(|value| value / level));
            aligned.strata.push((stratum.a.len(), stratum.b.len()));
        }
        (!strata.is_empty()).then_some(aligned)
    }
}

/// Rounds of both sides that were measured under like conditions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stratum {
    /// The values of the first side.
    pub a: Vec<f64>,
    /// The values of the second one.
    pub b: Vec<f64>,
}

/// Which values of a metric are good ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    More,
    /// Latencies and costs.
    Less,
}

/// A sample whose strata can be compared with each other.
pub(super) struct Aligned {
    pub(super) a: Vec<f64>,
    pub(super) b: Vec<f64>,
    /// How many values each stratum has of either side, in the order of the values.
    pub(super) strata: Vec<(usize, usize)>,
}

/// `2 / 2^8` is 0.0078, and six times that is below 0.05.
const PAIRS_MIN: usize = 8;
