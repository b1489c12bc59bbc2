//! Over HTTP/2 a request goes out once more where the peer says that it has not processed it (RFC 9113 section 8.7), and
//! where that holds for HTTP/1, too. Nowhere else.

use std::sync::mpsc;
use std::thread;

use crate::support::bytes_of_http2::{DATA, GOAWAY, HEADERS, RST_STREAM};
use crate::support::{AnyWire, Frames, Peer, block_on, client_of_http2, eventually, on_each_wire, poll_once};
use anywire_client::{Error, Limits};
use anywire_http::h2::Code;
use anywire_http::{Body, Headers};

fn refuse(frames: &Frames, stream: u32) {
    frames.say(RST_STREAM, 0, stream, &Code::REFUSED_STREAM.0.to_be_bytes());
}

fn go_away(frames: &Frames, last: u32) {
    frames.say(GOAWAY, 0, 0, &[last.to_be_bytes(), Code::NO_ERROR.0.to_be_bytes()].concat());
}

#[test]
fn a_refused_request_goes_out_again_on_the_same_connection() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, _| {
            while let Some(stream) = frames.request() {
                if stream == 1 {
                    refuse(&frames, stream);
                } else {
                    // The body is there once more, too.
                    while let Some(body) = frames.until(DATA).filter(|frame| !frame.ends_stream()) {
                        assert_eq!(body.stream, stream);
                    }
                    frames.answer(stream);
                }
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let answer =
            block_on(client.post(peer.url("/")).via(peer.via()).body("whole").send()).expect("an answer");
        assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        let counters = client.counters().total();
        assert_eq!((counters.requests, counters.resent, counters.dialed), (1, 1, 1));
    });
}

#[test]
fn a_request_that_is_always_refused_fails_and_was_not_processed() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, _| {
            while let Some(stream) = frames.request() {
                refuse(&frames, stream);
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let error = block_on(client.post(peer.url("/")).via(peer.via()).send()).expect_err("refused");
        assert!(matches!(error, Error::Stream { code: Code::REFUSED_STREAM, sent: false, .. }), "{error:?}");
        assert!(!error.may_have_been_processed());
        assert_eq!(client.counters().total().resent, 32);
    });
}

const REFUSALS: [fn(&Frames, u32); 2] = [refuse, |frames, _| go_away(frames, 0)];

/// Refuses the first request at its first byte, and answers each other one with its body.
fn refusing_the_first(wire: AnyWire, refuse: fn(&Frames, u32)) -> (Peer, mpsc::Receiver<()>) {
    let (tell, is_refused) = mpsc::channel();
    let peer = Peer::of_http2(wire, move |mut frames, number| {
        let (mut body, mut is_first) = (Vec::new(), number == 0);
        while let Some(frame) = frames.until(DATA) {
            if (number, frame.stream) != (0, 1) {
                body.extend(&frame.payload);
                if frame.ends_stream() {
                    frames.head(frame.stream, false);
                    frames.say(DATA, 1, frame.stream, &body);
                }
            } else if std::mem::take(&mut is_first) {
                refuse(&frames, frame.stream);
                let _ = tell.send(());
            }
        }
    });
    (peer, is_refused)
}

/// As long as little enough of it was sent, a body that comes piece by piece is kept for a second time.
#[test]
fn a_refused_body_that_has_begun_goes_out_again_from_its_start() {
    for refuse in REFUSALS {
        on_each_wire(|wire| {
            let (peer, is_refused) = refusing_the_first(wire, refuse);
            let (_loops, client) = client_of_http2(|builder| builder);
            let (mut sender, body) = Body::channel(100);
            sender.try_send("so").expect("room");
            let gives = thread::spawn(move || {
                is_refused.recv().expect("it is refused");
                sender.try_send("me").expect("it is still read");
                sender.finish();
            });
            let call = client.post(peer.url("/")).via(peer.via()).body(body.with_length(4));
            assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "some");
            assert_eq!(client.counters().total().resent, 1);
            gives.join().expect("the body was taken");
        });
    }
}

