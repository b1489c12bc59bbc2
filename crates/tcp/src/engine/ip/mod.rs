//! Where the engine is in its network, and what it tells the layer below.
//!
//! | file | holds |
//! | --- | --- |
//! | `local` | addresses, listeners, IPv6 peers by number |
//! | `routes`, `neighbours` | ways out; the Ethernet header for each next hop |
//! | `link` | what the layer below fills in and asks |

pub(super) mod link;
pub(super) mod local;
pub(super) mod neighbours;
pub(super) mod routes;
