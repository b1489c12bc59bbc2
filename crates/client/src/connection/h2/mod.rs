//! HTTP/2 on a client's connection: many calls at a time, each on a stream.
//!
//! Each stream has its own waker and deadlines. Waking a stream polls that stream alone. Requests that were submitted since the
//! last turn leave in one write.

mod deadlines;
mod expect_continue;
mod lost;
mod session;
mod stream;
mod unopened;
mod upload;

pub(crate) use session::Session;
