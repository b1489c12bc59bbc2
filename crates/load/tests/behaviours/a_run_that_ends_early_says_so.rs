//! A server that dies, or never answers, in any phase of a run: what happened stands in the value, the table, the JSON
//! and the page, and the run ends when nothing is left to do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use crate::support::server::{Manner, TestServer};
use crate::support::{handles, run, warmed};
use anywire_load::{Amount, ErrorKind, ErrorSample, Limits, Outcome, Plan, Requests, report};
use anywire_loops::Loops;

const HOUR: Duration = Duration::from_secs(3600);

/// The outcome of a plan on one loop whose connections are given up after so many failures.
fn load(failures_in_a_row: u32, plan: Plan) -> Outcome {
    let limits = Limits { failures_in_a_row, backoff: Duration::from_millis(1), ..Limits::default() };
    run(&Loops::start(1).unwrap(), Plan { limits, ..plan }).unwrap()
}

/// The sentence is one of the remarks, and stands in the table and the page; the JSON gives the same value again.
#[track_caller]
fn assert_says(outcome: &Outcome, sentence: &str) {
    let remarks = outcome.remarks();
    assert!(remarks.iter().any(|remark| remark.contains(sentence)), "{sentence:?} in {remarks:#?}");
    assert!(outcome.to_string().contains(sentence), "{outcome}");
    assert!(report::outcome(outcome).contains(sentence), "{sentence:?} in the page");
    let again: Outcome = serde_json::from_str(&outcome.to_json()).unwrap();
    assert_eq!(again.remarks(), remarks);
}

#[track_caller]
fn assert_sums(outcome: &Outcome) {
    let (totals, warm_up) = (&outcome.totals, &outcome.totals.warm_up);
    let lost =
        totals.measured.timed_out + totals.measured.unanswered_at_close + totals.measured.unanswered_at_end;
    assert_eq!(totals.measured.sent, totals.measured.answered + lost, "{totals:?}");
    let lost = warm_up.timed_out + warm_up.unanswered_at_close + warm_up.unanswered_at_end;
    assert_eq!(warm_up.sent, warm_up.answered + lost, "{warm_up:?}");
}

/// Answers so many requests of one connection after the other, then closes it and listens no more.
fn mortal(answers: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut answered = 0;
        let mut read = Vec::new();
        while answered < answers {
            let mut some = [0; 4096];
            let count = peer.read(&mut some).unwrap();
            assert!(count > 0, "the generator closed first");
            read.extend_from_slice(&some[..count]);
            while answered < answers
                && let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n")
            {
                read.drain(..end + 4);
                peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                answered += 1;
            }
        }
        // First the listener, so that the next dial is refused for certain.
        drop(listener);
        drop(peer);
    });
    address
}

#[test]
fn nobody_answers_in_the_warm_up() {
    let server = TestServer::start("memory:early-silent", Manner::Silent);
    let timeout = Duration::from_millis(50);
    let plan = Plan { warm_up: HOUR, depth: 2, timeout, ..server.plan(10) };
    let outcome = load(3, plan);
    let warm_up = &outcome.totals.warm_up;
    assert_eq!((warm_up.sent, warm_up.timed_out, warm_up.answered), (6, 6, 0));
    assert_eq!((warm_up.errors.of(ErrorKind::Timeout), warm_up.errors.total()), (6, 6));
    assert_eq!((outcome.totals.measured.sent, outcome.totals.measured.errors.total()), (0, 0));
    assert_eq!((outcome.rate.given_up, outcome.rate.interrupted), (true, false));
    assert_sums(&outcome);
    assert_says(&outcome, "ended before anything was measured");
    assert_says(&outcome, "6 requests sent, 0 answered, 0 on their way at the end; errors: 6 timeout");
    assert_says(&outcome, "no request was answered: no answer came within 50 ms");
}

