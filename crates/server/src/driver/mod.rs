//! What drives the connections of a server: each is a [task](connection) that is idle without a buffer, or has a session of [HTTP/1](h1) or
//! [HTTP/2](h2), whose requests are on [streams]. Behind them is one [`Dispatch`](crate::dispatch::Dispatch), which knows no version; what
//! both versions do alike is in [`delivery`], [`upload`] and [`timers`].

pub(crate) mod connection;
mod delivery;
pub(crate) mod h1;
mod h2;
mod streams;
mod timers;
mod upload;
