//! A panic in the destructor of what a handler or a body holds costs only its own request, in each version of HTTP: it is
//! counted, the connection goes on, and so do its other streams.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_http::{Body, BodyError, HeadLimits, Response, StatusCode};
use anywire_server::layers::{BearerAuth, CacheControl};
use anywire_server::{Handler, Limits, Router, State, Upgrade};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::support::h2::H2;
use crate::support::{Scene, Served};

/// Panics when it is dropped, as long as it is armed.
#[derive(Clone)]
struct Bomb(Arc<AtomicBool>);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0.load(Ordering::SeqCst), "in a destructor, on purpose");
    }
}

/// A body of one chunk, or of one error.
struct Once(Option<Result<Bytes, BodyError>>, #[expect(dead_code, reason = "it is dropped")] Bomb);

impl futures_core::Stream for Once {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.take() {
            Some(Err(BodyError::Timeout)) => panic!("a body, on purpose"),
            item => Poll::Ready(item),
        }
    }
}

/// An error that is dropped, and one that cannot even say what it is.
struct Odd(#[expect(dead_code, reason = "it is dropped")] Bomb, bool);

impl fmt::Debug for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        assert!(!self.1, "a message, on purpose");
        f.write_str("odd")
    }
}

impl std::error::Error for Odd {}

/// A future that panics, and is dropped behind that.
struct Explodes(#[expect(dead_code, reason = "it is dropped")] Bomb);

impl Future for Explodes {
    type Output = &'static str;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<&'static str> {
        Poll::Ready(panics())
    }
}

/// A request, and how it ends.
struct Case {
    request: &'static str,
    /// The status over HTTP/1.
    status: u16,
    /// The status over HTTP/2; `None` for a reset.
    over_http2: Option<u16>,
    panics: u64,
}

const fn case(request: &'static str, status: u16, over_http2: Option<u16>, panics: u64) -> Case {
    Case { request, status, over_http2, panics }
}

/// Each place where a value of a user is dropped.
const CASES: [Case; 19] = [
    // What a handler has captured, when the handler panics: at once, and later.
    case("GET /captured", 500, Some(500), 2),
    case("GET /captured-later", 500, Some(500), 2),
    // What a handler holds when it answers; and when it is late, beside what it has captured.
    case("GET /holds", 500, Some(500), 1),
    case("GET /late", 503, Some(503), 2),
    case("GET /late-within", 503, Some(503), 2),
    // The future of a handler that has panicked.
    case("GET /future", 500, Some(500), 2),
    case("GET /future-within", 500, Some(500), 2),
    // A body that is sent: an error replaces it where that is still possible.
    case("GET /body", 500, None, 1),
    // Bodies that are not sent.
    case("HEAD /body", 200, Some(200), 1),
    case("GET /204", 204, Some(204), 1),
    case("GET /304", 304, Some(304), 1),
    case("GET /unsendable", 500, Some(500), 2),
    case("GET /interim", 500, Some(500), 1),
    // A body that fails, or panics before; its error, and one that cannot be printed.
    case("GET /body-panics", 500, Some(500), 2),
    case("GET /error", 500, Some(500), 1),
    case("GET /unprintable", 500, Some(500), 2),
    // What is attached to a response.
    case("GET /extension", 200, Some(200), 1),
    // A continuation that is not wanted.
    case("UPGRADE /refused", 200, None, 1),
    case("UPGRADE /unsendable-upgrade", 500, None, 1),
];

/// What makes bombs, without being one.
#[derive(Clone)]
struct Maker(Arc<AtomicBool>);

impl Maker {
    fn bomb(&self) -> Bomb {
        Bomb(Arc::clone(&self.0))
    }

    fn body(&self, item: Result<Bytes, BodyError>) -> Body {
        Body::stream(Once(Some(item), self.bomb())).with_length(3)
    }
}

fn whole() -> Result<Bytes, BodyError> {
    Ok("abc".into())
}

fn panics() -> &'static str {
    std::hint::black_box(None).expect("on purpose")
}

