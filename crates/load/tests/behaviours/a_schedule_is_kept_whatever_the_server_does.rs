//! Requests of a schedule leave whether the server answers or not: what was late is recorded as late, and nothing is left out.

use std::time::Duration;

use anywire_load::{Amount, ErrorKind, Gaps, Outcome, Plan, Reuse, Schedule, Shape};
use anywire_loops::Loops;
use anywire_wire::Wire;

use crate::support::h2_server::{self, H2Server};
use crate::support::run;
use crate::support::server::{Manner, TestServer};

/// More requests than leave between two looks at the clock.
const RATE: f64 = 20_000.0;

fn by_schedule(plan: Plan) -> Outcome {
    let schedule = plan.schedule.or(Some(Schedule::constant(RATE)));
    run(&Loops::start(2).unwrap(), Plan { schedule, ..plan }).unwrap()
}

/// What a run by a schedule is, whatever the server did.
fn assert_adds_up(outcome: &Outcome) {
    let requests = &outcome.totals.measured;
    let became = requests.answered
        + requests.timed_out
        + requests.reset
        + requests.unanswered_at_close
        + requests.unanswered_at_end;
    assert_eq!(requests.sent, became, "{requests:?}");
    let unsent = outcome.totals.unsent.expect("it is known with a rate");
    let intended = outcome.rate.intended.expect("it was measured");
    assert_eq!(intended, requests.sent + requests.shed + unsent, "{outcome}");
    assert_eq!(outcome.plan.mode, "open");
}

fn count(summary: Option<&anywire_load::LatencySummary>) -> u64 {
    summary.map_or(0, |summary| summary.count)
}

#[test]
fn each_request_has_three_latencies_over_every_version_and_wire() {
    // The gaps are drawn before any wire is known: each wire has the next kind of them.
    let kinds = [Gaps::Even, Gaps::Jitter, Gaps::Poisson].into_iter().cycle();
    for (address, gaps) in anywire_wire::wires().filter_map(Wire::scratch).zip(kinds) {
        each_has_three_latencies(&address.to_string(), gaps);
    }
}

#[test]
fn each_request_has_three_latencies_with_gaps_of_every_kind() {
    for gaps in [Gaps::Even, Gaps::Jitter, Gaps::Poisson] {
        each_has_three_latencies("memory:paced-gaps", gaps);
    }
}

/// Runs a schedule by both versions.
fn each_has_three_latencies(address: &str, gaps: Gaps) {
    let schedule = Some(Schedule { gaps, ..Schedule::constant(RATE) });
    let plan = |plan| Plan { connections: 5, depth: 3, schedule, ..plan };
    let server = TestServer::start(address, Manner::Answer);
    let http1 = by_schedule(plan(server.plan(500)));
    assert_eq!(server.seen.requests(), 500, "{address}, {gaps:?}");
    drop(server);
    let server = H2Server::start(address, h2_server::Manner::Answer);
    let http2 = by_schedule(plan(server.plan(500)));
    for outcome in [http1, http2] {
        assert_adds_up(&outcome);
        let (requests, latency) = (&outcome.totals.measured, &outcome.latency);
        assert_eq!((requests.sent, requests.answered), (500, 500), "{address}, {gaps:?}");
        assert_eq!(requests.errors.total(), 0, "{:?}", requests.error_samples);
        let counts = [&latency.intended, &latency.send, &latency.lag, &latency.first_byte];
        assert_eq!(counts.map(|column| count(column.as_ref())), [500; 4], "{address}, {gaps:?}");
        // The intended latency is the sum of both, in each request and so on average; to three digits.
        let [intended, send, lag] =
            [&latency.intended, &latency.send, &latency.lag].map(|column| column.as_ref().unwrap().mean);
        assert!((intended - send - lag).abs() <= intended * 0.002 + 0.01, "{intended} {send} {lag}");
        assert_eq!(outcome.generator.pacing.unwrap().timer, "timerfd");
    }
}

