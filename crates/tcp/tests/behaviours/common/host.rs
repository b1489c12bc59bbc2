//! One engine and a scripted peer: the test gives segments and checks the answers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use anywire_tcp::{
    ConnId, ConnectOptions, Counters, Engine, Events, Frames, Instant, Limits, Mac, Route, Settings, Status,
    Via,
};

use super::wire::{ACK, Bits, FIN, PSH, SYN, Segment};

/// The engine's addresses end in 1, and the peers' in 2 and more.
pub const HERE: &str = "10.0.0.1";
pub const THERE: &str = "10.0.0.2";
pub const HERE_V6: &str = "fd00::1";
pub const THERE_V6: &str = "fd00::2";

/// An engine and its clock.
pub struct Host {
    pub engine: Engine,
    pub now: Instant,
    /// Milliseconds that a handshake takes.
    pub round_trip: u64,
    frames: Frames,
    leaving: Frames,
    /// Of all frames that it has sent.
    digest: DefaultHasher,
}

/// An engine with both addresses and a route for each family.
pub fn engine(settings: Settings, limits: Limits, last: u8, mtu: u16) -> Engine {
    let mut engine = Engine::new(settings, limits).expect("address space");
    for address in [format!("10.0.0.{last}"), format!("fd00::{last}")] {
        engine.add_address(address.parse().expect("an address")).expect("room");
    }
    let mac = |last| Mac::new([2, 0, 0, 0, 0, last]);
    engine.set_mac(mac(last));
    // All peers are behind the same interface.
    let other = 3 - last.min(2);
    let networks = [("0.0.0.0/0", format!("10.0.0.{other}")), ("::/0", format!("fd00::{other}"))];
    for (network, gateway) in &networks[..if mtu < 1280 { 1 } else { 2 }] {
        let gateway = gateway.parse().expect("an address");
        let network = network.parse().expect("a network");
        engine.add_route(Route { network, via: Via::Gateway(gateway), mtu, source: None }).expect("a route");
        engine.add_neighbour(gateway, mac(other)).expect("room");
    }
    engine
}

/// Small limits, so that an engine is cheap to make.
pub fn small_limits() -> Limits {
    let mut limits = Limits::default();
    limits.connections = 256;
    limits.half_open = 64;
    limits.time_wait = 256;
    limits.extensions = 256;
    limits.segment_bytes = 4 << 20;
    limits
}

pub fn settings() -> Settings {
    Settings::new([1, 2, 3, 4])
}

impl Host {
    pub fn new() -> Self {
        Self::with(settings(), small_limits())
    }

    pub fn with(settings: Settings, limits: Limits) -> Self {
        Self::with_mtu(settings, limits, 1500)
    }

    pub fn with_mtu(settings: Settings, limits: Limits, mtu: u16) -> Self {
        Self::of(engine(settings, limits, 1, mtu))
    }

    pub fn of(engine: Engine) -> Self {
        Self {
            engine,
            now: Instant::from_micros(1_000_000),
            round_trip: 0,
            frames: Frames::new(),
            leaving: Frames::new(),
            digest: DefaultHasher::new(),
        }
    }

    /// Milliseconds since the start of the host.
    pub fn millis(&self) -> u64 {
        self.now.as_micros() / 1000 - 1000
    }

    /// Segments in one batch come in.
    pub fn give(&mut self, segments: &[Segment]) {
        for segment in segments {
            assert!(self.frames.push(&segment.frame()), "room");
        }
        self.engine.receive(self.now, &mut self.frames);
    }

    pub fn give_frame(&mut self, frame: &[u8]) {
        assert!(self.frames.push(frame), "room");
        self.engine.receive(self.now, &mut self.frames);
    }