fn router(armed: &Arc<AtomicBool>) -> Router {
    let make = Maker(Arc::clone(armed));
    let sends = |status: u16, make: Maker| {
        async move || {
            let status = StatusCode::from_u16(status).expect("a status");
            Response::new(status).body(make.body(whole()))
        }
    };
    let fails = |error: fn(&Maker) -> BodyError, make: Maker| {
        async move || {
            let unarmed = Maker(Arc::default());
            unarmed.body(Err(error(&make)))
        }
    };
    let (captured, later) = (make.bomb(), make.bomb());
    let [holds, panicking, unsendable, attached, refused, accepted] = std::array::from_fn(|_| make.clone());
    let late = |late: Bomb| {
        async move || {
            let _held = late;
            std::future::pending::<()>().await;
        }
    };
    let future = |make: Maker| move || Explodes(make.bomb());
    Router::new()
        .state(Arc::<Notify>::default())
        .get("/", async || "ok")
        .get("/neighbour", async |State(go): State<Arc<Notify>>| {
            go.notified().await;
            "unharmed"
        })
        .get("/go", async |State(go): State<Arc<Notify>>| go.notify_one())
        .get("/captured", move || {
            let _ = &captured;
            async { panics() }
        })
        .get("/captured-later", move || {
            let _ = &later;
            async {
                tokio::task::yield_now().await;
                panics()
            }
        })
        .get("/holds", async move || {
            let _held = holds.bomb();
            "not sent"
        })
        .get("/late", late(make.bomb()))
        .get("/late-within", late(make.bomb()).layer(CacheControl::no_store()))
        .get("/future", future(make.clone()))
        .get("/future-within", future(make.clone()).layer(CacheControl::no_store()))
        .get("/body", sends(200, make.clone()))
        .get("/204", sends(204, make.clone()))
        .get("/304", sends(304, make.clone()))
        .get("/interim", sends(103, make.clone()))
        .get("/unsendable", async move || {
            let mut response = Response::new(StatusCode::OK).header("x", "a\r\nb");
            response.extensions_mut().insert(unsendable.bomb());
            response.body(unsendable.body(whole()))
        })
        .get("/body-panics", async move || panicking.body(Err(BodyError::Timeout)))
        .get("/error", fails(|make| BodyError::failed(Odd(make.bomb(), false)), make.clone()))
        .get("/unprintable", fails(|make| BodyError::failed(Odd(make.bomb(), true)), make))
        .get("/extension", async move || {
            let mut response = Response::new(StatusCode::OK).body("abc");
            response.extensions_mut().insert(attached.bomb());
            response
        })
        .get("/refused", async move |upgrade: Upgrade| {
            let bomb = refused.bomb();
            let mut response = upgrade.accept("odd", async move |_| drop(bomb));
            response.status = StatusCode::OK;
            response
        })
        .get("/unsendable-upgrade", async move |upgrade: Upgrade| {
            let bomb = accepted.bomb();
            upgrade.accept("odd", async move |_| drop(bomb)).header("x", "a\r\nb")
        })
}

fn serve(armed: &Arc<AtomicBool>, case: &Case) -> Served {
    // One loop, so that streams and connections are neighbours. Only the handler that is late on purpose meets its deadline.
    let handler_timeout =
        Duration::from_millis(if case.request.starts_with("GET /late") { 200 } else { 60_000 });
    Scene::tcp().serve_on(1, router(armed), Limits { handler_timeout, ..Limits::default() })
}

#[test]
fn over_http1() {
    for case in &CASES {
        let armed = Arc::<AtomicBool>::default();
        let served = serve(&armed, case);
        let mut peer = served.connect();
        let (method, path) = case.request.split_once(' ').expect("two words");
        let (method, fields) = match method {
            "UPGRADE" => ("GET", "connection: upgrade\r\nupgrade: odd\r\n"),
            method => (method, ""),
        };
        armed.store(true, Ordering::SeqCst);
        peer.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{fields}\r\n"));
        let answer = peer.answer(method == "HEAD");
        assert_eq!(answer.status, case.status, "{}", case.request);
        // A handler that was late may go on for all its peer knows, so that connection closes.
        if case.status == 503 {
            peer = served.connect();
        }
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "ok", "{}", case.request);
        armed.store(false, Ordering::SeqCst);
        served.await_count(case.request, |counters| counters.panics, case.panics);
    }
}