#[test]
fn requests_leave_no_sooner_than_they_are_due() {
    let server = TestServer::start("memory:paced-time", Manner::Answer);
    // The last of 51 is due after 0.5 s, and nothing makes up for lost time.
    let schedule = Some(Schedule::constant(100.0));
    let outcome = by_schedule(Plan { connections: 2, schedule, ..server.plan(51) });
    assert!(outcome.rate.seconds >= 0.5, "{}", outcome.rate.seconds);
    assert_eq!(outcome.rate.target, Some(100.0));
    assert!(outcome.rate.achieved.unwrap() <= 51.0 / 0.5);
}

#[test]
fn connections_that_wait_for_no_request_end_with_the_last_one() {
    let schedule = Some(Schedule::constant(1000.0));
    // Nothing but the last request may end them: their timeout is far away.
    let plan = |plan| Plan { connections: 8, schedule, timeout: Duration::from_secs(3600), ..plan };
    let server = TestServer::start("memory:paced-last", Manner::Answer);
    let http1 = by_schedule(plan(server.plan(20)));
    let server = H2Server::start("memory:paced-last-h2", h2_server::Manner::Answer);
    let http2 = by_schedule(plan(server.plan(20)));
    for outcome in [http1, http2] {
        assert_adds_up(&outcome);
        assert_eq!((outcome.totals.measured.answered, outcome.totals.connections.finished), (20, 8));
    }
}

#[test]
fn what_no_connection_had_room_for_is_recorded_at_its_age() {
    let half = Duration::from_millis(500);
    for is_http2 in [false, true] {
        let name = format!("memory:paced-silent-{is_http2}");
        let (http1, http2);
        let plan = if is_http2 {
            http2 = H2Server::start(&name, h2_server::Manner::Silent);
            http2.plan(1)
        } else {
            http1 = TestServer::start(&name, Manner::Silent);
            http1.plan(1)
        };
        let plan = Plan {
            connections: 2,
            schedule: Some(Schedule::constant(1000.0)),
            amount: Amount::Duration(half),
            timeout: Duration::from_secs(60),
            ..plan
        };
        let outcome = by_schedule(plan);
        assert_adds_up(&outcome);
        let requests = &outcome.totals.measured;
        assert_eq!((outcome.rate.intended, requests.sent, requests.answered), (Some(500), 2, 0));
        assert_eq!((requests.unanswered_at_end, outcome.totals.unsent), (2, Some(498)));
        // A request that was due in the middle has waited for half the time, and for the last responses.
        let intended = outcome.latency.intended.as_ref().unwrap();
        assert_eq!(intended.count, 500);
        assert!(intended.p50 >= 250_000.0 && intended.max >= 500_000.0, "{intended:?}");
        assert_eq!(count(outcome.latency.lag.as_ref()), 500);
        // Not this end was too slow.
        assert_eq!(outcome.generator.limited_by.as_deref(), Some("connections"), "{outcome}");
        assert!(outcome.rate.rate_ratio.unwrap() < 0.01);
    }
}

#[test]
fn what_waited_for_too_long_is_recorded_and_what_is_stale_is_shed() {
    let server = TestServer::start("memory:paced-shed", Manner::Silent);
    let timeout = Duration::from_millis(50);
    // Each timeout gives the connection back to a request that was due 50 ms before, or more.
    let plan = Plan {
        connections: 1,
        schedule: Some(Schedule::constant(1000.0)),
        amount: Amount::Duration(Duration::from_millis(400)),
        timeout,
        limits: anywire_load::Limits { failures_in_a_row: 1000, ..Default::default() },
        ..server.plan(1)
    };
    let late = by_schedule(plan.clone());
    assert_adds_up(&late);
    let requests = &late.totals.measured;
    assert!(requests.timed_out > 1 && requests.shed == 0, "{requests:?}");
    assert_eq!(requests.errors.of(ErrorKind::Timeout), requests.timed_out);
    // From the send a timeout is its length; from the intended time it is longer, since the second was late.
    let [intended, send] =
        [&late.latency.intended, &late.latency.send].map(|column| column.as_ref().unwrap());
    assert!(intended.max > send.min && intended.count >= requests.timed_out, "{intended:?}");

    let shed = by_schedule(Plan { deadline: Some(Duration::from_millis(10)), ..plan });
    assert_adds_up(&shed);
    let requests = &shed.totals.measured;
    assert!(requests.shed > 0, "{requests:?}");
    // Only what was sent, or due at the end, is in the latencies.
    let unsent = shed.totals.unsent.unwrap();
    assert_eq!(count(shed.latency.lag.as_ref()), requests.sent + unsent, "{shed}");
    assert!(shed.to_string().contains("shed"), "{shed}");
}

