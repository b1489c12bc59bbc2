//! What ends one call over HTTP/2 ends its stream: the others on the connection go on, and the next one uses it.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::bytes_of_http2::{DATA, END_HEADERS, HEADERS, RST_STREAM, WINDOW_UPDATE, literals};
use crate::support::{
    AnyWire, Frame, Peer, block_on, client_of_http2, eventually, on_each_wire, poll_once, until_no_call,
};
use anywire_client::{Client, Error, Fault, Phase};
use anywire_http::h2::{Code, Refused};
use anywire_http::{Body, BodyError, Headers};

/// A peer that answers `/`, and of whose other streams the script says what comes; and what the client says of streams that
/// it has reset.
fn peer(wire: AnyWire, other: fn(&crate::support::Frames, u32)) -> (Peer, mpsc::Receiver<Frame>) {
    let (report, resets) = mpsc::channel();
    let peer = Peer::of_http2(wire, move |mut frames, _| {
        while let Some(frame) = frames.next() {
            match frame.kind {
                // The path `/`, behind method and scheme, has a number of its own in the static table.
                HEADERS if frame.payload.get(2) == Some(&0x84) => frames.answer(frame.stream),
                HEADERS => other(&frames, frame.stream),
                RST_STREAM => drop(report.send(frame)),
                _ => {}
            }
        }
    });
    (peer, resets)
}

fn answered(client: &Client, peer: &Peer) {
    let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
    assert_eq!(block_on(answer.text()).expect("a body"), "ok");
}

/// The connection has carried all calls, and carries another one.
fn goes_on(client: &Client, peer: &Peer) {
    answered(client, peer);
    assert_eq!(client.counters().total().dialed, 1);
    eventually("it is idle", || client.counters().total().idle == 1);
    until_no_call(client);
}

