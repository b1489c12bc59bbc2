//! Load of datagrams: an open loop at a rate, each datagram accounted for, and losses by the layer that lost them.
//!
//! [`run`] sends to a service that returns each datagram as it is (`anywire udp serve`). A datagram carries a run, a flow, a
//! number, two times and a checksum. So each answer is known: new, a second one, out of order (RFC 4737), late, corrupt or
//! none of ours. [`search`] finds the highest rate with a given loss.
//!
//! ```
//! use std::time::Duration;
//! use anywire_load::udp::{UdpPlan, run};
//! use anywire_load::{Handles, Schedule};
//! use anywire_loops::Loops;
//!
//! # let echo = anywire_sys::udp_limit::UdpLimit::start(None, 1 << 20)?;
//! # let service = echo.address();
//! let plan = UdpPlan {
//!     schedule: Schedule::constant(1000.0),
//!     duration: Duration::from_millis(200),
//!     ..UdpPlan::new(service)?
//! };
//! let outcome = run(&Loops::start(1)?, plan, Handles::default())?;
//! assert_eq!(outcome.sent, outcome.received + outcome.lost + outcome.late + outcome.corrupt);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where a datagram was lost is told from counters of this machine, which are read before and after: those of the
//! sockets, of the network namespace and of the devices. What none of them explains was lost elsewhere: on the way, in the
//! service, or on another machine.

mod engine;
mod flow;
mod header;
mod layers;
mod merge;
mod outcome;
mod plan;
mod run;
mod search;
mod table;

pub use anywire_wire::udp::{DatagramAddress, ToDatagramAddress};
pub use header::{FLOW_OFFSET, HEADER_BYTES};
pub use layers::LossByLayer;
pub use merge::UdpAgentShare;
pub(crate) use merge::merged;
pub use outcome::{
    UdpBalance, UdpBuffer, UdpCalls, UdpLatencies, UdpLoopShare, UdpOutcome, UdpPlanFacts, UdpRate,
};
pub use plan::{UdpLoadError, UdpPlan};
pub use run::run;
pub(crate) use run::start;
pub use search::{Search, SearchOutcome, Trial, search};
pub(crate) use table::TRIAL_HEADINGS;
