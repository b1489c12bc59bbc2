//! Where the engine is: its addresses, its ways out, its listeners, and the IPv6 peers that blocks name by number.

use core::net::IpAddr;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use anywire_advice::Advice;
use anywire_packet::{Addresses, Link, Mac};
use anywire_sys::martian::{is_directed_broadcast, is_martian};

use super::{ConnectError, ListenerId, bytes_of_list, bytes_of_map};
use crate::block::ServiceClass;
use crate::hash::OwnHasher;

/// A way out: frames for these addresses go to this neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The network behind it.
    pub network: IpAddr,
    /// How many of its first bits count: 0 is the default route.
    pub prefix: u8,
    /// The engine's own interface.
    pub source: Mac,
    /// The neighbour: the destination itself, or a router.
    pub next_hop: Mac,
    /// The largest IP packet. No segment is longer than 2,028 bytes with its options, so each fits into one cell. The
    /// engine makes no use of a larger MTU (above 2,068 bytes for IPv4, 2,088 for IPv6), and does not offer it to peers.
    pub mtu: u16,
}

/// Why an address or a route was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// There are 65,535 of them already.
    #[error(
        "there are 65,535 already{help}",
        help = Advice("one network with a shorter prefix may stand for many")
    )]
    TooMany,
    /// The prefix is longer than the address.
    #[error("a prefix of {0} bits is longer than the address")]
    Prefix(u8),
    /// Less than IP guarantees: 576 bytes for IPv4, 1280 for IPv6.
    #[error("an MTU of {0} bytes is less than IP needs (576 for IPv4, 1280 for IPv6)")]
    Mtu(u16),
    /// An address that nobody can be reached at over a network: loopback, say, or that of a group.
    #[error("{0} is no address that a host can have on a network: give it another")]
    NotAHost(IpAddr),
}

/// Addresses, routes and listeners.
pub(super) struct Local {
    /// See [`Settings::loops_back`](crate::Settings::loops_back).
    pub(super) loops_back: bool,
    addresses: Vec<IpAddr>,
    /// The same as numbers, zero where it is IPv6: what every frame is compared with.
    addresses_v4: Vec<u32>,
    /// The number of each of them, IPv4 by its bits: looked up for each SYN.
    numbers_v4: HashMap<u32, u16, BuildHasherDefault<OwnHasher>>,
    numbers_v6: HashMap<u128, u16>,
    routes: Vec<Route>,
    /// The two ends of each route's first hop: what every frame begins with.
    links: Vec<Link>,
    /// The listener of each port: its number plus one. The lookup for a SYN must not depend on the number of listeners.
    ports: Box<[u16]>,
    listeners: Vec<Listener>,
    peers: Peers,
}

/// A port that is listened on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listener {
    /// One of the engine's addresses, or any.
    pub(super) address: Option<u16>,
    pub(super) port: u16,
    /// How many have had its place before.
    pub(super) generation: u16,
    pub(super) open: bool,
    pub(super) class: ServiceClass,
    pub(super) no_nagle: bool,
    pub(super) keep_alive: bool,
    /// The next listener of the same port: its number plus one.
    pub(super) next: u16,
}

impl Default for Local {
    fn default() -> Self {
        Self {
            loops_back: false,
            addresses: Vec::new(),
            addresses_v4: Vec::new(),
            numbers_v4: HashMap::default(),
            numbers_v6: HashMap::new(),
            routes: Vec::new(),
            links: Vec::new(),
            ports: vec![0; 1 << 16].into_boxed_slice(),
            listeners: Vec::new(),
            peers: Peers::default(),
        }
    }
}

impl Local {
    pub(super) fn add_address(&mut self, address: IpAddr) -> Result<u16, RouteError> {
        if let Some(number) = self.number_of(address) {
            return Ok(number);
        }
        if is_martian(address) {
            return Err(RouteError::NotAHost(address));
        }
        let number = u16::try_from(self.addresses.len()).ok().filter(|number| *number < u16::MAX);
        let number = number.ok_or(RouteError::TooMany)?;
        self.addresses.push(address);
        let bits_v4 = match address {
            IpAddr::V4(address) => {
                self.numbers_v4.insert(address.to_bits(), number);
                address.to_bits()
            }
            IpAddr::V6(address) => {
                self.numbers_v6.insert(address.to_bits(), number);
                0
            }
        };
        self.addresses_v4.push(bits_v4);
        Ok(number)
    }

