//! What the engine and the layer below it tell each other: addresses and routes, who the neighbours are, and frames that are no
//! TCP.

use core::net::{IpAddr, SocketAddr};

use anywire_packet::Mac;

use crate::engine::ip::routes::{Route, RouteError};
use crate::engine::{ConnectError, End, Engine};
use crate::frames::Meta;
use crate::half_open::Traits;
use crate::tcb::State;

/// Where packets for a destination go, by the engine's routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextHop {
    /// The neighbour that takes them.
    pub address: IpAddr,
    /// The address of ours that they come from; none if we have none that reaches there.
    pub source: Option<IpAddr>,
    /// The longest one, in bytes.
    pub mtu: u16,
}

impl Engine {
    /// Gives the engine an address.
    ///
    /// # Errors
    /// If it has had 65,535 of them.
    pub fn add_address(&mut self, address: IpAddr) -> Result<(), RouteError> {
        self.local.add_address(address).map(|_| ())
    }

    /// Whether the engine has an address now.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.local.own_addresses().any(|own| own == address)
    }

    /// Takes an address away. Its connections end with [`End::NetworkDown`](crate::engine::End::NetworkDown), and a reset tells their peers;
    /// what has arrived can be read. Listeners stay, and have connections again once the address is back. Looks at each connection, so
    /// it is nothing to do often. Gives how many connections have ended, half-open ones and TIME-WAITs not counted.
    pub fn remove_address(&mut self, address: IpAddr) -> usize {
        let Some(number) = self.local.remove_address(address) else { return 0 };
        self.sources.forget_addresses();
        for place in 0..self.time_wait.places() {
            let wait = &self.time_wait[place];
            if wait.traits.has(Traits::USED) && wait.local == number {
                self.drop_time_wait(place);
            }
        }
        for place in 0..self.half_open.places() {
            let half = &self.half_open[place];
            if half.traits.has(Traits::USED) && half.local == number {
                self.reset_half_open(place);
            }
        }
        let mut ended = 0;
        for index in self.tcbs.all() {
            let tcb = &self.tcbs[index];
            if tcb.local_port != 0 && tcb.local == number && tcb.state != State::Closed {
                self.break_off(index, End::NetworkDown);
                self.check(index);
                ended += 1;
            }
        }
        ended
    }

    /// Takes all addresses away, as [`remove_address`](Self::remove_address) does: the network interface is gone.
    pub fn remove_addresses(&mut self) -> usize {
        let all: Vec<_> = self.local.own_addresses().collect();
        all.into_iter().map(|address| self.remove_address(address)).sum()
    }

    /// Ends the connections whose peers have gone for good, as their resets would. Closing connections end, too: their last segments
    /// would never be acknowledged. `is_reachable` is asked for each, by our address and the peer's. Says how many have ended.
    pub fn end_unreachable(&mut self, is_reachable: impl Fn(SocketAddr, SocketAddr) -> bool) -> usize {
        let mut ended = 0;
        for index in self.tcbs.all() {
            let tcb = &self.tcbs[index];
            if tcb.local_port == 0 || tcb.state == State::Closed {
                continue;
            }
            let (local, remote) = self.ends(tcb);
            if !is_reachable(local, remote) {
                self.break_off(index, End::Reset);
                self.check(index);
                ended += 1;
            }
        }
        ended
    }

    /// Adds a route, or replaces the one to the same network.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub fn add_route(&mut self, route: Route) -> Result<(), RouteError> {
        self.local.add_route(route)
    }

    /// Sets the address of the engine's interface: the source of all its frames. Segments to another interface open no
    /// connection and are not answered, unless the device [loops back](crate::Settings::loops_back). Default: none, and all zeros
    /// in frames.
    pub fn set_mac(&mut self, mac: Mac) {
        self.local.neighbours.set_mac(mac);
    }

    /// The address of the engine's interface.
    pub const fn mac(&self) -> Mac {
        self.local.neighbours.mac()
    }

    /// Says for good which interface a neighbour has, which is a destination on the link, or a gateway. Where nobody resolves
    /// addresses, each next hop needs this.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub fn add_neighbour(&mut self, address: IpAddr, mac: Mac) -> Result<(), RouteError> {
        self.local.neighbours.add(address, mac)
    }

    /// Says which interface a neighbour has now, or with none that it is not known any more. Nothing changes for a neighbour that
    /// was [added](Self::add_neighbour), or that the engine does not know.
    pub fn set_neighbour(&mut self, address: IpAddr, mac: Option<Mac>) {
        self.local.neighbours.set(address, mac);
    }

    /// Whether the last batch may hold frames for neighbours that were not known. [`unresolved`](Self::unresolved) tells which.
    pub const fn has_unresolved(&self) -> bool {
        self.local.neighbours.has_unresolved()
    }

    /// The neighbour for which a frame of the last batch is, if its interface was not known: the frame must wait for that, and then
    /// get another destination. It may not leave as it is.
    pub fn unresolved(&self, frame: &[u8]) -> Option<IpAddr> {
        self.local.neighbours.unresolved_of(frame)
    }

    /// Says that a frame of the engine's has not left, because its neighbour does not answer. A connection that is being opened ends
    /// with [`End::Unreachable`](crate::engine::End::Unreachable); an open one sends again.
    pub fn undelivered(&mut self, frame: &[u8]) {
        if let Some(error) = anywire_packet::icmp::undelivered(frame) {
            self.on_icmp(error);
        }
    }

    /// Whether a connection or an answer that waits leads to this neighbour, so that something may be sent there at any time.
    pub fn uses_neighbour(&self, address: IpAddr) -> bool {
        self.local.neighbours.is_held(address)
    }

    /// Whether peers have acknowledged what went through this neighbour, since the last call: so it is there (RFC 4861 7.3.1).
    pub fn take_progress(&mut self, address: IpAddr) -> bool {
        self.local.neighbours.take_progress(address)
    }

    /// Where packets to a destination go.
    ///
    /// # Errors
    /// If there is no route, or no other host has the address.
    pub fn next_hop(&self, destination: IpAddr) -> Result<NextHop, ConnectError> {
        let route = self.local.route_to(destination)?.route;
        let source = self.local.best_source_for(destination).map(|number| self.local.address(number));
        Ok(NextHop { address: route.next_hop(destination), source, mtu: route.mtu })
    }

    /// Frames of the batch that was received last which are no TCP, and no error about it: ARP, ICMP, other protocols. Their
    /// checksums were verified as far as they are of IPv4 and ICMP; what the device knows of others is told.
    pub fn left_over(&self) -> impl Iterator<Item = (&[u8], Meta)> {
        let frame = |number: usize| (&self.received[number], self.received.meta(number));
        self.left_over.iter().map(move |number| frame(*number as usize))
    }

    /// Says how long packets to a destination may be, whoever has found out: connections send no longer ones for ten minutes. For
    /// those that are open this looks at each, so it is nothing to do often.
    pub fn set_path_mtu(&mut self, destination: IpAddr, mtu: u16) {
        let least = if destination.is_ipv4() { crate::engine::ending::LEAST_MTU_V4 } else { 1280 };
        let known = u32::from(mtu).max(least) as u16;
        let is_evicted = self.path_mtus.learn(destination, known, self.now, self.limits.path_mtus);
        self.counters.path_mtus_evicted += u64::from(is_evicted);
        for index in self.tcbs.all() {
            let tcb = &self.tcbs[index];
            if tcb.state.is_synchronized() && self.local.peer(tcb.local, tcb.remote) == destination {
                self.on_narrow_path(index, mtu.into());
                self.check(index);
            }
        }
    }

    /// Says that no way out carries longer packets than these any more: the link has another MTU. Routes with a larger one get this one, or
    /// the least that IP needs, and connections send shorter segments. Looks at each connection.
    pub fn lower_mtu(&mut self, mtu: u16) {
        for known in self.local.routes.iter_mut() {
            let least = if known.route.network.address().is_ipv4() { 576 } else { 1280 };
            known.route.mtu = known.route.mtu.min(mtu.max(least));
        }
        for index in self.tcbs.all() {
            if self.tcbs[index].state.is_synchronized() {
                self.on_narrow_path(index, mtu.into());
                self.check(index);
            }
        }
    }
}
