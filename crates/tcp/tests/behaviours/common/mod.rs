//! What the tests of the engine share: a clock that only they move, frames made by hand, and links that lose things.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test takes what it needs")]

pub mod host;
pub mod network;
pub mod random;
pub mod wire;
