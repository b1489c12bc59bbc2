//! What one request has used of its deadlines is not counted for the next one of its connection.
//!
//! Each step takes a small part of a deadline, and all steps together take more than the deadline. The assertions say
//! what happened, never when.

use std::time::Duration;

use anywire_server::{Limits, Router};
use bytes::Bytes;

const DEADLINE: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(50);
const STEPS: usize = 40;

#[test]
fn a_handler_does_not_answer_for_those_before_it() {
    let limits = Limits { handler_timeout: DEADLINE, ..Limits::default() };
    let router = Router::new().get("/", async || tokio::time::sleep(STEP).await);
    let served = crate::support::Scene::tcp().serve_with(router, limits);
    let mut peer = served.connect();
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(STEPS));
    for request in 0..STEPS {
        assert_eq!(peer.answer(false).status, 200, "request {request}");
    }
}

#[test]
fn a_peer_that_takes_an_answer_does_not_answer_for_those_before_it() {
    // No byte earns time, so an answer has to be taken within the grace.
    let limits = Limits { min_rate_grace: DEADLINE, min_bytes_per_second: u64::MAX, ..Limits::default() };
    let router = || Router::new().get("/", async || Bytes::from_static(&[b'x'; 1024 * 1024]));
    crate::support::on_each_wire(|scene| {
        // The buffers of the kernel would take the whole answer.
        if !scene.is("memory") {
            return;
        }
        let served = scene.serve_with(router(), limits.clone());
        let mut peer = served.connect();
        for request in 0..STEPS {
            peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
            std::thread::sleep(STEP);
            assert_eq!(peer.answer(false).body.len(), 1024 * 1024, "request {request}");
        }
    });
}
