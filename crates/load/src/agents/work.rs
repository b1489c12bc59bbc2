//! What several machines may do together: a load of requests, or one of datagrams. The leader divides it, tells it to its agents, and merges
//! what they give back. All else is the same for both.

use std::time::Duration;

use crate::agents::TeamLimits;
use crate::agents::error::TeamError;
use crate::agents::merge::{self, Part};
use crate::agents::message::{ToAgent, ToLeader};
use crate::handles::Handles;
use crate::hdr::HdrError;
use crate::outcome::Outcome;
use crate::plan::{Amount, Plan};
#[cfg(feature = "udp")]
use crate::udp::{UdpOutcome, UdpPlan, merged as merged_datagrams};

/// A plan that agents carry out together.
pub(crate) trait Work: Clone + Send + Sync + 'static {
    /// What it comes to.
    type Outcome: Send + 'static;

    /// The part of agent `index` of `of`.
    fn part(&self, index: usize, of: usize) -> Result<Self, TeamError>;

    /// Whether it can be carried out.
    fn check(&self, handles: &Handles) -> Result<(), TeamError>;

    /// How long it may take, from the start to its result; connections may take as long as all agents may to be there.
    fn longest(&self, limits: &TeamLimits) -> Duration;

    /// The message that tells it to an agent.
    fn job(self) -> ToAgent;

    /// The result that an agent gives; the message itself, if it is something else.
    fn result(message: ToLeader) -> Result<Self::Outcome, ToLeader>;

    /// All parts as one; `None` if no agent has given one. The error names the agent whose histogram is none.
    fn merged(&self, parts: &[Part<Self::Outcome>]) -> Result<Option<Self::Outcome>, (usize, HdrError)>;
}

impl Work for Plan {
    type Outcome = Outcome;

    fn part(&self, index: usize, of: usize) -> Result<Self, TeamError> {
        Ok(Self::part(self, index, of)?)
    }

    fn check(&self, handles: &Handles) -> Result<(), TeamError> {
        self.prepare(handles)?;
        Ok(())
    }

    /// Requests that are counted take as long as the target likes.
    fn longest(&self, limits: &TeamLimits) -> Duration {
        let Amount::Duration(time) = self.amount else { return Duration::MAX };
        [limits.gather, self.warm_up, self.timeout, limits.answer]
            .into_iter()
            .fold(time, Duration::saturating_add)
    }

    fn job(self) -> ToAgent {
        ToAgent::Job { plan: Box::new(self) }
    }

    fn result(message: ToLeader) -> Result<Outcome, ToLeader> {
        match message {
            ToLeader::Done { outcome } => Ok(*outcome),
            other => Err(other),
        }
    }

    fn merged(&self, parts: &[Part<Outcome>]) -> Result<Option<Outcome>, (usize, HdrError)> {
        merge::merged(self, parts)
    }
}

#[cfg(feature = "udp")]
impl Work for UdpPlan {
    type Outcome = UdpOutcome;

    fn part(&self, index: usize, of: usize) -> Result<Self, TeamError> {
        Ok(Self::part(self, index, of)?)
    }

    fn check(&self, _handles: &Handles) -> Result<(), TeamError> {
        Ok(Self::check(self)?)
    }

    fn longest(&self, limits: &TeamLimits) -> Duration {
        [limits.gather, self.patience(), limits.answer]
            .into_iter()
            .fold(self.duration, Duration::saturating_add)
    }

    fn job(self) -> ToAgent {
        ToAgent::DatagramJob { plan: Box::new(self) }
    }

    fn result(message: ToLeader) -> Result<UdpOutcome, ToLeader> {
        match message {
            ToLeader::DatagramsDone { outcome } => Ok(*outcome),
            other => Err(other),
        }
    }

    fn merged(&self, parts: &[Part<UdpOutcome>]) -> Result<Option<UdpOutcome>, (usize, HdrError)> {
        merged_datagrams(self, parts)
    }
}
