//! No frames and no calls, in any order, make an engine panic, spin, or keep more than its limits.
//!
//! Bytes are read as operations: frames from a peer that mostly knows the numbers of its connections, frames of nothing but
//! noise, calls of the user, and time. Outgoing frames are read as well, so that the peer knows the numbers.

#![no_main]

use std::time::Duration;

use anywire_tcp::{
    Cidr, ConnId, ConnectOptions, Engine, Frames, Instant, Limits, Mac, Route, Settings, Status, Via,
};
use libfuzzer_sys::fuzz_target;

const HERE: [u8; 4] = [10, 0, 0, 1];
const THERE: [u8; 4] = [10, 0, 0, 2];
const CONNECTIONS: usize = 8;

/// The bytes of the fuzzer, one after the other; zeros behind them.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn one(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn two(&mut self) -> u16 {
        u16::from(self.one()) << 8 | u16::from(self.one())
    }

    fn four(&mut self) -> u32 {
        u32::from(self.two()) << 16 | u32::from(self.two())
    }
}

/// What the peer knows of the connection on one of its ports.
#[derive(Clone, Copy, Default)]
struct Peer {
    engine_port: u16,
    seq: u32,
    ack: u32,
    stamp: u32,
    echo: u32,
}

fn frame(peer: &Peer, port: u16, bytes: &mut Bytes<'_>) -> Vec<u8> {
    let (bits, how) = (bytes.one(), bytes.one());
    // Mostly right, sometimes off by a little, sometimes anything.
    let mut off = |value: u32, how: u8| match how & 3 {
        0 | 1 => value,
        2 => value.wrapping_add(u32::from(bytes.two())).wrapping_sub(1 << 15),
        _ => bytes.four(),
    };
    let (seq, ack) = (off(peer.seq, how), off(peer.ack, how >> 2));
    let mut options = Vec::new();
    if how & 16 == 0 {
        options.extend([1, 1, 8, 10]);
        options.extend(off(peer.stamp, how >> 5).to_be_bytes());
        options.extend(peer.echo.to_be_bytes());
    }
    if bits & 2 != 0 {
        options.extend([2, 4, bytes.one(), bytes.one(), 1, 3, 3, bytes.one() % 16, 1, 1, 4, 2]);
    } else if how & 128 != 0 {
        let blocks = usize::from(bytes.one() % 4);
        options.extend([1, 1, 5, 2 + 8 * blocks as u8]);
        for _ in 0..2 * blocks {
            options.extend(peer.ack.wrapping_add(u32::from(bytes.two())).to_be_bytes());
        }
    }
    let more = usize::from(bytes.one() % 16);
    options.extend((0..more).map(|_| bytes.one()));
    options.truncate(40);
    options.resize(options.len().next_multiple_of(4), 0);
    let payload = usize::from(bytes.two()) % 1500;
    let mut tcp = Vec::new();
    tcp.extend(port.to_be_bytes());
    tcp.extend(peer.engine_port.to_be_bytes());
    tcp.extend(seq.to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    tcp.extend([(((20 + options.len()) / 4) << 4) as u8, bits]);
    tcp.extend(bytes.two().to_be_bytes());
    tcp.extend([0; 4]);
    tcp.extend(options);
    tcp.resize(tcp.len() + payload, 0x55);
    let total = (20 + tcp.len()) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, bytes.one() & 3];
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend(THERE);
    frame.extend(HERE);
    frame.extend(tcp);
    frame
}

/// Reads what the engine sent, so that the peer knows its numbers.
fn follow(peers: &mut [Peer; CONNECTIONS], frame: &[u8]) {
    let two = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let four = |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    if frame.len() < 54 || two(12) != 0x0800 || frame[23] != 6 {
        return;
    }
    let data = 34 + usize::from(frame[46] >> 4) * 4;
    let end = 14 + usize::from(two(16));
    let number = usize::from(two(36)) % CONNECTIONS;
    let peer = &mut peers[number];
    peer.engine_port = two(34);
    let length = (end - data) as u32 + u32::from(frame[47] & 1) + u32::from(frame[47] >> 1 & 1);
    peer.ack = four(38).wrapping_add(length);
    if frame[47] & 0x10 != 0 {
        peer.seq = four(42);
    }
    if data >= 66 {
        peer.echo = four(58);
    }
    peer.stamp = peer.stamp.wrapping_add(1);
}

fn limits(bytes: &mut Bytes<'_>) -> Limits {
    let mut limits = Limits::default();
    limits.connections = 6;
    limits.half_open = 1 + usize::from(bytes.one() % 4);
    limits.time_wait = 1 + usize::from(bytes.one() % 4);
    limits.extensions = 1 + usize::from(bytes.one() % 4);
    limits.segment_bytes = 4096 << (bytes.one() % 5);
    limits.send_bytes = 4000;
    limits.send_segments = 8;
    limits.out_of_order_segments = 4;
    limits.replies = 8;
    limits
}

