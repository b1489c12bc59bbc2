//! The outcome of a probe: what was measured, and the verdicts.

use serde::{Deserialize, Serialize};

use super::loops::LoopFacts;
use super::measures::{
    Clock, Compression, ConnectionFacts, Expectation, Gap, Head, Http2, Large, LatencyFacts, Many,
    Pipelining, Reads, Segments, ServerTiming, SlowPath, SlowReader, TcpFacts, TlsFacts,
};
use super::plan::Plan;
use super::server::{ListenerFacts, Server};
use super::target::Target;
use super::verdict::{Class, Severity, Verdict};
use crate::host::{Host, Tool};

/// The version of the JSON: fields may be added under the same name, and none changes its meaning.
pub const SCHEMA: &str = "anywire.probe/1";

/// What a probe has found. In JSON all fields are there, and what is not known is `null`; times are in microseconds unless a name says
/// otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program that measured.
    pub tool: Tool,
    /// The machine that measured.
    pub host: Host,
    /// The service.
    pub target: TargetFacts,
    /// What was asked for.
    pub plan: PlanFacts,
    /// The probe was ended early.
    pub interrupted: bool,
    /// Single requests: their connections.
    pub connection: Option<ConnectionFacts>,
    /// Single requests: data segments. `None` on wires that are none of TCP.
    pub segments: Option<Segments>,
    /// Single requests: reads.
    pub reads: Option<Reads>,
    /// Single requests: from head to body.
    pub gap: Option<Gap>,
    /// Single requests: from the sending to the last byte.
    pub latency: Option<LatencyFacts>,
    /// Single requests: what TCP says. `None` on wires that are none of TCP.
    pub tcp: Option<TcpFacts>,
    /// Single requests: the server's clock. `None` if no answer has a `Date`.
    pub clock: Option<Clock>,
    /// Single requests: the server's own time. `None` if no answer has a `Server-Timing` with one.
    pub server_timing: Option<ServerTiming>,
    /// Several requests in one write.
    pub pipelining: Option<Pipelining>,
    /// Many connections.
    pub many: Option<Many>,
    /// HEAD.
    pub head: Option<Head>,
    /// Codings.
    pub compression: Option<Compression>,
    /// `Expect: 100-continue`.
    pub expect: Option<Expectation>,
    /// A long answer. `None` if the answer of the URL is short.
    pub large: Option<Large>,
    /// A reader that pauses. `None` if the answer of the URL is short.
    pub slow_reader: Option<SlowReader>,
    /// A slow request beside quick ones. `None` if no path of a slow one was named.
    pub slow_path: Option<SlowPath>,
    /// HTTP/2. `None` if the server was not asked for it, or does not speak it.
    pub http2: Option<Http2>,
    /// TLS. `None` without it.
    pub tls: Option<TlsFacts>,
    /// The server's process. `None` if its number was not given.
    pub server: Option<Server>,
    /// Its event loops, while single requests were under way. `None` without its number, if this user may not look (root may), or if no
    /// thread waits for events.
    #[serde(default)]
    pub loops: Option<Vec<LoopFacts>>,
    /// The sockets that listen on the port, if the server's process was given.
    pub listeners: Option<Vec<ListenerFacts>>,
    /// Connections that the server's network namespace turned away during the probe, because an accept queue was full.
    pub listen_drops: Option<u64>,
    /// What could not be measured, and why.
    pub missing: Vec<Missing>,
    /// Patterns that were made a second time, because a rule had something to say of the first.
    pub repeated: Vec<String>,
    /// The verdicts, the worst first; [`Class::Clean`] alone if there is none.
    pub verdicts: Vec<Verdict>,
}

/// The service that was probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// The URL.
    pub url: String,
    /// The wire.
    pub wire: String,
    /// The address that was dialled.
    pub address: String,
    /// The version of HTTP.
    pub protocol: String,
    /// The status of the answer.
    pub status: Option<u16>,
    /// The length of its body.
    pub body_bytes: Option<u64>,
    /// What its `Server` says.
    pub server: Option<String>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// Single requests.
    pub requests: usize,
    /// Requests in one write.
    pub pipeline: usize,
    /// Connections at once.
    pub connections: usize,
    /// Longest wait for an answer, in ms.
    pub timeout_ms: u64,
    /// Longest time of one pattern, in ms.
    pub pattern_ms: u64,
    /// The server's process.
    pub pid: Option<i32>,
}

/// Something that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What, by its name in the JSON.
    pub what: String,
    /// Why not.
    pub why: String,
    /// What would help, if that is known.
    pub help: Option<String>,
}

impl Outcome {
    /// One that knows nothing yet.
    pub(super) fn of(target: &Target) -> Self {
        let plan: &Plan = &target.plan;
        let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            schema: SCHEMA.to_owned(),
            tool: Tool::this(),
            host: Host::without_loops(),
            target: TargetFacts {
                url: target.url.to_string(),
                wire: target.address.scheme().to_owned(),
                address: target.address.to_string(),
                protocol: plan.protocol.to_string(),
                status: None,
                body_bytes: None,
                server: None,
            },
            plan: PlanFacts {
                requests: plan.requests,
                pipeline: plan.pipeline,
                connections: plan.connections,
                timeout_ms: millis(plan.timeout),
                pattern_ms: millis(plan.pattern_time),
                pid: plan.pid,
            },
            interrupted: false,
            connection: None,
            segments: None,
            reads: None,
            gap: None,
            latency: None,
            tcp: None,
            clock: None,
            server_timing: None,
            pipelining: None,
            many: None,
            head: None,
            compression: None,
            expect: None,
            large: None,
            slow_reader: None,
            slow_path: None,
            http2: None,
            tls: None,
            server: None,
            loops: None,
            listeners: None,
            listen_drops: None,
            missing: Vec::new(),
            repeated: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// The verdicts of this severity and above.
    pub fn at_least(&self, severity: Severity) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(move |verdict| verdict.severity >= severity)
    }

    /// Whether no rule has anything to say.
    pub fn is_clean(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.class == Class::Clean)
    }
}
