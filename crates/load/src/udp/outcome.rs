//! The outcome of a load of datagrams, as a value and as JSON.

use serde::{Deserialize, Serialize};

use super::layers::LossByLayer;
use super::merge::UdpAgentShare;
use crate::histogram::LatencySummary;
use crate::host::{Host, Tool};
use crate::schedule::Schedule;
use crate::text::digits;

/// What became of each datagram. `sent` is `received`, `late`, `lost`, `corrupt` and `on_their_way` together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpOutcome {
    /// The form of this value: `anywire.udp/1`.
    pub schema: String,
    /// The tool that measured.
    pub tool: Tool,
    /// The machine that measured.
    pub host: Host,
    /// The service that was loaded.
    pub target: String,
    /// What was asked for.
    pub plan: UdpPlanFacts,
    /// Datagrams that were to be sent.
    pub intended: u64,
    /// Datagrams that the system took.
    pub sent: u64,
    /// Datagrams that the system refused: too large for the way, or no way.
    pub refused: u64,
    /// Why it refused the first of them.
    pub refused_because: Option<String>,
    /// Datagrams that came back in time, each counted once.
    pub received: u64,
    /// Datagrams that did not come back within twice the time that one may take.
    pub lost: u64,
    /// Datagrams that could still have come back when the run was ended early.
    #[serde(default)]
    pub on_their_way: u64,
    /// `lost` by `sent`; `null` if nothing was sent, as all shares and rates.
    pub loss: Option<f64>,
    /// Where they were lost.
    pub loss_by_layer: LossByLayer,
    /// Datagrams that came back after the time that one may take, and within twice that time.
    pub late: u64,
    /// Copies of datagrams that had come back already, and corrupt ones beyond those that are missing.
    pub duplicated: u64,
    /// Datagrams that came back after a later one of their flow (RFC 4737).
    pub reordered: u64,
    /// How many datagrams of its flow the worst of them came too late; 64 stands for more, too.
    pub reorder_extent_max: u64,
    /// Datagrams of a load whose bytes were changed: at most as many as did not come back whole.
    pub corrupt: u64,
    /// Datagrams that are none of this run.
    pub foreign: u64,
    /// How often the target's system said that nobody receives at its port.
    pub unreachable: u64,
    /// How fast it went.
    pub rate: UdpRate,
    /// How long datagrams took to come back.
    pub latency: UdpLatencies,
    /// System calls, and how much each did.
    pub calls: UdpCalls,
    /// The receive buffer of each socket.
    pub receive_buffer: UdpBuffer,
    /// Each loop's part.
    pub loops: Vec<UdpLoopShare>,
    /// How even the parts are.
    pub balance: UdpBalance,
    /// The machines of a run on several; empty if there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<UdpAgentShare>,
}

/// The plan in figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpPlanFacts {
    /// Datagrams a second; on average, if the rate changes.
    pub datagrams_per_second: f64,
    /// When they leave; `null` in results of earlier versions, which had even gaps.
    #[serde(default)]
    pub schedule: Option<Schedule>,
    /// How long to send.
    pub duration_seconds: f64,
    /// Bytes of a datagram.
    pub bytes: usize,
    /// Flows.
    pub flows: usize,
    /// Sockets.
    pub sockets: usize,
    /// How long a datagram may take to come back.
    pub wait_seconds: f64,
    /// Whether datagrams of a flow leave together.
    pub offload: bool,
}

/// How fast it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpRate {
    /// Datagrams a second that were sent.
    pub sent: Option<f64>,
    /// Datagrams a second that came back.
    pub received: Option<f64>,
    /// The share of the rate that this end kept until its end: below 1 it sent less or later than intended, so that the service may stand
    /// more.
    pub kept: Option<f64>,
    /// Whether this end was the limit: it kept less than 98 % of its rate and was 100 ms late at the end, so that nothing is known of the
    /// service. `null` if nothing was due, and in results of earlier versions.
    #[serde(default)]
    pub saturated: Option<bool>,
    /// How long after its time the latest datagram was sent, in microseconds.
    pub lag_us_max: Option<f64>,
    /// How long it took to send them; the last one has the time until the next, too.
    pub seconds: f64,
    /// Whether the run was ended early.
    pub interrupted: bool,
}

