//! One load from several machines: a leader gives each agent its part of the plan, all begin at one moment, and the histograms of all
//! are merged to the bucket.
//!
//! An agent is the same program on another machine. Either it waits for leaders ([`serve`]) and a leader is told where its agents are
//! ([`Members::Listed`]), or each has an index and joins the one with index 0 ([`join`], [`Members::Joining`]), as the pods of an Indexed
//! Job of Kubernetes do. The leader of the first kind generates no load; that of the second has a part of it.
//!
//! They speak over any wire in frames of a length and a JSON (`message`, `link`). Nothing is encrypted unless the wire does it, and the
//! token keeps out who stumbles in, not who listens on the way. Clocks need not agree: the leader asks each agent for its own clock
//! and takes the offset of the fastest answer (`clock`).
//!
//! What a leader waits for has a deadline, and what an agent may send has a limit ([`TeamLimits`]). An agent that is lost while the load
//! runs is named in the result, and the others' figures stay valid.

mod agent;
#[cfg(fuzzing)]
pub mod alone;
mod clock;
mod error;
mod job;
mod leader;
mod link;
mod member;
mod merge;
mod message;
mod parts;
mod work;

use std::time::Duration;

#[cfg(feature = "udp")]
pub use agent::join_datagrams;
pub use agent::{AgentEvent, AgentOptions, join, serve};
pub use error::{AgentError, LinkError, TeamError};
#[cfg(feature = "udp")]
pub use leader::lead_datagrams;
pub use leader::{Leading, Members, TeamOptions, TeamView, lead};
pub use merge::{Agent, AgentShare};
#[cfg(feature = "udp")]
pub(crate) use merge::{Part, merged_summaries};

/// What a leader and its agents allow each other.
#[derive(Debug, Clone)]
pub struct TeamLimits {
    /// Agents of one run (1000: the leader holds a connection and a histogram for each).
    pub agents: usize,
    /// A message before the other end has shown its token, in bytes (4 KiB: version and token).
    pub greeting_bytes: usize,
    /// Any later message, in bytes (32 MiB: a plan with a body of 16 MiB in base64; results are far smaller).
    pub message_bytes: usize,
    /// Until all agents have joined and are ready (2 min: the pods of a job start one after the other).
    pub gather: Duration,
    /// For an answer to one message (10 s).
    pub answer: Duration,
    /// How long an agent may be silent while it generates load (10 s; it tells each second how it goes).
    pub silence: Duration,
    /// Longest token, in bytes (1024).
    pub token_bytes: usize,
}

impl Default for TeamLimits {
    fn default() -> Self {
        Self {
            agents: 1000,
            greeting_bytes: 4096,
            message_bytes: 32 * 1024 * 1024,
            gather: Duration::from_secs(120),
            answer: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            token_bytes: 1024,
        }
    }
}
