//! Schedules: how many requests leave a second, how that changes with time, and how they are spread within it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::errors::LoadError;
use crate::text;

/// When the requests of an open loop leave: the server's answers change nothing of it.
///
/// ```
/// use anywire_load::{Gaps, Schedule, Shape};
///
/// let ramp = Schedule { gaps: Gaps::Poisson, ..Schedule::of(Shape::Ramp { from: 100.0, to: 5_000.0 }) };
/// assert!(ramp.check().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Requests a second, all connections together, over the measured part.
    pub shape: Shape,
    /// How they are spread (even).
    pub gaps: Gaps,
    /// What the gaps are drawn from (1). Two runs with the same seed send at the same times.
    pub seed: u64,
}

impl Schedule {
    /// So many requests a second, in even gaps.
    pub fn constant(per_second: f64) -> Self {
        Self::of(Shape::Constant { per_second })
    }

    /// In even gaps.
    pub fn of(shape: Shape) -> Self {
        Self { shape, gaps: Gaps::Even, seed: 1 }
    }

    /// The same with each rate times `factor`: the part of a machine among several.
    pub fn scaled(&self, factor: f64) -> Self {
        let shape = match self.shape {
            Shape::Constant { per_second } => Shape::Constant { per_second: per_second * factor },
            Shape::Ramp { from, to } => Shape::Ramp { from: from * factor, to: to * factor },
            Shape::Steps { from, to, count } => Shape::Steps { from: from * factor, to: to * factor, count },
        };
        Self { shape, ..*self }
    }

    /// The rate and how it is spread, in words, without the seed: `500 requests/s by Poisson`.
    pub fn pace(&self) -> String {
        let shape = match self.shape {
            Shape::Constant { per_second } => rate(per_second),
            Shape::Ramp { from, to } => format!("from {} to {}", rate(from), rate(to)),
            Shape::Steps { from, to, count } => {
                format!("from {} to {} in {count} steps", rate(from), rate(to))
            }
        };
        format!("{shape} {}", self.gaps)
    }

    /// Whether such a schedule is possible.
    ///
    /// # Errors
    ///
    /// A rate is none of [`RATE_MIN`] to [`RATE_MAX`], or there are too many steps.
    pub fn check(&self) -> Result<(), LoadError> {
        self.shape.check()
    }
}

/// In words: `10,000 requests/s in even gaps`, `500 requests/s by Poisson (seed 7)`.
impl fmt::Display for Schedule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.pace())?;
        match self.gaps {
            Gaps::Even => Ok(()),
            _ => write!(formatter, " (seed {})", self.seed),
        }
    }
}

fn rate(per_second: f64) -> String {
    let number = if per_second >= 100.0 { text::whole(per_second) } else { text::digits(per_second) };
    format!("{number} requests/s")
}

/// What the random gaps of a round are drawn from: those of all sides in it are the same, and those of another round are others.
pub(crate) fn gap_seed(seed: u32, round: usize) -> u64 {
    (u64::from(seed) << 32) | (round as u64 & u64::from(u32::MAX))
}

/// Requests a second, and how that changes over the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// The same all the time.
    Constant {
        /// Requests a second: [`RATE_MIN`] to [`RATE_MAX`], as all rates here.
        per_second: f64,
    },
    /// From one rate to another, by the same amount each second.
    Ramp {
        /// At the begin.
        from: f64,
        /// At the end.
        to: f64,
    },
    /// From one rate to another in steps of the same height and length.
    Steps {
        /// In the first step.
        from: f64,
        /// In the last step.
        to: f64,
        /// How many steps: 2 to [`STEPS_MAX`].
        count: u32,
    },
}

impl Shape {
    /// The rate with which it begins.
    pub fn first(&self) -> f64 {
        match *self {
            Self::Constant { per_second } => per_second,
            Self::Ramp { from, .. } | Self::Steps { from, .. } => from,
        }
    }

