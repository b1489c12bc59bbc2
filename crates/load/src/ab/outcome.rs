//! The result of `ab` as a typed value, which is also its JSON (`anywire.ab/1`); unknown is `null`.

use anywire_advice::Message;
use serde::{Deserialize, Serialize};

use crate::contrast::{Contrast, Noise, why_errors_forbid};
use crate::errors::{ErrorCounts, ErrorKind};
use crate::host::{Host, Tool};
use crate::outcome::{PlanFacts, TargetFacts};
use crate::remarks::SATURATION_HELP;
use crate::rounds::{Figures, FixedRate, Part, Round, Spread};
use crate::text::{counted, digits, known};

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
    /// How the rate of a schedule was kept in the rounds; `null` in the closed mode.
    #[serde(default)]
    pub rate: Option<FixedRate>,
    /// Each round.
    pub rounds: Vec<Round>,
    /// The most connections that were never open in a turn.
    #[serde(default)]
    pub never_open: u64,
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
            let of_rate = side.rate.iter().flat_map(FixedRate::remarks);
            remarks.extend(of_rate.map(|remark| format!("{}: {remark}", side.name)));
            let said = side.notes.iter().chain(&side.error_messages);
            remarks.extend(said.map(|note| format!("{}: {note}", side.name)));
            if side.errors.total() > 0 {
                remarks.push(format!("{}: errors: {}", side.name, side.errors.line()));
            }
        }
        remarks
    }

    /// That the load generator was too slow for the rate, so that nothing can be said of either server; never in the closed mode.
    pub fn saturation(&self) -> Option<Message> {
        saturation(&self.sides).map(|found| Message::new(found).with_help(SATURATION_HELP))
    }

    /// Why there is no verdict though both sides were measured: too many requests to one of them failed.
    pub fn why_no_verdict(&self) -> Option<String> {
        failure(&self.sides)
    }
}

/// What the rounds of both sides show: no verdict, if a side fails or the load generator was the limit.
pub(super) fn judged(sides: &[AbSide; 2], noise: &Noise, seed: u32) -> Contrast {
    let [a, b] = sides.each_ref();
    let contrast = Contrast::of(&a.rounds, &b.rounds, true, noise, seed);
    match failure(sides).or_else(|| saturation(sides)) {
        Some(why) => contrast.without_verdict(&why),
        None => contrast,
    }
}

/// A server that fails quickly would look fast.
fn failure(sides: &[AbSide; 2]) -> Option<String> {
    sides.iter().find_map(|side| why_errors_forbid(&side.name, side.errors.total(), side.answered))
}

/// Latencies of requests that left late would be the generator's.
fn saturation(sides: &[AbSide; 2]) -> Option<String> {
    sides.iter().find_map(|side| {
        let rate = side.rate.as_ref().filter(|rate| rate.saturated == Some(true))?;
        let reasons = rate.reasons.join("; ");
        Some(format!("the load generator was the limit in the load of {}: {reasons}", side.name))
    })
}

impl AbSide {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            target: None,
            medians: Figures::default(),
            spread: Figures::default(),
            rate: None,
            rounds: Vec::new(),
            never_open: 0,
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
        self.never_open = self.never_open.max(totals.connections.never_open);
        let (open, asked) = (totals.connections.open_at_start, outcome.plan.connections as u64);
        if open < asked && !outcome.rate.interrupted {
            self.note(format!("in some turns fewer than {} were open", counted(asked, "connection")));
        }
    }

    /// Takes the rounds, with the median and the spread of each figure.
    pub(super) fn summarise(&mut self, rounds: Vec<Round>) {
        self.medians = Figures::medians(&rounds);
        self.spread = Figures::spreads(&rounds);
        self.rounds = rounds;
    }

    /// How the rate was kept, and what that took of the server, in a line; `None` in the closed mode.
    pub(super) fn rate_line(&self) -> Option<String> {
        let rate = self.rate.as_ref()?;
        let percent = |share: f64| digits(share * 100.0);
        let spread = self.spread.server_utilisation;
        let spread =
            spread.map_or_else(String::new, |all| format!(" ({}-{})", percent(all.min), percent(all.max)));
        let busy =
            known(self.medians.server_utilisation, |share| format!("{} % of a core{spread}", percent(share)));
        let busy = if busy == "-" { "unknown".to_owned() } else { busy };
        Some(format!("{}: {}, server CPU {busy}", self.name, rate.line()))
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Whether it was measured, and not one response was as the plan expects it.
    pub fn has_no_good_answer(&self) -> bool {
        let bad = self.errors.of(ErrorKind::Status).saturating_add(self.errors.of(ErrorKind::Check));
        !self.rounds.is_empty() && self.answered <= bad
    }
}

/// The form of an [`AbOutcome`].
pub const SCHEMA: &str = "anywire.ab/1";

/// The most messages of one side.
const MESSAGES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Verdict;

    /// A side with ten rounds, in each of which the CPU time of a request was about this.
    fn side(name: &str, cpu_us: f64) -> AbSide {
        let round = |round: usize| {
            let cpu_us = Some(cpu_us * (1.0 + 0.001 * (round * 7 % 5) as f64));
            let figures = Figures {
                requests_per_second: Some(500.0),
                server_cpu_us_per_request: cpu_us,
                server_utilisation: cpu_us.map(|us| us * 500.0 / 1e6),
                ..Figures::default()
            };
            Round { round, figures, ..Round::default() }
        };
        let mut side = AbSide { answered: 1000, ..AbSide::new(name) };
        side.summarise((1..=10).map(round).collect());
        side
    }

    fn rate(saturated: bool) -> FixedRate {
        FixedRate {
            target: 500.0,
            gaps: crate::schedule::Gaps::Even,
            intended: 1000,
            rate_ratio: Some(1.0),
            own_lag_p99_us: Some(20.0),
            own_lag_max_us: Some(90.0),
            limited_by: None,
            saturated: Some(saturated),
            reasons: if saturated { vec!["it was late".to_owned()] } else { Vec::new() },
        }
    }

    #[test]
    fn at_one_rate_the_cpu_time_of_a_request_decides() {
        let at_rate = |side| AbSide { rate: Some(rate(false)), ..side };
        let sides = [at_rate(side("a", 100.0)), at_rate(side("b", 120.0))];
        let contrast = judged(&sides, &Noise::default(), 1);
        assert_eq!(contrast.sentence("a", "b"), "b is slower than a: server CPU/request +20.0 %");
        let line = sides[0].rate_line().expect("it has a rate");
        let kept = "a: 100 % of 500 requests/s in even gaps left in time, own lag p99 20.0 us";
        assert_eq!(line, format!("{kept}, server CPU 5.01 % of a core (5.00-5.02)"));
    }

    #[test]
    fn of_figures_that_say_nothing_there_is_no_verdict() {
        let verdict = |sides: &[AbSide; 2]| judged(sides, &Noise::default(), 1);
        let mut sides = [side("a", 100.0), side("b", 120.0)];
        assert_eq!(verdict(&sides).verdict, Some(Verdict::Slower));
        // One side is enough, since the machine was the same.
        sides[0].rate = Some(rate(true));
        let contrast = verdict(&sides);
        let why = "the load generator was the limit in the load of a: it was late";
        assert_eq!((contrast.verdict, contrast.why_not.as_deref()), (None, Some(why)));
        assert!(contrast.regressions(0.0).is_empty());
        sides[0].rate = None;
        (0..11).for_each(|_| sides[1].errors.count(ErrorKind::Status));
        assert_eq!(verdict(&sides).why_not.as_deref(), Some("1.10 % of the requests to b were errors"));
    }
}
