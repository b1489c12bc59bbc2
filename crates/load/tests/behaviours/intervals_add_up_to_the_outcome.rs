//! What happened in the intervals of a run is what its outcome has: no request is between two of them, and none in both.

use std::time::Duration;

use anywire_load::{
    Amount, Handles, IntervalFigures, Plan, Protocol, Recorder, RunPhase, Schedule, Shape, start,
};
use anywire_loops::Loops;

use crate::support::recorder::{self, Reply};
use crate::support::server::{Manner, TestServer};

#[test]
fn each_answer_is_in_one_interval() {
    let server = TestServer::start("memory:intervals", Manner::Answer);
    let loops = Loops::start(2).unwrap();
    let amount = Amount::Duration(Duration::from_millis(450));
    let plan = Plan { connections: 4, amount, ..server.plan(1) };
    let run = start(&loops, plan, Handles::default()).unwrap();
    let mut recorder = Recorder::new(run.monitor(), Duration::from_millis(100));
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let looking = std::thread::spawn(move || {
        let mut lines = Vec::new();
        while ended
            .recv_timeout(Duration::from_millis(20))
            .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            lines.extend(recorder.look());
        }
        lines.extend(recorder.finish());
        (lines, recorder.into_timeline())
    });
    let outcome = run.wait().unwrap();
    drop(end);
    let (lines, timeline) = looking.join().unwrap();
    let totals = &outcome.totals;
    for (name, intervals) in [("lines", &lines), ("timeline", &timeline)] {
        let sum = |field: fn(&IntervalFigures) -> u64| intervals.iter().map(field).sum::<u64>();
        assert!(totals.measured.answered > 0);
        assert_eq!(sum(|one| one.answered), totals.measured.answered, "{name}");
        assert_eq!(sum(|one| one.bytes_in), totals.bytes_in, "{name}");
        let recorded = |one: &IntervalFigures| one.latency.as_ref().map_or(0, |latency| latency.count);
        assert_eq!(sum(recorded), totals.measured.answered, "{name}");
        let in_bands = |one: &IntervalFigures| {
            one.latency.as_ref().map_or(0, |latency| latency.bands.iter().map(|band| band.count).sum())
        };
        assert_eq!(sum(in_bands), totals.measured.answered, "{name}");
        // Each begins where the one before has ended.
        let mut end = 0.0;
        for one in intervals {
            assert!((one.t - one.seconds - end).abs() < 1e-6, "{name}: {one:?}");
            end = one.t;
        }
        assert!((end - outcome.rate.seconds).abs() < 1e-6, "{name}");
    }
    // Only the lines have the histograms.
    let has_hdr = |one: &IntervalFigures| one.latency.as_ref().is_some_and(|latency| latency.hdr.is_some());
    assert!(lines.iter().any(has_hdr) && !timeline.iter().any(has_hdr));
    let line = lines[0].to_json();
    assert!(!line.contains('\n'));
    assert_eq!(serde_json::from_str::<IntervalFigures>(&line).unwrap(), lines[0]);
}

#[test]
fn the_rate_that_was_asked_for_stands_beside_the_achieved_one() {
    let server = TestServer::start("memory:intervals-asked", Manner::Answer);
    let loops = Loops::start(1).unwrap();
    let amount = Amount::Duration(Duration::from_millis(300));
    let schedule = Some(Schedule::of(Shape::Ramp { from: 100.0, to: 400.0 }));
    let plan = Plan { connections: 4, amount, schedule, ..server.plan(1) };
    let run = start(&loops, plan.clone(), Handles::default()).unwrap();
    let mut recorder = Recorder::new(run.monitor(), Duration::from_secs(1)).of_plan(&plan);
    run.wait().unwrap();
    let whole = recorder.finish().expect("it was measured");
    assert!(whole.target.is_some_and(|target| (target - 250.0).abs() < 1.0), "{whole:?}");
    assert_eq!(recorder.into_timeline()[0].target, whole.target);
}

#[test]
fn answers_that_come_when_the_time_is_up_are_in_the_last_interval() {
    // Five requests in a quarter of a second, of which the server answers ten a second.
    let server = recorder::Recorder::start("memory:intervals-late", Protocol::Http1, |_| {
        std::thread::sleep(Duration::from_millis(100));
        Reply::text("late")
    });
    let loops = Loops::start(1).unwrap();
    let amount = Amount::Duration(Duration::from_millis(250));
    let plan = Plan { connections: 5, amount, schedule: Some(Schedule::constant(20.0)), ..server.plan(1) };
    let run = start(&loops, plan, Handles::default()).unwrap();
    let monitor = run.monitor();
    let mut recorder = Recorder::new(run.monitor(), Duration::from_millis(100));
    let ended = std::thread::spawn(move || run.wait().unwrap());
    // Looked at all the time, also when the time is up and a response is still waited for.
    let mut answered = 0;
    while monitor.progress().phase != RunPhase::Ended || !ended.is_finished() {
        answered += recorder.look().map_or(0, |one| one.answered);
    }
    let outcome = ended.join().unwrap();
    answered += recorder.finish().map_or(0, |one| one.answered);
    assert_eq!(answered, outcome.totals.measured.answered);
    let timeline = recorder.into_timeline();
    assert_eq!(timeline.iter().map(|one| one.answered).sum::<u64>(), answered);
}
