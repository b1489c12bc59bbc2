//! Faults of the peer and of the wire: each is counted under its own kind, and the run ends with a result.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use crate::support::run;
use crate::support::server::{Manner, TestServer};
use anywire_http::Buffer;
use anywire_load::{Amount, Boundary, ErrorKind, Handles, Limits, Outcome, Plan, run_observed};
use anywire_loops::Loops;
use anywire_wire::{ListenOptions, Listener};

/// Three attempts, so that a test is short.
fn load(plan: Plan) -> Outcome {
    let limits = Limits { failures_in_a_row: 3, backoff: Duration::from_millis(1), ..Limits::default() };
    run(&Loops::start(1).unwrap(), Plan { limits, ..plan }).unwrap()
}

/// The run had this many errors of this kind and no others, and says one in words.
#[track_caller]
fn assert_only(outcome: &Outcome, kind: ErrorKind, count: u64) {
    let totals = &outcome.totals;
    assert_eq!(
        (totals.measured.errors.of(kind), totals.measured.errors.total()),
        (count, count),
        "{:?}",
        totals.measured.error_samples
    );
    assert_eq!(totals.measured.error_samples.len(), 1);
    assert_eq!(totals.measured.error_samples[0].kind, kind);
    assert_eq!(
        totals.measured.sent,
        totals.measured.answered
            + totals.measured.timed_out
            + totals.measured.unanswered_at_close
            + totals.measured.unanswered_at_end
    );
}

#[test]
fn refused() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let plan = Plan {
        connections: 2,
        amount: Amount::Duration(Duration::from_secs(3600)),
        ..Plan::new(format!("http://127.0.0.1:{port}/"))
    };
    let outcome = load(plan);
    assert_only(&outcome, ErrorKind::Connect, 6);
    assert_eq!((outcome.totals.connections.opened, outcome.totals.connections.given_up), (0, 2));
    assert!(outcome.totals.measured.error_samples[0].message.contains(&port.to_string()));
    assert_eq!(outcome.latency.send, None);
    assert_eq!(outcome.generator.cpu_us_per_request, None);
}

#[test]
fn garbage() {
    let server = TestServer::start("memory:garbage", Manner::Bytes("this is not HTTP\r\n\r\n"));
    let outcome = load(server.plan(10));
    assert_only(&outcome, ErrorKind::Parse, 3);
    assert_eq!((outcome.totals.measured.sent, outcome.totals.measured.unanswered_at_close), (3, 3));
}

#[test]
fn an_answer_that_was_there_before_its_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (greeted, greetings) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            let mut peer = peer.unwrap();
            peer.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").unwrap();
            greeted.send(()).unwrap();
            std::thread::spawn(move || peer.read_to_end(&mut Vec::new()));
        }
    });
    let plan = Plan {
        connections: 4,
        warm_up: Duration::ZERO,
        amount: Amount::Requests(4),
        limits: Limits { failures_in_a_row: 1, ..Limits::default() },
        ..Plan::new(format!("http://127.0.0.1:{port}/"))
    };
    let loops = Loops::start(1).unwrap();
    let outcome = run_observed(&loops, plan, Handles::default(), |boundary| {
        if boundary == Boundary::Measuring {
            (0..4).for_each(|_| greetings.recv().unwrap());
            // A loop that has slept has heard of what had come.
            let slept = loops.get(0).spawn(|| tokio::time::sleep(Duration::from_millis(1)));
            slept.wait().unwrap();
        }
    });
    let outcome = outcome.unwrap();
    assert_only(&outcome, ErrorKind::Parse, 4);
    assert_eq!((outcome.totals.measured.sent, outcome.totals.unsent), (0, Some(4)));
    let said = &outcome.totals.measured.error_samples[0].message;
    assert_eq!(said, "an answer came that nobody had asked for: HTTP/1.1 503 Busy");
}

#[test]
fn an_answer_that_nobody_asked_for() {
    let server =
        TestServer::start("memory:twice", Manner::Bytes("HTTP/1.1 204 A\r\n\r\nHTTP/1.1 204 B\r\n\r\n"));
    let outcome = load(Plan { connections: 1, ..server.plan(1) });
    assert_only(&outcome, ErrorKind::Parse, 1);
    assert_eq!(outcome.totals.measured.answered, 1);
}

