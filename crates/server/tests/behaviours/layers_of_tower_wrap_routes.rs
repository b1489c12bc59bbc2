//! A layer of the tower crates wraps routes, routers and servers, in each version of HTTP. Its faults cost their own request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anywire_http::{Body, Bytes, Headers};
use anywire_loops::block_on;
use anywire_server::tower::{self, NextService};
use anywire_server::{Error, Handler, Limits, MatchedPath, Path, Request, Router, Server, State, Upgrade};
use http_body_util::Limited;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower_service::Service;

use crate::support::h2::H2;
use crate::support::tower::{BoxError, Tagged, of, with_ready};
use crate::support::{Scene, Served, channel, serve};

type Answer = Result<http::Response<Body>, BoxError>;

/// A layer of a closure that makes a service of what is inside.
struct Of<F>(F);

impl<F: Fn(NextService) -> S, S> tower_layer::Layer<NextService> for Of<F> {
    type Service = S;

    fn layer(&self, inside: NextService) -> S {
        (self.0)(inside)
    }
}

/// Adds a field to request and response.
fn tagged(tag: &'static str) -> Of<impl Fn(NextService) -> Tagged<NextService>> {
    Of(move |inside| Tagged { inside, tag })
}

/// Status, text and one field in both versions.
fn ask(served: &Served, path: &str) -> [(u16, String, Option<String>); 2] {
    let plain = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
    let other = H2::connect(served).ask(path);
    [
        (plain.status, plain.text().to_owned(), plain.header("x-tag").map(str::to_owned)),
        (other.status(), other.text().to_owned(), other.header("x-tag").map(str::to_owned)),
    ]
}

#[track_caller]
fn assert_each(served: &Served, path: &str, status: u16, text: &str, tag: Option<&str>) {
    for (found, body, field) in ask(served, path) {
        assert_eq!((found, &*body, field.as_deref()), (status, text, tag), "{path}");
    }
}

#[test]
fn routes_and_what_the_router_itself_answers() {
    let found =
        async |Path(name): Path<String>, State(seven): State<u8>, path: MatchedPath, request: Request| {
            let tags: Vec<_> = request.headers().get_all("x-tag").map(String::from_utf8_lossy).collect();
            format!("{name} {} {} {} {}", *seven, &*path, tags.join(","), request.peer().scheme())
        };
    let router = Router::new()
        .state(7_u8)
        .get("/two/{name}", found.layer(tower::layer(tagged("inner"))))
        .get("/one/{name}", found)
        .layer(tower::layer(tagged("outer")));
    let served = serve(Router::new().merge(router).get("/none", async || "none"));
    assert_each(&served, "/two/ann", 200, "ann 7 /two/{name} outer,inner tcp", Some("outer"));
    assert_each(&served, "/one/ann", 200, "ann 7 /one/{name} outer tcp", Some("outer"));
    assert_each(&served, "/none", 200, "none", None);
    let served = serve(Router::new().post("/", async || "posted").layer(tower::layer(tagged("all"))));
    assert!(ask(&served, "/").iter().all(|(status, _, tag)| *status == 405 && tag.as_deref() == Some("all")));
    assert!(
        ask(&served, "/nowhere")
            .iter()
            .all(|(status, _, tag)| *status == 404 && tag.as_deref() == Some("all"))
    );
}

#[test]
fn a_server() {
    let router = Router::new().get("/{name}", async |Path(name): Path<String>| name);
    let server = Server::new(router).loops(1).layer(tower::layer(tagged("server"))).listen("tcp:127.0.0.1:0");
    let running = server.start().expect("a free port");
    let address = running.addresses().next().expect("one address").clone();
    let served = Served { running, address };
    assert_each(&served, "/ann", 200, "ann", Some("server"));
}

#[test]
fn it_may_respond_itself_or_run_what_is_inside_twice() {
    let runs = Of(|inside: NextService| {
        of(move |request: http::Request<Body>| {
            let mut inside = inside;
            async move {
                if request.uri().path() == "/itself" {
                    return Ok(http::Response::new(Body::from("itself")));
                }
                let (head, _) = request.into_parts();
                let mut text = Vec::new();
                for body in ["one", "two"] {
                    let request = http::Request::from_parts(head.clone(), Body::from(body));
                    let mut response = inside.call(request).await?;
                    text.extend_from_slice(&response.body_mut().bytes(100).await?);
                }
                Ok(http::Response::new(Body::from(text)))
            }
        })
    });
    let found = async |Path(name): Path<String>, body: String| format!("<{name} {body}>");
    let served = serve(Router::new().get("/{name}", found).layer(tower::layer(runs)));
    assert_each(&served, "/itself", 200, "itself", None);
    assert_each(&served, "/ann", 200, "<ann one><ann two>", None);
}