#[test]
fn shed_requests_are_requests_of_the_plan() {
    let server = TestServer::start("memory:paced-shed-all", Manner::Answer);
    // At this rate all but the first are due within a moment, and no later than that.
    let outcome = by_schedule(Plan {
        schedule: Some(Schedule::constant(1e8)),
        deadline: Some(Duration::ZERO),
        ..server.plan(1000)
    });
    let requests = &outcome.totals.measured;
    assert_eq!(requests.answered + requests.shed, 1000, "{requests:?}");
    assert_eq!((server.seen.requests(), outcome.totals.unsent), (requests.answered, Some(0)));
}

#[test]
fn each_step_has_a_result_of_its_own_and_all_have_none() {
    let server = TestServer::start("memory:paced-steps", Manner::Answer);
    for (shape, targets) in [
        (Shape::Steps { from: 100.0, to: 500.0, count: 3 }, vec![100.0, 300.0, 500.0]),
        (
            Shape::Ramp { from: 100.0, to: 300.0 },
            (0..10).map(|tenth| 110.0 + f64::from(tenth) * 20.0).collect(),
        ),
    ] {
        let plan = Plan {
            schedule: Some(Schedule::of(shape)),
            amount: Amount::Duration(Duration::from_millis(600)),
            connections: 4,
            ..server.plan(1)
        };
        let outcome = by_schedule(plan);
        assert_adds_up(&outcome);
        let found: Vec<f64> = outcome.steps.iter().map(|step| step.target).collect();
        assert!(found.iter().zip(&targets).all(|(found, target)| (found - target).abs() < 1e-6), "{found:?}");
        assert_eq!(found.len(), targets.len());
        for step in &outcome.steps {
            let due = step.target * (step.end_seconds - step.begin_seconds);
            assert!((step.intended as f64 - due).abs() <= 1.5, "{step:?}");
            assert_eq!((step.sent, step.answered), (step.intended, step.intended));
            assert_eq!(count(step.latency.intended.as_ref()), step.intended);
        }
        assert_eq!(
            outcome.steps.iter().map(|step| step.intended).sum::<u64>(),
            outcome.rate.intended.unwrap()
        );
        // A percentile over all rates would be one of none of them.
        assert_eq!(
            (&outcome.latency.intended, &outcome.latency.send, &outcome.latency.lag),
            (&None, &None, &None)
        );
    }
}

#[test]
fn a_warm_up_at_the_rate_is_in_no_figure() {
    let server = TestServer::start("memory:paced-warm", Manner::Answer);
    let plan = Plan {
        warm_up: Duration::from_millis(50),
        schedule: Some(Schedule::constant(2000.0)),
        ..server.plan(100)
    };
    let outcome = by_schedule(plan);
    assert_eq!((outcome.totals.measured.sent, outcome.totals.measured.answered), (100, 100));
    assert!(outcome.totals.warm_up.sent > 10, "{:?}", outcome.totals.warm_up);
    assert_eq!(server.seen.requests(), 100 + outcome.totals.warm_up.sent);
}

#[test]
fn the_longest_idle_connection_takes_the_next_request() {
    for is_http2 in [false, true] {
        let name = format!("memory:reuse-{is_http2}");
        // As many requests as connections, however many of them are due together: each connection gets one. A connection that got
        // two would be renewed. That the latest is taken instead, if it is asked for, is tested where time is a parameter.
        let plan = |plan: Plan| Plan {
            connections: 10,
            reuse: Reuse::Lru,
            requests_per_connection: Some(2),
            schedule: Some(Schedule::constant(500.0)),
            ..plan
        };
        let loops = Loops::start(1).unwrap();
        let outcome = if is_http2 {
            run(&loops, plan(H2Server::start(&name, h2_server::Manner::Answer).plan(10))).unwrap()
        } else {
            run(&loops, plan(TestServer::start(&name, Manner::Answer).plan(10))).unwrap()
        };
        assert_eq!(outcome.totals.measured.answered, 10, "{outcome}");
        let connections = outcome.totals.connections;
        assert_eq!(
            (connections.opened, connections.renewed, connections.lost),
            (10, 0, 0),
            "{connections:?}"
        );
    }
}

