//! The other end of a datagram.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Where a datagram came from or goes to. Over UDP it is cheap to clone and compare.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// An IP address and a port. An IPv4 peer of a socket on `[::]` has its mapped form (`::ffff:127.0.0.1`), which is also
    /// how it is sent to.
    Ip(SocketAddr),
    /// A Unix socket with a path or, with `@`, an abstract name.
    Unix(Arc<str>),
    /// A Unix socket without a name, or with one that has no text: it is not UTF-8, or a path that begins with `@`. It cannot
    /// be answered.
    Unnamed,
}

impl Peer {
    /// The IP address, an IPv4 one in its own form; `None` for Unix sockets.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip().to_canonical()),
            _ => None,
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => SocketAddr::new(address.ip().to_canonical(), address.port()).fmt(f),
            Self::Unix(name) => f.write_str(name),
            Self::Unnamed => f.write_str("a socket without a name"),
        }
    }
}
