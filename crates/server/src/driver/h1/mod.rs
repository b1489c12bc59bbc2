//! HTTP/1 on a connection: a [`Session`] decodes requests, hands them to [`Dispatch`](crate::dispatch::Dispatch), and
//! writes the responses in request order.
//!
//! It holds all that is particular to HTTP/1: framing, pipelining, `100 Continue`, unread bodies, half-close, linger, and
//! the deadlines of each.

mod deadlines;

mod respond;
mod session;
mod upload;
mod watch;

pub(crate) use session::{Exit, Session};
