//! A peer that ends its direction still gets its answers, in each version of HTTP; one that resets the connection takes its
//! handler with it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::clock::{StillLoop, pass};
use crate::support::h2::{Came, H2};
use crate::support::{Peer, Scene, Told};
use anywire_http::h2::{self, Code};
use anywire_http::{Body, BodyError};
use anywire_server::{Limits, Request, Router, Server, State};
use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::Notify;

/// Tells when whatever holds it ends.
struct Ends(Sender<&'static str>);

impl Drop for Ends {
    fn drop(&mut self) {
        // The test may be over.
        let _ = self.0.send("ended");
    }
}

/// A body that never says anything.
struct Silent(#[expect(dead_code, reason = "it is there to be dropped")] Ends);

impl Stream for Silent {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

#[derive(Clone)]
struct Stage {
    told: Sender<&'static str>,
    gate: Arc<Notify>,
}

fn staged() -> (Router, Told<&'static str>, Arc<Notify>) {
    let (told, tales) = crate::support::channel();
    let gate = Arc::new(Notify::new());
    let router = Router::new()
        .state(Stage { told, gate: Arc::clone(&gate) })
        .get("/large", async || Bytes::from_static(&[b'x'; 200_000]))
        .get("/never", async |stage: State<Stage>| {
            let _ends = Ends(stage.told.clone());
            stage.told.send("started").expect("the test listens");
            std::future::pending::<()>().await;
        })
        .get("/silent", async |stage: State<Stage>| {
            stage.told.send("started").expect("the test listens");
            Body::stream(Silent(Ends(stage.told.clone())))
        })
        .get("/gated", async |stage: State<Stage>| {
            stage.told.send("started").expect("the test listens");
            stage.gate.notified().await;
            "answered"
        })
        .get("/asks", async |stage: State<Stage>, request: Request| {
            stage.told.send("started").expect("the test listens");
            request.peer_gone().await;
            stage.told.send("gone").expect("the test listens");
            "knows"
        })
        .post("/reads-and-asks", async |stage: State<Stage>, request: Request| {
            let (parts, mut body) = request.into_parts();
            stage.told.send("started").expect("the test listens");
            body.bytes(100).await.expect_err("it is cut short");
            parts.peer_gone().await;
            stage.told.send("gone").expect("the test listens");
            "knows"
        })
        .get("/asks-and-is-kept", async |stage: State<Stage>, request: Request| {
            let gone = request.peer_gone();
            drop(anywire_loops::spawn(async move {
                let _kept = request;
                std::future::pending::<()>().await;
            }));
            stage.told.send("started").expect("the test listens");
            gone.await;
            stage.told.send("gone").expect("the test listens");
            "knows"
        })
        .get("/asks-elsewhere", async |stage: State<Stage>, request: Request| {
            let asking = anywire_loops::spawn(request.peer_gone());
            stage.told.send("started").expect("the test listens");
            asking.await.expect("it runs to its end");
            "knows"
        });
    (router, tales, gate)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

#[test]
fn a_half_closed_peer_is_answered() {
    crate::support::on_each_wire(|scene| {
        let (router, tales, gate) = staged();
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send(get("/gated") + &get("/asks-and-is-kept") + &get("/asks") + &get("/gated"));
        peer.half_close();
        assert_eq!(tales.next(), "started");
        gate.notify_one();
        assert_eq!(peer.answer(false).text(), "answered");
        // Of the next ones the end is known before they begin.
        for _ in 0..2 {
            assert_eq!([tales.next(), tales.next()], ["started", "gone"]);
            assert_eq!(peer.answer(false).text(), "knows");
        }
        assert_eq!(tales.next(), "started");
        gate.notify_one();
        assert_eq!(peer.answer(false).text(), "answered");
        peer.assert_closed();
    });
}

#[test]
fn a_handler_learns_that_its_peer_has_ended() {
    crate::support::on_each_wire(|scene| {
        let (router, tales, _) = staged();
        let served = scene.serve(router);
        for path in ["/asks", "/asks-elsewhere"] {
            let mut peer = served.connect();
            // The server reads the second request ahead, and so sees the end behind it.
            peer.send(get(path) + &get("/nowhere"));
            assert_eq!(tales.next(), "started");
            peer.half_close();
            if path == "/asks" {
                assert_eq!(tales.next(), "gone");
            }
            assert_eq!(peer.answer(false).text(), "knows");
            assert_eq!(peer.answer(false).status, 404);
            peer.assert_closed();
        }
    });
}

/// A body that gives one chunk each time its gate opens, twice, and then ends.
async fn two_chunks(gate: Arc<Notify>) -> Body {
    let (mut sender, body) = Body::channel(1024);
    drop(anywire_loops::spawn(async move {
        for _ in 0..2 {
            gate.notified().await;
            sender.try_send(Bytes::from_static(b"some")).expect("there is room");
        }
        sender.finish();
    }));
    body.with_length(8)
}

#[test]
fn an_end_that_was_seen_while_an_answer_streamed_is_told_to_the_next_handler() {
    crate::support::on_each_wire(|scene| {
        let (router, tales, gate) = staged();
        let router = router.get("/chunks", async |stage: State<Stage>| two_chunks(stage.gate.clone()).await);
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send(get("/chunks") + &get("/asks"));
        peer.half_close();
        gate.notify_one();
        assert_eq!(peer.head().header("content-length"), Some("8"));
        // The server looks for the end of input before it writes a chunk.
        assert_eq!(peer.read_exactly(4), b"some");
        gate.notify_one();
        assert_eq!(peer.read_exactly(4), b"some");
        assert_eq!([tales.next(), tales.next()], ["started", "gone"]);
        assert_eq!(peer.answer(false).text(), "knows");
        peer.assert_closed();
    });
}

#[test]
fn requests_beyond_what_is_read_ahead_are_answered_too() {
    crate::support::on_each_wire(|scene| {
        const REQUESTS: usize = 2_000;
        let (router, tales, gate) = staged();
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send(get("/gated"));
        assert_eq!(tales.next(), "started");
        peer.send(get("/nowhere").repeat(REQUESTS));
        // The server reads ahead meanwhile, as far as it does.
        (0..20).for_each(|_| served.assert_alive());
        gate.notify_one();
        assert_eq!(peer.answer(false).text(), "answered");
        (0..REQUESTS).for_each(|_| assert_eq!(peer.answer(false).status, 404));
    });
}

#[test]
fn a_handler_learns_that_its_peer_has_ended_within_the_body() {
    crate::support::on_each_wire(|scene| {
        let (router, tales, _) = staged();
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send("POST /reads-and-asks HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nshort");
        assert_eq!(tales.next(), "started");
        peer.half_close();
        assert_eq!(tales.next(), "gone");
        assert_eq!(peer.answer(false).text(), "knows");
        peer.assert_closed();
    });
}

#[test]
fn over_http2_each_stream_is_answered() {
    crate::support::on_each_wire(|scene| {
        let (router, tales, gate) = staged();
        // The end of the input tells the reader of a body, and no timeout.
        let limits =
            Limits { body_timeout: Duration::MAX, min_rate_grace: Duration::MAX, ..Limits::default() };
        let served = scene.serve_on(1, router, limits);
        let mut peer = H2::connect(&served);
        assert_eq!(peer.ask("/nowhere").status(), 404);
        let gated = peer.get("/gated");
        assert_eq!(tales.next(), "started");
        let asks = peer.get("/asks");
        assert_eq!(tales.next(), "started");
        let reads = peer.open("POST", "/reads-and-asks", &[], Some(10), false);
        peer.body(reads, b"short", false);
        assert_eq!(tales.next(), "started");
        // With half a frame behind them.
        peer.raw(&[0, 0, 8, 6]);
        peer.half_close();
        assert_eq!([tales.next(), tales.next()], ["gone", "gone"]);
        for id in [asks, reads] {
            assert_eq!(peer.answer(id).text(), "knows");
        }
        gate.notify_one();
        assert_eq!(peer.answer(gated).text(), "answered");
        assert_eq!(peer.end(), Some(Code::NO_ERROR));
        let counters = served.running.counters();
        assert_eq!((counters.abandoned, counters.bad_requests), (0, 0), "{counters:?}");
    });
}

/// Of a request whose handler has not begun when the end is read, and of a body that takes long to leave.
#[test]
fn over_http2_all_that_came_before_the_end_is_answered() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new().get("/large", async || Bytes::from(vec![b'x'; 1_000_000]));
        let served = scene.serve(router);
        // It cannot open its windows any more.
        let windows = (1 << 30, 1 << 30);
        let limits = h2::Limits {
            stream_window_bytes: windows.0,
            connection_window_bytes: windows.1,
            ..h2::Limits::default()
        };
        let mut peer = H2::connect_with(&served, limits);
        let ids: Vec<_> = (0..10).map(|_| peer.get("/large")).collect();
        peer.half_close();
        for id in ids {
            assert_eq!(peer.answer(id).body.len(), 1_000_000);
        }
        // The server may see the end before or behind its last answer.
        assert!(matches!(peer.end(), None | Some(Code::NO_ERROR)));
    });
}

#[test]
fn over_http2_it_waits_for_its_answers_for_so_long() {
    crate::support::on_each_wire(|scene| {
        for path in ["/never", "/silent"] {
            let (router, tales, _) = staged();
            let limits = Limits { half_close_timeout: Duration::from_millis(1), ..Limits::default() };
            let served = scene.serve_with(router, limits);
            let mut peer = H2::connect(&served);
            assert_eq!(peer.ask("/nowhere").status(), 404);
            let id = peer.get(path);
            assert_eq!(tales.next(), "started");
            peer.half_close();
            assert_eq!(tales.next(), "ended");
            loop {
                match peer.next() {
                    Came::Reset(of, code) if of == id => break assert_eq!(code, Code::CANCEL),
                    Came::GoAway(_, Code::NO_ERROR) | Came::Head(..) => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(matches!(peer.next(), Came::End));
            served.await_count("timeouts", |counters| counters.half_close_timeouts, 1);
        }
    });
}

/// What has been written waits for the peer to read, and that has a deadline of its own.
#[test]
fn over_http2_a_peer_that_reads_slowly_gets_all_of_its_answer() {
    const BYTES: usize = 8 << 20;
    let clock = StillLoop::start();
    let router = Router::new().get("/large", async || Bytes::from(vec![b'x'; BYTES]));
    let limits = Limits { half_close_timeout: Duration::from_millis(500), ..Limits::default() };
    let served = clock.serve(&Scene::tcp(), Server::new(router).limits(limits));
    let windows = h2::Limits {
        stream_window_bytes: 1 << 30,
        connection_window_bytes: 1 << 30,
        ..h2::Limits::default()
    };
    let mut peer = H2::connect_with(&served, windows);
    let id = peer.get("/large");
    peer.half_close();
    let mut received = 0;
    while received < BYTES {
        match peer.next() {
            Came::Data(of, data, _) if of == id => {
                received += data.len();
                clock.run(|| pass(Duration::from_millis(50)));
            }
            Came::GoAway(_, Code::NO_ERROR) | Came::Head(..) => {}
            other => panic!("{other:?} after {received} bytes"),
        }
    }
    assert_eq!(served.running.counters().half_close_timeouts, 0);
}

#[test]
fn over_http2_no_answer_waits_for_a_window_that_cannot_open() {
    let (router, _tales, _) = staged();
    let half_close_timeout = Duration::from_millis(100);
    let served = Scene::tcp().serve_with(router, Limits { half_close_timeout, ..Limits::default() });
    let mut peer = H2::connect(&served);
    assert_eq!(peer.ask("/nowhere").status(), 404);
    peer.reads = false;
    let id = peer.get("/large");
    peer.half_close();
    loop {
        match peer.next() {
            Came::Reset(of, code) if of == id => break assert_eq!(code, Code::CANCEL),
            Came::GoAway(_, Code::NO_ERROR) | Came::Head(..) | Came::Data(_, _, false) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(peer.next(), Came::End));
    served.await_count("timeouts", |counters| counters.half_close_timeouts, 1);
}

#[test]
fn a_reset_ends_the_handler() {
    crate::support::on_each_wire(|scene| {
        for path in ["/never", "/silent"] {
            reset_while_it_works(scene, path);
        }
    });
}

/// What it sent may hide that it has left: more than is read ahead.
#[test]
fn a_peer_that_has_sent_much_and_left_ends_a_silent_response() {
    crate::support::on_each_wire(|scene| {
        for leaves in [Peer::reset, drop] {
            let (router, tales, _) = staged();
            let half_close_timeout = Duration::from_millis(100);
            let served = scene.serve_with(router, Limits { half_close_timeout, ..Limits::default() });
            let mut peer = served.connect();
            peer.send(get("/silent") + &get("/nowhere").repeat(MANY));
            assert_eq!(tales.next(), "started");
            peer.head();
            leaves(peer);
            assert_eq!(tales.next(), "ended");
            served.assert_alive();
        }
    });
}

/// As long as a response is silent for less, all requests behind it are answered.
#[test]
fn requests_behind_a_silent_response_are_answered_if_it_goes_on() {
    let half_close_timeout = Limits::default().half_close_timeout;
    for (silent_for, answers) in [(half_close_timeout / 2, MANY), (half_close_timeout, 0)] {
        let (clock, gate) = (StillLoop::start(), Arc::new(Notify::new()));
        let opened = Arc::clone(&gate);
        let router = Router::new().get("/late", async move || {
            let (mut sender, body) = Body::channel(100);
            let opened = Arc::clone(&opened);
            drop(anywire_loops::spawn(async move {
                for part in ["one", "two"] {
                    sender.send(Bytes::from_static(part.as_bytes())).await.expect("it is read");
                    opened.notified().await;
                }
                sender.finish();
            }));
            body
        });
        let served = clock.serve(&Scene::at("memory:"), Server::new(router));
        let mut peer = served.connect();
        peer.send(get("/late") + &get("/nowhere").repeat(MANY));
        peer.head();
        for part in [&b"one"[..], b"two"] {
            assert_eq!(peer.chunk().as_deref(), Some(part));
            clock.run(move || pass(silent_for));
            gate.notify_one();
        }
        assert_eq!(peer.chunk(), None);
        for _ in 0..answers {
            assert_eq!(peer.answer(false).status, 404);
        }
        if answers == 0 {
            peer.assert_closed();
        }
        served.assert_alive();
    }
}

/// So many requests are more than the server reads ahead.
const MANY: usize = 400;

fn reset_while_it_works(scene: &Scene, path: &str) {
    let (router, tales, _) = staged();
    let served = scene.serve(router);
    let mut peer = served.connect();
    peer.send(get(path));
    assert_eq!(tales.next(), "started");
    if path == "/silent" {
        // The server waits once this has left, so that the reset does not meet it writing.
        peer.head();
    }
    peer.reset();
    // A Unix socket knows no reset, unless something was not read: there it is an end.
    if !scene.is("unix") {
        assert_eq!(tales.next(), "ended");
        served.await_count("abandoned", |counters| counters.abandoned, 1);
    }
    served.assert_alive();
}
