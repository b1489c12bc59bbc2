//! Connections can be made before the first call, over all loops, within the limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anywire_client::connector::{Connecting, Connector, Direct, Target};
use anywire_client::{Balance, Error, Limits};
use anywire_wire::Address;
use anywire_wire::names::Names;

use crate::support::Gate;
use crate::support::names::Book;
use crate::support::{HANG, OK, Peer, all, block_on, client, eventually, poll_once, wire};

#[test]
fn the_first_calls_find_connections() {
    let peer = Peer::answering(wire("tcp"), OK);
    let (_loops, client) = client(2, |builder| builder);
    assert_eq!(block_on(client.connect_ahead(peer.url("/"), 5)).expect("it connects"), 5);
    eventually("the peer has accepted them", || peer.accepted() == 5);
    assert_eq!(client.counters().total().idle, 5);
    for answer in all((0..4).map(|_| client.get(peer.url("/")).send())) {
        answer.expect("an answer");
    }
    assert_eq!(block_on(client.connect_ahead(peer.url("/"), 5)).expect("they are there"), 5);
    assert_eq!(peer.accepted(), 5);
}

#[test]
fn no_more_than_the_limits_allow() {
    let peer = Peer::answering(wire("tcp"), OK);
    let limits = Limits { connections_per_origin: 3, ..Limits::default() };
    let (_loops, client) = client(1, |builder| builder.limits(limits));
    assert_eq!(block_on(client.connect_ahead(peer.url("/"), 9)).expect("it connects"), 3);
}

#[test]
fn each_address_of_several_gets_its_part() {
    let peers = [Peer::answering(wire("tcp"), OK), Peer::answering(wire("unix"), OK)];
    let balance = Balance::over(peers.each_ref().map(|peer| peer.via().clone()));
    let (_loops, client) = client(1, |builder| builder.balance("http://shop.example", balance));
    assert_eq!(block_on(client.connect_ahead("http://shop.example", 4)).expect("it connects"), 4);
    eventually("they are spread evenly", || peers.each_ref().map(Peer::accepted) == [2, 2]);
}

#[test]
fn each_address_gets_its_part_over_all_loops() {
    for (loops, addresses, wanted, each) in [(4, 2, 4, 2), (2, 4, 4, 1), (3, 2, 6, 3), (4, 8, 8, 1)] {
        let peers: Vec<_> = (0..addresses).map(|_| Peer::answering(wire("tcp"), OK)).collect();
        let balance = Balance::over(peers.iter().map(Peer::via));
        let (_loops, client) = client(loops, |builder| builder.balance("http://shop.example", balance));
        let connected = block_on(client.connect_ahead("http://shop.example", wanted)).expect("it connects");
        assert_eq!(connected, wanted);
        eventually("they are spread evenly", || peers.iter().all(|peer| peer.accepted() == each));
    }
}

/// As the first call goes: to those that serve while the first choice is none, or has failed.
#[test]
fn the_second_choice_is_connected_to_if_there_is_no_first() {
    let second = Peer::answering(wire("tcp"), OK);
    let book = Book::new();
    book.set("shop.example", &[]);
    let by_name = Balance::over_name().or_else([second.via()]);
    let (_loops, by_name) =
        client(1, |builder| builder.resolver(book).balance("http://shop.example", by_name));
    assert_eq!(block_on(by_name.connect_ahead("http://shop.example", 2)).expect("it connects"), 2);
    block_on(by_name.get("http://shop.example/").send()).expect("an answer");
    assert_eq!(by_name.counters().total().dialed, 2, "the call has one of them");

    let dead: Address = "unix:/nowhere/at/all.sock".parse().expect("an address");
    let failed = Balance::over([&dead]).or_else([second.via()]).eject_after(1).eject_for(HANG);
    let (_loops, failed) = client(1, |builder| builder.balance("http://shop.example", failed));
    assert_eq!(block_on(failed.connect_ahead("http://shop.example", 1)).expect("an origin"), 0);
    assert_eq!(block_on(failed.connect_ahead("http://shop.example", 1)).expect("it connects"), 1);
}

