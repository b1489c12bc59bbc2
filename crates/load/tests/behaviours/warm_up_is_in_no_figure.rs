//! Answers of the warm-up are shown, and are part of no other figure.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::h2_server::{self, H2Server};
use crate::support::run;
use crate::support::server::{Manner, TestServer};
use crate::support::{eventually, handles, warmed};
use anywire_load::{Amount, Boundary, Plan, RunPhase, Schedule, run_observed, start};
use anywire_loops::Loops;

#[test]
fn the_measured_part_has_its_own_requests_only() {
    let loops = Loops::start(2).unwrap();
    let (outcome, server) = warmed(|warm_up| {
        let server = TestServer::start("memory:warm", Manner::Answer);
        let plan = Plan { connections: 4, depth: 2, warm_up, ..server.plan(1_000) };
        let outcome = run(&loops, plan).unwrap();
        (outcome.totals.warm_up.answered > 0).then_some((outcome, server))
    });
    let totals = &outcome.totals;
    assert_eq!((totals.measured.sent, totals.measured.answered), (1_000, 1_000));
    assert_eq!(totals.warm_up.answered, totals.warm_up.sent);
    assert_eq!(server.seen.requests(), 1_000 + totals.warm_up.answered);
    // Answers that arrive when measuring has begun count where their requests do, to the byte.
    let answer = "HTTP/1.1 200 Some\r\ncontent-length: 13\r\n\r\nHello, World!".len() as u64;
    assert_eq!((totals.bytes_in, totals.body_bytes_in), (1_000 * answer, 13_000));
    assert_eq!(totals.bytes_out, 1_000 * outcome.plan.request_bytes as u64);
    assert_eq!(outcome.latency.send.as_ref().unwrap().count, 1_000);
    assert_eq!(totals.statuses, [(200, 1_000)].into());
    assert!(outcome.to_string().contains("answers)"));
}

/// The gap between two requests is a minute and the warm-up is short. The first measured request must not wait for the time at which the
/// warm-up's next one would be due.
#[test]
fn the_first_request_behind_a_warm_up_leaves_at_its_own_time() {
    let http1 = TestServer::start("memory:warm-gap", Manner::Answer);
    let http2 = H2Server::start("memory:warm-gap-h2", h2_server::Manner::Answer);
    let gap = Duration::from_secs(60);
    for plan in [http1.plan(1), http2.plan(1)] {
        let schedule = Some(Schedule::constant(1.0 / gap.as_secs_f64()));
        let plan = Plan { schedule, warm_up: Duration::from_millis(20), timeout: 2 * gap, ..plan };
        let protocol = plan.protocol;
        let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
        let measured = &outcome.totals.measured;
        assert_eq!((measured.sent, measured.answered), (1, 1), "{protocol:?}");
        let lag = outcome.latency.lag.unwrap();
        assert!(lag.max < gap.as_secs_f64() * 1e6 / 2.0, "{protocol:?}: {lag:?}");
    }
}

#[test]
fn an_observer_sees_both_edges_of_the_measured_part() {
    let server = TestServer::start("memory:observed", Manner::Answer);
    let loops = Loops::start(2).unwrap();
    let plan = Plan { connections: 4, warm_up: Duration::from_millis(5), ..server.plan(1_000) };
    let mut seen = Vec::new();
    let outcome =
        run_observed(&loops, plan, handles(), |boundary| seen.push((boundary, server.seen.requests())))
            .unwrap();
    let [(Boundary::Measuring, before), (Boundary::Measured, after)] = seen[..] else { panic!("{seen:?}") };
    // Load goes on until the first call returns, so `before` is a moment early; nothing moves at the second.
    assert!(after - before >= outcome.totals.measured.answered);
    assert_eq!(after, server.seen.requests());
}

/// The rate divides answers by time, so that both have to be of the same time: what is on its way when the measured part begins
/// is answered in it.
#[test]
fn what_is_on_its_way_when_the_measured_part_begins_belongs_to_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (release, released) = mpsc::channel();
    let server = thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let _: () = released.recv().unwrap();
        // Two answers: to the request of the warm-up, and to the one that follows it.
        for _ in 0..2 {
            assert_ne!(peer.read(&mut [0; 4096]).unwrap(), 0);
            peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
        // The third is on its way at the end.
        peer
    });
    let plan = Plan {
        connections: 1,
        warm_up: Duration::from_millis(1),
        amount: Amount::Duration(Duration::from_secs(3600)),
        timeout: Duration::from_secs(3600),
        ..Plan::new(url)
    };
    let handles = handles();
    let stop = handles.stop.clone();
    let run = start(&Loops::start(1).unwrap(), plan, handles).unwrap();
    let monitor = run.monitor();
    eventually("it measures", || monitor.progress().phase == RunPhase::Measuring);
    release.send(()).unwrap();
    eventually("two are answered", || monitor.progress().answered == 2);
    stop.stop();
    let outcome = run.wait().unwrap();
    let totals = &outcome.totals;
    assert_eq!((totals.warm_up.sent, totals.warm_up.answered), (0, 0));
    assert_eq!(
        (totals.measured.sent, totals.measured.answered, totals.measured.unanswered_at_end),
        (3, 2, 1)
    );
    assert_eq!(outcome.latency.send.unwrap().count, 2);
    drop(server.join().unwrap());
}