fuzz_target!(|input: &[u8]| {
    let mut bytes = Bytes(input);
    let limits = limits(&mut bytes);
    let mut settings = Settings::new([1, 2, 3, 4]);
    settings.checksums = false;
    settings.receive_window = [500, 3000, 70_000][usize::from(bytes.one() % 3)];
    settings.time_wait = Duration::from_millis(u64::from(bytes.one()) * 10);
    let Ok(mut engine) = Engine::new(settings, limits.clone()) else { return };
    let mac = |last| Mac::new([2, 0, 0, 0, 0, last]);
    engine.set_mac(mac(1));
    engine.add_address(HERE.into()).expect("room");
    let route = Route { network: Cidr::ALL_V4, via: Via::OnLink, mtu: 1500, source: None };
    engine.add_route(route).expect("a route");
    engine.add_neighbour(THERE.into(), mac(2)).expect("room");
    engine.listen("0.0.0.0:80".parse().expect("an address"), ConnectOptions::default()).expect("a listener");

    let mut now = Instant::from_micros(1_000_000);
    let mut peers = [Peer { engine_port: 80, ..Peer::default() }; CONNECTIONS];
    let mut held: Vec<ConnId> = Vec::new();
    while !bytes.0.is_empty() {
        let operation = bytes.one();
        let chosen = usize::from(bytes.one());
        let id = held.get(chosen % held.len().max(1)).copied();
        match (operation % 16, id) {
            (0..6, _) => {
                let mut frames = Frames::new();
                for _ in 0..=operation >> 6 {
                    let number = usize::from(bytes.one()) % CONNECTIONS;
                    let bytes = frame(&peers[number], 8 + number as u16, &mut bytes);
                    assert!(frames.push(&bytes), "room");
                }
                engine.receive(now, &mut frames);
            }
            (6, _) => {
                let length = usize::from(bytes.one());
                let noise: Vec<_> = (0..length).map(|_| bytes.one()).collect();
                let mut frames = Frames::new();
                let _ = frames.push(&noise);
                engine.receive(now, &mut frames);
            }
            (7, _) => now = now + Duration::from_millis(u64::from(bytes.two())),
            (8, _) => {
                let port = 8 + u16::from(bytes.one()) % CONNECTIONS as u16;
                let remote = std::net::SocketAddr::from((THERE, port));
                held.extend(engine.connect(remote, ConnectOptions::default()));
            }
            (9, Some(id)) => {
                let length = usize::from(bytes.two()) % 5000;
                engine.send(id, &vec![7; length]);
            }
            (10, Some(id)) => {
                let most = usize::from(bytes.two());
                engine.recv(id, |there| there.len().min(most));
            }
            (11, Some(id)) => engine.shutdown(id),
            (12, Some(id)) => {
                held.retain(|other| *other != id);
                if chosen > 127 { engine.close(id) } else { engine.abort(id) }
            }
            (13, Some(id)) => {
                let _ =
                    (engine.status(id), engine.readable(id), engine.is_finished(id), engine.addresses(id));
                let _ = engine.send_with(id, 1 + chosen, |place| place.fill(9));
            }
            (14, _) => {
                let mut frames = Frames::with_room(1 + chosen % 64, Frames::FRAME_BYTES);
                engine.advance(now);
                engine.transmit(now, &mut frames);
                frames.iter().for_each(|frame| follow(&mut peers, frame));
            }
            (15, _) if chosen > 240 => {
                engine.remove_address(HERE.into());
                engine.add_address(HERE.into()).expect("it keeps its number");
            }
            _ => now = engine.next_deadline().map_or(now, |next| next.max(now)),
        }
        while let Some(news) = engine.next_ready() {
            if news.events.has(anywire_tcp::Events::INCOMING) {
                held.push(news.id);
            }
        }
        assert!(engine.connections() <= limits.connections && engine.half_open() <= limits.half_open);
        assert!(engine.in_time_wait() <= limits.time_wait);
        assert!(engine.memory().segments_in_use <= 3 * limits.segment_bytes + 64 * 2048);
    }
    // Whatever was done to it, it ends.
    for id in held.drain(..) {
        if matches!(engine.status(id), Status::Ended(_)) { engine.close(id) } else { engine.abort(id) }
    }
    for _ in 0..100_000 {
        engine.advance(now);
        let mut frames = Frames::new();
        engine.transmit(now, &mut frames);
        while let Some(news) = engine.next_ready() {
            engine.abort(news.id);
        }
        let Some(next) = engine.next_deadline() else { break };
        now = now.max(next);
    }
    assert_eq!((engine.connections(), engine.half_open(), engine.in_time_wait()), (0, 0, 0));
    assert_eq!(engine.memory().segments_in_use, 0);
});
