//! What messages between two ends on one machine cost, over each way that the system has.
//!
//! A [`Plan`] names ways, sizes of messages and patterns; [`run`] gives an [`Outcome`] with a row for each combination:
//!
//! | pattern | what happens | what is told |
//! | --- | --- | --- |
//! | `ping-pong` | one message goes and comes back, again and again | percentiles of the **round trip** |
//! | `stream` | messages go one way, as fast as they are taken | messages and bytes a second |
//!
//! Both ends are threads of this process, on a core each if there are two. That is like for like with two processes: the
//! kernel does the same work for each call, each end of shared memory has a mapping of its own, and on a core of its own
//! neither end pays for a switch of address spaces. So a run needs no second program, and a fault of one end is seen at once.
//!
//! | way | how its ends wait |
//! | --- | --- |
//! | `pipe`, `seqpacket`, `unix`, `tcp` | in blocking calls of `read(2)` and `write(2)`, or `send(2)` and `recv(2)`; one call a message and end |
//! | `tcp-loop`, `unix-loop`, `shm-loop` | as [`Connection`](anywire_wire::Connection)s of anywire, each on a loop that sleeps in epoll |
//! | `shm-spin-loop` | the same, with loops that look at the rings for a while before they sleep |
//! | `shm-spin` | looking at the rings all the time, without a loop: what the rings themselves cost |
//! | `line` | looking at one line of the cache, which goes to and fro without a message: the limit |
//!
//! The ways that spin take both cores whole and are left out unless they are asked for.

mod blocking;
mod error;
mod measure;
mod outcome;
mod over_loops;
mod plan;
mod spinning;
mod table;

pub use error::Error;
pub use measure::run;
pub use outcome::{Found, Outcome, Row, SCHEMA};
pub use plan::{Pattern, Plan, Way};
