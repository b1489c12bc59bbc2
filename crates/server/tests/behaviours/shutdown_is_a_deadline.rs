//! Shutdown stops accepting, closes idle connections, lets requests finish, and cuts what is left at the deadline. A
//! dropped server is cut at once.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::support::clock::{StillLoop, pass, settle};
use crate::support::{HANG, Peer, Remote, Scene, Served};
use anywire_http::Body;
use anywire_loops::{LoopState, Loops};
use anywire_server::{Limits, Request, Router, Server, State, Stopping};
use anywire_wire::{DialOptions, Dialer};
use tokio::io::AsyncReadExt;
use tokio::sync::Notify;

/// Told when a request has reached its handler, and lets it go on.
#[derive(Clone, Default)]
struct Gate {
    entered: Arc<Notify>,
    open: Arc<Notify>,
}

fn gated(gate: &Gate) -> Router {
    Router::new().state(gate.clone()).get("/", async || "ok").get("/gated", async |gate: State<Gate>| {
        gate.entered.notify_one();
        gate.open.notified().await;
        "finished"
    })
}

fn wait(notify: &Notify) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(notify.notified());
}

#[test]
fn a_body_without_end_is_told() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new().get("/events", async |request: Request| {
            let (mut sender, body) = Body::channel(1024);
            let stopping = request.stopping();
            drop(anywire_loops::spawn(async move {
                let _ = sender.send("first").await;
                stopping.await;
                let _ = sender.send("last").await;
                sender.finish();
            }));
            body
        });
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send("GET /events HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.head().status, 200);
        assert_eq!(peer.chunk().as_deref(), Some(&b"first"[..]));
        let ending = served.running.shutdown(HANG);
        assert_eq!(peer.chunk().as_deref(), Some(&b"last"[..]));
        assert_eq!(peer.chunk(), None);
        peer.assert_closed();
        assert_eq!(ending.wait().connections_cut, 0);
    });
}

#[test]
fn requests_finish_and_idle_connections_close() {
    crate::support::on_each_wire(|scene| {
        let gate = Gate::default();
        // One loop: that the idle connection was closed tells then that the other one's has heard of the end.
        // And nothing else wakes an idle connection.
        let never = Duration::from_secs(3600);
        let limits = Limits { head_timeout: never, idle_timeout: never, ..Limits::default() };
        let served = scene.serve_on(1, gated(&gate), limits);
        let mut idle = served.connect();
        idle.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(idle.answer(false).text(), "ok");
        let mut busy = served.connect();
        busy.send("GET /gated HTTP/1.1\r\nhost: x\r\n\r\n");
        wait(&gate.entered);
        let address = served.address;
        let ending = served.running.shutdown(Duration::from_secs(60));
        idle.assert_closed();
        assert!(Remote::try_dial(&address).is_err(), "nobody listens any more");
        gate.open.notify_one();
        let answer = busy.answer(false);
        assert_eq!((answer.text(), answer.header("connection")), ("finished", Some("close")));
        drop(busy);
        assert_eq!(ending.wait().connections_cut, 0);
    });
}

/// Tells a request of the beginning of the end.
fn told() -> Router {
    Router::new().get("/", async || "ok").get("/told", async |request: Request| {
        request.stopping().await;
        "told"
    })
}

/// On one loop: once the one request has heard of the end, all connections of the server have.
fn begin_to_end(served: Served, told: &mut Peer<Remote>) -> Stopping {
    let before = served.running.counters().requests;
    told.send("GET /told HTTP/1.1\r\nhost: x\r\n\r\n");
    served.await_count("requests", |counters| counters.requests, before + 1);
    let ending = served.running.shutdown(HANG);
    assert_eq!(told.answer(false).text(), "told");
    ending
}