/// The peer has said how large a head it takes, and nothing of a larger one was sent.
#[test]
fn heads_and_trailers_that_the_peer_does_not_take_are_the_callers_fault() {
    on_each_wire(|wire| {
        let limit = 400_u32.to_be_bytes();
        let settings: &'static [u8] = Box::leak(Box::new([&[0, 6], &limit[..]].concat()));
        let (report, resets) = mpsc::channel();
        let peer = Peer::of_http2_with(wire, settings, move |mut frames, _| {
            while let Some(frame) = frames.next() {
                match frame.kind {
                    HEADERS if frame.ends_stream() => frames.answer(frame.stream),
                    RST_STREAM => drop(report.send(frame)),
                    _ => {}
                }
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        // From here on the client knows.
        answered(&client, &peer);
        let large = "v".repeat(5000);
        let call = client.get(peer.url("/")).via(peer.via()).header("x", &large);
        let error = block_on(call.send()).expect_err("too large");
        let Error::RequestHead { source: Refused::TooLarge { bytes, limit: 400 }, sent: false, .. } = &error
        else {
            panic!("{error:?}")
        };
        assert!((5000..5500).contains(bytes), "{error:?}");
        assert_eq!((error.fault(), error.may_have_been_processed()), (Fault::Caller, false));
        let (mut sender, body) = Body::channel(1);
        let mut trailers = Headers::new();
        trailers.append("x", large).expect("a field");
        sender.trailers(trailers);
        sender.finish();
        let call = client.post(peer.url("/")).via(peer.via()).body(body);
        let error = block_on(call.send()).expect_err("too large");
        assert!(matches!(error, Error::RequestBody { .. }), "{error:?}");
        assert_eq!(error.fault(), Fault::Caller);
        assert_eq!(resets.recv().expect("a reset").code(), Some(Code::CANCEL.0));
        goes_on(&client, &peer);
    });
}

#[test]
fn a_call_that_is_dropped_is_cancelled() {
    on_each_wire(|wire| {
        let (peer, resets) = peer(wire, |_, _| {});
        let (_loops, client) = client_of_http2(|builder| builder);
        let mut call = client.get(peer.url("/never")).via(peer.via()).send();
        assert!(poll_once(&mut call).is_pending());
        eventually("it is on its way", || client.counters().total().active == 1);
        let mut other = client.get(peer.url("/never")).via(peer.via()).send();
        assert!(poll_once(&mut other).is_pending());
        answered(&client, &peer);
        drop(call);
        let reset = resets.recv().expect("a reset");
        assert_eq!((reset.stream, reset.code()), (1, Some(Code::CANCEL.0)));
        assert!(poll_once(&mut other).is_pending());
        drop(other);
        let reset = resets.recv().expect("a reset");
        assert_eq!((reset.stream, reset.code()), (3, Some(Code::CANCEL.0)));
        goes_on(&client, &peer);
    });
}

#[test]
fn a_response_that_is_dropped_is_cancelled() {
    on_each_wire(|wire| {
        let (peer, resets) = peer(wire, |frames, stream| {
            frames.head(stream, false);
            frames.say(DATA, 0, stream, b"half");
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let mut answer = block_on(client.get(peer.url("/half")).via(peer.via()).send()).expect("an answer");
        assert_eq!(block_on(answer.chunk()).expect("a good body").expect("some of it"), "half");
        drop(answer);
        assert_eq!(resets.recv().expect("a reset").code(), Some(Code::CANCEL.0));
        goes_on(&client, &peer);
    });
}

#[test]
fn a_call_that_is_over_time_is_cancelled() {
    on_each_wire(|wire| {
        let (peer, resets) = peer(wire, |_, _| {});
        let (_loops, client) = client_of_http2(|builder| builder.read_timeout(Duration::from_secs(60)));
        // The connection is in use: a peer that says nothing at all may be gone. Long enough for a busy machine to answer.
        let call = client.get(peer.url("/never")).via(peer.via()).read_timeout(Duration::from_millis(500));
        let mut call = call.send();
        assert!(poll_once(&mut call).is_pending());
        let error = loop {
            answered(&client, &peer);
            if let std::task::Poll::Ready(ended) = poll_once(&mut call) {
                break ended.expect_err("no answer comes");
            }
        };
        assert!(matches!(error, Error::Timeout { phase: Phase::Read, sent: true, .. }), "{error:?}");
        assert_eq!(resets.recv().expect("a reset").code(), Some(Code::CANCEL.0));
        goes_on(&client, &peer);
    });
}

#[test]
fn a_stream_that_the_peer_resets_is_an_error_with_its_code() {
    on_each_wire(|wire| {
        let (peer, _resets) = peer(wire, |frames, stream| {
            frames.say(RST_STREAM, 0, stream, &Code::INTERNAL_ERROR.0.to_be_bytes());
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        for call in [client.get(peer.url("/reset")), client.post(peer.url("/reset")).body("x")] {
            let error = block_on(call.via(peer.via()).send()).expect_err("a reset");
            let Error::Stream { code, phase, sent, .. } = &error else { panic!("{error:?}") };
            assert_eq!((*code, *phase, *sent), (Code::INTERNAL_ERROR, Phase::Read, true));
            assert!(
                error.may_have_been_processed() && error.to_string().contains("INTERNAL_ERROR"),
                "{error}"
            );
        }
        goes_on(&client, &peer);
        assert_eq!(client.counters().total().resent, 0);
    });
}

#[test]
fn a_body_that_the_peer_resets_ends_with_the_code() {
    on_each_wire(|wire| {
        let (peer, _resets) = peer(wire, |frames, stream| {
            frames.head(stream, false);
            frames.say(DATA, 0, stream, b"half");
            frames.say(RST_STREAM, 0, stream, &Code::INTERNAL_ERROR.0.to_be_bytes());
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let answer = block_on(client.get(peer.url("/reset")).via(peer.via()).send());
        let error = match answer {
            Ok(answer) => block_on(answer.text()).expect_err("a reset"),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Stream { code: Code::INTERNAL_ERROR, .. }), "{error:?}");
        goes_on(&client, &peer);
    });
}

#[test]
fn a_response_that_breaks_a_rule_ends_its_stream() {
    on_each_wire(|wire| {
        let (peer, resets) = peer(wire, |frames, stream| {
            let head = [b"\x88", &literals(&[("content-length", "2")])[..]].concat();
            frames.say(HEADERS, END_HEADERS, stream, &head);
            frames.say(DATA, 0, stream, b"longer");
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let answer = block_on(client.get(peer.url("/longer")).via(peer.via()).send());
        let error = match answer {
            Ok(answer) => block_on(answer.text()).expect_err("a fault"),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Stream { code: Code::PROTOCOL_ERROR, .. }), "{error:?}");
        assert_eq!(resets.recv().expect("a reset").code(), Some(Code::PROTOCOL_ERROR.0));
        goes_on(&client, &peer);
    });
}

#[test]
fn a_body_of_the_callers_that_fails_ends_its_stream() {
    on_each_wire(|wire| {
        let (peer, resets) = peer(wire, |frames, stream| frames.say(WINDOW_UPDATE, 0, stream, &[0, 1, 0, 0]));
        let (_loops, client) = client_of_http2(|builder| builder);
        let (mut sender, body) = Body::channel(100);
        sender.try_send("some").expect("room");
        let mut call = client.post(peer.url("/fails")).via(peer.via()).body(body).send();
        assert!(poll_once(&mut call).is_pending());
        sender.abort(BodyError::failed("no more"));
        let error = block_on(call).expect_err("the body fails");
        assert!(matches!(error, Error::RequestBody { .. }), "{error:?}");
        // Nothing need have been sent before the body failed.
        if error.may_have_been_processed() {
            assert_eq!(resets.recv().expect("a reset").code(), Some(Code::CANCEL.0));
        }
        goes_on(&client, &peer);
    });
}
