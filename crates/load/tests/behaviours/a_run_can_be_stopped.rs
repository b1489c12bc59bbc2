//! A stopped run has a result, flagged as interrupted. Requests in flight are no errors.

use std::time::Duration;

use crate::support::handles;
use crate::support::server::{Manner, TestServer};
use anywire_load::{Amount, LoadError, Plan, RunPhase, start};
use anywire_loops::Loops;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn stopped_while_measuring() {
    let server = TestServer::start("memory:stop", Manner::Answer);
    let loops = Loops::start(2).unwrap();
    let plan = Plan { connections: 3, amount: Amount::Duration(HOUR), ..server.plan(1) };
    let handles = handles();
    let stop = handles.stop.clone();
    let run = start(&loops, plan, handles).unwrap();
    let monitor = run.monitor();
    let stopper = std::thread::spawn(move || {
        while monitor.progress().answered < 1_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let progress = monitor.progress();
        assert_eq!((progress.phase, progress.connections_open, progress.errors), (RunPhase::Measuring, 3, 0));
        stop.stop();
    });
    let outcome = run.wait().unwrap();
    stopper.join().unwrap();
    assert!(outcome.rate.interrupted && outcome.rate.seconds < 3600.0);
    assert!(outcome.totals.measured.answered >= 1_000);
    assert_eq!(outcome.totals.measured.errors.total(), 0);
    assert_eq!(
        outcome.totals.measured.sent,
        outcome.totals.measured.answered + outcome.totals.measured.unanswered_at_end
    );
    assert!(outcome.to_string().contains("interrupted"));
}

#[test]
fn stopped_before_it_began() {
    let server = TestServer::start("memory:stopped", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let plan = Plan { warm_up: HOUR, ..server.plan(10) };
    let handles = handles();
    handles.stop.stop();
    let outcome = anywire_load::run(&loops, plan, handles).unwrap();
    assert!(outcome.rate.interrupted);
    assert_eq!((outcome.totals.measured.sent, outcome.latency.send), (0, None));
    // What was not measured is unknown, and not 0.
    assert_eq!((outcome.rate.seconds, outcome.rate.achieved), (0.0, None));
    assert_eq!((outcome.generator.cpu_user_us, outcome.generator.cpu_sys_us), (None, None));
}

#[test]
fn dropping_the_run_ends_it() {
    let server = TestServer::start("memory:dropped", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let plan = Plan { amount: Amount::Duration(HOUR), ..server.plan(1) };
    let run = start(&loops, plan, handles()).unwrap();
    let monitor = run.monitor();
    while monitor.progress().answered == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(run);
    while loops.counters()[0].tasks_live > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn waiting_on_a_loop_is_refused_and_awaiting_is_not() {
    let server = TestServer::start("memory:onloop", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let (plan, again, on) = (server.plan(10), server.plan(10), loops.clone());
    let task = loops.get(0).spawn(move || async move {
        let refused = anywire_load::run(&on, plan, handles()).unwrap_err();
        assert!(matches!(refused, LoadError::OnLoop), "{refused}");
        start(&on, again, handles()).unwrap().outcome().await.unwrap().totals.measured.answered
    });
    assert_eq!(task.wait().unwrap(), 10);
}
