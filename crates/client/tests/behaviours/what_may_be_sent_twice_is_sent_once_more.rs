//! A request that meets a dead connection is sent again only where that does no harm.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use crate::support::{AnyWire, Gate, HANG, OK, Peer, block_on, client, eventually, on_each_wire, poll_once};
use anywire_client::{Error, Limits, Phase};
use anywire_http::{Body, Method};
use bytes::Bytes;

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
fn a_put_and_a_query_with_their_body_are_sent_again_whole() {
    for method in [Method::PUT, Method::QUERY] {
        is_sent_again_whole(&method);
    }
}

fn is_sent_again_whole(method: &Method) {
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
            let call = client.request(method.clone(), peer.url("/")).via(peer.via()).body("whole");
            block_on(call.send()).expect("an answer");
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

#[test]
fn a_call_that_cannot_be_sent_again_says_that_it_was_sent_before() {
    on_each_wire(|wire| {
        let (report, read) = mpsc::channel();
        let (close, closing) = mpsc::channel::<()>();
        let closing = Mutex::new(closing);
        let peer = Peer::start(wire, move |mut talk| {
            assert!(talk.request().is_some());
            talk.say(OK);
            assert!(talk.request().is_some());
            let _ = report.send(());
            let _ = closing.lock().expect("no panic").recv();
        });
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let mut call = client.delete(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut call).is_pending());
        read.recv().expect("the peer reads the request");
        peer.stop_listening();
        close.send(()).expect("the peer waits");
        let error = block_on(call).expect_err("nobody listens any more");
        assert!(matches!(error, Error::Connect { sent: true, .. }), "{error:?}");
        assert!(error.is_connect() && error.may_have_been_processed());
        assert_eq!(client.counters().total().resent, 1);
    });
}

#[test]
fn a_call_whose_second_connection_hangs_says_that_it_was_sent_before() {
    let gate = Gate::new();
    let (_loops, client) = client(1, |builder| builder);
    let call = || client.get("http://peer.example/").via(gate.via());
    let mut first = call().send();
    assert!(poll_once(&mut first).is_pending());
    let mut talk = gate.accept();
    assert!(talk.request().is_some());
    talk.say(OK);
    block_on(first).expect("an answer");
    gate.fill();
    let mut second = call().total_timeout(Duration::from_millis(300)).send();
    assert!(poll_once(&mut second).is_pending());
    assert!(talk.request().is_some());
    drop(talk);
    let error = block_on(second).expect_err("nobody is accepted");
    assert!(matches!(error, Error::Timeout { phase: Phase::Total, sent: true, .. }), "{error:?}");
}

#[test]
fn a_call_that_is_sent_again_takes_a_fresh_connection_only() {
    let gate = Gate::new();
    let (_loops, client) = client(1, |builder| {
        builder.limits(Limits { connections_per_origin: 2, ..Limits::default() }).connect_timeout(HANG)
    });
    let send = || client.get("http://peer.example/").via(gate.via()).send();
    let (mut one, mut other) = (send(), send());
    assert!(poll_once(&mut one).is_pending() && poll_once(&mut other).is_pending());
    let (mut idle, mut busy) = (gate.accept(), gate.accept());
    assert!(idle.request().is_some() && busy.request().is_some());
    idle.say(OK);
    block_on(one).expect("an answer");
    gate.fill();
    let mut again = send();
    assert!(poll_once(&mut again).is_pending());
    assert!(idle.request().is_some());
    drop(idle);
    eventually("the call is to be sent again", || client.counters().total().resent == 1);
    busy.say(OK);
    block_on(other).expect("an answer");
    // A reused connection came free, and the call did not take it.
    let counters = client.counters().total();
    assert_eq!((counters.idle, counters.waiting), (1, 1), "{counters:?}");
    drop(gate.accept());
    let mut fresh = gate.accept();
    assert!(fresh.request().is_some());
    fresh.say(OK);
    block_on(again).expect("an answer");
}

#[test]
fn nothing_is_sent_again_once_an_answer_began() {
    on_each_wire(|wire| {
        for begun in ["HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-"] {
            let (report, requests) = mpsc::channel();
            let peer = Peer::start(wire, move |mut talk| {
                for answer in [OK, begun] {
                    let Some(request) = talk.request() else { return };
                    let _ = report.send(request.head.method().clone());
                    talk.say(answer);
                }
            });
            let (_loops, client) = client(1, |builder| builder);
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            let call = client.get(peer.url("/")).via(peer.via());
            let error = block_on(call.send()).expect_err("no whole answer");
            assert!(error.may_have_been_processed(), "{error:?}");
            drop(peer);
            assert_eq!(requests.iter().count(), 2, "{error:?}");
            assert_eq!(client.counters().total().resent, 0);
        }
    });
}

#[test]
fn a_streaming_body_is_not_sent_again() {
    on_each_wire(|wire| {
        let (report, requests) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            for _ in 0..2 {
                let Some(request) = talk.request() else { return };
                let _ = report.send(request.body.len());
                if request.body.is_empty() {
                    talk.say(OK);
                }
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let (mut sender, body) = Body::channel(10);
        sender.try_send(Bytes::from_static(b"once")).expect("room");
        sender.finish();
        let call = client.put(peer.url("/")).via(peer.via()).body(body);
        let error = block_on(call.send()).expect_err("the connection ends");
        assert!(error.may_have_been_processed(), "{error:?}");
        assert_eq!(client.counters().total().resent, 0);
        drop(peer);
        assert_eq!(requests.iter().collect::<Vec<_>>(), [0, 4]);
    });
}

#[test]
fn a_call_that_is_sent_again_has_its_acquire_deadline_anew() {
    let gate = Gate::new();
    let (_loops, client) = client(1, |builder| {
        let limits = Limits { connections_per_origin: 3, dials_per_origin: 1, ..Limits::default() };
        builder
            .limits(limits)
            .acquire_timeout(Duration::from_secs(3))
            .connect_timeout(HANG)
            .read_timeout(HANG)
    });
    let send = || client.get("http://peer.example/").via(gate.via()).send();
    let three = || {
        [(); 3].map(|()| {
            let mut call = send();
            assert!(poll_once(&mut call).is_pending());
            call
        })
    };
    let first = three();
    let mut talks = [(); 3].map(|()| gate.accept());
    for talk in &mut talks {
        assert!(talk.request().is_some());
    }
    for talk in &talks {
        talk.say(OK);
    }
    for call in first {
        block_on(call).expect("an answer");
    }
    let second = three();
    for talk in &mut talks {
        assert!(talk.request().is_some());
    }
    // A call that comes with them waits for too long. So would they by now, if they were waiting.
    let error = block_on(send()).expect_err("no connection comes free");
    assert_eq!(error.phase(), Some(Phase::Acquire));
    gate.fill();
    drop(talks);
    eventually("all are to be sent again", || client.counters().total().resent == 3);
    // A look at all deadlines comes after that.
    let other = client.get("http://other.example/").via(gate.via()).total_timeout(Duration::from_millis(10));
    assert!(block_on(other.send()).expect_err("no connection is made").is_timeout());
    drop(gate.accept());
    std::thread::spawn(move || {
        loop {
            let mut talk = gate.accept();
            std::thread::spawn(move || {
                while talk.request().is_some() {
                    talk.say(OK);
                }
            });
        }
    });
    for call in second {
        block_on(call).expect("an answer");
    }
}
