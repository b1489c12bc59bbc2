//! Which of the engine's addresses a connection has: the one that was asked for, from the first segment to the last (RFC 9293
//! MUST-42 to MUST-45).

use std::net::SocketAddr;

use anywire_tcp::Status;

use crate::common::host::{Host, Peer};
use crate::common::wire::{ACK, RST, SYN};

const SECOND: &str = "10.0.0.9";

fn host() -> Host {
    let mut host = Host::new();
    host.engine.add_address(SECOND.parse().unwrap()).unwrap();
    host
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(SECOND.parse().unwrap(), port)
}

#[test]
fn an_address_that_was_asked_for_is_that_of_every_segment() {
    let mut host = host();
    let mut peer = Peer::new();
    let id = host.engine.connect_from(at(3000), peer.here, Default::default()).unwrap();
    let syn = host.sent_one();
    assert_eq!((syn.from, syn.to), (at(3000), peer.here));
    peer.there = syn.from;
    peer.heard(&syn);
    let mut sent = host.answers(&peer.syn_ack());
    peer.seq += 1;
    host.engine.send(id, &[1; 2000]);
    sent.extend(host.sent());
    sent.extend(host.answers(&peer.data_at(10, b"out of order")));
    peer.heard_all(&sent);
    host.engine.close(id);
    sent.extend(host.answers(&peer.acks()));
    assert!(sent.len() >= 4, "{sent:?}");
    assert!(sent.iter().all(|segment| segment.from == at(3000)), "{sent:?}");
}

#[test]
fn a_listener_of_one_address_is_none_for_another() {
    let mut host = host();
    let first = Peer::new();
    let second = Peer { there: at(80), ..Peer::new() };
    host.engine.listen(second.there, Default::default()).unwrap();
    assert_eq!(host.answers(&first.syn())[0].bits, RST | ACK);
    let (id, mut peer) = host.accept(second);
    assert_eq!(host.engine.addresses(id).0, at(80));
    host.give(&[peer.data(b"question")]);
    host.engine.send(id, b"answer");
    assert_eq!(host.sent_one().from, at(80));
}

/// RFC 9293 MUST-42: a listener stands beside connections of its port, open and opening.
#[test]
fn a_port_that_is_listened_on_opens_connections_as_well() {
    let mut host = Host::new();
    let peer = Peer::new();
    let (accepted, _) = host.accept(peer.clone());
    let far: SocketAddr = "10.0.0.2:7000".parse().unwrap();
    let called = host.engine.connect_from(peer.there, far, Default::default()).unwrap();
    let syn = host.sent_one();
    assert_eq!((syn.bits, syn.from, syn.to), (SYN, peer.there, far));
    // While that one opens, the listener still takes others.
    let (next, _) = host.accept(Peer::new().port(5001));
    let mut other = Peer { here: far, there: syn.from, ..Peer::new() };
    other.heard(&syn);
    host.give(&[other.syn_ack()]);
    assert!([accepted, called, next].iter().all(|id| host.engine.status(*id) == Status::Open));
}
