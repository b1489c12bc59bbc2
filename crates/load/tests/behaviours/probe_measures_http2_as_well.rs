//! Over HTTP/2 a probe measures what makes sense there, and names the faults that a server can have there.

use std::time::Duration;

use anywire_load::Protocol;
use anywire_load::probe::{Class, Outcome, Plan, run};
use anywire_loops::Loops;

use crate::support::faulty_h2::{Fault, LARGE, start};

/// All requests are made, however slow the machine is.
fn of(fault: Fault, path: &str) -> Plan {
    let long = Duration::from_secs(60);
    let url = format!("http://127.0.0.1:{}{path}", start(fault));
    Plan {
        protocol: Protocol::Http2,
        timeout: long,
        pattern_time: long,
        requests: 40,
        connections: 8,
        ..Plan::new(url)
    }
}

#[track_caller]
fn assert_verdicts(plan: Plan, expected: &[Class]) -> Outcome {
    let outcome = run(&Loops::start(1).expect("a loop"), plan).expect("there are answers");
    let found: Vec<_> = outcome.verdicts.iter().map(|verdict| verdict.class).collect();
    assert_eq!(found, expected, "{outcome}");
    outcome
}

#[test]
fn a_server_without_a_fault_is_clean_and_known() {
    let outcome = assert_verdicts(of(Fault::None, "/"), &[Class::Clean]);
    assert!(outcome.missing.is_empty() && outcome.repeated.is_empty(), "{outcome}");
    assert_eq!((outcome.target.status, outcome.target.body_bytes), (Some(200), Some(13)));
    let segments = outcome.segments.expect("it is TCP");
    assert_eq!((segments.p50, segments.expected_p50), (1.0, 1.0));
    assert_eq!(outcome.latency.expect("there are answers").spread.count, 39, "the first one is not counted");
    let connection = outcome.connection.as_ref().expect("there is one");
    assert!(connection.keep_alive && connection.requests_until_close.is_none(), "{connection:?}");
    let head = outcome.head.as_ref().expect("it was tried");
    assert_eq!((head.status, head.same_length, head.has_body), (200, Some(true), false));
    assert_eq!(outcome.compression.as_ref().expect("it was tried").coding, None);
    let many = outcome.many.as_ref().expect("it was tried");
    assert_eq!((many.opened, many.answered, many.failed), (8, 800, 0));
    assert!(outcome.http2.is_some() && outcome.tcp.is_some() && outcome.reads.is_some(), "{outcome}");
    // They make sense over HTTP/1 alone.
    assert!(outcome.pipelining.is_none() && outcome.expect.is_none(), "{outcome}");
}

#[test]
fn an_end_that_leaves_by_itself_is_no_fault() {
    let outcome = assert_verdicts(of(Fault::EndsApart, "/"), &[Class::Clean]);
    let segments = outcome.segments.expect("it is TCP");
    assert_eq!((segments.p50, segments.expected_p50), (2.0, 2.0));
}

#[test]
fn a_long_answer_and_a_slow_reader() {
    let outcome =
        assert_verdicts(Plan { requests: 8, connections: 1, ..of(Fault::None, "/large") }, &[Class::Clean]);
    assert_eq!(outcome.large.as_ref().expect("it is long").body_bytes, LARGE as u64);
    let reader = outcome.slow_reader.as_ref().expect("it is long");
    assert!(reader.complete && reader.others.is_some(), "{outcome}");
}

#[test]
fn head_and_body_that_wait_for_acknowledgements() {
    let plan = Plan {
        requests: 16,
        connections: 1,
        pattern_time: Duration::from_secs(1),
        ..of(Fault::SplitsAndDelays, "/")
    };
    let outcome = assert_verdicts(plan, &[Class::DelayedAck]);
    assert!(
        outcome.gap.and_then(|gap| gap.head_to_body).expect("they are apart").p50 >= 30_000.0,
        "{outcome}"
    );
}

#[test]
fn ten_requests_for_each_connection() {
    let outcome = assert_verdicts(of(Fault::LeavesWithTenth, "/"), &[Class::ShortKeepAlive]);
    let connection = outcome.connection.as_ref().expect("there is one");
    assert_eq!((connection.requests_until_close, connection.closings.unannounced), (Some(10), 0));
}

#[test]
fn connections_that_end_without_a_word() {
    assert_verdicts(of(Fault::LeavesBehindTenth, "/"), &[Class::EarlyClose]);
}

#[test]
fn a_small_window_of_streams() {
    let outcome = assert_verdicts(of(Fault::TakesLittle, "/"), &[Class::SmallWindow]);
    assert_eq!(outcome.http2.as_ref().expect("it is HTTP/2").stream_window_bytes, 100);
    assert_eq!(outcome.repeated, ["single", "http2"]);
}

#[test]
fn a_handler_that_blocks_its_loop() {
    let plan = Plan { slow_path: Some("/slow".to_owned()), ..of(Fault::BlocksItsLoop, "/") };
    let outcome = assert_verdicts(plan, &[Class::BlocksItsLoop]);
    assert_eq!(outcome.repeated, ["slow_path"]);
}
