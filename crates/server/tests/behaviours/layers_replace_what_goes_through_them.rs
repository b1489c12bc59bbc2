//! A layer may respond itself, replace request, response and both bodies, run what is inside again or elsewhere, and leave a
//! body half read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use anywire_http::h2::Code;
use anywire_http::{Body, Method, StatusCode};
use anywire_server::{Error, Handler, Next, Path, Request, Response, Router, Server, State, Upgrade};
use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use crate::support::h2::H2;
use crate::support::{Peer, Remote, Scene, channel, serve};

/// Bytes in upper case, chunk by chunk.
fn upper(mut body: Body) -> Body {
    let (mut sender, out) = Body::channel(64 * 1024);
    drop(anywire_loops::spawn(async move {
        while let Ok(Some(chunk)) = body.chunk().await {
            if sender.send(Bytes::from(chunk.to_ascii_uppercase())).await.is_err() {
                return;
            }
        }
        sender.finish();
    }));
    out
}

#[test]
fn a_layer_may_respond_itself() {
    let ran = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&ran);
    let handler = async move || {
        counted.fetch_add(1, Ordering::SeqCst);
        "secret"
    };
    let guard = async |request: Request, next: Next| match request.headers().contains("x-key") {
        true => Ok(next.run(request).await),
        false => Err((StatusCode::UNAUTHORIZED, "who are you?")),
    };
    let served = serve(Router::new().get("/", handler.clone()).post("/", handler).layer(guard));
    let refused = served.alike("POST /", &[], "a body that nobody reads");
    assert_eq!((refused.status, &*refused.text), (401, "who are you?"));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(served.alike("POST /", &[("x-key", "1")], "body").text, "secret");
    assert_eq!(served.get("/").status, 401);
    // On one connection, too.
    let mut peer = served.connect();
    for key in ["", "x-key: 1\r\n", "", "x-key: 1\r\n"] {
        peer.send(format!("GET / HTTP/1.1\r\nhost: x\r\n{key}\r\n"));
        assert_eq!(peer.answer(false).status, if key.is_empty() { 401 } else { 200 });
    }
}

/// As of any future: what is inside begins with the first poll.
#[test]
fn what_is_inside_and_never_polled_does_not_run() {
    let ran = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&ran);
    let handler = async move |body: String| {
        counted.fetch_add(1, Ordering::SeqCst);
        body
    };
    let runs_one_of_two = async |request: Request, next: Next| {
        let again = http::Request::<Body>::try_from(request)?;
        let (head, _) = again.into_parts();
        let one = Request::try_from(http::Request::from_parts(head.clone(), Body::from("one")))?;
        let other = Request::try_from(http::Request::from_parts(head, Body::from("other")))?;
        drop(next.clone().run(one));
        Ok::<_, Error>(next.run(other).await)
    };
    let served = serve(Router::new().post("/", handler.layer(runs_one_of_two)));
    assert_eq!(served.alike("POST /", &[], "").text, "other");
    // Once for each version of HTTP.
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

#[test]
fn a_layer_may_replace_both_bodies() {
    let layer = async |request: Request, next: Next| {
        let (parts, body) = request.into_parts();
        let mut response = next.run(Request::from_parts(parts, upper(body))).await;
        response.body = upper(std::mem::take(&mut response.body));
        response.header("x-seen", "yes")
    };
    let echo = async |body: Body| body;
    let collects = async |body: String| format!("{body} and more");
    let served = serve(Router::new().post("/echo", echo).post("/collects", collects).layer(layer));
    let reply = served.alike("POST /echo", &[], "abc");
    assert_eq!((&*reply.text, reply.field("x-seen")), ("ABC", Some("yes")));
    assert_eq!(served.alike("POST /collects", &[], "abc").text, "ABC AND MORE");
}

