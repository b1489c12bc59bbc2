//! A panic of a layer, of what is inside of it, or in a destructor of what either holds is a 500 of that request alone. The
//! layers around see it as a response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anywire_http::StatusCode;
use anywire_server::{Handler, Layer, Limits, Next, Request, Response, Router, Server};

use crate::support::Scene;
use crate::support::h2::H2;

fn panics() -> Response {
    std::hint::black_box(None).expect("on purpose")
}

/// Panics when it is dropped, as long as it is armed.
#[derive(Clone)]
struct Bomb(Arc<AtomicBool>);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0.load(Ordering::SeqCst), "in a destructor, on purpose");
    }
}

async fn before(_: Request, _: Next) -> Response {
    panics()
}

async fn after(request: Request, next: Next) -> Response {
    drop(next.run(request).await);
    panics()
}

async fn later(request: Request, next: Next) -> Response {
    tokio::task::yield_now().await;
    drop(next.run(request).await);
    panics()
}

/// Panics while what is inside waits, and drops that while it unwinds.
async fn meanwhile(request: Request, next: Next) -> Response {
    tokio::select! {
        biased;
        response = next.run(request) => response,
        () = tokio::task::yield_now() => panics(),
    }
}

/// Does not wait for what is inside.
async fn gives_up(request: Request, next: Next) -> Response {
    tokio::select! {
        biased;
        response = next.run(request) => response,
        () = tokio::task::yield_now() => StatusCode::GATEWAY_TIMEOUT.into(),
    }
}

async fn passes(request: Request, next: Next) -> Response {
    next.run(request).await
}

/// What the outermost layer sees.
async fn sees(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let seen = response.status.as_str().to_owned();
    response.header("x-seen", seen)
}

/// A layer that panics when a loop makes its own of it, as long as it is armed.
struct Unmade(Arc<AtomicBool>);

impl Layer for Unmade {
    type Local = ();

    fn local(&self) {
        assert!(!self.0.load(Ordering::SeqCst), "on a loop, on purpose");
    }

    async fn call(_: std::rc::Rc<()>, request: Request, next: Next) -> Response {
        next.run(request).await
    }
}

fn router(armed: &Arc<AtomicBool>) -> Router {
    let hello = async || "hello";
    let (held, captured, caught) =
        (Bomb(Arc::clone(armed)), Bomb(Arc::clone(armed)), Bomb(Arc::clone(armed)));
    let waits = async move || {
        let _held = held;
        std::future::pending::<()>().await;
    };
    let panics_with = move || {
        let _ = &captured;
        async { panics() }
    };
    let layer_with = move |_: Request, _: Next| {
        let _ = &caught;
        async { panics() }
    };
    Router::new()
        .get("/", hello)
        .get("/before", hello.layer(before))
        .get("/after", hello.layer(after))
        .get("/later", hello.layer(later))
        .get("/inside", async || panics())
        .get("/inside-later", async || {
            tokio::task::yield_now().await;
            panics()
        })
        .get("/captured", panics_with)
        .get("/meanwhile", waits.clone().layer(meanwhile))
        .get("/gives-up", waits.layer(gives_up))
        .get("/unmade", hello.layer(Unmade(Arc::clone(armed))))
        .get("/captured-by-layer", hello.layer(layer_with))
        .layer(sees)
        .layer(passes)
}

/// A path, the status that a peer gets, and how many panics are counted.
const CASES: [(&str, u16, u64); 10] = [
    ("/before", 500, 1),
    ("/after", 500, 1),
    ("/later", 500, 1),
    ("/inside", 500, 1),
    ("/inside-later", 500, 1),
    ("/captured", 500, 2),
    ("/meanwhile", 500, 2),
    ("/gives-up", 504, 1),
    ("/unmade", 500, 1),
    ("/captured-by-layer", 500, 1),
];

