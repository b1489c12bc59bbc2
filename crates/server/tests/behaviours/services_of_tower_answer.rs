//! A service of the tower crates answers a route, a fallback, and everything below a prefix, in each version of HTTP. Its faults are
//! those of a handler: they cost their own request.

use std::cell::Cell;
use std::future::{pending, ready};
use std::panic::panic_any;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anywire_http::{Body, BodyError, Headers};
use anywire_server::tower::{self, OriginalUri};
use anywire_server::{Limits, Path, Request, Router};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::support::h2::H2;
use crate::support::tower::{BoxError, of, with_ready};
use crate::support::{Scene, Served, channel, serve};

type Answer = Result<http::Response<Body>, BoxError>;

fn answer(text: impl Into<Body>) -> Answer {
    Ok(http::Response::new(text.into()))
}

/// What the service sees.
async fn seen(request: http::Request<Body>) -> Answer {
    let original = request.extensions().get::<OriginalUri>().map(|uri| uri.0.to_string());
    let seen = request.uri().path_and_query().map(|seen| seen.as_str().to_owned());
    let request = Request::try_from(request)?;
    let params: Vec<_> = request.params().map(|(name, value)| format!("{name}={value}")).collect();
    let text =
        format!("{} {} [{}]", seen.unwrap_or_default(), original.unwrap_or("-".to_owned()), params.join(","));
    answer(text)
}

/// Status and text in both versions.
fn ask(served: &Served, path: &str) -> [(u16, String); 2] {
    let plain = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
    let other = H2::connect(served).ask(path);
    [(plain.status, plain.text().to_owned()), (other.status(), other.text().to_owned())]
}

#[track_caller]
fn assert_each(served: &Served, path: &str, status: u16, text: &str) {
    for (found, body) in ask(served, path) {
        assert_eq!((found, &*body), (status, text), "{path}");
    }
}

#[test]
fn at_a_route_below_a_prefix_and_as_a_fallback() {
    let router = Router::new()
        .any("/route/{id}", tower::service(of(seen)))
        .nest_service("/pre/{tenant}", of(seen))
        .get("/pre/{tenant}/own", async |Path(tenant): Path<String>| tenant)
        .nest("/outer", Router::new().nest_service("/inner/", of(seen)))
        .fallback(tower::service(of(seen)));
    let served = serve(router);
    assert_each(&served, "/route/7?q", 200, "/route/7?q - [id=7]");
    assert_each(&served, "/elsewhere", 200, "/elsewhere - []");
    assert_each(&served, "/pre/t/own", 200, "t");
    for (path, rest, params) in [
        ("/pre/t", "/", "tenant=t"),
        ("/pre/t?q", "/?q", "tenant=t"),
        ("/pre/t/", "/", "tenant=t"),
        ("/pre/t/a/b?q", "/a/b?q", "tenant=t,rest=a/b"),
        ("/pre/t//b", "//b", "tenant=t,rest=/b"),
        ("/p%72e/t/a", "/a", "tenant=t,rest=a"),
    ] {
        let plain = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        assert_eq!(plain.text(), format!("{rest} {path} [{params}]"));
        // Over HTTP/2 the URI has its origin.
        let other = H2::connect(&served).ask(path);
        assert_eq!(other.text(), format!("{rest} http://a{path} [{params}]"));
    }
    assert!(ask(&served, "/outer/inner")[0].1.starts_with("/ /outer/inner []"));
    assert!(ask(&served, "/outer/inner/x")[1].1.starts_with("/x http://a/outer/inner/x"));
    assert!(ask(&served, "/outer/inner2")[0].1.starts_with("/outer/inner2 - "), "another segment");
}

#[test]
fn bodies_stream_both_ways_with_their_trailers() {
    let echo =
        async |request: http::Request<Body>| -> Answer { Ok(http::Response::new(request.into_body())) };
    let served = serve(Router::new().any("/", tower::service(of(echo))));
    let mut peer = served.connect();
    peer.send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n");
    assert_eq!(peer.head().status, 200);
    assert_eq!(peer.chunk().as_deref(), Some(&b"hi"[..]), "before the request has ended");
    peer.send("0\r\n\r\n");
    assert_eq!(peer.chunk(), None);
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

/// Counts how often it is cloned, and which clones are left.
struct Cloned(Arc<AtomicUsize>, Arc<()>);

impl Clone for Cloned {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0), Arc::clone(&self.1))
    }
}

