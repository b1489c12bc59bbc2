//! The outcome of a run as a typed value, which is also its JSON (`anywire.load/1`). Unknown figures are `null`, never 0.

use std::collections::BTreeMap;

use anywire_advice::Message;
use serde::{Deserialize, Serialize};

use crate::agents::AgentShare;
use crate::errors::{ErrorCounts, ErrorKind, ErrorSample};
use crate::histogram::LatencySummary;
use crate::host::{Host, Tool};
use crate::intervals::IntervalFigures;
use crate::plan::Reuse;
use crate::requests::{EventFigures, RequestFigures};
use crate::require::Threshold;
use crate::rounds::Round;
use crate::schedule::Schedule;
use crate::script::CookieFigures;
use crate::search::SearchFigures;

/// All that a run found out. `Display` prints it as a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The form of this object: `anywire.load/1`.
    pub schema: String,
    /// What measured.
    pub tool: Tool,
    /// Where.
    pub host: Host,
    /// What was loaded.
    pub target: TargetFacts,
    /// How.
    pub plan: PlanFacts,
    /// Counts.
    pub totals: Totals,
    /// Requests per second.
    pub rate: Rate,
    /// Latencies.
    pub latency: Latencies,
    /// What the generator itself used.
    pub generator: Generator,
    /// What the kernel saw on the wire.
    #[serde(default)]
    pub wire: WireFigures,
    /// The parts of the time, if the rate changes: then no figure of all latencies says anything. Empty otherwise.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// What each loop did.
    pub loops: Vec<LoopShare>,
    /// What became of each request of a script; empty unless it has several.
    #[serde(default)]
    pub requests: Vec<RequestFigures>,
    /// The events of streamed bodies; `null` unless they were timed.
    #[serde(default)]
    pub events: Option<EventFigures>,
    /// The cookies that answers set; `null` unless a sequence keeps them.
    #[serde(default)]
    pub cookies: Option<CookieFigures>,
    /// The busiest loop's requests over the mean of all; `null` without a response. 1 is even.
    pub balance: Option<f64>,
    /// The machines of a run on several ([`agents`](crate::agents)); empty if there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentShare>,
    /// What the run was required to keep to, and whether it did; empty if nothing was required ([`judge`](crate::judge)).
    #[serde(default)]
    pub thresholds: Vec<Threshold>,
    /// The search whose best run this is, with all that was tried; `null` if the run stands alone.
    #[serde(default)]
    pub search: Option<SearchFigures>,
    /// The rounds of which this is the whole; empty if it was measured in one run.
    #[serde(default)]
    pub rounds: Vec<Round>,
    /// The command that made it, as a shell takes it, without secrets; `null` if a program did.
    #[serde(default)]
    pub command: Option<String>,
    /// The measured part over time; empty if nobody recorded it ([`Recorder`](crate::Recorder)).
    #[serde(default)]
    pub intervals: Vec<IntervalFigures>,
}

impl Outcome {
    /// The JSON of this outcome, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("an outcome holds only strings, numbers and lists")
    }
}

/// What was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// The URL.
    pub url: String,
    /// The wire: the scheme of `address`.
    pub wire: String,
    /// The address that was dialled.
    pub address: String,
    /// The protocol: `http/1.1` or `http/2`.
    pub protocol: String,
}

/// How it was loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// `closed`: a new request leaves when a response comes, so that a stall of the server also stops the requests
    /// that would have shown it. `open`: requests leave by a schedule, whatever the server does.
    pub mode: String,
    /// The schedule of the open mode; `null` in the closed one.
    #[serde(default)]
    pub schedule: Option<Schedule>,
    /// Requests that were later than this were not sent, in seconds; `null` if each was to be sent.
    #[serde(default)]
    pub deadline_seconds: Option<f64>,
    /// Which of the connections that had room took the next request; `null` in the closed mode.
    #[serde(default)]
    pub reuse: Option<Reuse>,
    /// Requests on one connection, which was then opened anew; `null` if any number.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// The method; of a script each of its methods, with commas between them.
    pub method: String,
    /// The length of one encoded request, in bytes. Over HTTP/2 that of a connection's first: later ones are shorter.
    pub request_bytes: usize,
    /// Connections asked for.
    pub connections: usize,
    /// Requests in flight on each; over HTTP/2 that many streams.
    pub depth: usize,
    /// Length of the measured part that was asked for, in seconds; `null` if a number of requests was.
    pub duration_seconds: Option<f64>,
    /// Requests that were asked for; `null` if a duration was.
    pub requests: Option<u64>,
    /// Load before the measured part, in seconds.
    pub warm_up_seconds: f64,
    /// Longest wait for a response, in seconds.
    pub timeout_seconds: f64,
}

