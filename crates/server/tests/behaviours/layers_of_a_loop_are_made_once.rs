//! A layer with a state has one on each loop, which all of its routes share. The extractors of a layer see the states of its own
//! router.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use anywire_server::layers::BearerAuth;
use anywire_server::{FromRequestParts, Layer, Next, Parts, Request, Response, Router, Server, State};

use crate::support::serve;

/// Numbers the requests of a loop.
struct Number {
    made: Arc<AtomicUsize>,
}

/// Not `Send`.
struct Count(Rc<Cell<usize>>);

impl Layer for Number {
    type Local = Count;

    fn local(&self) -> Count {
        self.made.fetch_add(1, Ordering::SeqCst);
        Count(Rc::default())
    }

    async fn call(local: Rc<Count>, request: Request, next: Next) -> Response {
        local.0.set(local.0.get() + 1);
        let number = local.0.get().to_string();
        next.run(request).await.header("x-number", number)
    }
}

#[test]
fn all_routes_of_a_layer_share_it() {
    let made = Arc::<AtomicUsize>::default();
    let number = || Number { made: Arc::clone(&made) };
    let other = Router::new().get("/other", async || "other").layer(number());
    let router = Router::new().get("/a", async || "a").get("/b", async || "b").layer(number()).merge(other);
    let served = crate::support::Scene::tcp().serve_on(1, router, anywire_server::Limits::default());
    assert_eq!(made.load(Ordering::SeqCst), 0, "no request has come");
    let mut peer = served.connect();
    let mut numbers = |path: &str| {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        let answer = peer.answer(false);
        answer.head.lines().filter_map(|line| line.strip_prefix("x-number: ").map(str::to_owned)).collect()
    };
    let mut expect = |path: &str, expected: &[&str]| {
        let numbers: Vec<String> = numbers(path);
        assert_eq!(numbers, expected, "{path}");
    };
    expect("/a", &["1"]);
    expect("/b", &["2"]);
    expect("/nowhere", &["3"]);
    expect("/a", &["4"]);
    expect("/other", &["1", "5"]);
    assert_eq!(made.load(Ordering::SeqCst), 2, "one for each call of `layer`");
}

#[derive(Clone)]
struct Name(&'static str);

async fn name(State(name): State<Name>, request: Request, next: Next) -> Response {
    next.run(request).await.header("layer", name.0)
}

#[test]
fn a_layer_sees_the_states_of_its_own_router() {
    let handler = async |State(name): State<Name>| name.0;
    let inner = Router::new().get("/", handler).state(Name("inner")).layer(name).layer(name);
    let router = Router::new().layer(name).get("/", handler).nest("/inner", inner).state(Name("outer"));
    let server = |router| crate::support::Scene::tcp().serve_by(Server::new(router).layer(name));
    let served = server(router);
    let reply = served.get("/inner");
    assert_eq!(reply.text, "inner");
    assert_eq!(reply.all("layer"), ["inner", "inner", "outer", "outer"]);
    let reply = served.get("/");
    assert_eq!((&*reply.text, reply.all("layer")), ("outer", vec!["outer", "outer"]));
    assert_eq!(served.get("/inner/nowhere").all("layer"), ["inner", "inner", "outer", "outer"]);
}

#[test]
fn what_a_layer_of_the_server_has_on_a_loop_outlives_the_routes() {
    let made = Arc::<AtomicUsize>::default();
    let number = Number { made: Arc::clone(&made) };
    let routes = || Router::new().get("/", async || "");
    let served = crate::support::Scene::tcp().serve_by(Server::new(routes()).loops(1).layer(number));
    let mut peer = served.connect();
    let mut number = || {
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        peer.answer(false).header("x-number").map(str::to_owned)
    };
    assert_eq!(number().as_deref(), Some("1"));
    served.running.router().replace(routes()).expect("right").wait().expect("all loops");
    assert_eq!(number().as_deref(), Some("2"));
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[test]
fn a_function_of_a_layer_sees_the_states_of_its_own_router() {
    let is_name = |parts: &mut Parts, token: &str| {
        let mut extracted = pin!(State::<Name>::from_request_parts(parts));
        let cx = &mut Context::from_waker(Waker::noop());
        matches!(extracted.as_mut().poll(cx), Poll::Ready(Ok(State(name))) if name.0 == token)
    };
    let inner = Router::new().get("/", async |State(name): State<Name>| name.0).state(Name("inner"));
    let router = Router::new().nest("/inner", inner).state(Name("outer"));
    let served = serve(router.layer(BearerAuth::new("names", is_name)));
    let reply =
        |token: &str| served.alike("GET /inner", &[("authorization", &format!("Bearer {token}"))], "");
    assert_eq!((reply("outer").status, &*reply("outer").text), (200, "inner"));
    assert_eq!(reply("inner").status, 401);
}

#[test]
fn what_a_layer_captures_is_cloned_for_its_runs() {
    let greeting = String::from("hello");
    let layer = async move |request: Request, next: Next| next.run(request).await.header("x-says", greeting);
    let served = serve(Router::new().get("/", async || "ok").layer(layer));
    for _ in 0..3 {
        assert_eq!(served.get("/").field("x-says"), Some("hello"));
    }
}

/// Counts its clones.
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(&self.0))
    }
}

#[test]
fn the_memory_of_a_chain_is_kept_for_the_next_request() {
    let [outer, inner, handler] = std::array::from_fn(|_| Counted(Arc::default()));
    let counts = [&outer, &inner, &handler].map(|counted| Arc::clone(&counted.0));
    let layer = |counted: Counted| {
        async move |request: Request, next: Next| {
            let _ = &counted;
            let response = next.run(request).await;
            tokio::task::yield_now().await;
            response
        }
    };
    let handler = async move || {
        let _ = &handler;
        tokio::task::yield_now().await;
        "ok"
    };
    let router = Router::new().get("/", handler).layer(layer(outer)).layer(layer(inner));
    let served = crate::support::Scene::tcp().serve_on(1, router, anywire_server::Limits::default());
    let mut peer = served.connect();
    let mut ask = || {
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "ok");
        counts.each_ref().map(|count| count.load(Ordering::SeqCst))
    };
    let first = ask();
    for request in 1..=10 {
        // One for the run itself, and none for new memory.
        assert_eq!(ask(), first.map(|clones| clones + request));
    }
}