#[test]
fn a_layer_may_replace_the_head() {
    let layer = async |mut request: Request, next: Next| {
        request.set_method(Method::PUT);
        request.headers_mut().insert("x-added", "by the layer").expect("a field");
        request.extensions_mut().insert(7_u8);
        next.run(request).await
    };
    let handler = async |Path(id): Path<u8>, request: Request| {
        let added = request.headers().get("x-added").unwrap_or_default().to_owned();
        format!("{} {id} {added} {:?}", request.method(), request.extensions().get::<u8>())
    };
    let served = serve(Router::new().get("/{id}", handler.layer(layer)));
    assert_eq!(served.get("/3").text, "PUT 3 by the layer Some(7)");
}

/// By the types of the `http` crate, whose heads can be cloned.
async fn tries_thrice(request: Request, next: Next) -> Result<Response, Error> {
    let (head, mut body) = http::Request::<Body>::try_from(request)?.into_parts();
    let bytes = body.bytes(1024).await?;
    let again = || Request::try_from(http::Request::from_parts(head.clone(), Body::from(bytes.clone())));
    for _ in 0..2 {
        let response = next.clone().run(again()?).await;
        if response.status != StatusCode::SERVICE_UNAVAILABLE {
            return Ok(response);
        }
    }
    // Two at a time.
    let (one, other) = (next.clone().run(again()?), next.run(again()?));
    let (one, other) = tokio::join!(one, other);
    Ok(if one.status == StatusCode::SERVICE_UNAVAILABLE { other } else { one })
}

#[test]
fn a_layer_may_run_what_is_inside_again() {
    let (tries, counted) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let flaky = async |Path(id): Path<u8>, State(tries): State<Arc<AtomicUsize>>, body: String| {
        tokio::task::yield_now().await;
        match tries.fetch_add(1, Ordering::SeqCst) % 4 {
            3 => Ok(format!("{id} {body}")),
            _ => Err(StatusCode::SERVICE_UNAVAILABLE),
        }
    };
    let passed = Arc::clone(&counted);
    let counts = async move |request: Request, next: Next| {
        passed.fetch_add(1, Ordering::SeqCst);
        next.run(request).await
    };
    let router =
        Router::new().post("/{id}", flaky).layer(tries_thrice).layer(counts).state(Arc::clone(&tries));
    let served = serve(router);
    assert_eq!(served.alike("POST /7", &[], "body").text, "7 body");
    assert_eq!(served.alike("POST /8", &[], "body").text, "8 body");
    // Each of them took four, in each version of HTTP.
    assert_eq!([&tries, &counted].map(|count| count.load(Ordering::SeqCst)), [16, 16]);
}

#[test]
fn a_handler_with_layers_may_be_called_without_a_router() {
    let layer = async |request: Request, next: Next| next.run(request).await.header("x-seen", "yes");
    let handler = (async |body: String| body).layer(layer).layer(layer);
    anywire_loops::block_on(async {
        for text in ["one", "two"] {
            let request = anywire_http::Request::post("/").body(text);
            let mut response = handler.clone().call(request.try_into().expect("a request")).await;
            assert_eq!(response.body.text(10).await.expect("text"), text);
            assert_eq!(response.headers.get_all("x-seen").count(), 2);
        }
    });
}

