//! A connection is opened as long as one of our addresses has a port that is free towards the remote.
//! RFC 6056 3.3.3 (algorithm 3 tries all ports), RFC 9293 3.10.1.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use anywire_tcp::{ConnId, ConnectError, ConnectOptions, Mac, PortBlock, Route, Via};

use crate::common::host::{Host, settings, small_limits};

/// Ports from 16,384 to 65,535.
const PORTS: usize = 49_152;

fn host(connections: usize, addresses: &[&str]) -> Host {
    let mut limits = small_limits();
    limits.connections = connections;
    let mut host = Host::with(settings(), limits);
    for address in addresses {
        host.engine.add_address(address.parse().expect("an address")).expect("room");
    }
    host
}

fn remote(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

fn connect(host: &mut Host, remote: SocketAddr) -> Result<ConnId, ConnectError> {
    host.engine.connect(remote, ConnectOptions::default())
}

#[test]
fn free_ports_are_found_wherever_they_are() {
    let mut host = host(8192, &[]);
    for _ in 0..5000 {
        connect(&mut host, remote(5)).expect("a free port");
    }
    // So many to another one come and go that the ports come round again.
    for _ in 0..PORTS - 5000 {
        let id = connect(&mut host, remote(6)).expect("a free port");
        host.engine.abort(id);
    }
    connect(&mut host, remote(5)).expect("5000 of 49,152 ports are in use");
}

#[test]
fn every_port_of_every_address_is_used_and_the_first_address_first() {
    for (to, others) in [
        (remote(5), ["10.0.0.8", "fd00::8", "10.0.0.9"]),
        ("[fd00::5]:80".parse().expect("an address"), ["fd00::9", "10.0.0.8", "fd00::8"]),
    ] {
        let mut host = host(4 * PORTS, &others);
        let mut found: Vec<(SocketAddr, ConnId)> = Vec::new();
        while let Ok(id) = connect(&mut host, to) {
            found.push((host.engine.addresses(id).0, id));
        }
        assert_eq!(found.len(), 3 * PORTS, "{to}");
        let names: HashSet<_> = found.iter().map(|(from, _)| *from).collect();
        assert_eq!(names.len(), 3 * PORTS);
        for of_one in found.chunks(PORTS) {
            let ports = || of_one.iter().map(|(from, _)| from.port());
            assert!(of_one.iter().all(|(from, _)| from.ip() == of_one[0].0.ip()), "{to}");
            assert_eq!((ports().min(), ports().max()), (Some(16_384), Some(65_535)));
        }
        assert_eq!(connect(&mut host, to), Err(ConnectError::NoPort));
        // Others are as near as ever.
        let other = SocketAddr::new(to.ip(), 81);
        let id = connect(&mut host, other).expect("all ports are free");
        assert_eq!(host.engine.addresses(id).0.ip(), found[0].0.ip());
        // One of each address is free again, a moment later.
        for at in [7, PORTS + 8, 2 * PORTS + 9] {
            let (from, id) = found[at];
            host.engine.abort(id);
            // Ports are not looked for again and again.
            assert_eq!(connect(&mut host, to), Err(ConnectError::NoPort));
            host.wait_millis(20);
            let again = connect(&mut host, to).expect("the port that is free");
            assert_eq!(host.engine.addresses(again).0, from);
            assert_eq!(connect(&mut host, to), Err(ConnectError::NoPort));
        }
    }
}

/// The address of the route is none of those that are looked through otherwise, because they are of the remote's scope.
#[test]
fn the_search_ends_wherever_it_begins() {
    let mut host = host(8192, &["fd00::8", "fe80::2", "10.0.0.8"]);
    let block = PortBlock::all().next().expect("there are some");
    host.engine.give_ports([block]);
    let remote = "[fe80::9]:80".parse().expect("an address");
    let source = Some("fd00::8".parse().expect("an address"));
    let network = "fe80::/64".parse().expect("a network");
    host.engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source }).expect("a good route");
    host.engine
        .add_neighbour("fe80::9".parse().expect("an address"), Mac::new([2, 0, 0, 0, 0, 9]))
        .expect("room");
    let mut of_each = HashMap::new();
    while let Ok(id) = connect(&mut host, remote) {
        *of_each.entry(host.engine.addresses(id).0.ip()).or_insert(0_u16) += 1;
    }
    assert!(of_each.len() == 2 && of_each.values().all(|count| *count == PortBlock::PORTS), "{of_each:?}");
    // It begins with the address of the route again.
    host.engine.remove_address("10.0.0.8".parse().expect("an address"));
    assert_eq!(connect(&mut host, remote), Err(ConnectError::NoPort));
}

#[test]
fn engines_that_share_an_address_have_ports_of_their_own() {
    let blocks: Vec<_> = PortBlock::all().collect();
    let mut host = host(8192, &["10.0.0.9"]);
    host.engine.give_ports([blocks[700], blocks[3]]);
    let fill = |host: &mut Host| {
        let mut names = HashSet::new();
        while let Ok(id) = connect(host, remote(5)) {
            let (from, _) = host.engine.addresses(id);
            assert!(names.insert(from), "{from} is given out once");
        }
        names
    };
    let names = fill(&mut host);
    assert_eq!(names.len(), 2 * 2 * usize::from(PortBlock::PORTS), "of both addresses");
    let of = |names: &HashSet<SocketAddr>| -> HashSet<_> {
        names.iter().filter_map(|name| PortBlock::of(name.port())).collect()
    };
    assert_eq!(of(&names), HashSet::from([blocks[3], blocks[700]]));
    // More are of use at once.
    host.engine.give_ports([blocks[12]]);
    let more = fill(&mut host);
    assert_eq!((more.len(), of(&more)), (128, HashSet::from([blocks[12]])));
}
