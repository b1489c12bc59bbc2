//! A plan beyond a limit is refused before anything is sent, and one at the edge of a limit works.

use std::time::Duration;

use crate::support::run;
use crate::support::server::{Manner, TestServer};
use anywire_http::Method;
use anywire_load::{Limits, LoadError, Plan};
use anywire_loops::Loops;
use bytes::Bytes;

#[test]
fn a_plan_beyond_a_limit_sends_nothing() {
    let server = TestServer::start("memory:refused", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let limits = Limits { connections: 2, depth: 2, request_bytes: 1000, ..Limits::default() };
    let plan = || Plan { limits: limits.clone(), method: Method::POST, ..server.plan(1) };
    for beyond in [
        Plan { connections: 3, ..plan() },
        Plan { depth: 3, ..plan() },
        Plan { body: Bytes::from(vec![0; 1000]), ..plan() },
        Plan { warm_up: Duration::from_secs(100_000), ..plan() },
    ] {
        let refused = run(&loops, beyond).unwrap_err();
        assert!(matches!(refused, LoadError::Limit { .. }), "{refused}");
    }
    assert_eq!(server.seen.connections(), 0);
    assert_eq!(run(&loops, plan()).unwrap().totals.measured.answered, 1);
}

#[test]
fn requests_larger_than_the_window_and_the_wire_leave_whole() {
    // 3 requests of 300 KB, a window of 256 KiB, and a pipe of 64 KiB: each is written in parts, and in order.
    for address in ["memory:large", "tcp:127.0.0.1:0"] {
        let server = TestServer::start(address, Manner::Answer);
        let loops = Loops::start(1).unwrap();
        let body = Bytes::from(vec![b'x'; 300_000]);
        let plan = Plan { method: Method::POST, depth: 3, body, connections: 2, ..server.plan(60) };
        let totals = run(&loops, plan).unwrap().totals;
        assert_eq!(
            (totals.measured.answered, totals.measured.errors.total()),
            (60, 0),
            "{address}: {:?}",
            totals.measured.error_samples
        );
        assert_eq!(server.seen.requests(), 60);
    }
}

#[test]
fn one_dial_at_a_time_opens_all_connections() {
    let server = TestServer::start("tcp:127.0.0.1:0", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let limits = Limits { dials_at_once: 1, ..Limits::default() };
    let outcome = run(&loops, Plan { connections: 50, limits, ..server.plan(500) }).unwrap();
    assert_eq!((outcome.totals.connections.opened, outcome.totals.connections.open_at_start), (50, 50));
    assert_eq!(outcome.totals.measured.answered, 500);
}

#[test]
fn one_read_in_a_row_still_gets_large_answers() {
    let body = "x".repeat(200_000);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = TestServer::start("memory:reads", Manner::Bytes(answer.leak()));
    let loops = Loops::start(1).unwrap();
    let limits = Limits { reads_in_a_row: 1, ..Limits::default() };
    let totals = run(&loops, Plan { connections: 3, limits, ..server.plan(30) }).unwrap().totals;
    assert_eq!((totals.measured.answered, totals.body_bytes_in), (30, 6_000_000));
}
