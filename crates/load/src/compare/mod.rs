//! The compare harness: the same load against several candidates in alternating rounds, and what each request cost.
//!
//! A candidate brings a server and says how to sample it ([`Candidate`], [`RunningServer`]); [`compare`] measures, and gives
//! a [`Comparison`], which is the JSON `anywire.compare/1` and prints as a table with bars.

mod candidate;
mod harness;
mod order;
mod result;
mod round;
mod settings;
mod table;

pub use candidate::{Candidate, CandidateError, RunningServer, Settings, Start};
pub use harness::{CompareError, Step, compare};
pub use order::Order;
pub use result::{ComparePlan, Comparison, Figures, Placement, RoundResult, Row, SCHEMA, Spread};
pub use settings::Options;
pub(crate) use table::{COLUMNS, Column};