    /// The parts of the measured time that have results of their own; one, if the rate is constant. A ramp is cut into ten.
    pub fn parts(&self) -> u32 {
        match *self {
            Self::Constant { .. } => 1,
            Self::Ramp { .. } => RAMP_PARTS,
            Self::Steps { count, .. } => count,
        }
    }

    /// The rate on average over the measured part.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::Constant { per_second } => per_second,
            Self::Ramp { from, to } | Self::Steps { from, to, .. } => from / 2.0 + to / 2.0,
        }
    }

    /// The rates at its begin and at its end.
    pub(crate) fn ends(&self) -> [f64; 2] {
        match *self {
            Self::Constant { per_second } => [per_second; 2],
            Self::Ramp { from, to } | Self::Steps { from, to, .. } => [from, to],
        }
    }

    fn check(&self) -> Result<(), LoadError> {
        if let Self::Steps { count, .. } = *self
            && !(2..=STEPS_MAX).contains(&count)
        {
            return Err(LoadError::Limit {
                what: "steps of the rate",
                asked: count.into(),
                least: 2,
                most: STEPS_MAX.into(),
            });
        }
        for rate in self.ends() {
            // NaN is in no range.
            if !(RATE_MIN..=RATE_MAX).contains(&rate) {
                return Err(LoadError::Rate { rate });
            }
        }
        Ok(())
    }

    /// The rate on average between two moments of a measured part that takes so long; `None` between a moment and itself.
    pub(crate) fn between(&self, time: Duration, begin: Duration, end: Duration) -> Option<f64> {
        let stretches = self.stretches(time);
        let due = |at: Duration| {
            let seconds = at.as_secs_f64();
            let stretch = stretches.partition_point(|one| one.begins <= seconds).saturating_sub(1);
            stretches[stretch].due(seconds)
        };
        let seconds = end.saturating_sub(begin).as_secs_f64();
        (seconds > 0.0).then(|| (due(end) - due(begin)) / seconds)
    }

    /// The stretches of time in each of which the rate is a straight line. The last one has no end.
    pub(crate) fn stretches(&self, time: Duration) -> Vec<Stretch> {
        let seconds = time.as_secs_f64();
        let mut stretches = Vec::new();
        let (mut begins, mut before) = (0.0, 0.0);
        let mut push = |seconds: f64, from: f64, to: f64| {
            stretches.push(Stretch { begins, before, seconds, from, to });
            begins += seconds;
            before += (from / 2.0 + to / 2.0) * seconds;
        };
        match *self {
            Self::Constant { per_second } => push(f64::INFINITY, per_second, per_second),
            Self::Ramp { from, to } => {
                push(seconds, from, to);
                push(f64::INFINITY, to, to);
            }
            Self::Steps { from, to, count } => {
                for step in 0..count {
                    let share = f64::from(step) / f64::from(count.saturating_sub(1).max(1));
                    let rate = from + (to - from) * share;
                    let is_last = step + 1 == count;
                    push(if is_last { f64::INFINITY } else { seconds / f64::from(count) }, rate, rate);
                }
            }
        }
        stretches
    }

    /// The rate of such a part; of a ramp, in the middle of a tenth.
    pub fn rate_of_part(&self, part: u32) -> f64 {
        match *self {
            Self::Constant { per_second } => per_second,
            Self::Ramp { from, to } => from + (to - from) * (f64::from(part) + 0.5) / f64::from(RAMP_PARTS),
            Self::Steps { from, to, count } => {
                from + (to - from) * f64::from(part) / f64::from(count.saturating_sub(1).max(1))
            }
        }
    }
}

/// How requests are spread within a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaps {
    /// All gaps are equal. A server whose timers have the same period may look better or worse than it is.
    #[default]
    Even,
    /// Each request leaves at a random moment of its even gap, so that nothing resonates and the rate is kept exactly.
    Jitter,
    /// Gaps are drawn from the exponential distribution, as if many people asked who do not know of each other.
    Poisson,
}