#[test]
fn a_refused_body_that_was_given_to_its_end_goes_out_again() {
    for refuse in REFUSALS {
        on_each_wire(|wire| {
            let (peer, _is_refused) = refusing_the_first(wire, refuse);
            let (_loops, client) = client_of_http2(|builder| builder);
            let (mut sender, body) = Body::channel(100);
            sender.try_send("some").expect("room");
            sender.finish();
            let call = client.post(peer.url("/")).via(peer.via()).body(body);
            assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "some");
            assert_eq!(client.counters().total().resent, 1);
        });
    }
}

#[test]
fn trailers_go_out_again_with_their_body() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, _| {
            while let Some(frame) = frames.next() {
                // The trailers.
                if frame.kind == HEADERS && frame.ends_stream() {
                    if frame.stream == 1 { refuse(&frames, 1) } else { frames.answer(frame.stream) }
                }
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let (mut sender, body) = Body::channel(100);
        sender.try_send("some").expect("room");
        let mut trailers = Headers::new();
        trailers.append("x-sum", "7").expect("a field");
        sender.trailers(trailers);
        sender.finish();
        let call = client.post(peer.url("/")).via(peer.via()).body(body);
        assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "ok");
        assert_eq!(client.counters().total().resent, 1);
    });
}

#[test]
fn a_refused_body_of_which_too_much_was_sent_is_not_sent_again() {
    for refuse in REFUSALS {
        on_each_wire(|wire| {
            let (peer, _is_refused) = refusing_the_first(wire, refuse);
            let limits = Limits { replay_bytes: 3, ..Limits::default() };
            let (_loops, client) = client_of_http2(|builder| builder.limits(limits));
            let (mut sender, body) = Body::channel(100);
            sender.try_send("some").expect("room");
            let call = client.put(peer.url("/")).via(peer.via()).body(body);
            let error = block_on(call.send()).expect_err("refused");
            assert!(!error.may_have_been_processed(), "{error:?}");
            let is_refusal = matches!(error, Error::Stream { code: Code::REFUSED_STREAM, .. });
            assert!(is_refusal || matches!(error, Error::GoAway { .. }), "{error:?}");
            let counters = client.counters().total();
            assert_eq!((counters.resent, counters.replays_lost), (0, 1));
        });
    }
}

#[test]
fn a_refused_body_that_has_not_begun_goes_out_with_the_request() {
    on_each_wire(|wire| {
        let (tell, is_there_again) = mpsc::channel();
        let peer = Peer::of_http2(wire, move |mut frames, _| {
            let refused = frames.request().expect("the first time");
            refuse(&frames, refused);
            let stream = frames.request().expect("once more");
            let _ = tell.send(());
            let body = frames.until(DATA).expect("its body");
            assert_eq!((body.stream, &body.payload[..]), (stream, &b"some"[..]));
            frames.answer(stream);
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let (mut sender, body) = Body::channel(100);
        let gives = thread::spawn(move || {
            is_there_again.recv().expect("it is sent once more");
            sender.try_send("some").expect("it is still read");
            sender.finish();
        });
        let answer =
            block_on(client.put(peer.url("/")).via(peer.via()).body(body).send()).expect("an answer");
        assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        assert_eq!(client.counters().total().resent, 1);
        gives.join().expect("the body was taken");
    });
}

/// Reads a request to its end, whatever its frames are.
fn read_whole(frames: &mut Frames) -> Option<u32> {
    loop {
        let frame = frames.next()?;
        if frame.ends_stream() {
            return Some(frame.stream);
        }
    }
}

#[test]
fn a_body_that_a_stream_has_given_dies_with_its_connection() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, number| {
            while let Some(stream) = read_whole(&mut frames) {
                if (number, stream) == (0, 3) {
                    return;
                }
                frames.answer(stream);
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let first = client.get(peer.url("/")).via(peer.via());
        assert_eq!(block_on(async { first.send().await?.text().await }).expect("an answer"), "ok");
        let (mut sender, body) = Body::channel(100);
        sender.try_send("some").expect("room");
        sender.finish();
        // A method that may be repeated would go out again.
        let call = client.post(peer.url("/")).via(peer.via()).body(body);
        let error = block_on(call.send()).expect_err("the connection has ended");
        assert!(error.may_have_been_processed(), "{error:?}");
        assert_eq!((client.counters().total().resent, peer.accepted()), (0, 1));
    });
}

#[test]
fn a_body_that_was_whole_from_the_start_goes_out_again_on_a_fresh_connection() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, number| {
            while let Some(stream) = frames.request() {
                let body = if stream == 1 && number == 0 { None } else { frames.until(DATA) };
                if (number, stream) == (0, 3) {
                    return;
                }
                assert!(body.is_none_or(|body| body.payload == b"whole"));
                frames.answer(stream);
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let first = client.get(peer.url("/")).via(peer.via());
        assert_eq!(block_on(async { first.send().await?.text().await }).expect("an answer"), "ok");
        let call = client.put(peer.url("/")).via(peer.via()).body("whole");
        assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "ok");
        assert_eq!((client.counters().total().resent, peer.accepted()), (1, 2));
    });
}

