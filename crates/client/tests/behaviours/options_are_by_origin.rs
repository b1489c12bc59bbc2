//! An origin may have options of its own, and others while the client runs.

use std::time::Duration;

use crate::support::{
    AnyWire, HANG, OK, Peer, all, block_on, client, eventually, on_each_wire, on_four_wires_at_a_time,
    on_token, wire,
};
use anywire_client::{Call, Client, ClientBuilder, Error, Limits, OriginOptions, Phase, Timeouts};
use anywire_http::Version;

/// So many connections, with one call each over HTTP/2 too.
fn limits(connections: usize) -> Limits {
    let mut limits = Limits { connections_per_origin: connections, ..Limits::default() };
    limits.http2.streams = 1;
    limits
}

fn with_cap(connections: usize) -> OriginOptions {
    OriginOptions::default().limits(limits(connections))
}

fn of_version(builder: ClientBuilder, is_http2: bool) -> ClientBuilder {
    if is_http2 { builder.http2_prior_knowledge() } else { builder.http1_only() }
}

/// An origin, with TLS where the wire has it.
fn origin_of(wire: AnyWire, host: &str) -> String {
    format!("{}://{host}.example", if wire.scheme() == "tls" { "https" } else { "http" })
}

fn call(client: &Client, peer: &Peer) -> Call {
    client.get(peer.url("/")).via(peer.via())
}

#[test]
fn a_larger_cap_serves_those_who_wait() {
    for (is_http2, loops) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        on_each_wire(|wire| {
            let (peer, tokens) = on_token(wire, is_http2);
            let (_loops, client) = client(loops, |builder| of_version(builder, is_http2).limits(limits(1)));
            let calls: Vec<_> = (0..4).map(|_| call(&client, &peer).send()).collect();
            let calls = std::thread::spawn(move || all(calls));
            eventually("one is under way", || {
                let counters = client.counters().total();
                (counters.active, counters.waiting) == (1, 3)
            });
            client.set_origin_options(peer.url("/"), &with_cap(4)).expect("an origin");
            eventually("all are under way", || client.counters().total().active == 4);
            assert_eq!((client.counters().total().waiting, client.counters().total().dialed), (0, 4));
            (0..4).for_each(|_| tokens.send(()).expect("the peer is there"));
            for answer in calls.join().expect("no panic") {
                assert_eq!(answer.expect("an answer").status(), 200);
            }
        });
    }
}

#[test]
fn a_smaller_cap_closes_idle_connections_and_busy_ones_after_their_calls() {
    for (is_http2, loops) in [(true, 1), (false, 1), (false, 2)] {
        on_each_wire(|wire| {
            let (peer, tokens) = on_token(wire, is_http2);
            let (_loops, client) = client(loops, |builder| of_version(builder, is_http2).limits(limits(4)));
            let (answered, late) = (2, 4);
            let calls: Vec<_> = (0..4).map(|_| call(&client, &peer).send()).collect();
            let calls = std::thread::spawn(move || all(calls));
            eventually("all are under way", || client.counters().total().active == 4);
            (0..answered).for_each(|_| tokens.send(()).expect("the peer is there"));
            eventually("two are idle", || client.counters().total().idle == 2);
            client.set_origin_options(peer.url("/"), &with_cap(1)).expect("an origin");
            eventually("idle ones are closed", || client.counters().total().idle == 0);
            assert_eq!(client.counters().total().active, 2);
            // New calls wait until there are fewer connections than the new cap.
            let more: Vec<_> = (0..late).map(|_| call(&client, &peer).send()).collect();
            let more = std::thread::spawn(move || all(more));
            eventually("they wait", || client.counters().total().waiting == late);
            assert_eq!((client.counters().total().active, client.counters().total().dialed), (2, 4));
            (0..2 + late).for_each(|_| tokens.send(()).expect("the peer is there"));
            for answer in calls.join().expect("no panic").into_iter().chain(more.join().expect("no panic")) {
                assert_eq!(answer.expect("an answer").status(), 200);
            }
            assert_eq!(client.counters().total().dialed, 5);
            eventually("one is idle", || client.counters().total().idle == 1);
        });
    }
}