#[test]
fn faults_of_the_warm_up_count_there_and_nowhere_else() {
    for (name, manner, kind) in [
        ("garbage", Manner::Bytes("this is not HTTP\r\n\r\n"), ErrorKind::Parse),
        ("cut", Manner::BytesThenEnd("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"), ErrorKind::Read),
        ("closed", Manner::BytesThenEnd(""), ErrorKind::Close),
    ] {
        let server = TestServer::start(&format!("memory:early-{name}"), manner);
        let outcome = load(3, Plan { warm_up: HOUR, ..server.plan(10) });
        let (totals, warm_up) = (&outcome.totals, &outcome.totals.warm_up);
        assert_eq!((warm_up.errors.of(kind), warm_up.errors.total()), (3, 3), "{name}");
        assert_eq!(
            (warm_up.sent, warm_up.unanswered_at_close, totals.measured.errors.total()),
            (3, 3, 0),
            "{name}"
        );
        assert_sums(&outcome);
    }
    // An answer of the wrong kind is an answer, and its fault is the warm-up's too.
    let server = TestServer::start("memory:early-statuses", Manner::Statuses);
    let totals = warmed(|warm_up| {
        let totals = load(3, Plan { warm_up, ..server.plan(30) }).totals;
        Some(totals).filter(|totals| totals.warm_up.errors.of(ErrorKind::Status) > 0)
    });
    assert_eq!(
        (totals.measured.answered, totals.warm_up.errors.total()),
        (30, totals.warm_up.errors.of(ErrorKind::Status))
    );
    assert_eq!(totals.measured.errors.of(ErrorKind::Status), totals.statuses[&404]);
}

#[test]
fn requests_on_their_way_time_out_when_measuring_has_begun() {
    let server = TestServer::start("memory:early-late", Manner::Silent);
    let plan = Plan {
        warm_up: Duration::from_millis(50),
        timeout: Duration::from_millis(400),
        amount: Amount::Duration(HOUR),
        ..server.plan(1)
    };
    let outcome = load(1, plan);
    let totals = &outcome.totals;
    assert_eq!((totals.warm_up.sent, totals.warm_up.errors.total()), (0, 0));
    assert_eq!((totals.measured.sent, totals.measured.timed_out, totals.measured.errors.total()), (1, 1, 1));
    assert_sums(&outcome);
}

#[test]
fn requests_on_their_way_since_the_warm_up_are_so_at_the_end() {
    let server = TestServer::start("memory:early-waiting", Manner::Silent);
    let short = Duration::from_millis(50);
    let plan = Plan { warm_up: short, amount: Amount::Duration(short), ..server.plan(1) };
    let outcome = load(1, plan);
    let Requests { sent, unanswered_at_end, oldest_unanswered_us, .. } = outcome.totals.measured;
    assert_eq!((outcome.totals.warm_up.sent, sent, unanswered_at_end), (0, 1, 1));
    assert!(oldest_unanswered_us.unwrap() >= 50_000.0);
    assert!(!outcome.rate.given_up, "the time was up");
    assert_sums(&outcome);
    assert_says(&outcome, "no request was answered: the oldest request had waited for ");
}

#[test]
fn the_server_dies_while_a_time_is_measured() {
    let amount = Amount::Duration(HOUR);
    let plan = Plan { connections: 1, warm_up: Duration::ZERO, amount, ..Plan::new(url(mortal(50))) };
    let outcome = load(3, plan);
    assert_eq!((outcome.totals.measured.answered, outcome.totals.connections.given_up), (50, 1));
    assert!(outcome.rate.given_up && outcome.rate.seconds < 3600.0);
    assert_eq!(outcome.totals.unsent, None);
    assert_sums(&outcome);
    assert_says(&outcome, " of 3600 s: every connection that had work left was given up");
    assert!(outcome.shortfall().is_some_and(|message| message.found.starts_with("ended early")));
    let heading = outcome.to_string().lines().nth(1).unwrap().to_owned();
    assert!(heading.contains(" of 3600 s after 0 s of warm-up"), "{heading}");
}

#[test]
fn the_server_dies_before_all_requests_are_sent() {
    let amount = Amount::Requests(400);
    let plan = Plan { connections: 1, warm_up: Duration::ZERO, amount, ..Plan::new(url(mortal(215))) };
    let outcome = load(3, plan);
    // The 216th request left, or began to, when the server was gone.
    let totals = &outcome.totals;
    assert!((215..=216).contains(&totals.measured.sent) && totals.measured.answered == 215, "{totals:?}");
    assert_eq!(totals.unsent, Some(400 - totals.measured.sent));
    assert!(outcome.rate.given_up);
    assert_sums(&outcome);
    assert_says(&outcome, &format!("with {} of 400 requests sent", totals.measured.sent));
    assert!(
        outcome.to_string().contains(&format!("and {} never sent", 400 - totals.measured.sent)),
        "{outcome}"
    );
}

#[test]
fn a_run_that_is_stopped_is_not_given_up() {
    let server = TestServer::start("memory:early-stopped", Manner::Answer);
    let plan = server.plan(400);
    let handles = handles();
    handles.stop.stop();
    let outcome = anywire_load::run(&Loops::start(1).unwrap(), plan, handles).unwrap();
    assert_eq!((outcome.rate.interrupted, outcome.rate.given_up), (true, false));
    assert_eq!(outcome.totals.unsent, Some(400));
    assert_says(&outcome, "interrupted after ");
}

