//! Behind the last answer the server ends its direction at once, and reads on for a while: a close with unread input
//! would be a reset, which can overtake the answer (RFC 9112 9.6).

use std::time::Duration;

use anywire_http::StatusCode;
use anywire_server::{Limits, Router};

#[test]
fn the_end_follows_at_once() {
    crate::support::on_each_wire(|scene| {
        // Only a half-close tells the peer before that.
        let limits = Limits { linger_timeout: Duration::from_secs(3600), ..Limits::default() };
        let served = scene.serve_with(Router::new().get("/", async || "last"), limits);
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "last");
        peer.assert_closed();
        drop(peer);
        served.await_count("connections_open", |counters| counters.connections_open, 0);
    });
}

#[test]
fn a_refusal_arrives_though_its_body_is_still_sent() {
    crate::support::on_each_wire(|scene| {
        let refuse = async || (StatusCode::PAYLOAD_TOO_LARGE, "too large");
        let served = scene.serve(Router::new().post("/", refuse));
        for _ in 0..20 {
            let mut peer = served.connect();
            peer.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\n");
            peer.send(vec![b'x'; 1_000_000]);
            let answer = peer.answer(false);
            assert_eq!((answer.status, answer.closes()), (413, true));
        }
    });
}
