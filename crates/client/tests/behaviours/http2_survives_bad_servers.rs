//! Whatever an HTTP/2 peer sends: the call gets a typed error that says whose fault it is, nothing panics, memory stays
//! bounded, and the next call goes out on another connection.

use std::sync::mpsc;

use crate::support::bytes_of_http2::*;
use crate::support::{
    AnyWire, Frames, Peer, block_on, client_of_http2, on_each_wire, poll_once, until_no_call,
};
use anywire_client::{Client, Error, Fault, Limits};
use anywire_http::HeadLimits;
use anywire_http::h1::DecodeError;
use anywire_http::h2::{self, Abuse, Code};

/// The error of a call whose peer follows `script` on its first connection. The next one is answered.
fn error(wire: AnyWire, script: impl Fn(&mut Frames, u32) + Send + Sync + 'static) -> Error {
    let peer = Peer::of_http2(wire, move |mut frames, number| {
        while let Some(stream) = frames.request() {
            if number > 0 {
                frames.answer(stream);
                continue;
            }
            script(&mut frames, stream);
            return frames.talk.wait_for_end();
        }
    });
    let (loops, client) = client_of_http2(|builder| builder);
    let error = block_on(collect(&client, &peer, "/bad")).expect_err("a bad peer");
    assert_eq!(block_on(collect(&client, &peer, "/")).expect("an answer"), "ok", "{error:?}");
    until_no_call(&client);
    assert_eq!(loops.counters().iter().map(|one| one.panics).sum::<u64>(), 0);
    error
}

async fn collect(client: &Client, peer: &Peer, path: &str) -> Result<String, Error> {
    client.post(peer.url(path)).via(peer.via()).send().await?.text().await
}

/// The error of the connection whose peer sends these bytes after a request on stream 1.
fn fault(wire: AnyWire, bytes: Vec<u8>) -> h2::Error {
    let error = error(wire, move |frames, _| frames.talk.say(&bytes));
    match error {
        Error::Http2 { source, sent: true, .. } => source,
        other => panic!("{other:?}"),
    }
}

fn code(wire: AnyWire, bytes: Vec<u8>) -> Code {
    let fault = fault(wire, bytes);
    assert_eq!(fault.fault(), Fault::Peer);
    fault.code()
}

#[test]
fn a_peer_that_does_not_speak_http2() {
    on_each_wire(|wire| {
        for (answer, is_known) in [
            (
                "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
                (|error| matches!(error, Error::Http2 { source: h2::Error::SpeaksHttp1, .. }))
                    as fn(&Error) -> bool,
            ),
            ("\x15\x03\x01\x00\x02\x02\x46", |error| matches!(error, Error::SpeaksTls { .. })),
            ("SSH-2.0-OpenSSH_9.6\r\n", |error| {
                matches!(error, Error::Http2 { source: h2::Error::Frame { .. }, .. })
            }),
            // Too few bytes for a frame are an end.
            ("\x16\x03\x01", |error| matches!(error, Error::ClosedByPeer { .. } | Error::Io { .. })),
        ] {
            let peer = Peer::asked_for_http2(wire, move |talk| {
                talk.read(1);
                talk.say(answer);
                talk.half_close();
                talk.wait_for_end();
            });
            let (_loops, client) = client_of_http2(|builder| builder);
            let error = block_on(collect(&client, &peer, "/")).expect_err("not HTTP/2");
            assert!(is_known(&error), "{answer:?}: {error:?}");
        }
    });
}

#[test]
fn frames_that_break_a_rule_end_the_connection() {
    on_each_wire(|wire| {
        let block = |end| frame(HEADERS, end, 1, b"\x88");
        assert_eq!(code(wire, frame(DATA, 0, 3, b"x")), Code::PROTOCOL_ERROR);
        assert_eq!(code(wire, frame(HEADERS, END_HEADERS, 2, b"\x88")), Code::PROTOCOL_ERROR);
        assert_eq!(code(wire, frame(PUSH_PROMISE, END_HEADERS, 1, &[0; 8])), Code::PROTOCOL_ERROR);
        assert_eq!(
            code(wire, frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff")),
            Code::COMPRESSION_ERROR
        );
        assert_eq!(code(wire, frame(SETTINGS, 0, 0, &[0; 5])), Code::FRAME_SIZE_ERROR);
        assert_eq!(code(wire, frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1])), Code::PROTOCOL_ERROR);
        assert_eq!(code(wire, frame(PING, 0, 0, &[0; 7])), Code::FRAME_SIZE_ERROR);
        assert_eq!(code(wire, frame(GOAWAY, 0, 0, &[0; 7])), Code::FRAME_SIZE_ERROR);
        assert_eq!(code(wire, frame(WINDOW_UPDATE, 0, 0, &[0; 4])), Code::PROTOCOL_ERROR);
        assert_eq!(code(wire, frame(WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255])), Code::FLOW_CONTROL_ERROR);
        assert_eq!(code(wire, frame(DATA, 0, 1, &vec![0; 16_385])), Code::FRAME_SIZE_ERROR);
        assert_eq!(code(wire, [block(0), frame(PING, 0, 0, &[0; 8])].concat()), Code::PROTOCOL_ERROR);
        assert_eq!(code(wire, frame(CONTINUATION, END_HEADERS, 1, b"\x88")), Code::PROTOCOL_ERROR);
    });
}

