//! A body that expects a 100 is sent once the peer has asked for it, or after a while without an answer; a final status spares it.
//! What follows on the connection is in step (RFC 9110 section 10.1.1).

use std::time::Duration;

use anywire_client::{Call, Client, ClientBuilder, Error, Phase, Timeouts};
use anywire_http::Body;

use crate::support::bytes_of_http2::*;
use crate::support::{Frame, Frames, OK, Peer, Talk, block_on, client, client_of_http2, on_each_wire};

/// Never sends a body unasked.
fn patient(builder: ClientBuilder) -> ClientBuilder {
    builder.expect_continue(2).timeouts(Timeouts { expect: Duration::MAX, ..Timeouts::default() })
}

/// Sends a body soon, though nobody has asked for it.
fn impatient(builder: ClientBuilder) -> ClientBuilder {
    builder.expect_continue(2).timeouts(Timeouts { expect: Duration::from_millis(5), ..Timeouts::default() })
}

/// Reads until the bytes end so, and not further.
#[track_caller]
fn read_to(talk: &Talk, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        text.push_str(&String::from_utf8(talk.read(64 << 10).expect("more bytes")).expect("text"));
    }
    text
}

#[track_caller]
fn expect(talk: &Talk) {
    let head = read_to(talk, "\r\n\r\n");
    assert!(head.contains("\r\nexpect: 100-continue\r\n"), "{head}");
    assert_eq!(head.matches("\r\n\r\n").count(), 1, "{head}");
}

fn post(client: &Client, peer: &Peer, body: impl Into<Body>) -> Call {
    client.post(peer.url("/")).via(peer.via()).body(body)
}

fn text(call: Call) -> Result<(u16, String), Error> {
    block_on(async {
        let response = call.send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    })
}

#[test]
fn the_body_follows_a_100_however_often_it_comes() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |talk| {
            expect(&talk);
            talk.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
            assert_eq!(read_to(&talk, "tea"), "tea");
            talk.say(OK);
            expect(&talk);
            talk.say("HTTP/1.1 103 Early Hints\r\n\r\n");
            talk.say("HTTP/1.1 100 Continue\r\n\r\n");
            assert_eq!(read_to(&talk, "\r\n0\r\n\r\n"), "3\r\ntea\r\n0\r\n\r\n");
            talk.say(OK);
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, patient);
        assert_eq!(text(post(&client, &peer, "tea")).expect("answered"), (200, "ok".to_owned()));
        let (mut sender, body) = Body::channel(8);
        sender.try_send("tea").expect("room");
        sender.finish();
        assert_eq!(text(post(&client, &peer, body)).expect("answered"), (200, "ok".to_owned()));
        assert_eq!(peer.accepted(), 1);
    });
}

#[test]
fn a_final_status_spares_the_body_and_ends_the_connection() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            if talk.number > 0 {
                assert_eq!(talk.request().expect("the next call").body, b"x");
                return talk.say(OK);
            }
            expect(&talk);
            talk.say("HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno");
            assert_eq!(talk.read(1), None);
        });
        let (_loops, client) = client(1, patient);
        assert_eq!(text(post(&client, &peer, "tea")).expect("answered"), (413, "no".to_owned()));
        // One that is small does not wait.
        assert_eq!(text(post(&client, &peer, "x")).expect("answered"), (200, "ok".to_owned()));
        assert_eq!(peer.accepted(), 2);
    });
}

#[test]
fn a_peer_that_does_not_know_it_is_asked_without() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            if talk.number == 0 {
                expect(&talk);
                talk.say("HTTP/1.1 417 Expectation Failed\r\ncontent-length: 0\r\n\r\n");
                return assert_eq!(talk.read(1), None);
            }
            let request = talk.request().expect("once more");
            assert_eq!((request.head.headers().get("expect"), &*request.body), (None, &b"tea"[..]));
            talk.say(OK);
        });
        let (_loops, client) = client(1, patient);
        assert_eq!(text(post(&client, &peer, "tea")).expect("answered"), (200, "ok".to_owned()));
    });
}

#[test]
fn a_silent_peer_gets_the_body_and_may_ask_for_it_late() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |talk| {
            for _ in 0..2 {
                let request = read_to(&talk, "tea");
                assert!(request.contains("\r\nexpect: 100-continue\r\n"), "{request}");
                talk.say("HTTP/1.1 100 Continue\r\n\r\n");
                talk.say(OK);
            }
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, impatient);
        for _ in 0..2 {
            assert_eq!(text(post(&client, &peer, "tea")).expect("answered"), (200, "ok".to_owned()));
        }
        assert_eq!(peer.accepted(), 1);
    });
}

