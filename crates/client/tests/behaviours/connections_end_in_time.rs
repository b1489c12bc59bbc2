//! Idle timeouts, the peer's wish, lifetimes, and the end of a client.

use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use crate::support::bytes_of_http2::{GOAWAY, HEADERS};
use crate::support::simulated::Simulated;
use crate::support::{
    AnyWire, Gate, HANG, OK, Peer, block_on, client, client_of_http2, eventually, on_each_wire,
    on_four_wires_at_a_time, poll_once, wire,
};
use anywire_client::{Error, Limits, OriginOptions, Timeouts};

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
    on_four_wires_at_a_time(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| builder.idle_timeout(Duration::from_millis(100)));
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        ends.recv().expect("the client closes");
        eventually("the pool knows", || client.counters().total().idle == 0);
        let counters = client.counters().total();
        assert_eq!((counters.evicted, counters.idle_timeouts, counters.lifetimes_ended), (0, 1, 0));
    });
}

/// A peer of HTTP/2 that goes on with streams on their way would otherwise not know that there will be none (RFC 9113 section
/// 6.8).
#[test]
fn over_http2_the_end_of_an_idle_connection_is_said() {
    on_each_wire(|wire| {
        for ends_by in ["idle", "lifetime", "shutdown"] {
            let (report, said) = mpsc::channel();
            let peer = Peer::of_http2(wire, move |mut frames, _| {
                while let Some(frame) = frames.next() {
                    match frame.kind {
                        HEADERS => frames.answer(frame.stream),
                        GOAWAY => report.send(frame.payload).expect("the test listens"),
                        _ => {}
                    }
                }
            });
            let timeouts = match ends_by {
                "idle" => Timeouts { idle: Duration::from_millis(50), ..Timeouts::default() },
                "lifetime" => Timeouts { lifetime: Duration::ZERO, ..Timeouts::default() },
                _ => Timeouts::default(),
            };
            let (_loops, client) = client_of_http2(|builder| builder.timeouts(timeouts));
            let call = client.get(peer.url("/")).via(peer.via());
            assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "ok");
            if ends_by == "shutdown" {
                block_on(client.shutdown(HANG));
            }
            // No stream of the peer's, and no error.
            assert_eq!(said.recv().expect("a GOAWAY"), [0; 8], "{ends_by}");
        }
    });
}

#[test]
fn the_peers_keep_alive_timeout_is_kept() {
    on_four_wires_at_a_time(|wire| {
        let (peer, ends) =
            reporting(wire, "HTTP/1.1 200 OK\r\nkeep-alive: timeout=2\r\ncontent-length: 2\r\n\r\nok");
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!(client.counters().total().idle, 1);
        ends.recv().expect("the client closes first");
    });
}

#[test]
fn a_peer_that_closes_within_a_second_gets_no_second_request() {
    on_four_wires_at_a_time(|wire| {
        let (peer, ends) =
            reporting(wire, "HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: 2\r\n\r\nok");
        let (_loops, client) = client(1, |builder| builder);
        for round in 1..=2 {
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            // A second less than the peer's second is no time.
            assert_eq!(client.counters().total().idle, 0);
            ends.recv().expect("the client closes");
            assert_eq!(client.counters().total().dialed, round);
        }
    });
}

#[test]
fn a_connection_past_its_lifetime_is_not_used_again() {
    on_four_wires_at_a_time(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| {
            builder.timeouts(Timeouts { lifetime: Duration::ZERO, ..Timeouts::default() })
        });
        for _ in 0..2 {
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert_eq!(client.counters().total().idle, 0);
            ends.recv().expect("the client closes");
        }
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.lifetimes_ended, counters.idle_timeouts), (2, 2, 0));
    });
}

#[test]
fn a_connection_past_its_lifetime_takes_no_waiting_call() {
    on_four_wires_at_a_time(|wire| {
        let (peer, _ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| {
            let timeouts = Timeouts { lifetime: Duration::ZERO, acquire: HANG, ..Timeouts::default() };
            let limits = Limits { connections_per_origin: 1, ..Limits::default() };
            builder.timeouts(timeouts).limits(limits)
        });
        let mut calls: Vec<_> = (0..4).map(|_| client.get(peer.url("/")).via(peer.via()).send()).collect();
        // All are on their way before any is waited for. One may be answered within its first poll.
        let polled: Vec<_> = calls.iter_mut().map(poll_once).collect();
        for (call, polled) in calls.into_iter().zip(polled) {
            match polled {
                Poll::Ready(answer) => answer,
                Poll::Pending => block_on(call),
            }
            .expect("an answer");
        }
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.reused), (4, 0));
    });
}

#[test]
fn an_idle_connection_is_closed_at_the_end_of_its_lifetime() {
    on_four_wires_at_a_time(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| {
            let lifetime = Duration::from_secs(1);
            builder.timeouts(Timeouts { lifetime, ..Timeouts::default() })
        });
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        ends.recv_timeout(HANG / 2).expect("the client closes long before the idle timeout");
        eventually("the pool knows", || client.counters().total().idle == 0);
        let counters = client.counters().total();
        assert_eq!((counters.lifetimes_ended, counters.idle_timeouts), (1, 0));
    });
}

#[test]
fn a_pool_that_is_not_used_is_forgotten() {
    on_four_wires_at_a_time(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| {
            builder.timeouts(Timeouts { pool_unused: Duration::from_millis(100), ..Timeouts::default() })
        });
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        ends.recv().expect("the client closes");
        eventually("it is counted", || client.counters().total().pools_unused == 1);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("a new pool is made");
    });
}