#[test]
fn what_it_leaves_arrives_and_so_does_what_it_changes() {
    let changes = Of(|inside: NextService| {
        of(move |mut request: http::Request<Body>| {
            let mut inside = inside;
            if request.uri().query().is_some() {
                *request.method_mut() = http::Method::PUT;
                *request.uri_mut() = http::Uri::from_static("/other?b=2");
                request.headers_mut().remove("x-old");
                request.headers_mut().insert("x-new", http::HeaderValue::from_static("new"));
                *request.body_mut() = Body::from("changed");
            }
            request.extensions_mut().insert(7_u8);
            async move { Ok(inside.call(request).await?) }
        })
    });
    let found = async |Path(name): Path<String>, mut request: Request| {
        let body = request.body_mut().text(100).await.expect("a text");
        let field = |name| request.headers().get(name).unwrap_or("-").to_owned();
        let (method, target, seven) = (request.method(), request.target(), request.extensions().get::<u8>());
        format!("{name} {method} {target} {} {} {body} {seven:?}", field("x-old"), field("x-new"))
    };
    let served = serve(Router::new().post("/{name}", found).layer(tower::layer(changes)));
    for (target, says) in [
        ("/ann", "ann POST /ann old - sent Some(7)"),
        ("/ann?a=1", "ann PUT /other?b=2 - new changed Some(7)"),
    ] {
        let head =
            format!("POST {target} HTTP/1.1\r\nhost: a\r\nx-old: old\r\ncontent-length: 4\r\n\r\nsent");
        assert_eq!(served.ask(&head).text(), says);
        let mut peer = H2::connect(&served);
        let id = peer.open("POST", target, &[("x-old", "old")], None, false);
        peer.body(id, b"sent", true);
        let target_of_http2 = says.replacen(" /", " http://a/", 1);
        assert_eq!(peer.answer(id).text(), target_of_http2.replace("http://a/other", "/other"));
    }
}

#[test]
fn bodies_stream_through_it_with_their_trailers() {
    let router = Router::new().post("/", async |body: Body| body).layer(tower::layer(tagged("streams")));
    let served = serve(router);
    let mut peer = H2::connect(&served);
    let id = peer.open("POST", "/", &[], None, false);
    peer.body(id, b"hi", false);
    let mut trailers = Headers::new();
    trailers.append("sum", "7").expect("a field");
    peer.trailers(id, &trailers);
    let whole = peer.answer(id);
    let sum = whole.trailers.as_ref().and_then(|trailers| trailers.get("sum"));
    assert_eq!((whole.text(), sum), ("hi", Some("7")));
}

/// Whose length is not stated: the layer finds out as the handler reads, and so does the handler.
#[test]
fn a_body_that_it_cuts_at_a_limit_is_a_413() {
    let limited = Of(|mut inside: NextService| {
        of(move |request: http::Request<Body>| {
            let running = inside.call(request.map(|body| Limited::new(body, 5)));
            async move { Ok::<_, BoxError>(running.await?) }
        })
    });
    let router = Router::new()
        .post("/bytes", async |bytes: Bytes| bytes)
        .post("/text", async |text: String| text)
        .post("/read", async |mut body: Body| Ok::<_, Error>(body.text(100).await?))
        .layer(tower::layer(limited));
    let served = serve(router);
    for (body, status) in [("five!", 200), ("longer", 413)] {
        for path in ["/bytes", "/text", "/read"] {
            let (length, mut peer) = (body.len(), H2::connect(&served));
            let answer = served.ask(&format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{length}\r\n{body}\r\n0\r\n\r\n"
            ));
            let id = peer.open("POST", path, &[], None, false);
            peer.body(id, body.as_bytes(), true);
            assert_eq!(
                [answer.status, peer.answer(id).status()],
                [status; 2],
                "{body} to {path}: {}",
                answer.text()
            );
        }
    }
    served.await_count("failures", |counters| counters.failures, 0);
}

