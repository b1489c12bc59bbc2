//! What makes the connections of a client: bytes to a target, over whatever is on the way.
//!
//! A client without a [`Connector`] of its own dials directly, or goes through its [proxies](crate::proxy).

mod contract;
mod direct;
mod network;
mod route;
mod target;

pub use contract::{ConnectError, Connecting, Connector};
pub use direct::Direct;
pub(crate) use network::Network;
pub(crate) use route::{Place, Route, Way};
pub use target::Target;
