//! Streams share the window of their connection, and none is taken for slow or silent because of what another one does. Each
//! test has a deadline that does pass, of another stream or connection: by then that of the stream would have passed as well.

use std::sync::Arc;
use std::time::Duration;

use anywire_http::Body;
use anywire_http::h2::{Code, Limits as Http2};
use anywire_server::{Limits, Router, State};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::support::h2::{Came, DATA, END_STREAM, H2, frame};
use crate::support::{HANG, Scene};

const WINDOW: usize = 65_535;

/// One upload can use up the window of its connection.
fn of_one_stream() -> Http2 {
    Http2 { connection_window_bytes: WINDOW as u32, ..Http2::default() }
}

fn router(goes_on: &Arc<Notify>) -> Router {
    Router::new()
        .state(Arc::clone(goes_on))
        .get("/", async || "ok")
        .post("/holds", async |goes_on: State<Arc<Notify>>, body: Body| {
            goes_on.notified().await;
            drop(body);
        })
        .post("/keeps", async |goes_on: State<Arc<Notify>>, body: Body| {
            // It has answered, so that no deadline of handlers ends it.
            let (mut sender, answer) = Body::channel(10);
            drop(anywire_loops::spawn(async move {
                goes_on.notified().await;
                drop(body);
                let _ = sender.send("kept").await;
                sender.finish();
            }));
            answer
        })
        .post("/collects", async |body: Bytes| body.len().to_string())
}

#[test]
fn an_upload_that_is_read_goes_on_beside_one_that_is_not() {
    let goes_on = Arc::new(Notify::new());
    let limits = Limits { http2: of_one_stream(), ..Limits::default() };
    let served = Scene::tcp().serve_with(router(&goes_on), limits);
    for held in [1, 40_000, WINDOW - 2000] {
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", "/keeps", &[], None, false);
        peer.body(id, &vec![b'x'; held], false);
        let id = peer.open("POST", "/collects", &[], Some(200_000), false);
        peer.body(id, &vec![b'x'; 200_000], true);
        assert_eq!(peer.answer(id).text(), "200000", "beside {held} bytes");
        goes_on.notify_one();
    }
}

#[test]
fn what_a_late_handler_leaves_unread_gives_its_window_back() {
    let handler_timeout = Duration::from_millis(300);
    let limits = Limits { http2: of_one_stream(), handler_timeout, ..Limits::default() };
    let served = Scene::tcp().serve_with(router(&Arc::new(Notify::new())), limits);
    // It takes no more than a byte of the 503, which stays with its stream.
    let mut peer = H2::connect_with(&served, Http2 { stream_window_bytes: 1, ..Http2::default() });
    peer.reads = false;
    let late = peer.open("POST", "/holds", &[], None, false);
    peer.body(late, &[b'x'; WINDOW], false);
    let Came::Head(_, head, false) = peer.next() else { panic!("a head comes") };
    assert_eq!(head.status().as_u16(), 503);
    let id = peer.open("POST", "/collects", &[], Some(3), false);
    peer.body(id, b"abc", true);
    let mut came = peer.next();
    while !matches!(&came, Came::Head(of, ..) if *of == id) {
        assert!(!matches!(came, Came::Reset(..)), "{came:?}");
        came = peer.next();
    }
    assert_eq!(served.running.counters().write_timeouts, 0);
}

#[test]
fn what_is_cancelled_gives_its_window_back() {
    let goes_on = Arc::new(Notify::new());
    let limits = Limits { http2: of_one_stream(), ..Limits::default() };
    let served = Scene::tcp().serve_with(router(&goes_on), limits);
    let mut peer = H2::connect(&served);
    for _ in 0..3 {
        let id = peer.open("POST", "/holds", &[], None, false);
        // All but what is not worth a frame.
        peer.body(id, &[b'x'; WINDOW - 1000], false);
        let mut reset = Vec::new();
        peer.engine.reset(id, Code::CANCEL, &mut reset);
        peer.raw(&reset);
        let id = peer.open("POST", "/collects", &[], Some(3), false);
        peer.body(id, b"abc", true);
        assert_eq!(peer.answer(id).text(), "3");
    }
}

/// As many as there may be, but one, with the limits that hold by default.
#[test]
fn bodies_that_nobody_reads_leave_the_last_one_its_window() {
    let goes_on = Arc::new(Notify::new());
    let served = Scene::tcp().serve(router(&goes_on));
    let mut peer = H2::connect(&served);
    // Of its settings, and of the window that follows them.
    assert_eq!(peer.ask("/").text(), "ok");
    for _ in 1..Http2::default().streams {
        let id = peer.open("POST", "/holds", &[], None, false);
        peer.body(id, &[b'x'; WINDOW], false);
    }
    let id = peer.open("POST", "/collects", &[], Some(1_000_000), false);
    peer.body(id, &[b'x'; 1_000_000], true);
    assert_eq!(peer.answer(id).text(), "1000000");
    goes_on.notify_waiters();
}

/// Ends once a silent upload on a connection of its own has met the deadline of bodies.
fn await_body_timeout(served: &crate::support::Served) {
    let mut silent = H2::connect(served);
    let id = silent.open("POST", "/collects", &[], None, false);
    assert_eq!(silent.answer(id).status(), 408);
}

