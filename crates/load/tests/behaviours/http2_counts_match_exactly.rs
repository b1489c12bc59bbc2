//! Over HTTP/2 too, what the generator says it sent is what the server got, and no more streams are open than asked for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::h2_server::{H2Server, Manner};
use crate::support::{run, warmed};
use anywire_http::Method;
use anywire_load::{Amount, Expect, Limits, Plan};
use anywire_loops::Loops;
use anywire_wire::Wire;
use bytes::Bytes;

#[test]
fn every_request_is_sent_once_and_every_answer_counted_once() {
    for address in anywire_wire::wires().filter_map(Wire::scratch) {
        let server = H2Server::start(&address.to_string(), Manner::Answer);
        let loops = Loops::start(2).unwrap();
        let plan = Plan {
            connections: 5,
            depth: 7,
            expect: Expect { body_bytes: Some(13), ..Expect::default() },
            ..server.plan(2_500)
        };
        let outcome = run(&loops, plan).unwrap();
        let totals = &outcome.totals;
        assert_eq!(totals.measured.errors.total(), 0, "{:?}", totals.measured.error_samples);
        let asked = server.seen.requests.load(Ordering::SeqCst);
        assert_eq!((totals.measured.sent, totals.measured.answered, asked), (2_500, 2_500, 2_500));
        assert_eq!(totals.statuses, [(200, 2_500)].into());
        assert_eq!(totals.body_bytes_in, 32_500);
        // A head of 9 bytes for each of two frames, `:status` and a length.
        assert_eq!(totals.bytes_in / 2_500, 9 + 1 + 5 + 9 + 13);
        assert_eq!(outcome.latency.send.as_ref().unwrap().count, 2_500);
        assert_eq!((totals.connections.opened, server.seen.connections.load(Ordering::SeqCst)), (5, 5));
        assert!(server.seen.waiting_max.load(Ordering::SeqCst) <= 7);
        assert_eq!(outcome.target.protocol, "http/2");
        assert!(outcome.to_string().contains("  streams  requests/s"), "{outcome}");
    }
}

#[test]
fn bodies_go_up_whole_and_within_the_windows() {
    let server = H2Server::start("memory:h2-bodies", Manner::Answer);
    // Longer than the connection's window at the start.
    let body = Bytes::from(vec![7; 150_000]);
    let plan = Plan { method: Method::POST, body, depth: 4, ..server.plan(50) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.errors.total()), (50, 0));
    assert_eq!(server.seen.body_bytes.load(Ordering::SeqCst), 50 * 150_000);
    assert!(outcome.totals.bytes_out > 50 * 150_000, "{}", outcome.totals.bytes_out);
}

#[test]
fn as_many_streams_are_open_as_were_asked_for_and_never_more() {
    let server = H2Server::start("memory:h2-depth", Manner::AnswerWhenFull(16));
    // The server answers only while 16 wait, so the last 15 of the requests have no answer; then the time is up.
    let timeout = Duration::from_secs(1);
    let limits = Limits { failures_in_a_row: 1, ..Limits::default() };
    let plan = Plan { depth: 16, timeout, limits, ..server.plan(200) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    assert_eq!(server.seen.waiting_max.load(Ordering::SeqCst), 16);
    let measured = &outcome.totals.measured;
    assert_eq!((measured.sent, measured.answered, measured.timed_out), (200, 185, 15));
}

#[test]
fn a_server_that_allows_fewer_streams_gets_no_more() {
    let server = H2Server::start("memory:h2-allow", Manner::Allow(3));
    // More than the streams that may be opened before the server has said how many it allows would be refused.
    let plan = Plan { depth: 3, ..server.plan(10) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    assert_eq!(outcome.totals.connections.streams_allowed, None);
    let plan = Plan { depth: 50, ..server.plan(1000) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    let measured = &outcome.totals.measured;
    // Those that were on their way before its settings came.
    assert_eq!((measured.sent, measured.answered + measured.reset), (1000, 1000));
    assert!(measured.reset <= 47, "{measured:?}");
    assert_eq!(server.seen.waiting_max.load(Ordering::SeqCst), 3);
    assert_eq!(outcome.totals.connections.streams_allowed, Some(3));
    assert!(outcome.remarks().concat().contains("allows 3 streams"), "{:?}", outcome.remarks());
}

#[test]
fn the_warm_up_is_in_no_figure() {
    let (totals, server) = warmed(|warm_up| {
        let server = H2Server::start("memory:h2-warm-up", Manner::Answer);
        let plan =
            Plan { connections: 2, depth: 5, warm_up, amount: Amount::Requests(100), ..server.plan(100) };
        let totals = run(&Loops::start(1).unwrap(), plan).unwrap().totals;
        (totals.warm_up.sent > 0).then_some((totals, server))
    });
    assert_eq!((totals.measured.sent, totals.measured.answered), (100, 100));
    assert_eq!(totals.warm_up.answered, totals.warm_up.sent);
    assert_eq!(server.seen.requests.load(Ordering::SeqCst), 100 + totals.warm_up.sent);
}
