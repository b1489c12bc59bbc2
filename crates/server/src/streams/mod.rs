//! The streams of a connection that carries many, over any engine that offers [`Streams`](anywire_mux::Streams): each has a
//! request, its handler, and a response on its way out. Nothing here knows a connection.
//!
//! Each stream has a waker and deadlines of its own. What wakes one polls that one.

mod deadlines;
mod exchanges;
mod respond;
mod stream;

pub(crate) use exchanges::Exchanges;
