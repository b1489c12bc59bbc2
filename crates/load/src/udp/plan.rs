//! What to send, and why that is not possible.

use std::time::Duration;

use anywire_advice::Advice;
use anywire_loops::TaskError;
use anywire_wire::AddressError;
use anywire_wire::udp::{DatagramAddress, ToDatagramAddress, UdpError};
use serde::{Deserialize, Serialize};

use super::header::HEADER_BYTES;
use crate::pacer::Part;
use crate::plan::portion;
use crate::plan_data;
use crate::schedule::{RATE_MAX, RATE_MIN, STEPS_MAX, Schedule};

/// A load of datagrams. It is data, as a plan of requests is: it can be kept, compared and sent to another machine as JSON.
///
/// ```
/// use anywire_load::udp::UdpPlan;
/// use anywire_load::{Gaps, Schedule};
///
/// let schedule = Schedule { gaps: Gaps::Poisson, ..Schedule::constant(50_000.0) };
/// let plan = UdpPlan { schedule, flows: 1000, ..UdpPlan::new("udp:127.0.0.1:9000")? };
/// let json = serde_json::to_string(&plan)?;
/// assert_eq!(serde_json::from_str::<UdpPlan>(&json)?, plan);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpPlan {
    /// A service that returns each datagram as it is.
    #[serde(with = "plan_data::text")]
    pub target: DatagramAddress,
    /// When datagrams leave, over all loops (10,000 a second in even gaps): rates from 0.001 to 100 million.
    pub schedule: Schedule,
    /// How long to send (5 s).
    pub duration: Duration,
    /// Bytes of a datagram (200): 44 to 65,507.
    pub bytes: usize,
    /// Flows, each with numbers of its own (64): 1 to 65,536. They take turns.
    pub flows: usize,
    /// Sockets, each with a port of its own, over which the flows are spread (`None`: one for each flow).
    pub sockets: Option<usize>,
    /// How long a datagram may take to come back (1 s). One that comes within the same time again counts as late, and not as
    /// lost.
    pub wait: Duration,
    /// Whether 64 datagrams of a flow leave in one system call, one behind the other, instead of one each (GSO; off).
    pub offload: bool,
    /// What the system keeps for each socket until it is received, in bytes (1 MiB).
    pub receive_buffer_bytes: usize,
    /// Which of several generators of one load this is, from 0, and how many there are (0 of 1).
    #[serde(default = "alone")]
    pub place: (u64, u64),
    /// The flows of all these generators together (`None`: this is the only one). The datagrams of the schedule, which is that of all, are dealt
    /// to them in turn.
    #[serde(default)]
    pub flows_together: Option<usize>,
}

/// Why a load of datagrams could not start, or gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UdpLoadError {
    /// The plan asks for more than is possible, or for nothing; the caller's fault.
    #[error(
        "the plan asks for {asked} {what}, possible is {least} to {most}{help}",
        help = Advice("change the plan")
    )]
    Limit {
        /// The quantity, in words.
        what: &'static str,
        /// How much of it.
        asked: f64,
        /// The least that makes sense.
        least: f64,
        /// The most that is possible.
        most: f64,
    },
    /// A socket could not be made.
    #[error(transparent)]
    Socket(#[from] UdpError),
    /// A loop ended while the run was on it; the caller shut the loops down.
    #[error(
        "the run was lost with its loop ({0}){help}",
        help = Advice("keep the loops until the run has its outcome")
    )]
    LoopLost(#[from] TaskError),
}

impl UdpPlan {
    /// A plan with its defaults.
    ///
    /// # Errors
    /// The address is malformed.
    pub fn new(target: impl ToDatagramAddress) -> Result<Self, AddressError> {
        Ok(Self {
            target: target.to_datagram_address()?,
            schedule: Schedule::constant(10_000.0),
            duration: Duration::from_secs(5),
            bytes: 200,
            flows: 64,
            sockets: None,
            wait: Duration::from_secs(1),
            offload: false,
            receive_buffer_bytes: 1 << 20,
            place: alone(),
            flows_together: None,
        })
    }