#[test]
fn a_request_that_is_on_its_way_is_answered() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve_on(1, told(), Limits { shutdown_grace: HANG, ..Limits::default() });
        let (mut kept, mut fresh, mut late) = (served.connect(), served.connect(), served.connect());
        kept.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(kept.answer(false).text(), "ok");
        served.await_count("connections", |counters| counters.connections_open, 3);
        let ending = begin_to_end(served, &mut late);
        for peer in [&mut kept, &mut fresh] {
            peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
            let answer = peer.answer(false);
            assert_eq!((answer.text(), answer.closes()), ("ok", true));
            assert!(peer.rest_and_end().1, "it ends in order");
        }
        drop((kept, fresh, late));
        assert_eq!(ending.wait().connections_cut, 0);
    });
}

/// The grace is for connections on which nothing comes. A head that has begun has its own time.
#[test]
fn a_first_head_that_comes_in_parts_is_answered() {
    let clock = StillLoop::start();
    let grace = Duration::from_millis(100);
    let limits = Limits { shutdown_grace: grace, ..Limits::default() };
    let Served { running, address } = clock.serve(&Scene::at("memory:"), Server::new(told()).limits(limits));
    let (ending, response) = clock.run(move || async move {
        let dialer = Dialer::new(DialOptions::default());
        let mut told = dialer.dial(&address).await.expect("it listens");
        let mut fresh = dialer.dial(&address).await.expect("it listens");
        told.write_all(b"GET /told HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it reads");
        settle().await;
        let ending = running.shutdown(HANG);
        told.read_to_end(&mut Vec::new()).await.expect("it ends in order");
        pass(grace / 2).await;
        fresh.write_all(b"GET / HTTP/1.1\r\n").await.expect("it reads");
        pass(grace).await;
        let _ = fresh.write_all(b"host: x\r\n\r\n").await;
        let mut response = String::new();
        fresh.read_to_string(&mut response).await.expect("it ends in order");
        (ending, response)
    });
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("ok"), "{response}");
    assert_eq!(ending.wait().connections_cut, 0);
}

#[test]
fn pipelined_requests_that_have_arrived_are_answered() {
    crate::support::on_each_wire(|scene| {
        let gate = Gate::default();
        let router = gated(&gate).post("/echo", async |body: Body| body);
        let served = scene.serve_on(1, router, Limits::default());
        let (mut idle, mut peer) = (served.connect(), served.connect());
        served.await_count("connections", |counters| counters.connections_open, 2);
        let echo = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc";
        let whole = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        peer.send(format!("GET /gated HTTP/1.1\r\nhost: x\r\n\r\n{whole}{echo}{echo}{whole}\r\n"));
        wait(&gate.entered);
        let ending = served.running.shutdown(HANG);
        idle.assert_closed();
        gate.open.notify_one();
        for (text, closes) in
            [("finished", false), ("ok", false), ("abc", false), ("abc", false), ("ok", true)]
        {
            let answer = peer.answer(false);
            assert_eq!((answer.text(), answer.closes()), (text, closes));
        }
        assert!(peer.rest_and_end().1, "it ends in order");
        drop((idle, peer));
        assert_eq!(ending.wait().connections_cut, 0);
    });
}

#[test]
fn a_peer_that_sends_on_and_on_does_not_hold_it() {
    const REQUESTS: usize = 3500;
    let gate = Gate::default();
    let limits = Limits { linger_timeout: HANG, ..Limits::default() };
    let served = Scene::tcp().serve_on(1, gated(&gate), limits);
    let (mut idle, mut peer) = (served.connect(), served.connect());
    served.await_count("connections", |counters| counters.connections_open, 2);
    // More than the server's buffer holds.
    let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    peer.send(format!("GET /gated HTTP/1.1\r\nhost: x\r\n\r\n{}", request.repeat(REQUESTS)));
    wait(&gate.entered);
    let ending = served.running.shutdown(HANG);
    idle.assert_closed();
    drop(idle);
    gate.open.notify_one();
    let answered = (0..REQUESTS).take_while(|_| !peer.answer(false).closes()).count();
    assert!((1..REQUESTS).contains(&answered), "{answered}");
    assert!(peer.rest_and_end().1, "it ends in order");
    drop(peer);
    assert_eq!(ending.wait().connections_cut, 0);
}

