//! Hosts with a layer below TCP on one link, which brings each frame to whoever listens to its destination.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anywire_stack::ip::{Event, Layer, Limits, Probing, Settings};
use anywire_tcp::{Cidr, ConnId, ConnectOptions, Engine, Frames, Instant, Mac, Route, Status, Via};

/// An engine and what is below it.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) layer: Layer,
    pub(crate) mac: Mac,
    /// What it has sent, all of it.
    pub(crate) sent: Vec<Vec<u8>>,
    /// Its cable is out.
    pub(crate) is_unplugged: bool,
}

pub(crate) struct Link {
    pub(crate) hosts: Vec<Host>,
    pub(crate) now: Instant,
    frames: Frames,
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) const fn mac(last: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 0, last])
}

/// A host with the interface `last` and no address, on 10.0.0.0/24 and fd00::/64.
pub(crate) fn host(last: u8, probing: Probing, limits: Limits) -> Host {
    let mut bounds = anywire_tcp::Limits::default();
    (bounds.connections, bounds.half_open, bounds.time_wait, bounds.segment_bytes) = (256, 64, 64, 4 << 20);
    let mut engine =
        Engine::new(anywire_tcp::Settings::new([last.into(); 4]), bounds).expect("address space");
    engine.set_mac(mac(last));
    for network in ["10.0.0.0/24", "fd00::/64"] {
        let network = network.parse().expect("a network");
        engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).expect("room");
    }
    let mut settings = Settings::new(last.into());
    settings.probing = probing;
    Host {
        engine,
        layer: Layer::new(mac(last), settings, limits),
        mac: mac(last),
        sent: Vec::new(),
        is_unplugged: false,
    }
}

impl Host {
    /// Gives it addresses.
    pub(crate) fn with(mut self, now: Instant, addresses: &[&str]) -> Self {
        for address in addresses {
            self.layer.add_address(now, ip(address)).expect("room");
        }
        self
    }

    /// All events so far.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.layer.next_event()).collect()
    }

    pub(crate) fn connect(&mut self, to: &str) -> ConnId {
        let to: SocketAddr = to.parse().expect("an address");
        self.engine.connect(to, ConnectOptions::default()).expect("a way there")
    }

    pub(crate) fn is_open(&self, id: ConnId) -> bool {
        self.engine.status(id) == Status::Open
    }

    /// How many of its frames so far are such.
    pub(crate) fn count(&self, is_such: impl Fn(&[u8]) -> bool) -> usize {
        self.sent.iter().filter(|frame| is_such(frame)).count()
    }
}

impl Link {
    /// Hosts 1, 2 and so on, with 10.0.0.NUMBER and fd00::NUMBER, which they use at once.
    pub(crate) fn of(hosts: u8) -> Self {
        let mut link = Self::new();
        for number in 1..=hosts {
            let addresses = [format!("10.0.0.{number}"), format!("fd00::{number}")];
            let host = host(number, Probing::OFF, Limits::default());
            link.hosts.push(host.with(link.now, &[addresses[0].as_str(), addresses[1].as_str()]));
        }
        link.run(Duration::from_secs(5));
        for host in &mut link.hosts {
            host.events();
            host.sent.clear();
        }
        link
    }

    pub(crate) fn new() -> Self {
        Self { hosts: Vec::new(), now: Instant::from_micros(1_000_000), frames: Frames::new() }
    }

    /// Gives one host a frame.
    pub(crate) fn give(&mut self, to: usize, frame: &[u8]) {
        assert!(self.frames.push(frame), "room");
        self.give_frames(to);
    }

    fn give_frames(&mut self, to: usize) {
        let host = &mut self.hosts[to];
        host.engine.receive(self.now, &mut self.frames);
        host.layer.input(self.now, &mut host.engine);
        while host.engine.next_ready().is_some() {}
    }

    /// Has a host do what is due.
    pub(crate) fn advance(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        host.engine.advance(self.now);
        host.layer.advance(self.now, &mut host.engine);
        while host.engine.next_ready().is_some() {}
    }

    /// What a host sends now; nobody gets it.
    pub(crate) fn take(&mut self, from: usize) -> Vec<Vec<u8>> {
        let host = &mut self.hosts[from];
        let mut all = Vec::new();
        loop {
            self.frames.clear();
            host.engine.transmit(self.now, &mut self.frames);
            let had_frames = !self.frames.is_empty();
            host.layer.output(self.now, &mut host.engine, &mut self.frames, usize::MAX);
            assert!(self.frames.iter().all(|frame| host.engine.unresolved(frame).is_none()));
            all.extend(self.frames.iter().map(<[u8]>::to_vec));
            if self.frames.is_empty() && !had_frames {
                host.sent.extend(all.iter().cloned());
                return all;
            }
        }
    }

    /// Lets time pass, from deadline to deadline, and carries frames.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.settle();
            let deadlines =
                self.hosts.iter().flat_map(|host| [host.engine.next_deadline(), host.layer.next_deadline()]);
            let Some(next) = deadlines.flatten().filter(|next| *next <= end).min() else { break };
            self.now = next.max(self.now);
        }
        self.now = end;
    }

    /// Carries frames until none is left.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut is_quiet = true;
            for from in 0..self.hosts.len() {
                self.advance(from);
                let frames = self.take(from);
                is_quiet &= frames.is_empty();
                if self.hosts[from].is_unplugged {
                    continue;
                }
                for to in (0..self.hosts.len()).filter(|to| *to != from) {
                    if self.hosts[to].is_unplugged {
                        continue;
                    }
                    let mac = self.hosts[to].mac.bytes();
                    let for_it = frames.iter().filter(|frame| frame[0] & 1 == 1 || frame[..6] == mac);
                    for_it.for_each(|frame| self.give(to, frame));
                }
            }
            if is_quiet {
                return;
            }
        }
        panic!("frames never end");
    }
}

/// A question of ARP or of neighbour discovery.
pub(crate) fn is_question(frame: &[u8]) -> bool {
    frame[12..14] == [8, 6] && frame[21] == 1 && frame[28..32] != frame[38..42]
        || frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && frame[54] == 135
}

pub(crate) fn is_tcp(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0] && frame[23] == 6 || frame[12..14] == [0x86, 0xdd] && frame[20] == 6
}

/// All others through a gateway.
pub(crate) fn default_route(gateway: &str) -> Route {
    let gateway = ip(gateway);
    let network = if gateway.is_ipv4() { Cidr::ALL_V4 } else { Cidr::ALL_V6 };
    Route { network, via: Via::Gateway(gateway), mtu: 1500, source: None }
}
