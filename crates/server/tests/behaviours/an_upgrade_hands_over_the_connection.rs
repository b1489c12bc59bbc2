//! A handler that answers 101 gets the connection, with the bytes that came behind the request. HTTP's deadlines no
//! longer apply to it; the limit of connections, the counters and the shutdown do.

use std::sync::Arc;
use std::time::Duration;

use crate::support::Scene;
use anywire_http::{Response, StatusCode};
use anywire_server::{Counters, Limits, Request, Router, State, Upgrade, Upgraded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

const ASK: &str =
    "GET /toy HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, Upgrade\r\nupgrade: other, TOY\r\n\r\n";

/// The toy protocol: each byte is answered by the next one of the alphabet, until `!`.
async fn toy(mut connection: Upgraded) {
    while let Ok(byte) = connection.read_u8().await {
        assert_ne!(byte, b'?', "the protocol has no questions");
        if byte == b'!' || connection.write_all(&[byte + 1]).await.is_err() {
            return;
        }
        // A wire may hold bytes back until they are flushed.
        if connection.flush().await.is_err() {
            return;
        }
    }
}

fn router() -> Router {
    Router::new()
        .get("/", async || "ok")
        .get("/toy", async |upgrade: Upgrade| upgrade.accept("toy", toy))
        .post("/toy", async |upgrade: Upgrade| upgrade.accept("toy", toy))
        .get("/changes-its-mind", async |upgrade: Upgrade| {
            drop(upgrade.accept("toy", toy));
            "no toys today"
        })
        .get("/by-hand", async || Response::new(StatusCode::SWITCHING_PROTOCOLS))
        .get("/beside", async |upgrade: Upgrade| {
            let _accepted = upgrade.accept("toy", toy);
            Response::new(StatusCode::SWITCHING_PROTOCOLS)
        })
        .get("/over-a-thread", async |upgrade: Upgrade| {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let response = upgrade.accept("toy", toy);
            std::thread::spawn(move || sender.send(response));
            receiver.await.expect("the thread sends it back")
        })
}

#[test]
fn bytes_behind_the_request_are_read_first() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let mut peer = served.connect();
        // An ordinary request before it is answered before it.
        peer.send(format!("GET / HTTP/1.1\r\nhost: x\r\n\r\n{ASK}abc"));
        assert_eq!(peer.answer(false).text(), "ok");
        let head = peer.head();
        assert_eq!(head.status, 101);
        assert_eq!((head.header("connection"), head.header("upgrade")), (Some("upgrade"), Some("toy")));
        assert_eq!((head.header("content-length"), head.header("transfer-encoding")), (None, None));
        assert_eq!(peer.read_exactly(3), b"bcd");
        peer.send("x");
        assert_eq!(peer.read_exactly(1), b"y");
        let Counters { connections_open, upgrades, requests, .. } = served.running.counters();
        assert_eq!((connections_open, upgrades, requests), (1, 1, 2));
        peer.send("!");
        peer.assert_closed();
        served.await_count("connections", |counters| counters.connections_open, 0);
    });
}

#[test]
fn requests_that_do_not_ask_for_it_are_refused() {
    let served = crate::support::serve(router());
    let status = |request: &str| served.ask(request).status;
    assert_eq!(status("GET /toy HTTP/1.1\r\nhost: x\r\n\r\n"), 400);
    assert_eq!(status("GET /toy HTTP/1.1\r\nhost: x\r\nupgrade: toy\r\n\r\n"), 400);
    assert_eq!(status("GET /toy HTTP/1.0\r\nhost: x\r\nconnection: upgrade\r\nupgrade: toy\r\n\r\n"), 400);
    // It asks what GET would answer, and a checker that sends it speaks no other protocol.
    let mut peer = served.connect();
    peer.send(ASK.replace("GET", "HEAD"));
    assert_eq!(peer.answer(true).status, 400);
    let other = served.ask("GET /toy HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n");
    assert_eq!((other.status, other.header("upgrade")), (426, Some("toy")));
    // The sender of an `Upgrade` field names it in `Connection` (RFC 9110 section 7.8).
    assert_eq!(other.header("connection"), Some("upgrade"));
}

