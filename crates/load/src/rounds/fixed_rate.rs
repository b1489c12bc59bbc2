//! How a fixed rate was kept, over all that was measured of a side: the percentiles of one short turn say little.

use serde::{Deserialize, Serialize};

use crate::histogram::{Latency, LatencySummary};
use crate::outcome::Outcome;
use crate::saturated::{Facts, RATIO_MIN};
use crate::schedule::{Gaps, Schedule};
use crate::text::{digits, known, time};

/// How a fixed rate was kept in the load of one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FixedRate {
    /// Requests per second that were to leave.
    pub target: f64,
    /// How they were spread within a second.
    #[serde(default)]
    pub gaps: Gaps,
    /// Requests that were due.
    pub intended: u64,
    /// The share of these that left in time; `null` if none was due.
    pub rate_ratio: Option<f64>,
    /// How late requests left that had a connection with room, in microseconds: 99 % of them no later than this. It is this
    /// end's part of the latencies; `null` if none left.
    pub own_lag_p99_us: Option<f64>,
    /// The latest of these, in microseconds.
    pub own_lag_max_us: Option<f64>,
    /// `connections` if too few left in time because no connection had room: the server is slower than the rate, or the
    /// connections are too few. `null` otherwise.
    pub limited_by: Option<String>,
    /// Whether this end was too slow for its own schedule, so that nothing can be said of the server; `null` if nothing was due.
    pub saturated: Option<bool>,
    /// Why.
    pub reasons: Vec<String>,
}

impl FixedRate {
    /// How these runs of one plan kept its rate, taken together. A single run that the machine held up does not decide.
    ///
    /// `None` if they have no schedule, or nothing was measured.
    pub fn of<'o>(runs: impl IntoIterator<Item = &'o Outcome>) -> Option<Self> {
        let mut all = Sum::default();
        runs.into_iter().for_each(|run| all.add(run));
        Some(all.rate(all.target?))
    }

    /// What a reader must know before the figures; empty if the rate was kept.
    pub fn remarks(&self) -> Vec<String> {
        let saturated = (self.saturated == Some(true))
            .then(|| format!("saturated: the load generator was the limit: {}", self.reasons.join("; ")));
        let behind = self.limited_by.as_ref().map(|_| {
            format!(
                "only {} left in time, and no connection had room for the others: the server is slower than this rate, \
                 or the connections are too few",
                self.share(),
            )
        });
        saturated.into_iter().chain(behind).collect()
    }

    /// How much of the rate was kept, in words: `99.8 % of 10,000 requests/s in even gaps`.
    pub(crate) fn share(&self) -> String {
        let ratio = known(self.rate_ratio, |ratio| digits(ratio * 100.0));
        let schedule = Schedule { gaps: self.gaps, ..Schedule::constant(self.target) };
        format!("{ratio} % of {}", schedule.pace())
    }

    /// The same with how late requests left: a line for the terminal.
    pub(crate) fn line(&self) -> String {
        format!("{} left in time, own lag p99 {}", self.share(), known(self.own_lag_p99_us, time))
    }
}

/// Runs of one plan, added up.
struct Sum {
    target: Option<f64>,
    gaps: Gaps,
    intended: u64,
    /// Of these, those that left in time.
    in_time: f64,
    lag: Option<Latency>,
    latency: Option<Latency>,
    /// CPU time of the loops without their spinning; `None` if it is unknown of a run.
    busy_us: Option<f64>,
    /// The measured time of all loops.
    loops_us: f64,
    is_behind_connections: bool,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            target: None,
            gaps: Gaps::Even,
            intended: 0,
            in_time: 0.0,
            lag: Some(Latency::new()),
            latency: Some(Latency::new()),
            busy_us: Some(0.0),
            loops_us: 0.0,
            is_behind_connections: false,
        }
    }
}

impl Sum {
    fn add(&mut self, run: &Outcome) {
        let (rate, generator) = (&run.rate, &run.generator);
        let Some((target, intended)) = rate.target.zip(rate.intended) else { return };
        self.target = Some(target);
        self.gaps = run.plan.schedule.map_or(Gaps::Even, |schedule| schedule.gaps);
        self.intended = self.intended.saturating_add(intended);
        self.in_time += rate.rate_ratio.map_or(0.0, |ratio| ratio * intended as f64);
        add_summary(&mut self.lag, generator.lag.as_ref());
        add_summary(&mut self.latency, run.latency.intended.as_ref());
        let spun = generator.pacing.as_ref().map_or(0.0, |pacing| pacing.spun_us);
        let cpu = generator.cpu_user_us.zip(generator.cpu_sys_us).map(|(user, system)| user + system - spun);
        self.busy_us = self.busy_us.zip(cpu).map(|(all, of_run)| all + of_run);
        self.loops_us += rate.seconds * 1e6 * run.loops.len() as f64;
        self.is_behind_connections |= generator.limited_by.as_deref() == Some(CONNECTIONS);
    }

    fn rate(&self, target: f64) -> FixedRate {
        let rate_ratio = (self.intended > 0).then(|| (self.in_time / self.intended as f64).min(1.0));
        let summary = |latency: &Option<Latency>| latency.as_ref().and_then(Latency::summary);
        let (lag, latency) = (summary(&self.lag), summary(&self.latency));
        let facts = Facts {
            rate_ratio,
            own_lag: lag.as_ref(),
            latency: latency.as_ref(),
            // Of all loops together: one that is full among others shows in the lag.
            busy: &[self.busy_us.filter(|_| self.loops_us > 0.0).map(|busy| busy / self.loops_us)],
            is_behind_connections: self.is_behind_connections,
        };
        let reasons = facts.reasons();
        let is_short = rate_ratio.is_some_and(|ratio| ratio < RATIO_MIN);
        FixedRate {
            target,
            gaps: self.gaps,
            intended: self.intended,
            rate_ratio,
            own_lag_p99_us: lag.as_ref().map(|lag| lag.p99),
            own_lag_max_us: lag.as_ref().map(|lag| lag.max),
            limited_by: (is_short && self.is_behind_connections).then(|| CONNECTIONS.to_owned()),
            saturated: rate_ratio.map(|_| !reasons.is_empty()),
            reasons,
        }
    }
}

/// Adds the histogram of a summary, if there is one. One that cannot be read makes the whole unknown.
pub(super) fn add_summary(all: &mut Option<Latency>, summary: Option<&LatencySummary>) {
    let Some(summary) = summary else { return };
    *all = all.take().zip(Latency::from_summary(summary).ok()).map(|(mut all, of_part)| {
        all.merge(&of_part);
        all
    });
}

/// What limits a rate that the server does not keep up with, as in the outcome of a load.
const CONNECTIONS: &str = "connections";
