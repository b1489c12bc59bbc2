//! Only data waits for a window (RFC 9113 sections 6.9 and 6.9.1). The end of a response whose windows are used up, its trailers,
//! and the reset that ends it leave at once.

use std::sync::Arc;

use anywire_http::h2::{Code, Limits as Http2, StreamId};
use anywire_http::{Body, BodyError, Headers};
use anywire_server::{Path, Router, State};
use tokio::sync::Notify;

use crate::support::h2::{Came, H2, SETTINGS, frame};
use crate::support::{Scene, Served};

const WINDOW: usize = 65_535;

/// What ends a body, once the test says so.
async fn ends(Path((bytes, end)): Path<(usize, String)>, told: State<Arc<Notify>>) -> Body {
    let (mut sender, body) = Body::channel(1 << 20);
    drop(anywire_loops::spawn(async move {
        let _ = sender.send(vec![b'x'; bytes]).await;
        told.notified().await;
        match end.as_str() {
            "trailers" => {
                let mut fields = Headers::new();
                fields.append("sum", "7").expect("a field");
                sender.trailers(fields);
                sender.finish();
            }
            "failure" => sender.abort(BodyError::failed("on purpose")),
            _ => sender.finish(),
        }
    }));
    body
}

/// How the windows of a response become closed.
#[derive(Clone, Copy, Debug)]
enum Closed {
    /// Its body uses up that of its stream.
    Stream,
    /// A small one of its stream.
    SmallStream,
    /// That of the connection.
    Connection,
    Both,
    /// Another response has used up that of the connection.
    ByAnother,
    /// That of streams is closed from the start.
    FromTheStart,
}

/// A peer that gives nothing back, and the bytes that it takes of a response.
fn connect(served: &Served, closed: Closed) -> (H2, usize) {
    let limits = |stream_window_bytes: u32, connection_window_bytes: u32| Http2 {
        stream_window_bytes,
        connection_window_bytes,
        ..Http2::default()
    };
    let (limits, bytes) = match closed {
        Closed::Stream => (limits(65_535, 1 << 20), WINDOW),
        Closed::SmallStream => (limits(100, 1 << 20), 100),
        Closed::Connection => (limits(1 << 20, 65_535), WINDOW),
        Closed::Both => (limits(65_535, 65_535), WINDOW),
        Closed::ByAnother => (limits(1 << 20, 65_535), 0),
        Closed::FromTheStart => (limits(65_535, 65_535), 0),
    };
    let mut peer = H2::connect_with(served, limits);
    peer.reads = false;
    match closed {
        Closed::ByAnother => {
            let large = peer.get("/large");
            take(&mut peer, large, WINDOW);
        }
        Closed::FromTheStart => peer.raw(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])),
        _ => {}
    }
    (peer, bytes)
}

/// Takes a head, and so much of a body.
fn take(peer: &mut H2, id: StreamId, bytes: usize) {
    assert!(matches!(peer.next(), Came::Head(of, _, false) if of == id));
    let mut taken = 0;
    while taken < bytes {
        let Came::Data(of, data, false) = peer.next() else { panic!("data fits the window") };
        assert_eq!(of, id);
        taken += data.len();
    }
    assert_eq!(taken, bytes);
}

#[test]
fn only_data_waits_for_a_window() {
    let told = Arc::new(Notify::new());
    let router = Router::new()
        .state(Arc::clone(&told))
        .get("/large", async || vec![b'x'; 10 * WINDOW])
        .get("/{bytes}/{end}", ends);
    let served = Scene::tcp().serve(router);
    for closed in [
        Closed::Stream,
        Closed::SmallStream,
        Closed::Connection,
        Closed::Both,
        Closed::ByAnother,
        Closed::FromTheStart,
    ] {
        for end in ["end", "trailers", "failure"] {
            let (mut peer, bytes) = connect(&served, closed);
            let id = peer.get(&format!("/{bytes}/{end}"));
            take(&mut peer, id, bytes);
            told.notify_one();
            let came = peer.next();
            let is_right = match &came {
                Came::Data(of, data, true) => end == "end" && *of == id && data.is_empty(),
                Came::Trailers(of, fields) => {
                    end == "trailers" && *of == id && fields.get("sum") == Some("7")
                }
                // A peer that reads nothing gets CANCEL in the end.
                Came::Reset(of, code) => end == "failure" && *of == id && *code == Code::INTERNAL_ERROR,
                _ => false,
            };
            assert!(is_right, "{closed:?}, {end}: {came:?}");
        }
    }
}

/// An end that is known says so in the frame of the last piece.
#[test]
fn a_known_end_takes_no_frame_of_its_own() {
    let router = Router::new().get("/", async || {
        let (mut sender, body) = Body::channel(1000);
        sender.try_send("whole").expect("there is room");
        sender.finish();
        body
    });
    let served = Scene::tcp().serve(router);
    let mut peer = H2::connect(&served);
    let id = peer.get("/");
    assert!(matches!(peer.next(), Came::Head(of, _, false) if of == id));
    let last = peer.next();
    assert!(matches!(&last, Came::Data(of, data, true) if *of == id && data == b"whole"), "{last:?}");
}
