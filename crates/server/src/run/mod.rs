//! A run: what becomes a response of one request. The innermost is a handler's future; each layer, a route's limit, a time stamp and the
//! look-up of a route are runs around another one.
//!
//! ```text
//! dispatch -> chain of the server's layers -> routing -> stamped, gated -> chain of a route's layers -> the handler's future
//! ```
//!
//! Each is a [`Run`] in a [`Slot`], which is memory for one request after another, so that a request allocates nothing.

pub(crate) mod chain;
mod gated;
mod slot;
mod stamped;
pub(crate) mod sync_layer;

pub(crate) use self::gated::Gated;
pub(crate) use self::slot::{FreeSlots, Run, Running, Slot};
pub(crate) use self::stamped::Stamped;
