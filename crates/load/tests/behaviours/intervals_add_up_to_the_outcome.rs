//! What happened in the intervals of a run is what its outcome has: no request is between two of them, and none in both.

use std::time::Duration;

use anywire_load::{Amount, Handles, IntervalFigures, Recorder, start};
use anywire_loops::Loops;

use crate::support::server::{Manner, TestServer};

#[test]
fn each_answer_is_in_one_interval() {
    let server = TestServer::start("memory:intervals", Manner::Answer);
    let loops = Loops::start(2).unwrap();
    let amount = Amount::Duration(Duration::from_millis(450));
    let plan = anywire_load::Plan { connections: 4, amount, ..server.plan(1) };
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