#[test]
fn an_upgrade_passes_through_it() {
    let echo = async |upgrade: Upgrade| {
        upgrade.accept("echo", async |mut connection| {
            let mut bytes = [0; 5];
            connection.read_exact(&mut bytes).await.expect("the peer sends five");
            connection.write_all(&bytes).await.expect("the peer reads");
            connection.flush().await.expect("the peer reads");
        })
    };
    let served = serve(Router::new().get("/", echo).layer(tower::layer(tagged("upgrade"))));
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
    let head = peer.head();
    assert_eq!((head.status, head.header("x-tag")), (101, Some("upgrade")));
    peer.send("hello");
    assert_eq!(peer.read_exactly(5), b"hello");
}

#[test]
fn a_request_that_is_dropped_elsewhere_leaves_nothing() {
    let refuses = Of(|_| {
        of(async |request: http::Request<Body>| -> Answer {
            std::thread::spawn(move || drop(request)).join().expect("a drop");
            Ok(http::Response::new(Body::from("refused")))
        })
    });
    let state = Arc::new(());
    let router = Router::new().state(Arc::clone(&state)).get("/", async |_: State<Arc<()>>| "never");
    let served = serve(router.layer(tower::layer(refuses)));
    assert_each(&served, "/", 200, "refused", None);
    served.running.shutdown(Duration::from_secs(10)).wait();
    assert_eq!(Arc::strong_count(&state), 1, "nothing of the server is left");
}

#[test]
fn a_peer_takes_out_no_field_that_a_layer_sets() {
    let found = async |request: Request| {
        let mut headers = request.headers().clone();
        headers.remove_connection_options();
        headers.get("x-tag").unwrap_or("gone").to_owned()
    };
    let served = serve(Router::new().get("/", found).layer(tower::layer(tagged("set"))));
    let answer = served.ask("GET / HTTP/1.1\r\nhost: a\r\nx-tag: theirs\r\nconnection: x-tag\r\n\r\n");
    assert_eq!(answer.text(), "set");
}

#[test]
fn an_error_is_a_response() {
    let fails = Of(|_| of(async |_: http::Request<Body>| -> Answer { Err("secret".into()) }));
    let served = serve(Router::new().get("/", async || "never").layer(tower::layer(fails)));
    assert_each(&served, "/", 500, "the server failed to answer this request", None);
    assert_eq!(served.running.counters().failures, 2);
}

#[test]
fn a_request_whose_extensions_are_lost_is_a_500() {
    let loses = Of(|inside: NextService| {
        of(move |request: http::Request<Body>| {
            let mut inside = inside;
            async move {
                let (head, body) = request.into_parts();
                Ok(inside.call(http::Request::get(head.uri).body(body)?).await?)
            }
        })
    });
    let moves = Of(|inside: NextService| {
        of(move |request: http::Request<Body>| {
            let mut inside = inside;
            let there = std::thread::spawn(move || block_on(inside.call(request)));
            std::future::ready(Ok(there.join().expect("no panic").expect("it cannot fail")))
        })
    });
    let router = Router::new()
        .get("/loses", (async || "never").layer(tower::layer(loses)))
        .get("/moves", (async || "never").layer(tower::layer(moves)))
        .get("/", async || "another");
    let served = serve(router);
    for path in ["/loses", "/moves"] {
        assert_each(&served, path, 500, "the server failed to answer this request", None);
    }
    assert_each(&served, "/", 200, "another", None);
}

