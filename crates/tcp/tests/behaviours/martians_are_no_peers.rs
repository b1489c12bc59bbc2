//! An address that no other host can have is no peer: nothing that comes from there is answered or kept, and no connection leads
//! there (RFC 1122 3.2.1.3, 4.2.3.10; RFC 9293 3.9.2.3, MUST-46, MUST-57, MUST-63; RFC 4291 2.5.2, 2.5.3).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anywire_tcp::{ConnectError, ConnectOptions, Mac, Route, RouteError, Via};

use crate::common::host::{HERE, HERE_V6, Host, Peer, THERE, THERE_V6, settings, small_limits};
use crate::common::wire::{ACK, FIN, PSH, SYN, Segment};

/// Of each class one or two: this network, loopback, multicast, reserved, broadcast, unspecified, IPv4 as IPv6.
const MARTIANS: [&str; 15] = [
    "0.0.0.0",
    "0.1.2.3",
    "127.0.0.1",
    "127.255.3.4",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "ff02::1",
    "ff0e::1234",
    "::ffff:10.0.0.2",
    "::ffff:127.0.0.1",
    "::ffff:0:0",
];

/// The last address of the network of [`host`]'s narrower route.
const BROADCAST: &str = "10.9.255.255";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A host that serves port 80, with a route to 10.9.0.0/16 beside the default ones.
fn host(half_open: usize, loops_back: bool) -> Host {
    let (mut settings, mut limits) = (settings(), small_limits());
    settings.loops_back = loops_back;
    limits.half_open = half_open;
    let mut host = Host::with(settings, limits);
    for any in ["0.0.0.0", "::"] {
        let _ = host.engine.listen(SocketAddr::new(ip(any), 80), ConnectOptions::default());
    }
    let route = Route { via: Via::Gateway(ip(THERE)), ..on_link("10.9.0.0/16") };
    host.engine.add_route(route).expect("a route");
    host
}

fn on_link(network: &str) -> Route {
    Route { network: network.parse().expect("a network"), via: Via::OnLink, mtu: 1500, source: None }
}

/// All kinds of frames that somebody could get an answer to.
fn frames_from(from: IpAddr, to: IpAddr) -> Vec<(String, Vec<u8>)> {
    let mut frames = Vec::new();
    for port in [80, 81] {
        for from_port in [5000, port] {
            let of = |peer: Peer| Peer {
                here: SocketAddr::new(from, from_port),
                there: SocketAddr::new(to, port),
                ack: 77,
                ..peer
            };
            // As parsed by each of the ways there are: the usual SYN, with timestamps, without, and in any form.
            let (usual, plain) = (of(Peer::new()), of(Peer::plain()));
            let text = |peer: &Peer| Segment { payload: b"text".to_vec(), ..peer.segment(ACK | PSH) };
            let odd = Segment { raw_options: vec![1, 1, 1, 1], ..plain.segment(ACK) };
            // The options of a SYN as Linux orders them, which is read in one go.
            let options = vec![2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];
            let as_linux = Segment { raw_options: options, ..plain.segment(SYN) };
            let all = [as_linux, usual.syn(), plain.syn(), usual.segment(ACK), plain.segment(ACK), odd];
            let more = [text(&usual), text(&plain), usual.segment(FIN | ACK), usual.segment(SYN | ACK)];
            let named = |segment: &Segment| (format!("{segment:?}"), segment.frame());
            frames.extend(all.iter().chain(&more).map(named));
        }
    }
    frames
}

/// What of these frames is answered or kept, each given to a host of its own.
fn answered(from: IpAddr, to: IpAddr) -> Vec<String> {
    answered_of(&frames_from(from, to))
}

fn answered_of(frames: &[(String, Vec<u8>)]) -> Vec<String> {
    let tries = frames.iter().flat_map(|(name, frame)| [(name, frame, 64), (name, frame, 0)]);
    let is_answered = |frame: &[u8], half_open: usize| {
        let mut host = host(half_open, false);
        host.give_frame(frame);
        let answers = host.frames().len();
        answers + host.engine.half_open() > 0
    };
    tries
        .filter(|(_, frame, half_open)| is_answered(frame, *half_open))
        .map(|(name, ..)| name.clone())
        .collect()
}

fn here_for(other: IpAddr) -> IpAddr {
    ip(if other.is_ipv4() { HERE } else { HERE_V6 })
}

