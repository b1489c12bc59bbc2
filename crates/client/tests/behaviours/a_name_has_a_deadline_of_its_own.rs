//! To resolve a name is a phase of its own: its deadline, its error and its counters are no other's.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::names::Book;
use crate::support::{OK, Peer, block_on, client, wire};
use anywire_client::{Error, Fault, Phase, Timeouts};
use anywire_wire::names::{Hosts, Names};

#[test]
fn a_resolver_that_is_silent_is_named() {
    let book = Book::new();
    book.open(false);
    let timeouts = Timeouts { resolve: Duration::from_millis(50), ..Timeouts::default() };
    let (_loops, client) = client(1, |builder| builder.timeouts(timeouts).resolver(book).retries(0));
    let error = block_on(client.get("http://shop.example/").send()).expect_err("nobody answers");
    assert!(matches!(error, Error::Connect { sent: false, .. }), "{error:?}");
    assert_eq!((error.phase(), error.fault()), (Some(Phase::Resolve), Fault::Wire));
    assert!(error.is_timeout() && error.is_connect());
    let counters = client.counters().total();
    assert_eq!((counters.resolve_timeouts, counters.connect_timeouts), (1, 0));
    assert_eq!((counters.resolve_failures, counters.dial_failures), (1, 1));
}

#[test]
fn a_name_that_does_not_exist_is_no_timeout() {
    let (_loops, client) = client(1, |builder| builder.resolver(Book::new()).retries(0));
    let error = block_on(client.get("http://no.example/").send()).expect_err("it does not exist");
    assert_eq!(error.phase(), Some(Phase::Resolve));
    assert!(!error.is_timeout(), "{error:?}");
    let counters = client.counters().total();
    assert_eq!((counters.resolve_timeouts, counters.resolve_failures), (0, 1));
    assert_eq!(client.names().counters().not_found, 1);
}

#[test]
fn static_hosts_lead_to_a_peer_and_leave_the_url() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        let head = talk.request_head();
        assert_eq!(head.headers().get("host"), Some("shop.example"));
        talk.say(OK);
    });
    let port = peer.via().port().expect("TCP has ports");
    let hosts = Hosts::default().add("shop.example", [SocketAddr::from(([127, 0, 0, 1], port))]);
    let (_loops, client) = client(1, |builder| builder.resolver(Book::new()).hosts(hosts));
    block_on(client.get("http://shop.example/").send()).expect("an answer");
}

#[test]
fn one_dead_address_of_two_costs_no_call_and_a_service_that_moves_is_found() {
    let (one, other) = (Peer::answering(wire("tcp"), OK), Peer::answering(wire("tcp"), OK));
    let address = |peer: &Peer| SocketAddr::from(([127, 0, 0, 1], peer.via().port().expect("TCP has ports")));
    let dead =
        std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let book = Book::new().with_ttl(Duration::from_secs(3600));
    book.set("shop.example", &[dead, address(&one)]);
    let limits = anywire_wire::names::Limits { shortest_ttl: Duration::ZERO, ..Default::default() };
    let names = Names::with_limits(book.clone(), limits);
    let (_loops, client) = client(1, |builder| builder.names(names).retries(1));
    let call = || block_on(client.post("http://shop.example/").send());
    call().expect("the other address answers");
    assert_eq!((one.accepted(), client.counters().total().dial_failures), (1, 0));
    // It moves, while a connection is open and its name is to hold for an hour.
    book.set("shop.example", &[address(&other)]);
    call().expect("the connection is as it was");
    assert_eq!((one.accepted(), other.accepted()), (1, 0));
    drop(one);
    crate::support::eventually("its connection is closed", || client.counters().total().idle == 0);
    call().expect("it is found where it is now");
    assert_eq!(other.accepted(), 1);
    assert_eq!((client.counters().total().retried, book.asked().len()), (1, 2));
}