/// In words: `in even gaps`.
impl fmt::Display for Gaps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Even => "in even gaps",
            Self::Jitter => "with jitter",
            Self::Poisson => "by Poisson",
        })
    }
}

/// A stretch of time, in seconds, in which the rate goes in a straight line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// When it begins.
    pub(crate) begins: f64,
    /// How many requests are due before it.
    pub(crate) before: f64,
    pub(crate) seconds: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Stretch {
    fn slope(&self) -> f64 {
        (self.to - self.from) / self.seconds
    }

    /// When so many requests are due, those before it included.
    pub(crate) fn when(&self, due: f64) -> f64 {
        let within = due - self.before;
        if within <= 0.0 {
            return self.begins;
        }
        // `within = from * t + slope * t^2 / 2`, solved for t without a difference of nearly equal numbers.
        let root = (self.from * self.from + 2.0 * self.slope() * within).max(0.0).sqrt();
        self.begins + (2.0 * within / (self.from + root)).min(self.seconds)
    }

    /// How many requests are due at a time in it, those before it included.
    pub(crate) fn due(&self, seconds: f64) -> f64 {
        let within = seconds - self.begins;
        self.before + within * (self.from + self.slope() * within / 2.0)
    }
}

/// The lowest rate, in requests a second: one in a thousand seconds.
pub const RATE_MIN: f64 = 0.001;
/// The highest rate, in requests a second: one each 10 ns, which no connection does.
pub const RATE_MAX: f64 = 1e8;
/// The most steps of a rate. Each has histograms of its own, of about 0.7 MiB on each loop.
pub const STEPS_MAX: u32 = 100;
/// A ramp has a result for each tenth of its time.
const RAMP_PARTS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_none_is_refused() {
        for rate in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e9, 1e-9] {
            for shape in [
                Shape::Constant { per_second: rate },
                Shape::Ramp { from: rate, to: 1.0 },
                Shape::Ramp { from: 1.0, to: rate },
                Shape::Steps { from: 1.0, to: rate, count: 2 },
            ] {
                let refused = Schedule::of(shape).check().unwrap_err();
                assert!(matches!(refused, LoadError::Rate { .. }), "{rate}: {refused}");
                assert!(refused.to_string().contains("requests a second"), "{refused}");
            }
        }
        for count in [0, 1, STEPS_MAX + 1, u32::MAX] {
            let refused = Schedule::of(Shape::Steps { from: 1.0, to: 2.0, count }).check().unwrap_err();
            assert!(matches!(refused, LoadError::Limit { .. }), "{refused}");
        }
        for rate in [RATE_MIN, 1.0, RATE_MAX] {
            assert!(Schedule::constant(rate).check().is_ok());
        }
    }

    #[test]
    fn steps_go_from_the_first_rate_to_the_last() {
        let steps = Shape::Steps { from: 100.0, to: 500.0, count: 5 };
        let rates: Vec<f64> = (0..steps.parts()).map(|part| steps.rate_of_part(part)).collect();
        assert_eq!(rates, [100.0, 200.0, 300.0, 400.0, 500.0]);
        let stretches = steps.stretches(Duration::from_secs(10));
        assert_eq!(stretches.iter().map(|one| one.from).collect::<Vec<_>>(), rates);
        assert_eq!(stretches[4].before, 2000.0);
        assert_eq!(steps.mean(), 300.0);
        let second = Duration::from_secs;
        let between = |begin, end| steps.between(second(10), second(begin), second(end));
        assert_eq!((between(0, 2), between(1, 3), between(8, 10)), (Some(100.0), Some(150.0), Some(500.0)));
        assert_eq!(between(3, 3), None);
        let up = Shape::Ramp { from: 0.0, to: 100.0 };
        assert_eq!(up.between(second(10), second(4), second(6)), Some(50.0));
        let ramp = Shape::Ramp { from: 100.0, to: 0.0 };
        assert_eq!((ramp.parts(), ramp.rate_of_part(0), ramp.rate_of_part(9)), (10, 95.0, 5.0));
    }
}
