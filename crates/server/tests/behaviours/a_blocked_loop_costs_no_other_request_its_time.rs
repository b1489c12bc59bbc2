//! A deadline is late, and never early, by as long as a handler has blocked the loop: for what came meanwhile, or began behind
//! it, that time does not count.
//!
//! Handlers block for longer than a deadline. The assertions say what happened, never when.

use std::thread::sleep;
use std::time::Duration;

use anywire_http::Body;
use anywire_server::{Limits, Router};

use crate::support::h2::{ACK, DATA, H2, PING, frame};
use crate::support::{Scene, Served, Told};

const DEADLINE: Duration = Duration::from_secs(1);

/// Longer than the deadline.
const BLOCKED: Duration = Duration::from_millis(1500);

/// A server on one loop, and when `/blocks` begins to block it.
fn serve(limits: Limits) -> (Served, Told<()>) {
    serve_at(&Scene::tcp(), limits)
}

fn serve_at(scene: &Scene, limits: Limits) -> (Served, Told<()>) {
    let (told, tales) = crate::support::channel();
    let router = Router::new()
        .get("/", async || "ok")
        .get("/blocks", async move || {
            told.send(()).expect("the test listens");
            sleep(BLOCKED);
            "blocked"
        })
        .get("/blocks-for-a-while", async || sleep(DEADLINE / 4))
        .get("/waits", async || {
            tokio::time::sleep(DEADLINE / 20).await;
            "waited"
        })
        .post("/reads", async |mut body: Body| {
            while body.chunk().await.expect("the peer goes on").is_some() {}
            tokio::time::sleep(DEADLINE / 20).await;
            "read"
        });
    (scene.serve_on(1, router, limits), tales)
}

fn handler_timeout() -> Limits {
    Limits { handler_timeout: DEADLINE, ..Limits::default() }
}

#[test]
fn a_stream_that_begins_behind_the_block_has_its_whole_time() {
    let (served, _tales) = serve(handler_timeout());
    let mut peer = H2::connect(&served);
    let blocks = peer.open_later("GET", "/blocks", &[], None, true);
    let waits = peer.get("/waits");
    assert_eq!(peer.answer(waits).text(), "waited");
    // It answers for its own time, but had answered when that was looked at.
    assert_eq!(peer.answer(blocks).text(), "blocked");
    assert_eq!(served.running.counters().handler_timeouts, 0);
}

#[test]
fn a_stream_that_became_ready_meanwhile_is_answered() {
    let (served, tales) = serve(handler_timeout());
    let mut peer = H2::connect(&served);
    let waits = peer.get("/waits");
    served.await_count("requests", |counters| counters.requests, 1);
    peer.get("/blocks");
    tales.next();
    assert_eq!(peer.answer(waits).text(), "waited");
    assert_eq!(served.running.counters().handler_timeouts, 0);
}

#[test]
fn a_handler_does_not_answer_for_its_neighbours_while_it_waits_for_its_peer() {
    let (served, _tales) = serve(handler_timeout());
    let mut peer = H2::connect(&served);
    let reads = peer.open("POST", "/reads", &[], None, false);
    for _ in 0..6 {
        let blocks = peer.open_later("GET", "/blocks-for-a-while", &[], None, true);
        // Behind that request in one read, so that both are worked on in one turn.
        peer.out.extend(frame(DATA, 0, reads.get(), b"x"));
        peer.flush();
        assert_eq!(peer.answer(blocks).status(), 200);
    }
    peer.body(reads, b"x", true);
    assert_eq!(peer.answer(reads).text(), "read");
    assert_eq!(served.running.counters().handler_timeouts, 0);
}

#[test]
fn a_connection_of_http2_is_idle_from_its_last_answer_on() {
    let (served, _tales) = serve(Limits { idle_timeout: DEADLINE, ..Limits::default() });
    let mut peer = H2::connect(&served);
    assert_eq!(peer.ask("/blocks").text(), "blocked");
    assert_eq!(peer.ask("/").text(), "ok");
    assert_eq!(served.running.counters().idle_timeouts, 0);
}

#[test]
fn a_frame_that_began_behind_the_block_has_its_whole_time() {
    // In memory the start of it is read in the turn that was blocked.
    crate::support::on_each_wire(|scene| {
        let (served, tales) = serve_at(scene, Limits { head_timeout: DEADLINE, ..Limits::default() });
        let mut peer = H2::connect(&served);
        // Behind it nothing more is to be said of the connection's start.
        assert_eq!(peer.ask("/").text(), "ok");
        let blocks = peer.get("/blocks");
        tales.next();
        let ping = frame(PING, ACK, 0, &[0; 8]);
        peer.raw(&ping[..5]);
        assert_eq!(peer.answer(blocks).text(), "blocked");
        peer.raw(&ping[5..]);
        assert_eq!(peer.ask("/").text(), "ok");
        assert_eq!(served.running.counters().head_timeouts, 0);
    });
}

#[test]
fn a_first_head_that_came_meanwhile_is_read() {
    let (served, tales) = serve(Limits { head_timeout: DEADLINE, ..Limits::default() });
    let (mut peer, mut other) = (served.connect(), served.connect());
    peer.send("GET / HTTP/1.1\r\n");
    // The loop has read the half by the time it has answered this.
    other.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(other.answer(false).text(), "ok");
    other.send("GET /blocks HTTP/1.1\r\nhost: x\r\n\r\n");
    tales.next();
    peer.send("host: x\r\n\r\n");
    assert_eq!(other.answer(false).text(), "blocked");
    assert_eq!(peer.answer(false).text(), "ok");
    assert_eq!(served.running.counters().head_timeouts, 0);
}
