//! The outcomes of several agents as one: counts are added, histograms merged to the bucket, and what differs stands beside each agent.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::hdr::HdrError;
use crate::histogram::{Latency, LatencySummary};
use crate::host::Host;
use crate::outcome::{Generator, Latencies, Outcome, PacingFacts, Rate, Step, Totals, WireFigures};
use crate::plan::{Amount, Plan, portion};
use crate::requests::{EventFigures, RequestFigures, cookies};
use crate::saturated::{CONNECTIONS, Facts};
use crate::text::{counted, grouped, known, whole};

/// One agent of a run on several machines, whatever it loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its index, from 0.
    pub index: usize,
    /// Where it is, as the leader sees it.
    pub address: String,
    /// Its machine; `null` if it was lost.
    pub host: Option<Host>,
    /// How it was lost; `null` if it was not. Nothing of a lost agent is in the figures.
    pub lost: Option<String>,
    /// How far the clock on its wall is ahead of the leader's, in seconds. It changes no figure: the start is told by other clocks.
    pub clock_ahead_seconds: f64,
    /// The fastest way there and back between leader and agent, in microseconds: the agents began within half of it of each other.
    pub round_trip_us: f64,
}

impl Agent {
    /// The same on the machine of its outcome.
    pub(crate) fn on(&self, host: Option<&Host>) -> Self {
        Self { host: host.cloned(), ..self.clone() }
    }
}

/// What one agent of a run on several machines did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentShare {
    /// The agent; its fields stand beside the others in JSON.
    #[serde(flatten)]
    pub agent: Agent,
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
}

impl AgentShare {
    /// That of one of `of` agents.
    fn of(part: &Part<Outcome>, plan: &Plan, of: usize) -> Self {
        let (agent, outcome) = (&part.agent, part.outcome.as_ref());
        Self {
            agent: agent.on(outcome.map(|outcome| &outcome.host)),
            // Never more than the whole, which is a usize.
            connections: portion(plan.connections as u64, agent.index as u64, of as u64) as usize,
            answered: outcome.map(|outcome| outcome.totals.measured.answered),
            errors: outcome.map(|outcome| outcome.totals.measured.errors.total()),
            rate: outcome.map(|outcome| outcome.rate),
            generator: outcome.map(|outcome| outcome.generator.clone()),
        }
    }

