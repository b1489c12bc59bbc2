//! Rounds: what `compare`, `ab`, `diff` and the benches have in common.
//!
//! In each round every side is measured once, in an order that a seed draws ([`Order`]). So a machine that grows slower or
//! faster strikes all alike. [`interleaved`] leads through the rounds, a [`Round`] holds what one side did in one, and
//! [`Figures`] are what was measured, its median, or its spread.

mod driver;
mod fixed_rate;
mod of_load;
mod order;
mod part;
mod round;
mod sample;

pub use driver::{Interleaved, Turn, interleaved};
pub use fixed_rate::FixedRate;
pub use order::Order;
pub(crate) use part::{Part, Parts, in_time};
pub use round::{Figures, Round, Spread};
pub use sample::ServerThreads;
