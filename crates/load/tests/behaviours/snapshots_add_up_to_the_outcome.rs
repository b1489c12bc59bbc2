//! What a run shows while it goes on is what its outcome has in the end, and the intervals between looks are its parts.

use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::Duration;

use anywire_load::{Latency, Plan, RunPhase, start};
use anywire_loops::Loops;

use crate::support::eventually;
use crate::support::handles;
use crate::support::server::{Manner, TestServer};

#[test]
fn intervals_add_up_to_the_outcome() {
    let server = TestServer::start("memory:snapshots", Manner::Statuses);
    let loops = Loops::start(2).unwrap();
    let plan = Plan { connections: 4, warm_up: Duration::from_millis(20), ..server.plan(30_000) };
    let run = start(&loops, plan, handles()).unwrap();
    let monitor = run.monitor();
    let begin = monitor.snapshot();
    let (ended, end) = mpsc::channel::<()>();
    let looks = thread::spawn(move || {
        let (mut last, mut merged, mut counted) = (begin, Latency::new(), 0);
        loop {
            // Asked before the look, so that the last look is one behind the end.
            let is_over = end.try_recv() == Err(TryRecvError::Disconnected);
            let now = monitor.snapshot();
            let interval = now.since(&last);
            counted += interval.counts.answered;
            merged.merge(&interval.latency);
            last = now;
            if is_over {
                return (last, merged, counted);
            }
            thread::yield_now();
        }
    });
    let outcome = run.wait().unwrap();
    drop(ended);
    let (last, merged, counted) = looks.join().unwrap();
    let (totals, counts) = (&outcome.totals, last.counts());
    assert_eq!(counted, totals.measured.answered);
    assert_eq!((counts.sent, counts.answered), (totals.measured.sent, totals.measured.answered));
    assert_eq!((counts.bytes_in, counts.bytes_out), (totals.bytes_in, totals.bytes_out));
    assert_eq!(counts.answered_in_warm_up, totals.warm_up.answered);
    assert_eq!(counts.errors.total(), totals.measured.errors.total() + totals.warm_up.errors.total());
    assert!(last.error_samples.iter().any(|sample| sample.message.contains("404")), "{last:?}");
    assert_eq!(merged.summary(), outcome.latency.send);
    assert_eq!(last.measured().map(|time| time.as_secs_f64()), Some(outcome.rate.seconds));
}

#[test]
fn a_look_shows_what_is_open_before_the_load_begins() {
    let server = TestServer::start("memory:looks", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let plan = Plan { connections: 3, warm_up: Duration::from_secs(3600), ..server.plan(1) };
    let run = start(&loops, plan, handles()).unwrap();
    let monitor = run.monitor();
    eventually("three are open", || monitor.snapshot().counts().connections_open == 3);
    eventually("answers come", || monitor.snapshot().counts().answered_in_warm_up > 0);
    let now = monitor.snapshot();
    assert_eq!((now.phase, now.measured(), now.latency.count()), (RunPhase::WarmUp, None, 0));
    drop(run);
}
