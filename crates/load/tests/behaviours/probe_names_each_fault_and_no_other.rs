//! A server with a fault gets the verdict of that fault and no other; one without a fault is `clean`.

use std::time::Duration;

use anywire_http::Headers;
use anywire_load::probe::{Class, Outcome, Plan, Severity, run};
use anywire_loops::Loops;

use crate::support::faulty::{Fault, url};

fn probe(plan: Plan) -> Outcome {
    let loops = Loops::start(1).expect("a loop");
    run(&loops, plan).expect("there are answers")
}

/// The outcome of a probe, whose verdicts are of these classes.
#[track_caller]
fn assert_verdicts(plan: Plan, expected: &[Class]) -> Outcome {
    let outcome = probe(plan);
    let found: Vec<_> = outcome.verdicts.iter().map(|verdict| verdict.class).collect();
    assert_eq!(found, expected, "{outcome}");
    for verdict in &outcome.verdicts {
        assert!(
            !verdict.evidence.is_empty() && !verdict.why.is_empty() && !verdict.change.is_empty(),
            "{verdict:?}"
        );
    }
    outcome
}

/// All requests are made, however slow the machine is.
fn of(fault: Fault) -> Plan {
    let long = Duration::from_secs(60);
    Plan { timeout: long, pattern_time: long, ..Plan::new(url(fault)) }
}

#[test]
fn a_server_without_a_fault_is_clean() {
    let outcome = assert_verdicts(of(Fault::None), &[Class::Clean]);
    assert!(outcome.is_clean() && outcome.repeated.is_empty() && outcome.missing.is_empty(), "{outcome}");
    // One may have come twice, where the machine was slow to acknowledge it: that changes no median.
    let segments = outcome.segments.expect("it is TCP");
    assert_eq!((segments.p50, segments.expected_p50, segments.expected), (1.0, 1.0, 1.0));
    assert!((1.0..1.05).contains(&segments.per_response), "{segments:?}");
    assert_eq!(outcome.latency.expect("there are answers").spread.count, 199, "the first one is not counted");
    let pipelining = outcome.pipelining.as_ref().expect("it was tried");
    assert_eq!((pipelining.answered, pipelining.in_order), (16, Some(true)));
    let many = outcome.many.as_ref().expect("it was tried");
    assert_eq!((many.opened, many.answered, many.failed), (32, 3200, 0));
    assert!(outcome.expect.as_ref().expect("it was tried").continue_after.is_some());
    let head = outcome.head.as_ref().expect("it was tried");
    assert_eq!((head.status, head.same_length, head.has_body), (200, Some(true), false));
    assert_eq!(outcome.server, None, "no process was named");
    assert_eq!(outcome.at_least(Severity::Note).count(), 0);
}

#[test]
fn head_and_body_in_two_writes() {
    let outcome = assert_verdicts(of(Fault::Splits), &[Class::SplitWrite]);
    let segments = outcome.segments.expect("it is TCP");
    assert_eq!((segments.p50, segments.expected_p50, segments.excess_p50), (2.0, 1.0, Some(1.0)));
    let evidence = &outcome.verdicts[0].evidence;
    assert!(evidence.contains("13 bytes takes 2 data segments where 1 would do"), "{evidence}");
    assert_eq!(outcome.repeated, ["single"]);
}

#[test]
fn head_and_body_in_two_writes_that_wait_for_acknowledgements() {
    let outcome = assert_verdicts(Plan { requests: 60, ..of(Fault::SplitsAndDelays) }, &[Class::DelayedAck]);
    let text = outcome.to_string();
    assert!(text.contains("problem delayed_ack: ") && text.contains("TCP_NODELAY"), "{text}");
    assert!(
        outcome.gap.expect("there are answers").head_to_body.expect("they are split").p50 >= 30_000.0,
        "{text}"
    );
}

#[test]
fn a_head_in_two_writes_that_wait_for_acknowledgements() {
    let plan = Plan { requests: 60, ..of(Fault::SplitsHeadAndDelays) };
    let outcome = assert_verdicts(plan, &[Class::DelayedAck]);
    // No head came alone, and there is a wait all the same.
    let gap = outcome.gap.expect("there are answers");
    assert!(
        gap.head_to_body.is_none() && gap.between_reads.is_some_and(|pauses| pauses.p50 >= 30_000.0),
        "{gap:?}"
    );
    assert!(outcome.verdicts[0].evidence.contains("in their middle"), "{outcome}");
}

#[test]
fn a_body_that_is_late_for_reasons_of_its_own_is_no_delayed_acknowledgement() {
    assert_verdicts(Plan { requests: 20, ..of(Fault::BodyIsLate) }, &[Class::SplitWrite]);
}

#[test]
fn a_flush_for_each_chunk() {
    let outcome = assert_verdicts(of(Fault::FlushesEachChunk), &[Class::FlushPerAnswer]);
    let segments = outcome.segments.expect("it is TCP");
    assert!(segments.p50 == 5.0 && (5.0..5.05).contains(&segments.per_response), "{segments:?}");
}

#[test]
fn answers_in_another_order() {
    let outcome = assert_verdicts(of(Fault::AnswersBackwards), &[Class::OutOfOrder]);
    assert_eq!(outcome.repeated, ["pipelining"]);
}

#[test]
fn two_answers_to_each_request() {
    let outcome = assert_verdicts(of(Fault::AnswersTwice), &[Class::UnaskedAnswers]);
    assert_eq!(outcome.repeated, ["single"]);
    assert_eq!(outcome.connection.expect("there are answers").unasked, Some(true));
}