#[test]
fn responses_that_break_a_rule_end_their_stream() {
    on_each_wire(|wire| {
        let ends_by = |bytes: Vec<u8>| {
            let peer = Peer::of_http2(wire, move |mut frames, _| {
                while let Some(stream) = frames.request() {
                    match stream {
                        1 => frames.talk.say(&bytes),
                        _ => frames.answer(stream),
                    }
                }
            });
            let (_loops, client) = client_of_http2(|builder| builder);
            let error = block_on(collect(&client, &peer, "/bad")).expect_err("a bad response");
            assert_eq!(block_on(collect(&client, &peer, "/")).expect("an answer"), "ok");
            assert_eq!(client.counters().total().dialed, 1);
            let Error::Stream { code, why, .. } = &error else { panic!("{error:?}") };
            assert_eq!(error.fault(), Fault::Peer);
            // The rule that is broken is named.
            assert!(why.is_some_and(|why| error.to_string().contains(&why.to_string())), "{error}");
            *code
        };
        let head = |flags, fields: &[(&str, &str)]| {
            frame(HEADERS, END_HEADERS | flags, 1, &[b"\x88", &literals(fields)[..]].concat())
        };
        assert_eq!(ends_by(frame(HEADERS, END_HEADERS, 1, &literals(&[("x", "1")]))), Code::PROTOCOL_ERROR);
        assert_eq!(ends_by(head(END_STREAM, &[("Upper", "1")])), Code::PROTOCOL_ERROR);
        assert_eq!(ends_by(head(END_STREAM, &[("connection", "close")])), Code::PROTOCOL_ERROR);
        assert_eq!(ends_by(head(END_STREAM, &[("content-length", "1")])), Code::PROTOCOL_ERROR);
        assert_eq!(ends_by(head(0, &[(":status", "200")])), Code::PROTOCOL_ERROR);
        assert_eq!(ends_by(frame(DATA, 0, 1, b"x")), Code::PROTOCOL_ERROR);
        assert_eq!(ends_by(frame(WINDOW_UPDATE, 0, 1, &[0; 4])), Code::PROTOCOL_ERROR);
        let interim_end = frame(HEADERS, END_HEADERS | END_STREAM, 1, &literals(&[(":status", "103")]));
        assert_eq!(ends_by(interim_end), Code::PROTOCOL_ERROR);
        let trailers_go_on = [head(0, &[]), frame(HEADERS, END_HEADERS, 1, &literals(&[("x", "1")]))];
        assert_eq!(ends_by(trailers_go_on.concat()), Code::PROTOCOL_ERROR);
    });
}

/// What is above a limit of ours is no fault of the peer, and named as over HTTP/1.
#[test]
fn responses_above_a_limit_end_their_stream() {
    on_each_wire(|wire| {
        let limits = Limits {
            head: HeadLimits { bytes: 500, fields: 5, trailer_fields: 2, ..HeadLimits::default() },
            ..Limits::default()
        };
        let large = "v".repeat(100);
        let many = literals(&[("x", "1"); 6]);
        let wide = literals(&[("x", large.as_str()); 4]);
        let head = |block: &[u8]| frame(HEADERS, END_HEADERS, 1, &[b"\x88", block].concat());
        let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, &literals(&[("x", "1"); 3]));
        for (bytes, expected) in [
            (head(&many), DecodeError::TooManyHeaders { limit: 5 }),
            (head(&wide), DecodeError::HeadTooLarge { limit: 500 }),
            ([head(&[]), trailers].concat(), DecodeError::TooManyTrailers { limit: 2 }),
        ] {
            let peer = Peer::of_http2(wire, move |mut frames, _| {
                while let Some(stream) = frames.request() {
                    match stream {
                        1 => frames.talk.say(&bytes),
                        _ => frames.answer(stream),
                    }
                }
            });
            let (_loops, client) = client_of_http2(|builder| builder.limits(limits.clone()));
            let error = block_on(collect(&client, &peer, "/bad")).expect_err("a large response");
            let Error::Response { source, .. } = &error else { panic!("{error:?}") };
            assert_eq!((*source, error.fault()), (expected, Fault::Limit));
            assert_eq!(block_on(collect(&client, &peer, "/")).expect("an answer"), "ok");
            assert_eq!(client.counters().total().dialed, 1);
        }
    });
}

