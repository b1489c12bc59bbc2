//! What has come of a response over HTTP/2 is its caller's, however the stream or the connection ends behind it: all of it if
//! it is whole, else what there is before the error.

mod support;

use anywire_client::{Error, Limits};
use anywire_http::Body;
use anywire_http::h2::Code;
use support::bytes_of_http2::{DATA, END_STREAM, GOAWAY, PING, RST_STREAM};
use support::{AnyWire, Frames, Peer, block_on, client_of_http2, on_each_wire};

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
    support::eventually("it has ended", || client.counters().total().active == 0);
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
