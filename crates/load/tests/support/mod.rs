//! What several tests need: a small server whose faults can be chosen, and results to make pages of.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod browser;
pub(crate) mod h2_server;
pub(crate) mod sample;
pub(crate) mod server;
