//! A request that meets a dead connection is sent again only where that does no harm.

mod support;

use std::sync::mpsc;

use anywire_client::{Error, Phase};
use anywire_http::Method;
use support::{AnyWire, OK, Peer, block_on, client, on_each_wire};

/// Answers the first request of a connection, reads the second whole and closes. Reports each request's method.
fn fickle(wire: AnyWire) -> (Peer, mpsc::Receiver<Method>) {
    let (report, methods) = mpsc::channel();
    let peer = Peer::start(wire, move |mut talk| {
        for round in 0..2 {
            let Some(request) = talk.request() else { return };
            let _ = report.send(request.head.method().clone());
            if round == 0 {
                talk.say(OK);
            }
        }
    });
    (peer, methods)
}

#[test]
fn a_get_on_a_reused_connection_is_answered_on_the_second_attempt() {
    on_each_wire(|wire| {
        let (peer, methods) = fickle(wire);
        let (_loops, client) = client(1, |builder| builder);
        for _ in 0..2 {
            let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert_eq!(answer.status(), 200);
        }
        assert_eq!(methods.try_iter().collect::<Vec<_>>(), [Method::GET, Method::GET, Method::GET]);
        let counters = client.counters().total();
        assert_eq!((counters.requests, counters.resent, counters.dialed), (2, 1, 2));
    });
}

#[test]
fn a_put_with_its_body_is_sent_again_whole() {
    on_each_wire(|wire| {
        let (report, bodies) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            for round in 0..2 {
                let Some(request) = talk.request() else { return };
                let _ = report.send(request.body);
                if round == 0 {
                    talk.say(OK);
                }
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        for _ in 0..2 {
            block_on(client.put(peer.url("/")).via(peer.via()).body("whole").send()).expect("an answer");
        }
        assert_eq!(bodies.try_iter().collect::<Vec<_>>(), [b"whole", b"whole", b"whole"]);
    });
}

#[test]
fn a_post_is_seen_once_and_the_error_says_so() {
    on_each_wire(|wire| {
        let (peer, methods) = fickle(wire);
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let error =
            block_on(client.post(peer.url("/")).via(peer.via()).body("order").send()).expect_err("no answer");
        assert!(matches!(error, Error::ClosedByPeer { phase: Phase::Read, sent: true, .. }), "{error:?}");
        assert!(error.may_have_been_processed());
        assert_eq!(methods.try_iter().collect::<Vec<_>>(), [Method::GET, Method::POST]);
    });
}

#[test]
fn on_a_fresh_connection_nothing_is_sent_again() {
    on_each_wire(|wire| {
        let (report, requests) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            talk.request();
            let _ = report.send(());
        });
        let (_loops, client) = client(1, |builder| builder);
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("no answer");
        assert!(matches!(error, Error::ClosedByPeer { sent: true, .. }), "{error:?}");
        requests.recv().expect("the request was seen");
        assert!(requests.try_recv().is_err(), "seen twice");
        assert_eq!(client.counters().total().resent, 0);
    });
}
