//! The caller of an HTTP/2 response gets all bytes that arrived before the stream or the connection ended. A whole response is
//! no error then; of any other the error comes behind the bytes.

use crate::support::bytes_of_http2::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, frame, literals,
};
use crate::support::{AnyWire, Frames, Peer, block_on, client_of_http2, on_each_wire};
use anywire_client::{Error, Limits};
use anywire_http::Body;
use anywire_http::h2::Code;

/// A response of 10,000 bytes and as many again behind it, more than the client reads ahead, and then the end. What the
/// caller gets of it who begins to read when the connection or the stream has ended.
fn read_late(wire: AnyWire, is_whole: bool, end: fn(&mut Frames, u32)) -> (usize, Option<Error>) {
    let peer = Peer::of_http2(wire, move |mut frames, _| {
        let Some(stream) = frames.request() else { return };
        frames.head(stream, false);
        frames.say(DATA, 0, stream, &[b'x'; 10_000]);
        frames.say(DATA, if is_whole { END_STREAM } else { 0 }, stream, &[b'x'; 10_000]);
        if wire.scheme().ends_with("stack") {
            // A close with bytes unread is a reset, which drops what has not left: of a response that is more than the stack's
            // first flight, the rest. An answer to a ping tells that all of it has come.
            frames.say(PING, 0, 0, &[7; 8]);
            while frames.next().is_some_and(|frame| frame.kind != PING) {}
        }
        end(&mut frames, stream);
    });
    let limits = Limits { body_ahead_bytes: 1000, ..Limits::default() };
    let (_loops, client) = client_of_http2(|builder| builder.limits(limits));
    let (_sender, body) = Body::channel(10);
    let answer = block_on(client.post(peer.url("/")).via(peer.via()).body(body).send());
    crate::support::eventually("it has ended", || client.counters().total().active == 0);
    let mut read = 0;
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error) => return (0, Some(error)),
    };
    let error = block_on(async {
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) => read += chunk.len(),
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    });
    (read, error)
}

fn closes(_: &mut Frames, _: u32) {}

fn resets(frames: &mut Frames, stream: u32) {
    frames.say(RST_STREAM, 0, stream, &Code::NO_ERROR.0.to_be_bytes());
    frames.talk.wait_for_end();
}

fn goes_and_closes(frames: &mut Frames, stream: u32) {
    frames.say(GOAWAY, 0, 0, &[stream.to_be_bytes(), [0; 4]].concat());
}

fn breaks_a_rule(frames: &mut Frames, _: u32) {
    frames.say(DATA, 0, 0, &[]);
    frames.talk.wait_for_end();
}

#[test]
fn a_whole_response_survives_any_end() {
    on_each_wire(|wire| {
        for end in [closes, resets, goes_and_closes, breaks_a_rule] {
            let (read, error) = read_late(wire, true, end);
            assert!(read == 20_000 && error.is_none(), "{read} {error:?}");
        }
    });
}

#[test]
fn a_part_comes_before_the_error() {
    on_each_wire(|wire| {
        let (read, error) = read_late(wire, false, closes);
        // A close with frames of ours unread is a reset.
        let ended = matches!(error, Some(Error::ClosedByPeer { .. } | Error::Io { .. }));
        assert!(read == 20_000 && ended, "{read} {error:?}");
        let (read, error) = read_late(wire, false, resets);
        let reset = matches!(error, Some(Error::Stream { code: Code::NO_ERROR, .. }));
        assert!(read == 20_000 && reset, "{read} {error:?}");
        let (read, error) = read_late(wire, false, breaks_a_rule);
        assert!(read == 20_000 && matches!(error, Some(Error::Http2 { .. })), "{read} {error:?}");
    });
}

/// The frames of a response up to `parts` of its body of two, in one write with how they end. What the caller gets.
fn read_at_once(
    wire: AnyWire,
    parts: usize,
    end: fn(u32) -> Vec<u8>,
) -> Result<(String, Option<Error>), Error> {
    let peer = Peer::of_http2(wire, move |mut frames, _| {
        let Some(stream) = frames.request() else { return };
        let mut bytes = frame(HEADERS, END_HEADERS, stream, b"\x88");
        bytes.extend(frame(DATA, 0, stream, b"one ").iter().filter(|_| parts > 0));
        bytes.extend(frame(DATA, END_STREAM, stream, b"two").iter().filter(|_| parts > 1));
        bytes.extend(end(stream));
        frames.talk.say(bytes);
        frames.talk.half_close();
        frames.talk.wait_for_end();
    });
    let (_loops, client) = client_of_http2(|builder| builder);
    // The request's body is still going up.
    let (_sender, body) = Body::channel(10);
    let mut answer = block_on(client.post(peer.url("/")).via(peer.via()).body(body).send())?;
    let mut text = String::new();
    let error = block_on(async {
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) => text.push_str(&String::from_utf8_lossy(&chunk)),
                Ok(None) => return None,
                Err(error) => return Some(error),
            }
        }
    });
    Ok((text, error))
}

fn reset(stream: u32, code: Code) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

#[test]
fn what_comes_in_one_read_with_the_end_is_given_first() {
    let ends: [fn(u32) -> Vec<u8>; 6] = [
        |stream| reset(stream, Code::NO_ERROR),
        |stream| reset(stream, Code::INTERNAL_ERROR),
        |stream| reset(stream, Code::REFUSED_STREAM),
        |stream| frame(GOAWAY, 0, 0, &[stream.to_be_bytes(), [0; 4]].concat()),
        // A GOAWAY that takes the stream back, though it was answered.
        |_| frame(GOAWAY, 0, 0, &[0; 8]),
        |_| frame(DATA, 0, 0, &[]),
    ];
    on_each_wire(|wire| {
        for (number, end) in ends.into_iter().enumerate() {
            for (parts, text) in ["", "one ", "one two"].into_iter().enumerate() {
                let (read, error) = read_at_once(wire, parts, end).expect("the head has come");
                assert_eq!(read, text, "end {number}");
                let is_right = match (parts, number, &error) {
                    (2, _, error) => error.is_none(),
                    (_, 0, Some(Error::Stream { code, .. })) => *code == Code::NO_ERROR,
                    (_, 1, Some(Error::Stream { code, .. })) => *code == Code::INTERNAL_ERROR,
                    (_, 2, Some(Error::Stream { code, .. })) => *code == Code::REFUSED_STREAM,
                    (_, 3, Some(Error::GoAway { .. } | Error::Io { .. })) => true,
                    (_, 4, Some(Error::GoAway { .. })) => true,
                    (_, 5, Some(Error::Http2 { .. })) => true,
                    _ => false,
                };
                assert!(is_right, "end {number} behind {parts} parts: {error:?}");
            }
        }
    });
}

#[test]
fn trailers_come_before_a_reset_in_the_same_read() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, move |mut frames, _| {
            let Some(stream) = frames.request() else { return };
            let head = frame(HEADERS, END_HEADERS, stream, b"\x88");
            let body = frame(DATA, 0, stream, b"body");
            let trailers = literals(&[("check", "sum")]);
            let trailers = frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers);
            frames.talk.say([head, body, trailers, reset(stream, Code::NO_ERROR)].concat());
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let (_sender, body) = Body::channel(10);
        let call = client.post(peer.url("/")).via(peer.via()).body(body).send();
        let mut answer = block_on(call).expect("a whole response");
        assert_eq!(block_on(answer.chunk()).expect("a body").expect("bytes"), "body");
        assert!(block_on(answer.chunk()).expect("its end").is_none());
        assert_eq!(answer.trailers().and_then(|fields| fields.get("check")), Some("sum"));
    });
}