#[test]
fn over_http2() {
    for case in &CASES {
        let armed = Arc::<AtomicBool>::default();
        let served = serve(&armed, case);
        let mut peer = H2::connect(&served);
        let (method, path) = case.request.split_once(' ').expect("two words");
        if method == "UPGRADE" {
            continue;
        }
        let is_late = case.status == 503;
        let neighbour = (!is_late).then(|| peer.get("/neighbour"));
        assert_eq!(peer.ask("/").text(), "ok");
        armed.store(true, Ordering::SeqCst);
        let id = peer.open(method, path, &[], None, true);
        let answer = peer.answer(id);
        assert_eq!(answer.reset.is_none().then_some(answer.status()), case.over_http2, "{}", case.request);
        assert_eq!(peer.ask("/").text(), "ok", "{}", case.request);
        if let Some(neighbour) = neighbour {
            assert_eq!(peer.ask("/go").status(), 200);
            assert_eq!(peer.answer(neighbour).text(), "unharmed", "{}", case.request);
        }
        armed.store(false, Ordering::SeqCst);
        served.await_count(case.request, |counters| counters.panics, case.panics);
    }
}

/// It drops the request.
#[test]
fn where_a_layer_refuses() {
    let armed = Arc::<AtomicBool>::default();
    let maker = Maker(Arc::clone(&armed));
    let refuses = BearerAuth::new("nobody", move |parts, _| {
        parts.extensions_mut().insert(maker.bomb());
        false
    });
    let router = router(&armed).get("/closed", (async || "").layer(refuses));
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let (mut peer, mut other) = (served.connect(), H2::connect(&served));
    let neighbour = other.get("/neighbour");
    assert_eq!(other.ask("/").text(), "ok");
    armed.store(true, Ordering::SeqCst);
    peer.send("GET /closed HTTP/1.1\r\nhost: x\r\nauthorization: Bearer x\r\n\r\n");
    assert_eq!(peer.answer(false).status, 500);
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    let id = other.open("GET", "/closed", &[("authorization", "Bearer x")], None, true);
    assert_eq!(other.answer(id).status(), 500);
    assert_eq!(other.ask("/go").status(), 200);
    assert_eq!(other.answer(neighbour).text(), "unharmed");
    armed.store(false, Ordering::SeqCst);
    served.await_count("panics", |counters| counters.panics, 2);
}

/// The response is replaced by one that fits.
#[test]
fn where_a_head_is_too_large_for_its_peer() {
    let armed = Arc::<AtomicBool>::default();
    let maker = Maker(Arc::clone(&armed));
    let router = router(&armed).get("/large", async move || {
        let mut response = Response::new(StatusCode::OK).header("x", "x".repeat(1000));
        response.extensions_mut().insert(maker.bomb());
        response.body(maker.body(whole()))
    });
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let head = HeadLimits { bytes: 500, ..HeadLimits::default() };
    let mut peer = H2::connect_with(&served, head);
    let neighbour = peer.get("/neighbour");
    assert_eq!(peer.ask("/").text(), "ok");
    armed.store(true, Ordering::SeqCst);
    assert_eq!(peer.ask("/large").status(), 500);
    assert_eq!(peer.ask("/go").status(), 200);
    assert_eq!(peer.answer(neighbour).text(), "unharmed");
    armed.store(false, Ordering::SeqCst);
    served.await_count("panics", |counters| counters.panics, 2);
}

#[test]
fn those_of_a_whole_server_end_with_it() {
    // Two that panicked in one go would abort this process.
    let armed = Arc::<AtomicBool>::default();
    let (bombs, state) = ([Bomb(Arc::clone(&armed)), Bomb(Arc::clone(&armed))], Bomb(Arc::clone(&armed)));
    let captures = |bomb: Bomb| {
        move || {
            let _ = &bomb;
            async { "ok" }
        }
    };
    let [one, other] = bombs;
    let router = Router::new()
        .get("/one", captures(one))
        .get("/other", captures(other))
        .get("/waits", std::future::pending::<()>)
        .get("/state", async |_: State<Bomb>, _: State<(Bomb, u8)>| "ok")
        .state((state.clone(), 0_u8))
        .state(state);
    let served = crate::support::serve(router);
    let mut peer = served.connect();
    for path in ["/one", "/other", "/state"] {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!(peer.answer(false).text(), "ok");
    }
    peer.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
    served.await_count("requests", |counters| counters.requests, 4);
    armed.store(true, Ordering::SeqCst);
    let ended = served.running.shutdown(Duration::ZERO).wait();
    armed.store(false, Ordering::SeqCst);
    assert_eq!(ended.connections_cut, 1);
}
