//! What a peer may not send: it gets the right status and is closed, and other connections go on.

use std::time::Duration;

use crate::support::clock::{StillLoop, settle};
use crate::support::{Scene, Served};
use anywire_server::{Limits, Router, Server};
use anywire_wire::{DialOptions, Dialer};
use tokio::io::AsyncReadExt;

fn served(scene: &Scene) -> Served {
    scene.serve(
        Router::new().get("/", async || "ok").post("/", async |body: bytes::Bytes| body.len().to_string()),
    )
}

#[track_caller]
fn refused(served: &Served, request: impl AsRef<[u8]>, status: u16) {
    let mut peer = served.connect();
    peer.send(&request);
    let answer = peer.answer(false);
    assert_eq!(answer.status, status, "{:?}: {}", String::from_utf8_lossy(request.as_ref()), answer.text());
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(!answer.text().contains("raise"), "a peer raises no limit of ours: {}", answer.text());
    peer.assert_closed();
    served.assert_alive();
}

#[test]
fn garbage_is_400() {
    crate::support::on_each_wire(|scene| {
        let served = served(scene);
        refused(&served, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400);
        refused(&served, "GET\r\n\r\n", 400);
        refused(&served, "GET / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n", 400);
        assert!(served.running.counters().bad_requests >= 3);
    });
}

#[test]
fn smuggling_is_400() {
    crate::support::on_each_wire(|scene| {
        let served = served(scene);
        let both =
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
        refused(&served, both, 400);
        refused(
            &served,
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx",
            400,
        );
        refused(&served, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +1\r\n\r\nx", 400);
        refused(&served, "GET / HTTP/1.1\nhost: x\n\n", 400);
        refused(&served, "GET / HTTP/1.1\r\nhost: x\r\nfold: a\r\n b\r\n\r\n", 400);
        refused(&served, "GET / HTTP/1.1\r\n\r\n", 400);
    });
}

#[test]
fn other_versions_and_codings_are_named() {
    crate::support::on_each_wire(|scene| {
        let served = served(scene);
        refused(&served, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n", 501);
    });
}

#[test]
fn a_head_bomb_is_431() {
    crate::support::on_each_wire(|scene| {
        let served = served(scene);
        let big = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(20_000));
        refused(&served, big, 431);
        let many = format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "x: y\r\n".repeat(200));
        refused(&served, many, 431);
    });
}

#[test]
fn a_bad_chunk_is_400() {
    crate::support::on_each_wire(|scene| {
        let served = served(scene);
        refused(&served, "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400);
    });
}

/// RFC 9110 section 9.3.2: as soon as the method is known.
#[test]
fn a_refused_head_request_gets_no_content() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { head_timeout: Duration::from_secs(1), ..Limits::default() };
        let served = scene.serve_with(Router::new().get("/", async || "ok"), limits);
        let long = "y".repeat(20_000);
        for (request, status) in [
            ("HEAD / HTTP/1.1\r\n\r\n".to_owned(), 400),
            ("HEAD / HTTP/1.1\r\nhost: x\r\na b: c\r\n\r\n".to_owned(), 400),
            ("\r\nHEAD / HTTP/3.0\r\nhost: x\r\n\r\n".to_owned(), 505),
            (format!("HEAD /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), 414),
            (format!("HEAD / HTTP/1.1\r\nhost: x\r\nx: {long}\r\n\r\n"), 431),
            ("HEAD / HTTP/1.1\r\nho".to_owned(), 408),
        ] {
            let mut peer = served.connect();
            peer.send(&request);
            let answer = peer.answer(true);
            assert_eq!(answer.status, status, "{request:?}");
            assert!(answer.header("content-length").is_some_and(|length| length != "0"), "as for GET");
            peer.assert_closed();
        }
        // An error in place of a GET's content has one.
        let answer = served.ask("GET / HTTP/1.1\r\n\r\n");
        assert_eq!((answer.status, answer.text().is_empty()), (400, false));
    });
}

#[test]
fn half_a_head_and_silence_is_408() {
    crate::support::on_each_wire(|scene| {
        // Long enough for a peer on a busy machine to send the half, and to ask.
        let limits = Limits { head_timeout: Duration::from_secs(1), ..Limits::default() };
        let served = scene.serve_with(Router::new(), limits);
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost");
        assert_eq!(peer.answer(false).status, 408);
        peer.assert_closed();
        assert_eq!(served.running.counters().head_timeouts, 1);
        served.assert_alive();
    });
}

#[test]
fn a_head_that_came_in_time_is_answered_though_the_loop_was_busy() {
    let clock = StillLoop::start();
    let router = Router::new().get("/", async || "ok");
    let Served { running, address } = clock.serve(&Scene::at("memory:"), Server::new(router));
    let response = clock.run(move || async move {
        let mut peer = Dialer::new(DialOptions::default()).dial(&address).await.expect("it listens");
        peer.write_all(b"GET / HTTP/1.1\r\nconnection: close\r\n").await.expect("it reads");
        settle().await;
        peer.write_all(b"host: x\r\n\r\n").await.expect("it reads");
        // Nothing else runs until the time for the head is over.
        tokio::time::advance(2 * Limits::default().head_timeout).await;
        let mut response = String::new();
        peer.read_to_string(&mut response).await.expect("it ends in order");
        response
    });
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert_eq!(running.counters().head_timeouts, 0);
}

#[test]
fn a_connection_that_never_asks_is_closed() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { head_timeout: Duration::from_millis(200), ..Limits::default() };
        let served = scene.serve_with(Router::new(), limits);
        served.connect().assert_closed();
        assert_eq!(served.running.counters().head_timeouts, 1);
    });
}

#[test]
fn an_idle_connection_is_closed_in_time() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { idle_timeout: Duration::from_millis(200), ..Limits::default() };
        let served = scene.serve_with(Router::new().get("/", async || "ok"), limits);
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).status, 200);
        peer.assert_closed();
    });
}

#[test]
fn ten_gigabytes_declared_and_one_byte_sent() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { body_timeout: Duration::from_millis(200), ..Limits::default() };
        let router = Router::new().post("/", async |body: bytes::Bytes| body.len().to_string());
        let served = scene.serve_with(router, limits);
        let mut peer = served.connect();
        peer.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10737418240\r\n\r\nx");
        // The stated length is over the limit already, so not even the silence is waited for.
        assert_eq!(peer.answer(false).status, 413);
        peer.assert_closed();
        served.assert_alive();
    });
}

#[test]
fn a_body_that_stops_is_408() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { body_timeout: Duration::from_millis(200), ..Limits::default() };
        let router = Router::new().post("/", async |body: bytes::Bytes| body.len().to_string());
        let served = scene.serve_with(router, limits);
        let mut peer = served.connect();
        peer.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nx");
        assert_eq!(peer.answer(false).status, 408);
        peer.assert_closed();
        served.assert_alive();
    });
}

#[test]
fn a_body_cut_short_is_400() {
    crate::support::on_each_wire(|scene| {
        let served = served(scene);
        let mut peer = served.connect();
        peer.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nx");
        peer.half_close();
        assert_eq!(peer.answer(false).status, 400);
        peer.assert_closed();
    });
}