#[test]
fn a_pool_is_forgotten_after_ten_minutes_without_a_call() {
    let world = Simulated::new();
    let peer = world.peer(|mut line| async move {
        while line.head().await.is_some() {
            line.say(OK).await;
        }
    });
    let client = world.client(|builder| builder);
    let via = peer.via().clone();
    let forgotten = world.run(async move || {
        let mut forgotten = Vec::new();
        for wait in [595, 595, 615] {
            client.get("http://peer.example/").via(&via).send().await.expect("an answer");
            tokio::time::sleep(Duration::from_secs(wait)).await;
            forgotten.push(client.counters().total().pools_unused);
        }
        forgotten
    });
    assert_eq!(forgotten, [0, 0, 1]);
}

#[test]
fn a_connection_that_is_not_kept_carries_one_call() {
    let (said, heard) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            let fields = request.head.headers().get("connection").map(str::to_owned);
            said.send((talk.number, fields)).expect("the test listens");
            talk.say(OK);
        }
    });
    let (_loops, client) = client(1, |builder| builder.keep_alive(false));
    let call = || client.get(peer.url("/"));
    for call in [call(), call(), call().keep_alive(true), call()] {
        block_on(call.send()).expect("an answer");
    }
    client.set_origin_options(peer.url("/"), &OriginOptions::default().keep_alive(true)).expect("an origin");
    for _ in 0..2 {
        block_on(call().send()).expect("an answer");
    }
    let heard: Vec<_> = heard.iter().take(6).collect();
    let close = || Some("close".to_owned());
    // The third is kept for the fourth, and that one ends it.
    assert_eq!(heard, [(0, close()), (1, close()), (2, None), (2, close()), (3, None), (3, None)]);
}

/// Of the origin that a hop goes to, not of the one that it comes from. What a call says itself holds for all of its hops.
#[test]
fn whether_a_connection_is_kept_is_said_by_its_own_origin() {
    let close = || Some("close".to_owned());
    let closing = || OriginOptions::default().keep_alive(false);
    for (first, second, call, expected) in [
        (false, true, None, [None, close()]),
        (true, false, None, [close(), None]),
        (false, true, Some(true), [None, None]),
        (true, false, Some(false), [close(), close()]),
    ] {
        let (said, heard) = mpsc::channel();
        let hearing = |response: String| {
            let said = said.clone();
            Peer::start(wire("tcp"), move |mut talk| {
                while let Some(request) = talk.request() {
                    let field = request.head.headers().get("connection").map(str::to_owned);
                    said.send(field).expect("the test listens");
                    talk.say(&response);
                }
            })
        };
        let to = hearing(OK.to_owned());
        let found = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", to.url("/"));
        let from = hearing(found);
        let (_loops, client) = client(1, |builder| builder);
        for (peer, is_closed) in [(&from, first), (&to, second)] {
            if is_closed {
                client.set_origin_options(peer.url("/"), &closing()).expect("an origin");
            }
        }
        for _ in 0..2 {
            let request = client.get(from.url("/"));
            let request = match call {
                Some(keep_alive) => request.keep_alive(keep_alive),
                None => request,
            };
            block_on(request.send()).expect("an answer");
            assert_eq!([(); 2].map(|()| heard.recv().expect("a request")), expected);
        }
        let accepted = |field: &Option<String>| if field.is_some() { 2 } else { 1 };
        assert_eq!([from.accepted(), to.accepted()], expected.each_ref().map(accepted));
    }
}

#[test]
fn dropping_the_client_closes_what_is_idle() {
    on_four_wires_at_a_time(|wire| {
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
    on_four_wires_at_a_time(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let mut never = client.get(peer.url("/never")).via(peer.via()).send();
        assert!(poll_once(&mut never).is_pending());
        eventually("it is on its way", || client.counters().total().active == 1);
        let closing = block_on(client.shutdown(Duration::from_millis(100)));
        assert_eq!(closing.calls_cut, 1);
        assert!(matches!(block_on(never), Err(Error::Shutdown { sent: true })));
        ends.recv().expect("the client closes");
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("it is closed");
        assert!(matches!(error, Error::Shutdown { sent: false }), "{error:?}");
        assert_eq!(block_on(client.shutdown(Duration::ZERO)).calls_cut, 0);
    });
}

#[test]
fn closing_an_idle_client_waits_for_nothing() {
    on_four_wires_at_a_time(|wire| {
        let (peer, ends) = reporting(wire, OK);
        let (_loops, client) = client(2, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let closing = block_on(client.shutdown(Duration::from_secs(3600)));
        assert_eq!(closing.calls_cut, 0);
        ends.recv().expect("the client closes");
    });
}

#[test]
fn a_connection_that_comes_when_its_client_is_shut_down_is_closed() {
    let gate = Gate::new();
    gate.fill();
    let (loops, client) = client(1, |builder| builder.connect_timeout(HANG));
    let mut call = client.get("http://peer.example/").via(gate.via()).send();
    assert!(poll_once(&mut call).is_pending());
    eventually("the call waits for its dial", || client.counters().total().waiting == 1);
    drop(call);
    let mut ending = Box::pin(client.shutdown(HANG));
    assert!(poll_once(&mut ending).is_pending());
    loops.get(0).spawn(async || ()).wait().expect("the loop has heard of it");
    drop(gate.accept());
    let mut talk = gate.accept();
    assert!(talk.request().is_none());
    assert_eq!(block_on(ending).calls_cut, 0);
}