#[test]
fn a_peer_that_heeds_no_window() {
    on_each_wire(|wire| {
        let limits = Limits {
            http2: h2::Limits { stream_window_bytes: 65_535, ..Limits::default().http2 },
            body_ahead_bytes: 1000,
            ..Limits::default()
        };
        let (report, reset) = mpsc::channel();
        let peer = Peer::of_http2(wire, move |mut frames, _| {
            let Some(stream) = frames.request() else { return };
            frames.head(stream, false);
            for _ in 0..10 {
                frames.say(DATA, 0, stream, &[0; 16_000]);
            }
            let _ = report.send(frames.until(RST_STREAM).and_then(|frame| frame.code()));
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_of_http2(|builder| builder.limits(limits));
        let mut call = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut call).is_pending());
        // Nothing is read while the window is overrun.
        assert_eq!(reset.recv().expect("a reset"), Some(Code::FLOW_CONTROL_ERROR.0));
        let error = match block_on(call) {
            Ok(answer) => block_on(answer.bytes()).expect_err("a reset"),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Stream { code: Code::FLOW_CONTROL_ERROR, .. }), "{error:?}");
    });
}

#[test]
fn floods_end_at_their_limits() {
    on_each_wire(|wire| {
        let excess = |what, limit| h2::Error::Excess { what, limit };
        let flood = |piece: Vec<u8>| {
            let error = error(wire, move |frames, _| {
                for _ in 0..200 {
                    if !frames.talk.try_say(piece.repeat(100)) {
                        return;
                    }
                }
            });
            assert_eq!(error.fault(), Fault::Limit, "{error:?}");
            match error {
                Error::Http2 { source, .. } => source,
                other => panic!("{other:?}"),
            }
        };
        let idle = excess(Abuse::IdleFrames, 1000);
        assert_eq!(flood(frame(PING, 0, 0, &[0; 8])), idle);
        assert_eq!(flood(frame(SETTINGS, 0, 0, &[])), idle);
        assert_eq!(flood(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])), idle);
        assert_eq!(flood(frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])), idle);
        assert_eq!(flood(frame(99, 0, 0, b"x")), idle);
    });
}

#[test]
fn heads_without_end_are_bombs() {
    on_each_wire(|wire| {
        let block = [frame(HEADERS, 0, 1, b"\x88"), frame(CONTINUATION, 0, 1, &[]).repeat(20)].concat();
        let continuations = h2::Error::Excess { what: Abuse::Continuations, limit: 8 };
        assert_eq!(fault(wire, block), continuations);
        // A field of 4,000 bytes that goes into the table, and then its index, a byte each.
        let bomb = [b"\x88\x40\x01x\x7f\xa1\x1e", &[b'x'; 4000][..], &[0x80 | 62; 12_000]].concat();
        let error = error(wire, move |frames, stream| frames.say(HEADERS, END_HEADERS, stream, &bomb));
        let Error::Http2 { source: h2::Error::Excess { what: Abuse::HeadBytes, .. }, .. } = error else {
            panic!("{error:?}")
        };
    });
}

#[test]
fn interim_answers_without_end() {
    on_each_wire(|wire| {
        let peer = Peer::of_http2(wire, |mut frames, _| {
            while let Some(stream) = frames.request() {
                if stream > 1 {
                    frames.answer(stream);
                    continue;
                }
                let interim = frame(HEADERS, END_HEADERS, stream, &literals(&[(":status", "103")]));
                frames.talk.say(interim.repeat(17));
            }
        });
        let (_loops, client) = client_of_http2(|builder| builder);
        let error = block_on(collect(&client, &peer, "/bad")).expect_err("no answer comes");
        assert!(matches!(error, Error::Interim { count: 17, .. }), "{error:?}");
        assert_eq!(block_on(collect(&client, &peer, "/")).expect("an answer"), "ok");
        let counters = client.counters().total();
        assert_eq!((counters.too_many_interim, counters.dialed), (1, 1));
    });
}
