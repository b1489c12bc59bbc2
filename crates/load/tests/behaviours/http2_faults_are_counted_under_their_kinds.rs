//! Faults of an HTTP/2 peer: each is counted under its own kind, a stream's ends that stream alone, and the run goes on.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::h2_server::{H2Server, Manner};
use crate::support::run;
use crate::support::server::{self, TestServer};
use anywire_http::h2::Code;
use anywire_load::{ErrorKind, Limits, Outcome, Plan, Protocol};
use anywire_loops::Loops;

/// Three attempts, so that a test is short.
fn load(plan: Plan) -> Outcome {
    let limits = Limits { failures_in_a_row: 3, backoff: Duration::from_millis(1), ..Limits::default() };
    let outcome = run(&Loops::start(1).unwrap(), Plan { limits, ..plan }).unwrap();
    let measured = &outcome.totals.measured;
    let lost = measured.unanswered_at_close + measured.unanswered_at_end;
    assert_eq!(measured.sent, measured.answered + measured.timed_out + measured.reset + lost);
    outcome
}

/// The run had this many errors of this kind and no others.
#[track_caller]
fn assert_only(outcome: &Outcome, kind: ErrorKind, count: u64) {
    let measured = &outcome.totals.measured;
    let counted = (measured.errors.of(kind), measured.errors.total());
    assert_eq!(counted, (count, count), "{:?}", measured.error_samples);
    assert_eq!(measured.error_samples[0].kind, kind);
}

#[test]
fn a_reset_stream() {
    let server = H2Server::start("memory:h2-reset", Manner::ResetThird(Code::INTERNAL_ERROR));
    let outcome = load(Plan { depth: 4, ..server.plan(300) });
    assert_only(&outcome, ErrorKind::Reset, 100);
    assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.reset), (200, 100));
    assert_eq!(outcome.totals.connections.opened, 1);
    let message = &outcome.totals.measured.error_samples[0].message;
    assert!(message.contains("before its answer (INTERNAL_ERROR)"), "{message}");
}

#[test]
fn a_stream_that_is_reset_within_its_answer() {
    let server = H2Server::start("memory:h2-cut", Manner::CutThird(Code::INTERNAL_ERROR));
    let outcome = load(Plan { depth: 4, ..server.plan(300) });
    assert_only(&outcome, ErrorKind::Reset, 100);
    let message = &outcome.totals.measured.error_samples[0].message;
    assert!(message.contains("inside its answer (INTERNAL_ERROR)"), "{message}");
}

#[test]
fn an_answer_that_breaks_a_rule() {
    let server = H2Server::start("memory:h2-breaks", Manner::BreakThird);
    let outcome = load(Plan { depth: 4, ..server.plan(300) });
    assert_only(&outcome, ErrorKind::Parse, 100);
    assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.reset), (200, 100));
    assert_eq!(outcome.totals.connections.opened, 1);
    assert!(outcome.totals.measured.error_samples[0].message.contains("breaks the rules of HTTP/2: a"));
}

#[test]
fn a_refused_stream() {
    let server = H2Server::start("memory:h2-refused", Manner::ResetThird(Code::REFUSED_STREAM));
    let outcome = load(Plan { depth: 4, ..server.plan(300) });
    assert_only(&outcome, ErrorKind::Refused, 100);
    assert_eq!((outcome.totals.connections.opened, outcome.totals.measured.reset), (1, 100));
}

/// The first one of a connection leaves before the server has said how large a head it takes, and is answered 431.
#[test]
fn a_head_that_the_server_does_not_take() {
    let server = H2Server::start("memory:h2-large-head", Manner::Answer);
    let mut headers = anywire_http::Headers::new();
    headers.append("x", "v".repeat(20_000)).unwrap();
    let outcome = load(Plan { headers, ..server.plan(100) });
    let errors = &outcome.totals.measured.errors;
    assert!(errors.of(ErrorKind::Write) > 0 && errors.of(ErrorKind::Status) > 0, "{errors:?}");
    let samples = &outcome.totals.measured.error_samples;
    assert!(samples.iter().any(|sample| sample.message.contains("and the peer takes 16384")), "{samples:?}");
}

#[test]
fn a_goaway_in_order_is_no_fault() {
    let server = H2Server::start("memory:h2-leave", Manner::LeaveAfter(10));
    let outcome = load(Plan { depth: 2, ..server.plan(100) });
    assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.errors.total()), (100, 0));
    assert!(server.seen.connections.load(Ordering::SeqCst) >= 9);
}