/// The counts of a run, or of one loop in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The requests that were sent after the warm-up, and if a time is measured those that were on their way at its begin.
    /// Failures to connect are among their errors, whenever they were:
    /// nothing else shows why a connection is missing.
    #[serde(flatten)]
    pub measured: Requests,
    /// Requests of the plan that were never sent, because the run ended before; `null` if a duration was asked for without a rate.
    pub unsent: Option<u64>,
    /// Bytes of the requests that the wire has taken; of the measured part, like all that follow.
    pub bytes_out: u64,
    /// Bytes of the whole responses: their heads, framing and bodies, with interim responses before them.
    pub bytes_in: u64,
    /// Bytes of the bodies among these.
    pub body_bytes_in: u64,
    /// Connections.
    pub connections: Connections,
    /// Connections opened by the address of the peer; empty on wires without IP addresses.
    #[serde(default)]
    pub addresses: BTreeMap<String, u64>,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// The requests of the warm-up, which are in no other figure.
    pub warm_up: Requests,
}

impl Totals {
    /// Adds the counts of another loop, or of another machine, which may claim anything.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.measured.merge(&other.measured);
        self.warm_up.merge(&other.warm_up);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.body_bytes_in = self.body_bytes_in.saturating_add(other.body_bytes_in);
        let (all, of_loop) = (&mut self.connections, &other.connections);
        all.opened = all.opened.saturating_add(of_loop.opened);
        all.lost = all.lost.saturating_add(of_loop.lost);
        all.finished = all.finished.saturating_add(of_loop.finished);
        all.renewed = all.renewed.saturating_add(of_loop.renewed);
        all.given_up = all.given_up.saturating_add(of_loop.given_up);
        all.never_open = all.never_open.saturating_add(of_loop.never_open);
        all.open_at_start = all.open_at_start.saturating_add(of_loop.open_at_start);
        all.open_at_end = all.open_at_end.saturating_add(of_loop.open_at_end);
        all.streams_allowed = all.streams_allowed.into_iter().chain(of_loop.streams_allowed).min();
        for (address, count) in &other.addresses {
            let all = self.addresses.entry(address.clone()).or_default();
            *all = all.saturating_add(*count);
        }
        for (status, count) in &other.statuses {
            let all = self.statuses.entry(*status).or_default();
            *all = all.saturating_add(*count);
        }
    }

    /// The requests of one part of the run.
    pub(crate) fn part(&mut self, measured: bool) -> &mut Requests {
        if measured { &mut self.measured } else { &mut self.warm_up }
    }
}

/// What became of the requests that were sent in one part of the run, whenever that was.
/// `sent` = `answered` + `timed_out` + `reset` + `unanswered_at_close` + `unanswered_at_end`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests that left, or began to, in this part.
    pub sent: u64,
    /// Those whose whole response came.
    pub answered: u64,
    /// Those that waited longer than the timeout.
    pub timed_out: u64,
    /// Requests that were not sent, because they were later than the plan's deadline when a connection could have taken them. They
    /// are in no other count and in no latency.
    #[serde(default)]
    pub shed: u64,
    /// Those whose stream was reset or refused; only over HTTP/2.
    #[serde(default)]
    pub reset: u64,
    /// Those lost with a connection that ended, by whosever fault.
    pub unanswered_at_close: u64,
    /// How often a request was taken back to be sent once more, because the peer had announced not to act on it (RFC 9112 section
    /// 9.6, RFC 9113 section 6.8). Each is one request in the other counts, and none if no later connection took it.
    #[serde(default)]
    pub sent_again: u64,
    /// What the peer said with the first of these announcements: the code and the text of its `GOAWAY`. `None` over HTTP/1, and if
    /// there was none.
    #[serde(default)]
    pub announced: Option<String>,
    /// Those still on their way when the run ended; they are no error.
    pub unanswered_at_end: u64,
    /// How long the oldest of these had waited, in microseconds; `null` if there was none.
    pub oldest_unanswered_us: Option<f64>,
    /// Errors of these requests by kind.
    pub errors: ErrorCounts,
    /// The first error of each kind in words.
    pub error_samples: Vec<ErrorSample>,
}

impl Requests {
    /// Answers that are as the plan expects them: neither an error of the kind `status` nor of the kind `check`.
    pub fn good(&self) -> u64 {
        let bad = self.errors.of(ErrorKind::Status).saturating_add(self.errors.of(ErrorKind::Check));
        self.answered.saturating_sub(bad)
    }