#[test]
fn a_layer_may_leave_a_body_half_read() {
    let half = async |request: Request, _: Next| {
        let mut body = request.into_body();
        match body.chunk().await {
            Ok(Some(chunk)) => format!("read {}", chunk.is_empty()),
            other => format!("{other:?}"),
        }
    };
    let served = serve(Router::new().post("/", async || "not reached").get("/", async || "ok").layer(half));
    let large = "x".repeat(40_000);
    let reply = served.alike("POST /", &[], &large);
    assert_eq!((reply.status, &*reply.text), (200, "read false"));
    // A small rest is drained, and the connection goes on.
    let mut peer = served.connect();
    for _ in 0..3 {
        peer.send(format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 40000\r\n\r\n{large}"));
        assert_eq!(peer.answer(false).text(), "read false");
    }
}

#[test]
fn a_layer_that_makes_a_body_longer_than_stated_costs_that_request_alone() {
    let twice = async |request: Request, next: Next| {
        let mut response = next.run(request).await;
        let length = response.body.length().unwrap_or_default();
        let whole = response.body.bytes(1024).await.unwrap_or_default();
        let (mut sender, body) = Body::channel(1024);
        for _ in 0..2 {
            sender.try_send(whole.clone()).expect("room");
        }
        sender.finish();
        response.body = body.with_length(length);
        response
    };
    let hello = async || "hello";
    let served = serve(Router::new().get("/", hello.layer(twice)).get("/plain", hello));
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).status, 500, "nothing had left");
    let mut streams = H2::connect(&served);
    let id = streams.get("/");
    assert!(streams.answer(id).reset.is_some());
    served.await_count("failures", |counters| counters.failures, 2);
    assert_eq!(streams.ask("/plain").text(), "hello");
    peer.send("GET /plain HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "hello");
}

#[test]
fn a_peer_that_leaves_cancels_the_whole_chain() {
    let (told, order) = channel();
    let holds = |name| {
        let told = told.clone();
        async move |request: Request, next: Next| {
            let _held = Guard(name, told.clone());
            told.send("begun").expect("the test waits");
            next.run(request).await
        }
    };
    let ends = told.clone();
    let waits = async move || {
        let _held = Guard("handler", ends);
        std::future::pending::<()>().await;
    };
    let router = Router::new().get("/", waits.layer(holds("route"))).layer(holds("router"));
    let router = router.get("/alive", async || "alive");
    let served = Scene::tcp().serve_by(Server::new(router).layer(holds("server")));
    let begun = || (0..3).for_each(|_| assert_eq!(order.next(), "begun"));
    // A frame drops what it has called before what it holds.
    let ended = || std::array::from_fn(|_| order.next());
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    begun();
    peer.reset();
    assert_eq!(ended(), ["handler", "route", "router", "server"]);
    let mut streams = H2::connect(&served);
    let id = streams.get("/");
    begun();
    streams.engine.reset(id, Code::CANCEL, &mut streams.out);
    streams.flush();
    assert_eq!(ended(), ["handler", "route", "router", "server"]);
    assert_eq!(streams.ask("/alive").text(), "alive");
}

/// Tells when it is dropped.
struct Guard(&'static str, Sender<&'static str>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

#[test]
fn an_upgrade_goes_through_layers() {
    let layer = async |request: Request, next: Next| next.run(request).await.header("x-seen", "yes");
    let toy = async |upgrade: Upgrade| {
        upgrade.accept("toy", async |mut connection| {
            let written = connection.write_all(b"toys").await;
            assert!(written.is_ok() && connection.flush().await.is_ok(), "the peer reads");
        })
    };
    let served = Scene::tcp().serve_by(Server::new(Router::new().get("/", toy).layer(layer)).layer(layer));
    let mut peer: Peer<Remote> = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: toy\r\n\r\n");
    let head = peer.head();
    assert_eq!((head.status, head.header("x-seen")), (101, Some("yes")));
    assert_eq!(peer.rest(), b"toys");
}

#[test]
fn what_is_inside_may_go_on_in_a_task() {
    let spawns = async |request: Request, next: Next| {
        let task = anywire_loops::spawn(next.run(request));
        match task.await {
            Ok(response) => response,
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into(),
        }
    };
    let handler = async |Path(id): Path<u8>, State(name): State<&'static str>, request: Request| {
        tokio::task::yield_now().await;
        format!("{id} {} {}", *name, request.peer().scheme())
    };
    let router = Router::new().get("/{id}", handler).state("a state").layer(spawns);
    let served = Scene::tcp().serve_by(Server::new(router).layer(spawns));
    for id in 0..5 {
        assert_eq!(served.get(&format!("/{id}")).text, format!("{id} a state tcp"));
    }
}
