//! The layer below TCP on a real link: who the neighbours are, which addresses are ours, and what is answered that is no TCP.
//!
//! [`Layer`] is sans-IO like the engine: frames come in, time is a parameter, and frames of its own leave with the engine's. It
//! resolves addresses by ARP (RFC 826) and by neighbour discovery (RFC 4861), notices neighbours that are gone, checks that nobody
//! else has an address of ours (RFC 5227, RFC 4862), and answers ICMP echo. Segments for neighbours that are known pass without a
//! look at it.
//!
//! | file | holds |
//! | --- | --- |
//! | `layer` | the layer: frames in and out, and whom each is for |
//! | `neighbours`, `speak` | messages of ARP and neighbour discovery: what came, and what the layer says itself |
//! | `cache` | the neighbours and their states |
//! | `learn` | what a neighbour's message changes |
//! | `expire` | what time changes: neighbours that are asked again, found gone, or given up for others |
//! | `mld` | the groups that the host listens to, told to switches that watch for that |
//! | `address` | an address of ours, from its first probe on |
//! | `answer` | how much ICMP is answered: echo, unreachable ports |
//! | `settings` | times, limits, and what the layer has counted |
//! | `event` | what the user is told |
//! | `inspect` | what the layer knows, told to an operator |
//! | `who_has` | whether an address is free, asked before anything runs |
//!
//! What is not here: routers are not discovered, so a gateway is a [`Route`](anywire_tcp::Route) of the engine. Fragments are
//! refused.

mod address;
mod answer;
mod cache;
mod event;
mod expire;
mod inspect;
mod layer;
mod learn;
mod mld;
mod neighbours;
mod settings;
mod speak;
#[cfg(test)]
mod tests;
mod who_has;

pub use self::event::Event;
pub use self::inspect::{NeighbourInfo, NeighbourState};
pub use self::layer::{Layer, LayerError};
pub use self::settings::{Counters, Limits, Probing, Settings};
pub use self::who_has::who_has;
