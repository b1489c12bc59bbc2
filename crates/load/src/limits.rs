//! The limits of a load run: how much one plan may ask for, and when a connection gives up.

use std::time::Duration;

use anywire_http::HeadLimits;
use serde::{Deserialize, Serialize};

use crate::script::ScriptLimits;

/// What a run allows itself and its peer, each with its default and the reason for it.
///
/// What a plan asks for beyond a limit is a [`LoadError::Limit`](crate::LoadError::Limit) before anything is sent;
/// what the peer sends beyond one is an error of the kind `parse`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Connections in one plan (100,000: beyond it one machine has no ports left for one address).
    pub connections: usize,
    /// Requests in flight on one connection (4096: far beyond what any server reads ahead).
    pub depth: usize,
    /// One encoded request with its body, in bytes (16 MiB: it is held in memory once per loop).
    pub request_bytes: usize,
    /// A preencoded window, in bytes (256 KiB, what a socket buffer takes at once); a deeper window leaves in several
    /// writes.
    pub window_bytes: usize,
    /// Size and number of everything in a response's head and trailers.
    pub head: HeadLimits,
    /// Connections that one loop dials at the same time (128: a listener's backlog of 1024 must not overflow, since
    /// a dropped SYN costs a second).
    pub dials_at_once: usize,
    /// Failed attempts in a row, without a response between them, after which a connection is given up (8; with the
    /// pauses below that is about 0.6 s).
    pub failures_in_a_row: u32,
    /// Pause after the first failed attempt (5 ms); it doubles with each further one.
    pub backoff: Duration,
    /// Longest pause between attempts (1 s).
    pub backoff_max: Duration,
    /// Reads of one connection in a row before the other connections of its loop have their turn (16).
    pub reads_in_a_row: u32,
    /// Limits of a script.
    pub script: ScriptLimits,
    /// Longest warm-up, duration and timeout (24 h: beyond it the plan has a typing error).
    pub time: Duration,
}

impl Limits {
    /// These limits, but none of them above that of `most` which costs memory, connections or time where the plan is run. So a plan
    /// from elsewhere may not raise the limits by which it is judged.
    pub(crate) fn at_most(&self, most: &Self) -> Self {
        let (script, most_script) = (&self.script, &most.script);
        Self {
            connections: self.connections.min(most.connections),
            depth: self.depth.min(most.depth),
            request_bytes: self.request_bytes.min(most.request_bytes),
            window_bytes: self.window_bytes.min(most.window_bytes),
            dials_at_once: self.dials_at_once.min(most.dials_at_once),
            failures_in_a_row: self.failures_in_a_row.min(most.failures_in_a_row),
            backoff: self.backoff.max(most.backoff),
            reads_in_a_row: self.reads_in_a_row.clamp(1, most.reads_in_a_row),
            time: self.time.min(most.time),
            script: ScriptLimits {
                requests: script.requests.min(most_script.requests),
                requests_with_latency: script.requests_with_latency.min(most_script.requests_with_latency),
                data_bytes: script.data_bytes.min(most_script.data_bytes),
                variables: script.variables.min(most_script.variables),
                cookies: script.cookies.min(most_script.cookies),
                held_body_bytes: script.held_body_bytes.min(most_script.held_body_bytes),
            },
            ..self.clone()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 100_000,
            depth: 4096,
            request_bytes: 16 * 1024 * 1024,
            window_bytes: 256 * 1024,
            head: HeadLimits::default(),
            dials_at_once: 128,
            failures_in_a_row: 8,
            backoff: Duration::from_millis(5),
            backoff_max: Duration::from_secs(1),
            reads_in_a_row: 16,
            script: ScriptLimits::default(),
            time: Duration::from_secs(24 * 60 * 60),
        }
    }
}