#[test]
fn the_field_goes_with_its_option() {
    let router = router().get("/advertises", async || Response::new(StatusCode::OK).header("upgrade", "h2c"));
    let served = crate::support::serve(router);
    let refused = ASK.replace("TOY", "none");
    for (ask, status) in [(ASK, 101), (&refused, 426), ("GET /advertises HTTP/1.1\r\nhost: x\r\n\r\n", 200)] {
        let answer = served.ask(ask);
        let fields = (answer.header("upgrade").is_some(), answer.header("connection"));
        assert_eq!((answer.status, fields), (status, (true, Some("upgrade"))));
    }
}

#[test]
fn the_connection_stays_with_http_unless_the_response_is_101() {
    let served = crate::support::serve(router());
    let mut peer = served.connect();
    peer.send(ASK.replace("/toy", "/changes-its-mind"));
    assert_eq!(peer.answer(false).text(), "no toys today");
    peer.send("GET /by-hand HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).status, 500, "there is no continuation");
    peer.send(ASK.replace("/toy", "/beside"));
    assert_eq!(peer.answer(false).status, 500, "the continuation goes with its own response");
    // A body that the handler leaves unread would be taken for the other protocol. It is the peer who sent it.
    peer.send(ASK.replace("GET", "POST").replace("host", "content-length: 5\r\nhost"));
    assert_eq!(peer.answer(false).status, 400);
    let Counters { upgrades, failures, refused, .. } = served.running.counters();
    assert_eq!((upgrades, failures, refused), (0, 2, 1));
}

#[test]
fn the_response_carries_it_from_thread_to_thread() {
    let served = crate::support::serve(router());
    let mut peer = served.connect();
    peer.send(format!("{}a", ASK.replace("/toy", "/over-a-thread")));
    assert_eq!(peer.head().status, 101);
    assert_eq!(peer.read_exactly(1), b"b");
}

#[test]
fn deadlines_of_http_no_longer_apply() {
    crate::support::on_each_wire(|scene| {
        let short = Duration::from_millis(1);
        let limits = Limits { idle_timeout: short, handler_timeout: short, ..Limits::default() };
        let served = scene.serve_on(1, router(), limits);
        let mut peer = served.connect();
        peer.send(ASK);
        assert_eq!(peer.head().status, 101);
        // A connection that is idle for as long is closed meanwhile.
        let mut idle = served.connect();
        idle.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        idle.rest();
        served.await_count("idle timeouts", |counters| counters.idle_timeouts, 1);
        peer.send("a");
        assert_eq!(peer.read_exactly(1), b"b");
    });
}

#[test]
fn it_takes_its_place_in_the_limit_of_connections() {
    crate::support::on_each_wire(|scene| {
        if scene.has_handshake() {
            // Dialling the second would not end: its handshake waits for the server.
            return;
        }
        let limits = Limits { connections: Some(1), ..Limits::default() };
        let served = scene.serve_on(1, router(), limits);
        let mut peer = served.connect();
        peer.send(ASK);
        assert_eq!(peer.head().status, 101);
        let mut next = served.connect();
        next.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        peer.send("a");
        assert_eq!(peer.read_exactly(1), b"b");
        assert_eq!(served.running.counters().connections, 1, "the next one waits");
        peer.send("!");
        assert_eq!(next.answer(false).text(), "ok");
    });
}

#[test]
fn a_shutdown_waits_for_it_and_cuts_it_at_the_deadline() {
    crate::support::on_each_wire(|scene| {
        let upgraded = |scene: &Scene| {
            let served = scene.serve(router());
            let mut peer = served.connect();
            peer.send(format!("{ASK}a"));
            assert_eq!(peer.head().status, 101);
            assert_eq!(peer.read_exactly(1), b"b");
            (served, peer)
        };
        let (served, mut peer) = upgraded(scene);
        assert_eq!(served.running.shutdown(Duration::from_millis(100)).wait().connections_cut, 1);
        peer.assert_closed();

        let (served, mut peer) = upgraded(&scene.elsewhere());
        let stopping = served.running.shutdown(crate::support::HANG);
        peer.send("a!");
        assert_eq!(peer.rest(), b"b");
        assert_eq!(stopping.wait().connections_cut, 0);
    });
}

#[test]
fn a_shutdown_is_told_to_it() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new().get("/toy", async |upgrade: Upgrade, request: Request| {
            let stopping = request.stopping();
            upgrade.accept("toy", async move |mut connection| {
                stopping.await;
                let _ = connection.write_all(b"bye").await;
                let _ = connection.flush().await;
            })
        });
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send(ASK);
        assert_eq!(peer.head().status, 101);
        let stopping = served.running.shutdown(crate::support::HANG);
        assert_eq!(peer.rest(), b"bye");
        assert_eq!(stopping.wait().connections_cut, 0);
    });
}

