//! The layers that limit a request: its time, its body, and how many others are under way.

use std::sync::Arc;
use std::time::Duration;

use anywire_http::{Body, StatusCode};
use anywire_server::layers::{BodyLimit, ConcurrencyLimit, Timeout};
use anywire_server::{Handler, Next, Request, Router, Server, State};
use tokio::sync::Semaphore;

use crate::support::h2::H2;
use crate::support::{Scene, serve};

#[test]
fn in_time() {
    let never = async || std::future::pending::<()>().await;
    let short = Timeout::new(Duration::from_millis(1));
    let router = Router::new()
        .get("/", async || "ok")
        .layer(Timeout::new(Duration::MAX))
        .get("/never", never.layer(short));
    let served = serve(router);
    let mut peer = served.connect();
    for _ in 0..2 {
        peer.send("GET /never HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).status, 503, "and the connection goes on");
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "ok");
    }
    assert_eq!(served.get("/never").status, 503);
}

#[test]
fn in_the_size_of_their_body() {
    let collects = async |body: String| body;
    let streams = async |mut body: Body| {
        let mut bytes = 0;
        loop {
            match body.chunk().await {
                Ok(Some(chunk)) => bytes += chunk.len(),
                Ok(None) => return Ok(bytes.to_string()),
                Err(error) => return Err(anywire_server::Error::from(error)),
            }
        }
    };
    let router =
        Router::new().post("/collects", collects).post("/streams", streams).layer(BodyLimit::new(10));
    let served = serve(router);
    for path in ["/collects", "/streams"] {
        let post = format!("POST {path}");
        assert_eq!(served.alike(&post, &[], "0123456789").status, 200);
        assert_eq!(served.alike(&post, &[], "0123456789a").status, 413);
        assert_eq!(served.alike(&post, &[], "").status, 200);
        // Without a length.
        let chunked = |chunks: &str| {
            served.ask(&format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
            ))
        };
        assert_eq!(chunked("5\r\n01234\r\n5\r\n56789\r\n").status, 200);
        assert_eq!(chunked("5\r\n01234\r\n6\r\n567890\r\n").status, 413);
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", path, &[], None, false);
        peer.body(id, b"01234", false);
        peer.body(id, b"567890", true);
        assert_eq!(peer.answer(id).status(), 413);
    }
    // A length that is too large is refused before the body is asked for.
    let mut peer = served.connect();
    peer.send("POST /collects HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 11\r\n\r\n");
    assert_eq!(peer.answer(false).status, 413);
}

#[test]
fn in_their_number() {
    /// Those that have arrived, and those that may go.
    #[derive(Clone)]
    struct Gate(Arc<Semaphore>, Arc<Semaphore>);
    async fn one(of: &Semaphore) {
        of.acquire().await.expect("never closed").forget();
    }
    let waits = async |State(gate): State<Gate>| {
        gate.0.add_permits(1);
        one(&gate.1).await;
        "done"
    };
    let gate = Gate(Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let limited = Router::new()
        .get("/waits", waits)
        .get("/quick", async || "quick")
        .layer(ConcurrencyLimit::new(2).retry_after(Duration::from_secs(7)));
    let router = Router::new()
        .state(gate.clone())
        .merge(limited)
        .get("/other", async || "other")
        .get("/arrived", async |State(gate): State<Gate>| one(&gate.0).await);
    let served = Scene::tcp().serve_by(Server::new(router));
    let mut peer = H2::connect(&served);
    assert_eq!(peer.ask("/quick").status(), 200);
    let (first, second) = (peer.get("/waits"), peer.get("/waits"));
    for _ in 0..2 {
        assert_eq!(peer.ask("/arrived").status(), 200);
    }
    let busy = peer.ask("/quick");
    assert_eq!((busy.status(), busy.header("retry-after")), (503, Some("7")));
    assert_eq!(peer.ask("/other").status(), 200, "outside of the layer");
    // A request whose peer has gone leaves its place.
    let mut leaver = served.connect();
    leaver.send("GET /quick HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(leaver.answer(false).status, 503);
    gate.1.add_permits(2);
    assert_eq!(peer.answer(first).text(), "done");
    assert_eq!(peer.answer(second).text(), "done");
    assert_eq!(peer.ask("/quick").status(), 200);
}

#[test]
fn a_place_is_left_by_a_panic() {
    let panics = async || -> &'static str { std::hint::black_box(None).expect("on purpose") };
    let panicking_layer = async |request: Request, next: Next| {
        drop(next.run(request).await);
        std::hint::black_box(None::<StatusCode>).expect("on purpose")
    };
    let router = Router::new()
        .get("/", async || "ok")
        .get("/panics", panics)
        .get("/layer", panics.layer(panicking_layer))
        .layer(ConcurrencyLimit::new(1));
    let served = Scene::tcp().serve_by(Server::new(router));
    for path in ["/panics", "/layer", "/panics"] {
        assert_eq!(served.get(path).status, 500);
        assert_eq!(served.get("/").status, 200);
    }
}
