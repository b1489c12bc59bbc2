//! A rate and the time that it is divided by belong together: each request of a schedule has its time until the next one would be
//! due. Without the last of these, few requests would make a rate that nobody asked for.

use std::thread;
use std::time::Duration;

use anywire_load::{Amount, Gaps, Handles, Outcome, Plan, Schedule, Shape, start};
use anywire_loops::Loops;

use crate::support::server::{Manner, TestServer};
use crate::support::{handles, run};

const RATE: f64 = 20.0;

/// The rate is that of its requests and its time, and never above what was asked for.
#[track_caller]
fn assert_belongs_together(outcome: &Outcome) {
    let rate = &outcome.rate;
    let (achieved, time) =
        (rate.achieved.expect("it was measured"), rate.schedule_seconds.expect("by a schedule"));
    let left = rate.rate_ratio.expect("some were due") * rate.intended.expect("some were due") as f64;
    assert!((achieved * time - left).abs() < 1e-6, "{rate:?}");
    assert!(time >= rate.seconds, "{rate:?}");
    assert!(achieved <= rate.target.expect("by a schedule") * 1.000_001, "{rate:?}");
}

#[test]
fn of_a_number_of_requests() {
    let server = TestServer::start("memory:few-of-a-rate", Manner::Answer);
    for gaps in [Gaps::Even, Gaps::Jitter] {
        for requests in [1, 2, 3, 5] {
            let schedule = Some(Schedule { gaps, ..Schedule::constant(RATE) });
            let plan = Plan { connections: 3, schedule, ..server.plan(requests) };
            let outcome = run(&Loops::start(2).unwrap(), plan).unwrap();
            assert_belongs_together(&outcome);
            assert!(
                outcome.rate.schedule_seconds >= Some(requests as f64 / RATE - 1e-6),
                "{:?}",
                outcome.rate
            );
        }
    }
}

#[test]
fn of_a_time_that_ends_between_two_requests() {
    let server = TestServer::start("memory:between", Manner::Answer);
    let amount = Amount::Duration(Duration::from_millis(75));
    let plan = Plan { schedule: Some(Schedule::constant(RATE)), amount, ..server.plan(1) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    assert_eq!(outcome.rate.intended, Some(2), "at 0 and at 50 ms");
    assert_belongs_together(&outcome);
}

#[test]
fn of_a_run_that_is_stopped_between_two_requests() {
    let server = TestServer::start("memory:stopped-between", Manner::Answer);
    for requests in [1, 2] {
        let amount = Amount::Duration(Duration::from_secs(3600));
        let plan =
            Plan { connections: 3, schedule: Some(Schedule::constant(RATE)), amount, ..server.plan(1) };
        let handles = handles();
        let stop = handles.stop.clone();
        let run = start(&Loops::start(2).unwrap(), plan, handles).unwrap();
        let monitor = run.monitor();
        let stopper = thread::spawn(move || {
            while monitor.progress().answered < requests {
                thread::sleep(Duration::from_millis(1));
            }
            stop.stop();
        });
        let outcome = run.wait().unwrap();
        stopper.join().unwrap();
        assert!(outcome.rate.interrupted && outcome.rate.seconds < 3600.0);
        assert_belongs_together(&outcome);
    }
}

#[test]
fn of_a_rate_that_changes_or_is_drawn_the_time_is_that_of_the_plan() {
    let server = TestServer::start("memory:changes", Manner::Answer);
    let poisson = Schedule { gaps: Gaps::Poisson, ..Schedule::constant(200.0) };
    // The next one would be due a second after its end.
    let falling = Schedule { shape: Shape::Ramp { from: 400.0, to: 1.0 }, ..Schedule::constant(1.0) };
    for schedule in [poisson, falling] {
        let amount = Amount::Duration(Duration::from_millis(100));
        let plan = Plan { schedule: Some(schedule), amount, ..server.plan(1) };
        let outcome = anywire_load::run(&Loops::start(1).unwrap(), plan, Handles::default()).unwrap();
        assert_eq!(outcome.rate.schedule_seconds, Some(outcome.rate.seconds));
    }
}

#[test]
fn of_a_run_without_a_schedule_it_is_the_measured_part() {
    let server = TestServer::start("memory:closed", Manner::Answer);
    let rate = run(&Loops::start(1).unwrap(), server.plan(7)).unwrap().rate;
    assert_eq!(rate.schedule_seconds, None);
    assert!((rate.achieved.expect("it was measured") * rate.seconds - 7.0).abs() < 1e-6);
}
