//! The result of `ab` as a typed value, which is also its JSON (`anywire.ab/1`); unknown is `null`.

use anywire_advice::Message;
use serde::{Deserialize, Serialize};

use crate::contrast::Contrast;
use crate::errors::ErrorCounts;
use crate::host::{Host, Tool};
use crate::outcome::{PlanFacts, TargetFacts};
use crate::rounds::{Figures, Part, Round, Spread};
use crate::text::{counted, digits};

/// All that a comparison of two servers found out. `Display` prints it as a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbOutcome {
    /// The form of this object: `anywire.ab/1`.
    pub schema: String,
    /// What measured.
    pub tool: Tool,
    /// Where.
    pub host: Host,
    /// How.
    pub plan: AbPlan,
    /// Whether both sides are one and the same server: what differs is noise then.
    pub is_trial: bool,
    /// Both servers, a before b.
    pub sides: [AbSide; 2],
    /// What their rounds show.
    pub contrast: Contrast,
    /// Whether it was ended early: the sides hold the rounds until then.
    pub interrupted: bool,
    /// Why it could not go on; `null` if it could.
    pub failed: Option<String>,
}

/// How both sides were loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbPlan {
    /// The load of either side in a round; `null` if nothing was loaded.
    pub load: Option<PlanFacts>,
    /// Rounds that were asked for.
    pub rounds: usize,
    /// Turns of either side in a round.
    pub turns: usize,
    /// The seed of the order of the turns and of the resamples.
    pub seed: u32,
}

/// One of the two servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AbSide {
    /// What it is called.
    pub name: String,
    /// What was loaded; `null` if it was not.
    pub target: Option<TargetFacts>,
    /// The medians over the rounds.
    #[serde(flatten)]
    pub medians: Figures<f64>,
    /// The least and the most of each figure over the rounds.
    pub spread: Figures<Spread>,
    /// Each round.
    pub rounds: Vec<Round>,
    /// Errors of all turns by kind.
    pub errors: ErrorCounts,
    /// Answers of all turns.
    pub answered: u64,
    /// The first errors in words.
    pub error_messages: Vec<String>,
    /// What a reader must know about this side.
    pub notes: Vec<String>,
}

impl AbOutcome {
    /// The JSON of this outcome, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("an outcome holds only strings, numbers and lists")
    }

    /// All that is to be said beside the figures, one line each.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let whole = self.sides[0].rounds.len().min(self.sides[1].rounds.len()) as u64;
        if self.interrupted || self.failed.is_some() {
            remarks.push(format!("ended early: {} of {}", counted(whole, "whole round"), self.plan.rounds));
        }
        remarks.extend(self.failed.iter().cloned());
        if self.is_trial {
            remarks.push(
                "both sides are the same server: what differs is noise; --noise FILE takes it as the limit"
                    .to_owned(),
            );
        }
        for side in &self.sides {
            let said = side.notes.iter().chain(&side.error_messages);
            remarks.extend(said.map(|note| format!("{}: {note}", side.name)));
            if side.errors.total() > 0 {
                remarks.push(format!("{}: errors: {}", side.name, side.errors.line()));
            }
        }
        remarks
    }

    /// A server that fails quickly would look fast.
    pub(super) fn why_no_verdict(sides: &[AbSide; 2]) -> Option<String> {
        let failing = sides.iter().find(|side| side.error_share() > ERROR_SHARE_MAX)?;
        let share = digits(failing.error_share() * 100.0);
        Some(format!("{share} % of the requests to {} were errors", failing.name))
    }
}

impl AbSide {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            target: None,
            medians: Figures::default(),
            spread: Figures::default(),
            rounds: Vec::new(),
            errors: ErrorCounts::default(),
            answered: 0,
            error_messages: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Takes what a turn says beside its figures.
    pub(super) fn add(&mut self, part: &Part) {
        let outcome = &part.outcome;
        self.target.get_or_insert_with(|| outcome.target.clone());
        self.errors.merge(&part.errors());
        self.answered += outcome.totals.measured.answered;
        let totals = &outcome.totals;
        for sample in totals.measured.error_samples.iter().chain(&totals.warm_up.error_samples) {
            let message = Message::read(sample).to_string();
            if self.error_messages.len() < MESSAGES_MAX && !self.error_messages.contains(&message) {
                self.error_messages.push(message);
            }
        }
        if let Err(error) = &part.used {
            self.note(format!("server_cpu_us_per_request is unknown: {error}"));
        }
        if totals.measured.answered == 0 && !outcome.rate.interrupted {
            self.note("in some turns no answer came: they are too short for it, give longer ones".to_owned());
        }
        let (open, asked) = (totals.connections.open_at_start, outcome.plan.connections as u64);
        if open < asked && !outcome.rate.interrupted {
            self.note(format!("in some turns fewer than {} were open", counted(asked, "connection")));
        }
    }

    /// The median and the spread of each figure; gives the rounds.
    pub(super) fn summarise(&mut self) -> &[Round] {
        self.medians = Figures::medians(&self.rounds);
        self.spread = Figures::spreads(&self.rounds);
        &self.rounds
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn error_share(&self) -> f64 {
        let errors = self.errors.total() as f64;
        if errors == 0.0 { 0.0 } else { errors / errors.max(self.answered as f64) }
    }
}

/// The form of an [`AbOutcome`].
pub const SCHEMA: &str = "anywire.ab/1";

/// More errors than these among the requests, and the figures are not those of a server that works.
const ERROR_SHARE_MAX: f64 = 0.01;

/// The most messages of one side.
const MESSAGES_MAX: usize = 20;