    pub(super) fn add_route(&mut self, route: Route) -> Result<(), RouteError> {
        let (bits, mtu_min) = if route.network.is_ipv4() { (32, 576) } else { (128, 1280) };
        if route.prefix > bits {
            return Err(RouteError::Prefix(route.prefix));
        }
        if route.mtu < mtu_min {
            return Err(RouteError::Mtu(route.mtu));
        }
        let same = |other: &Route| (other.network, other.prefix) == (route.network, route.prefix);
        let link = Link::new(route.next_hop, route.source);
        if let Some(place) = self.routes.iter().position(same) {
            (self.routes[place], self.links[place]) = (route, link);
            return Ok(());
        }
        if self.routes.len() >= usize::from(u16::MAX) {
            return Err(RouteError::TooMany);
        }
        self.routes.push(route);
        self.links.push(link);
        Ok(())
    }

    #[inline]
    pub(super) fn number_of(&self, address: IpAddr) -> Option<u16> {
        match address {
            IpAddr::V4(address) => self.numbers_v4.get(&address.to_bits()).copied(),
            IpAddr::V6(address) => self.numbers_v6.get(&address.to_bits()).copied(),
        }
    }

    pub(super) fn address(&self, number: u16) -> IpAddr {
        self.addresses[usize::from(number)]
    }

    /// The first address of the family of `remote`, from this number on.
    pub(super) fn source_for(&self, remote: IpAddr, from: u16) -> Option<u16> {
        let places = usize::from(from)..self.addresses.len();
        let found = places.into_iter().find(|place| self.addresses[*place].is_ipv4() == remote.is_ipv4());
        found.map(|place| place as u16)
    }

    /// The route to another host: the one with the longest prefix. None leads to the broadcast address of its network, or to
    /// this host itself, so that neither is a peer, nor answered (RFC 9293 MUST-46, MUST-57, MUST-63; RFC 1122 3.2.1.3).
    pub(super) fn route_to(&self, remote: IpAddr) -> Result<u16, ConnectError> {
        let matching = self.routes.iter().enumerate().filter(|(_, route)| covers(route, remote));
        let (place, route) = matching.max_by_key(|(_, route)| route.prefix).ok_or(ConnectError::NoRoute)?;
        let is_broadcast = match remote {
            IpAddr::V4(remote) => is_directed_broadcast(remote.to_bits(), route.prefix),
            IpAddr::V6(_) => false,
        };
        if is_broadcast || !self.loops_back && self.number_of(remote).is_some() {
            return Err(ConnectError::NotAHost);
        }
        Ok(place as u16)
    }

    #[inline]
    pub(super) fn link(&self, route: u16) -> &Link {
        &self.links[usize::from(route)]
    }

    pub(super) fn mtu(&self, route: u16) -> u16 {
        self.routes[usize::from(route)].mtu
    }

    pub(super) fn is_v4(&self, local: u16) -> bool {
        self.addresses[usize::from(local)].is_ipv4()
    }

    /// The peer behind the number in a block.
    pub(super) fn peer(&self, local: u16, remote: u32) -> IpAddr {
        if self.is_v4(local) {
            IpAddr::from(remote.to_be_bytes())
        } else {
            IpAddr::from(self.peers.address(remote).to_be_bytes())
        }
    }

    /// The addresses of a connection from the numbers in its block.
    #[inline]
    pub(super) fn addresses(&self, local: u16, remote: u32) -> Addresses {
        let v4 = self.addresses_v4[usize::from(local)];
        if v4 != 0 {
            return Addresses::V4 { local: v4, remote };
        }
        self.addresses_v6(local, remote)
    }

    /// An IPv4 address of ours; 0 if it is IPv6.
    #[inline]
    pub(super) fn address_v4(&self, local: u16) -> u32 {
        self.addresses_v4[usize::from(local)]
    }

    #[cold]
    fn addresses_v6(&self, local: u16, remote: u32) -> Addresses {
        match self.addresses[usize::from(local)] {
            IpAddr::V4(address) => Addresses::V4 { local: address.to_bits(), remote },
            IpAddr::V6(address) => {
                Addresses::V6 { local: address.to_bits(), remote: self.peers.address(remote) }
            }
        }
    }

    /// Bytes of memory that it holds.
    pub(super) fn bytes(&self) -> usize {
        bytes_of_list(&self.addresses)
            + bytes_of_list(&self.addresses_v4)
            + bytes_of_map(&self.numbers_v4)
            + bytes_of_map(&self.numbers_v6)
            + bytes_of_list(&self.routes)
            + bytes_of_list(&self.links)
            + size_of_val(&*self.ports)
            + bytes_of_list(&self.listeners)
            + bytes_of_list(&self.peers.list)
            + bytes_of_map(&self.peers.numbers)
            + bytes_of_list(&self.peers.free)
    }

