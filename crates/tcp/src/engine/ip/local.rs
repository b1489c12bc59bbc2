//! Where the engine is: its addresses, its ways out and the neighbours there, its listeners, and the IPv6 peers that TCBs name
//! by number.

use core::net::IpAddr;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use anywire_packet::plain::{self, Plain};
use anywire_packet::{Addresses, Cidr, Link};
use anywire_sys::martian::{is_directed_broadcast, is_martian};

use crate::engine::ip::neighbours::Neighbours;
use crate::engine::ip::routes::{Known, Route, RouteError, Routes, Via, has_scope_for};
use crate::engine::{ConnectError, ListenerId, bytes_of_list, bytes_of_map};
use crate::hash::OwnHasher;
use crate::tcb::ServiceClass;

/// Addresses, routes, neighbours and listeners.
pub(crate) struct Local {
    /// See [`Settings::loops_back`](crate::Settings::loops_back).
    pub(crate) loops_back: bool,
    addresses: Vec<IpAddr>,
    /// The same as numbers, zero where it is IPv6: what every frame is compared with.
    addresses_v4: Vec<u32>,
    /// The number of each of them, IPv4 by its bits: looked up for each SYN.
    numbers_v4: HashMap<u32, u16, BuildHasherDefault<OwnHasher>>,
    numbers_v6: HashMap<u128, u16>,
    /// Numbers of addresses that were taken away. TCBs and listeners may name them, so no other address gets them.
    removed: Vec<u16>,
    pub(super) routes: Routes,
    pub(crate) neighbours: Neighbours,
    /// The listener of each port: its number plus one. The lookup for a SYN must not depend on the number of listeners.
    ports: Box<[u16]>,
    listeners: Vec<Listener>,
    peers: Peers,
}

/// A port that is listened on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listener {
    /// One of the engine's addresses, or any.
    pub(crate) address: Option<u16>,
    pub(crate) port: u16,
    /// How many have had its place before.
    pub(crate) generation: u16,
    pub(crate) open: bool,
    pub(crate) class: ServiceClass,
    pub(crate) no_nagle: bool,
    pub(crate) keep_alive: bool,
    /// Connections that wait to be accepted, and how many may; more than this many are one too many.
    pub(crate) waiting: u32,
    pub(crate) backlog: u32,
    /// The next listener of the same port: its number plus one.
    pub(crate) next: u16,
}

impl Local {
    /// Nowhere yet, with so many neighbours at most.
    pub(crate) fn new(loops_back: bool, neighbours_max: usize) -> Self {
        Self {
            loops_back,
            addresses: Vec::new(),
            addresses_v4: Vec::new(),
            numbers_v4: HashMap::default(),
            numbers_v6: HashMap::new(),
            removed: Vec::new(),
            routes: Routes::default(),
            neighbours: Neighbours::new(neighbours_max),
            ports: vec![0; 1 << 16].into_boxed_slice(),
            listeners: Vec::new(),
            peers: Peers::default(),
        }
    }

    pub(crate) fn add_address(&mut self, address: IpAddr) -> Result<u16, RouteError> {
        if let Some(number) = self.number_of(address) {
            return Ok(number);
        }
        if is_martian(address) {
            return Err(RouteError::NotAHost(address));
        }
        let before = self.removed.iter().position(|number| self.address(*number) == address);
        let number = match before {
            Some(place) => self.removed.swap_remove(place),
            None => self.number_for_new(address)?,
        };
        match address {
            IpAddr::V4(address) => self.numbers_v4.insert(address.to_bits(), number),
            IpAddr::V6(address) => self.numbers_v6.insert(address.to_bits(), number),
        };
        for known in self.routes.iter_mut() {
            known.consider(number, &self.addresses);
        }
        Ok(number)
    }

