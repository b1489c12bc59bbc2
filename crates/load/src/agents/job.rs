//! What an agent is to do, and what it has done: a load of requests, or one of datagrams.

use crate::agents::agent::AgentEvent;
use crate::agents::error::AgentError;
use crate::agents::message::{ToAgent, ToLeader};
use crate::handles::Handles;
use crate::limits::Limits;
use crate::outcome::Outcome;
use crate::plan::Plan;
#[cfg(feature = "udp")]
use crate::udp::{UdpOutcome, UdpPlan};

/// What an agent is to do.
pub(crate) enum Job {
    Requests(Box<Plan>),
    #[cfg(feature = "udp")]
    Datagrams(Box<UdpPlan>),
}

impl Job {
    pub(crate) fn event(&self, leader: String) -> AgentEvent {
        match self {
            Self::Requests(plan) => AgentEvent::Begins { leader, plan: plan.clone() },
            #[cfg(feature = "udp")]
            Self::Datagrams(plan) => AgentEvent::BeginsDatagrams { leader, plan: plan.clone() },
        }
    }

    /// That of a message, if it has one.
    pub(crate) fn of(message: ToAgent) -> Option<Self> {
        match message {
            ToAgent::Job { plan } => Some(Self::Requests(plan)),
            #[cfg(feature = "udp")]
            ToAgent::DatagramJob { plan } => Some(Self::Datagrams(plan)),
            _ => None,
        }
    }

    /// Whether it can be done here, within the limits of this agent.
    pub(crate) fn check(&mut self, handles: &Handles) -> Result<(), AgentError> {
        match self {
            Self::Requests(plan) => {
                plan.limits = plan.limits.at_most(&Limits::default());
                plan.prepare(handles)?;
            }
            #[cfg(feature = "udp")]
            Self::Datagrams(plan) => plan.check()?,
        }
        Ok(())
    }
}

/// What an agent has done.
pub(crate) enum Done {
    Requests(Box<Outcome>),
    #[cfg(feature = "udp")]
    Datagrams(Box<UdpOutcome>),
}

impl Done {
    pub(crate) fn of(message: ToLeader) -> Option<Self> {
        match message {
            ToLeader::Done { outcome } => Some(Self::Requests(outcome)),
            #[cfg(feature = "udp")]
            ToLeader::DatagramsDone { outcome } => Some(Self::Datagrams(outcome)),
            _ => None,
        }
    }

    pub(crate) fn event(self) -> AgentEvent {
        match self {
            Self::Requests(outcome) => AgentEvent::Done(outcome),
            #[cfg(feature = "udp")]
            Self::Datagrams(outcome) => AgentEvent::DatagramsDone(outcome),
        }
    }
}