    /// Those of which nothing has become yet.
    pub(crate) fn on_their_way(&self) -> u64 {
        let ended =
            self.answered + self.timed_out + self.reset + self.unanswered_at_close + self.unanswered_at_end;
        self.sent.saturating_sub(ended)
    }

    /// Counts an error, and keeps the words of the first of its kind.
    pub(crate) fn error<M: Into<Message>>(&mut self, kind: ErrorKind, message: impl FnOnce() -> M) {
        self.errors.count(kind);
        if self.error_samples.iter().all(|sample| sample.kind != kind) {
            self.error_samples.push(ErrorSample::new(kind, message().into()));
        }
    }

    /// Notes how long a request had waited that was still on its way at the end.
    pub(crate) fn note_unanswered(&mut self, us: Option<f64>) {
        self.oldest_unanswered_us = self.oldest_unanswered_us.into_iter().chain(us).reduce(f64::max);
    }

    fn merge(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.answered = self.answered.saturating_add(other.answered);
        self.timed_out = self.timed_out.saturating_add(other.timed_out);
        self.shed = self.shed.saturating_add(other.shed);
        self.reset = self.reset.saturating_add(other.reset);
        self.unanswered_at_close = self.unanswered_at_close.saturating_add(other.unanswered_at_close);
        self.sent_again = self.sent_again.saturating_add(other.sent_again);
        self.unanswered_at_end = self.unanswered_at_end.saturating_add(other.unanswered_at_end);
        self.announced = self.announced.take().or_else(|| other.announced.clone());
        self.note_unanswered(other.oldest_unanswered_us);
        self.errors.merge(&other.errors);
        // One of each kind is enough, whichever loop saw it.
        self.error_samples.extend_from_slice(&other.error_samples);
        self.error_samples.sort_by_key(|sample| sample.kind);
        self.error_samples.dedup_by_key(|sample| sample.kind);
    }
}

/// Connections of a run, from its first dial to its end. `opened` is `lost`, `finished`, `renewed` and `open_at_end` together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Opened in all, with those opened anew.
    pub opened: u64,
    /// Ended before the run did.
    pub lost: u64,
    /// Closed by this end before the run's end, since all requests of the plan had been sent and answered.
    #[serde(default)]
    pub finished: u64,
    /// Closed by this end, since they had had as many requests as the plan wants on one; each is followed by a new one.
    #[serde(default)]
    pub renewed: u64,
    /// Given up after too many failures in a row.
    pub given_up: u64,
    /// Connections of the plan that were not open at any time, whether they were given up or not.
    #[serde(default)]
    pub never_open: u64,
    /// Really open when the measured part began.
    pub open_at_start: u64,
    /// Really open when it ended.
    pub open_at_end: u64,
    /// The fewest streams that the peer allowed on a connection, if these were fewer than the depth; only over HTTP/2.
    #[serde(default)]
    pub streams_allowed: Option<u64>,
}

/// How fast it went.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests per second that the schedule asks for, on average over the measured part; `null` in the closed mode.
    #[serde(default)]
    pub target: Option<f64>,
    /// Requests that were due in the measured part, as far as it went; `null` in the closed mode.
    #[serde(default)]
    pub intended: Option<u64>,
    /// The share of these that had left by its end; `null` in the closed mode.
    #[serde(default)]
    pub rate_ratio: Option<f64>,
    /// Answers per second of the measured part; in the open mode, requests that left in it per second of `schedule_seconds`. `null`
    /// if the run ended before it.
    pub achieved: Option<f64>,
    /// The time of the requests that left, in seconds: to the end of the measured part, or until the next one would have been due if
    /// that is later. `null` in the closed mode.
    #[serde(default)]
    pub schedule_seconds: Option<f64>,
    /// The length of the measured part, in seconds.
    pub seconds: f64,
    /// Whether the run was ended early.
    pub interrupted: bool,
    /// Whether the run ended before the plan was carried out, because every connection that could go on with it was
    /// given up (see [`Limits::failures_in_a_row`](crate::Limits)): the server is not there, or died.
    pub given_up: bool,
}

