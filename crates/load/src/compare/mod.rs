//! The compare harness: the same load against several candidates in alternating rounds, and what each request cost.
//!
//! A [`Candidate`] starts a server, and a [`RunningServer`] names its threads. [`compare`] measures them. The
//! result is a [`Comparison`]: the JSON `anywire.compare/1`, and a table with bars.

mod candidate;
mod harness;
mod idle;
mod result;
mod round;
mod settings;
mod table;

pub use candidate::{Candidate, CandidateError, RunningServer, Settings, Start};
pub use harness::{CompareError, Step, compare};
pub use result::{ComparePlan, Comparison, Placement, Row, SCHEMA};
pub use settings::Options;
pub(crate) use table::{COLUMNS, Column, percent};
