//! The outcomes of several agents as one: counts are added, histograms merged to the bucket, and what differs stands beside each agent.

use serde::{Deserialize, Serialize};

use crate::hdr::HdrError;
use crate::histogram::{Latency, LatencySummary};
use crate::host::Host;
use crate::outcome::{Generator, Latencies, Outcome, Rate, Totals};
use crate::plan::{Amount, Plan};
use crate::text::{counted, grouped, known, whole};

/// One agent of a run on several machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentShare {
    /// Its index, from 0.
    pub index: usize,
    /// Where it is, as the leader sees it.
    pub address: String,
    /// Its machine; `null` if it was lost.
    pub host: Option<Host>,
    /// How it was lost; `null` if it was not. Nothing of a lost agent is in the figures.
    pub lost: Option<String>,
    /// Connections of its part of the plan.
    pub connections: usize,
    /// Answers; `null` if it was lost, as all that follow.
    pub answered: Option<u64>,
    /// Errors of all kinds.
    pub errors: Option<u64>,
    /// How fast it went.
    pub rate: Option<Rate>,
    /// What it used: whether this agent, and not the server, was at its limit.
    pub generator: Option<Generator>,
    /// How far the clock on its wall is ahead of the leader's, in seconds. It changes no figure: the start is told by other clocks.
    pub clock_ahead_seconds: f64,
    /// The fastest way there and back between leader and agent, in microseconds: the agents began within half of it of each other.
    pub round_trip_us: f64,
}

impl AgentShare {
    /// What it did, in a line.
    pub(crate) fn line(&self) -> String {
        let connections = counted(self.connections as u64, "connection");
        let Self { address, answered, .. } = self;
        match (&self.lost, answered) {
            (None, Some(answered)) => {
                let rate = known(self.rate.and_then(|rate| rate.achieved), whole);
                let limit = self.generator.as_ref().and_then(|generator| generator.limited_by.as_ref());
                let limit = if limit.is_some() { ", at its own limit" } else { "" };
                format!("{} answers, {connections}, {rate}/s, {address}{limit}", grouped(*answered))
            }
            (why, _) => format!("lost: {}, {connections}, {address}", why.as_deref().unwrap_or("unknown")),
        }
    }
}

/// What the leader knows of an agent at the end.
pub(crate) struct Part {
    pub(crate) share: AgentShare,
    pub(crate) outcome: Option<Outcome>,
}

/// All parts as one outcome; `None` if no agent has given one.
///
/// # Errors
///
/// The histogram of an agent is none: the part of that agent counts as lost before this is asked again.
pub(crate) fn merged(plan: &Plan, parts: &[Part]) -> Result<Option<Outcome>, (usize, HdrError)> {
    let outcomes = || parts.iter().filter_map(|part| part.outcome.as_ref());
    let Some(first) = outcomes().next() else { return Ok(None) };
    let mut totals = Totals::default();
    let (mut loops, mut seconds) = (Vec::new(), 0.0_f64);
    for outcome in outcomes() {
        totals.merge(&outcome.totals);
        totals.unsent = sum([totals.unsent, outcome.totals.unsent].into_iter().flatten());
        seconds = seconds.max(outcome.rate.seconds);
        loops.extend(outcome.loops.iter().cloned());
    }
    for (id, share) in loops.iter_mut().enumerate() {
        share.id = id;
    }
    let answered = totals.measured.answered;
    let busiest = loops.iter().map(|share| share.requests).max().unwrap_or_default();
    let mean = answered as f64 / loops.len().max(1) as f64;
    let mut facts = first.plan.clone();
    facts.connections = plan.connections;
    if let Amount::Requests(requests) = plan.amount {
        facts.requests = Some(requests);
    }
    Ok(Some(Outcome {
        plan: facts,
        rate: Rate {
            achieved: (seconds > 0.0).then(|| answered as f64 / seconds),
            seconds,
            interrupted: outcomes().any(|outcome| outcome.rate.interrupted),
            given_up: outcomes().any(|outcome| outcome.rate.given_up),
        },
        latency: latencies(parts)?,
        generator: generator(&outcomes().map(|outcome| &outcome.generator).collect::<Vec<_>>(), answered),
        loops,
        balance: (answered > 0).then(|| busiest as f64 / mean),
        agents: parts.iter().map(|part| part.share.clone()).collect(),
        totals,
        ..first.clone()
    }))
}

/// Each column of all agents.
fn latencies(parts: &[Part]) -> Result<Latencies, (usize, HdrError)> {
    let column = |of: fn(&Latencies) -> &Option<LatencySummary>| {
        let mut all = Latency::new();
        for part in parts {
            let summary = part.outcome.as_ref().and_then(|outcome| of(&outcome.latency).as_ref());
            let Some(summary) = summary else { continue };
            all.merge(&Latency::from_summary(summary).map_err(|error| (part.share.index, error))?);
        }
        Ok(all.summary())
    };
    Ok(Latencies {
        intended: column(|of| &of.intended)?,
        send: column(|of| &of.send)?,
        lag: column(|of| &of.lag)?,
        first_byte: column(|of| &of.first_byte)?,
        connect: column(|of| &of.connect)?,
        tls: column(|of| &of.tls)?,
    })
}

/// What all generators used together. What one does not know, nobody knows of all.
fn generator(parts: &[&Generator], answered: u64) -> Generator {
    let all = |of: fn(&Generator) -> Option<f64>| parts.iter().map(|part| of(part)).sum::<Option<f64>>();
    let (user, system) = (all(|part| part.cpu_user_us), all(|part| part.cpu_sys_us));
    let used = user.zip(system).map(|(user, system)| user + system);
    Generator {
        cpu_user_us: user,
        cpu_sys_us: system,
        cpu_us_per_request: used.filter(|_| answered > 0).map(|used| used / answered as f64),
        limited_by: parts.iter().find_map(|part| part.limited_by.clone()),
    }
}

/// The sum of what is known; `None` of nothing.
fn sum(parts: impl Iterator<Item = u64>) -> Option<u64> {
    parts.reduce(u64::saturating_add)
}