/// Latencies, by the moment from which they count.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// From when a request should have left to the read of its whole response: the one to trust. `null` without a rate, and if the
    /// rate changes with time.
    #[serde(default)]
    pub intended: Option<LatencySummary>,
    /// From the write of a request to the read of its whole response; `null` without a response. With requests that
    /// timed out, at the age at which they were given up.
    pub send: Option<LatencySummary>,
    /// From when a request should have left to its write: `intended` is this and `send` together. `null` as `intended` is.
    #[serde(default)]
    pub lag: Option<LatencySummary>,
    /// From the write of a request to the read that brought the first byte of its response.
    #[serde(default)]
    pub first_byte: Option<LatencySummary>,
    /// From the dial of a connection to its being there, with the resolution of its name and without TLS; of the whole run, whose
    /// connections are mostly made before the measured part.
    #[serde(default)]
    pub connect: Option<LatencySummary>,
    /// The handshakes of TLS, of the whole run; `null` without TLS.
    #[serde(default)]
    pub tls: Option<LatencySummary>,
    /// What the server says that it took (`Server-Timing`, or the field that the plan names); `null` if no response says it.
    #[serde(default)]
    pub server: Option<LatencySummary>,
    /// From the send, by class of status: `2xx`, `4xx`. Only classes that were seen: fast errors make the whole look good.
    #[serde(default)]
    pub by_status: BTreeMap<String, LatencySummary>,
}

/// What the generator used during the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time of its loops in user code, in microseconds.
    pub cpu_user_us: Option<f64>,
    /// CPU time of its loops in the kernel, in microseconds.
    pub cpu_sys_us: Option<f64>,
    /// Both together per answer.
    pub cpu_us_per_request: Option<f64>,
    /// How often its loops left their cores because they had to wait.
    #[serde(default)]
    pub voluntary_switches: Option<u64>,
    /// How often they did because the scheduler gave the core to another thread.
    #[serde(default)]
    pub involuntary_switches: Option<u64>,
    /// System calls of its loops per answer; `null` unless the plan has them counted, and if the system forbids it.
    #[serde(default)]
    pub syscalls_per_request: Option<f64>,
    /// These by name.
    #[serde(default)]
    pub syscalls_by_name: Option<BTreeMap<String, f64>>,
    /// Whether this end was too slow for its own schedule, so that nothing can be said of the server; `null` without a schedule, or if
    /// the run ended before the measured part.
    #[serde(default)]
    pub saturated: Option<bool>,
    /// Why.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// How late requests left that had a connection with room: the part of the lag which is the fault of this end.
    #[serde(default)]
    pub lag: Option<LatencySummary>,
    /// The longest of these, in microseconds.
    #[serde(default)]
    pub max_schedule_lag_us: Option<f64>,
    /// How the loops waited for the moments of the schedule; `null` without one.
    #[serde(default)]
    pub pacing: Option<PacingFacts>,
    /// `generator` if a loop was busy for more than 95 % of the time: then the server was perhaps not at its limit.
    /// `connections` if requests of a schedule were left that no connection had room for: the server is slower than the rate, or the
    /// connections are too few.
    pub limited_by: Option<String>,
}

/// What the kernel saw on the wire during the measured part; `null` on wires without segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WireFigures {
    /// Data segments that arrived per response. Above `expected_segments_per_response` the server splits its writes.
    pub segments_per_response: Option<f64>,
    /// The segments that a response of that length needs alone. With several requests in flight there may be fewer.
    pub expected_segments_per_response: Option<f64>,
    /// Segments that this end sent again.
    pub retransmits: Option<u64>,
    /// The round trip as the kernel smoothes it, at the end, mean of all connections.
    pub round_trip_us: Option<f64>,
}

/// How the loops waited for the moments of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PacingFacts {
    /// `timerfd`, which is exact to some 50 us, or `runtime`, which is exact to a millisecond.
    pub timer: String,
    /// How long before each moment they began to spin, in microseconds.
    pub spin_us: f64,
    /// CPU time of all loops that was spent in spinning with nothing else to do, in microseconds. It is in `cpu_user_us` and
    /// `cpu_sys_us` too.
    pub spun_us: f64,
}

/// A part of the measured time of a rate that changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When it began, in seconds from the begin of the measured part.
    pub begin_seconds: f64,
    /// When it ended, or was to end.
    pub end_seconds: f64,
    /// Requests per second that the schedule asks for in it; of a ramp, in its middle.
    pub target: f64,
    /// Requests that were due in it, as far as the run went.
    pub intended: u64,
    /// Those of them that left, whenever that was.
    pub sent: u64,
    /// Those of them whose response came.
    pub answered: u64,
    /// Latencies of these requests.
    pub latency: Latencies,
}

/// What one loop did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopShare {
    /// Its number.
    pub id: usize,
    /// Its core, if it is pinned.
    pub core: Option<usize>,
    /// Answers.
    pub requests: u64,
    /// Connections that it had open at the end.
    pub connections: u64,
    /// Its CPU time as a share of the measured part, 0 .. 1.
    pub busy: Option<f64>,
}

/// The form of an [`Outcome`].
pub const SCHEMA: &str = "anywire.load/1";
