//! HTTP/2 on a client's connection: many calls at a time, each on a stream.
//!
//! Each stream has a waker and deadlines of its own. What wakes one polls that one. Requests that were submitted since the
//! last turn leave in one write.

mod deadlines;
mod lost;
mod session;
mod stream;
mod upload;

pub(crate) use session::Session;
