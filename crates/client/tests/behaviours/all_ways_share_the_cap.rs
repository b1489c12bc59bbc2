//! However calls reach an origin, directly or by a proxy, by one wire or another, in either version, there are never more connections
//! to it than the cap. No way is shut out by the others.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::support::{AnyWire, OK, Peer, all, block_on, client, eventually, on_each_wire, on_token, wire};
use anywire_client::{Balance, Call, Client, ClientBuilder, Counters, Error, Limits};
use anywire_loops::Loops;

/// So many connections, with one call each over HTTP/2 too, and calls that wait as long as it takes.
fn limited(loops: usize, is_http2: bool, connections: usize) -> (Loops, Client) {
    limited_and(loops, is_http2, connections, |builder| builder)
}

fn limited_and(
    loops: usize,
    is_http2: bool,
    connections: usize,
    more: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> (Loops, Client) {
    let mut limits = Limits { connections_per_origin: connections, ..Limits::default() };
    limits.http2.streams = 1;
    client(loops, |builder| {
        let builder = if is_http2 { builder.http2_prior_knowledge() } else { builder.http1_only() };
        more(builder.limits(limits).acquire_timeout(Duration::from_secs(60)))
    })
}

/// A call to one and the same origin, by way of this peer.
fn by(client: &Client, peer: &Peer) -> Call {
    client.get("http://one.example/").via(peer.via())
}

fn answered(call: Call) {
    assert_eq!(block_on(call.send()).expect("an answer").status(), 200);
}

/// Once they hold.
fn counts(client: &Client, what: &str, hold: impl Fn(&Counters) -> bool) {
    eventually(what, || hold(&client.counters().total()));
}

#[test]
fn an_idle_connection_makes_room_for_another_way() {
    for loops in [1, 2] {
        on_each_wire(|wire| {
            let (one, other) = (Peer::answering(wire, OK), Peer::answering(wire, OK));
            let (_loops, client) = limited(loops, false, 1);
            [&one, &other, &one].into_iter().for_each(|peer| answered(by(&client, peer)));
            let counters = client.counters().total();
            assert_eq!((counters.dialed, counters.passed_on, counters.idle), (3, 2, 1));
        });
    }
}

#[test]
fn with_room_for_all_each_way_keeps_its_connection() {
    on_each_wire(|wire| {
        let (one, other) = (Peer::answering(wire, OK), Peer::answering(wire, OK));
        let (_loops, client) = limited(1, false, 2);
        [&one, &other, &one, &other].into_iter().for_each(|peer| answered(by(&client, peer)));
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.passed_on, counters.idle), (2, 0, 2));
    });
}

#[test]
fn a_busy_connection_makes_room_after_its_calls() {
    for (is_http2, loops) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        on_each_wire(|wire: AnyWire| {
            let ((one, of_one), (other, of_other)) = (on_token(wire, is_http2), on_token(wire, is_http2));
            let (_loops, client) = limited(loops, is_http2, 2);
            let start = |peer: &Peer, calls: usize| {
                let calls: Vec<_> = (0..calls).map(|_| by(&client, peer).send()).collect();
                std::thread::spawn(move || all(calls))
            };
            let first = start(&one, 3);
            counts(&client, "two are under way", |it| (it.active, it.waiting) == (2, 1));
            let second = start(&other, 2);
            counts(&client, "all others wait", |it| (it.active, it.waiting) == (2, 3));
            assert_eq!(client.counters().total().dialed, 2);
            (0..3).for_each(|_| of_one.send(()).expect("the peer is there"));
            for answer in first.join().expect("no panic") {
                assert_eq!(answer.expect("an answer").status(), 200);
            }
            counts(&client, "those of the other way are under way", |it| (it.active, it.waiting) == (2, 0));
            assert_eq!(client.counters().total().idle, 0);
            (0..2).for_each(|_| of_other.send(()).expect("the peer is there"));
            for answer in second.join().expect("no panic") {
                assert_eq!(answer.expect("an answer").status(), 200);
            }
        });
    }
}

