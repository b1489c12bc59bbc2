//! One device for several loops: each has an engine, a queue and connections of its own.
//!
//! A frame arrives by the queue that the kernel or the card has chosen. All loops know by one table which of them has which
//! connection, so a loop keeps what is its own and passes the rest on, by a ring to each other loop. What the kernel chooses is therefore
//! a matter of speed alone: over TAP it learns from what a loop sends by which queue the answers are to come, so hardly more than first
//! segments are passed on.
//!
//! - A loop dials from ports of its own, so answers lead home, whatever address it dials from.
//! - A service has a slot for each loop that listens, and a hash of both ends of a connection says which slot has it.
//! - ARP and neighbour discovery are for all loops; an error of ICMP is for the loop whose segment it quotes.
//! - One loop probes for an address, announces and defends it; if it ends, another one does. A neighbour who asks for it is answered by
//!   the loop that receives the question.
//! - If there are fewer queues than loops, those without send by the queue of another. If a loop ends, others read its queues.
//!
//! A ring that is full drops frames, and counts them: a loop that is stuck holds up nobody else.
//!
//! | file | holds |
//! | --- | --- |
//! | `directory` | who uses a device, and what they have told each other |
//! | `steering` | which loop has a connection |
//! | `slots` | which loops share the connections of a service |
//! | `flow` | which connection a frame is about |
//! | `early` | SYNs for a loop that has not begun to listen |
//! | `shard` | the device of one loop |
//! | `rings`, `queues` | its rings to other loops, and the queues that it reads |
//! | `peer` | the loop as others see it, who leave it rings and news |
//! | `addresses` | the addresses that the loops share |
//! | `host` | an engine on a shard, with addresses, to dial and to serve |

mod addresses;
mod directory;
mod early;
mod flow;
mod host;
mod peer;
mod queues;
mod rings;
mod shard;
mod slots;
mod steering;
#[cfg(test)]
mod tests;

pub use anywire_tcp::{Cidr, Mac};

pub use self::directory::{Service, ServiceError, Shards, TooManyLoops};
pub use self::host::{Host, HostOptions, JoinError, Watch};
pub use self::shard::Shard;
