//! The end of a run and the timeout of a request come in time, whatever a connection is busy with or waits for.

mod support;

use std::sync::mpsc;
use std::time::Duration;

use anywire_load::{Amount, Limits, Outcome, Plan, run};
use anywire_loops::Loops;
use support::server::{Manner, TestServer};

/// The outcome of a plan on one loop, which is there long before a minute is over.
fn ends(plan: Plan) -> Outcome {
    let (ended, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        // An error means that the test has failed already.
        let _ = ended.send(Box::new(run(&Loops::start(1).unwrap(), plan).unwrap()));
    });
    *outcome.recv_timeout(Duration::from_secs(60)).expect("the run ends")
}

#[test]
fn a_body_without_end_is_timed_out_however_fast_it_comes() {
    for address in ["memory:endless", "tcp:127.0.0.1:0"] {
        let server = TestServer::start(address, Manner::Endless);
        let limits = Limits { failures_in_a_row: 1, ..Limits::default() };
        let totals = ends(Plan { timeout: Duration::from_millis(200), limits, ..server.plan(1) }).totals;
        assert_eq!((totals.sent, totals.timed_out, totals.errors.timeout), (1, 1, 1), "{address}");
    }
}

#[test]
fn a_body_without_end_does_not_outlast_the_run() {
    for address in ["memory:outlast", "tcp:127.0.0.1:0"] {
        let server = TestServer::start(address, Manner::Endless);
        let amount = Amount::Duration(Duration::from_millis(200));
        let outcome = ends(Plan { amount, ..server.plan(1) });
        assert_eq!((outcome.totals.sent, outcome.totals.unanswered_at_end), (1, 1), "{address}");
    }
}

#[test]
fn an_answer_that_trickles_for_ever_is_timed_out() {
    let forever: &'static str = Box::leak("HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000).into_boxed_str());
    let server = TestServer::start("memory:interim", Manner::Trickle(forever));
    let limits = Limits { failures_in_a_row: 1, ..Limits::default() };
    let plan = Plan { timeout: Duration::from_millis(200), limits, ..server.plan(1) };
    let totals = ends(plan).totals;
    assert_eq!((totals.sent, totals.timed_out, totals.errors.timeout), (1, 1, 1));
}

#[test]
fn a_connection_that_pauses_is_not_waited_for() {
    // The first of the two connections to say something gets garbage and pauses for an hour; the other sends the rest.
    let server = TestServer::start("memory:pauses", Manner::GarbageFirst);
    let hour = Duration::from_secs(3600);
    let limits = Limits { backoff: hour, backoff_max: hour, ..Limits::default() };
    let plan = Plan { connections: 2, limits, ..server.plan(50) };
    let totals = ends(plan).totals;
    assert_eq!((totals.sent, totals.answered, totals.errors.parse), (50, 49, 1));
}