#[test]
fn a_connection_is_renewed_after_so_many_requests() {
    for is_http2 in [false, true] {
        for schedule in [None, Some(Schedule::constant(RATE))] {
            let name = format!("memory:renewed-{is_http2}-{}", schedule.is_some());
            let plan = |plan: Plan| Plan { depth: 2, requests_per_connection: Some(5), schedule, ..plan };
            let loops = Loops::start(1).unwrap();
            let (outcome, seen) = if is_http2 {
                let server = H2Server::start(&name, h2_server::Manner::Answer);
                let outcome = run(&loops, plan(server.plan(20))).unwrap();
                (outcome, server.seen.connections.load(std::sync::atomic::Ordering::SeqCst))
            } else {
                let server = TestServer::start(&name, Manner::Answer);
                (run(&loops, plan(server.plan(20))).unwrap(), server.seen.connections())
            };
            let totals = &outcome.totals;
            assert_eq!((totals.measured.answered, totals.measured.errors.total()), (20, 0), "{outcome}");
            let connections = totals.connections;
            // The fourth has had its five when all were sent.
            assert_eq!((connections.renewed, connections.lost), (4, 0), "{connections:?}");
            assert!((4..=5).contains(&connections.opened) && connections.opened == seen, "{connections:?}");
        }
    }
}

#[test]
fn a_peer_that_leaves_costs_no_request() {
    let server = TestServer::start("memory:paced-leaves", Manner::SayCloseAfter(7));
    let outcome = by_schedule(Plan { connections: 2, depth: 4, ..server.plan(200) });
    let requests = &outcome.totals.measured;
    assert_eq!((requests.answered, requests.errors.total()), (200, 0), "{requests:?}");
    assert!(requests.sent_again > 0, "{requests:?}");
    // A request that is sent again is due when it was.
    assert_eq!(count(outcome.latency.intended.as_ref()), 200);
}

#[test]
fn a_schedule_can_be_stopped() {
    let server = TestServer::start("memory:paced-stopped", Manner::Answer);
    let handles = crate::support::handles();
    let stop = handles.stop.clone();
    let plan = Plan {
        schedule: Some(Schedule::constant(1000.0)),
        amount: Amount::Duration(Duration::from_secs(3600)),
        ..server.plan(1)
    };
    let run = anywire_load::start(&Loops::start(1).unwrap(), plan, handles).unwrap();
    let monitor = run.monitor();
    crate::support::eventually("some are answered", || monitor.progress().answered >= 20);
    stop.stop();
    let outcome = run.wait().unwrap();
    assert!(outcome.rate.interrupted && outcome.rate.seconds < 3600.0);
    assert_adds_up(&outcome);
    assert!(outcome.rate.intended.unwrap() < 3_600_000);
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    let good = || Plan { schedule: Some(Schedule::constant(1.0)), ..Plan::new("http://127.0.0.1:1/") };
    let ramp = Some(Schedule::of(Shape::Ramp { from: 1.0, to: 2.0 }));
    let deadline = Some(Duration::from_secs(1));
    for (plan, word) in [
        (Plan { schedule: Some(Schedule::constant(f64::NAN)), ..good() }, "NaN requests a second"),
        (Plan { schedule: Some(Schedule::constant(0.0)), ..good() }, "0 requests a second"),
        (Plan { schedule: ramp, amount: Amount::Requests(5), ..good() }, "how long to measure"),
        (Plan { schedule: None, deadline, ..good() }, "name a rate"),
        (Plan { deadline: Some(Duration::MAX), ..good() }, "ms of deadline"),
        (Plan { spin: Duration::MAX, ..good() }, "us of spin"),
        (Plan { requests_per_connection: Some(0), ..good() }, "requests on a connection"),
    ] {
        let refused = run(&Loops::start(1).unwrap(), plan).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    }
}