#[test]
fn a_body_behind_the_answer_to_head() {
    let outcome = assert_verdicts(of(Fault::SendsBodyToHead), &[Class::HeadWithBody]);
    assert_eq!(outcome.repeated, ["head"]);
    let head = outcome.head.expect("it was tried");
    assert_eq!((head.status, head.same_length, head.has_body), (200, Some(true), true));
}

#[test]
fn another_length_for_head() {
    let outcome = assert_verdicts(of(Fault::MiscountsHead), &[Class::HeadDiffers]);
    assert_eq!(outcome.head.expect("it was tried").same_length, Some(false));
}

#[test]
fn a_body_that_waits_in_vain() {
    let outcome = assert_verdicts(of(Fault::IgnoresExpect), &[Class::IgnoresExpect]);
    assert_eq!(outcome.repeated, ["expect"]);
    let expect = outcome.expect.expect("it was tried");
    assert_eq!((expect.continue_after, expect.status, expect.ignored), (None, Some(200), true));
}

#[test]
fn a_reader_that_pauses_is_cut() {
    let pattern_time = Duration::from_millis(500);
    let plan = Plan { requests: 8, connections: 1, pattern_time, ..of(Fault::CutsSlowReaders) };
    let outcome = assert_verdicts(plan, &[Class::CutsSlowReaders]);
    assert_eq!(outcome.repeated, ["slow_reader"]);
    let seen = outcome.slow_reader.expect("it was tried");
    assert!(!seen.complete && seen.cut && seen.failure.is_some(), "{seen:?}");
}

#[test]
fn requests_that_nobody_reads() {
    let mut headers = Headers::new();
    for name in ["x-long", "x-longer"] {
        headers.insert(name, "a".repeat(48 << 10)).expect("a field");
    }
    let plan = Plan { headers, requests: 8, pipeline: 2, connections: 1, ..of(Fault::ReadsSlowly) };
    let outcome = assert_verdicts(plan, &[Class::WindowStalls]);
    assert_eq!(outcome.repeated, ["single"]);
}

#[test]
fn a_connection_for_each_request() {
    let outcome = assert_verdicts(of(Fault::ClosesEach), &[Class::NoKeepAlive]);
    assert_eq!(outcome.connection.expect("there are answers").requests_until_close, Some(1));
}

#[test]
fn ten_requests_for_each_connection() {
    let outcome = assert_verdicts(of(Fault::ClosesTenth), &[Class::ShortKeepAlive]);
    assert_eq!(outcome.connection.expect("there are answers").requests_until_close, Some(10));
}

#[test]
fn connections_that_end_without_a_word() {
    assert_verdicts(of(Fault::LeavesBehindTenth), &[Class::EarlyClose]);
    assert_verdicts(of(Fault::CutsTenth), &[Class::EarlyClose]);
}

#[test]
fn a_clock_that_is_wrong() {
    let outcome = assert_verdicts(of(Fault::IsAheadByAnHour), &[Class::Clock]);
    let skew = outcome.clock.expect("there are dates").skew_seconds;
    assert!((3590.0..3610.0).contains(&skew), "{skew}");
}

#[test]
fn a_server_that_says_less_than_the_wire() {
    let plan = Plan { requests: 20, ..of(Fault::SaysLessThanItTakes) };
    let outcome = assert_verdicts(plan, &[Class::ServerTimeDiffers]);
    assert_eq!(outcome.server_timing.expect("it says a time").said_p50, 2_000.0);
}

#[test]
fn a_small_receive_window() {
    assert_verdicts(of(Fault::TakesLittle), &[Class::SmallWindow]);
}

#[test]
fn a_handler_that_blocks_its_loop() {
    let slow = |fault| Plan { slow_path: Some("/slow".to_owned()), ..of(fault) };
    let outcome = assert_verdicts(slow(Fault::BlocksItsLoop), &[Class::BlocksItsLoop]);
    assert_eq!(outcome.repeated, ["slow_path"]);
    let outcome = assert_verdicts(slow(Fault::IsSlowAlone), &[Class::Clean]);
    assert_eq!(outcome.slow_path.expect("it was tried").held_up, 0);
}

#[test]
fn an_accept_queue_that_is_too_short() {
    // What finds it full fails at once, instead of after three attempts.
    let short = Duration::from_secs(2);
    let plan = of(Fault::AcceptsSlowly);
    let plan = Plan { connections: 16, connect_timeout: short, timeout: short, pattern_time: short, ..plan };
    let outcome = assert_verdicts(plan, &[Class::ListenOverflow]);
    assert_eq!(outcome.repeated, ["many"]);
}

/// Each class has a server with its fault, here or in a test of its own; `softirq` is judged by figures, because the packets of a test
/// would have to take a third of this machine.
#[test]
fn each_verdict_is_proven() {
    let tests = [
        include_str!("probe_names_each_fault_and_no_other.rs"),
        include_str!("probe_judges_certificates.rs"),
        include_str!("probe_sees_losses_on_the_way.rs"),
        include_str!("probe_watches_a_process.rs"),
    ];
    let by_figures = include_str!("../../src/probe/rules/tests.rs");
    for class in Class::ALL {
        let asserted = [format!("[Class::{class:?}]"), format!("[(Class::{class:?},")];
        let is_asserted = |text: &str| asserted.iter().any(|wanted| text.contains(wanted));
        assert!(tests.iter().any(|text| is_asserted(text)) || *class == Class::Softirq, "{class}");
        assert!(is_asserted(by_figures) || *class == Class::Clean, "{class} by figures");
    }
}
