//! The compare harness: the same load against several candidates in alternating rounds, and what each request cost.
//!
//! A [`Candidate`] starts a server, and a [`RunningServer`] names its threads. [`compare`] measures them. The
//! result is a [`Comparison`]: the JSON `anywire.compare/1`, and a table with bars.

mod candidate;
mod harness;
mod idle;
mod order;
mod result;
mod round;
mod sample;
mod settings;
mod table;

pub use candidate::{Candidate, CandidateError, RunningServer, Settings, Start};
pub use harness::{CompareError, Step, compare};
pub use order::Order;
pub use result::{ComparePlan, Comparison, Figures, Placement, RoundResult, Row, SCHEMA, Spread};
pub use settings::Options;
pub(crate) use table::{COLUMNS, Column};
