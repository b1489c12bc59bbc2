//! Rounds: in each round every candidate is measured once, in an order drawn by a seed. So a machine that grows slower or
//! faster hurts all alike, and no candidate always follows the same one. Reported is the median with the smallest and the
//! largest value; a ratio is taken within each round, then its median.

use std::convert::Infallible;

use anyhow::Result;
use anywire_load::Stop;
use anywire_load::rounds::{self, Order, Turn};
use anywire_load::statistics::median;
use clap::Args;
use serde::Serialize;

/// The option that repeats the orders of an earlier run.
#[derive(Args)]
pub struct Seed {
    /// Seed of the order of the candidates within each round (random unless given; printed, and part of the result).
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
}

impl Seed {
    /// The seed of this run, which is printed.
    pub fn chosen(&self) -> u32 {
        let seed = self.seed.unwrap_or_else(Order::random_seed);
        println!("order of each round: random, by seed {seed}");
        seed
    }
}

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
        Spread::of(&self.samples.iter().map(figure).collect::<Option<Vec<_>>>()?)
    }

    /// A figure of these samples divided by that of another candidate, round by round.
    pub fn ratio_to(&self, other: &Self, figure: impl Fn(&S) -> f64) -> Option<Spread> {
        let ratios = self.samples.iter().zip(&other.samples).map(|(a, b)| figure(a) / figure(b));
        Spread::of(&ratios.collect::<Vec<_>>())
    }
}

/// Measures every candidate once a round, in the orders of this seed. One that fails is left out from then on.
pub fn interleaved<C, S>(
    candidates: &[C],
    rounds: usize,
    seed: u32,
    mut measure: impl FnMut(&C, usize) -> Result<S>,
) -> Vec<Rounds<S>> {
    let mut failures = vec![None; candidates.len()];
    let mut order = Order::of_seed(seed);
    let measured = rounds::interleaved(candidates.len(), rounds, &mut order, &Stop::new(), |turn| {
        let Turn { round, side, .. } = turn;
        if failures[side].is_some() {
            return Ok(None);
        }
        let sample = measure(&candidates[side], round - 1);
        failures[side] = sample.as_ref().err().map(|error| format!("{error:#}"));
        Ok(sample.ok())
    });
    let Ok(measured): Result<_, Infallible> = measured;
    let sides = measured.into_sides().into_iter().zip(failures);
    sides.map(|(samples, failure)| Rounds { samples, failure }).collect()
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
    pub fn of(values: &[f64]) -> Option<Self> {
        let spread = rounds::Spread::of(values)?;
        Some(Self { median: median(values)?, min: spread.min, max: spread.max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn the_seed_draws_the_order_and_a_failure_ends_only_its_candidate() {
        let mut measured = Vec::new();
        let all = interleaved(&['a', 'b', 'c'], 3, 5, |candidate, round| {
            measured.push((round, *candidate));
            anyhow::ensure!((*candidate, round) != ('b', 1), "broke");
            Ok(round)
        });
        let mut order = Order::of_seed(5);
        let drawn = (0..3).flat_map(|round| {
            order.next_round(3).into_iter().map(move |index| (round, ['a', 'b', 'c'][index]))
        });
        assert_eq!(measured, drawn.filter(|turn| *turn != (2, 'b')).collect::<Vec<_>>());
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
