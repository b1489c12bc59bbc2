//! Idle timeouts, the peer's wish, lifetimes, and the end of a client.

mod support;

use std::sync::mpsc;
use std::time::Duration;

use anywire_client::{Error, Timeouts};
use support::{AnyWire, OK, Peer, block_on, client, eventually, on_all_wires, poll_once};

/// A peer that reports when a connection of its ends; requests to `/never` are never answered.
fn reporting(wire: AnyWire, answer: &'static str) -> (Peer, mpsc::Receiver<usize>) {
    let (report, ends) = mpsc::channel();
    let peer = Peer::start(wire, move |mut talk| {
        while let Some(request) = talk.request() {
            if request.head.path() != "/never" {
                talk.say(answer);
            }
        }
        let _ = report.send(talk.number);
    });
    (peer, ends)
}

#[test]
fn an_idle_connection_is_closed_after_its_timeout() {
    on_all_wires(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| builder.idle_timeout(Duration::from_millis(100)));
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        ends.recv().expect("the client closes");
        eventually("the pool knows", || client.counters().total().idle == 0);
        assert_eq!(client.counters().total().evicted, 0);
    });
}

#[test]
fn the_peers_keep_alive_timeout_is_kept() {
    on_all_wires(|wire| {
        let (peer, ends) =
            reporting(wire, "HTTP/1.1 200 OK\r\nkeep-alive: timeout=2\r\ncontent-length: 2\r\n\r\nok");
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!(client.counters().total().idle, 1);
        ends.recv().expect("the client closes first");
    });
}

#[test]
fn a_connection_past_its_lifetime_is_not_used_again() {
    on_all_wires(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| {
            builder.timeouts(Timeouts { lifetime: Duration::ZERO, ..Timeouts::default() })
        });
        for _ in 0..2 {
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            ends.recv().expect("the client closes");
        }
        assert_eq!(client.counters().total().dialed, 2);
    });
}

#[test]
fn a_pool_that_is_not_used_is_forgotten() {
    on_all_wires(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| {
            builder.timeouts(Timeouts { pool_unused: Duration::from_millis(100), ..Timeouts::default() })
        });
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        ends.recv().expect("the client closes");
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("a new pool is made");
    });
}

#[test]
fn dropping_the_client_closes_what_is_idle() {
    on_all_wires(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(2, |builder| builder);
        for _ in 0..2 {
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        }
        let other = client.clone();
        drop(client);
        block_on(other.get(peer.url("/")).via(peer.via()).send()).expect("a clone is the same client");
        assert_eq!(peer.accepted(), 2);
        drop(other);
        for _ in 0..2 {
            ends.recv().expect("the client closes");
        }
    });
}

#[test]
fn closing_lets_calls_finish_and_cuts_those_that_do_not() {
    on_all_wires(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let mut never = client.get(peer.url("/never")).via(peer.via()).send();
        assert!(poll_once(&mut never).is_pending());
        eventually("it is on its way", || client.counters().total().active == 1);
        let closing = block_on(client.close(Duration::from_millis(100)));
        assert_eq!(closing.calls_cut, 1);
        assert!(matches!(block_on(never), Err(Error::Closed)));
        ends.recv().expect("the client closes");
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("it is closed");
        assert!(matches!(error, Error::Closed), "{error:?}");
        assert_eq!(block_on(client.close(Duration::ZERO)).calls_cut, 0);
    });
}

#[test]
fn closing_an_idle_client_waits_for_nothing() {
    on_all_wires(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(2, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let closing = block_on(client.close(Duration::from_secs(3600)));
        assert_eq!(closing.calls_cut, 0);
        ends.recv().expect("the client closes");
    });
}