#[test]
fn in_each_version_of_http() {
    for (path, status, panics) in CASES {
        let armed = Arc::<AtomicBool>::default();
        let served = Scene::tcp().serve_on(1, router(&armed), Limits::default());
        let mut peer = served.connect();
        let mut streams = H2::connect(&served);
        assert_eq!(streams.ask("/").header("x-seen"), Some("200"));
        armed.store(true, Ordering::SeqCst);
        for round in 1..=2 {
            peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
            let answer = peer.answer(false);
            assert_eq!(answer.status, status, "{path}");
            if path != "/unmade" {
                assert_eq!(answer.header("x-seen"), Some(&*status.to_string()), "{path}");
            }
            let answer = streams.ask(path);
            assert_eq!(answer.status(), status, "{path}");
            peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
            assert_eq!(peer.answer(false).text(), "hello", "{path}");
            assert_eq!(streams.ask("/").text(), "hello", "{path}");
            assert!(
                served.running.counters().panics >= panics * 2 * round,
                "{path}: {:?}",
                served.running.counters()
            );
        }
        armed.store(false, Ordering::SeqCst);
        let made_anew = streams.ask(path);
        assert!(made_anew.status() == status || path == "/unmade", "{path}");
    }
}

#[test]
fn in_a_layer_of_the_server() {
    for (path, status, _) in CASES {
        let armed = Arc::<AtomicBool>::default();
        let served = Scene::tcp().serve_by(Server::new(router(&armed)).layer(sees).layer(passes).layer(sees));
        let mut streams = H2::connect(&served);
        assert_eq!(streams.ask("/").status(), 200);
        armed.store(true, Ordering::SeqCst);
        for _ in 0..2 {
            let answer = streams.ask(path);
            assert_eq!(answer.status(), status, "{path}");
            assert_eq!(answer.header("x-seen"), Some(&*status.to_string()), "{path}");
            assert_eq!(streams.ask("/").text(), "hello", "{path}");
        }
        armed.store(false, Ordering::SeqCst);
    }
    let fragile = async |request: Request, next: Next| match request.path() {
        "/panics" => panics(),
        _ => next.run(request).await,
    };
    let server = Server::new(Router::new().get("/", async || "hello")).layer(sees).layer(fragile);
    let served = Scene::tcp().serve_by(server);
    assert_eq!(served.get("/").text, "hello");
    let reply = served.get("/panics");
    assert_eq!((reply.status, reply.field("x-seen")), (500, Some("500")));
    assert_eq!(served.get("/").text, "hello");
    served.await_count("panics", |counters| counters.panics, 2);
}

/// Dropped by the tests of a whole server, whose layers and their local parts end with it.
struct Bombs(Bomb);

impl Layer for Bombs {
    type Local = (Bomb, Bomb2);

    fn local(&self) -> Self::Local {
        (self.0.clone(), Bomb2)
    }

    async fn call(_: std::rc::Rc<Self::Local>, request: Request, next: Next) -> Response {
        next.run(request).await
    }
}

/// A second value, so that one is dropped while the other one unwinds.
struct Bomb2;

#[test]
fn in_what_ends_with_the_server() {
    let armed = Arc::<AtomicBool>::default();
    let bomb = || Bombs(Bomb(Arc::clone(&armed)));
    let captured = Bomb(Arc::clone(&armed));
    let captures = async move |request: Request, next: Next| {
        let _ = &captured;
        next.run(request).await
    };
    let router = Router::new().get("/", async || "hello").layer(bomb()).layer(captures.clone()).layer(bomb());
    let served = Scene::tcp().serve_by(Server::new(router).layer(bomb()).layer(captures).layer(bomb()));
    assert_eq!(served.get("/").text, "hello");
    armed.store(true, Ordering::SeqCst);
    let ended = served.running.shutdown(std::time::Duration::ZERO).wait();
    armed.store(false, Ordering::SeqCst);
    assert!(ended.connections_cut <= 2);
}
