//! Swarms on one network, on one thread and a clock that only tests move.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::net::SocketAddr;

use anywire_stack::device::Device;
use anywire_stack::ip::{self, Layer, Probing};
use anywire_stack::swarm::{Incoming, Instant, Swarm};
use anywire_tcp::{ConnectOptions, Engine, Limits, Mac, Route, Settings, Via};

use crate::hub::{Adapter, Hub};

/// Hosts are numbered: 10.0.0.NUMBER. All reach each other.
pub struct Net {
    hub: Hub,
    pub now: Instant,
}

/// A swarm, whatever its tasks are.
pub trait Rounds {
    fn round(&mut self, now: Instant) -> usize;
    fn next_deadline(&self) -> Option<Instant>;
}

impl<F: Future<Output = ()>, S: FnMut(Incoming) -> F, D: Device> Rounds for Swarm<F, S, D> {
    fn round(&mut self, now: Instant) -> usize {
        Self::round(self, now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        Self::next_deadline(self)
    }
}

pub fn address(host: u8, port: u16) -> SocketAddr {
    ([10, 0, 0, host], port).into()
}

pub const QUICK: ConnectOptions = ConnectOptions { no_nagle: true, keep_alive: false, class: 0, dscp: 0 };

pub fn settings(host: u8) -> Settings {
    Settings::new([1, 2, 3, host.into()])
}

/// The address of a host's interface.
pub const fn mac(host: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 1, host])
}

/// The engine of a host without addresses, which knows nobody.
pub fn lonely_engine(settings: Settings, host: u8) -> Engine {
    let mut engine = Engine::new(settings, Limits::default()).expect("address space");
    engine.set_mac(mac(host));
    let network = "10.0.0.0/24".parse().expect("a network");
    engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).expect("a route");
    engine
}

/// What finds its neighbours; its addresses are used at once.
pub fn layer(host: u8) -> Layer {
    let mut settings = ip::Settings::new(host.into());
    settings.probing = Probing::OFF;
    Layer::new(mac(host), settings, ip::Limits::default())
}

/// The engine of a host that knows all others.
pub fn engine(settings: Settings, host: u8) -> Engine {
    let mut engine = lonely_engine(settings, host);
    engine.add_address([10, 0, 0, host].into()).expect("room");
    for other in 1..8 {
        engine.add_neighbour([10, 0, 0, other].into(), mac(other)).expect("room");
    }
    engine
}

impl Net {
    pub fn new() -> Self {
        Self { hub: Hub::default(), now: Instant::from_micros(1_000_000) }
    }

    pub fn host<F: Future<Output = ()>, S: FnMut(Incoming) -> F>(
        &self,
        host: u8,
        connections_max: usize,
        start: S,
    ) -> Swarm<F, S, Adapter> {
        self.host_with(settings(host), host, connections_max, start)
    }

    pub fn host_with<F: Future<Output = ()>, S: FnMut(Incoming) -> F>(
        &self,
        settings: Settings,
        host: u8,
        connections_max: usize,
        start: S,
    ) -> Swarm<F, S, Adapter> {
        Swarm::new(engine(settings, host), self.hub.adapter(mac(host)), connections_max, start)
            .expect("address space")
    }

    /// Lets so many milliseconds pass.
    pub fn pass(&mut self, millis: u64, swarms: &mut [&mut dyn Rounds]) {
        for _ in 0..millis {
            self.now = Instant::from_micros(self.now.as_micros() + 1000);
            while swarms.iter_mut().map(|swarm| swarm.round(self.now)).sum::<usize>() > 0 {}
        }
    }
}
