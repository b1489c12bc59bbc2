//! Whether one side is faster than the other, told from rounds of both: values in, verdicts out, no clock and no file.
//!
//! [`rank_sum`] is the test of Mann and Whitney, two-sided. [`ratio_of_medians`] tells how large the difference is, with a
//! bootstrap interval. [`holm`] corrects for several tests at once, and [`judge`] puts them together into a [`Verdict`] for
//! each metric.
//!
//! The tests are on rounds, never on the requests of one run: those depend on each other, so that their number would make
//! every difference look proven.
//!
//! ```
//! use anywire_load::statistics::{Better, Sample, Verdict, judge};
//!
//! let old = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.9, 100.1];
//! let new = old.map(|rate| rate * 1.08);
//! let rate = Sample { better: Better::More, noise: 0.02, ..Sample::of(&old, &new) };
//! let judgement = &judge(&[rate], 7)[0];
//! assert_eq!(judgement.verdict, Some(Verdict::Faster));
//! assert!((judgement.ratio.unwrap().ratio - 1.08).abs() < 0.001);
//! ```

mod bootstrap;
mod rank_sum;
mod sample;
mod verdict;

pub use bootstrap::{RatioOfMedians, median, ratio_of_medians};
pub use rank_sum::{RankSum, least_p, rank_sum};
pub use sample::{Better, Sample, Stratum};
pub use verdict::{ALPHA, Judgement, NOISE_DEFAULT, Verdict, holm, judge};
