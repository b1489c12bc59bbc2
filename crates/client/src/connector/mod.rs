//! What makes the connections of a client: bytes to a target, directly or through proxies.
//!
//! A client without a [`Connector`] of its own dials directly, or goes through its [proxies](crate::proxy).

// Five types say where a connection leads, each for one purpose:
//
// | type | says | made | used by |
// | --- | --- | --- | --- |
// | `RouteKey` | which calls share a pool: origin, `via`, proxy of the call, upgrade or not | for each call | a loop, to find the pool of a call |
// | `Route` | how the connections of a pool are made: connector, target, relay | once a pool | a pool, for each dial |
// | `Target` | what a connector is given: host, port, scheme, address, dialler | once a pool; once more for a proxy | a `Connector` |
// | `CapKey` | which pools share `Limits::connections_per_origin` | once a pool | the quotas of a client |
// | `Backend` | one address of a `Balance`, with its health and its pool | once an address and loop | a balancer, to choose |

mod contract;
mod direct;
mod network;
mod route;
mod target;

pub use contract::{ConnectError, Connecting, Connector};
pub use direct::Direct;
pub(crate) use network::Network;
pub(crate) use route::{CapKey, Route, RouteKey};
pub use target::Target;