#[test]
fn an_answer_that_nobody_asked_for_behind_a_full_buffer() {
    // The first read ends with the first answer.
    let head = "HTTP/1.1 200 A\r\ncontent-length: 16300\r\nx-rest: ";
    let rest = "x".repeat(Buffer::DEFAULT_BYTES - 16_300 - head.len() - 4);
    let both = format!("{head}{rest}\r\n\r\n{}HTTP/1.1 204 B\r\n\r\n", "x".repeat(16_300));
    let server = TestServer::start("memory:full-buffer", Manner::Bytes(both.leak()));
    let outcome = load(server.plan(2));
    assert_only(&outcome, ErrorKind::Parse, 1);
    assert_eq!((outcome.totals.measured.answered, server.seen.requests()), (2, 2));
}

#[test]
fn another_protocol() {
    let server =
        TestServer::start("memory:switch", Manner::Bytes("HTTP/1.1 101 Switching Protocols\r\n\r\n"));
    assert_only(&load(server.plan(10)), ErrorKind::Parse, 3);
}

#[test]
fn a_body_cut_short() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\nx";
    let server = TestServer::start("memory:cut", Manner::BytesThenEnd(cut));
    let outcome = load(server.plan(10));
    assert_only(&outcome, ErrorKind::Read, 3);
    assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.unanswered_at_close), (0, 3));
}

#[test]
fn a_head_cut_short() {
    let server = TestServer::start("memory:half", Manner::BytesThenEnd("HTTP/1.1 200 OK\r\ncontent-le"));
    assert_only(&load(server.plan(10)), ErrorKind::Read, 3);
}

#[test]
fn a_head_without_end() {
    let bomb: &'static str =
        Box::leak(format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(10_000)).into_boxed_str());
    let server = TestServer::start("memory:bomb", Manner::Bytes(bomb));
    assert_only(&load(server.plan(10)), ErrorKind::Parse, 3);
}

#[test]
fn silence() {
    let server = TestServer::start("memory:silent", Manner::Silent);
    let timeout = Duration::from_millis(50);
    let outcome = load(Plan { depth: 2, timeout, ..server.plan(10) });
    // A window of two waits on each of three connections, and each wait stands in the tail of the latencies.
    assert_only(&outcome, ErrorKind::Timeout, 6);
    assert_eq!((outcome.totals.measured.timed_out, outcome.totals.measured.answered), (6, 0));
    let latency = outcome.latency.send.unwrap();
    assert_eq!(latency.count, 6);
    assert!(latency.min >= 50_000.0, "{}", latency.min);
}

#[test]
fn a_close_with_requests_unanswered() {
    let server = TestServer::start("memory:close", Manner::CloseAfter(10));
    let outcome = load(server.plan(100));
    // Each connection has 10 answers and loses the 11th request; the tenth connection has one request left to send.
    assert_only(&outcome, ErrorKind::Close, 9);
    assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.unanswered_at_close), (91, 9));
    assert_eq!((outcome.totals.connections.opened, outcome.totals.connections.lost), (10, 9));
}

#[test]
fn a_close_that_was_announced_is_no_fault() {
    let server = TestServer::start("memory:announced", Manner::SayCloseAfter(10));
    let outcome = load(server.plan(100));
    assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.errors.total()), (100, 0));
    assert_eq!(server.seen.connections(), 10);
}

#[test]
fn a_full_accept_queue() {
    let loops = Loops::start(1).unwrap();
    let options = ListenOptions { backlog: 0, ..ListenOptions::default() };
    // Bound and never served: connections beyond the queue wait until their time is up.
    let listener = Listener::bind("memory:full", &options, &loops).unwrap();
    let wait = Duration::from_millis(50);
    let plan = Plan {
        connections: 10,
        via: Some(listener.local().clone()),
        amount: Amount::Requests(10),
        warm_up: Duration::ZERO,
        timeout: wait,
        connect_timeout: wait,
        ..Plan::new("http://full/")
    };
    let totals = load(plan).totals;
    assert!(totals.measured.errors.of(ErrorKind::Connect) > 0, "{:?}", totals.measured.errors);
    assert_eq!(
        totals.measured.errors.total(),
        totals.measured.errors.of(ErrorKind::Connect) + totals.measured.errors.of(ErrorKind::Timeout)
    );
    let sample =
        totals.measured.error_samples.iter().find(|sample| sample.kind == ErrorKind::Connect).unwrap();
    assert!(sample.message.contains("50ms"), "{}", sample.message);
}

#[cfg(feature = "tls")]
#[test]
fn a_handshake_that_is_not_answered() {
    // The kernel makes the connections, and nobody takes them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan {
        connections: 1,
        handshake_timeout: Duration::from_millis(50),
        ..Plan::new(format!("https://{}/", silent.local_addr().unwrap()))
    };
    let outcome = load(plan);
    assert_only(&outcome, ErrorKind::Tls, 3);
    let message = &outcome.totals.measured.error_samples[0].message;
    assert!(message.contains("50ms"), "{message}");
}
