//! Beside its own latencies a run tells what the server says that it took, how responses came by class of status and in how many
//! segments, and what the generator used.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use anywire_load::{Amount, Handles, Outcome, Plan, Threshold, Verdict, judge, run};
use anywire_loops::Loops;

use crate::support::h2_server::{self, H2Server};
use crate::support::server::{Manner, TestServer};

/// A server on TCP that writes each response as these parts, one write each, until its peer leaves.
fn server(parts: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for peer in listener.incoming() {
            std::thread::spawn(move || serve(&peer.unwrap(), parts));
        }
    });
    url
}

fn serve(peer: &TcpStream, parts: &[&str]) {
    peer.set_nodelay(true).unwrap();
    let mut lines = BufReader::new(peer);
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
        if line == "\r\n" && parts.iter().any(|part| (&mut &*peer).write_all(part.as_bytes()).is_err()) {
            return;
        }
        line.clear();
    }
}

fn load(url: &str, change: impl FnOnce(Plan) -> Plan) -> Outcome {
    let plan = Plan {
        connections: 2,
        amount: Amount::Requests(60),
        warm_up: std::time::Duration::ZERO,
        ..Plan::new(url)
    };
    run(&Loops::start(1).unwrap(), change(plan), Handles::default()).unwrap()
}

#[test]
fn a_response_in_two_writes_is_two_segments() {
    let one = load(&server(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]), |plan| plan).wire;
    assert_eq!((one.segments_per_response, one.expected_segments_per_response), (Some(1.0), Some(1.0)));
    assert!(one.retransmits.is_some() && one.round_trip_us > Some(0.0), "{one:?}");
    // On a busy machine an acknowledgement may be so late that the kernel sends a segment twice, which counts.
    let two = || {
        let two = load(&server(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n", "ok"]), |plan| plan).wire;
        (two.segments_per_response, two.expected_segments_per_response)
    };
    let all: Vec<_> = (0..10).map(|_| two()).take_while(|two| *two != (Some(2.0), Some(1.0))).collect();
    assert!(all.len() < 10, "{all:?}");
    // A wire without segments has none, and not zero.
    let memory = TestServer::start("memory:segments", Manner::Answer);
    let outcome = run(&Loops::start(1).unwrap(), memory.plan(20), Handles::default()).unwrap();
    assert_eq!(outcome.wire, anywire_load::WireFigures::default());
}

#[test]
fn the_servers_own_time_stands_beside_ours() {
    let timed = server(&[
        "HTTP/1.1 200 OK\r\nServer-Timing: db;dur=1.5, app;dur=0.5\r\nX-Took: 7ms\r\ncontent-length: 0\r\n\r\n",
    ]);
    let server_time = load(&timed, |plan| plan).latency.server.expect("it is told");
    assert_eq!(server_time.count, 60);
    assert!((server_time.p99 - 2000.0).abs() < 3.0, "{}", server_time.p99);
    let named = load(&timed, |plan| Plan { server_time_header: Some("x-took".to_owned()), ..plan });
    assert!((named.latency.server.expect("it is told").p50 - 7000.0).abs() < 8.0);
    let silent = load(&server(&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]), |plan| plan);
    assert_eq!(silent.latency.server, None);
}

#[test]
fn each_class_of_statuses_has_latencies() {
    let memory = TestServer::start("memory:classes", Manner::Statuses);
    let outcome = run(&Loops::start(2).unwrap(), memory.plan(30), Handles::default()).unwrap();
    let seen: Vec<_> =
        outcome.latency.by_status.iter().map(|(class, one)| (class.as_str(), one.count)).collect();
    assert_eq!(seen, [("2xx", 20), ("4xx", 10)]);
    let judged = |text: &str| -> Threshold { judge(&[text.parse().unwrap()], &outcome).remove(0) };
    let bad = judged("4xx.p99<60s");
    assert_eq!((bad.figure.as_str(), bad.verdict), ("latency.by_status.4xx.p99", Verdict::Held));
    assert_eq!(judged("5xx.p99<60s").verdict, Verdict::Broken, "no response had such a status");
}

#[test]
fn segments_are_told_over_http2_too() {
    let server = H2Server::start("tcp:127.0.0.1:0", h2_server::Manner::Answer);
    let outcome = run(&Loops::start(1).unwrap(), server.plan(50), Handles::default()).unwrap();
    assert!(outcome.wire.segments_per_response > Some(0.0), "{:?}", outcome.wire);
}

#[test]
fn the_generator_tells_what_it_used() {
    let url = server(&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]);
    let plain = load(&url, |plan| plan).generator;
    assert!(plain.voluntary_switches.is_some() && plain.involuntary_switches.is_some(), "{plain:?}");
    assert_eq!(plain.syscalls_per_request, None, "they are counted only if asked for");
    let counted = load(&url, |plan| Plan { count_system_calls: true, ..plan }).generator;
    // Not every system lets calls be counted.
    let Some(calls) = counted.syscalls_by_name else { return };
    let sum: f64 = calls.values().sum();
    assert!((counted.syscalls_per_request.expect("both are known") - sum).abs() < 1e-9);
    assert!(sum >= 2.0, "a request is a write and a read at least: {calls:?}");
}