#[test]
fn a_server_that_leaves_before_it_acts_is_told_in_its_words() {
    let server = H2Server::start("memory:h2-leaves", Manner::LeaveAtOnce);
    let outcome = load(Plan { depth: 2, ..server.plan(100) });
    let all = &outcome.totals.measured;
    assert_eq!((all.sent, all.answered, all.errors.total()), (0, 0, 0), "{outcome}");
    assert_eq!(all.announced.as_deref(), Some("NO_ERROR (\"later\")"));
    let found = outcome.no_good_answer().expect("nothing was answered").found;
    assert!(
        found.contains("by GOAWAY, NO_ERROR (\"later\"), and announced that it would not act on"),
        "{found}"
    );
    // None of them was sent a last time, so that none was sent again.
    let text = outcome.to_string();
    assert!(text.contains("0 sent, ") && text.contains(" taken back to be sent again, 0 answered"), "{text}");
}

#[test]
fn a_goaway_with_an_error() {
    let server = H2Server::start("memory:h2-calm", Manner::GoAway(Code::ENHANCE_YOUR_CALM));
    let outcome = load(Plan { depth: 2, ..server.plan(100) });
    assert_only(&outcome, ErrorKind::GoAway, 3);
    // It acted on none of them.
    assert_eq!((outcome.totals.measured.unanswered_at_close, outcome.totals.measured.sent_again), (0, 6));
    assert!(outcome.totals.measured.error_samples[0].message.ends_with("ENHANCE_YOUR_CALM (\"later\")"));
}

#[test]
fn a_goaway_in_order_that_is_not_kept() {
    let server = H2Server::start("memory:h2-unkept", Manner::GoAway(Code::NO_ERROR));
    let outcome = load(Plan { depth: 2, ..server.plan(100) });
    assert_only(&outcome, ErrorKind::Close, 3);
    assert_eq!(outcome.totals.measured.unanswered_at_close, 6);
    assert!(outcome.totals.measured.error_samples[0].message.ends_with("GOAWAY: NO_ERROR (\"later\")"));
}

#[test]
fn a_close_with_requests_unanswered() {
    let server = H2Server::start("memory:h2-close", Manner::Close);
    assert_only(&load(Plan { depth: 2, ..server.plan(100) }), ErrorKind::Close, 3);
}

#[test]
fn a_stream_without_an_answer_ends_alone() {
    let server = H2Server::start("memory:h2-forget", Manner::ForgetFirst);
    let timeout = Duration::from_millis(700);
    let plan = server.plan(1);
    let amount = anywire_load::Amount::Duration(Duration::from_millis(2000));
    let outcome = load(Plan { depth: 2, timeout, amount, ..plan });
    // One, unless the machine stood still for so long.
    let measured = &outcome.totals.measured;
    assert!(measured.timed_out >= 1 && measured.answered > measured.timed_out, "{measured:?}");
    assert_only(&outcome, ErrorKind::Timeout, measured.timed_out);
    assert_eq!(outcome.totals.connections.opened, 1);
    crate::support::eventually("the reset has come", || server.seen.resets.load(Ordering::SeqCst) >= 1);
    assert!(outcome.latency.send.unwrap().max >= 700_000.0);
}

#[test]
fn silence_ends_the_connection() {
    let server = H2Server::start("memory:h2-silent", Manner::Silent);
    let timeout = Duration::from_millis(200);
    let outcome = load(Plan { depth: 2, timeout, ..server.plan(10) });
    assert_only(&outcome, ErrorKind::Timeout, 6);
    assert_eq!((outcome.totals.connections.opened, outcome.totals.connections.given_up), (3, 1));
}

#[test]
fn a_server_that_allows_no_stream() {
    let server = H2Server::start("memory:h2-none", Manner::Allow(0));
    let timeout = Duration::from_millis(200);
    let outcome = load(Plan { depth: 2, timeout, ..server.plan(10) });
    let errors = outcome.totals.measured.errors;
    // The first ones leave before its settings come, and are refused.
    assert_eq!(errors.of(ErrorKind::Refused), errors.total(), "{:?}", outcome.totals.measured.error_samples);
    assert_eq!(outcome.totals.measured.answered, 0);
}

#[test]
fn a_server_of_http1() {
    let bad = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let server = TestServer::start("memory:h2-as-h1", server::Manner::Greet(bad));
    let plan = Plan { protocol: Protocol::Http2, ..server.plan(10) };
    let outcome = load(plan);
    assert_only(&outcome, ErrorKind::Parse, 3);
    let message = &outcome.totals.measured.error_samples[0].message;
    assert!(message.contains("answered in HTTP/1"), "{message}");
}
