//! The engine of the closed mode, from the outside in: `run` (the public handle and its phases), `monitor` (a look at
//! it from outside), `generator` (one loop's part), `worker` (one connection's life), `exchange` and `session` (one
//! open connection of HTTP/1 or HTTP/2: the hot path), `tally` (one loop's counts).

mod exchange;
mod generator;
mod monitor;
mod run;
mod session;
mod tally;
mod worker;

pub(crate) use generator::LoopResult;
pub use generator::RunPhase;
pub use monitor::{Monitor, Progress};
pub(crate) use run::End;
pub use run::{Boundary, Run, run, run_observed, start};
