//! The result of a comparison as a typed value, which is also its JSON (`anywire.compare/1`); unknown is `null`.

use serde::{Deserialize, Serialize};

use crate::errors::ErrorCounts;
use crate::host::{Host, Tool};

/// All that a comparison found out. `Display` prints it as a table with bars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The form of this object: `anywire.compare/1`.
    pub schema: String,
    /// What measured.
    pub tool: Tool,
    /// The machine; `loops` and `pinning` are the client's.
    pub host: Host,
    /// Where the server's and the client's threads ran.
    pub placement: Placement,
    /// How.
    pub plan: ComparePlan,
    /// One row a candidate, in the order in which they were given.
    pub candidates: Vec<Row>,
    /// What a reader must know about all rows.
    pub notes: Vec<String>,
    /// Whether it was ended early: the rows hold the rounds until then.
    pub interrupted: bool,
}

impl Comparison {
    /// The JSON of this comparison, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a comparison holds only strings, numbers and lists")
    }
}

impl Comparison {
    /// All that is to be said beside the figures, one line each; what holds for several rows is said once.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
        for row in &self.candidates {
            for note in row.notes.iter().chain(&row.error_messages) {
                match said.iter_mut().find(|(_, known)| known == note) {
                    Some((names, _)) => names.push(&row.name),
                    None => said.push((vec![&row.name], note)),
                }
            }
        }
        let of_rows = said.iter().map(|(names, note)| format!("{}: {note}", names.join(", ")));
        let errors = self.candidates.iter().filter(|row| row.errors.total() > 0);
        let errors = errors.map(|row| format!("{}: errors: {}", row.name, row.errors.line()));
        let order = format!(
            "order of each round: random, by seed {} (the same seed gives the same order)",
            self.plan.seed
        );
        self.notes.iter().cloned().chain([order]).chain(of_rows).chain(errors).collect()
    }
}

/// Where the threads ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The core of the server's thread; `null` if it was not pinned.
    pub server_core: Option<usize>,
    /// The core of the client's thread; `null` if it was not pinned.
    pub client_core: Option<usize>,
}

/// How the candidates were loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparePlan {
    /// `closed`: see [`PlanFacts::mode`](crate::PlanFacts).
    pub mode: String,
    /// Connections.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
    /// The length of each answer's body, in bytes.
    pub body_bytes: usize,
    /// Rounds that were asked for.
    pub rounds: usize,
    /// The measured part of one round of one candidate, in seconds.
    pub duration_seconds: f64,
    /// Load before it, in seconds.
    pub warm_up_seconds: f64,
    /// The seed of the order of the candidates within each round.
    pub seed: u32,
}

/// One candidate: medians over its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its wire.
    pub wire: String,
    /// Answers per second.
    pub requests_per_second: Option<f64>,
    /// CPU time of the server's thread per answer, user and system, in microseconds.
    pub server_cpu_us_per_request: Option<f64>,
    /// CPU time of the client's thread per answer, user and system, in microseconds.
    pub client_cpu_us_per_request: Option<f64>,
    /// System calls of the server's thread per answer; `null` with the reason among the notes.
    pub syscalls_per_request: Option<f64>,
    /// Half of the latencies stayed at or below this, in microseconds.
    pub p50_us: Option<f64>,
    /// 99 % of them, in microseconds.
    pub p99_us: Option<f64>,
    /// The longest latency of a round, in microseconds (the median of the rounds' longest).
    pub max_us: Option<f64>,
    /// `server_cpu_us_per_request` over that of the limit in the same round; `null` without a limit.
    pub ratio_to_limit: Option<f64>,
    /// The least and the most of each figure over the rounds.
    pub spread: Spreads,
    /// Each round.
    pub rounds: Vec<RoundResult>,
    /// Errors of all rounds by kind.
    pub errors: ErrorCounts,
    /// Errors in words: a server that did not start, the first failed exchange of each kind.
    pub error_messages: Vec<String>,
    /// What a reader must know about this row.
    pub notes: Vec<String>,
}

