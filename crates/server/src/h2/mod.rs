//! HTTP/2 on a connection: a [`Session`] gives each stream's request to [`Dispatch`](crate::dispatch::Dispatch), and sends
//! what is ready of all streams in one write.
//!
//! Each stream has a waker and deadlines of its own. What wakes one polls that one.

mod deadlines;
mod refused;
mod session;
mod stream;
mod upload;

pub(crate) use session::Session;
