//! A router as a service of the tower crates: handed over to a loop from any thread, and in place on a loop.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use anywire_http::{Body, BodyError, Headers, Method, Response, StatusCode};
use anywire_loops::{Loops, block_on};
use anywire_server::tower::RouterService;
use anywire_server::{Blocking, Path, Request, RouteError, Router, Server, State, Upgrade};
use anywire_wire::Address;
use bytes::Bytes;
use tokio::sync::Notify;
use tower_service::Service;

use crate::support::h2::H2;
use crate::support::{Served, channel};

fn call<B>(service: &RouterService, request: http::Request<B>) -> http::Response<Body>
where
    RouterService: Service<http::Request<B>, Response = http::Response<Body>, Error = Infallible>,
    <RouterService as Service<http::Request<B>>>::Future: Send,
{
    let Ok(response) = block_on(service.clone().call(request));
    response
}

fn get(path: &str) -> http::Request<Body> {
    http::Request::get(path).body(Body::empty()).expect("a request")
}

fn text(response: http::Response<Body>) -> String {
    block_on(response.into_body().text(1000)).expect("a whole body")
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

fn loops() -> Loops {
    Loops::builder().count(1).name("service").start().expect("the system has threads left")
}

#[test]
fn from_any_thread() {
    let router = Router::new()
        .state(7_u8)
        .get("/hello/{name}", async |Path(name): Path<String>, State(seven): State<u8>| {
            format!("{name} {seven} {}", thread_name())
        })
        .post("/sum", async |body: Bytes| body.len().to_string())
        .get("/peer", async |request: Request| request.peer().to_string());
    let service = router.into_service(&loops()).expect("routes are right");
    let response = call(&service, get("/hello/ann"));
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    let hello = text(response);
    assert!(hello.starts_with("ann 7 service"), "{hello}");
    let post = http::Request::post("http://a/sum").body(String::from("four")).expect("a request");
    assert_eq!(text(call(&service, post)), "4");
    assert_eq!(call(&service, get("/nowhere")).status(), 404);
    let head = http::Request::head("/hello/ann").body(Body::empty()).expect("a request");
    assert_eq!(call(&service, head).status(), 200);
    assert_eq!(text(call(&service, get("/peer"))), "memory:unknown");
    let mut known = get("/peer");
    known.extensions_mut().insert::<Address>("tcp:192.0.2.1:80".parse().expect("an address"));
    assert_eq!(text(call(&service, known)), "tcp:192.0.2.1:80");
}

#[test]
fn in_place_within_a_server_of_ours() {
    let inner = async |request: Request| format!("{} {} {}", request.path(), request.peer(), thread_name());
    let (asked, told) = channel();
    let loops = loops();
    let service = Router::new().fallback(inner).into_service(&loops).expect("routes are right");
    let router = Router::new().nest_service("/in", service).get("/peer", async move |request: Request| {
        asked.send(thread_name()).expect("the test listens");
        request.peer().to_string()
    });
    let server = Server::new(router).on(&loops).listen("tcp:127.0.0.1:0").start();
    let running = server.expect("a free port");
    let address = running.addresses().next().expect("one address").clone();
    let served = Served { running, address };
    let mut peer = served.connect();
    peer.send("GET /peer HTTP/1.1\r\nhost: a\r\n\r\n");
    let known = peer.answer(false).text().to_owned();
    peer.send("GET /in/x HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(peer.answer(false).text(), format!("/x {known} {}", told.next()));
    assert!(H2::connect(&served).ask("/in/x").text().starts_with("/x tcp:127.0.0.1:"));
}

#[test]
fn bodies_stream_both_ways() {
    let echo = async |body: Body| body;
    let service = Router::new().post("/", echo).into_service(&loops()).expect("routes are right");
    let (mut sender, body) = Body::channel(1024);
    let mut response = call(&service, http::Request::post("/").body(body).expect("a request"));
    block_on(async {
        for chunk in ["one", "two"] {
            sender.send(chunk).await.expect("it is read");
            let came = response.body_mut().chunk().await.expect("no error");
            assert_eq!(came.as_deref(), Some(chunk.as_bytes()), "before the next is sent");
        }
        let mut trailers = Headers::new();
        trailers.append("sum", "7").expect("a field");
        sender.trailers(trailers);
        sender.finish();
        let body = response.body_mut();
        assert_eq!(body.chunk().await.expect("no error"), None);
        assert_eq!(body.trailers().and_then(|trailers| trailers.get("sum")), Some("7"));
    });
}

/// Tells when it is dropped.
struct Tells(mpsc::Sender<&'static str>, &'static str);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

#[test]
fn a_caller_that_leaves_cancels_the_handler() {
    let (dropped, told) = channel();
    let (begun, begins) = channel();
    let router = Router::new()
        .get("/waits", {
            let (begun, dropped) = (begun, dropped.clone());
            async move || {
                let _tells = Tells(dropped, "handler");
                begun.send(()).expect("the test listens");
                std::future::pending::<()>().await;
            }
        })
        .get("/streams", async move || {
            let tells = Tells(dropped, "body");
            let (sender, body) = Body::channel(1024);
            anywire_loops::spawn(async move {
                let _tells = tells;
                let mut sender = sender;
                while sender.send("more").await.is_ok() {}
            });
            body
        });
    let service = router.into_service(&loops()).expect("routes are right");
    let mut waits = service.clone().call(get("/waits"));
    assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    begins.next();
    drop(waits);
    assert_eq!(told.next(), "handler");
    let streams = call(&service, get("/streams"));
    drop(streams);
    assert_eq!(told.next(), "body");
}

#[test]
fn faults_are_responses() {
    let router = Router::new()
        .get("/panics", async || -> () { panic!("on purpose") })
        .get("/panics-later", async || -> () {
            tokio::task::yield_now().await;
            panic!("on purpose")
        })
        .get("/breaks", async || {
            let (mut sender, body) = Body::channel(1024);
            sender.try_send("half").expect("there is room");
            sender.abort(BodyError::failed("on purpose"));
            body
        })
        .get("/body-panics", async || Body::stream(Panics))
        .get("/upgrade", async |upgrade: Upgrade| upgrade.accept("echo", async |_| {}))
        .get("/unsendable", async || Response::new(StatusCode::OK).header("a b", "c"))
        .post("/reads", async |body: Bytes| body.len().to_string());
    let service = router.into_service(&loops()).expect("routes are right");
    for path in ["/panics", "/panics-later", "/unsendable"] {
        assert_eq!(call(&service, get(path)).status(), 500, "{path}");
    }
    for path in ["/breaks", "/body-panics"] {
        let mut response = call(&service, get(path));
        assert_eq!(response.status(), 200, "{path}");
        let broken = block_on(response.body_mut().bytes(100)).expect_err("it breaks off");
        assert!(broken.to_string().starts_with("reading a body: "), "{broken}");
    }
    let upgrade = http::Request::get("/upgrade").header("connection", "upgrade").header("upgrade", "echo");
    assert_eq!(call(&service, upgrade.body(Body::empty()).expect("a request")).status(), 501);
    let (sender, body) = Body::channel(1024);
    sender.abort(BodyError::Timeout);
    assert_eq!(call(&service, http::Request::post("/reads").body(body).expect("a request")).status(), 408);
    let odd =
        http::Request::builder().method(Method::CONNECT).uri("/").body(Body::empty()).expect("a request");
    assert_eq!(call(&service, odd).status(), 400);
    let counters = service.counters();
    assert_eq!((counters.panics, counters.failures, counters.refused), (2, 1, 1));
}

/// A stream that panics.
struct Panics;

impl futures_core::Stream for Panics {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        panic!("a body, on purpose")
    }
}

#[test]
fn mistakes_of_routes_are_told_at_once() {
    let twice = Router::new().get("/", async || "one").get("/", async || "two");
    assert!(twice.into_service(&loops()).is_err());
}

#[test]
fn it_keeps_its_loops_and_lets_go_of_its_states() {
    let alive = Arc::new(());
    let router = Router::new().state(Arc::clone(&alive)).get("/", async |_: State<Arc<()>>| "ok");
    let loops = loops();
    let service = router.into_service(&loops).expect("routes are right");
    assert_eq!(text(call(&service, get("/"))), "ok");
    let other = service.clone();
    drop(service);
    assert_eq!(text(call(&other, get("/"))), "ok");
    drop(other);
    loops.shutdown(Duration::from_secs(10)).expect("no loop");
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn loops_that_have_ended_are_503() {
    let loops = loops();
    let service = Router::new().get("/", async || "ok").into_service(&loops).expect("routes are right");
    loops.shutdown(Duration::from_secs(10)).expect("no loop");
    assert_eq!(call(&service, get("/")).status(), 503);
}

#[test]
fn more_than_a_loop_may_be_given_are_503() {
    let limits = anywire_loops::Limits { hand_overs_waiting: 1, ..Default::default() };
    let loops = Loops::builder().count(1).limits(limits).start().expect("the system has threads left");
    let (begun, begins) = channel();
    let (go, goes) = mpsc::channel::<()>();
    let goes = Arc::new(Mutex::new(goes));
    let router = Router::new().get("/", async || "ok").get("/blocks", async move || {
        begun.send(()).expect("the test listens");
        let _ = goes.lock().expect("no panic").recv();
    });
    let service = router.into_service(&loops).expect("routes are right");
    let begin = |path: &str| {
        let mut response = Box::pin(service.clone().call(get(path)));
        let polled = response.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        (response, polled)
    };
    let (blocks, _) = begin("/blocks");
    begins.next();
    let (waits, polled) = begin("/");
    assert!(polled.is_pending());
    let (_, refused) = begin("/");
    assert!(matches!(refused, Poll::Ready(Ok(response)) if response.status() == 503));
    drop(go);
    for response in [blocks, waits] {
        let Ok(response) = block_on(response);
        assert_eq!(response.status(), 200);
    }
}

#[test]
fn a_future_that_leaves_its_loop_under_way_is_a_500() {
    let loops = loops();
    let router = Router::new().get("/", async || std::future::pending::<()>().await);
    let service = router.into_service(&loops).expect("routes are right");
    let begins = loops.get(0).spawn(move || async move {
        let mut response = service.clone().call(get("/"));
        let polled = Pin::new(&mut response).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "it runs in place");
        [response]
    });
    let [response] = begins.wait().expect("no panic");
    let Ok(response) = block_on(response);
    assert_eq!(response.status(), 500);
}

#[test]
fn its_routes_are_replaced_under_way() {
    let (began, begun) = channel();
    let go = Arc::new(Notify::new());
    let waits = {
        let go = Arc::clone(&go);
        async move || {
            let _ = began.send(());
            go.notified().await;
            "old"
        }
    };
    let loops = loops();
    let service = Router::new().get("/", waits).into_service(&loops).expect("routes are right");
    let waiting = {
        let service = service.clone();
        thread::spawn(move || text(call(&service, get("/"))))
    };
    begun.next();
    let new = Router::new().get("/", async || "new");
    service.replace(new).expect("routes are right").wait().expect("all loops");
    assert_eq!(text(call(&service, get("/"))), "new");
    let twice = Router::new().get("/", async || "").get("/", async || "");
    assert!(matches!(service.replace(twice), Err(RouteError::Twice { .. })));
    assert!(matches!(
        service.replace(Router::new().get("/", (|| "").on_pool("cpu"))),
        Err(RouteError::Pool { .. })
    ));
    go.notify_one();
    assert_eq!(waiting.join().expect("no panic"), "old");
    assert_eq!(text(call(&service, get("/"))), "new");
}
