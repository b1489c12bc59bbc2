//! The result of a comparison as a typed value, which is also its JSON (`anywire.compare/1`); unknown is `null`.

use std::collections::BTreeMap;

use anywire_advice::Message;
use serde::{Deserialize, Serialize};

use crate::errors::ErrorCounts;
use crate::host::{Host, Tool};
use crate::text::counted;

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
    /// Of how many of its rounds the figures are, if it was ended early.
    pub fn interruption(&self) -> Option<String> {
        let rounds = self.candidates.iter().map(|row| row.rounds.len()).max().unwrap_or(0) as u64;
        let found = || format!("interrupted: {} of {}", counted(rounds, "whole round"), self.plan.rounds);
        self.interrupted.then(found)
    }

    /// All that is to be said beside the figures, one line each; what holds for several rows is said once.
    pub fn remarks(&self) -> Vec<String> {
        let mut said: Vec<(Vec<&str>, String)> = Vec::new();
        for row in &self.candidates {
            let errors = row.error_messages.iter().map(Message::to_string);
            for note in row.notes.iter().cloned().chain(errors) {
                match said.iter_mut().find(|(_, known)| *known == note) {
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
    /// How many of them were loaded; the others were open and sent nothing.
    #[serde(default)]
    pub active: usize,
    /// Requests in flight on each; over HTTP/2 that many streams.
    pub depth: usize,
    /// The length of each response's body, in bytes.
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its wire.
    pub wire: String,
    /// The protocol: `http/1.1` or `http/2`.
    #[serde(default)]
    pub protocol: String,
    /// The medians over the rounds (of `user_bytes_per_connection` the most).
    #[serde(flatten)]
    pub medians: Figures<f64>,
    /// System calls of the server's threads per answer, by name: the mean over the rounds. `null` where
    /// `syscalls_per_request` is.
    #[serde(default)]
    pub syscalls_by_name: Option<BTreeMap<String, f64>>,
    /// The least and the most of each figure over the rounds.
    pub spread: Figures<Spread>,
    /// Each round.
    pub rounds: Vec<RoundResult>,
    /// Errors of all rounds by kind.
    pub errors: ErrorCounts,
    /// Errors in words: a server that did not start, the first failed exchange of each kind.
    #[serde(with = "as_text")]
    pub error_messages: Vec<Message>,
    /// What a reader must know about this row.
    pub notes: Vec<String>,
}

/// Messages in the JSON: one text each. From there they come back as what was found.
mod as_text {
    use anywire_advice::Message;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(messages: &[Message], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(messages.iter().map(Message::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Message>, D::Error> {
        Ok(Vec::<String>::deserialize(deserializer)?.into_iter().map(Message::new).collect())
    }
}

/// One candidate in one round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundResult {
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

/// What is measured of a candidate; `null` where it could not be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures<T> {
    /// Answers per second.
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
    /// CPU time of the client's thread per answer, user and system, in microseconds.
    pub client_cpu_us_per_request: Option<T>,
    /// System calls of the server's threads per answer; without them the reason is among the notes of the row.
    pub syscalls_per_request: Option<T>,
    /// Half of the latencies stayed at or below this, in microseconds.
    pub p50_us: Option<T>,
    /// 99 % of them, in microseconds.
    pub p99_us: Option<T>,
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

impl<T> Figures<T> {
    /// What `over` makes of the values of each figure in all rounds, in rising order; nothing where no round has it.
    fn over(rounds: &[RoundResult], over: fn(&[f64]) -> T) -> Self {
        let each = |figure: fn(&Figures<f64>) -> Option<f64>| {
            let mut values: Vec<f64> = rounds.iter().filter_map(|round| figure(&round.figures)).collect();
            values.sort_by(f64::total_cmp);
            (!values.is_empty()).then(|| over(&values))
        };
        Self {
            requests_per_second: each(|round| round.requests_per_second),
            server_cpu_us_per_request: each(|round| round.server_cpu_us_per_request),
            server_user_cpu_us_per_request: each(|round| round.server_user_cpu_us_per_request),
            server_system_cpu_us_per_request: each(|round| round.server_system_cpu_us_per_request),
            client_cpu_us_per_request: each(|round| round.client_cpu_us_per_request),
            syscalls_per_request: each(|round| round.syscalls_per_request),
            p50_us: each(|round| round.p50_us),
            p99_us: each(|round| round.p99_us),
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

impl Row {
    /// Its name with its wire, unless the name says it already.
    pub(crate) fn label(&self) -> String {
        let Self { name, wire, .. } = self;
        if name.starts_with(wire.as_str()) { name.clone() } else { format!("{name} ({wire})") }
    }

    /// Takes these rounds, with their medians and spreads.
    pub(crate) fn summarise(&mut self, rounds: Vec<RoundResult>) {
        self.medians = Figures::over(&rounds, median);
        self.spread = Figures::over(&rounds, spread);
        // Stacks and heaps of an earlier round that are used again make nothing grow: the round that found none tells.
        self.medians.user_bytes_per_connection =
            self.spread.user_bytes_per_connection.map(|spread| spread.max);
        self.syscalls_by_name = mean_by_name(&rounds);
        self.rounds = rounds;
    }

    /// Says something about this row, once.
    pub(crate) fn note(&mut self, note: String) {
        if !note.is_empty() && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// A call that was not made in a round counts as none.
fn mean_by_name(rounds: &[RoundResult]) -> Option<BTreeMap<String, f64>> {
    let counted: Vec<_> = rounds.iter().filter_map(|round| round.syscalls_by_name.as_ref()).collect();
    let mut mean = BTreeMap::new();
    for (name, calls) in counted.iter().flat_map(|of_round| of_round.iter()) {
        *mean.entry(name.clone()).or_default() += calls / counted.len() as f64;
    }
    (!counted.is_empty()).then_some(mean)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

fn spread(sorted: &[f64]) -> Spread {
    Spread { min: sorted[0], max: sorted[sorted.len() - 1] }
}

/// The form of a [`Comparison`].
pub const SCHEMA: &str = "anywire.compare/1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let row = |values: &[f64]| {
            let round = |value: &f64| RoundResult {
                figures: Figures { p50_us: Some(*value), ..Figures::default() },
                ..RoundResult::default()
            };
            let rounds: Vec<_> = values.iter().map(round).collect();
            (Figures::over(&rounds, median).p50_us, Figures::over(&rounds, spread).p50_us)
        };
        assert_eq!(row(&[4.0, 1.0, 3.0, 2.0]), (Some(2.5), Some(Spread { min: 1.0, max: 4.0 })));
        assert_eq!(row(&[7.0, 1.0, 3.0]).0, Some(3.0));
        assert_eq!(row(&[]), (None, None));
    }
}