#[test]
fn a_panic_costs_its_own_request() {
    let count = Arc::<AtomicUsize>::default();
    let odd = move || count.fetch_add(1, Ordering::Relaxed) % 2 == 0;
    let (ready_odd, call_odd, run_odd, make_odd) = (odd.clone(), odd.clone(), odd.clone(), odd);
    let in_ready = Of(move |mut inside: NextService| {
        let odd = ready_odd.clone();
        with_ready(
            move |_: &mut Context<'_>| match odd() {
                true => panic!("in poll_ready, on purpose"),
                false => Poll::Ready(Ok(())),
            },
            move |request: http::Request<Body>| {
                let running = inside.call(request);
                async move { Ok(running.await?) }
            },
        )
    });
    let in_call = Of(move |mut inside: NextService| {
        let odd = call_odd.clone();
        of(move |request: http::Request<Body>| {
            assert!(!odd(), "in call, on purpose");
            let running = inside.call(request);
            async move { Ok(running.await?) }
        })
    });
    let in_future = Of(move |mut inside: NextService| {
        let odd = run_odd.clone();
        of(move |request: http::Request<Body>| {
            let (running, panics) = (inside.call(request), odd());
            async move {
                let response = running.await?;
                assert!(!panics, "in the future, on purpose");
                Ok(response)
            }
        })
    });
    let in_making = Of(move |mut inside: NextService| {
        assert!(!make_odd(), "in the making of the service, on purpose");
        of(move |request: http::Request<Body>| {
            let running = inside.call(request);
            async move { Ok(running.await?) }
        })
    });
    let slowly = async || {
        tokio::task::yield_now().await;
        "fine"
    };
    let router = Router::new()
        .get("/ready", slowly.layer(tower::layer(in_ready)))
        .get("/call", slowly.layer(tower::layer(in_call)))
        .get("/future", slowly.layer(tower::layer(in_future)))
        .get("/", async || "another");
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let mut plain = served.connect();
    let mut other = H2::connect(&served);
    let mut panics = 0;
    for path in ["/ready", "/call", "/future"] {
        for expected in [500, 200, 500, 200] {
            plain.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
            assert_eq!(plain.answer(false).status, expected, "{path}");
            panics += u64::from(expected == 500);
        }
        for expected in [500, 200] {
            let (id, beside) = (other.get(path), other.get("/"));
            assert_eq!((other.answer(id).status(), other.answer(beside).status()), (expected, 200), "{path}");
            panics += u64::from(expected == 500);
        }
    }
    assert_eq!(served.running.counters().panics, panics);
    // The first request makes the service, and the next one makes it again.
    let served = Scene::tcp().serve_on(
        1,
        Router::new().get("/", slowly.layer(tower::layer(in_making))),
        Limits::default(),
    );
    let statuses = [ask(&served, "/"), ask(&served, "/")].concat();
    assert_eq!(statuses.iter().map(|(status, ..)| *status).collect::<Vec<_>>(), [500, 200, 200, 200]);
}

#[test]
fn while_it_is_not_ready_few_wait() {
    let (asked, told) = channel();
    let is_ready = Arc::<AtomicBool>::default();
    let waiter = Arc::<Mutex<Option<Waker>>>::default();
    let (flag, waits) = (Arc::clone(&is_ready), Arc::clone(&waiter));
    let unready = Of(move |mut inside: NextService| {
        let (flag, waits, asked) = (Arc::clone(&flag), Arc::clone(&waits), asked.clone());
        with_ready(
            move |cx: &mut Context<'_>| {
                if flag.load(Ordering::SeqCst) {
                    return Poll::Ready(Ok(()));
                }
                *waits.lock().expect("no panic") = Some(cx.waker().clone());
                asked.send(()).expect("the test listens");
                Poll::Pending
            },
            move |request: http::Request<Body>| {
                let running = inside.call(request);
                async move { Ok(running.await?) }
            },
        )
    });
    let router = Router::new().get("/", (async || "done").layer(tower::layer(unready).waiting(1)));
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let mut first = served.connect();
    first.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    told.next();
    assert_each(&served, "/", 503, "too many requests wait for this service", None);
    assert_eq!(served.running.counters().not_ready, 2);
    is_ready.store(true, Ordering::SeqCst);
    waiter.lock().expect("no panic").take().expect("it was asked").wake();
    assert_eq!(first.answer(false).text(), "done");
    assert_each(&served, "/", 200, "done", None);
}

/// What a layer keeps, and cannot be dropped.
struct Fragile<S>(S);

impl<S> Drop for Fragile<S> {
    fn drop(&mut self) {
        panic!("in the destructor of a layer's service, on purpose");
    }
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Fragile<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        assert_ne!(request.uri().path(), "/panics", "in call, on purpose");
        self.0.call(request)
    }
}

#[test]
fn a_service_that_cannot_be_dropped_harms_nobody() {
    let router = Router::new().get("/{path}", async || "fine").layer(tower::layer(Of(Fragile)));
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    assert_each(&served, "/a", 200, "fine", None);
    assert_each(&served, "/panics", 500, "the server failed to answer this request", None);
    assert_each(&served, "/b", 200, "fine", None);
    let shutdown = served.running.shutdown(Duration::from_secs(10)).wait();
    assert_eq!(shutdown.connections_cut, 0);
}
