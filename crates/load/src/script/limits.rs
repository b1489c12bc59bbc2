//! How much a script may hold, and how much of an answer is held for it.

use serde::{Deserialize, Serialize};

/// What a script allows itself, each with its default and the reason for it. What is over one is a
/// [`ScriptError::Limit`](super::ScriptError::Limit) before anything is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptLimits {
    /// Requests of all sequences together (10,000: each is held ready in memory).
    pub requests: usize,
    /// Requests whose latencies are told apart (64: each has a histogram of 220 KiB in each loop). If there are more, none has one;
    /// their counts stay.
    pub requests_with_latency: usize,
    /// All tables of data together, in bytes (64 MiB: they are held in memory, and go to each agent).
    pub data_bytes: usize,
    /// Variables of one sequence (64: each user has a place for each).
    pub variables: usize,
    /// Cookies of one user in a sequence that keeps them (50: what a client keeps for a domain at least, RFC 6265bis section 6.1). Each
    /// has up to 4 KiB. More are not kept, and counted in [`CookieFigures::over_limit`](super::CookieFigures::over_limit).
    pub cookies: usize,
    /// The most of a body that is held to keep a value of it, in bytes (1 MiB for each connection, or stream of HTTP/2).
    pub held_body_bytes: usize,
}

impl Default for ScriptLimits {
    fn default() -> Self {
        Self {
            requests: 10_000,
            requests_with_latency: 64,
            data_bytes: 64 << 20,
            variables: 64,
            cookies: 50,
            held_body_bytes: 1 << 20,
        }
    }
}
