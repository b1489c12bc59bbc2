//! The streams of a connection, over any engine that implements [`Streams`](anywire_mux::Streams). Each stream has a request, its
//! handler, and its response. Nothing here knows the connection.
//!
//! Each stream has its own waker and deadlines. Waking a stream polls that stream alone.

mod deadlines;
mod exchanges;
mod respond;
mod stream;

pub(crate) use exchanges::Exchanges;
