//! A connection that was idle for too long ends by a half-close, and is read for a while: a request that crosses with this end
//! is not reset (RFC 9112 9.6).

use std::time::Duration;

use anywire_server::{Limits, Router};

use crate::support::{HANG, Scene};

#[test]
fn the_peer_reads_the_end() {
    crate::support::on_each_wire(|scene| {
        let limits = Limits { idle_timeout: Duration::from_millis(50), ..Limits::default() };
        let served = scene.serve_with(Router::new().get("/", async || "ok"), limits);
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "ok");
        assert_eq!(peer.rest_and_end(), (Vec::new(), true));
        assert_eq!(served.running.counters().idle_timeouts, 1);
        drop(peer);
        served.await_count("connections_open", |counters| counters.connections_open, 0);
    });
}

#[test]
fn a_request_that_crosses_with_the_end_is_not_reset() {
    let limits =
        Limits { idle_timeout: Duration::from_millis(50), linger_timeout: HANG, ..Limits::default() };
    let served = Scene::tcp().serve_with(Router::new().get("/", async || "ok"), limits);
    let mut peer = served.connect_tcp();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    peer.assert_closed();
    // A reset would come with the first, and fail the second.
    for _ in 0..3 {
        peer.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    }
    drop(peer);
    served.await_count("connections_open", |counters| counters.connections_open, 0);
}
