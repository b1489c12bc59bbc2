//! A handler that blocks its loop is logged while it does so, with its route: the handler itself at its first poll and later,
//! the body of its response, what goes on behind an upgrade, and a handler of datagrams.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use anywire_http::{Body, BodyError, Request};
use anywire_server::{Router, State, Upgrade};
use bytes::Bytes;
use support::h2::H2;
use support::{HANG, Scene, Served, log};
use tracing::Level;

/// Blocks its thread until the test lets it go on.
#[derive(Clone)]
struct Gate(Arc<Mutex<Receiver<()>>>);

impl Gate {
    fn new() -> (Sender<()>, Self) {
        let (open, opened) = channel();
        (open, Self(Arc::new(Mutex::new(opened))))
    }

    fn block(&self) {
        self.0.lock().expect("one at a time").recv_timeout(HANG).expect("the test lets it go on");
    }
}

/// A body whose first piece blocks.
struct Blocking(Option<Gate>);

impl futures_core::Stream for Blocking {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(|gate| {
            gate.block();
            Ok(Bytes::from_static(b"done"))
        }))
    }
}

fn router(gate: Gate) -> Router {
    Router::new()
        .get("/at-once/{id}", async |State(gate): State<Gate>| {
            gate.block();
            "done"
        })
        .get("/later/{id}", async |State(gate): State<Gate>| {
            tokio::task::yield_now().await;
            gate.block();
            "done"
        })
        .get("/body/{id}", async |State(gate): State<Gate>| Body::stream(Blocking(Some((*gate).clone()))))
        .get("/upgrade/{id}", async |State(gate): State<Gate>, upgrade: Upgrade| {
            upgrade.accept("toy", async move |_| gate.block())
        })
        .state(gate)
}

/// Waits for the warning, and lets the handler go on. Nothing else has to happen for it.
fn warned(route: &str, open: &Sender<()>) {
    let line = log::wait_for(&format!(" route={route} "));
    assert_eq!(line.level, Level::WARN);
    assert!(line.text.contains("a handler blocks its loop"), "{}", line.text);
    open.send(()).expect("the handler waits");
}

/// A server of one loop, which warns once a minute.
fn serve() -> (Sender<()>, Served) {
    log::keep();
    let (open, gate) = Gate::new();
    (open, Scene::tcp().serve_on(1, router(gate), Default::default()))
}

#[test]
fn a_handler_and_its_body_over_http1() {
    for path in ["/at-once", "/later", "/body"] {
        let (open, served) = serve();
        let mut peer = served.connect();
        peer.send(format!("GET {path}/1 HTTP/1.1\r\nhost: x\r\n\r\n"));
        warned(&format!("GET {path}/{{id}}"), &open);
        assert_eq!(peer.answer(false).text(), "done");
        let counters = served.running.loops().counters();
        assert_eq!(counters.iter().map(|one| one.stalls).sum::<u64>(), 1, "{counters:?}");
    }
}

#[test]
fn a_handler_and_its_body_over_http2() {
    for path in ["/at-once", "/later", "/body"] {
        let (open, gate) = Gate::new();
        log::keep();
        let router = Router::new().nest("/h2", router(gate));
        let served = Scene::tcp().serve_on(1, router, Default::default());
        let mut peer = H2::connect(&served);
        let stream = peer.get(&format!("/h2{path}/1"));
        warned(&format!("GET /h2{path}/{{id}}"), &open);
        assert_eq!(peer.answer(stream).text(), "done");
    }
}

#[test]
fn a_handler_behind_its_call_of_another_router() {
    for path in ["/at-once", "/later"] {
        log::keep();
        let (open, gate) = Gate::new();
        let inner = Router::new().get("/at-once", async || "done").get("/later", async || {
            tokio::task::yield_now().await;
            "done"
        });
        let calls = async move |state: State<(Gate, Arc<Router>)>| {
            let (gate, inner) = &*state;
            let answer = inner.call(Request::get(path)).await;
            gate.block();
            answer
        };
        let router = Router::new().get(&format!("/calls{path}"), calls).state((gate, Arc::new(inner)));
        let served = Scene::tcp().serve_on(1, router, Default::default());
        let mut peer = served.connect();
        peer.send(format!("GET /calls{path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        warned(&format!("GET /calls{path}"), &open);
        assert_eq!(peer.answer(false).text(), "done");
    }
}

#[test]
fn what_goes_on_behind_an_upgrade() {
    let (open, served) = serve();
    let mut peer = served.connect();
    peer.send("GET /upgrade/1 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: toy\r\n\r\n");
    warned("GET /upgrade/{id}", &open);
    served.await_count("connections_open", |counters| counters.connections_open, 0);
}

#[test]
fn a_task_beside_the_handlers_is_none_of_them() {
    let (open, served) = serve();
    // A handler has run before, and has ended.
    open.send(()).expect("the handler waits");
    assert_eq!(served.ask("GET /at-once/1 HTTP/1.1\r\nhost: x\r\n\r\n").text(), "done");
    let (open, gate) = Gate::new();
    let one = served.running.loops().get(0);
    let task = one.spawn(move || async move { gate.block() });
    let line = log::wait_for("a task blocks its loop");
    assert_eq!((line.level, line.text.contains(" route=")), (Level::WARN, false), "{}", line.text);
    open.send(()).expect("the task waits");
    task.wait().expect("no panic");
}

#[cfg(feature = "udp")]
#[test]
fn a_handler_of_datagrams() {
    use anywire_server::udp::{Datagram, Replies, UdpServer};
    log::keep();
    let (open, gate) = Gate::new();
    let make = move || {
        let gate = gate.clone();
        move |_: &Datagram<'_>, _: &mut Replies<'_>| gate.block()
    };
    let running = UdpServer::new(make).loops(1).listen("udp:127.0.0.1:0").start().expect("a free port");
    let address = running.addresses()[0].clone();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.send_to(b"x", address.socket_addr().expect("an IP address")).expect("over loopback");
    warned(&address.to_string(), &open);
}