    /// The number by which blocks name this peer; held until [`release_peer`](Self::release_peer).
    pub(super) fn hold_peer(&mut self, remote: IpAddr) -> u32 {
        match remote {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => self.peers.hold(address.to_bits()),
        }
    }

    /// Lets go of a peer that [`hold_peer`](Self::hold_peer) gave.
    pub(super) fn release_peer(&mut self, local: u16, remote: u32) {
        if !self.is_v4(local) {
            self.peers.release(remote);
        }
    }

    /// The listeners that there are.
    pub(super) fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(|listener| listener.open)
    }

    /// The listener of this id, and not a later one in its place.
    #[inline]
    pub(super) fn listener(&self, id: ListenerId) -> Option<&Listener> {
        let listener = self.listeners.get(usize::from(id.number))?;
        (listener.open && listener.generation == id.generation).then_some(listener)
    }

    /// Adds a listener; none if no place is left. The caller has checked that there is no equal one.
    pub(super) fn add_listener(&mut self, mut listener: Listener) -> Option<ListenerId> {
        let is_free = |old: &Listener| !old.open && old.generation < u16::MAX;
        let place = self.listeners.iter().position(is_free).unwrap_or(self.listeners.len());
        let number = u16::try_from(place).ok().filter(|number| *number < u16::MAX)?;
        if place == self.listeners.len() {
            self.listeners.push(listener);
        } else {
            listener.generation = self.listeners[place].generation + 1;
        }
        listener.next = std::mem::replace(&mut self.ports[usize::from(listener.port)], number + 1);
        self.listeners[place] = listener;
        Some(ListenerId { number, generation: listener.generation })
    }

    /// Ends a listener, if the id is that of one.
    pub(super) fn remove_listener(&mut self, id: ListenerId) {
        let Some(&Listener { port, next, .. }) = self.listener(id) else { return };
        let (number, port) = (id.number, usize::from(port));
        self.listeners[usize::from(number)].open = false;
        if self.ports[port] == number + 1 {
            self.ports[port] = next;
            return;
        }
        let mut place = self.ports[port];
        while let Some(before) = place.checked_sub(1) {
            let before = &mut self.listeners[usize::from(before)];
            place = before.next;
            if place == number + 1 {
                before.next = next;
                return;
            }
        }
    }

    /// Ends all listeners.
    pub(super) fn remove_listeners(&mut self) {
        for listener in &mut self.listeners {
            listener.open = false;
            self.ports[usize::from(listener.port)] = 0;
        }
    }

    /// The listener for a SYN to this address and port: one for the address itself comes before one for any.
    pub(super) fn listener_for(&self, local: u16, port: u16) -> Option<ListenerId> {
        let mut found = None;
        let mut place = self.ports[usize::from(port)];
        while let Some(number) = place.checked_sub(1) {
            let listener = &self.listeners[usize::from(number)];
            let id = ListenerId { number, generation: listener.generation };
            match listener.address {
                Some(address) if address == local => return Some(id),
                None => found = Some(id),
                Some(_) => {}
            }
            place = listener.next;
        }
        found
    }
}

impl Listener {
    pub(super) const fn new(address: Option<u16>, port: u16) -> Self {
        Self {
            address,
            port,
            generation: 0,
            open: true,
            class: ServiceClass::new(0, super::turns::NORMAL),
            no_nagle: false,
            keep_alive: false,
            next: 0,
        }
    }
}

fn covers(route: &Route, remote: IpAddr) -> bool {
    let equal_bits = match (route.network, remote) {
        (IpAddr::V4(network), IpAddr::V4(remote)) => (network.to_bits() ^ remote.to_bits()).leading_zeros(),
        (IpAddr::V6(network), IpAddr::V6(remote)) => (network.to_bits() ^ remote.to_bits()).leading_zeros(),
        _ => return false,
    };
    u32::from(route.prefix) <= equal_bits
}

/// IPv6 addresses of peers, counted by the blocks that name them.
#[derive(Default)]
struct Peers {
    list: Vec<(u128, u32)>,
    numbers: HashMap<u128, u32>,
    free: Vec<u32>,
}

impl Peers {
    #[inline]
    fn address(&self, number: u32) -> u128 {
        self.list.get(number as usize).map_or(0, |(address, _)| *address)
    }

