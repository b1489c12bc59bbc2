//! A mesh of the cores of one process, which addresses call `stack:switch`: every host has a link to each other one that it talks to.
//!
//! A [pair](crate::pair) lives on one core. A mesh has no central switch. Each [`Endpoint`] sorts the frames of its
//! engine by destination and writes them into the [ring](anywire_sys::ring) of the destination's core. If that core
//! sleeps, the endpoint wakes it. So a frame is copied in and out once, and no core works for another.
//!
//! # Addresses
//!
//! Each endpoint has an IPv4 and an IPv6 address of its own, from [`NETWORK_V4`] and [`NETWORK_V6`]. All others are
//! services: an address and port that is [listened on](Mesh::listen), by one or more hosts that share it. A client's connections go to
//! their [`ListenQueue`]s in turn. Frames from its local port then go to that host for the life of the connection, even if another host
//! listens there later.
//!
//! How many connections wait to be accepted is a matter of the host's engine, as everywhere. A host that is slow or stuck holds up no
//! other: frames for it wait, and above [`Limits::waiting_frames`] they are dropped.
//!
//! | file | holds |
//! | --- | --- |
//! | `directory` | who is there: endpoints by number, services by address |
//! | `listen_queue` | one host's part of a service, and where frames for it wait until the host is there |
//! | `endpoint` | the device |
//! | `links` | its links to others, and which of them a frame takes |
//! | `host` | an engine on an endpoint, and what it takes to dial and to serve |

mod directory;
mod endpoint;
mod host;
mod links;
mod listen_queue;

use std::net::IpAddr;

pub use self::directory::{Mesh, MeshError, Service};
pub use self::endpoint::Endpoint;
pub use self::host::Host;
pub use self::listen_queue::{ListenQueue, Refused};

/// How long packets may be, and how much is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest IP packet, in bytes. Default 1500.
    pub mtu: usize,
    /// Memory of each direction of a link, in bytes. Default 512 KiB: about 340 of the longest frames, more
    /// than a connection has under way with a window of 256 KiB.
    pub ring_bytes: usize,
    /// Frames that wait for a loop whose direction of the link is full; more are dropped and counted, as by any network. So a loop
    /// that is stuck costs the others this much memory, and no time. Default 1024: with the ring, as much as six connections have under
    /// way.
    pub waiting_frames: usize,
    /// Endpoints. Default 1024; at most 65,534. A link is made for each pair that talks.
    pub endpoints: usize,
    /// Services. Default 4096.
    pub services: usize,
    /// Connections of one host, to either direction. Default 65,536, which takes a megabyte from the start;
    /// it dials at most 49,152 of them, as many as there are local ports.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            mtu: 1500,
            ring_bytes: 512 << 10,
            waiting_frames: 1024,
            endpoints: 1024,
            services: 4096,
            connections: 1 << 16,
        }
    }
}

/// The first 16 bits of the IPv4 addresses of endpoints; the others are the number of the endpoint.
pub const NETWORK_V4: [u8; 2] = [10, 255];

/// The first 112 bits of the IPv6 addresses of endpoints, which are unique local ones (RFC 4193).
pub const NETWORK_V6: [u16; 7] = [0xfd61, 0x6e79, 0x7769, 0x7265, 0, 0, 0];

/// The number of the endpoint that has this address, if one has.
fn number_of(address: IpAddr) -> Option<u16> {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            ([a, b] == NETWORK_V4).then_some(u16::from_be_bytes([c, d]))
        }
        IpAddr::V6(address) => match address.segments() {
            [network @ .., number] if network == NETWORK_V6 => Some(number),
            _ => None,
        },
    }
}

/// Whether an address belongs to the endpoints of a mesh, so that no service can have it.
pub fn is_of_endpoints(address: IpAddr) -> bool {
    number_of(address).is_some()
}

/// The addresses of the endpoint of this number.
fn addresses_of(number: u16) -> [IpAddr; 2] {
    let ([a, b], [c, d]) = (NETWORK_V4, number.to_be_bytes());
    let [e, f, g, h, i, j, k] = NETWORK_V6;
    [IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h, i, j, k, number])]
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn addresses_and_numbers_belong_together() {
        for number in [1, 255, 256, u16::MAX] {
            assert_eq!(addresses_of(number).map(number_of), [Some(number); 2]);
        }
        assert!(!is_of_endpoints([10, 0, 0, 2].into()) && !is_of_endpoints(Ipv6Addr::LOCALHOST.into()));
    }
}
