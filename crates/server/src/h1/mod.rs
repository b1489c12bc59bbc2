//! HTTP/1 on a connection: a [`Session`] decodes requests, hands them to [`Dispatch`](crate::dispatch::Dispatch), and
//! writes the responses in request order.
//!
//! All that only HTTP/1 knows is here: framing, pipelining, `100 Continue`, what is left of an unread body, half-close
//! and linger, and the deadlines of each.

mod deadlines;
mod end;
mod respond;
mod session;
mod timers;
mod upload;

pub(crate) use session::{End, Env, Session};
