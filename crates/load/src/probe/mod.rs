//! Why a service is slow: a few patterns of requests, what came back on the wire, and verdicts with their cure.
//!
//! [`run`] makes single requests on one connection, many in one write, many connections, and some more, each within its
//! deadlines. It counts what load generators do not show: data segments and reads of each response, the time from its head to its
//! body, windows, closed connections. With the number of the server's process ([`Plan::pid`]) it also counts system calls, CPU by thread,
//! context switches and softirqs.
//!
//! The figures are an [`Outcome`]. [Rules](Class) over the figures give its [verdicts](Verdict): what was seen, why it costs, and what
//! to change. A pattern that fires a rule is made a second time, and only what both show is a verdict.
//!
//! ```no_run
//! use anywire_load::probe::{Plan, run};
//! use anywire_loops::Loops;
//!
//! let outcome = run(&Loops::start(1)?, Plan::new("http://localhost:8080/"))?;
//! for verdict in &outcome.verdicts {
//!     println!("{}: {}; {}", verdict.class, verdict.evidence, verdict.change);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod line;
mod link;
mod loops;
mod measures;
mod outcome;
mod patterns;
mod plan;
mod question;
mod queues;
mod reading;
mod rules;
mod run;
mod server;
mod session;
mod spread;
mod target;
mod text;
mod verdict;
mod watch;

pub use self::error::ProbeError;
pub use self::loops::LoopFacts;
pub use self::measures::{
    Clock, Closings, Compression, ConnectionFacts, Expectation, Gap, Head, Http2, Large, LatencyFacts, Many,
    Pipelining, Reads, Segments, ServerTiming, SlowPath, SlowReader, TcpFacts, TlsFacts,
};
pub use self::outcome::{Missing, Outcome, PlanFacts, SCHEMA, TargetFacts};
pub use self::plan::{Limits, Plan};
pub use self::run::run;
pub use self::server::{Balance, CoreShare, CpuPerRequest, ListenerFacts, Server, Softirq, ThreadShare};
pub use self::spread::Spread;
pub use self::verdict::{Class, Severity, Verdict};
