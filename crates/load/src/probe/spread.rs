//! A few hundred times as percentiles. They are exact, because all of them are kept until the end of their pattern.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::statistics;

/// Times of one kind, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// The shortest.
    pub min: f64,
    /// Half of them are no longer.
    pub p50: f64,
    /// Nine tenths of them are no longer.
    pub p90: f64,
    /// 99 of 100 are no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Spread {
    /// `None` if there are no times.
    pub(crate) fn of(times: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut times: Vec<f64> = times.into_iter().map(micros).collect();
        times.sort_by(f64::total_cmp);
        let (&min, &max) = (times.first()?, times.last()?);
        // The smallest value that so large a part does not exceed.
        let at = |part: f64| times[((times.len() as f64 * part).ceil() as usize).clamp(1, times.len()) - 1];
        Some(Self { count: times.len(), min, p50: at(0.5), p90: at(0.9), p99: at(0.99), max })
    }
}

/// A time in microseconds.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Which part of so many; `None` of none.
pub(crate) fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The median of some values; `None` if there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    statistics::median(&values.into_iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let spread = Spread::of((1..=100).rev().map(Duration::from_micros)).expect("there are some");
        assert_eq!((spread.count, spread.min, spread.max), (100, 1.0, 100.0));
        assert_eq!((spread.p50, spread.p90, spread.p99), (50.0, 90.0, 99.0));
        let one = Spread::of([Duration::from_nanos(1500)]).expect("there is one");
        assert_eq!((one.min, one.p50, one.p99, one.max), (1.5, 1.5, 1.5, 1.5));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn nothing_has_no_share_and_no_median() {
        assert_eq!((share(1, 4), share(0, 0)), (Some(0.25), None));
        assert_eq!((median([3.0, 1.0, 2.0]), median([2.0, 1.0]), median([])), (Some(2.0), Some(1.5), None));
    }
}
