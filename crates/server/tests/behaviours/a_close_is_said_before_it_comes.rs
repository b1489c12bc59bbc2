//! If the server closes a connection because a request's body was not read, the answer says `Connection: close`. If the
//! answer does not say so, the connection stays open.

use anywire_http::{Body, Response, StatusCode};
use anywire_server::{Limits, Router};

fn router() -> Router {
    Router::new()
        .get("/", async || "alive")
        .post("/ignores", async || "ignored")
        .post("/panics", async || -> String { panic!("on purpose") })
        .post("/panics-later", async || -> String {
            tokio::task::yield_now().await;
            panic!("on purpose")
        })
        .post("/reads-some", async |mut body: Body| {
            let some = body.chunk().await.expect("the peer sends it");
            some.map_or(0, |some| some.len()).to_string()
        })
}

/// Everybody who may leave a body unread: handlers, panics, and the router itself (404, 405).
const PATHS: [&str; 6] = ["/ignores", "/panics", "/panics-later", "/reads-some", "/nowhere", "/"];

fn length(bytes: usize) -> String {
    format!("content-length: {bytes}\r\n\r\n{}", "x".repeat(bytes))
}

fn chunks(bytes: usize) -> String {
    format!("transfer-encoding: chunked\r\n\r\n{bytes:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(bytes))
}

/// Sends up to three requests, until an answer says `Connection: close`. Returns how many were answered.
fn answered(served: &crate::support::Served, path: &str, body: &str) -> usize {
    let mut peer = served.connect();
    for answered in 1..=3 {
        peer.send(format!("POST {path} HTTP/1.1\r\nhost: x\r\n{body}"));
        if peer.answer(false).closes() {
            peer.assert_closed();
            return answered;
        }
    }
    3
}

#[test]
fn what_was_not_said_to_close_stays() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let drained = Limits::default().drain_bytes as usize;
        for path in PATHS {
            for bytes in [1, 5_000, drained - 1, drained + 1, 10 * drained] {
                answered(&served, path, &length(bytes));
                answered(&served, path, &chunks(bytes));
            }
        }
    });
}

#[test]
fn a_short_body_that_nobody_reads_keeps_the_connection() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        for path in PATHS {
            assert_eq!(answered(&served, path, &length(5_000)), 3, "{path}");
            // All of it is there with its head.
            assert_eq!(answered(&served, path, &chunks(100)), 3, "{path}");
        }
    });
}

/// The handler puts the request's body into a response that sends none (to HEAD, or a 204). So the body is not read.
#[test]
fn a_body_in_an_answer_that_is_not_sent_stays_unread() {
    crate::support::on_each_wire(|scene| {
        let router = Router::new()
            .get("/", async |body: Body| body)
            .post("/no-content", async |body: Body| Response::new(StatusCode::NO_CONTENT).body(body));
        let served = scene.serve(router);
        for (line, answers_head) in [("HEAD /", true), ("POST /no-content", false)] {
            for (bytes, closes) in [(5_000, false), (100_000, true)] {
                let mut peer = served.connect();
                peer.send(format!("{line} HTTP/1.1\r\nhost: x\r\n{}", length(bytes)));
                assert_eq!(peer.answer(answers_head).closes(), closes, "{line}, {bytes}");
                if closes {
                    peer.assert_closed();
                } else {
                    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
                    assert_eq!(peer.answer(false).status, 200, "{line}");
                }
            }
            let mut peer = served.connect();
            peer.send(format!(
                "{line} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n"
            ));
            let answer = peer.answer(answers_head);
            assert!(answer.status >= 200 && answer.closes(), "{line}: {answer:?}");
        }
    });
}

#[test]
fn as_much_as_the_limit_is_drained_and_no_more() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        let drained = Limits::default().drain_bytes as usize;
        for path in ["/ignores", "/panics", "/nowhere", "/"] {
            assert_eq!(answered(&served, path, &length(drained)), 3, "{path}");
            assert_eq!(answered(&served, path, &length(drained + 1)), 1, "{path}");
        }
    });
}

#[test]
fn the_limit_holds_for_chunks_that_have_come_with_their_head() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve_with(router(), Limits { drain_bytes: 10, ..Limits::default() });
        assert_eq!(answered(&served, "/ignores", &chunks(10)), 3);
        assert_eq!(answered(&served, "/ignores", &chunks(11)), 1);
        let several = |last| format!("transfer-encoding: chunked\r\n\r\n6\r\nsixsix\r\n{last}0\r\n\r\n");
        assert_eq!(answered(&served, "/ignores", &several("4\r\nfour\r\n")), 3);
        assert_eq!(answered(&served, "/ignores", &several("5\r\nfiver\r\n")), 1);
    });
}

#[test]
fn the_limit_holds_for_a_body_that_is_left_while_the_answer_streams() {
    crate::support::on_each_wire(|scene| {
        // It reads none of the request's body, and drops it when its own has ended.
        let router = Router::new().post("/", async |unread: Body| {
            let (mut sender, answer) = Body::channel(100);
            drop(anywire_loops::spawn(async move {
                sender.try_send("streamed").expect("there is room");
                drop(unread);
                sender.finish();
            }));
            answer
        });
        let served = scene.serve(router);
        let mut peer = served.connect();
        peer.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000\r\n\r\n");
        assert_eq!(peer.answer(false).text(), "streamed");
        peer.send(vec![b'x'; 1_000_000]);
        peer.rest_and_end();
        assert_eq!(served.running.counters().body_timeouts, 0, "it was the limit that ended it");
    });
}

#[test]
fn chunks_without_an_end_close() {
    crate::support::on_each_wire(|scene| {
        let served = scene.serve(router());
        for path in PATHS {
            let mut peer = served.connect();
            peer.send(format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"
            ));
            assert!(peer.answer(false).closes(), "{path}");
            peer.assert_closed();
        }
    });
}
