//! One side in one round, and the median and the spread of rounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::median;

/// One candidate in one round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The number of the round, from 1.
    pub round: usize,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures<f64>,
    /// System calls per answer, by name.
    #[serde(default)]
    pub syscalls_by_name: Option<BTreeMap<String, f64>>,
    /// Answers.
    pub answered: u64,
    /// Errors, with those of its warm-up.
    pub errors: u64,
    /// Connections really open when the round's measured part began.
    pub connections_open: u64,
}

/// The least and the most over the rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        Some(Self { min, max: values.iter().copied().fold(min, f64::max) })
    }
}

/// What is measured of a candidate; `null` where it could not be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures<T> {
    /// Answers per second; by a schedule, requests that left in time.
    pub requests_per_second: Option<T>,
    /// CPU time of the server's threads per answer, user and system, in microseconds.
    pub server_cpu_us_per_request: Option<T>,
    /// The part of `server_cpu_us_per_request` that the server's own code took. The sum of both parts is exact; the kernel
    /// estimates the split, for the whole process, less what the client's thread used.
    #[serde(default)]
    pub server_user_cpu_us_per_request: Option<T>,
    /// The part of it that the kernel took on the server's behalf.
    #[serde(default)]
    pub server_system_cpu_us_per_request: Option<T>,
    /// CPU time of the server's threads over the measured time: 0.25 is a quarter of one core, 2 are two cores.
    #[serde(default)]
    pub server_utilisation: Option<T>,
    /// CPU time of the client's thread per answer, user and system, in microseconds. By a schedule it is without what was
    /// spent in spinning until a request was due.
    pub client_cpu_us_per_request: Option<T>,
    /// System calls of the server's threads per answer; without them the reason is among the notes of the row.
    pub syscalls_per_request: Option<T>,
    /// Half of the latencies stayed at or below this, in microseconds. By a schedule they count from when a request should have
    /// left, as all that follow.
    pub p50_us: Option<T>,
    /// 99 % of them, in microseconds.
    pub p99_us: Option<T>,
    /// 99.9 % of them, in microseconds.
    #[serde(default)]
    pub p99_9_us: Option<T>,
    /// The longest latency of a round, in microseconds.
    pub max_us: Option<T>,
    /// `server_cpu_us_per_request` over that of the limit in the same round; `null` without a limit.
    pub ratio_to_limit: Option<T>,
    /// How often the server's threads left their core per answer because they had to wait.
    pub voluntary_switches_per_request: Option<T>,
    /// How often they did because the scheduler gave it to another thread.
    pub involuntary_switches_per_request: Option<T>,
    /// The threads that served.
    pub threads: Option<T>,
    /// Memory of this process for an idle connection, in bytes: the most over the rounds, not the median. `null` if it was not measured, or where the client's end is in it.
    pub user_bytes_per_connection: Option<T>,
    /// Memory of the kernel for an idle connection, in bytes: both ends of it, and the stack of a thread;
    /// `null` as above.
    pub kernel_bytes_per_connection: Option<T>,
}

impl Figures<f64> {
    /// The median of each figure over these rounds; nothing where no round has it.
    pub fn medians(rounds: &[Round]) -> Self {
        Self::over(rounds, |values| median(values).expect("there is a value"))
    }
}

impl Figures<Spread> {
    /// The least and the most of each figure over these rounds; nothing where no round has it.
    pub fn spreads(rounds: &[Round]) -> Self {
        Self::over(rounds, |values| Spread::of(values).expect("there is a value"))
    }
}

impl<T> Figures<T> {
    /// What `over` makes of the values of each figure in all rounds; nothing where no round has it.
    fn over(rounds: &[Round], over: fn(&[f64]) -> T) -> Self {
        let each = |figure: fn(&Figures<f64>) -> Option<f64>| {
            let values: Vec<f64> = rounds.iter().filter_map(|round| figure(&round.figures)).collect();
            (!values.is_empty()).then(|| over(&values))
        };
        Self {
            requests_per_second: each(|round| round.requests_per_second),
            server_cpu_us_per_request: each(|round| round.server_cpu_us_per_request),
            server_user_cpu_us_per_request: each(|round| round.server_user_cpu_us_per_request),
            server_system_cpu_us_per_request: each(|round| round.server_system_cpu_us_per_request),
            server_utilisation: each(|round| round.server_utilisation),
            client_cpu_us_per_request: each(|round| round.client_cpu_us_per_request),
            syscalls_per_request: each(|round| round.syscalls_per_request),
            p50_us: each(|round| round.p50_us),
            p99_us: each(|round| round.p99_us),
            p99_9_us: each(|round| round.p99_9_us),
            max_us: each(|round| round.max_us),
            ratio_to_limit: each(|round| round.ratio_to_limit),
            voluntary_switches_per_request: each(|round| round.voluntary_switches_per_request),
            involuntary_switches_per_request: each(|round| round.involuntary_switches_per_request),
            threads: each(|round| round.threads),
            user_bytes_per_connection: each(|round| round.user_bytes_per_connection),
            kernel_bytes_per_connection: each(|round| round.kernel_bytes_per_connection),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let row = |values: &[f64]| {
            let round = |value: &f64| Round {
                figures: Figures { p50_us: Some(*value), ..Figures::default() },
                ..Round::default()
            };
            let rounds: Vec<_> = values.iter().map(round).collect();
            (Figures::medians(&rounds).p50_us, Figures::spreads(&rounds).p50_us)
        };
        assert_eq!(row(&[4.0, 1.0, 3.0, 2.0]), (Some(2.5), Some(Spread { min: 1.0, max: 4.0 })));
        assert_eq!(row(&[7.0, 1.0, 3.0]).0, Some(3.0));
        assert_eq!(row(&[]), (None, None));
    }
}
