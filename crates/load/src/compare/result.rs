//! The result of a comparison as a typed value, which is also its JSON (`anywire.compare/1`); unknown is `null`.

use std::collections::BTreeMap;

use anywire_advice::Message;
use serde::{Deserialize, Serialize};

use crate::errors::ErrorCounts;
use crate::host::{Host, Tool};
use crate::remarks::SATURATION_HELP;
use crate::rounds::{Figures, FixedRate, Round, Spread};
use crate::schedule::{Gaps, Schedule};
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

    /// That the load generator was too slow for the rate in the load of some candidates, so that nothing can be said of them; never
    /// in the closed mode.
    pub fn saturation(&self) -> Option<Message> {
        let reasons = |row: &Row| {
            let rate = row.rate.as_ref().filter(|rate| rate.saturated == Some(true))?;
            Some(format!("{}: {}", row.name, rate.reasons.join("; ")))
        };
        let found: Vec<String> = self.candidates.iter().filter_map(reasons).collect();
        let message = || format!("the load generator was the limit: {}", found.join(", "));
        (!found.is_empty()).then(|| Message::new(message()).with_help(SATURATION_HELP))
    }

    /// That some candidates were not measured in each round, or by fewer connections than were asked for: their rows are of less than
    /// those of others.
    pub fn shortfall(&self) -> Option<Message> {
        let short = self.candidates.iter().find_map(|row| {
            let of_rounds = (row.rounds.len() < self.plan.rounds).then(|| {
                format!("measured in {} of {}", row.rounds.len(), counted(self.plan.rounds as u64, "round"))
            });
            let asked = counted(self.plan.active as u64, "connection");
            let of_connections =
                (row.never_open > 0).then(|| format!("{} of {asked} were never open", row.never_open));
            Some((row, of_rounds.or(of_connections)?))
        });
        let (row, short) = short.filter(|_| !self.interrupted)?;
        let why = row.error_messages.first();
        let found = why.map_or_else(String::new, |why| format!(": {}", why.found));
        let message = Message::new(format!("{}: {short}{found}", row.name));
        Some(match why.and_then(|why| why.help.clone()) {
            Some(help) => message.with_help(help),
            None => message,
        })
    }

    /// All that is to be said beside the figures, one line each; what holds for several rows is said once.
    pub fn remarks(&self) -> Vec<String> {
        let mut said: Vec<(Vec<&str>, String)> = Vec::new();
        for row in &self.candidates {
            let errors = row.error_messages.iter().map(Message::to_string);
            let of_rate = row.rate.iter().flat_map(FixedRate::remarks);
            for note in of_rate.chain(row.notes.iter().cloned()).chain(errors) {
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
    /// `closed` or `open`: see [`PlanFacts::mode`](crate::PlanFacts).
    pub mode: String,
    /// Requests per second, all connections together; `null` in the closed mode.
    #[serde(default)]
    pub rate: Option<f64>,
    /// How they were spread within a second.
    #[serde(default)]
    pub gaps: Gaps,
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

impl ComparePlan {
    /// When requests left, in words.
    pub(crate) fn pace(&self) -> String {
        match self.rate {
            Some(rate) => {
                let schedule = Schedule { gaps: self.gaps, ..Schedule::constant(rate) };
                format!("{}: {}, latencies from the intended time", self.mode, schedule.pace())
            }
            None => self.mode.clone(),
        }
    }
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
    /// How the rate was kept in the rounds; `null` in the closed mode.
    #[serde(default)]
    pub rate: Option<FixedRate>,
    /// Each round.
    pub rounds: Vec<Round>,
    /// The most connections that were never open in a round.
    #[serde(default)]
    pub never_open: u64,
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

impl Row {
    /// Its name with its wire, unless the name says it already.
    pub(crate) fn label(&self) -> String {
        let Self { name, wire, .. } = self;
        if name.starts_with(wire.as_str()) { name.clone() } else { format!("{name} ({wire})") }
    }

    /// Takes these rounds, with their medians and spreads.
    pub(crate) fn summarise(&mut self, rounds: Vec<Round>) {
        self.medians = Figures::medians(&rounds);
        self.spread = Figures::spreads(&rounds);
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
fn mean_by_name(rounds: &[Round]) -> Option<BTreeMap<String, f64>> {
    let counted: Vec<_> = rounds.iter().filter_map(|round| round.syscalls_by_name.as_ref()).collect();
    let mut mean = BTreeMap::new();
    for (name, calls) in counted.iter().flat_map(|of_round| of_round.iter()) {
        *mean.entry(name.clone()).or_default() += calls / counted.len() as f64;
    }
    (!counted.is_empty()).then_some(mean)
}

/// The form of a [`Comparison`].
pub const SCHEMA: &str = "anywire.compare/1";
