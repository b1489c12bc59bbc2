//! Only data waits for a window (RFC 9113 sections 6.9 and 6.9.1). The end of a request whose windows are used up, its trailers,
//! and the reset that ends it leave at once.

use std::sync::mpsc;

use anywire_client::Error;
use anywire_http::{Body, BodyError, Headers};

use crate::support::bytes_of_http2::{DATA, HEADERS, RST_STREAM, WINDOW_UPDATE};
use crate::support::{Frames, HANG, Peer, block_on, client_of_http2, poll_once, wire};

const WINDOW: usize = 65_535;

/// How the windows of a request become closed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Closed {
    /// Its body uses up that of its stream.
    Stream,
    /// A small one of its stream.
    SmallStream,
    /// That of the connection.
    Connection,
    Both,
    /// Another request has used up that of the connection.
    ByAnother,
    /// That of streams is closed from the start.
    FromTheStart,
}

const LARGE: &[u8] = &[0, 4, 0, 16, 0, 0];

impl Closed {
    /// The settings of the peer, what its connection's window has more than the first one, and what the body has.
    fn start(self) -> (&'static [u8], u32, usize) {
        match self {
            Self::Stream => (&[], 1 << 20, WINDOW),
            Self::SmallStream => (&[0, 4, 0, 0, 0, 100], 1 << 20, 100),
            Self::Connection => (LARGE, 0, WINDOW),
            Self::Both => (&[], 0, WINDOW),
            Self::ByAnother => (LARGE, 0, 0),
            Self::FromTheStart => (&[0, 4, 0, 0, 0, 0], 0, 0),
        }
    }
}

/// Opens no window. Reports when a request has sent so many bytes; answers what ends without any, and what ends.
fn peer(closed: Closed, report: mpsc::Sender<u8>) -> Peer {
    let (settings, more, bytes) = closed.start();
    Peer::of_http2_with(wire("tcp"), settings, move |mut frames: Frames, _| {
        if more > 0 {
            frames.say(WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        }
        let (mut newest, mut got) = (0, 0);
        while let Some(frame) = frames.next() {
            match frame.kind {
                HEADERS if frame.stream > newest => {
                    (newest, got) = (frame.stream, 0);
                    if frame.ends_stream() {
                        frames.answer(frame.stream);
                    } else if bytes == 0 {
                        let _ = report.send(HEADERS);
                    }
                }
                DATA | HEADERS if frame.ends_stream() => {
                    assert!(frame.kind == HEADERS || frame.payload.is_empty(), "the windows are closed");
                    let _ = report.send(frame.kind);
                    frames.answer(frame.stream);
                }
                DATA => {
                    got += frame.payload.len();
                    if got == bytes || (closed == Closed::ByAnother && got == WINDOW) {
                        let _ = report.send(DATA);
                    }
                }
                RST_STREAM => _ = report.send(RST_STREAM),
                _ => {}
            }
        }
    })
}

#[test]
fn only_data_waits_for_a_window() {
    for closed in [
        Closed::Stream,
        Closed::SmallStream,
        Closed::Connection,
        Closed::Both,
        Closed::ByAnother,
        Closed::FromTheStart,
    ] {
        for end in ["end", "trailers", "failure"] {
            println!("{closed:?}, {end}");
            let (report, told) = mpsc::channel();
            let peer = peer(closed, report);
            let (_loops, client) = client_of_http2(|builder| builder.read_timeout(HANG).write_timeout(HANG));
            let next = || told.recv_timeout(HANG).expect("it is told in time");
            // With the first answer the client knows the settings.
            let call = client.get(peer.url("/")).via(peer.via()).send();
            assert_eq!(block_on(async { call.await?.text().await }).expect("an answer"), "ok");
            let mut other = client.post(peer.url("/")).via(peer.via()).body(vec![b'x'; 2 * WINDOW]).send();
            if closed == Closed::ByAnother {
                assert!(poll_once(&mut other).is_pending());
                assert_eq!((next(), next()), (HEADERS, DATA));
            }
            let (mut sender, body) = Body::channel(1 << 20);
            let (_, _, bytes) = closed.start();
            sender.try_send(vec![b'x'; bytes]).expect("room");
            let mut call = client.post(peer.url("/")).via(peer.via()).body(body).send();
            assert!(poll_once(&mut call).is_pending());
            assert_eq!(next(), if bytes == 0 { HEADERS } else { DATA });
            match end {
                "trailers" => {
                    let mut fields = Headers::new();
                    fields.append("sum", "7").expect("a field");
                    sender.trailers(fields);
                    sender.finish();
                }
                "failure" => sender.abort(BodyError::failed("on purpose")),
                _ => sender.finish(),
            }
            let answer = block_on(async { call.await?.text().await });
            if end == "failure" {
                let error = answer.expect_err("a body that fails");
                assert!(matches!(error, Error::RequestBody { .. }), "{error:?}");
                assert_eq!(next(), RST_STREAM);
            } else {
                assert_eq!(answer.expect("an answer"), "ok");
                assert_eq!(next(), if end == "trailers" { HEADERS } else { DATA });
            }
        }
    }
}

/// An end that is known says so in the frame of the last piece.
#[test]
fn a_known_end_takes_no_frame_of_its_own() {
    let (report, told) = mpsc::channel();
    let peer = Peer::of_http2(wire("tcp"), move |mut frames, _| {
        let data = frames.until(DATA).expect("a body");
        let _ = report.send((data.ends_stream(), data.payload));
        frames.answer(data.stream);
        frames.talk.wait_for_end();
    });
    let (_loops, client) = client_of_http2(|builder| builder);
    let (mut sender, body) = Body::channel(1000);
    sender.try_send("whole").expect("room");
    sender.finish();
    let call = client.post(peer.url("/")).via(peer.via()).body(body).send();
    assert_eq!(block_on(async { call.await?.text().await }).expect("an answer"), "ok");
    assert_eq!(told.recv().expect("a frame"), (true, b"whole".to_vec()));
}
