//! What a search has found and tried, as part of an outcome and of its JSON.

use serde::{Deserialize, Serialize};

use super::rates::{Attempt, End, Shown, Stage};
use crate::outcome::Outcome;
use crate::require::{Threshold, Verdict};
use crate::text::digits;

/// What a search for the highest rate has found, and all that it tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchFigures {
    /// What each rate had to keep to, beside being reached.
    pub required: Vec<String>,
    /// How near the result had to be to a rate that does not hold, as a share of that.
    pub precision: f64,
    /// The highest rate that held, in requests a second; `null` if none did.
    pub highest_rate: Option<f64>,
    /// Whether it held in the longer run at the end, too.
    pub confirmed: bool,
    /// The lowest rate above it that did not hold, or that this end did not reach; `null` if all held.
    pub lowest_failed: Option<f64>,
    /// Why the search ended.
    pub end: End,
    /// All runs, in their order.
    pub trials: Vec<Trial>,
}

/// One run of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What it was for.
    pub stage: Stage,
    /// Requests a second that were asked for.
    pub target: f64,
    /// Requests a second that left; `null` if the run ended before anything was measured.
    pub achieved: Option<f64>,
    /// How long it was measured, in seconds.
    pub seconds: f64,
    /// From when requests should have left; `null` if none was answered.
    pub latency: Option<TrialLatency>,
    /// Requests that were sent.
    pub sent: u64,
    /// Errors of all kinds.
    pub errors: u64,
    /// `held`; `broken`; or `not_judged`, if this end did not reach the rate or the run was ended early.
    pub verdict: Verdict,
    /// Why it did not hold, or was not judged; `null` if it held.
    pub reason: Option<String>,
}

/// The latencies of a run, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrialLatency {
    /// Half of all stayed at or below this.
    pub p50: f64,
    /// 90 % did.
    pub p90: f64,
    /// 99 % did.
    pub p99: f64,
    /// 99.9 % did.
    pub p99_9: f64,
    /// The longest.
    pub max: f64,
}

impl Trial {
    /// Of a run whose thresholds were judged, and what it shows; nothing, if it was ended early.
    pub(super) fn of(attempt: &Attempt, outcome: &Outcome) -> (Self, Option<Shown>) {
        let (shown, reason) = verdict(outcome);
        let verdict = match shown {
            Some(Shown::Held) => Verdict::Held,
            Some(Shown::Broken) => Verdict::Broken,
            Some(Shown::NotReached) | None => Verdict::NotJudged,
        };
        let latency = outcome.latency.intended.as_ref().map(|all| TrialLatency {
            p50: all.p50,
            p90: all.p90,
            p99: all.p99,
            p99_9: all.p99_9,
            max: all.max,
        });
        let trial = Self {
            stage: attempt.stage,
            target: attempt.rate,
            achieved: outcome.rate.achieved,
            seconds: outcome.rate.seconds,
            latency,
            sent: outcome.totals.measured.sent,
            errors: outcome.totals.measured.errors.total(),
            verdict,
            reason,
        };
        (trial, shown)
    }
}

/// What a run shows of its rate, and why it is not that it held.
fn verdict(outcome: &Outcome) -> (Option<Shown>, Option<String>) {
    if outcome.rate.interrupted {
        return (None, Some("the run was ended early".to_owned()));
    }
    if outcome.generator.saturated == Some(true) {
        let reasons = outcome.generator.reasons.join("; ");
        return (Some(Shown::NotReached), Some(format!("the load generator was the limit: {reasons}")));
    }
    let mut reasons = Vec::new();
    // Whatever is required, a rate holds only if it was there, with all connections of the plan, and was answered.
    reasons.extend(outcome.no_good_answer().or_else(|| outcome.shortfall()).map(|message| message.found));
    if let Some(ratio) = outcome.rate.rate_ratio.filter(|ratio| *ratio < REACHED_MIN) {
        reasons.push(format!("only {} % of the requests left in time, {NO_ROOM}", digits(ratio * 100.0)));
    }
    let broken = |one: &&Threshold| one.verdict == Verdict::Broken;
    reasons.extend(outcome.thresholds.iter().filter(broken).map(Threshold::to_string));
    match reasons.is_empty() {
        true => (Some(Shown::Held), None),
        false => (Some(Shown::Broken), Some(reasons.join("; "))),
    }
}

/// Fewer requests than these in time were another rate.
const REACHED_MIN: f64 = 0.99;
const NO_ROOM: &str = "because all connections were busy";
