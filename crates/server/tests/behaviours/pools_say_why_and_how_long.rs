//! What is told of functions on a pool: their refusals by kind, the time in the queue, and a peer that has gone.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anywire_http::StatusCode;
use anywire_loops::{Pool, PoolLimits, PoolOrder};
use anywire_server::layers::Problems;
use anywire_server::{Blocking, Ended, PeerGone, Refusal, RefusalKind, Router, Server};

use crate::support::{Peer, Remote, Scene, Served, channel};

const ONE: PoolLimits = PoolLimits { threads: 1, queue: 2, order: PoolOrder::OldestFirst };

#[test]
fn refusals_are_worded_as_others() {
    let (seen, told) = channel();
    let router = Router::new().get("/late", (|| "").on_pool("cpu").queue_deadline(Duration::ZERO));
    let seen = Mutex::new(seen);
    let server = Server::new(router).pool("cpu", ONE).on_refusal(move |refusal: &Refusal<'_>| {
        let route = refusal.route.map(str::to_owned);
        let _ = seen.lock().expect("no panic").send((refusal.kind, route, refusal.peer.is_some()));
        (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "7")], "later")
    });
    let answer = Scene::tcp().serve_by(server).ask("GET /late HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!((answer.status, answer.header("retry-after"), answer.text()), (429, Some("7"), "later"));
    assert_eq!(told.next(), (RefusalKind::QueueDeadline, Some("/late".to_owned()), true));
}

#[test]
fn an_observer_is_told_how_long_a_request_waited() {
    let (seen, told) = channel();
    let router = Router::new().get("/pool", (|| "").on_pool("cpu")).get("/loop", async || "");
    let observe = move |ended: &Ended<'_>| _ = seen.send((ended.route.map(str::to_owned), ended.queue_time));
    let served = Scene::tcp().serve_by(Server::new(router).pool("cpu", ONE).observe(observe));
    for path in ["/pool", "/loop"] {
        assert_eq!(served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).status, 200);
        let (route, waited) = told.next();
        assert_eq!((route.as_deref(), waited.is_some()), (Some(path), path == "/pool"));
    }
}

/// A pool whose one thread is at work until it is told to end, and a queue with one place.
fn occupied(server: impl FnOnce(Server) -> Server) -> (Served, Peer<Remote>, Sender<()>) {
    let (begun, begins) = channel();
    let (goes_on, told) = std::sync::mpsc::channel::<()>();
    let (begun, told) = (Mutex::new(begun), Arc::new(Mutex::new(told)));
    let waits = move || {
        let _ = begun.lock().map(|begun| begun.send(()));
        let _ = told.lock().map(|told| told.recv());
    };
    let waits = Arc::new(waits);
    let router =
        Router::new().get("/waits", (move || waits()).on_pool("cpu")).get("/quick", (|| "").on_pool("cpu"));
    let served =
        Scene::tcp().serve_by(server(Server::new(router)).pool("cpu", PoolLimits { queue: 1, ..ONE }));
    let mut first = served.connect();
    first.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
    begins.next();
    (served, first, goes_on)
}

#[test]
fn each_refusal_of_a_pool_has_its_kind() {
    let (seen, told) = channel();
    let seen = Mutex::new(seen);
    let (served, _first, goes_on) = occupied(|server| {
        server.on_refusal(move |refusal: &Refusal<'_>| {
            let _ = seen.lock().expect("no panic").send(refusal.kind);
            StatusCode::SERVICE_UNAVAILABLE
        })
    });
    let mut second = served.connect();
    second.send("GET /quick HTTP/1.1\r\nhost: x\r\n\r\n");
    let pool = served.running.pool("cpu").expect("it was given").clone();
    served.await_count("the queue", |_| pool.counters().queued, 1);
    assert_eq!(served.ask("GET /quick HTTP/1.1\r\nhost: x\r\n\r\n").status, 503);
    assert_eq!(told.next(), RefusalKind::PoolFull);
    let stopping = served.running.shutdown(Duration::from_millis(500));
    assert_eq!(told.next(), RefusalKind::PoolStopped);
    assert_eq!(second.answer(false).status, 503);
    stopping.wait();
    goes_on.send(()).expect("it waits");
}

