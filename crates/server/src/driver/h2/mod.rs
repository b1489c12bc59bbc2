//! HTTP/2 on a connection: a [`Session`] reads frames into the [`Exchanges`](crate::driver::streams::Exchanges) of its streams, and
//! writes what is ready of all of them at once. What concerns the connection as a whole is here.

mod deadlines;
mod session;

pub(crate) use session::Session;