    fn hold(&mut self, address: u128) -> u32 {
        if let Some(number) = self.numbers.get(&address) {
            self.list[*number as usize].1 += 1;
            return *number;
        }
        let number = self.free.pop().unwrap_or(self.list.len() as u32);
        match self.list.get_mut(number as usize) {
            Some(place) => *place = (address, 1),
            None => self.list.push((address, 1)),
        }
        self.numbers.insert(address, number);
        number
    }

    fn release(&mut self, number: u32) {
        let Some((address, holders)) = self.list.get_mut(number as usize) else { return };
        *holders -= 1;
        if *holders == 0 {
            self.numbers.remove(address);
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(network: &str, prefix: u8, mtu: u16) -> Route {
        let mac = Mac::new([2, 0, 0, 0, 0, prefix]);
        Route { network: network.parse().expect("an address"), prefix, source: mac, next_hop: mac, mtu }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let mut local = Local::default();
        for (network, prefix) in [("0.0.0.0", 0), ("10.0.0.0", 8), ("10.1.0.0", 16), ("::", 0)] {
            local.add_route(route(network, prefix, 1500)).expect("a route");
        }
        let to = |remote: &str| local.route_to(remote.parse().expect("an address"));
        assert_eq!(
            [to("10.1.2.3"), to("10.2.0.1"), to("9.9.9.9"), to("2001:db8::1")],
            [Ok(2), Ok(1), Ok(0), Ok(3)]
        );
        assert_eq!(local.add_route(route("10.0.0.0", 33, 1500)), Err(RouteError::Prefix(33)));
        assert_eq!(local.add_route(route("::", 0, 600)), Err(RouteError::Mtu(600)));
    }

    #[test]
    fn listeners_of_a_port_are_told_apart_by_address() {
        let mut local = Local::default();
        let one = local.add_address("10.0.0.1".parse().expect("an address")).expect("room");
        let two = local.add_address("10.0.0.2".parse().expect("an address")).expect("room");
        let add = |local: &mut Local, address, port| {
            local.add_listener(Listener::new(address, port)).expect("room")
        };
        let any = add(&mut local, None, 80);
        let only_two = add(&mut local, Some(two), 80);
        assert_eq!(local.listener_for(one, 80), Some(any));
        assert_eq!(local.listener_for(two, 80), Some(only_two));
        local.remove_listener(any);
        assert_eq!((local.listener_for(one, 80), local.listener_for(two, 80)), (None, Some(only_two)));
        let later = add(&mut local, None, 81);
        assert_eq!((later.number, later == any), (any.number, false), "its number is used again");
        assert!(local.listener(any).is_none());
        local.remove_listener(any);
        assert_eq!((local.listener_for(two, 80), local.listener_for(one, 81)), (Some(only_two), Some(later)));
        local.remove_listeners();
        assert_eq!((local.listener_for(two, 80), local.listener_for(one, 81)), (None, None));
        assert_eq!(local.listeners().count(), 0);
    }

    #[test]
    fn no_id_of_a_listener_comes_twice() {
        let mut local = Local::default();
        let mut ids = std::collections::HashSet::new();
        for _ in 0..(2 << 16) + 7 {
            let id = local.add_listener(Listener::new(None, 80)).expect("room");
            assert!(ids.insert(id), "{id:?} after {} others", ids.len());
            local.remove_listener(id);
        }
        assert_eq!(local.listeners.len(), 3, "a place that is used up is left alone");
    }

    #[test]
    fn listeners_have_as_many_places_as_their_ids_can_name() {
        let mut local = Local::default();
        let all: Vec<_> = (0..=u16::MAX).map(|port| local.add_listener(Listener::new(None, port))).collect();
        assert_eq!(all.iter().flatten().count(), usize::from(u16::MAX));
        let first = all[0].expect("the first has room");
        local.remove_listener(first);
        assert!(local.add_listener(Listener::new(None, 0)).is_some());
    }

    #[test]
    fn peers_are_counted() {
        let mut local = Local::default();
        let number = local.add_address("fd00::1".parse().expect("an address")).expect("room");
        let peer: IpAddr = "2001:db8::7".parse().expect("an address");
        let (first, again) = (local.hold_peer(peer), local.hold_peer(peer));
        assert_eq!(first, again);
        local.release_peer(number, first);
        assert!(
            matches!(local.addresses(number, first), Addresses::V6 { remote, .. } if IpAddr::from(remote.to_be_bytes()) == peer)
        );
        local.release_peer(number, first);
        assert_eq!(
            local.hold_peer("2001:db8::8".parse().expect("an address")),
            first,
            "its number is used again"
        );
    }
}
