//! How bad a line is, as an argument of the process that carries it.

use std::time::Duration;

use anywire_stack::impair;
use serde::{Deserialize, Serialize};

/// How bad a line is, each direction alike. Probabilities are those of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Impairment {
    /// Probability that it is lost.
    pub loss: f64,
    /// Probability that it comes twice.
    pub duplicate: f64,
    /// Probability that others overtake it.
    pub reorder: f64,
    /// Probability that one of its bits is flipped.
    pub corrupt: f64,
    /// Milliseconds of a round trip. Half of it is the delay of each direction.
    pub round_trip_ms: u64,
    /// Bits a second that each direction carries; none is any number.
    pub rate_bits_per_second: Option<u64>,
    /// Of the random numbers.
    pub seed: u64,
}

impl Impairment {
    /// That of one direction.
    pub(crate) fn of_direction(&self, number: u64) -> impair::Impairment {
        impair::Impairment {
            loss: self.loss,
            duplicate: self.duplicate,
            reorder: self.reorder,
            reorder_by: Duration::from_millis(1),
            corrupt: self.corrupt,
            delay: Duration::from_millis(self.round_trip_ms) / 2,
            rate_bits_per_second: self.rate_bits_per_second,
            seed: 2 * self.seed + number,
            ..impair::Impairment::default()
        }
    }
}