#[test]
fn each_loop_has_one_clone_until_the_server_ends() {
    let (clones, alive) = (Arc::<AtomicUsize>::default(), Arc::new(()));
    let cloned = Cloned(Arc::clone(&clones), Arc::clone(&alive));
    let number = move |_: http::Request<Body>| {
        // The whole of it, and not its fields.
        let cloned = &cloned;
        let alive = Arc::strong_count(&cloned.1).min(1);
        async move {
            // Neither the future is `Send` nor what it holds.
            let held = Rc::new(Cell::new(1));
            tokio::task::yield_now().await;
            held.set(held.get() + alive);
            answer(held.get().to_string())
        }
    };
    let served =
        Scene::tcp().serve_on(1, Router::new().any("/", tower::service(of(number))), Limits::default());
    for _ in 0..5 {
        assert_each(&served, "/", 200, "2");
    }
    assert_eq!(clones.load(Ordering::Relaxed), 1);
    served.running.shutdown(Duration::from_secs(10)).wait();
    assert_eq!(Arc::strong_count(&alive), 1, "all are dropped");
}

#[test]
fn an_error_is_a_response_by_its_status() {
    let fails = async |request: http::Request<Body>| -> Answer {
        Err(match request.uri().path() {
            "/body" => BodyError::TooLarge { limit_bytes: 1 }.into(),
            _ => BoxError::from("secret"),
        })
    };
    let refuses =
        with_ready(|_| Poll::Ready(Err("secret".into())), async |_: http::Request<Body>| answer("no"));
    let router = Router::new().fallback(tower::service(of(fails))).any("/unready", tower::service(refuses));
    let served = serve(router);
    for path in ["/", "/unready"] {
        assert_each(&served, path, 500, "the server failed to answer this request");
    }
    assert!(ask(&served, "/body").iter().all(|(status, _)| *status == 413));
    let counters = served.running.counters();
    assert_eq!((counters.failures, counters.refused, counters.panics), (4, 2, 0));
}

/// Such a service is of no use any more, as `Service::poll_ready` says.
#[test]
fn one_that_fails_while_it_gets_ready_is_made_anew() {
    let made = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&made);
    /// Fails at once if it is the first one.
    struct Ready {
        made: Arc<AtomicUsize>,
        failed: bool,
        number: usize,
    }
    impl Clone for Ready {
        fn clone(&self) -> Self {
            let number = self.made.fetch_add(1, Ordering::SeqCst);
            Self { made: Arc::clone(&self.made), failed: false, number }
        }
    }
    let mut ready = Ready { made: counted, failed: false, number: 0 };
    let fails = with_ready(
        move |_| {
            let ready: &mut Ready = &mut ready;
            assert!(!ready.failed, "a service that has failed is not polled");
            ready.failed = ready.number < 2;
            Poll::Ready(if ready.failed { Err("on purpose".into()) } else { Ok(()) })
        },
        async |_: http::Request<Body>| answer("fine"),
    );
    let served = serve(Router::new().any("/", tower::service(fails)));
    let statuses: Vec<u16> = (0..4).map(|_| served.ask("GET / HTTP/1.1\r\nhost: a\r\n\r\n").status).collect();
    assert_eq!(statuses.last(), Some(&200), "{statuses:?}");
    assert!(statuses.contains(&500), "{statuses:?}");
    assert_eq!(served.running.counters().panics, 0);
}

/// Panics once it is dropped, if armed.
struct Bomb(bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0 || std::thread::panicking(), "in a destructor, on purpose");
    }
}

