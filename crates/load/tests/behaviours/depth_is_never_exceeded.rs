//! A window of `depth` requests leaves in one write, and no more than `depth` are ever on their way.

use std::sync::atomic::Ordering;

use crate::support::run;
use crate::support::server::{Manner, TestServer};
use anywire_load::Plan;
use anywire_loops::Loops;

#[test]
fn the_first_window_is_one_write_and_each_answer_lets_one_more_go() {
    let server = TestServer::start("memory:depth", Manner::AnswerWhenFull(16));
    let loops = Loops::start(1).unwrap();
    // The server answers only while 16 wait, so the last 15 of the requests have no answer; then the time is up.
    let plan = Plan { depth: 16, timeout: std::time::Duration::from_millis(300), ..server.plan(200) };
    let plan = Plan { limits: anywire_load::Limits { failures_in_a_row: 1, ..plan.limits.clone() }, ..plan };
    let outcome = run(&loops, plan).unwrap();
    assert_eq!(server.seen.in_first_read.load(Ordering::SeqCst), 16);
    assert_eq!(server.seen.waiting_max.load(Ordering::SeqCst), 16);
    assert_eq!((outcome.totals.measured.sent, outcome.totals.measured.answered), (200, 185));
    assert_eq!(outcome.plan.depth, 16);
}