#[test]
fn a_request_that_comes_too_late_is_not_reset() {
    let limits = Limits { shutdown_grace: Duration::ZERO, linger_timeout: HANG, ..Limits::default() };
    let served = Scene::tcp().serve_on(1, told(), limits);
    let (mut kept, mut late) = (served.connect_tcp(), served.connect());
    kept.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(kept.answer(false).text(), "ok");
    let ending = begin_to_end(served, &mut late);
    kept.assert_closed();
    // A reset would come with the first, and fail the second.
    for _ in 0..3 {
        kept.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    }
    drop((kept, late));
    assert_eq!(ending.wait().connections_cut, 0);
}

#[test]
fn connections_without_a_request_are_not_counted_as_cut() {
    crate::support::on_each_wire(|scene| {
        let gate = Gate::default();
        let served = scene.serve(gated(&gate));
        let mut idle = served.connect();
        idle.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(idle.answer(false).text(), "ok");
        let mut busy = served.connect();
        busy.send("GET /gated HTTP/1.1\r\nhost: x\r\n\r\n");
        wait(&gate.entered);
        assert_eq!(served.running.shutdown(Duration::ZERO).wait().connections_cut, 1);
        idle.assert_closed();
        busy.assert_closed();
    });
}

#[test]
fn what_does_not_finish_is_cut() {
    crate::support::on_each_wire(|scene| {
        let gate = Gate::default();
        let served = scene.serve(gated(&gate));
        let mut busy = served.connect();
        busy.send("GET /gated HTTP/1.1\r\nhost: x\r\n\r\n");
        wait(&gate.entered);
        assert_eq!(served.running.shutdown(Duration::from_millis(100)).wait().connections_cut, 1);
        busy.assert_closed();
    });
}

#[test]
fn a_dropped_server_leaves_no_connection_on_its_loops() {
    let loops = Loops::start(2).expect("threads");
    let gate = Gate::default();
    let address = "memory:dropped-with-connections";
    let running = Server::new(gated(&gate)).listen(address).on(&loops).start().expect("a free name");
    let mut busy = Peer::new(Remote::dial(running.addresses().next().expect("one address")));
    busy.send("GET /gated HTTP/1.1\r\nhost: x\r\n\r\n");
    wait(&gate.entered);
    drop(running);
    busy.assert_closed();
    assert!(loops.shutdown(Duration::from_secs(60)).expect("this is no loop").is_clean());
}

/// A connection that the system has accepted meanwhile is not served either.
#[test]
fn a_server_that_is_dropped_on_its_loop_serves_nobody_more() {
    let loops = Loops::start(1).expect("threads");
    let router = Router::new().get("/", async || "ok");
    let running = Server::new(router).listen("tcp:127.0.0.1:0").on(&loops).start().expect("a free port");
    let address: SocketAddr =
        running.addresses().next().expect("one address").location().parse().expect("host and port");
    let connected = loops.get(0).spawn(move || async move {
        let stream = TcpStream::connect(address).expect("the system accepts");
        drop(running);
        stream
    });
    let mut stream = connected.wait().expect("it runs to its end");
    stream.set_read_timeout(Some(HANG)).expect("a TCP socket");
    // The connection may be over already.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{ended:?}: {}", String::from_utf8_lossy(&answer));
}

#[test]
fn its_own_loops_end_with_it_and_those_of_others_go_on() {
    let others = Loops::start(1).expect("threads");
    let address = "memory:on-loops-of-others";
    let state = Arc::new("state");
    let router = Router::new().state(Arc::clone(&state)).get("/", async |_: State<Arc<&str>>| "ok");
    let running = Server::new(router).listen(address).on(&others).start().expect("a free name");
    let mut peer = Peer::new(Remote::dial(running.addresses().next().expect("one address")));
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    running.shutdown(Duration::ZERO).wait();
    assert_eq!(others.get(0).spawn(async || 7).wait(), Ok(7));
    assert_eq!(Arc::strong_count(&state), 1, "nothing of the server is left on them");

    let running = Server::new(Router::new()).listen("memory:on-its-own-loops").loops(1).start();
    let running = running.expect("a free name");
    let own = running.loops().get(0);
    running.shutdown(Duration::ZERO).wait();
    assert_eq!(own.state(), LoopState::Ended);
}
