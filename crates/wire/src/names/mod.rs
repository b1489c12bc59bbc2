//! Names and their addresses.
//!
//! | word | means |
//! | --- | --- |
//! | [`Resolver`] | where addresses come from: the system ([`SystemResolver`]), name servers (`DnsResolver`, feature `dns`), or your own |
//! | [`Names`] | a resolver with a cache above it, and static [`Hosts`]; a field of [`DialOptions`](crate::DialOptions) |
//! | [`Limits`] | how many names are kept, and for how long |
//!
//! One query runs for each name, however many callers wait for it. Its answer is kept for the TTL that it came with. A name
//! that does not exist is remembered for some seconds. An answer whose TTL is over serves for a while longer,
//! while a query refreshes it. `localhost` and the names below it are this machine, and nobody is asked (RFC 6761 section
//! 6.3). All addresses of a name are tried, as RFC 8305 says; those that have failed lately are tried last.

mod cache;
mod cool_down;
mod dial;
#[cfg(feature = "dns")]
mod dns;
mod happy_eyeballs;
mod hosts;
mod limits;
#[expect(clippy::module_inception, reason = "the type that the module is about")]
mod names;
mod resolver;
mod system;

#[cfg(feature = "dns")]
pub use dns::DnsResolver;
pub use hosts::{Hosts, HostsError};
pub use limits::Limits;
pub use names::{NameCounters, Names};
pub use resolver::{Answer, Records, ResolveError, Resolver, Resolving};
pub use system::SystemResolver;

pub(crate) use dial::{dial, resolve};