#[test]
fn what_they_send_is_dropped() {
    for there in [THERE, THERE_V6] {
        let there = ip(there);
        assert!(answered(there, here_for(there)).len() > 20, "frames of a host are answered");
    }
    for martian in MARTIANS.into_iter().chain([BROADCAST]).map(ip) {
        assert_eq!(answered(martian, here_for(martian)), Vec::<String>::new(), "from {martian}");
        let there = ip(if martian.is_ipv4() { THERE } else { THERE_V6 });
        assert_eq!(answered(there, martian), Vec::<String>::new(), "to {martian}");
    }
}

/// What several interfaces got is for no connection, whatever its IP addresses are (RFC 1122 3.3.6, 4.2.3.10).
#[test]
fn what_a_group_of_interfaces_gets_is_dropped() {
    for there in [THERE, THERE_V6].map(ip) {
        for first in [[0x01, 0x00, 0x5e], [0x33, 0x33, 0x00], [0xff; 3]] {
            let mut frames = frames_from(there, here_for(there));
            frames.iter_mut().for_each(|(_, frame)| frame[..3].copy_from_slice(&first));
            assert_eq!(answered_of(&frames), Vec::<String>::new(), "to {first:02x?}");
        }
    }
    for peer in [Peer::new(), Peer::plain(), Peer::v6()] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(peer);
        let text = peer.data(b"text").frame();
        let mut to_all = text.clone();
        to_all[..6].fill(0xff);
        host.give_frame(&to_all);
        assert_eq!((host.read(id), host.sent()), (vec![], vec![]));
        host.give_frame(&text);
        assert_eq!(host.read(id), b"text");
    }
}

/// What another interface should have got is no SYN for us, nor worth a reset: somebody uses our address, or a switch floods.
#[test]
fn what_another_interface_gets_is_dropped() {
    for there in [THERE, THERE_V6].map(ip) {
        let mut frames = frames_from(there, here_for(there));
        frames.iter_mut().for_each(|(_, frame)| frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]));
        assert_eq!(answered_of(&frames), Vec::<String>::new());
    }
}

/// The LAND attack: source and destination are the same, the port too.
#[test]
fn what_seems_to_come_from_ourselves_is_dropped() {
    for own in [HERE, HERE_V6].map(ip) {
        assert_eq!(answered(own, own), Vec::<String>::new());
    }
}

#[test]
fn no_connection_leads_to_them() {
    let mut host = host(64, false);
    for martian in MARTIANS.into_iter().chain([BROADCAST, HERE, HERE_V6]).map(ip) {
        let to = SocketAddr::new(martian, 80);
        let options = ConnectOptions::default();
        assert_eq!(host.engine.connect(to, options), Err(ConnectError::NotAHost), "{to}");
        let from = SocketAddr::new(here_for(martian), 4000);
        assert_eq!(host.engine.connect_from(from, to, options), Err(ConnectError::NotAHost), "{to}");
    }
    assert_eq!(host.sent(), []);
}

/// A longer prefix knows better: a host has that address. And a network of two addresses has no broadcast (RFC 3021).
#[test]
fn the_last_address_of_a_network_is_a_hosts_if_a_narrower_route_says_so() {
    for network in ["10.9.255.255/32", "10.9.255.254/31"] {
        let mut host = host(64, false);
        host.engine.add_route(on_link(network)).expect("a route");
        host.engine.add_neighbour(ip(BROADCAST), Mac::new([2, 0, 0, 0, 0, 3])).expect("room");
        let peer = Peer { here: SocketAddr::new(ip(BROADCAST), 80), ..Peer::new() };
        host.call(peer);
    }
}

#[test]
fn they_are_no_address_of_ours() {
    let mut host = host(64, false);
    for martian in MARTIANS.map(ip) {
        assert_eq!(host.engine.add_address(martian), Err(RouteError::NotAHost(martian)));
    }
    host.engine.add_address(Ipv4Addr::new(10, 0, 0, 77).into()).expect("a host's");
}

/// On a mesh, say, where a host dials what it serves.
#[test]
fn our_own_addresses_are_peers_where_frames_come_back() {
    let mut host = host(64, true);
    let to = SocketAddr::new(ip(HERE), 80);
    let id = host.engine.connect(to, ConnectOptions::default()).expect("a connection");
    for _ in 0..3 {
        for frame in host.frames() {
            host.give_frame(&frame);
        }
    }
    assert_eq!(host.engine.status(id), anywire_tcp::Status::Open);
}