#[test]
fn our_closed_window_is_not_the_peers_silence() {
    let goes_on = Arc::new(Notify::new());
    let limits = Limits { body_timeout: Duration::from_secs(1), http2: of_one_stream(), ..Limits::default() };
    let served = Scene::tcp().serve_with(router(&goes_on), limits);
    // All of the window, and all but what is next to nothing.
    for held in [WINDOW, WINDOW - 16] {
        let mut peer = H2::connect(&served);
        let holds = peer.open("POST", "/holds", &[], None, false);
        peer.body(holds, &vec![b'x'; held], false);
        let id = peer.open("POST", "/collects", &[], Some(100), false);
        // With this the server has begun to wait.
        assert_eq!(peer.ask("/").text(), "ok");
        await_body_timeout(&served);
        goes_on.notify_one();
        peer.body(id, &[b'x'; 100], true);
        assert_eq!(peer.answer(id).text(), "100", "beside {held} bytes");
        // The window is open again, and silence is the peer's.
        let id = peer.open("POST", "/collects", &[], Some(100), false);
        assert_eq!(peer.answer(id).status(), 408);
    }
    assert_eq!(served.running.counters().body_timeouts, 4);
}

/// What the server keeps back itself is the time of its handlers.
#[test]
fn a_window_that_stays_closed_ends_by_the_deadline_of_handlers() {
    let goes_on = Arc::new(Notify::new());
    let limits = Limits {
        body_timeout: Duration::from_millis(500),
        handler_timeout: Duration::from_secs(2),
        http2: of_one_stream(),
        ..Limits::default()
    };
    let served = Scene::tcp().serve_with(router(&goes_on), limits);
    let mut peer = H2::connect(&served);
    let id = peer.open("POST", "/keeps", &[], None, false);
    peer.body(id, &[b'x'; WINDOW], false);
    let id = peer.open("POST", "/collects", &[], Some(100), false);
    assert_eq!(peer.answer(id).status(), 503);
    goes_on.notify_one();
}

#[test]
fn a_response_that_has_nothing_to_send_is_not_slow() {
    let event = Arc::new(Notify::new());
    let router = Router::new()
        .state(Arc::clone(&event))
        .get("/large", async || Bytes::from(vec![b'x'; 1_000_000]))
        .get("/events", async |event: State<Arc<Notify>>| {
            let (mut sender, body) = Body::channel(1000);
            drop(anywire_loops::spawn(async move {
                event.notified().await;
                let _ = sender.send("event").await;
                event.notified().await;
            }));
            body
        });
    let limits = Limits { write_timeout: Duration::from_secs(1), ..Limits::default() };
    let served = Scene::tcp().serve_with(router, limits);
    let http2 =
        Http2 { connection_window_bytes: WINDOW as u32, stream_window_bytes: 1 << 20, ..Http2::default() };
    let mut peer = H2::connect_with(&served, http2);
    peer.reads = false;
    let first = peer.get("/large");
    let mut got = 0;
    while got < WINDOW {
        if let Came::Data(_, data, _) = peer.next() {
            got += data.len();
        }
    }
    let events = peer.get("/events");
    assert!(matches!(peer.next(), Came::Head(id, ..) if id == events));
    // Another connection has a response that waits for its window until the deadline.
    let mut other = H2::connect_with(&served, http2);
    other.reads = false;
    let late = other.get("/large");
    assert_eq!(other.answer(late).reset, Some(Code::CANCEL));
    event.notify_one();
    // With the end of the first response the window opens again.
    assert_eq!(peer.reset_of(first), Code::CANCEL);
    match peer.next() {
        Came::Data(id, data, false) => assert_eq!((id, &*data), (events, &b"event"[..])),
        other => panic!("{other:?}"),
    }
}

/// Frames that come one by one are joined while they wait for their reader.
#[test]
fn single_bytes_wait_in_pieces() {
    const BYTES: usize = 200;
    let goes_on = Arc::new(Notify::new());
    let (report, told) = crate::support::channel();
    let router = Router::new().state(Arc::clone(&goes_on)).get("/ok", async || "ok").post(
        "/",
        async move |goes_on: State<Arc<Notify>>, mut body: Body| {
            let (mut bytes, mut chunks) = (0, 0);
            while let Ok(Some(chunk)) = body.chunk().await {
                (bytes, chunks) = (bytes + chunk.len(), chunks + 1);
                if chunks == 1 {
                    goes_on.notified().await;
                }
            }
            let _ = report.send((bytes, chunks));
        },
    );
    let limits = Limits { min_bytes_per_second: 0, body_timeout: HANG, ..Limits::default() };
    let served = Scene::tcp().serve_on(1, router, limits);
    let mut peer = H2::connect(&served);
    let id = peer.open("POST", "/", &[], None, false);
    for _ in 0..BYTES {
        peer.raw(&frame(DATA, 0, id.get(), b"x"));
        // The next one comes once this one was taken.
        assert_eq!(peer.ask("/ok").text(), "ok");
    }
    goes_on.notify_one();
    peer.raw(&frame(DATA, END_STREAM, id.get(), &[]));
    let (bytes, chunks) = told.next();
    assert_eq!(bytes, BYTES);
    // The first, and what waited behind it.
    assert!(chunks <= 1 + BYTES.div_ceil(1024) + 1, "{chunks} chunks");
}
