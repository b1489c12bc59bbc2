//! Load over user-space TCP: very many connections in one process, both ends on one core, every byte verified.
//!
//! [`run`] measures a [`Plan`]: two engines, joined back to back, a task at each end of each connection. It
//! returns an [`Outcome`]: a value, a table (`Display`), and JSON (`Serialize`).
//!
//! [`measure_tasks`] measures the executor alone.
//!
//! Each run has a thread of its own, pinned to the core of the plan, so its tasks can use thread-local cells.

mod book;
mod drive;
mod error;
mod group;
mod http;
mod network;
mod outcome;
mod pattern;
mod permutation;
mod plan;
mod roles;
mod run;
mod tasks;

pub use drive::{Monitor, Progress};
pub use error::Error;
pub use outcome::{Completions, Measured, Memory, Outcome, Short};
pub use plan::{Mode, Order, Plan};
pub use run::run;
pub use tasks::{TasksOutcome, TasksPlan, measure_tasks};
