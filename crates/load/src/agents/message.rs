//! What a leader and an agent say to each other. The leader speaks first, and each end states its version in its first message.
//!
//! A message is `{"NAME": {..}}`, or `"NAME"` if it has nothing to say: with the name inside, serde would read the keys of maps as text
//! alone, and statuses are numbers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{Counts, RunPhase};
use crate::outcome::Outcome;
use crate::plan::Plan;
#[cfg(feature = "udp")]
use crate::udp::{UdpOutcome, UdpPlan};

/// From the leader.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToAgent {
    /// The first message.
    Hello(Greeting),
    /// Asks for the agent's clock.
    Ping { number: u32 },
    /// The agent's part.
    Job { plan: Box<Plan> },
    /// The agent's part of a load of datagrams.
    #[cfg(feature = "udp")]
    DatagramJob { plan: Box<UdpPlan> },
    /// Begin when your clock says this.
    Start { at_ns: u64 },
    /// End now, with the result so far.
    Stop,
}

/// From an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToLeader {
    /// The answer to the greeting.
    Welcome {
        #[serde(flatten)]
        greeting: Greeting,
        /// Its index, if it has one of its own, and how many it believes there are.
        place: Option<Place>,
        /// What the clock on its wall says, in seconds since 1970.
        unix_seconds: f64,
    },
    /// It takes no plan from this leader.
    Refused { reason: String },
    /// Its clock.
    Pong { number: u32, clock_ns: u64 },
    /// It has checked its part, and waits for the start.
    Ready,
    /// How it goes.
    Progress(Box<Progress>),
    /// Its result.
    Done { outcome: Box<Outcome> },
    /// Its result of a load of datagrams.
    #[cfg(feature = "udp")]
    DatagramsDone { outcome: Box<UdpOutcome> },
    /// It could not do its part.
    Failed { found: String, help: Option<String> },
}

/// Who speaks. Later versions may add to it; they never change the meaning of these fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Greeting {
    /// The version of these messages.
    pub(crate) protocol: u32,
    /// The version of the program, which must be the same: plans and results are its own.
    pub(crate) version: String,
    /// What both must know, if they are to know anything.
    pub(crate) token: Option<String>,
}

impl Greeting {
    pub(crate) fn ours(token: Option<&str>) -> Self {
        Self { protocol: PROTOCOL, version: VERSION.to_owned(), token: token.map(str::to_owned) }
    }

    /// The other end's version, if it is another one.
    pub(crate) fn other_version(&self) -> Option<String> {
        let is_ours = self.protocol == PROTOCOL && self.version == VERSION;
        (!is_ours).then(|| format!("anywire {} (protocol {})", self.version, self.protocol))
    }

    /// Whether it has the token that is asked for. Without one anybody may come.
    pub(crate) fn knows(&self, token: Option<&str>) -> bool {
        let Some(token) = token else { return true };
        let shown = self.token.as_deref().unwrap_or_default();
        // All bytes are looked at, so that the time tells nothing of them.
        let differing = token.bytes().zip(shown.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
        token.len() == shown.len() && differing == 0
    }
}

/// The place of an agent that has one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) index: usize,
    pub(crate) of: usize,
}

/// How it goes at an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) phase: RunPhase,
    pub(crate) up: Duration,
    pub(crate) measured: Option<Duration>,
    pub(crate) counts: Counts,
    /// The histogram of what was measured since the last message.
    pub(crate) hdr: Option<String>,
}

impl Progress {
    /// That of a load of datagrams, of which so many were sent and came back.
    #[cfg(feature = "udp")]
    pub(crate) fn of_datagrams(up: Duration, (sent, answered): (u64, u64)) -> Self {
        let counts = Counts { sent, answered, ..Counts::default() };
        Self { phase: RunPhase::Measuring, up, measured: Some(up), counts, hdr: None }
    }
}

/// The version of these messages.
pub(crate) const PROTOCOL: u32 = 1;
/// The version of the program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_or_not_asked_for() {
        let with = |token| Greeting::ours(token);
        assert!(
            with(None).knows(None) && with(Some("any")).knows(None) && with(Some("one")).knows(Some("one"))
        );
        for wrong in [None, Some(""), Some("on"), Some("onE"), Some("ones")] {
            assert!(!with(wrong).knows(Some("one")), "{wrong:?}");
        }
    }

    #[test]
    fn another_version_is_read_and_named() {
        let text = r#"{"hello":{"protocol":2,"version":"9.9.9","token":null,"colour":"blue"}}"#;
        let Ok(ToAgent::Hello(greeting)) = serde_json::from_str(text) else { panic!("it is a greeting") };
        assert_eq!(greeting.other_version().as_deref(), Some("anywire 9.9.9 (protocol 2)"));
        assert_eq!(Greeting::ours(None).other_version(), None);
    }
}