    fn number_for_new(&mut self, address: IpAddr) -> Result<u16, RouteError> {
        let number = u16::try_from(self.addresses.len()).ok().filter(|number| *number < u16::MAX);
        let number = number.ok_or(RouteError::TooMany)?;
        self.addresses.push(address);
        self.addresses_v4.push(match address {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(_) => 0,
        });
        Ok(number)
    }

    /// Takes an address away: nothing begins there any more. Gives its number, which stays its own.
    pub(crate) fn remove_address(&mut self, address: IpAddr) -> Option<u16> {
        let number = match address {
            IpAddr::V4(address) => self.numbers_v4.remove(&address.to_bits()),
            IpAddr::V6(address) => self.numbers_v6.remove(&address.to_bits()),
        }?;
        self.removed.push(number);
        let (addresses, removed) = (&self.addresses, &self.removed);
        for known in self.routes.iter_mut().filter(|known| known.source == Some(number)) {
            known.source = None;
            let ours = (0..addresses.len() as u16).filter(|number| !removed.contains(number));
            ours.for_each(|number| known.consider(number, addresses));
        }
        Some(number)
    }

    /// The addresses that are ours now.
    pub(crate) fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let numbers = (0..self.addresses.len() as u16).filter(|number| self.is_ours(*number));
        numbers.map(|number| self.address(number))
    }

    fn is_ours(&self, number: u16) -> bool {
        !self.removed.contains(&number)
    }

    pub(crate) fn add_route(&mut self, route: Route) -> Result<(), RouteError> {
        let network = route.network.address();
        let mtu_min = if network.is_ipv4() { 576 } else { 1280 };
        if route.mtu < mtu_min {
            return Err(RouteError::Mtu(route.mtu));
        }
        let gateway = if let Via::Gateway(gateway) = route.via { Some(gateway) } else { None };
        for address in [gateway, route.source].into_iter().flatten() {
            if address.is_ipv4() != network.is_ipv4() {
                return Err(RouteError::Family(address));
            }
            if is_martian(address) {
                return Err(RouteError::NotAHost(address));
            }
        }
        let gateway = gateway.map(|gateway| self.neighbours.number_of(gateway).ok_or(RouteError::TooMany));
        let gateway = gateway.transpose()?;
        let mut known = Known { route, gateway, source: None };
        for number in (0..self.addresses.len() as u16).filter(|number| self.is_ours(*number)) {
            known.consider(number, &self.addresses);
        }
        let replaced = self.routes.add(known)?;
        // The new one first: the gateway may be the same.
        if let Some(gateway) = gateway {
            self.neighbours.pin(gateway);
        }
        if let Some(gateway) = replaced.and_then(|replaced| replaced.gateway) {
            self.neighbours.unpin(gateway);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn number_of(&self, address: IpAddr) -> Option<u16> {
        match address {
            IpAddr::V4(address) => self.numbers_v4.get(&address.to_bits()).copied(),
            IpAddr::V6(address) => self.numbers_v6.get(&address.to_bits()).copied(),
        }
    }

    /// How many addresses of ours have numbers, those that were taken away included.
    pub(crate) fn addresses_max(&self) -> usize {
        self.addresses.len()
    }

    pub(crate) fn address(&self, number: u16) -> IpAddr {
        self.addresses[usize::from(number)]
    }

    /// The first address of ours, from this number on, that packets to `remote` may come from.
    pub(crate) fn source_for(&self, remote: IpAddr, from: u16) -> Option<u16> {
        let mut numbers = from..self.addresses.len() as u16;
        numbers.find(|number| has_scope_for(self.address(*number), remote) && self.is_ours(*number))
    }

    /// The address of ours that packets to `remote` come from, if nobody asks for another one.
    pub(crate) fn best_source_for(&self, remote: IpAddr) -> Option<u16> {
        self.routes.to(remote).and_then(|known| known.source).or_else(|| self.source_for(remote, 0))
    }

    /// The route to another host. None leads to the broadcast address of its network, or to this host itself, so that neither is a
    /// peer, nor answered (RFC 9293 MUST-46, MUST-57, MUST-63; RFC 1122 3.2.1.3).
    pub(crate) fn route_to(&self, remote: IpAddr) -> Result<&Known, ConnectError> {
        let known = self.routes.to(remote).ok_or(ConnectError::NoRoute)?;
        let is_broadcast = match remote {
            IpAddr::V4(remote) => is_directed_broadcast(remote.to_bits(), known.route.network.prefix()),
            IpAddr::V6(_) => false,
        };
        if is_broadcast || !self.loops_back && self.number_of(remote).is_some() {
            return Err(ConnectError::NotAHost);
        }
        Ok(known)
    }

    /// The network that an address of ours is in.
    pub(crate) fn network_of(&self, own: IpAddr) -> Cidr {
        self.routes.to(own).map_or(Cidr::host(own), |known| known.route.network)
    }

    /// The number of the neighbour that takes packets for `remote`: to be held before another one is asked for.
    #[inline]
    pub(crate) fn neighbour_to(&mut self, remote: IpAddr) -> Result<u16, ConnectError> {
        let known = self.route_to(remote)?;
        if let Some(gateway) = known.gateway {
            return Ok(gateway);
        }
        self.neighbours.number_of(remote).ok_or(ConnectError::NoNeighbour)
    }

    #[inline]
    pub(crate) fn link(&self, neighbour: u16) -> &Link {
        self.neighbours.link(neighbour)
    }

    /// The largest packet that the first link to `remote` takes. The least that IP guarantees if there is no route.
    pub(crate) fn mtu_to(&self, remote: IpAddr) -> u16 {
        let least = if remote.is_ipv4() { 576 } else { 1280 };
        self.routes.to(remote).map_or(least, |known| known.route.mtu)
    }

    pub(crate) fn is_v4(&self, local: u16) -> bool {
        self.addresses[usize::from(local)].is_ipv4()
    }

    /// The peer behind the number in a TCB.
    pub(crate) fn peer(&self, local: u16, remote: u32) -> IpAddr {
        if self.is_v4(local) {
            IpAddr::from(remote.to_be_bytes())
        } else {
            IpAddr::from(self.peers.address(remote).to_be_bytes())
        }
    }

    /// The addresses of a connection from the numbers in its TCB.
    #[inline]
    pub(crate) fn addresses(&self, local: u16, remote: u32) -> Addresses {
        let v4 = self.addresses_v4[usize::from(local)];
        if v4 != 0 {
            return Addresses::V4 { local: v4, remote };
        }
        self.addresses_v6(local, remote)
    }

    /// An IPv4 address of ours; 0 if it is IPv6.
    #[inline]
    pub(crate) fn address_v4(&self, local: u16) -> u32 {
        self.addresses_v4[usize::from(local)]
    }

    /// Whether a plain segment is between the addresses that a TCB names by these numbers.
    #[inline(always)]
    pub(crate) fn are_addresses_of<const LEN: usize>(
        &self,
        local: u16,
        remote: u32,
        segment: Plain<'_, LEN>,
    ) -> bool {
        let local_v4 = self.address_v4(local);
        if plain::is_v6(LEN) {
            return local_v4 == 0 && self.addresses_v6(local, remote) == segment.addresses();
        }
        // A local address of zero: the TCB is of IPv6, and the segment is to 0.0.0.0.
        local_v4 != 0 && u64::from(remote) << 32 | u64::from(local_v4) == segment.addresses_v4()
    }

    fn addresses_v6(&self, local: u16, remote: u32) -> Addresses {
        match self.addresses[usize::from(local)] {
            IpAddr::V4(address) => Addresses::V4 { local: address.to_bits(), remote },
            IpAddr::V6(address) => {
                Addresses::V6 { local: address.to_bits(), remote: self.peers.address(remote) }
            }
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of_list(&self.addresses)
            + bytes_of_list(&self.addresses_v4)
            + bytes_of_map(&self.numbers_v4)
            + bytes_of_map(&self.numbers_v6)
            + bytes_of_list(&self.removed)
            + self.routes.bytes()
            + self.neighbours.bytes()
            + size_of_val(&*self.ports)
            + bytes_of_list(&self.listeners)
            + bytes_of_list(&self.peers.list)
            + bytes_of_map(&self.peers.numbers)
            + bytes_of_list(&self.peers.free)
    }

    /// The number by which TCBs name this peer; held until [`release_peer`](Self::release_peer).
    pub(crate) fn acquire_peer(&mut self, remote: IpAddr) -> u32 {
        match remote {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => self.peers.acquire(address.to_bits()),
        }
    }

    /// Lets go of a peer that [`acquire_peer`](Self::acquire_peer) gave.
    pub(crate) fn release_peer(&mut self, local: u16, remote: u32) {
        if !self.is_v4(local) {
            self.peers.release(remote);
        }
    }

    /// The listeners that there are.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().filter(|listener| listener.open)
    }

    /// The listener of this id, and not a later one in its place.
    #[inline]
    pub(crate) fn listener(&self, id: ListenerId) -> Option<&Listener> {
        let listener = self.listeners.get(usize::from(id.number))?;
        (listener.open && listener.generation == id.generation).then_some(listener)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn listener_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        let listener = self.listeners.get_mut(usize::from(id.number))?;
        (listener.open && listener.generation == id.generation).then_some(listener)
    }

    /// Adds a listener; none if no place is left. The caller has checked that there is no equal one.
    pub(crate) fn add_listener(&mut self, mut listener: Listener) -> Option<ListenerId> {
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
    pub(crate) fn remove_listener(&mut self, id: ListenerId) {
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
    pub(crate) fn remove_listeners(&mut self) {
        for listener in &mut self.listeners {
            listener.open = false;
            self.ports[usize::from(listener.port)] = 0;
        }
    }

    /// The listener for a SYN to this address and port: one for the address itself comes before one for any.
    pub(crate) fn listener_for(&self, local: u16, port: u16) -> Option<ListenerId> {
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

    /// The listener at any address and this port.
    pub(crate) fn listener_at_any(&mut self, port: u16) -> Option<&mut Listener> {
        self.listeners.iter_mut().find(|other| other.open && other.port == port && other.address.is_none())
    }
}

impl Listener {
    pub(crate) const fn new(address: Option<u16>, port: u16) -> Self {
        Self {
            address,
            port,
            generation: 0,
            open: true,
            class: ServiceClass::new(0, crate::engine::output::scheduler::NORMAL),
            no_nagle: false,
            keep_alive: false,
            waiting: 0,
            backlog: u32::MAX,
            next: 0,
        }
    }
}

/// IPv6 addresses of peers, counted by the TCBs that name them.
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

    fn acquire(&mut self, address: u128) -> u32 {
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

    fn local_with(addresses: &[&str]) -> Local {
        let mut local = Local::new(false, 100);
        for address in addresses {
            local.add_address(address.parse().expect("an address")).expect("room");
        }
        local
    }

    fn route(network: &str, via: Via) -> Route {
        Route { network: network.parse().expect("a network"), via, mtu: 1500, source: None }
    }

    #[test]
    fn a_source_is_chosen_by_scope_and_by_the_next_hop() {
        let addresses = ["10.0.0.2", "192.0.2.9", "fe80::2", "2001:db8::2", "2001:db8:1::2"];
        let mut local = local_with(&addresses);
        let gateway = |address: &str| Via::Gateway(address.parse().expect("an address"));
        for route in [
            route("10.0.0.0/24", Via::OnLink),
            route("192.0.2.0/24", Via::OnLink),
            route("0.0.0.0/0", gateway("192.0.2.1")),
            route("fe80::/10", Via::OnLink),
            route("2001:db8:1::/64", Via::OnLink),
            route("::/0", gateway("fe80::1")),
            Route { source: Some([10, 0, 0, 2].into()), ..route("198.51.100.0/24", gateway("192.0.2.1")) },
        ] {
            local.add_route(route).expect("room");
        }
        for (remote, source) in [
            ("10.0.0.7", "10.0.0.2"),
            ("8.8.8.8", "192.0.2.9"),
            ("198.51.100.1", "10.0.0.2"),
            ("fe80::7", "fe80::2"),
            ("2001:db8:1::7", "2001:db8:1::2"),
            ("2001:4860::1", "2001:db8::2"),
        ] {
            let chosen = local.best_source_for(remote.parse().expect("an address"));
            let chosen = chosen.map(|number| local.address(number).to_string());
            assert_eq!(chosen.as_deref(), Some(source), "towards {remote}");
        }
        assert_eq!(
            local_with(&["fe80::2"]).best_source_for("2001:db8::7".parse().expect("an address")),
            None
        );
    }

    #[test]
    fn a_route_that_cannot_be_is_refused() {
        let mut local = local_with(&["10.0.0.2"]);
        let v6 = "fe80::1".parse().expect("an address");
        assert_eq!(local.add_route(route("0.0.0.0/0", Via::Gateway(v6))), Err(RouteError::Family(v6)));
        let loopback = [127, 0, 0, 1].into();
        assert_eq!(
            local.add_route(route("0.0.0.0/0", Via::Gateway(loopback))),
            Err(RouteError::NotAHost(loopback))
        );
        let narrow = Route { mtu: 600, ..route("::/0", Via::OnLink) };
        assert_eq!(local.add_route(narrow), Err(RouteError::Mtu(600)));
    }

    #[test]
    fn a_gateway_keeps_its_number_for_as_long_as_its_route_is_there() {
        let mut local = Local::new(false, 2);
        let [first, second, other]: [IpAddr; 3] =
            [[10, 0, 0, 1].into(), [10, 0, 0, 3].into(), [10, 0, 0, 5].into()];
        local.add_route(route("0.0.0.0/0", Via::Gateway(first))).expect("room");
        local.add_route(route("0.0.0.0/0", Via::Gateway(first))).expect("room");
        local.add_route(route("10.0.0.0/8", Via::Gateway(second))).expect("room");
        assert_eq!(local.neighbours.number_of(other), None);
        local.add_route(route("0.0.0.0/0", Via::Gateway(second))).expect("room");
        assert!(local.neighbours.number_of(other).is_some(), "the first is a gateway no more");
    }

    #[test]
    fn listeners_of_a_port_are_told_apart_by_address() {
        let mut local = Local::new(false, 100);
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
        let mut local = Local::new(false, 100);
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
        let mut local = Local::new(false, 100);
        let all: Vec<_> = (0..=u16::MAX).map(|port| local.add_listener(Listener::new(None, port))).collect();
        assert_eq!(all.iter().flatten().count(), usize::from(u16::MAX));
        let first = all[0].expect("the first has room");
        local.remove_listener(first);
        assert!(local.add_listener(Listener::new(None, 0)).is_some());
    }

    #[test]
    fn peers_are_counted() {
        let mut local = Local::new(false, 100);
        let number = local.add_address("fd00::1".parse().expect("an address")).expect("room");
        let peer: IpAddr = "2001:db8::7".parse().expect("an address");
        let (first, again) = (local.acquire_peer(peer), local.acquire_peer(peer));
        assert_eq!(first, again);
        local.release_peer(number, first);
        assert!(
            matches!(local.addresses(number, first), Addresses::V6 { remote, .. } if IpAddr::from(remote.to_be_bytes()) == peer)
        );
        local.release_peer(number, first);
        assert_eq!(
            local.acquire_peer("2001:db8::8".parse().expect("an address")),
            first,
            "its number is used again"
        );
    }
}
