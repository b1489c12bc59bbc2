//! The bounds of a cache of names: how many, and for how long.

use std::time::Duration;

/// How many names are kept, and for how long their answers hold.
///
/// ```
/// use std::time::Duration;
/// use anywire_wire::names::Limits;
///
/// let limits = Limits { unknown_ttl: Duration::from_secs(5), ..Limits::default() };
/// assert_eq!(limits.names, 1024);
/// ```
#[derive(Debug, Clone)]
pub struct Limits {
    /// Names that are kept, or asked for, at a time. Default 1024. A new name takes the place of the one that is unused for
    /// longest. If each of them is being asked for, it is [`ResolveError::Full`](super::ResolveError::Full).
    pub names: usize,
    /// Addresses of one answer that are kept. Default 64: an attempt to each, 250 ms apart, takes far longer than a dial may.
    pub addresses: usize,
    /// The shortest time for which an answer holds, whatever its TTL says. Default 1 s: a TTL of 0 would ask for each dial.
    pub shortest_ttl: Duration,
    /// The longest. Default 1 h: a change is seen within that time, however long its TTL was.
    pub longest_ttl: Duration,
    /// For answers without a TTL, such as the system's. Default 30 s, as in other programs that ask the system.
    pub unknown_ttl: Duration,
    /// The longest time for which a name is known not to exist. Default 5 s: short, because the name may be about to be made.
    pub negative_ttl: Duration,
    /// How long an answer serves beyond its TTL, while a query refreshes it, or if that query fails. Default 60 s: longer than a name
    /// server is down for a restart, and short enough for an address to belong to the same service still.
    pub stale: Duration,
    /// An address that has refused a connection, or has not answered, is tried last for this time. Default 30 s.
    pub cool_down: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            names: 1024,
            addresses: 64,
            shortest_ttl: Duration::from_secs(1),
            longest_ttl: Duration::from_secs(3600),
            unknown_ttl: Duration::from_secs(30),
            negative_ttl: Duration::from_secs(5),
            stale: Duration::from_secs(60),
            cool_down: Duration::from_secs(30),
        }
    }
}
