//! The accounts of several agents as one: counts are added, and histograms merged to the bucket.

use serde::{Deserialize, Serialize};

use super::layers::LossByLayer;
use super::outcome::{UdpBalance, UdpBuffer, UdpCalls, UdpLatencies, UdpOutcome, UdpRate};
use super::plan::UdpPlan;
use super::run::{max_to_mean, ratio};
use crate::agents::{Agent, Part, merged_summaries};
use crate::hdr::HdrError;
use crate::text::{grouped, known, whole};

/// What one agent of a load of datagrams from several machines did; `null` if it was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpAgentShare {
    /// The agent; its fields stand beside the others in JSON.
    #[serde(flatten)]
    pub agent: Agent,
    /// Datagrams that it sent.
    pub sent: Option<u64>,
    /// Datagrams that came back to it in time.
    pub received: Option<u64>,
    /// How fast it went.
    pub rate: Option<UdpRate>,
}

impl UdpAgentShare {
    fn of(part: &Part<UdpOutcome>) -> Self {
        let (agent, outcome) = (&part.agent, part.outcome.as_ref());
        Self {
            agent: agent.on(outcome.map(|outcome| &outcome.host)),
            sent: outcome.map(|outcome| outcome.sent),
            received: outcome.map(|outcome| outcome.received),
            rate: outcome.map(|outcome| outcome.rate.clone()),
        }
    }

    /// What it did, in a line.
    pub(crate) fn line(&self) -> String {
        let Self { agent: Agent { address, lost, .. }, sent, received, .. } = self;
        match (lost, sent, received) {
            (None, Some(sent), Some(received)) => {
                let rate = known(self.rate.as_ref().and_then(|rate| rate.sent), whole);
                format!("{} sent, {} received, {rate}/s, {address}", grouped(*sent), grouped(*received))
            }
            (why, ..) => format!("lost: {}, {address}", why.as_deref().unwrap_or("unknown")),
        }
    }
}

/// All parts as one outcome; `None` if no agent has given one.
///
/// # Errors
/// The histogram of an agent is none: the part of that agent counts as lost before this is asked again.
pub(crate) fn merged(
    plan: &UdpPlan,
    parts: &[Part<UdpOutcome>],
) -> Result<Option<UdpOutcome>, (usize, HdrError)> {
    let outcomes = || parts.iter().filter_map(|part| part.outcome.as_ref());
    let Some(first) = outcomes().next() else { return Ok(None) };
    let sum = |of: fn(&UdpOutcome) -> u64| outcomes().map(of).fold(0, u64::saturating_add);
    let (sent, received, lost) = (sum(|one| one.sent), sum(|one| one.received), sum(|one| one.lost));
    let mut loops: Vec<_> = outcomes().flat_map(|one| one.loops.iter().cloned()).collect();
    loops.iter_mut().enumerate().for_each(|(id, share)| share.id = id);
    let received_of: Vec<_> = loops.iter().map(|one| Some(one.received as f64)).collect();
    let cpu_of: Vec<_> = loops.iter().map(|one| one.cpu_seconds).collect();
    let all: Vec<&UdpOutcome> = outcomes().collect();
    let mut facts = first.plan.clone();
    (facts.datagrams_per_second, facts.schedule) = (plan.schedule.shape.mean(), Some(plan.schedule));
    (facts.flows, facts.sockets) = (plan.flows, plan.sockets());
    Ok(Some(UdpOutcome {
        plan: facts,
        intended: sum(|one| one.intended),
        sent,
        refused: sum(|one| one.refused),
        refused_because: outcomes().find_map(|one| one.refused_because.clone()),
        received,
        lost,
        on_their_way: sum(|one| one.on_their_way),
        loss: ratio(lost as f64, sent as f64),
        loss_by_layer: losses(&all, lost),
        late: sum(|one| one.late),
        duplicated: sum(|one| one.duplicated),
        reordered: sum(|one| one.reordered),
        reorder_extent_max: outcomes().map(|one| one.reorder_extent_max).max().unwrap_or(0),
        corrupt: sum(|one| one.corrupt),
        foreign: sum(|one| one.foreign),
        unreachable: sum(|one| one.unreachable),
        rate: rate(&all, sent, received),
        latency: UdpLatencies {
            intended: merged_summaries(parts, |one| one.latency.intended.as_ref())?,
            sent: merged_summaries(parts, |one| one.latency.sent.as_ref())?,
        },
        calls: calls(&all, sent),
        receive_buffer: UdpBuffer {
            asked_bytes: first.receive_buffer.asked_bytes,
            given_bytes: outcomes().map(|one| one.receive_buffer.given_bytes).min().unwrap_or(0),
        },
        balance: UdpBalance {
            received_max_to_mean: max_to_mean(&received_of),
            cpu_max_to_mean: max_to_mean(&cpu_of),
        },
        loops,
        agents: parts.iter().map(UdpAgentShare::of).collect(),
        ..first.clone()
    }))
}

