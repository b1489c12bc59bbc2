//! What was counted and measured, for monitoring: durations in bands, and the text that Prometheus scrapes.

mod histogram;
mod text;

pub use histogram::{Durations, Histogram};
pub use text::{CONTENT_TYPE, Kind, Text};
