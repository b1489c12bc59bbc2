//! Ways out: which next hop leads to a destination, how long its packets may be, and which address of ours they come from.

use core::net::IpAddr;

use anywire_advice::Advice;
use anywire_packet::Cidr;
use anywire_packet::cidr::common_prefix;

/// A way out.
///
/// ```
/// use anywire_tcp::{Route, Via};
///
/// let mtu = 1500;
/// let link = Route { network: "10.0.0.0/24".parse()?, via: Via::OnLink, mtu, source: None };
/// let others = Route { network: "0.0.0.0/0".parse()?, via: Via::Gateway([10, 0, 0, 1].into()), ..link };
/// assert_eq!(others.next_hop([192, 0, 2, 1].into()), others.next_hop([192, 0, 2, 2].into()));
/// assert_eq!(link.next_hop([10, 0, 0, 7].into()), std::net::IpAddr::from([10, 0, 0, 7]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The network behind it. Of several networks with a destination, the one with the longest prefix leads there.
    pub network: Cidr,
    /// Who takes the packets.
    pub via: Via,
    /// The largest IP packet. No segment is longer than 2,028 bytes with its options, so each fits into one cell. The
    /// engine makes no use of a larger MTU (above 2,068 bytes for IPv4, 2,088 for IPv6), and does not offer it to peers.
    pub mtu: u16,
    /// The address of ours that connections come from, unless they name one. Without it: of those whose scope reaches the
    /// network, the one with the most leading bits in common with the next hop (RFC 6724, rules 2 and 8).
    pub source: Option<IpAddr>,
}

impl Route {
    /// The neighbour that takes packets for `destination`.
    pub const fn next_hop(&self, destination: IpAddr) -> IpAddr {
        match self.via {
            Via::OnLink => destination,
            Via::Gateway(gateway) => gateway,
        }
    }
}

/// Who takes the packets of a [`Route`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Each destination itself: the network is on the link.
    OnLink,
    /// A router on the link.
    Gateway(IpAddr),
}

/// Why an address, a route or a neighbour was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// There are as many already as there can be: 65,535 addresses or routes, or [`Limits::neighbours`](crate::Limits::neighbours).
    #[error(
        "there are as many already as there can be{help}",
        help = Advice("one network with a shorter prefix, or one gateway, may stand for many")
    )]
    TooMany,
    /// Less than IP guarantees: 576 bytes for IPv4, 1280 for IPv6.
    #[error("an MTU of {0} bytes is less than IP needs (576 for IPv4, 1280 for IPv6)")]
    Mtu(u16),
    /// An address that nobody can be reached at over a network: loopback, say, or that of a group.
    #[error("{0} is no address that a host can have on a network: give it another")]
    NotAHost(IpAddr),
    /// The gateway or the source of a route is of the other family of addresses than its network.
    #[error("{0} is of another family of addresses than the network of its route")]
    Family(IpAddr),
    /// A multicast or broadcast address of Ethernet.
    #[error("{0} stands for several interfaces: a neighbour has an address of its own")]
    NotAnInterface(anywire_packet::Mac),
}

/// Routes, the longest prefix first.
#[derive(Default)]
pub(crate) struct Routes {
    list: Vec<Known>,
}

/// A route and what follows from it.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) route: Route,
    /// The number of its gateway among the neighbours.
    pub(crate) gateway: Option<u16>,
    /// The number of the address that connections come from.
    pub(crate) source: Option<u16>,
}

impl Known {
    /// Connections come from the address of this number among `ours`, if it is better than the one before.
    pub(crate) fn consider(&mut self, number: u16, ours: &[IpAddr]) {
        let rank = |number: u16| self.rank(ours[usize::from(number)]);
        if rank(number) > self.source.map_or(0, rank) {
            self.source = Some(number);
        }
    }

    /// How good a source an address is: 0 if it is none.
    fn rank(&self, address: IpAddr) -> u32 {
        let network = self.route.network.address();
        match self.route.source {
            Some(source) => u32::from(source == address),
            None if has_scope_for(address, network) => {
                1 + common_prefix(address, self.route.next_hop(network)).unwrap_or(0)
            }
            None => 0,
        }
    }
}

impl Routes {
    /// Adds a route, and gives the one to the same network that it replaces.
    ///
    /// # Errors
    /// If there are 65,535.
    pub(crate) fn add(&mut self, known: Known) -> Result<Option<Known>, RouteError> {
        let network = known.route.network.network();
        if let Some(same) = self.list.iter_mut().find(|other| other.route.network.network() == network) {
            return Ok(Some(std::mem::replace(same, known)));
        }
        if self.list.len() >= usize::from(u16::MAX) {
            return Err(RouteError::TooMany);
        }
        let prefix = known.route.network.prefix();
        let place = self.list.partition_point(|other| other.route.network.prefix() >= prefix);
        self.list.insert(place, known);
        Ok(None)
    }

    /// The route to a destination.
    #[inline]
    pub(crate) fn to(&self, destination: IpAddr) -> Option<&Known> {
        self.list.iter().find(|known| known.route.network.contains(destination))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Known> {
        self.list.iter_mut()
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        crate::engine::bytes_of_list(&self.list)
    }
}

/// Whether an address of ours may be the source of packets to this network: a link-local one reaches its link alone, and no other
/// one is right there (RFC 6724, rule 2).
pub(crate) fn has_scope_for(source: IpAddr, network: IpAddr) -> bool {
    source.is_ipv4() == network.is_ipv4() && is_link_local(source) == is_link_local(network)
}

/// Link-local (RFC 3927, RFC 4291 2.5.6).
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_and_a_network_has_one_route() {
        let known = |network: &str, mtu| {
            let network = network.parse().expect("a network");
            Known {
                route: Route { network, via: Via::OnLink, mtu, source: None },
                gateway: None,
                source: None,
            }
        };
        let mut routes = Routes::default();
        for (network, mtu) in [("0.0.0.0/0", 1), ("10.0.0.0/8", 2), ("10.1.0.0/16", 3), ("::/0", 4)] {
            assert!(routes.add(known(network, mtu)).is_ok_and(|replaced| replaced.is_none()));
        }
        let to = |routes: &Routes, remote: &str| {
            routes.to(remote.parse().expect("an address")).map(|known| known.route.mtu)
        };
        assert_eq!(
            ["10.1.2.3", "10.2.0.1", "9.9.9.9", "2001:db8::1"].map(|remote| to(&routes, remote)),
            [Some(3), Some(2), Some(1), Some(4)]
        );
        let replaced = routes.add(known("10.1.9.9/16", 5)).expect("room");
        assert_eq!(replaced.map(|known| known.route.mtu), Some(3), "named by another address of it");
        assert_eq!(to(&routes, "10.1.2.3"), Some(5));
    }

    #[test]
    fn a_source_reaches_as_far_as_its_scope() {
        let reaches = |source: &str, network: &str| {
            has_scope_for(source.parse().expect("an address"), network.parse().expect("an address"))
        };
        assert!(
            reaches("fe80::1", "fe80::") && reaches("2001:db8::1", "::") && reaches("10.0.0.1", "0.0.0.0")
        );
        assert!(!reaches("fe80::1", "::") && !reaches("2001:db8::1", "fe80::") && !reaches("10.0.0.1", "::"));
    }
}