    /// What it did, in a line.
    pub(crate) fn line(&self) -> String {
        let connections = counted(self.connections as u64, "connection");
        let Self { agent: Agent { address, lost, .. }, answered, .. } = self;
        match (lost, answered) {
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
pub(crate) struct Part<O> {
    pub(crate) agent: Agent,
    pub(crate) outcome: Option<O>,
}

/// All parts as one outcome; `None` if no agent has given one.
///
/// # Errors
///
/// The histogram of an agent is none: the part of that agent counts as lost before this is asked again.
pub(crate) fn merged(plan: &Plan, parts: &[Part<Outcome>]) -> Result<Option<Outcome>, (usize, HdrError)> {
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
    let intended =
        outcomes().try_fold(0_u64, |all, outcome| Some(all.saturating_add(outcome.rate.intended?)));
    // Of each agent that had a request: those that left in time.
    let in_time = outcomes()
        .map(|outcome| Some(outcome.rate.rate_ratio.unwrap_or_default() * outcome.rate.intended? as f64));
    let in_time = in_time.sum::<Option<f64>>();
    // The next one of all is the next one of some agent.
    let next = outcomes().filter_map(|outcome| outcome.rate.schedule_seconds).reduce(f64::min);
    let schedule_seconds = next.map(|next| next.max(seconds));
    let busiest = loops.iter().map(|share| share.requests).max().unwrap_or_default();
    let mean = answered as f64 / loops.len().max(1) as f64;
    let mut facts = first.plan.clone();
    (facts.connections, facts.schedule) = (plan.connections, plan.schedule);
    if let Amount::Requests(requests) = plan.amount {
        facts.requests = Some(requests);
    }
    let rate_ratio = in_time.zip(intended).filter(|(_, all)| *all > 0).map(|(sent, all)| sent / all as f64);
    let (latency, steps) = (latencies(parts)?, steps(parts)?);
    let all = outcomes().collect::<Vec<_>>();
    let lag = merged_summaries(parts, |outcome| outcome.generator.lag.as_ref())?;
    let whole = Facts {
        rate_ratio,
        own_lag: lag.as_ref(),
        // That of all steps says nothing.
        latency: latency.intended.as_ref().filter(|_| steps.is_empty()),
        // Each agent has judged its own loops.
        busy: &[],
        is_behind_connections: all.iter().any(|one| one.generator.limited_by.as_deref() == Some(CONNECTIONS)),
    };
    let (saturated, reasons) = saturated(all.iter().map(|one| &one.generator), &whole);
    Ok(Some(Outcome {
        plan: facts,
        rate: Rate {
            target: plan.schedule.map(|schedule| schedule.shape.mean()),
            intended,
            rate_ratio,
            achieved: (seconds > 0.0)
                .then(|| in_time.unwrap_or(answered as f64) / schedule_seconds.unwrap_or(seconds)),
            schedule_seconds,
            seconds,
            interrupted: outcomes().any(|outcome| outcome.rate.interrupted),
            given_up: outcomes().any(|outcome| outcome.rate.given_up),
        },
        latency,
        requests: requests(parts, &first.requests)?,
        events: events(parts)?,
        cookies: cookies(outcomes().filter_map(|outcome| outcome.cookies)),
        generator: Generator { saturated, reasons, lag, ..generator(&all, answered) },
        wire: wire(&all),
        steps,
        loops,
        balance: (answered > 0).then(|| busiest as f64 / mean),
        agents: parts.iter().map(|part| AgentShare::of(part, plan, parts.len())).collect(),
        totals,
        ..first.clone()
    }))
}

/// Each column of all agents.
fn latencies(parts: &[Part<Outcome>]) -> Result<Latencies, (usize, HdrError)> {
    let outcomes = || parts.iter().filter_map(|part| part.outcome.as_ref());
    let column = |of: fn(&Latencies) -> Option<&LatencySummary>| merged_column(parts, of);
    let classes: BTreeSet<&String> =
        outcomes().flat_map(|outcome| outcome.latency.by_status.keys()).collect();
    let mut by_status = BTreeMap::new();
    for class in classes {
        if let Some(summary) = merged_column(parts, |of| of.by_status.get(class))? {
            by_status.insert(class.clone(), summary);
        }
    }
    Ok(Latencies {
        intended: column(|of| of.intended.as_ref())?,
        send: column(|of| of.send.as_ref())?,
        lag: column(|of| of.lag.as_ref())?,
        first_byte: column(|of| of.first_byte.as_ref())?,
        connect: column(|of| of.connect.as_ref())?,
        tls: column(|of| of.tls.as_ref())?,
        server: column(|of| of.server.as_ref())?,
        by_status,
    })
}

/// The steps of a rate that changes, each of all agents.
fn steps(parts: &[Part<Outcome>]) -> Result<Vec<Step>, (usize, HdrError)> {
    let outcomes = || parts.iter().filter_map(|part| part.outcome.as_ref());
    let Some(first) = outcomes().next() else { return Ok(Vec::new()) };
    let merged = first.steps.iter().enumerate().map(|(index, step)| {
        let all = || outcomes().filter_map(|outcome| outcome.steps.get(index));
        let count = |of: fn(&Step) -> u64| all().map(of).fold(0, u64::saturating_add);
        let column = |of: fn(&Latencies) -> Option<&LatencySummary>| {
            merged_summaries(parts, |outcome| of(&outcome.steps.get(index)?.latency))
        };
        Ok(Step {
            target: all().map(|step| step.target).sum(),
            intended: count(|step| step.intended),
            sent: count(|step| step.sent),
            answered: count(|step| step.answered),
            latency: Latencies {
                intended: column(|of| of.intended.as_ref())?,
                send: column(|of| of.send.as_ref())?,
                lag: column(|of| of.lag.as_ref())?,
                ..Latencies::default()
            },
            ..step.clone()
        })
    });
    merged.collect()
}

/// What became of each request of a script. All agents have the same ones, in the same order.
fn requests(
    parts: &[Part<Outcome>],
    first: &[RequestFigures],
) -> Result<Vec<RequestFigures>, (usize, HdrError)> {
    let outcomes = || parts.iter().filter_map(|part| part.outcome.as_ref());
    let mut all = Vec::with_capacity(first.len());
    for (number, one) in first.iter().enumerate() {
        let mut sum = RequestFigures { answered: 0, bad: 0, statuses: BTreeMap::new(), ..one.clone() };
        for request in outcomes().filter_map(|outcome| outcome.requests.get(number)) {
            sum.answered = sum.answered.saturating_add(request.answered);
            sum.bad = sum.bad.saturating_add(request.bad);
            for (status, count) in &request.statuses {
                let all = sum.statuses.entry(*status).or_default();
                *all = all.saturating_add(*count);
            }
        }
        sum.latency = merged_summaries(parts, |outcome| outcome.requests.get(number)?.latency.as_ref())?;
        all.push(sum);
    }
    Ok(all)
}

/// The events of all agents, if they were timed.
fn events(parts: &[Part<Outcome>]) -> Result<Option<EventFigures>, (usize, HdrError)> {
    let timed = || parts.iter().filter_map(|part| part.outcome.as_ref()?.events.as_ref());
    if timed().next().is_none() {
        return Ok(None);
    }
    Ok(Some(EventFigures {
        count: timed().map(|events| events.count).fold(0, u64::saturating_add),
        streams: timed().map(|events| events.streams).fold(0, u64::saturating_add),
        first: merged_summaries(parts, |outcome| outcome.events.as_ref()?.first.as_ref())?,
        gap: merged_summaries(parts, |outcome| outcome.events.as_ref()?.gap.as_ref())?,
    }))
}

/// One column of all agents.
fn merged_column(
    parts: &[Part<Outcome>],
    of: impl Fn(&Latencies) -> Option<&LatencySummary>,
) -> Result<Option<LatencySummary>, (usize, HdrError)> {
    merged_summaries(parts, |outcome| of(&outcome.latency))
}

/// One histogram of all agents; those that do not have it add nothing.
pub(crate) fn merged_summaries<O>(
    parts: &[Part<O>],
    of: impl Fn(&O) -> Option<&LatencySummary>,
) -> Result<Option<LatencySummary>, (usize, HdrError)> {
    let mut all = Latency::new();
    for part in parts {
        let Some(summary) = part.outcome.as_ref().and_then(&of) else { continue };
        all.merge(&Latency::from_summary(summary).map_err(|error| (part.agent.index, error))?);
    }
    Ok(all.summary())
}

/// What all generators used together. What one does not know, nobody knows of all.
fn generator(outcomes: &[&Outcome], answered: u64) -> Generator {
    let parts = || outcomes.iter().map(|outcome| &outcome.generator);
    let all = |of: fn(&Generator) -> Option<f64>| parts().map(of).sum::<Option<f64>>();
    let count = |of: fn(&Generator) -> Option<u64>| {
        parts().map(of).try_fold(0_u64, |all, part| Some(all.saturating_add(part?)))
    };
    let (user, system) = (all(|part| part.cpu_user_us), all(|part| part.cpu_sys_us));
    let used = user.zip(system).map(|(user, system)| user + system);
    let names: BTreeSet<_> =
        parts().filter_map(|part| part.syscalls_by_name.as_ref()).flat_map(BTreeMap::keys).collect();
    let calls = |name: &String| {
        // A call that an agent did not make is none; an agent that counted nothing leaves all unknown.
        let of = |outcome: &Outcome| {
            outcome.generator.syscalls_by_name.as_ref().map(|calls| calls.get(name).copied().unwrap_or(0.0))
        };
        per_answer(outcomes, of).map(|count| (name.clone(), count))
    };
    let by_name = names.into_iter().map(calls).collect::<Option<BTreeMap<_, _>>>();
    Generator {
        cpu_user_us: user,
        cpu_sys_us: system,
        cpu_us_per_request: used.filter(|_| answered > 0).map(|used| used / answered as f64),
        voluntary_switches: count(|part| part.voluntary_switches),
        involuntary_switches: count(|part| part.involuntary_switches),
        syscalls_per_request: per_answer(outcomes, |outcome| outcome.generator.syscalls_per_request),
        syscalls_by_name: by_name.filter(|calls| !calls.is_empty()),
        max_schedule_lag_us: parts().filter_map(|part| part.max_schedule_lag_us).reduce(f64::max),
        pacing: parts()
            .filter_map(|part| part.pacing.clone())
            .reduce(|all, part| PacingFacts { spun_us: all.spun_us + part.spun_us, ..all }),
        limited_by: parts().find_map(|part| part.limited_by.clone()),
        // The verdict on the whole, and a histogram that is merged as the latencies are.
        ..Generator::default()
    }
}

/// Whether the generators were too slow for the schedule, and why. One that was the limit itself leaves no verdict on the whole. One that
/// had no request due knows nothing of itself, and says nothing of the others. If no agent had enough requests for a verdict by its lag,
/// all of them together may have.
fn saturated<'g>(
    agents: impl Iterator<Item = &'g Generator> + Clone,
    whole: &Facts<'_>,
) -> (Option<bool>, Vec<String>) {
    let mut reasons: Vec<String> = agents.clone().flat_map(|agent| agent.reasons.iter().cloned()).collect();
    let any = agents.filter_map(|agent| agent.saturated).reduce(|any, agent| any | agent);
    if any == Some(false) {
        reasons.extend(whole.reasons());
        return (Some(!reasons.is_empty()), reasons);
    }
    (any, reasons)
}

/// What the kernels saw on the wires.
fn wire(outcomes: &[&Outcome]) -> WireFigures {
    let retransmits = outcomes.iter().map(|outcome| outcome.wire.retransmits);
    WireFigures {
        segments_per_response: per_answer(outcomes, |outcome| outcome.wire.segments_per_response),
        expected_segments_per_response: per_answer(outcomes, |outcome| {
            outcome.wire.expected_segments_per_response
        }),
        retransmits: retransmits.into_iter().try_fold(0_u64, |all, part| Some(all.saturating_add(part?))),
        round_trip_us: per_answer(outcomes, |outcome| outcome.wire.round_trip_us),
    }
}

/// The mean over all answers of a figure that each agent has for its own; `None` if one with answers does not have it.
fn per_answer(outcomes: &[&Outcome], of: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
    let (mut sum, mut answers) = (0.0, 0.0);
    for outcome in outcomes.iter().filter(|outcome| outcome.totals.measured.answered > 0) {
        let answered = outcome.totals.measured.answered as f64;
        sum += of(outcome)? * answered;
        answers += answered;
    }
    (answers > 0.0).then(|| sum / answers)
}

/// The sum of what is known; `None` of nothing.
fn sum(parts: impl Iterator<Item = u64>) -> Option<u64> {
    parts.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn summary(values: &[(u64, u64)]) -> LatencySummary {
        let mut all = Latency::new();
        values.iter().for_each(|&(us, count)| all.record_many(Duration::from_micros(us), count));
        all.summary().expect("some were recorded")
    }

    /// The verdict on agents with these verdicts, whose lags together are these.
    fn judged(agents: &[Option<bool>], lag: &[(u64, u64)]) -> (Option<bool>, usize) {
        let agent = |saturated: &Option<bool>| {
            let reasons = if *saturated == Some(true) { vec!["it was late".to_owned()] } else { Vec::new() };
            Generator { saturated: *saturated, reasons, ..Generator::default() }
        };
        let agents: Vec<_> = agents.iter().map(agent).collect();
        let lag = summary(lag);
        let whole = Facts {
            rate_ratio: Some(1.0),
            own_lag: Some(&lag),
            latency: None,
            busy: &[],
            is_behind_connections: false,
        };
        let (saturated, reasons) = saturated(agents.iter(), &whole);
        (saturated, reasons.len())
    }

    #[test]
    fn one_agent_at_its_limit_is_the_limit_of_the_whole() {
        let in_time = &[(10, 1000)];
        assert_eq!(judged(&[Some(true), Some(false)], in_time), (Some(true), 1));
        assert_eq!(judged(&[Some(true), None], in_time), (Some(true), 1), "nothing was due on the second");
        assert_eq!(judged(&[None, Some(false)], in_time), (Some(false), 0));
        // In the closed mode nobody knows.
        assert_eq!(judged(&[None, None], in_time), (None, 0));
    }

    #[test]
    fn the_lag_of_all_agents_together_is_judged() {
        let agents = &[Some(false), Some(false)];
        assert_eq!(judged(agents, &[(10, 121), (125_000, 2)]), (Some(true), 1));
        assert_eq!(judged(agents, &[(10, 122), (125_000, 1)]), (Some(false), 0), "one is no hundredth");
        assert_eq!(judged(agents, &[(10, 10), (125_000, 2)]), (Some(false), 0), "too few for a verdict");
    }
}
