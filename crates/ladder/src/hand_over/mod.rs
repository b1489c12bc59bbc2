//! What it costs to hand a job to another thread, by four ways of telling it.
//!
//! Two threads pass jobs back and forth, so many of them at a time ([`Options::in_flight`]). The queue between them is the same
//! each time: memory, without a lock. The ways differ in how the taker learns of a job:
//!
//! | way | the giver | the taker |
//! | --- | --- | --- |
//! | [`Way::Pipe`] | writes a byte for each job | reads a byte for each job |
//! | [`Way::Futex`] | wakes for each job | sleeps when the queue is empty |
//! | [`Way::FutexIfAsleep`] | wakes only a taker that said that it sleeps | says so before it sleeps, and looks once more |
//! | [`Way::Spin`] | does nothing more | looks for ever |
//!
//! With one job in flight each hand-over meets a sleeping taker, so that each costs a wake-up. With many, the taker is mostly
//! awake, and the rest is needless work of the way. The event loops of anywire tell each other by the third.

mod measure;
mod queue;
mod way;

pub use measure::{Error, HandOver, HandOvers, Options, measure};
pub use way::Way;
