//! The engine of both modes, from the outside in: `run` (the public handle and its phases), `monitor` (a look at
//! it from outside), `generator` (one loop's part), `worker` (one connection's life), `h1` and `h2` (one
//! open connection of HTTP/1 or HTTP/2: the hot path), `scripted` and `stream_script` (what either has beside, if it sends a
//! script), `tally` and `columns` (one loop's counts and latencies), `by_request` and `event_times` (those of a script's requests,
//! and of events). By a schedule: `paced` (what is due, and which connection takes it), `pace` and `timer` (when to look).

mod apart;
mod by_request;
mod call;
mod columns;
mod event_times;
mod generator;
mod h1;
mod h2;
mod loop_meter;
mod monitor;
mod pace;
mod paced;
mod run;
mod scripted;
mod stream_script;
mod tally;
mod timer;
mod wire_watch;
mod worker;

pub(crate) use by_request::RequestShare;
pub(crate) use columns::Columns;
pub(crate) use event_times::EventTimes;
pub use generator::RunPhase;
pub(crate) use generator::{LoopResult, OpenResult};
pub(crate) use loop_meter::LoopCost;
pub use monitor::{Counts, Interval, LoopSnapshot, Monitor, Progress, Snapshot};
pub(crate) use run::RunEnd;
pub use run::{Boundary, Run, run, run_observed, start};
pub(crate) use wire_watch::Watched;
