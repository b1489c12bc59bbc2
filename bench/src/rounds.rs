//! Rounds: in each round every candidate is measured once, in an order that turns, so that a machine that grows slower
//! or faster hurts all alike. What is reported is the median with the smallest and the largest value; a ratio is
//! taken within each round, then its median.

use anyhow::Result;
use serde::Serialize;

/// What the rounds of one candidate gave.
pub struct Rounds<S> {
    /// One sample a round; shorter if it failed.
    pub samples: Vec<S>,
    /// Why it was not measured (further).
    pub failure: Option<String>,
}

impl<S> Rounds<S> {
    /// Median, smallest and largest of a figure of the samples; `None` if any sample lacks it or there is none.
    pub fn spread(&self, figure: impl Fn(&S) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.samples.iter().map(figure).collect::<Option<Vec<_>>>()?)
    }

    /// A figure of these samples divided by that of another candidate, round by round.
    pub fn ratio_to(&self, other: &Self, figure: impl Fn(&S) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().zip(&other.samples).map(|(a, b)| figure(a) / figure(b)).collect())
    }
}

/// Measures every candidate once a round. One that fails is left out from then on.
pub fn interleaved<C, S>(
    candidates: &[C],
    rounds: usize,
    mut measure: impl FnMut(&C, usize) -> Result<S>,
) -> Vec<Rounds<S>> {
    let mut all: Vec<_> = candidates.iter().map(|_| Rounds { samples: Vec::new(), failure: None }).collect();
    for round in 0..rounds {
        for place in 0..candidates.len() {
            let index = (place + round) % candidates.len();
            if all[index].failure.is_some() {
                continue;
            }
            match measure(&candidates[index], round) {
                Ok(sample) => all[index].samples.push(sample),
                Err(error) => all[index].failure = Some(format!("{error:#}")),
            }
        }
    }
    all
}

/// A figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value; the mean of the two middle ones if their number is even.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these values; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(vec![4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn the_order_turns_and_a_failure_ends_only_its_candidate() {
        let mut order = String::new();
        let all = interleaved(&['a', 'b', 'c'], 3, |candidate, round| {
            order.push(*candidate);
            anyhow::ensure!((*candidate, round) != ('b', 1), "broke");
            Ok(round)
        });
        assert_eq!(order, "abcbcaca");
        assert_eq!(all[1].samples, [0]);
        assert_eq!(all[1].failure.as_deref(), Some("broke"));
        assert_eq!(all[2].samples, [0, 1, 2]);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let rounds = |samples: &[f64]| Rounds { samples: samples.to_vec(), failure: None };
        let ratio = rounds(&[2.0, 30.0, 4.0]).ratio_to(&rounds(&[1.0, 10.0, 4.0]), |sample| *sample).unwrap();
        assert_eq!(ratio, Spread { median: 2.0, min: 1.0, max: 3.0 });
    }
}