#[test]
fn a_peer_that_closes_may_have_seen_the_head() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |talk| expect(&talk));
        let (_loops, client) = client(1, |builder| patient(builder).retries(0));
        let error = text(post(&client, &peer, "tea")).expect_err("closed");
        assert!(error.may_have_been_processed(), "{error:?}");
        assert_eq!(error.phase(), Some(Phase::Read), "{error:?}");
    });
}

#[test]
fn no_body_waits_unless_it_is_told_to() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            while let Some(request) = talk.request() {
                assert!(!request.head.headers().contains("expect"));
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        assert_eq!(text(post(&client, &peer, "tea")).expect("answered").0, 200);
        let (_loops, patient) = crate::support::client(1, patient);
        assert_eq!(text(post(&patient, &peer, "tea").expect_continue(u64::MAX)).expect("answered").0, 200);
        assert_eq!(text(patient.get(peer.url("/")).via(peer.via())).expect("answered").0, 200);
    });
}

/// The frames of the request up to its end, or to its reset.
fn rest(frames: &mut Frames, stream: u32) -> Vec<Frame> {
    let mut seen = Vec::new();
    while let Some(frame) = frames.next() {
        if frame.stream == stream {
            let is_last = frame.ends_stream() || frame.kind == RST_STREAM;
            seen.push(frame);
            if is_last {
                break;
            }
        }
    }
    seen
}

/// Sends a head with this status.
fn status(frames: &Frames, stream: u32, code: &str, end: bool) {
    let flags = END_HEADERS | if end { END_STREAM } else { 0 };
    frames.say(HEADERS, flags, stream, &[b"\x08\x03", code.as_bytes()].concat());
}

/// Whether the peer has no frame of this stream before it answers a ping.
fn is_quiet(frames: &mut Frames, stream: u32) -> bool {
    frames.say(PING, 0, 0, b"12345678");
    loop {
        let frame = frames.next().expect("the client answers");
        if frame.kind == PING && frame.flags & ACK != 0 {
            return true;
        }
        if frame.stream == stream && frame.kind != WINDOW_UPDATE {
            return false;
        }
    }
}

#[test]
fn a_stream_of_http2_waits_alike() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, _| {
            // A 100, and another one.
            for _ in 0..2 {
                let stream = frames.request().expect("a call");
                assert!(is_quiet(&mut frames, stream));
                status(&frames, stream, "100", false);
                let data: Vec<_> =
                    rest(&mut frames, stream).into_iter().flat_map(|frame| frame.payload).collect();
                assert_eq!(data, b"tea");
                status(&frames, stream, "100", false);
                frames.answer(stream);
            }
            // A final status.
            let stream = frames.request().expect("a call");
            status(&frames, stream, "413", true);
            let seen = rest(&mut frames, stream);
            assert!(seen.iter().all(|frame| frame.kind == RST_STREAM), "{seen:?}");
            // A peer that does not know it.
            let stream = frames.request().expect("a call");
            status(&frames, stream, "417", true);
            let again = frames.request().expect("once more");
            assert!(again > stream);
            let data: Vec<_> = rest(&mut frames, again).into_iter().flat_map(|frame| frame.payload).collect();
            assert_eq!(data, b"tea");
            frames.answer(again);
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_of_http2(patient);
        assert_eq!(text(post(&client, &peer, "tea")).expect("answered"), (200, "ok".to_owned()));
        let (mut sender, body) = Body::channel(8);
        sender.try_send("tea").expect("room");
        sender.finish();
        assert_eq!(text(post(&client, &peer, body)).expect("answered"), (200, "ok".to_owned()));
        assert_eq!(text(post(&client, &peer, "tea")).expect("answered").0, 413);
        assert_eq!(text(post(&client, &peer, "tea")).expect("answered"), (200, "ok".to_owned()));
        assert_eq!(peer.accepted(), 1);
    });
}

#[test]
fn a_silent_peer_of_http2_gets_the_body() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, _| {
            for _ in 0..2 {
                let stream = frames.request().expect("a call");
                let data: Vec<_> =
                    rest(&mut frames, stream).into_iter().flat_map(|frame| frame.payload).collect();
                assert_eq!(data, b"tea");
                frames.answer(stream);
            }
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_of_http2(impatient);
        assert_eq!(text(post(&client, &peer, "tea")).expect("answered"), (200, "ok".to_owned()));
        let (mut sender, body) = Body::channel(8);
        sender.try_send("tea").expect("room");
        sender.finish();
        assert_eq!(text(post(&client, &peer, body)).expect("answered"), (200, "ok".to_owned()));
    });
}
