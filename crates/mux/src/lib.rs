//! Driving the streams of a connection: what server, client and load engine do alike over a protocol that multiplexes.
//!
//! An engine, such as [`anywire_http::h2::Engine`], knows the protocol and no task. A driver has the connection, and for each
//! stream a request and a response. Between them is what this crate has: which streams were woken ([`Woken`]).

mod woken;

pub use woken::{StreamWaker, Woken};
