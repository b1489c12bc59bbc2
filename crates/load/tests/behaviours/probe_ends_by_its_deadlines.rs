//! Whatever a server sends, a probe ends by its deadlines and says what came.

use std::net::TcpListener;
use std::time::Duration;

use anywire_advice::Chain;
use anywire_load::probe::{Limits, Outcome, Plan, ProbeError, run};
use anywire_loops::Loops;

use crate::support::faulty::{Fault, Then, hostile, url};

fn probe(plan: Plan) -> Result<Outcome, ProbeError> {
    run(&Loops::start(1).expect("a loop"), plan)
}

/// A plan whose deadlines are short, so that the test is.
fn short(url: String) -> Plan {
    Plan { timeout: Duration::from_millis(300), pattern_time: Duration::from_millis(500), ..Plan::new(url) }
}

/// By what the server sends, long before the deadline.
#[track_caller]
fn assert_no_answer(url: String, said: &str) {
    assert_says(probe(Plan { timeout: LONG, ..short(url) }), said);
}

/// By the deadline. It is made longer until something has come by then, however slow the machine is.
#[track_caller]
fn assert_no_answer_in_time(url: &str, said: &str) {
    let mut timeout = Duration::from_millis(300);
    loop {
        let found = probe(Plan { timeout, ..short(url.to_owned()) });
        if timeout < LONG && found.as_ref().is_err_and(|error| Chain(error).to_string().contains(NOTHING)) {
            timeout *= 2;
            continue;
        }
        return assert_says(found, said);
    }
}

#[track_caller]
fn assert_says(found: Result<Outcome, ProbeError>, said: &str) {
    let error = found.expect_err("no answer can be measured");
    assert!(matches!(error, ProbeError::NoAnswer(_)), "{error:?}");
    let text = Chain(&error).to_string();
    assert!(text.contains(said), "{said:?} in {text:?}");
}

#[test]
fn garbage() {
    assert_no_answer(hostile(b"\x16\x03\x01garbage\r\n\r\n", Then::Waits), "HTTP/1.1 status reason");
    assert_no_answer(hostile(b"SSH-2.0-OpenSSH_9\r\n", Then::Repeats(b"x")), "HTTP/1.1 status reason");
}

#[test]
fn a_head_without_end() {
    assert_no_answer(hostile(b"HTTP/1.1 200 OK\r\n", Then::Repeats(b"a: b\r\n")), "head");
    // The limit ends it, long before the deadline.
    let plan = Plan { timeout: LONG, ..Plan::new(hostile(b"HTTP/1.1 200 ", Then::Repeats(&[b'O'; 1024]))) };
    let error = probe(plan).expect_err("no answer can be measured");
    assert!(error.to_string().contains("bytes"), "{error}");
}

#[test]
fn a_body_without_end() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for url in [
        hostile(chunked, Then::Repeats(b"10\r\nbody, body, body\r\n")),
        hostile(b"HTTP/1.1 200 OK\r\n\r\n", Then::Repeats(b"body, body, body")),
    ] {
        let limits = Limits { body_bytes: 1 << 10, ..Limits::default() };
        // The limit ends it, long before the deadline.
        let plan = Plan { limits, timeout: LONG, ..Plan::new(url) };
        let error = probe(plan).expect_err("no answer can be measured");
        assert!(error.to_string().contains("more than 1024 bytes"), "{error}");
    }
}

#[test]
fn one_byte_at_a_time() {
    assert_no_answer_in_time(
        &hostile(b"HTTP/1.1 200 OK\r\nx: ", Then::Drips(b'a')),
        "the head of the answer was not whole",
    );
    let body = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
    assert_no_answer_in_time(&hostile(body, Then::Drips(b'a')), "the body of the answer was not whole");
}

#[test]
fn interim_answers_without_end() {
    assert_no_answer(hostile(b"", Then::Repeats(b"HTTP/1.1 103 Early Hints\r\n\r\n")), "interim answers");
}

#[test]
fn nothing_or_a_close() {
    assert_says(probe(short(hostile(b"", Then::Waits))), NOTHING);
    assert_no_answer(hostile(b"", Then::Ends), "closed the connection before its answer");
    assert_no_answer(
        hostile(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", Then::Ends),
        "before the body's end",
    );
}

#[test]
fn another_protocol_and_answers_that_nobody_asked_for() {
    assert_no_answer(
        hostile(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            Then::Waits,
        ),
        "101",
    );
    // The answers behind the first are for requests that were never sent; each pattern ends, and so does the probe.
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx";
    let plan = Plan { timeout: LONG, ..short(hostile(answer, Then::Repeats(answer))) };
    let outcome = probe(plan).expect("there are answers");
    assert!(!outcome.verdicts.is_empty());
}

#[test]
fn nobody_listens() {
    let port =
        TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("it is bound").port();
    let error = probe(short(format!("http://127.0.0.1:{port}/"))).expect_err("nobody listens");
    assert!(matches!(error, ProbeError::Dial(_)), "{error:?}");
}

#[test]
fn plans_that_make_no_sense() {
    let refused = |plan| probe(plan).expect_err("it makes no sense").to_string();
    let good = || Plan::new(url(Fault::None));
    let text = |plan| Chain(&probe(plan).expect_err("it makes no sense")).to_string();
    assert!(text(Plan { requests: 0, ..good() }).contains("0 requests, allowed is 8"));
    assert!(text(Plan { pipeline: 1, ..good() }).contains("allowed is 2 to 1024"));
    assert!(text(Plan { timeout: Duration::ZERO, ..good() }).contains("0 ms of timeout"));
    assert!(text(Plan::new("nonsense")).contains("nonsense"));
    assert!(
        refused(Plan { slow_path: Some("no path".to_owned()), ..good() }).contains("\"no path\" is no path")
    );
    assert!(text(Plan { pid: Some(i32::MAX), ..good() }).contains("no such process"));
}

#[test]
fn a_probe_can_be_stopped() {
    let plan = Plan { timeout: LONG, ..Plan::new(url(Fault::None)) };
    plan.stop.stop();
    // Before the first answer there is no outcome, and after it there is one that says so.
    match probe(plan) {
        Ok(outcome) => assert!(outcome.interrupted, "{outcome}"),
        Err(error) => assert!(matches!(error, ProbeError::NoAnswer(_)), "{error:?}"),
    }
}

/// What is said of a server that was silent until the deadline.
const NOTHING: &str = "nothing of the answer had come";

/// Far longer than anything that a test waits for takes.
const LONG: Duration = Duration::from_secs(60);
