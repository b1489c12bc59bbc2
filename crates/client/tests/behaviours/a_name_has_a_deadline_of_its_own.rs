//! To resolve a name is a phase of its own: its deadline, its error and its counters are no other's.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::names::Book;
use crate::support::{OK, Peer, block_on, client, wire};
use anywire_client::{Error, Fault, Phase, Timeouts};
use anywire_wire::names::Hosts;

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