#[test]
fn a_way_that_is_always_busy_lets_another_in() {
    for is_http2 in [false, true] {
        let answering = || match is_http2 {
            false => Peer::answering(wire("memory"), OK),
            true => Peer::of_http2(wire("memory"), |mut frames, _| {
                while let Some(stream) = frames.request() {
                    frames.answer(stream);
                }
            }),
        };
        let (one, other) = (answering(), answering());
        let (loops, client) = limited(1, is_http2, 1);
        let (busy, rare) = (by(&client, &one), by(&client, &other));
        let calls = loops.get(0).spawn(move || async move {
            let (over, url, via) = (Rc::new(Cell::new(false)), "http://one.example/", one.via().clone());
            drop(busy.send().await.expect("an answer"));
            let always: Vec<_> = (0..3)
                .map(|_| {
                    let (client, via, over) = (client.clone(), via.clone(), Rc::clone(&over));
                    anywire_loops::spawn(async move {
                        while !over.get() {
                            client.get(url).via(&via).send().await.expect("an answer");
                            let counters = client.counters().total();
                            assert!(counters.active + counters.idle <= 1, "{counters:?}");
                        }
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            assert_eq!(rare.send().await.expect("an answer").status(), 200);
            over.set(true);
            for task in always {
                task.await.expect("no panic");
            }
        });
        block_on(calls).expect("all are answered");
    }
}

#[test]
fn a_proxy_is_a_way_and_so_is_none() {
    // It answers as an origin and as a proxy.
    let peer = Peer::answering(wire("tcp"), OK);
    let proxy = format!("http://{}", peer.via().location());
    let (_loops, client) = limited_and(2, false, 1, ClientBuilder::no_proxy);
    let direct = || client.get(peer.url("/"));
    [direct(), direct().proxy(&*proxy), direct()].into_iter().for_each(answered);
    let counters = client.counters().total();
    assert_eq!((counters.dialed, counters.passed_on, counters.idle), (3, 2, 1));
}

#[test]
fn the_queue_is_one_as_well() {
    let ((one, of_one), (other, of_other)) =
        (on_token(wire("memory"), false), on_token(wire("memory"), false));
    let limits = Limits { connections_per_origin: 1, queue_per_origin: 1, ..Limits::default() };
    let (_loops, client) = client(1, |builder| builder.limits(limits));
    let calls = [by(&client, &one).send(), by(&client, &one).send()];
    let calls = std::thread::spawn(move || all(calls));
    counts(&client, "one is under way, and one waits", |it| (it.active, it.waiting) == (1, 1));
    let error = block_on(by(&client, &other).send()).expect_err("one too many");
    assert!(matches!(error, Error::QueueFull { connections: 1, queue: 1, .. }), "{error:?}");
    (0..2).for_each(|_| of_one.send(()).expect("the peer is there"));
    calls.join().expect("no panic").into_iter().for_each(|answer| drop(answer.expect("an answer")));
    of_other.send(()).expect("the peer is there");
    answered(by(&client, &other));
}

#[test]
fn each_address_of_a_balance_has_a_cap_of_its_own() {
    let (one, other) = (Peer::answering(wire("memory"), OK), Peer::answering(wire("memory"), OK));
    let addresses = Balance::over([one.via(), other.via()]).round_robin();
    let (_loops, client) =
        limited_and(1, false, 1, |builder| builder.balance("http://one.example", addresses));
    (0..6).for_each(|_| answered(client.get("http://one.example/")));
    let counters = client.counters().total();
    assert_eq!((counters.dialed, counters.passed_on, counters.idle), (2, 0, 2));
}

/// Another certificate of this end is another identity, and its connections count with those of the first one.
#[cfg(feature = "tls")]
#[test]
fn another_identity_waits_for_the_first_one() {
    let (peer, tokens) = on_token(wire("tls"), false);
    let (_loops, client) = limited(1, false, 1);
    let first = client.get(peer.url("/")).send();
    let first = std::thread::spawn(move || block_on(first));
    counts(&client, "the first one is under way", |it| it.active == 1);
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    let other = anywire_client::OriginOptions::default().limits(limits).tls(crate::support::trial::client());
    client.set_origin_options(peer.url("/"), &other).expect("an origin");
    let second = client.get(peer.url("/")).send();
    let second = std::thread::spawn(move || block_on(second));
    counts(&client, "the second one waits", |it| (it.active, it.waiting, it.dialed) == (1, 1, 1));
    (0..2).for_each(|_| tokens.send(()).expect("the peer is there"));
    for call in [first, second] {
        assert_eq!(call.join().expect("no panic").expect("an answer").status(), 200);
    }
    assert_eq!(client.counters().total().dialed, 2);
}