    /// All frames that want to leave now.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        self.engine.advance(self.now);
        let mut all = Vec::new();
        for round in 0.. {
            assert!(round < 10_000, "it never stops sending");
            self.leaving.clear();
            self.engine.transmit(self.now, &mut self.leaving);
            if self.leaving.is_empty() {
                return all;
            }
            for frame in self.leaving.iter() {
                frame.hash(&mut self.digest);
                all.push(frame.to_vec());
            }
        }
        all
    }

    /// What a run comes to: all frames that it has sent, and its counters.
    pub fn outcome(&self) -> (u64, Counters) {
        (self.digest.finish(), *self.engine.counters())
    }

    /// All segments that want to leave now.
    pub fn sent(&mut self) -> Vec<Segment> {
        self.frames().iter().filter_map(|frame| Segment::of(frame)).collect()
    }

    /// The one segment that wants to leave now.
    pub fn sent_one(&mut self) -> Segment {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "one segment, not {sent:?}");
        sent.remove(0)
    }

    /// Gives a segment and returns the immediate answers.
    pub fn answers(&mut self, segment: &Segment) -> Vec<Segment> {
        self.give(std::slice::from_ref(segment));
        self.sent()
    }

    /// Lets time pass, deadline by deadline; gives what leaves, with the milliseconds of [`Self::millis`].
    pub fn wait(&mut self, duration: Duration) -> Vec<(u64, Segment)> {
        let end = self.now + duration;
        let mut all = Vec::new();
        loop {
            all.extend(self.sent().into_iter().map(|segment| (self.millis(), segment)));
            let Some(next) = self.engine.next_deadline().filter(|next| *next < end) else { break };
            self.now = next.max(self.now);
        }
        self.now = end;
        all.extend(self.sent().into_iter().map(|segment| (self.millis(), segment)));
        all
    }

    pub fn wait_millis(&mut self, millis: u64) -> Vec<(u64, Segment)> {
        self.wait(Duration::from_millis(millis))
    }

    /// Time passes for both clocks, and nothing may be sent meanwhile.
    pub fn pass(&mut self, millis: u64, peer: &mut Peer) {
        let sent = self.wait_millis(millis);
        assert!(sent.is_empty(), "nothing leaves in {millis} ms, not {sent:?}");
        peer.later(millis as u32);
    }

    /// All events so far.
    pub fn news(&mut self) -> Vec<(ConnId, Events)> {
        std::iter::from_fn(|| self.engine.next_ready()).map(|ready| (ready.id, ready.events)).collect()
    }

    /// Everything that can be read now.
    pub fn read(&mut self, id: ConnId) -> Vec<u8> {
        let mut all = Vec::new();
        while self.engine.recv(id, |bytes| {
            all.extend_from_slice(bytes);
            bytes.len()
        }) > 0
        {}
        all
    }

    /// Reads at most so many bytes.
    pub fn read_some(&mut self, id: ConnId, bytes: usize) -> usize {
        let mut taken = 0;
        while taken < bytes {
            let more = self.engine.recv(id, |there| there.len().min(bytes - taken));
            if more == 0 {
                break;
            }
            taken += more;
        }
        taken
    }

    /// A peer opens a connection to a port of ours, which is listened on if it was not.
    pub fn accept(&mut self, peer: Peer) -> (ConnId, Peer) {
        self.accept_with(peer, ConnectOptions::default())
    }

    pub fn accept_with(&mut self, mut peer: Peer, options: ConnectOptions) -> (ConnId, Peer) {
        let _ = self.engine.listen(peer.there, options);
        self.give(&[peer.syn()]);
        let answer = self.sent_one();
        assert!(answer.is(SYN | ACK), "a SYN-ACK, not {answer:?}");
        peer.heard(&answer);
        peer.seq = peer.seq.wrapping_add(1);
        self.pass(self.round_trip, &mut peer);
        self.give(&[peer.segment(ACK)]);
        let mut news = self.news();
        news.retain(|(_, events)| events.has(Events::INCOMING));
        let [(id, _)] = news[..] else { panic!("one connection, not {news:?}") };
        assert_eq!(self.engine.status(id), Status::Open);
        (id, peer)
    }

    /// We open a connection to a peer.
    pub fn call(&mut self, peer: Peer) -> (ConnId, Peer) {
        self.call_with(peer, ConnectOptions::default())
    }

    pub fn call_with(&mut self, mut peer: Peer, options: ConnectOptions) -> (ConnId, Peer) {
        let id = self.engine.connect(peer.here, options).expect("a connection");
        let syn = self.sent_one();
        assert!(syn.is(SYN) && !syn.is(ACK), "a SYN, not {syn:?}");
        peer.there = syn.from;
        peer.heard(&syn);
        self.pass(self.round_trip, &mut peer);
        self.give(&[peer.syn_ack()]);
        peer.seq = peer.seq.wrapping_add(1);
        let ack = self.sent_one();
        assert_eq!(
            (ack.bits, ack.seq, ack.ack),
            (ACK, peer.ack, peer.seq),
            "the third segment of the handshake"
        );
        peer.heard(&ack);
        let news = self.news();
        assert!(
            matches!(news[..], [(opened, events)] if opened == id && events.has(Events::OPENED)),
            "{news:?}"
        );
        (id, peer)
    }
}