#[test]
fn an_origin_has_its_own_cap_and_queue() {
    on_each_wire(|wire| {
        let (peer, tokens) = on_token(wire, false);
        let own = OriginOptions::default().limits(Limits { queue_per_origin: 2, ..limits(1) });
        let (_loops, client) = client(3, |builder| builder.origin_options(peer.url("/"), own.http1_only()));
        let calls: Vec<_> = (0..8).map(|_| call(&client, &peer).send()).collect();
        let calls = std::thread::spawn(move || all(calls));
        eventually("five are refused", || client.counters().total().queue_full == 5);
        (0..3).for_each(|_| tokens.send(()).expect("the peer is there"));
        let mut answered = 0;
        for reply in calls.join().expect("no panic") {
            match reply {
                Ok(_) => answered += 1,
                Err(Error::QueueFull { connections, queue, .. }) => assert_eq!((connections, queue), (1, 2)),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((answered, client.counters().total().dialed), (3, 1));
    });
}

#[test]
fn an_origin_has_its_own_deadlines() {
    on_four_wires_at_a_time(|wire| {
        let (peer, _tokens) = on_token(wire, false);
        let soon = Duration::from_millis(50);
        let read = Timeouts { read: soon, ..Timeouts::default() };
        let acquire = Timeouts { acquire: soon, read: HANG, ..Timeouts::default() };
        let (_loops, client) = client(1, |builder| {
            let reading = OriginOptions::default().timeouts(read);
            let waiting = OriginOptions::default().limits(limits(1)).timeouts(acquire);
            builder
                .read_timeout(HANG)
                .origin_options(origin_of(wire, "one"), reading)
                .origin_options(origin_of(wire, "two"), waiting)
        });
        let to = |host: &str| client.get(origin_of(wire, host)).via(peer.via()).send();
        let error = block_on(to("one")).expect_err("the peer is silent");
        assert_eq!(error.phase(), Some(Phase::Read), "{error}");
        let mut busy = to("two");
        assert!(crate::support::poll_once(&mut busy).is_pending());
        eventually("it is under way", || client.counters().total().active == 1);
        let error = block_on(to("two")).expect_err("the connection is busy");
        assert_eq!(error.phase(), Some(Phase::Acquire), "{error}");
        assert_eq!(client.counters().total().read_timeouts, 1);
    });
}

#[test]
fn an_origin_has_its_own_version() {
    on_each_wire(|wire| {
        let old = Peer::answering(wire, OK);
        let (new, tokens) = on_token(wire, true);
        let http2 = OriginOptions::default().http2_prior_knowledge();
        let (_loops, client) =
            client(1, |builder| builder.http1_only().origin_options(origin_of(wire, "one"), http2.clone()));
        let version_of = |host: &str, peer: &Peer| {
            let call = client.get(origin_of(wire, host)).via(peer.via());
            block_on(call.send()).expect("an answer").version()
        };
        tokens.send(()).expect("the peer is there");
        assert_eq!(version_of("one", &new), Version::HTTP_2);
        assert_eq!(version_of("three", &old), Version::HTTP_11);
        // While the client runs, too.
        client.set_origin_options(origin_of(wire, "two"), &http2).expect("an origin");
        tokens.send(()).expect("the peer is there");
        assert_eq!(version_of("two", &new), Version::HTTP_2);
    });
}

#[test]
fn what_is_no_origin_is_an_error() {
    let peer = Peer::answering(wire("tcp"), OK);
    let (_loops, client) = client(1, |builder| builder.origin_options("shop", OriginOptions::default()));
    assert!(matches!(block_on(call(&client, &peer).send()), Err(Error::Url { .. })));
    assert!(matches!(client.set_origin_options("shop", &OriginOptions::default()), Err(Error::Url { .. })));
}
