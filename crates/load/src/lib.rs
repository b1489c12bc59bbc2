//! The load generator of anywire, and what is built on it: the compare harness and the reports.
//!
//! [`run`] loads a URL over any wire in the closed mode: N connections spread over the caller's loops, each with up
//! to `depth` requests in flight; every answer is parsed, matched to its request in order, and recorded in a histogram of
//! three digits ([`Latency`]) which is merged exactly over the loops. What goes wrong is counted by kind ([`ErrorKind`]).
//! The result is an [`Outcome`]: a value, a table (`Display`), and JSON.
//!
//! [`compare`](compare::compare) runs the same load against several [`Candidate`](compare::Candidate)s in rounds and
//! says what a request cost each of them. [`report`] makes a page of either.
//!
//! Closed mode: a connection sends its next request when an answer has come. So a stall of the server also stops
//! the requests that would have shown it, and the tail is better than users see; each result says so.

pub mod compare;
mod engine;
mod errors;
mod histogram;
mod host;
mod limits;
mod outcome;
mod plan;
mod remarks;
pub mod report;
mod stop;
mod summing;
mod table;
pub mod text;

pub use engine::{Boundary, Monitor, Phase, Progress, Run, run, run_observed, start};
pub use errors::{ErrorCounts, ErrorKind, ErrorSample, LoadError};
pub use histogram::{CurvePoint, Latency, LatencySummary};
pub use host::{Host, Tool};
pub use limits::Limits;
pub use outcome::{
    Connections, Generator, Latencies, LoopShare, Outcome, PlanFacts, Rate, SCHEMA, TargetFacts, Totals,
    WarmUp,
};
pub use plan::{Amount, Expect, Plan};
pub use stop::Stop;
