//! Driving the streams of a connection: what server, client and load engine do alike over a protocol that multiplexes.
//!
//! An engine, such as [`anywire_http::h2::Engine`], knows the protocol and no task. A driver has the connection, and for each
//! stream a request and a response. Between them is what this crate has: an engine with its buffers as [`Streams`] ([`Http2`] is
//! one), bodies on their way out ([`Outgoing`]) and in ([`Incoming`]), which streams have something to do ([`Schedule`]), and
//! streams that have left HTTP ([`Upgraded`]).

mod h2;
mod incoming;
mod outgoing;
mod schedule;
mod streams;
mod upgraded;

pub use h2::Http2;
pub use incoming::{Demand, Incoming};
pub use outgoing::{Next, Outgoing, Piece, Sent, send};
pub use schedule::{Schedule, StreamWaker};
pub use streams::{StreamTable, Streams};
pub use upgraded::{Departure, Upgraded};