fn rate(all: &[&UdpOutcome], sent: u64, received: u64) -> UdpRate {
    let seconds = all.iter().map(|one| one.rate.seconds).fold(0.0, f64::max);
    UdpRate {
        sent: ratio(sent as f64, seconds),
        received: ratio(received as f64, seconds),
        // One that was behind makes it another load.
        kept: all.iter().filter_map(|one| one.rate.kept).reduce(f64::min),
        saturated: all.iter().filter_map(|one| one.rate.saturated).reduce(|any, one| any | one),
        lag_us_max: all.iter().filter_map(|one| one.rate.lag_us_max).reduce(f64::max),
        seconds,
        interrupted: all.iter().any(|one| one.rate.interrupted),
    }
}

/// Each machine has counters of its own. The target's sockets are on one of them at most, and each agent there has seen all that they
/// dropped. Agents that share a machine count its namespace and devices twice, so that fewer are unexplained, and never more.
fn losses(all: &[&UdpOutcome], lost: u64) -> LossByLayer {
    let layers = || all.iter().map(|one| &one.loss_by_layer);
    let sum = |of: fn(&LossByLayer) -> Option<u64>| {
        layers().map(of).try_fold(0_u64, |sum, part| Some(sum.saturating_add(part?)))
    };
    let here = layers().map(|one| one.socket_here).fold(0, u64::saturating_add);
    let there = layers().filter_map(|one| one.socket_there).max();
    let [namespace, device, send_queue] =
        [sum(|one| one.namespace), sum(|one| one.device), sum(|one| one.send_queue)];
    let mut unread: Vec<String> = layers().flat_map(|one| one.unread.iter().cloned()).collect();
    unread.sort();
    unread.dedup();
    LossByLayer {
        socket_here: here,
        socket_there: there,
        namespace,
        device,
        send_queue,
        unread,
        ..LossByLayer::default()
    }
    .of(lost)
}

fn calls(all: &[&UdpOutcome], sent: u64) -> UdpCalls {
    let count = |of: fn(&UdpCalls) -> u64| all.iter().map(|one| of(&one.calls)).fold(0, u64::saturating_add);
    let (send, receive) = (count(|calls| calls.send), count(|calls| calls.receive));
    // Each agent has the ratio of its own; what came, and in how many messages, follows from it.
    let came = |one: &UdpOutcome| one.calls.datagrams_per_receive.unwrap_or(0.0) * one.calls.receive as f64;
    let messages = |one: &UdpOutcome| one.calls.datagrams_per_message.map_or(0.0, |each| came(one) / each);
    let (all_came, all_messages): (f64, f64) =
        (all.iter().map(|one| came(one)).sum(), all.iter().map(|one| messages(one)).sum());
    UdpCalls {
        send,
        receive,
        datagrams_per_send: ratio(sent as f64, send as f64),
        datagrams_per_receive: ratio(all_came, receive as f64),
        datagrams_per_message: ratio(all_came, all_messages),
    }
}