/// The server goes on, so it does not say that it ends.
#[test]
fn a_pool_that_was_stopped_while_its_server_serves() {
    let pool = Pool::start("own", ONE).expect("threads");
    let serve = || {
        let router = Router::new().get("/pool", (|| "pool").on_pool("own")).get("/loop", async || "loop");
        Scene::tcp().serve_by(Server::new(router).on_pool(&pool).problems(Problems::new()))
    };
    let served = serve();
    assert_eq!(served.get("/pool").text, "pool");
    pool.stop();
    // As one that was stopped before the start.
    for served in [served, serve()] {
        let reply = served.get("/pool");
        assert_eq!((reply.status, reply.field("retry-after").is_some()), (503, true), "{reply:?}");
        assert_eq!(reply.field("content-type"), Some("application/problem+json"), "{reply:?}");
        assert!(!reply.text.contains("shutting down"), "{reply:?}");
        assert!(reply.text.contains("requests of this kind are not run any more"), "{reply:?}");
        assert_eq!(served.get("/loop").text, "loop");
    }
}

#[test]
fn an_observer_is_told_all_of_the_time_in_the_queue() {
    let (seen, told) = channel();
    let (served, mut first, goes_on) =
        occupied(|server| server.observe(move |ended: &Ended<'_>| _ = seen.send(ended.queue_time)));
    let mut second = served.connect();
    second.send("GET /quick HTTP/1.1\r\nhost: x\r\n\r\n");
    let pool = served.running.pool("cpu").expect("it was given").clone();
    served.await_count("the queue", |_| pool.counters().queued, 1);
    let (queued_at, least) = (Instant::now(), Duration::from_millis(5));
    while queued_at.elapsed() < least {
        thread::yield_now();
    }
    goes_on.send(()).expect("it waits");
    assert_eq!([first.answer(false), second.answer(false)].map(|answer| answer.status), [200; 2]);
    let waited = [told.next(), told.next()].into_iter().flatten().max();
    assert!(
        waited.is_some_and(|waited| waited >= least),
        "{waited:?}: it waited while the thread was at work"
    );
}

/// A thread of the function's own asks as the function does.
#[test]
fn a_peer_that_has_gone_is_known_on_other_threads() {
    let (leaves, left) = channel();
    let (goes_on, told) = std::sync::mpsc::channel::<()>();
    let cues = Arc::new(Mutex::new((leaves, told)));
    let waits = move |gone: PeerGone| {
        let cues = cues.lock().expect("no panic");
        let _ = cues.0.send(gone);
        let _ = cues.1.recv();
    };
    let served =
        Scene::tcp().serve_by(Server::new(Router::new().get("/", waits.on_pool("cpu"))).pool("cpu", ONE));
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let gone = left.next();
    assert!(!gone.is_gone());
    peer.reset();
    served.await_count("it is known", |_| u64::from(gone.is_gone()), 1);
    goes_on.send(()).expect("it waits");
}

/// What a function has left behind, such as on a thread of its own, is not told that a peer has gone who has got its response.
#[test]
fn a_function_that_has_ended_is_told_of_no_peer() {
    let (sender, receiver) = channel();
    let sender = Arc::new(Mutex::new(sender));
    let leaves = move |gone: PeerGone| drop(sender.lock().map(|sender| sender.send(gone)));
    let router = Router::new().get("/", leaves.on_pool("cpu"));
    let served = Scene::tcp().serve_by(Server::new(router).pool("cpu", ONE));
    assert_eq!(served.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").status, 200);
    assert!(!receiver.next().is_gone());
}
