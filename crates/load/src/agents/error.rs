//! Why a load from several machines could not begin, or gave no result.

use std::io;
use std::time::Duration;

use anywire_advice::Advice;
use anywire_loops::TaskError;
use anywire_wire::{Address, DialError, ListenError};

use crate::errors::LoadError;
#[cfg(feature = "udp")]
use crate::udp::UdpLoadError;

/// Why two ends no longer understand each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The connection broke (the wire).
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// The other end closed the connection (the peer): its process ended.
    #[error("it closed the connection")]
    Closed,
    /// Nothing came in time (the peer, or the wire).
    #[error("it was silent for {after:?}")]
    Silent {
        /// How long it was waited for.
        after: Duration,
    },
    /// It goes on to tell how it goes, and its result does not come (the peer).
    #[error("its result had not come after {after:?}")]
    Endless {
        /// How long it was waited for.
        after: Duration,
    },
    /// A message is longer than allowed, or what came is none (the peer).
    #[error("it announces a message of {bytes} bytes, allowed are {limit_bytes}")]
    TooLong {
        /// What was announced.
        bytes: u64,
        /// What is allowed ([`TeamLimits`](super::TeamLimits)).
        limit_bytes: usize,
    },
    /// What came is no message that belongs here (the peer).
    #[error("what it sent is no message between a leader and its agents")]
    NotOurs(#[source] serde_json::Error),
    /// A message came that has no place here (the peer).
    #[error("it sent {found} where {wanted} belongs")]
    OutOfOrder {
        /// What came.
        found: &'static str,
        /// What should have.
        wanted: &'static str,
    },
    /// The other end is of another version (the caller).
    #[error("it is {theirs}, and this is anywire {ours}{help}", help = Advice("run the same version on all machines"))]
    Version {
        /// The other end.
        theirs: String,
        /// This one.
        ours: &'static str,
    },
    /// The other end has another token (the caller, or a stranger).
    #[error("it does not know the token{help}", help = Advice("give all machines the same file of the token"))]
    Token,
    /// The other end takes no part in this run.
    #[error("it refuses: {reason}")]
    Refused {
        /// Why, in its words.
        reason: String,
    },
    /// The other end could not do its part.
    #[error("{found}")]
    Failed {
        /// Why, in its words.
        found: String,
        /// What would help, if it said so.
        help: Option<String>,
    },
}

/// Why an agent could not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The address cannot be listened at.
    #[error(transparent)]
    Listen(Box<ListenError>),
    /// The leader cannot be reached.
    #[error("the leader at {address} was not reached within {after:?}{help}", help = Advice("see that the agent with index 0 runs, and that its port is open"))]
    Dial {
        /// Where it should be.
        address: Address,
        /// How long it was tried.
        after: Duration,
        /// Why the last attempt failed.
        #[source]
        source: Box<DialError>,
    },
    /// The leader was lost, or speaks otherwise; a load that ran was ended.
    #[error("the leader {leader} was lost")]
    Leader {
        /// Its address.
        leader: String,
        /// How.
        #[source]
        source: LinkError,
    },
    /// The own part could not be carried out; the leader was told.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The own part of a load of datagrams could not be carried out; the leader was told.
    #[cfg(feature = "udp")]
    #[error(transparent)]
    Datagrams(#[from] UdpLoadError),
    /// The leader leads another kind of load: one of requests, or of datagrams (the caller).
    #[error("the leader at {leader} leads another kind of load{help}", help = Advice("give all machines the same command"))]
    OtherWork {
        /// Where it is.
        leader: Address,
    },
    /// The agent was told to end before there was a result.
    #[error("it was ended before it had a part")]
    Stopped,
    /// A loop ended while it was needed (the caller).
    #[error("the agent was lost with its loop")]
    LoopLost(#[source] TaskError),
}

/// Why there is no result of several machines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// The plan cannot be divided, or is wrong (the caller).
    #[error(transparent)]
    Plan(#[from] LoadError),
    /// The plan of datagrams cannot be divided, or is wrong (the caller).
    #[cfg(feature = "udp")]
    #[error(transparent)]
    Datagrams(#[from] UdpLoadError),
    /// The address at which agents should join cannot be listened at.
    #[error(transparent)]
    Listen(Box<ListenError>),
    /// An agent cannot be reached (the agent, or the wire); nothing was sent to the target.
    #[error("agent {index} at {address} was not reached{help}", help = Advice("see that 'anywire load --agent' runs there, and that its port is open"))]
    Dial {
        /// Its number in the list, from 0.
        index: usize,
        /// Where it should be.
        address: Address,
        /// Why.
        #[source]
        source: Box<DialError>,
    },
    /// An agent took no part; nothing was sent to the target.
    #[error("agent {index} at {address} takes no part")]
    Agent {
        /// Its number.
        index: usize,
        /// Its address.
        address: String,
        /// Why.
        #[source]
        source: LinkError,
    },
    /// Not all agents joined in time; nothing was sent to the target.
    #[error(
        "{ready} of {of} agents were ready within {after:?}{last}{help}",
        last = refusal.as_ref().map_or_else(String::new, |text| format!("; the last that was turned away: {text}")),
        help = Advice("see that the others run, and know where this one is")
    )]
    Missing {
        /// How many were ready.
        ready: usize,
        /// How many were waited for.
        of: usize,
        /// For how long.
        after: Duration,
        /// Who was turned away last, and why.
        refusal: Option<String>,
    },
    /// Every agent was lost while the load ran.
    #[error("every agent was lost; the first: {first}")]
    AllLost {
        /// How the first one was.
        first: String,
    },
    /// The run was ended before it began.
    #[error("it was ended before the load began")]
    Stopped,
    /// A loop ended while it was needed (the caller).
    #[error("the leader was lost with its loop")]
    LoopLost(#[source] TaskError),
}

impl From<ListenError> for AgentError {
    fn from(error: ListenError) -> Self {
        Self::Listen(Box::new(error))
    }
}

impl From<ListenError> for TeamError {
    fn from(error: ListenError) -> Self {
        Self::Listen(Box::new(error))
    }
}
