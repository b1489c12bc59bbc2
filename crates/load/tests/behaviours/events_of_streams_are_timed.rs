//! Streams of events: each event is counted, the first and the gaps are timed, and a stream that goes on is no error.

use std::time::Duration;

use crate::support::recorder::{Recorder, Reply};
use crate::support::{handles, run};
use anywire_load::{Amount, Plan, Protocol, start};
use anywire_loops::Loops;

fn stream(body: &str, is_endless: bool) -> Reply {
    let headers = vec![("content-type", "text/event-stream; charset=utf-8".to_owned())];
    Reply { headers, is_endless, ..Reply::text(body) }
}

#[test]
fn events_of_whole_answers_are_counted() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start(&format!("memory:events-{protocol:?}"), protocol, |_| {
            stream(": hello\n\ndata: 1\n\nevent: x\ndata: 2\ndata: 3\n\ndata: 4\n\n", false)
        });
        let outcome = run(&Loops::start(1).unwrap(), Plan { events: true, ..server.plan(10) }).unwrap();
        let events = outcome.events.as_ref().unwrap();
        assert_eq!((events.count, events.streams), (30, 10), "{outcome}");
        assert_eq!((events.first.as_ref().unwrap().count, events.gap.as_ref().unwrap().count), (10, 20));
        assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.errors.total()), (10, 0));
        assert!(outcome.to_string().contains("30 in 10 answers"), "{outcome}");
    }
}

#[test]
fn a_stream_that_goes_on_is_no_error() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Recorder::start(&format!("memory:endless-{protocol:?}"), protocol, |_| {
            stream("data: 1\n\n", true)
        });
        // No answer ends: the run is stopped when each connection has had its event.
        let plan = Plan {
            events: true,
            connections: 3,
            amount: Amount::Duration(Duration::from_secs(3600)),
            ..server.plan(1)
        };
        let (loops, handles) = (Loops::start(1).unwrap(), handles());
        let stop = handles.stop.clone();
        let run = start(&loops, plan, handles).unwrap();
        let monitor = run.monitor();
        crate::support::eventually("each connection has heard of its stream", || {
            server.recorded().len() == 3 && monitor.snapshot().counts().sent == 3
        });
        // What was answered may still be on its way.
        std::thread::sleep(Duration::from_millis(300));
        stop.stop();
        let outcome = run.wait().unwrap();
        let measured = &outcome.totals.measured;
        assert_eq!((measured.unanswered_at_end, measured.errors.total()), (3, 0), "{outcome}");
        let events = outcome.events.as_ref().unwrap();
        assert_eq!((events.count, events.streams, events.gap.is_none()), (3, 3, true));
        assert!(outcome.no_good_answer().is_none());
    }
}

#[test]
fn without_being_asked_no_event_is_timed() {
    let server = Recorder::start("memory:untimed", Protocol::Http1, |_| stream("data: 1\n\n", false));
    let outcome = run(&Loops::start(1).unwrap(), server.plan(3)).unwrap();
    assert_eq!(outcome.events, None);
}