/// A panic in each place of a service.
#[test]
fn a_panic_costs_its_own_request() {
    let count = Arc::<AtomicUsize>::default();
    // Every second request of each place: the service is another one after a panic, and the count stays.
    let odd = move || count.fetch_add(1, Ordering::Relaxed) % 2 == 0;
    let (ready_odd, call_odd, run_odd, drop_odd) = (odd.clone(), odd.clone(), odd.clone(), odd);
    let in_ready = with_ready(
        move |_: &mut Context<'_>| match ready_odd() {
            true => panic!("in poll_ready, on purpose"),
            false => Poll::Ready(Ok(())),
        },
        async |_: http::Request<Body>| answer("fine"),
    );
    let in_call = of(move |_: http::Request<Body>| match call_odd() {
        true => panic_any(7),
        false => ready(answer("fine")),
    });
    let in_future = of(move |_: http::Request<Body>| {
        let panics = run_odd();
        async move {
            tokio::task::yield_now().await;
            assert!(!panics, "in the future, on purpose");
            answer("fine")
        }
    });
    let in_drop = of(move |_: http::Request<Body>| {
        let bomb = Bomb(drop_odd());
        async move {
            tokio::task::yield_now().await;
            drop(bomb);
            answer("fine")
        }
    });
    let router = Router::new()
        .any("/ready", tower::service(in_ready))
        .any("/call", tower::service(in_call))
        .any("/future", tower::service(in_future))
        .any("/drop", tower::service(in_drop))
        .get("/", async || "another");
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let mut plain = served.connect();
    let mut other = H2::connect(&served);
    let mut panics = 0;
    for path in ["/ready", "/call", "/future", "/drop"] {
        for expected in [500, 200, 500, 200] {
            plain.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
            assert_eq!(plain.answer(false).status, expected, "{path}");
            panics += u64::from(expected == 500);
        }
        for expected in [500, 200] {
            // Another stream beside it.
            let (id, beside) = (other.get(path), other.get("/"));
            assert_eq!((other.answer(id).status(), other.answer(beside).status()), (expected, 200), "{path}");
            panics += u64::from(expected == 500);
        }
    }
    assert_eq!(served.running.counters().panics, panics);
}

/// A service whose destructor panics, in each clone.
#[derive(Clone)]
struct Fragile(Arc<AtomicBool>);

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.0.load(Ordering::SeqCst), "in the destructor of a service, on purpose");
    }
}

#[test]
fn a_service_that_cannot_be_dropped_harms_nobody() {
    let armed = Arc::<AtomicBool>::default();
    let fragile = Fragile(Arc::clone(&armed));
    let served = serve(Router::new().any(
        "/",
        tower::service(of(move |_: http::Request<Body>| {
            // Armed from the first request on. The panic ends this clone, whose destructor panics as well.
            fragile.0.store(true, Ordering::SeqCst);
            assert!(!fragile.0.load(Ordering::SeqCst), "in call, on purpose");
            ready(answer("never"))
        })),
    ));
    for (status, _) in [ask(&served, "/"), ask(&served, "/")].concat() {
        assert_eq!(status, 500);
    }
    served.assert_alive();
    let shutdown = served.running.shutdown(Duration::from_secs(10)).wait();
    assert_eq!(shutdown.connections_cut, 0);
    armed.store(false, Ordering::SeqCst);
}

#[test]
fn while_it_is_not_ready_few_wait() {
    let (asked, told) = channel();
    let is_ready = Arc::<AtomicBool>::default();
    let waiter = Arc::<Mutex<Option<Waker>>>::default();
    let (flag, waits) = (Arc::clone(&is_ready), Arc::clone(&waiter));
    let ready = move |cx: &mut Context<'_>| {
        if flag.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(()));
        }
        *waits.lock().expect("no panic") = Some(cx.waker().clone());
        asked.send(()).expect("the test listens");
        Poll::Pending
    };
    let service = with_ready(ready, async |_: http::Request<Body>| answer("done"));
    let router = Router::new().any("/", tower::service(service).waiting(2)).get("/alive", async || "alive");
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    let mut first = served.connect();
    first.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    told.next();
    let mut second = H2::connect(&served);
    let id = second.get("/");
    // The first two wait, in whatever order the second comes: one more is refused.
    served.await_count("requests", |counters| counters.requests, 2);
    let full = "too many requests wait for this service";
    assert_each(&served, "/", 503, full);
    assert_eq!(served.running.counters().not_ready, 2);
    served.assert_alive();
    is_ready.store(true, Ordering::SeqCst);
    waiter.lock().expect("no panic").take().expect("it was asked").wake();
    assert_eq!(first.answer(false).text(), "done");
    assert_eq!(second.answer(id).text(), "done");
    assert_each(&served, "/", 200, "done");
}