#[test]
fn not_one_answer_is_good() {
    let server = TestServer::start(
        "memory:early-bad",
        Manner::Bytes("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n"),
    );
    let outcome = load(3, server.plan(20));
    assert_eq!((outcome.totals.measured.answered, outcome.totals.measured.good()), (20, 0));
    assert!(!outcome.rate.given_up);
    assert_says(&outcome, "none of the 20 answers was good: an answer had the status 500");
}

#[test]
fn some_connections_are_given_up() {
    // Only one connection is served. It sends the requests of the others too.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        drop(listener);
        let mut some = [0; 4096];
        while peer.read(&mut some).is_ok_and(|count| count > 0) {
            let answered = peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            if answered.is_err() {
                break;
            }
        }
    });
    let limits = Limits { dials_at_once: 1, failures_in_a_row: 1, ..Limits::default() };
    let amount = Amount::Requests(100);
    let plan = Plan { connections: 3, warm_up: Duration::ZERO, amount, limits, ..Plan::new(url(address)) };
    let outcome = run(&Loops::start(1).unwrap(), plan).unwrap();
    assert_eq!(
        (outcome.totals.measured.sent, outcome.totals.unsent, outcome.rate.given_up),
        (100, Some(0), false)
    );
    // Those that came before the listener left were open, and ended without an answer.
    let says = match outcome.totals.connections.never_open {
        0 => "2 of 3 connections were given up before the end",
        1 => "1 of 3 connections were never open",
        _ => "2 of 3 connections were never open",
    };
    assert_says(&outcome, says);
    assert!(outcome.shortfall().is_some_and(|message| message.found.contains(says)));
}

#[test]
fn a_run_without_a_fault_has_no_remarks() {
    let server = TestServer::start("memory:early-none", Manner::Answer);
    let plan = Plan { connections: 4, warm_up: Duration::from_millis(10), ..server.plan(1_000) };
    let outcome = load(3, plan);
    assert_eq!((outcome.remarks(), outcome.shortfall()), (Vec::<String>::new(), None));
    assert_eq!((outcome.totals.unsent, outcome.totals.measured.good()), (Some(0), 1_000));
    assert_sums(&outcome);
}

/// Those of all connections come at the same moments: one more or less of each is what the rate may be off by.
#[test]
fn a_rate_of_few_answers_a_connection_says_how_coarse_it_is() {
    let says = |p50: f64, change: fn(&mut Outcome)| {
        let mut outcome = crate::support::sample::outcome();
        (outcome.plan.duration_seconds, outcome.rate.seconds) = (Some(2.0), 2.0);
        outcome.latency.send.as_mut().expect("it has one").p50 = p50;
        outcome.totals.measured.answered = 4 * outcome.plan.connections as u64;
        change(&mut outcome);
        let remarks = outcome.remarks();
        remarks.into_iter().find(|remark| remark.starts_with("an answer took "))
    };
    let said = says(500_000.0, |_| {}).expect("it is a quarter of the time");
    assert!(said.contains("500 ms, 25.0 % of the time"), "{said}");
    assert_eq!(says(90_000.0, |_| {}), None);
    // With many in flight on each connection some come all the time.
    let many = |outcome: &mut Outcome| outcome.totals.measured.answered *= 250;
    assert_eq!(says(500_000.0, many), None);
    assert_eq!(says(500_000.0, |outcome| outcome.rate.interrupted = true), None);
    assert_eq!(says(500_000.0, |outcome| outcome.plan.duration_seconds = None), None);
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

#[test]
fn the_reason_is_one_of_the_requests_where_connections_opened() {
    let sample = |kind, message: &str| ErrorSample { kind, message: message.to_owned(), help: None };
    let samples =
        vec![sample(ErrorKind::Connect, "nobody listens"), sample(ErrorKind::Reset, "it was reset")];
    let reason = |opened, sent_again, error_samples| {
        let mut outcome = crate::support::sample::outcome();
        outcome.totals.measured = Requests { sent_again, error_samples, ..Requests::default() };
        (outcome.totals.warm_up, outcome.totals.connections.opened) = (Requests::default(), opened);
        outcome.no_good_answer().expect("nothing was answered").found
    };
    assert_eq!(reason(2, 0, samples.clone()), "no request was answered: it was reset");
    assert_eq!(reason(0, 0, samples[..1].to_vec()), "no request was answered: nobody listens");
    assert!(reason(2, 24, Vec::new()).ends_with("announced that it would not act on 24 requests"));
}