/// The far end, played by hand: it says what the test makes it say.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The peer's own.
    pub here: SocketAddr,
    /// The engine's.
    pub there: SocketAddr,
    /// The next number that it sends.
    pub seq: u32,
    /// The next number that it expects.
    pub ack: u32,
    /// The value in the header, not scaled.
    pub window: u16,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sack: bool,
    /// Its clock and the value it echoes. None if it has no timestamps.
    pub timestamps: Option<(u32, u32)>,
}

impl Peer {
    /// A modern one, on port 5000 and calling port 80.
    pub fn new() -> Self {
        Self {
            here: SocketAddr::new(THERE.parse().expect("an address"), 5000),
            there: SocketAddr::new(HERE.parse().expect("an address"), 80),
            seq: 7_000_000,
            ack: 0,
            window: 65_535,
            mss: Some(1460),
            scale: Some(0),
            sack: true,
            timestamps: Some((50_000, 0)),
        }
    }

    /// One that has no options but an MSS.
    pub fn plain() -> Self {
        Self { scale: None, sack: false, timestamps: None, ..Self::new() }
    }

    pub fn v6() -> Self {
        Self {
            here: SocketAddr::new(THERE_V6.parse().expect("an address"), 5000),
            there: SocketAddr::new(HERE_V6.parse().expect("an address"), 80),
            mss: Some(1440),
            ..Self::new()
        }
    }

    pub fn port(self, port: u16) -> Self {
        Self { here: SocketAddr::new(self.here.ip(), port), ..self }
    }

    pub fn syn(&self) -> Segment {
        let mut syn = self.segment(SYN);
        (syn.ack, syn.mss, syn.scale, syn.sack_permitted) = (0, self.mss, self.scale, self.sack);
        syn
    }

    pub fn syn_ack(&self) -> Segment {
        let mut syn = self.segment(SYN | ACK);
        (syn.mss, syn.scale, syn.sack_permitted) = (self.mss, self.scale, self.sack);
        syn
    }

    /// A segment without payload.
    pub fn segment(&self, bits: Bits) -> Segment {
        Segment {
            seq: self.seq,
            ack: self.ack,
            bits,
            window: self.window,
            timestamps: self.timestamps,
            ..Segment::new(self.here, self.there)
        }
    }

    /// The next payload, and moves on.
    pub fn data(&mut self, payload: &[u8]) -> Segment {
        let segment = Segment { payload: payload.to_vec(), ..self.segment(ACK | PSH) };
        self.seq = segment.end();
        segment
    }

    /// Payload `ahead` bytes after the next number to send, which stays the same.
    pub fn data_at(&self, ahead: i64, payload: &[u8]) -> Segment {
        let seq = self.seq.wrapping_add(ahead as u32);
        Segment { payload: payload.to_vec(), seq, ..self.segment(ACK | PSH) }
    }

    /// Its FIN, and moves on.
    pub fn fin(&mut self) -> Segment {
        let segment = self.segment(FIN | ACK);
        self.seq = segment.end();
        segment
    }

    /// Takes a segment of the engine for received: acknowledges all up to its end, if it is the next one.
    pub fn heard(&mut self, segment: &Segment) {
        if segment.is(SYN) || segment.seq == self.ack {
            self.ack = segment.end();
        }
        if let (Some((_, echo)), Some((value, _))) = (&mut self.timestamps, segment.timestamps) {
            *echo = value;
        } else if segment.is(SYN) {
            self.timestamps = None;
        }
    }

    pub fn heard_all(&mut self, segments: &[Segment]) {
        for segment in segments {
            self.heard(segment);
        }
    }

    /// An ACK of everything heard.
    pub fn acks(&self) -> Segment {
        self.segment(ACK)
    }

    /// Its clock of timestamps moves on.
    pub fn later(&mut self, millis: u32) {
        if let Some((value, _)) = &mut self.timestamps {
            *value = value.wrapping_add(millis);
        }
    }
}