#[test]
fn it_counts_as_open_in_a_task_of_its_own() {
    let gate = Arc::new(Notify::new());
    let router = Router::new().state(Arc::clone(&gate)).get(
        "/toy",
        async |State(gate): State<Arc<Notify>>, upgrade: Upgrade| {
            upgrade.accept("toy", async move |connection| {
                drop(anywire_loops::spawn(async move {
                    gate.notified().await;
                    drop(connection);
                }));
            })
        },
    );
    let served = crate::support::serve(router);
    let mut peer = served.connect();
    peer.send(ASK);
    assert_eq!(peer.head().status, 101);
    // The connection's own task has ended before another connection is answered.
    served.assert_alive();
    served.await_count("connections", |counters| counters.connections_open, 1);
    gate.notify_one();
    peer.assert_closed();
    served.await_count("connections", |counters| counters.connections_open, 0);
}

#[test]
fn a_late_accept_is_dropped() {
    let kept = Arc::new(());
    let router = Router::new().state(Arc::clone(&kept)).get(
        "/toy",
        async |State(kept): State<Arc<()>>, upgrade: Upgrade, request: Request| {
            let kept = Arc::clone(&kept);
            drop(anywire_loops::spawn(async move {
                // The handler has answered by now.
                tokio::task::yield_now().await;
                drop(upgrade.accept("toy", async move |_| drop(kept)));
            }));
            drop(request);
            "no toys"
        },
    );
    // Each loop makes its clones of states when it serves for the first time.
    let served = Scene::tcp().serve_on(1, router, Limits::default());
    served.assert_alive();
    let clones = Arc::strong_count(&kept);
    let mut peer = served.connect();
    for _ in 0..2 {
        peer.send(ASK);
        assert_eq!(peer.answer(false).text(), "no toys");
    }
    // What the continuation holds goes with it, though its connection stays.
    served.await_count("values held", |_| Arc::strong_count(&kept) as u64, clones as u64);
    assert_eq!(served.running.counters().upgrades, 0);
}

#[test]
fn a_panic_of_it_is_counted_and_ends_its_connection_alone() {
    let served = crate::support::serve(router());
    let mut peer = served.connect();
    peer.send(format!("{ASK}?"));
    assert_eq!(peer.head().status, 101);
    peer.assert_closed();
    served.await_count("panics", |counters| counters.panics, 1);
    served.assert_alive();
}

#[test]
fn the_continuation_may_hold_what_lives_on_the_loop() {
    let gate = Arc::new(Notify::new());
    let router = Router::new().state(Arc::clone(&gate)).get(
        "/toy",
        async |State(gate): State<Arc<Notify>>, upgrade: Upgrade| {
            // `gate` is an `Rc` and not `Send`.
            upgrade.accept("toy", async move |connection| {
                gate.notified().await;
                drop(connection);
            })
        },
    );
    let served = crate::support::serve(router);
    let mut peer = served.connect();
    peer.send(ASK);
    assert_eq!(peer.head().status, 101);
    gate.notify_one();
    peer.assert_closed();
    served.await_count("connections", |counters| counters.connections_open, 0);
}

#[test]
fn a_continuation_goes_with_a_request_that_is_given_up() {
    /// Tells when it is dropped.
    struct Held(std::sync::mpsc::Sender<()>);

    impl Drop for Held {
        fn drop(&mut self) {
            // The test may be over.
            let _ = self.0.send(());
        }
    }

    crate::support::on_each_wire(|scene| {
        let (told, dropped) = crate::support::channel::<()>();
        let router = Router::new().state(told).get(
            "/toy",
            async |State(told): State<std::sync::mpsc::Sender<()>>, upgrade: Upgrade| {
                let held = Held((*told).clone());
                let response = upgrade.accept("toy", async move |_| drop(held));
                std::future::pending::<()>().await;
                response
            },
        );
        let limits = Limits { handler_timeout: Duration::from_millis(1), ..Limits::default() };
        let served = scene.serve_with(router, limits);
        let mut peer = served.connect();
        peer.send(ASK);
        assert_eq!(peer.answer(false).status, 503);
        dropped.next();
    });
}
