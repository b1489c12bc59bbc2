//! A request's body as a stream: chunked or of a declared length, with trailers, with back-pressure, and failing.

use std::pin::Pin;
use std::sync::{Mutex, mpsc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::support::bytes_of_http2::HEADERS;
use crate::support::{OK, Peer, block_on, client, client_of_http2, on_each_wire, poll_once};
use anywire_advice::Chain;
use anywire_client::{Error, Fault, Limits, Phase};
use anywire_http::{Body, BodyError, Headers, body};
use bytes::Bytes;
use futures_core::Stream;

#[test]
fn pieces_arrive_as_one_body_with_trailers() {
    on_each_wire(|wire| {
        let (report, requests) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                let _ = report.send(request);
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        for declared in [None, Some(300_000)] {
            let (mut sender, mut body) = Body::channel(10_000);
            if let Some(length) = declared {
                body = body.with_length(length);
            }
            let feeding = std::thread::spawn(move || {
                for _ in 0..300 {
                    block_on(sender.ready()).expect("a reader");
                    sender.try_send(Bytes::from(vec![b'x'; 1000])).expect("room");
                }
                let mut trailers = Headers::new();
                trailers.append("x-sum", "7").expect("a good trailer");
                sender.trailers(trailers);
                sender.finish();
            });
            block_on(client.post(peer.url("/")).via(peer.via()).body(body).send()).expect("an answer");
            feeding.join().expect("no panic");
            let request = requests.recv().expect("a request");
            assert_eq!(request.body.len(), 300_000);
            let sum = request.trailers.as_ref().and_then(|trailers| trailers.get("x-sum"));
            assert_eq!(sum, declared.is_none().then_some("7"));
            let length = request.head.headers().get("content-length");
            assert_eq!(length, declared.is_some().then_some("300000"));
        }
        assert_eq!(peer.accepted(), 1);
    });
}

/// Over HTTP/2 trailers need no chunks, and libraries of gRPC state a length of 0.
#[test]
fn trailers_follow_a_body_of_no_bytes_over_http2() {
    on_each_wire(|wire| {
        let (report, came) = mpsc::channel();
        let peer = Peer::of_http2(wire, move |mut frames, _| {
            while let Some(head) = frames.until(HEADERS) {
                let trailers = frames.until(HEADERS).filter(|frame| frame.stream == head.stream);
                let _ = report.send((head.ends_stream(), trailers.is_some_and(|frame| frame.ends_stream())));
                frames.answer(head.stream);
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        for length in [None, Some(0)] {
            let (mut sender, body) = Body::channel(1);
            let mut trailers = Headers::new();
            trailers.append("x-sum", "7").expect("a good trailer");
            sender.trailers(trailers);
            sender.finish();
            let body = match length {
                Some(length) => body.with_length(length),
                None => body,
            };
            let call = client.post(peer.url("/")).via(peer.via()).body(body);
            assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "ok");
            assert_eq!(came.recv().expect("a request"), (false, true), "{length:?}");
        }
    });
}

#[test]
fn a_peer_that_does_not_read_stops_the_body() {
    on_each_wire(|wire| {
        let (go_on, going_on) = mpsc::channel::<()>();
        let going_on = Mutex::new(going_on);
        let peer = Peer::start(wire, move |mut talk| {
            going_on.lock().expect("no panic").recv().expect("the test goes on");
            let request = talk.request().expect("a request");
            let length = request.body.len().to_string();
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{length}", length.len()));
        });
        let (_loops, client) = client(1, |builder| builder);
        let (mut sender, body) = Body::channel(10_000);
        let mut call = client.post(peer.url("/")).via(peer.via()).body(body).send();
        assert!(poll_once(&mut call).is_pending());
        let feeding = std::thread::spawn(move || {
            let (mut fed, mut go_on) = (0, Some(go_on));
            while fed < 40 << 20 {
                // Takes what the sockets and the client hold, and then nothing until the peer reads.
                if go_on.is_some() && !is_ready_within(&mut sender, Duration::from_millis(300)) {
                    assert!(fed < 32 << 20, "{fed} bytes went to a peer that reads nothing");
                    if let Some(go_on) = go_on.take() {
                        go_on.send(()).expect("the peer waits");
                    }
                }
                block_on(sender.ready()).expect("a reader");
                sender.try_send(Bytes::from(vec![b'x'; 10_000])).expect("room");
                fed += 10_000;
            }
            assert!(go_on.is_none(), "the body never stopped");
            sender.finish();
            fed
        });
        let answer = block_on(call).expect("an answer");
        let fed = feeding.join().expect("no panic");
        assert_eq!(block_on(answer.text()).expect("a body"), fed.to_string());
    });
}

/// Whether the body is asked for more within `patience`.
fn is_ready_within(sender: &mut body::Sender, patience: Duration) -> bool {
    let start = Instant::now();
    while poll_once(&mut Box::pin(sender.ready())).is_pending() {
        if start.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_body_that_fails_fails_its_call_only() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            while talk.request().is_some() {
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        let (mut sender, body) = Body::channel(10);
        sender.try_send(Bytes::from_static(b"part")).expect("room");
        sender.abort(BodyError::failed("the disk is gone"));
        let error = block_on(client.post(peer.url("/")).via(peer.via()).body(body).send())
            .expect_err("a broken body");
        assert!(matches!(error, Error::RequestBody { .. }), "{error:?}");
        assert_eq!((error.fault(), error.phase()), (Fault::Caller, Some(Phase::Write)));
        assert!(Chain(&error).to_string().contains("the disk is gone"), "{error}");

        for (declared, given, how) in [(10, "short", "shorter"), (3, "long", "longer")] {
            let (mut sender, body) = Body::channel(10);
            sender.try_send(Bytes::from_static(given.as_bytes())).expect("room");
            sender.finish();
            let call = client.post(peer.url("/")).via(peer.via()).body(body.with_length(declared));
            let error = block_on(call.send()).expect_err("not the declared length");
            assert!(matches!(error, Error::RequestBody { .. }), "{error:?}");
            assert_eq!(error.fault(), Fault::Caller);
            let text = Chain(&error).to_string();
            assert!(text.contains(&format!("the body is {how} than its stated length")), "{text}");
        }
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("other calls go on");
    });
}

#[test]
fn an_answer_before_the_bodys_end_is_the_answer() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.say("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig");
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| builder);
        let (mut sender, body) = Body::channel(10);
        sender.try_send(Bytes::from_static(b"part")).expect("room");
        let answer =
            block_on(client.post(peer.url("/")).via(peer.via()).body(body).send()).expect("an answer");
        assert_eq!(answer.status(), 413);
        assert_eq!(block_on(answer.text()).expect("a body"), "big");
        // The connection is out of step, so it is closed, and the rest of the body is not wanted.
        crate::support::eventually("the body is dropped", || sender.is_closed());
        assert_eq!(client.counters().total().idle, 0);
    });
}

#[test]
fn a_body_that_panics_costs_its_own_call() {
    on_each_wire(|wire| {
        struct Panicking;
        impl Stream for Panicking {
            type Item = Result<Bytes, BodyError>;
            fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                panic!("this panic is part of the test");
            }
        }
        let peer = Peer::answering(wire, OK);
        let (_loops, client) = client(1, |builder| {
            builder.limits(Limits { connections_per_origin: 1, queue_per_origin: 1, ..Limits::default() })
        });
        for _ in 0..3 {
            let call = client.post(peer.url("/")).via(peer.via()).body(Body::stream(Panicking));
            let error = block_on(call.send()).expect_err("no body");
            assert!(matches!(error, Error::RequestBody { .. }), "{error:?}");
            assert_eq!(error.fault(), Fault::Caller);
            assert!(
                Chain(&error).to_string().contains("panicked: this panic is part of the test"),
                "{error}"
            );
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("the place is free");
        }
        assert_eq!(client.counters().total().active, 0);
    });
}