/// The first call finds them there: the addresses of the name are known before anything is dialled.
#[test]
fn each_address_of_a_name_gets_its_part() {
    let peers = [Peer::answering(wire("tcp"), OK), Peer::answering(wire("tcp"), OK)];
    let book = Book::new();
    let addresses = peers.each_ref().map(|peer| peer.via().location().parse().expect("an address of TCP"));
    book.set("shop.example", &addresses);
    let (_loops, client) = client(1, |builder| {
        builder.names(Names::new(book.clone())).balance("http://shop.example", Balance::over_name())
    });
    assert_eq!(block_on(client.connect_ahead("http://shop.example", 4)).expect("it connects"), 4);
    eventually("they are spread evenly", || peers.each_ref().map(Peer::accepted) == [2, 2]);
    block_on(client.get("http://shop.example/").send()).expect("an answer");
    let counters = client.counters().total();
    assert_eq!((counters.requests, counters.dialed, counters.idle), (1, 4, 4), "{counters:?}");
}

#[test]
fn an_address_that_is_silent_holds_up_no_other() {
    let silent = Gate::new();
    silent.fill();
    let good = Peer::answering(wire("tcp"), OK);
    let balance = Balance::over([silent.via(), good.via()]);
    let (_loops, client) =
        client(1, |builder| builder.connect_timeout(Duration::MAX).balance("http://shop.example", balance));
    let mut ahead = Box::pin(client.connect_ahead("http://shop.example", 4));
    assert!(poll_once(&mut ahead).is_pending());
    eventually("the other one has its part", || good.accepted() == 2);
    assert!(poll_once(&mut ahead).is_pending(), "it waits for the silent one");
}

/// Counts the connections that it is asked for.
struct Counts(Arc<AtomicUsize>);

impl Connector for Counts {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Direct.connect(target)
    }
}

/// Where a connector of the user's leads, or a proxy, calls go there too, whatever addresses the origin has.
#[test]
fn a_connector_is_asked_for_them() {
    let [led_to, one, other] = [(); 3].map(|()| Peer::answering(wire("tcp"), OK));
    let book = Book::new();
    book.set("shop.example", &[led_to.via().location().parse().expect("an address of TCP")]);
    let asked = Arc::<AtomicUsize>::default();
    let counts = Counts(Arc::clone(&asked));
    let (_loops, client) = client(1, |builder| {
        let balance = Balance::over([one.via(), other.via()]);
        builder.names(Names::new(book.clone())).connector(counts).balance("http://shop.example", balance)
    });
    assert_eq!(block_on(client.connect_ahead("http://shop.example", 2)).expect("it connects"), 2);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    block_on(client.get("http://shop.example/").send()).expect("an answer");
    assert_eq!(client.counters().total().dialed, 2, "the call has one of them");
    assert_eq!([one.accepted(), other.accepted()], [0, 0]);
}

#[test]
fn where_nobody_is_there_are_none() {
    let (_loops, client) =
        client(1, |builder| builder.balance("http://shop.example", ["unix:/nowhere.sock"]));
    assert_eq!(block_on(client.connect_ahead("http://shop.example", 2)).expect("it is tried"), 0);
    assert_eq!(client.counters().total().dial_failures, 2);
    assert!(matches!(block_on(client.connect_ahead("shop", 1)), Err(Error::Url { .. })));
}

#[test]
fn an_address_that_cannot_be_connected_to_ahead_has_failed() {
    let good = Peer::answering(wire("tcp"), OK);
    let dead: Address = "unix:/nowhere/at/all.sock".parse().expect("an address");
    let balance = Balance::over([&dead, good.via()]).round_robin().eject_after(1).eject_for(HANG);
    let (_loops, client) = client(1, |builder| builder.balance("http://shop.example", balance));
    assert_eq!(block_on(client.connect_ahead("http://shop.example", 2)).expect("an origin"), 1);
    let counters = block_on(client.address_counters());
    let of_dead = counters.iter().find(|one| one.address == dead).expect("it is one of them");
    assert_eq!((of_dead.failures, of_dead.out), (1, 1), "{counters:?}");
    for _ in 0..4 {
        block_on(client.get("http://shop.example/").send()).expect("an answer");
    }
    assert_eq!(client.counters().total().dial_failures, 1);
}
