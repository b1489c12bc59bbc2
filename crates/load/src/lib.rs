//! The load generator of anywire, and what is built on it: the compare harness and the reports.
//!
//! [`run`] loads a URL over any wire, in the closed mode or by a [`Schedule`]: its connections are spread over the caller's loops, and each
//! has up to `depth` requests in flight, by HTTP/1.1 or on as many streams of HTTP/2 ([`Protocol`]). Each response is parsed, matched to its request, and recorded in a histogram of
//! three digits ([`Latency`]); merging the loops' histograms loses nothing. Faults are counted by kind
//! ([`ErrorKind`]). The result is an [`Outcome`]: a value, a table (`Display`), and JSON.
//!
//! ```no_run
//! use std::time::Duration;
//! use anywire_load::{Amount, Handles, Plan, run};
//! use anywire_loops::Loops;
//!
//! let plan = Plan {
//!     connections: 16,
//!     amount: Amount::Duration(Duration::from_secs(5)),
//!     ..Plan::new("http://localhost:8080/")
//! };
//! let outcome = run(&Loops::start(1)?, plan, Handles::default())?;
//! assert_eq!(outcome.totals.measured.errors.total(), 0, "{outcome}");
//! println!("{:.0} requests/s", outcome.rate.achieved.expect("it was measured"));
//! if let Some(latency) = &outcome.latency.send {
//!     println!("p99: {} us", latency.p99);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`compare`](compare::compare) runs the same load against several [`Candidate`](compare::Candidate)s in rounds and
//! says what a request cost each of them. [`report`] makes a page of either. [`statistics`] tells whether rounds of two sides
//! differ.
//!
//! [`probe`] says why a service is slow: it looks at how answers leave, and gives verdicts with their cure.
//!
//! [`search`](mod@search) finds the highest rate that a service bears, within thresholds.
//!
//! [`agents`] spreads one load over several machines, and merges what they measured.
//!
//! The module `udp` (feature `udp`) loads services of datagrams, in an open loop at a rate.
//!
//! Closed mode: a connection sends its next request when a response has come. So a stall of the server also stops the
//! requests that would have shown it, and the tail looks better than it is for users. Each result says so. By a schedule a
//! request is due whatever the server does, and its latency counts from then.

pub mod ab;
pub mod agents;
pub mod compare;
pub mod contrast;
pub mod diff;
mod engine;
mod errors;
mod expect;
pub mod export;
pub mod figures;
mod handles;
mod hdr;
mod histogram;
mod host;
mod intervals;
mod limits;
mod outcome;
mod pacer;
mod plan;
mod plan_data;
pub mod probe;
mod protocol;
mod remarks;
pub mod report;
mod request;
mod requests;
mod require;
pub mod rounds;
mod saturated;
mod schedule;
pub mod script;
pub mod search;
mod server_time;
pub mod statistics;
mod stop;
mod stored;
mod summing;
mod table;
pub mod text;
#[cfg(feature = "udp")]
pub mod udp;

pub use engine::{
    Boundary, Counts, Interval, LoopSnapshot, Monitor, Progress, Run, RunPhase, Snapshot, run, run_observed,
    start,
};
pub use errors::{ErrorCounts, ErrorKind, ErrorSample, LoadError};
pub use expect::{Expect, ExpectedField, NoSha256, Sha256};
pub use handles::Handles;
pub use hdr::HdrError;
pub use histogram::{Band, CurvePoint, Latency, LatencySummary};
pub use host::{Host, Tool};
pub use intervals::{IntervalFigures, IntervalLatency, Recorder};
pub use limits::Limits;
pub use outcome::{
    Connections, Generator, Latencies, LoopShare, Outcome, PacingFacts, PlanFacts, Rate, Requests, SCHEMA,
    Step, TargetFacts, Totals, WireFigures,
};
pub use pacer::{Arrival, Pacer, Part};
pub use plan::{Amount, Plan, Reuse};
pub use protocol::Protocol;
pub use requests::{EventFigures, RequestFigures};
pub use require::{RequireError, RequireReason, Requirement, Threshold, Verdict, judge};
pub use schedule::{Gaps, RATE_MAX, RATE_MIN, STEPS_MAX, Schedule, Shape};
pub use stop::Stop;
pub use stored::{Stored, StoredError};