    /// The part of agent `index` of `of`: flows and sockets are divided evenly, and the first agents have what is left over. The schedule stays
    /// that of all: its datagrams are dealt to the flows of all agents in turn.
    ///
    /// # Errors
    /// There are fewer flows or sockets than agents.
    pub fn part(&self, index: usize, of: usize) -> Result<Self, UdpLoadError> {
        let portion = |whole: usize| portion(whole as u64, index as u64, of as u64) as usize;
        within("flows", self.flows as f64, of.max(1) as f64, FLOWS_MAX)?;
        within("sockets", self.sockets() as f64, of.max(1) as f64, FLOWS_MAX)?;
        within("agents", of as f64, 1.0, FLOWS_MAX)?;
        Ok(Self {
            flows: portion(self.flows),
            sockets: self.sockets.map(portion),
            place: (index as u64, of as u64),
            flows_together: Some(self.flows),
            ..self.clone()
        })
    }

    /// The part of the schedule that is one of these own flows', which rise.
    pub(crate) fn part_of_flows(&self, flows: impl Iterator<Item = usize>) -> Part {
        // Checked: there are at least as many flows as generators, so that both are small.
        let (place, of) = (self.place.0 as usize, self.place.1.max(1) as usize);
        match self.flows_together {
            Some(together) => Part::at(flows.map(|flow| place + of * flow), together),
            None => Part::at(flows, self.flows),
        }
    }

    /// The share of the whole load that is this one's.
    pub(crate) fn share(&self) -> f64 {
        self.flows_together.map_or(1.0, |together| self.flows as f64 / together as f64)
    }

    /// How many sockets there are.
    pub(crate) fn sockets(&self) -> usize {
        self.sockets.unwrap_or(self.flows)
    }

    /// How many datagrams are to be sent; by Poisson about so many.
    pub(crate) fn datagrams(&self) -> u64 {
        (self.schedule.shape.mean() * self.duration.as_secs_f64()).round() as u64
    }

    /// The lowest and the highest rate at which it has a datagram, and not too many.
    pub(crate) fn rates_possible(&self) -> (f64, f64) {
        let seconds = self.duration.as_secs_f64();
        // Half a datagram is one.
        (0.51 / seconds, DATAGRAMS_MAX / seconds)
    }

    /// So many times as long, or as long as there may be datagrams.
    pub(crate) fn longer(&self, times: u32) -> Duration {
        let longest = Duration::try_from_secs_f64(DATAGRAMS_MAX / self.schedule.shape.mean());
        self.duration.saturating_mul(times).min(longest.unwrap_or(Duration::MAX)).max(self.duration)
    }

    /// From when on a datagram that has not come back is lost, and not late.
    pub(crate) fn patience(&self) -> Duration {
        self.wait.saturating_mul(2)
    }

    fn check_place(&self) -> Result<(), UdpLoadError> {
        let (index, of) = self.place;
        within("generators of one load", of as f64, 0.0, FLOWS_MAX)?;
        within("as the place of the generator", index as f64, 0.0, (of.max(1) - 1) as f64)?;
        let Some(together) = self.flows_together else { return Ok(()) };
        within("flows of all generators", together as f64, 1.0, FLOWS_MAX)?;
        let own = portion(together as u64, index, of.max(1)) as f64;
        within("flows of this part", self.flows as f64, own, own)
    }

    pub(crate) fn check(&self) -> Result<(), UdpLoadError> {
        self.check_place()?;
        for rate in self.schedule.shape.ends() {
            within("datagrams a second", rate, RATE_MIN, RATE_MAX)?;
        }
        within("steps of the rate", self.schedule.shape.parts().into(), 1.0, STEPS_MAX.into())?;
        within("datagrams in all", self.datagrams() as f64, 1.0, DATAGRAMS_MAX)?;
        within("bytes of a datagram", self.bytes as f64, HEADER_BYTES as f64, 65_507.0)?;
        within("flows", self.flows as f64, 1.0, FLOWS_MAX)?;
        within("sockets", self.sockets() as f64, 1.0, self.flows as f64)?;
        within("seconds of waiting", self.wait.as_secs_f64(), 0.001, 3600.0)
    }
}

pub(super) fn within(what: &'static str, asked: f64, least: f64, most: f64) -> Result<(), UdpLoadError> {
    let is_within = (least..=most).contains(&asked);
    if is_within { Ok(()) } else { Err(UdpLoadError::Limit { what, asked, least, most }) }
}

/// The place of a generator without others.
fn alone() -> (u64, u64) {
    (0, 1)
}

const FLOWS_MAX: f64 = 65_536.0;
/// Each takes a bit of memory, to know it when it comes back: 512 MiB.
const DATAGRAMS_MAX: f64 = (1_u64 << 32) as f64;
