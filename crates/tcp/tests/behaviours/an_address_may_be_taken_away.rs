//! An address that is taken away ends its connections, and no others: their users hear how, their peers get a reset.

use std::net::{IpAddr, SocketAddr};

use anywire_tcp::{ConnectError, ConnectOptions, End, Events, ListenError, Route, Status, Via};

use crate::common::host::{HERE, HERE_V6, Host, Peer};
use crate::common::wire::{ACK, FIN, RST, SYN};

const OTHER: &str = "10.0.0.7";
const DOWN: Status = Status::Ended(End::NetworkDown);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn its_connections_end_and_no_others() {
    for (address, peer, other) in [(HERE, Peer::new(), Peer::v6()), (HERE_V6, Peer::v6(), Peer::new())] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(peer);
        let (kept, mut other) = host.accept(other);
        host.give(&[peer.data(b"hello")]);
        host.sent();
        host.news();
        assert!(host.engine.has_address(ip(address)) && host.engine.has_connection(peer.there, peer.here));
        assert_eq!(host.engine.remove_address(ip(address)), 1);
        assert!(!host.engine.has_address(ip(address)));
        assert_eq!(host.engine.remove_address(ip(address)), 0, "it is gone");
        assert_eq!((host.engine.status(id), host.engine.send(id, b"lost")), (DOWN, 0));
        let news = host.news();
        assert!(matches!(news[..], [(told, events)] if told == id && events.has(Events::CLOSED)), "{news:?}");
        let reset = host.sent_one();
        assert!(reset.is(RST | ACK) && (reset.to, reset.seq) == (peer.here, peer.ack), "{reset:?}");
        assert_eq!(host.read(id), b"hello", "what has arrived can be read");
        host.engine.close(id);
        assert!(host.answers(&peer.data(b"again")).is_empty(), "nobody is there");

        host.give(&[other.data(b"hello")]);
        assert_eq!((host.read(kept).as_slice(), host.engine.status(kept)), (&b"hello"[..], Status::Open));
        assert_eq!(host.engine.connections(), 1);
        assert!(host.engine.has_connection(other.there, other.here));
        assert!(
            !host.engine.has_connection(other.here, other.there)
                && !host.engine.has_connection(peer.there, peer.here)
        );
    }
}

#[test]
fn nothing_is_left_of_those_that_open_or_end() {
    let mut host = Host::new();
    // In TIME-WAIT without a user, half open, and opening.
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.close(id);
    peer.heard_all(&host.sent());
    host.give(&[peer.fin()]);
    assert!(host.sent_one().is(ACK) && host.engine.in_time_wait() == 1);
    let mut half = Peer::new().port(5001);
    host.give(&[half.syn()]);
    half.heard(&host.sent_one());
    let opening = host.engine.connect(Peer::new().port(5002).here, ConnectOptions::default()).expect("a way");
    host.sent();

    host.engine.remove_address(ip(HERE));
    assert_eq!((host.engine.in_time_wait(), host.engine.half_open()), (0, 0));
    assert_eq!(host.engine.status(opening), DOWN);
    let reset = host.sent_one();
    assert!(reset.is(RST) && reset.to == half.here, "{reset:?}");
    host.engine.close(opening);
    assert_eq!((host.engine.connections(), host.engine.uses_neighbour(ip("10.0.0.2"))), (0, false));
    for segment in [peer.segment(FIN | ACK), half.segment(ACK), Peer::new().port(5003).syn()] {
        assert!(host.answers(&segment).is_empty(), "{segment:?}");
    }
}

#[test]
fn nothing_begins_there_until_it_is_back() {
    let mut host = Host::new();
    let at: SocketAddr = Peer::new().there;
    let listener = host.engine.listen(at, ConnectOptions::default()).expect("a free port");
    host.engine.remove_address(ip(HERE));
    let options = ConnectOptions::default();
    let to = Peer::new().here;
    assert_eq!(host.engine.connect(to, options), Err(ConnectError::NoAddress));
    assert_eq!(host.engine.connect_from(at, to, options), Err(ConnectError::NoAddress));
    let other_port = SocketAddr::new(at.ip(), 81);
    assert_eq!(host.engine.listen(other_port, options), Err(ListenError::NoAddress));

    // Another address does not come by its listener.
    host.engine.add_address(ip(OTHER)).expect("room");
    let peer = Peer { there: SocketAddr::new(ip(OTHER), at.port()), ..Peer::new() };
    assert!(host.sent().is_empty() && host.answers(&peer.syn())[0].is(RST));
    let id = host.engine.connect(to, options).expect("a way");
    assert_eq!(host.engine.addresses(id).0.ip(), ip(OTHER), "it is the source from now on");

    host.engine.add_address(ip(HERE)).expect("it was there");
    host.sent();
    let (accepted, _) = host.accept(Peer::new());
    assert_eq!(host.engine.listener_of(accepted), Some(listener));
}

#[test]
fn routes_find_another_source() {
    let mut host = Host::new();
    host.engine.add_address(ip(OTHER)).expect("room");
    let network = "192.0.2.0/24".parse().expect("a network");
    let route = Route { network, via: Via::Gateway(ip("10.0.0.2")), mtu: 1500, source: Some(ip(HERE)) };
    host.engine.add_route(route).expect("room");
    let source = |host: &Host| host.engine.next_hop(ip("192.0.2.1")).expect("a way").source;
    assert_eq!(source(&host), Some(ip(HERE)));
    host.engine.remove_address(ip(HERE));
    assert_eq!(source(&host), Some(ip(OTHER)));
    // A route that comes meanwhile does not take it either.
    host.engine.add_route(Route { source: None, ..route }).expect("room");
    assert_eq!(source(&host), Some(ip(OTHER)));
    host.engine.add_route(route).expect("room");
    host.engine.add_address(ip(HERE)).expect("it was there");
    assert_eq!(source(&host), Some(ip(HERE)));
}

#[test]
fn an_interface_that_is_gone_takes_all_of_them_along() {
    let mut host = Host::new();
    let (one, _) = host.accept(Peer::new());
    let (two, _) = host.accept(Peer::v6());
    assert_eq!(host.engine.remove_addresses(), 2);
    assert_eq!([one, two].map(|id| host.engine.status(id)), [DOWN; 2]);
    let to = Peer::v6().here;
    assert_eq!(host.engine.connect(to, ConnectOptions::default()), Err(ConnectError::NoAddress));
    assert_eq!(host.sent().iter().filter(|segment| segment.is(RST) && !segment.is(SYN)).count(), 2);
}

#[test]
fn addresses_come_and_go_for_ever() {
    let mut host = Host::new();
    for _ in 0..70_000 {
        host.engine.remove_address(ip(HERE));
        host.engine.add_address(ip(HERE)).expect("it keeps its number");
    }
    let (id, _) = host.accept(Peer::new());
    assert_eq!(host.engine.status(id), Status::Open);
}
