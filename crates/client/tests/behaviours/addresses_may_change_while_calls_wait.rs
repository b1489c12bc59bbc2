//! A call that waits for a connection to an address is no worse off if the name of its origin has other addresses meanwhile: it
//! goes to one of them, and its client knows of it.

use std::net::SocketAddr;
use std::time::Duration;

use anywire_client::{Balance, ClientBuilder, Error, Limits};
use anywire_wire::names::{self, Names};

use crate::support::names::Book;
use crate::support::{OK, Peer, block_on, client, eventually, poll_once, wire};

const URL: &str = "http://shop.example/";

fn silent() -> Peer {
    Peer::start(wire("tcp"), |mut talk| {
        talk.request();
        talk.wait_for_end();
    })
}

fn address_of(peer: &Peer) -> SocketAddr {
    peer.via().location().parse().expect("an address of TCP")
}

/// One connection for each address, whose names are looked up anew each time.
fn over_name(builder: ClientBuilder, book: &Book) -> ClientBuilder {
    let limits =
        names::Limits { shortest_ttl: Duration::ZERO, stale: Duration::ZERO, ..names::Limits::default() };
    builder
        .names(Names::with_limits(book.clone(), limits))
        .limits(Limits { connections_per_origin: 1, ..Limits::default() })
        .balance("http://shop.example", Balance::over_name())
}

#[test]
fn calls_from_before_the_first_addresses_are_cut_with_the_client() {
    let (peer, book) = (silent(), Book::new());
    book.set("shop.example", &[address_of(&peer)]);
    book.open(false);
    let (_loops, client) = client(1, |builder| over_name(builder, &book));
    let mut calls = [client.get(URL).send(), client.get(URL).send()];
    calls.iter_mut().for_each(|call| assert!(poll_once(call).is_pending()));
    eventually("both wait", || client.counters().total().waiting == 2);
    book.open(true);
    eventually("the address is known", || !block_on(client.address_counters()).is_empty());
    assert_eq!(block_on(client.shutdown(Duration::ZERO)).calls_cut, 2);
    for call in calls {
        let error = block_on(call).expect_err("the client is closed");
        assert!(matches!(error, Error::Shutdown { .. }), "{error:?}");
    }
}

#[test]
fn a_call_that_waits_for_an_address_that_is_gone_goes_to_another() {
    let (gone, other) = (silent(), Peer::answering(wire("tcp"), OK));
    let book = Book::new().with_ttl(Duration::ZERO);
    book.set("shop.example", &[address_of(&gone)]);
    let (_loops, client) = client(1, |builder| over_name(builder, &book));
    let begin = || {
        let mut call = client.get(URL).send();
        assert!(poll_once(&mut call).is_pending());
        call
    };
    let _first = begin();
    eventually("the address is known", || !block_on(client.address_counters()).is_empty());
    eventually("one is under way", || client.counters().total().active == 1);
    let waits = [begin(), begin()];
    eventually("they wait", || client.counters().total().waiting >= 1);
    book.set("shop.example", &[address_of(&other)]);
    eventually("the other address is known", || {
        // What makes the loop look at the name.
        drop(begin());
        let known = block_on(client.address_counters());
        known.iter().any(|one| one.address == *other.via())
    });
    for call in waits {
        block_on(call).expect("an answer of the other address");
    }
    // The first one is still there.
    assert_eq!(block_on(client.shutdown(Duration::ZERO)).calls_cut, 1);
}