/// How long datagrams took from here and back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpLatencies {
    /// From the time at which each should have been sent. It counts what a sender that is behind adds, and up to a
    /// millisecond because those that are due are sent every millisecond.
    pub intended: Option<LatencySummary>,
    /// From the time at which each was handed to the system.
    pub sent: Option<LatencySummary>,
}

/// System calls of this end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpCalls {
    /// That sent.
    pub send: u64,
    /// That received.
    pub receive: u64,
    /// Datagrams that left in a call.
    pub datagrams_per_send: Option<f64>,
    /// Datagrams that came in a call.
    pub datagrams_per_receive: Option<f64>,
    /// Datagrams that the system had joined to a message: exactly 1 if it joins none.
    pub datagrams_per_message: Option<f64>,
}

/// A receive buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpBuffer {
    /// Bytes that were asked for.
    pub asked_bytes: usize,
    /// Bytes that the system gave.
    pub given_bytes: usize,
}

/// The part of one loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpLoopShare {
    /// Its number.
    pub id: usize,
    /// Its core, if it is pinned.
    pub core: Option<usize>,
    /// Datagrams that it sent.
    pub sent: u64,
    /// Datagrams that came back to it in time.
    pub received: u64,
    /// CPU time that it used.
    pub cpu_seconds: Option<f64>,
}

/// How even the parts of the loops are: the largest divided by the mean, 1 if all are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpBalance {
    /// Of the datagrams received.
    pub received_max_to_mean: Option<f64>,
    /// Of the CPU time.
    pub cpu_max_to_mean: Option<f64>,
}

impl UdpOutcome {
    /// As JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("an outcome holds only strings and finite numbers")
    }

    /// What makes the figures mean less than they seem to, in sentences.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.rate.interrupted {
            let (ran, planned) = (digits(self.rate.seconds), digits(self.plan.duration_seconds));
            remarks.push(format!("The run was ended early: the figures are of {ran} of {planned} s."));
        }
        let lost = self.agents.iter().filter(|share| share.agent.lost.is_some()).count();
        if lost > 0 {
            remarks.push(format!(
                "{lost} of {} agents were lost: the figures are of the others.",
                self.agents.len()
            ));
        }
        remarks.extend(
            self.shortfall()
                .map(|found| format!("The rate was not kept: {found}: give the load more loops or cores.")),
        );
        if self.unreachable > 0 {
            remarks.push(format!("Nobody receives at {}, as its system says.", self.target));
        }
        if self.receive_buffer.given_bytes < self.receive_buffer.asked_bytes {
            remarks.push(format!(
                "The system gave a receive buffer of {} bytes instead of {}: raise net.core.rmem_max.",
                self.receive_buffer.given_bytes, self.receive_buffer.asked_bytes
            ));
        }
        if let Some(because) = &self.refused_because {
            remarks.push(format!("The system refused {} datagrams: {because}.", self.refused));
        }
        remarks
    }

    /// Whether this end sent as fast as it was asked to.
    pub fn kept_its_rate(&self) -> bool {
        self.rate.kept.is_some_and(|kept| kept >= RATE_KEPT)
    }

    /// What is wrong if this end did not keep its rate.
    fn shortfall(&self) -> Option<String> {
        let kept = self.rate.kept.filter(|kept| *kept < RATE_KEPT)?;
        Some(format!("this end kept {} % of its rate, so the service may stand more", digits(kept * 100.0)))
    }

    /// What is wrong if this end was the limit ([`UdpRate::saturated`]).
    pub fn saturation(&self) -> Option<String> {
        self.shortfall().filter(|_| self.rate.saturated == Some(true))
    }
}

/// Whether a sender that kept this share of its rate, and was so late at the end, was the limit itself. In a short run one late wake-up
/// takes more than its share of the time.
pub(super) fn is_saturated(kept: f64, late_seconds: f64) -> bool {
    kept < RATE_KEPT && late_seconds > LATE_SECONDS_MAX
}

/// The form of a [`UdpOutcome`].
pub(crate) const SCHEMA: &str = "anywire.udp/1";
/// Below this share of the rate the sender, and not the service, was measured.
const RATE_KEPT: f64 = 0.98;
const LATE_SECONDS_MAX: f64 = 0.1;
