//! No frames of a link make the layer below TCP panic, answer without end, or hold more than its limits; no frame leaves for a
//! neighbour that is not known.
//!
//! Bytes are read as operations: frames of ARP, neighbour discovery, ICMP and UDP that are mostly right, frames of nothing but noise,
//! connections, and time.

#![no_main]

use std::net::Ipv6Addr;
use std::time::Duration;

use anywire_packet::arp::{Arp, Operation};
use anywire_packet::ethernet::Link;
use anywire_packet::ndp::{Advertised, Ndp};
use anywire_stack::ip::{Layer, Limits, Probing, Settings};
use anywire_tcp::{ConnectOptions, Engine, Frames, Instant, Mac, Route, Via};
use libfuzzer_sys::fuzz_target;

const OURS: Mac = Mac::new([2, 0, 0, 0, 0, 1]);

/// The bytes of the fuzzer, one after the other; zeros behind them.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn one(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn mac(&mut self) -> Mac {
        match self.one() {
            0 => Mac::BROADCAST,
            1 => OURS,
            last => Mac::new([2, 0, 0, 0, 0, last % 16]),
        }
    }

    fn v6(&mut self) -> Ipv6Addr {
        match self.one() {
            0 => Ipv6Addr::UNSPECIFIED,
            1 => anywire_packet::ndp::ALL_NODES,
            2 => anywire_packet::ndp::solicited_node(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
            last => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last % 16)),
        }
    }

    fn v4(&mut self) -> [u8; 4] {
        match self.one() {
            0 => [0; 4],
            last => [10, 0, 0, last % 16],
        }
    }
}

fn frame(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let link = Link::new(bytes.mac(), bytes.mac());
    let mut frame = match bytes.one() % 4 {
        0 => {
            let operation = if bytes.one() & 1 == 0 { Operation::Request } else { Operation::Reply };
            let (sender_mac, sender) = (bytes.mac(), bytes.v4().into());
            let (target_mac, target) = (bytes.mac(), bytes.v4().into());
            let arp = Arp { operation, sender_mac, sender, target_mac, target };
            arp.frame(link.destination(), link.source()).to_vec()
        }
        1 | 2 => {
            let (bits, target, mac) = (bytes.one(), bytes.v6(), bytes.mac());
            let mac = (bits & 8 != 0).then_some(mac);
            let flags =
                Advertised { router: bits & 1 != 0, solicited: bits & 2 != 0, overrides: bits & 4 != 0 };
            let message = match bits & 16 {
                0 => Ndp::Solicitation { target, source_mac: mac },
                _ => Ndp::Advertisement { target, target_mac: mac, flags },
            };
            message.frame(link, bytes.v6(), bytes.v6())
        }
        _ => {
            let len = usize::from(bytes.one());
            let ether_type = [[8, 0], [8, 6], [0x86, 0xdd], [0x81, 0]][usize::from(bytes.one() % 4)];
            let mut frame = [&link.destination().bytes()[..], &link.source().bytes(), &ether_type].concat();
            frame.extend((0..len).map(|_| bytes.one()));
            frame
        }
    };
    if bytes.one() & 7 == 0 && !frame.is_empty() {
        let at = usize::from(bytes.one()) % frame.len();
        frame[at] ^= bytes.one();
    }
    frame
}

fuzz_target!(|input: &[u8]| {
    let mut bytes = Bytes(input);
    let mut bounds = anywire_tcp::Limits::default();
    (bounds.connections, bounds.half_open, bounds.time_wait, bounds.extensions) = (8, 4, 4, 4);
    (bounds.neighbours, bounds.segment_bytes) = (6, 1 << 16);
    let Ok(mut engine) = Engine::new(anywire_tcp::Settings::new([1, 2, 3, 4]), bounds) else { return };
    engine.set_mac(OURS);
    for network in ["10.0.0.0/24", "fd00::/64"] {
        let network = network.parse().expect("a network");
        engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).expect("room");
    }
    let mut limits = Limits::default();
    (limits.neighbours, limits.resolving, limits.pending, limits.outgoing, limits.events) = (5, 2, 4, 10, 3);
    let mut settings = Settings::new(bytes.one().into());
    settings.probing = [Probing::OFF, Probing::LOCAL, Probing::RFC_5227][usize::from(bytes.one() % 3)];
    let mut layer = Layer::new(OURS, settings, limits);
    let mut now = Instant::from_micros(1_000_000);
    layer.add_address(now, [10, 0, 0, 1].into()).expect("room");
    layer.add_address(now, "fd00::1".parse().expect("an address")).expect("room");
    let _ = engine.listen("0.0.0.0:80".parse().expect("an address"), ConnectOptions::default());
    let mut frames = Frames::new();
    while !bytes.0.is_empty() {
        match bytes.one() % 8 {
            0..4 => {
                for _ in 0..1 + bytes.one() % 4 {
                    let _ = frames.push(&frame(&mut bytes));
                }
                engine.receive(now, &mut frames);
                layer.input(now, &mut engine);
            }
            4 => {
                let to = [10, 0, 0, bytes.one() % 16];
                let _ = engine.connect((to, 80).into(), ConnectOptions::default());
            }
            5 => {
                let last = u16::from(bytes.one() % 16);
                let to = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
                let _ = engine.connect((to, 80).into(), ConnectOptions::default());
            }
            6 if bytes.0.len().is_multiple_of(4) => {
                let ours = [10, 0, 0, 1 + bytes.one() % 2].into();
                layer.remove_address(&mut engine, ours);
                layer.announce_again(now);
                layer.add_address(now, ours).expect("it is gone");
            }
            _ => now = now + Duration::from_millis(u64::from(bytes.one()) * 50),
        }
        engine.advance(now);
        layer.advance(now, &mut engine);
        while engine.next_ready().is_some() {}
        for round in 0.. {
            assert!(round < 100, "it never stops sending");
            frames.clear();
            engine.transmit(now, &mut frames);
            let had_frames = !frames.is_empty();
            layer.output(now, &mut engine, &mut frames, usize::MAX);
            for frame in frames.iter() {
                assert!(engine.unresolved(frame).is_none() && frame[6..12] == OURS.bytes());
            }
            if frames.is_empty() && !had_frames {
                break;
            }
        }
        assert!((0..4).any(|_| layer.next_event().is_none()), "no more events than the limit");
        assert!(layer.next_deadline().is_none_or(|at| at > now));
    }
});
