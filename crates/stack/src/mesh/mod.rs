//! A switch between the cores of one process: every host has a cable to each other one that it talks to.
//!
//! A [pair](crate::pair) lives on one core. A mesh has no central switch. Each [`Port`] sorts the frames of its
//! engine by destination and writes them into the [ring](anywire_sys::ring) of the destination's core. If that core
//! sleeps, the port wakes it. So a frame is copied in and out once, and no core works for another.
//!
//! # Addresses
//!
//! Each port has an IPv4 and an IPv6 address of its own, from [`NETWORK_V4`] and [`NETWORK_V6`]. All others are
//! services: an address and port that is [listened on](Mesh::listen), by one or more hosts that share it. A client
//! first takes a place in the [`ListenQueue`] of the next host, round-robin. Frames from its local port then go to
//! that host for the life of the connection, even if another host listens there later.
//!
//! | file | holds |
//! | --- | --- |
//! | `directory` | who is there: ports by number, services by address |
//! | `listen_queue` | one host's part of a service: its backlog, and where frames for it wait until the host is there |
//! | `cable` | two rings between two ports, and what wakes their owners |
//! | `station` | what others see of the loop that has a port |
//! | `port` | the device |
//! | `host` | an engine on a port, and what it takes to dial and to serve |

pub(crate) mod cable;
mod directory;
mod host;
mod listen_queue;
mod port;
pub(crate) mod station;

use std::net::IpAddr;

pub use self::directory::{Mesh, MeshError, Service};
pub use self::host::{Host, Reservation};
pub use self::listen_queue::{ListenQueue, Refused};
pub use self::port::Port;

/// How long packets may be, and how much is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest IP packet, in bytes. Default 1500.
    pub mtu: usize,
    /// Memory of each direction of a cable, in bytes. Default 512 KiB: about 340 of the longest frames, more
    /// than a connection has under way with a window of 256 KiB.
    pub ring_bytes: usize,
    /// Ports. Default 1024; at most 65,534. A cable is made for each pair that talks.
    pub ports: usize,
    /// Services. Default 4096.
    pub services: usize,
    /// Connections of one host, to either direction. Default 65,536, which takes a megabyte from the start;
    /// it dials at most 49,152 of them, as many as there are local ports.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { mtu: 1500, ring_bytes: 512 << 10, ports: 1024, services: 4096, connections: 1 << 16 }
    }
}

/// The first 16 bits of the IPv4 addresses of ports; the others are the port's number.
pub const NETWORK_V4: [u8; 2] = [10, 255];

/// The first 112 bits of the IPv6 addresses of ports, which are unique local ones (RFC 4193).
pub const NETWORK_V6: [u16; 7] = [0xfd61, 0x6e79, 0x7769, 0x7265, 0, 0, 0];

/// The number of the port that has this address, if one has.
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

/// Whether an address belongs to the ports of a mesh, so that no service can have it.
pub fn is_of_ports(address: IpAddr) -> bool {
    number_of(address).is_some()
}

/// The addresses of the port of this number.
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
        assert!(!is_of_ports([10, 0, 0, 2].into()) && !is_of_ports(Ipv6Addr::LOCALHOST.into()));
    }
}
