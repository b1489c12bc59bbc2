//! Streams share the window of their connection in an order that the server keeps. A stream whose turn does not come is not
//! late, however long its peer reads others. A peer that opens no window is late with each of them.
//!
//! The assertions say what happened, never when.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_http::h2::{Code, Limits as Http2, StreamId};
use anywire_http::{Body, BodyError};
use anywire_server::{Limits, Router};
use bytes::Bytes;
use futures_core::Stream;

use crate::support::Scene;
use crate::support::h2::{Came, H2};

static LARGE: [u8; 256 * 1024] = [b'x'; 256 * 1024];

/// A body that always has more.
struct Endless;

impl Stream for Endless {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(Bytes::from_static(&LARGE))))
    }
}

fn router() -> Router {
    Router::new()
        .get("/endless", async || Body::stream(Endless))
        .get("/large", async || Bytes::from_static(&LARGE))
}

fn limits(write_timeout: Duration) -> Limits {
    Limits { write_timeout, ..Limits::default() }
}

/// Streams may send much, and all of them together may send so much.
fn sharing(connection_window_bytes: u32) -> Http2 {
    Http2 { connection_window_bytes, stream_window_bytes: 1 << 30, ..Http2::default() }
}

fn ask(peer: &mut H2, path: &str, priority: &str) -> StreamId {
    peer.open("GET", path, &[("priority", priority)], None, true)
}

#[test]
fn a_stream_behind_a_more_urgent_one_waits_as_long_as_that_is_read() {
    let served = Scene::tcp().serve_on(1, router(), limits(Duration::from_secs(1)));
    let mut peer = H2::connect_with(&served, sharing(65_535));
    let urgent = ask(&mut peer, "/endless", "u=0");
    assert!(matches!(peer.next(), Came::Head(id, ..) if id == urgent));
    let patient = ask(&mut peer, "/large", "u=7");
    while !matches!(peer.next(), Came::Head(id, ..) if id == patient) {}
    // A response on a connection of its own, which waits for its window until the deadline.
    let mut silent = H2::connect_with(&served, sharing(65_535));
    silent.reads = false;
    silent.get("/large");
    while served.running.counters().write_timeouts == 0 {
        match peer.next() {
            Came::Data(id, ..) => assert_eq!(id, urgent, "its turn comes first"),
            other => panic!("{other:?}"),
        }
    }
    peer.engine.reset(urgent, Code::CANCEL, &mut peer.out);
    peer.flush();
    let mut came = 0;
    while came < LARGE.len() {
        match peer.next() {
            Came::Data(id, data, _) if id == patient => came += data.len(),
            // What was on its way.
            Came::Data(..) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(served.running.counters().write_timeouts, 1);
}

#[test]
fn streams_behind_a_window_that_stays_closed_are_late_together() {
    let served = Scene::tcp().serve_on(1, router(), limits(Duration::from_millis(300)));
    let mut peer = H2::connect_with(&served, sharing(65_535));
    let urgent = ask(&mut peer, "/endless", "u=0");
    let patient = ask(&mut peer, "/large", "u=7");
    assert!(matches!(peer.next(), Came::Head(id, ..) if id == urgent));
    // The end of one opens no window for the other, either.
    peer.is_mute = true;
    for _ in 0..2 {
        let (id, code) = next_reset(&mut peer);
        assert!([urgent, patient].contains(&id) && code == Code::CANCEL, "{id:?} by {code:?}");
    }
    served.await_count("write timeouts", |counters| counters.write_timeouts, 2);
}

/// While the output is full, no stream waits for a window. It waits for one once the others have used that up.
#[test]
fn a_stream_that_waited_for_the_output_first_is_late_as_well() {
    let served = Scene::at("memory:").elsewhere().serve_on(1, router(), limits(Duration::from_secs(1)));
    let mut peer = H2::connect_with(&served, sharing(2 << 20));
    peer.reads = false;
    let urgent = ask(&mut peer, "/endless", "u=0");
    let patient = ask(&mut peer, "/large", "u=7");
    served.await_count("requests", |counters| counters.requests, 2);
    peer.is_mute = true;
    for _ in 0..2 {
        let (id, code) = next_reset(&mut peer);
        assert!([urgent, patient].contains(&id) && code == Code::CANCEL, "{id:?} by {code:?}");
    }
}

/// The next stream that is reset.
fn next_reset(peer: &mut H2) -> (StreamId, Code) {
    loop {
        match peer.next() {
            Came::Reset(id, code) => return (id, code),
            Came::Head(..) | Came::Data(..) => {}
            other => panic!("{other:?} instead of a reset"),
        }
    }
}