#[test]
fn one_that_is_never_ready_is_late_as_a_handler() {
    let never = with_ready(|_: &mut Context<'_>| Poll::Pending, async |_: http::Request<Body>| answer("no"));
    let limits = Limits { handler_timeout: Duration::from_millis(20), ..Limits::default() };
    let served = Scene::tcp().serve_on(1, Router::new().any("/", tower::service(never).waiting(1)), limits);
    for _ in 0..2 {
        assert_each(&served, "/", 503, "the answer took too long");
    }
    let counters = served.running.counters();
    assert_eq!((counters.handler_timeouts, counters.not_ready), (4, 0), "those that are late wait no more");
}

#[test]
fn one_that_is_late_is_cancelled() {
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let late = of(move |_: http::Request<Body>| {
        let held = Arc::clone(&held);
        async move {
            pending::<()>().await;
            drop(held);
            answer("never")
        }
    });
    let limits = Limits { handler_timeout: Duration::from_millis(20), ..Limits::default() };
    let served = Scene::tcp().serve_on(1, Router::new().any("/", tower::service(late)), limits);
    assert_each(&served, "/", 503, "the answer took too long");
    // The test, the first service and the clone of the loop.
    assert_eq!(Arc::strong_count(&dropped), 3);
}

#[test]
fn a_body_that_fails_half_way_costs_its_own_response() {
    let read = Arc::<Notify>::default();
    let gate = Arc::clone(&read);
    let half = of(move |_: http::Request<Body>| {
        let gate = Arc::clone(&gate);
        let (mut sender, body) = Body::channel(1024);
        anywire_loops::spawn(async move {
            sender.send("half").await.expect("the body is read");
            gate.notified().await;
            sender.abort(BodyError::failed("on purpose"));
        });
        ready(answer(body))
    });
    let router = Router::new().any("/", tower::service(half)).get("/alive", async || "alive");
    let served = serve(router);
    let mut plain = served.connect();
    plain.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(plain.head().status, 200);
    assert_eq!(plain.chunk().as_deref(), Some(&b"half"[..]));
    read.notify_one();
    plain.assert_closed();
    let mut other = H2::connect(&served);
    let (id, beside) = (other.get("/"), other.get("/alive"));
    assert_eq!(other.answer(beside).text(), "alive");
    read.notify_one();
    let cut = other.answer(id);
    assert_eq!((cut.text(), cut.reset.is_some()), ("half", true));
    served.assert_alive();
    assert_eq!(served.running.counters().failures, 2);
}

#[test]
fn a_request_that_breaks_off_is_seen_by_the_service() {
    let (broke, told) = channel();
    let reads = move |request: http::Request<Body>| {
        let broke = broke.clone();
        async move {
            let mut body = request.into_body();
            assert_eq!(body.chunk().await?, Some(Bytes::from_static(b"half")));
            let error = body.chunk().await.expect_err("the peer ends half way");
            broke.send(error.to_string()).expect("the test listens");
            Err::<http::Response<Body>, _>(error.into())
        }
    };
    let served = serve(Router::new().any("/", tower::service(of(reads))));
    let mut plain = served.connect();
    plain.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf");
    plain.half_close();
    assert!(told.next().starts_with("reading a body: "));
    assert_eq!(plain.answer(false).status, 400);
    let mut other = H2::connect(&served);
    let id = other.open("POST", "/", &[], Some(8), false);
    other.body(id, b"half", false);
    other.half_close();
    assert!(told.next().starts_with("reading a body: "));
    served.assert_alive();
}