/// Says goodbye after the first of two requests; answers the first, or closes. A second connection answers all.
fn leaving(wire: AnyWire, answers: bool) -> (Peer, mpsc::Receiver<(usize, u32)>) {
    let (report, seen) = mpsc::channel();
    let peer = Peer::of_http2(wire, move |mut frames, number| {
        if number > 0 {
            while let Some(stream) = frames.request() {
                let _ = report.send((number, stream));
                frames.answer(stream);
            }
            return;
        }
        let (Some(first), Some(_)) = (frames.request(), frames.request()) else { return };
        let _ = report.send((number, first));
        go_away(&frames, first);
        if answers {
            frames.answer(first);
            frames.talk.wait_for_end();
        }
    });
    (peer, seen)
}

#[test]
fn goodbye_ends_no_call_that_the_peer_has_taken() {
    on_each_wire(|wire| {
        let (peer, seen) = leaving(wire, true);
        let (_loops, client) = client_of_http2(|builder| builder);
        let mut first = client.post(peer.url("/1")).via(peer.via()).send();
        assert!(poll_once(&mut first).is_pending());
        let second = client.post(peer.url("/2")).via(peer.via()).send();
        assert_eq!(block_on(async { second.await?.text().await }).expect("an answer"), "ok");
        assert_eq!(block_on(async { first.await?.text().await }).expect("an answer"), "ok");
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [(0, 1), (1, 1)]);
        // The connection that was told to go has gone.
        eventually("one is left", || client.counters().total().idle == 1);
        let third = client.get(peer.url("/3")).via(peer.via()).send();
        assert_eq!(block_on(async { third.await?.text().await }).expect("an answer"), "ok");
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.resent, counters.active), (2, 1, 0));
    });
}

#[test]
fn a_call_that_may_have_been_processed_is_not_sent_again() {
    on_each_wire(|wire| {
        let (peer, seen) = leaving(wire, false);
        let (_loops, client) = client_of_http2(|builder| builder);
        let mut first = client.post(peer.url("/1")).via(peer.via()).send();
        assert!(poll_once(&mut first).is_pending());
        let second = client.post(peer.url("/2")).via(peer.via()).send();
        assert_eq!(block_on(async { second.await?.text().await }).expect("an answer"), "ok");
        let error = block_on(first).expect_err("the connection has ended");
        assert!(
            matches!(error, Error::GoAway { sent: true, .. } | Error::Io { sent: true, .. }),
            "{error:?}"
        );
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [(0, 1), (1, 1)]);
    });
}

#[test]
fn a_connection_that_died_idle_costs_a_get_one_more_way_and_a_post_its_answer() {
    on_each_wire(|wire| {
        // Answers one request of each connection, and closes when it has read the second.
        let peer = Peer::of_http2(wire, |mut frames, _| {
            if let Some(stream) = frames.request() {
                frames.answer(stream);
                frames.until(HEADERS);
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        for _ in 0..2 {
            let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        }
        assert_eq!(client.counters().total().resent, 1);
        let error =
            block_on(client.post(peer.url("/")).via(peer.via()).send()).expect_err("it may have been seen");
        assert!(error.may_have_been_processed(), "{error:?}");
        assert_eq!(client.counters().total().resent, 1);
    });
}