/// One candidate in one round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundResult {
    /// The number of the round, from 1.
    pub round: usize,
    /// See [`Row::requests_per_second`].
    pub requests_per_second: Option<f64>,
    /// See [`Row::server_cpu_us_per_request`].
    pub server_cpu_us_per_request: Option<f64>,
    /// See [`Row::client_cpu_us_per_request`].
    pub client_cpu_us_per_request: Option<f64>,
    /// See [`Row::syscalls_per_request`].
    pub syscalls_per_request: Option<f64>,
    /// See [`Row::p50_us`].
    pub p50_us: Option<f64>,
    /// See [`Row::p99_us`].
    pub p99_us: Option<f64>,
    /// See [`Row::max_us`].
    pub max_us: Option<f64>,
    /// See [`Row::ratio_to_limit`].
    pub ratio_to_limit: Option<f64>,
    /// Answers.
    pub answered: u64,
    /// Errors.
    pub errors: u64,
    /// Connections really open when the round's measured part began.
    pub connections_open: u64,
}

/// The least and the most over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// The spread of each figure of a [`Row`]; `null` where no round has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spreads {
    /// Of [`Row::requests_per_second`].
    pub requests_per_second: Option<Spread>,
    /// Of [`Row::server_cpu_us_per_request`].
    pub server_cpu_us_per_request: Option<Spread>,
    /// Of [`Row::client_cpu_us_per_request`].
    pub client_cpu_us_per_request: Option<Spread>,
    /// Of [`Row::syscalls_per_request`].
    pub syscalls_per_request: Option<Spread>,
    /// Of [`Row::p50_us`].
    pub p50_us: Option<Spread>,
    /// Of [`Row::p99_us`].
    pub p99_us: Option<Spread>,
    /// Of [`Row::max_us`].
    pub max_us: Option<Spread>,
    /// Of [`Row::ratio_to_limit`].
    pub ratio_to_limit: Option<Spread>,
}

impl Row {
    /// Takes the medians and spreads of these rounds.
    pub(crate) fn summarise(&mut self, rounds: Vec<RoundResult>) {
        let over =
            |field: fn(&RoundResult) -> Option<f64>| median_and_spread(rounds.iter().filter_map(field));
        let spread = &mut self.spread;
        (self.requests_per_second, spread.requests_per_second) = over(|round| round.requests_per_second);
        (self.server_cpu_us_per_request, spread.server_cpu_us_per_request) =
            over(|round| round.server_cpu_us_per_request);
        (self.client_cpu_us_per_request, spread.client_cpu_us_per_request) =
            over(|round| round.client_cpu_us_per_request);
        (self.syscalls_per_request, spread.syscalls_per_request) = over(|round| round.syscalls_per_request);
        (self.p50_us, spread.p50_us) = over(|round| round.p50_us);
        (self.p99_us, spread.p99_us) = over(|round| round.p99_us);
        (self.max_us, spread.max_us) = over(|round| round.max_us);
        (self.ratio_to_limit, spread.ratio_to_limit) = over(|round| round.ratio_to_limit);
        self.rounds = rounds;
    }

    /// Says something about this row, once.
    pub(crate) fn note(&mut self, note: String) {
        if !note.is_empty() && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn median_and_spread(values: impl Iterator<Item = f64>) -> (Option<f64>, Option<Spread>) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return (None, None) };
    let middle = values.len() / 2;
    let median = if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    };
    (Some(median), Some(Spread { min, max }))
}

/// The form of a [`Comparison`].
pub const SCHEMA: &str = "anywire.compare/1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let (median, spread) = median_and_spread([4.0, 1.0, 3.0, 2.0].into_iter());
        assert_eq!((median, spread), (Some(2.5), Some(Spread { min: 1.0, max: 4.0 })));
        assert_eq!(median_and_spread([7.0, 1.0, 3.0].into_iter()).0, Some(3.0));
        assert_eq!(median_and_spread(std::iter::empty()), (None, None));
    }
}
