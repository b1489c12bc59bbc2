//! The end of a run and the timeout of a request come in time, whatever a connection is busy with or waits for.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::run;
use crate::support::server::{Manner, TestServer};
use anywire_http::Method;
use anywire_load::{Amount, ErrorKind, Limits, Outcome, Plan};
use anywire_loops::Loops;
use anywire_wire::Wire;

/// The outcome of a plan on one loop, which is there long before a minute is over.
fn ends(plan: Plan) -> Outcome {
    let (ended, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        // An error means that the test has failed already.
        let _ = ended.send(Box::new(run(&Loops::start(1).unwrap(), plan).unwrap()));
    });
    *outcome.recv_timeout(Duration::from_secs(60)).expect("the run ends")
}

/// Peers that keep a request unanswered for ever, each in another phase of the exchange.
fn peers() -> [(&'static str, Manner); 6] {
    let leaked = |text: &str, times| -> &'static str { text.repeat(times).leak() };
    [
        ("never reads", Manner::Deaf),
        ("never answers", Manner::Silent),
        ("interim answers without end", Manner::Trickle(leaked("HTTP/1.1 100 Continue\r\n\r\n", 100_000))),
        ("half a head", Manner::Bytes("HTTP/1.1 200 OK\r\ncontent-le")),
        ("half a body", Manner::Bytes("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")),
        ("a body without end, faster than it is read", Manner::Endless),
    ]
}

/// A request that is too large for the buffers between the two sides, so that who does not read shows.
fn large(plan: Plan) -> Plan {
    Plan { method: Method::POST, body: vec![b'x'; 12 << 20].into(), ..plan }
}

/// Asks `check` about every peer on every wire, the peers side by side.
fn each_peer(check: impl Fn(&str, Plan) + Sync) {
    let check = &check;
    std::thread::scope(|scope| {
        for (name, manner) in peers() {
            scope.spawn(move || {
                for address in anywire_wire::wires().filter_map(Wire::scratch) {
                    let server = TestServer::start(&address.to_string(), manner);
                    let plan = server.plan(1);
                    let plan = if matches!(manner, Manner::Deaf) { large(plan) } else { plan };
                    check(&format!("{name}, {address}"), plan);
                }
            });
        }
    });
}

#[test]
fn a_request_is_timed_out_whatever_its_peer_does() {
    each_peer(|name, plan| {
        let limits = Limits { failures_in_a_row: 1, ..Limits::default() };
        let totals = ends(Plan { timeout: Duration::from_millis(200), limits, ..plan }).totals;
        let counts = (
            totals.measured.sent,
            totals.measured.timed_out,
            totals.measured.errors.of(ErrorKind::Timeout),
            totals.measured.errors.total(),
        );
        assert_eq!(counts, (1, 1, 1, 1), "{name}: {:?}", totals.measured.error_samples);
    });
}

#[test]
fn a_request_does_not_outlast_the_run_whatever_its_peer_does() {
    each_peer(|name, plan| {
        let outcome = ends(Plan { amount: Amount::Duration(Duration::from_millis(100)), ..plan });
        let totals = &outcome.totals;
        let counts =
            (totals.measured.sent, totals.measured.unanswered_at_end, totals.measured.errors.total());
        assert_eq!(counts, (1, 1, 0), "{name}: {:?}", totals.measured.error_samples);
        assert!(!outcome.rate.given_up, "{name}");
    });
}

#[test]
fn a_connection_that_pauses_is_not_waited_for() {
    // The first of the two connections to say something gets garbage and pauses for an hour; the other sends the rest.
    let server = TestServer::start("memory:pauses", Manner::GarbageFirst);
    let hour = Duration::from_secs(3600);
    let limits = Limits { backoff: hour, backoff_max: hour, ..Limits::default() };
    let plan = Plan { connections: 2, limits, ..server.plan(50) };
    let totals = ends(plan).totals;
    assert_eq!(
        (totals.measured.sent, totals.measured.answered, totals.measured.errors.of(ErrorKind::Parse)),
        (50, 49, 1)
    );
}

/// A listening socket whose queue is full: the system takes no further connection, and says nothing.
fn swallowing() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(1).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

#[test]
fn connections_that_do_not_come_are_not_waited_for_in_turn() {
    let (_socket, address) = swallowing();
    let timeout = Duration::from_millis(100);
    // One at a time, so that all of them would take a quarter of an hour.
    let limits = Limits { dials_at_once: 1, ..Limits::default() };
    let plan = Plan {
        connections: 10_000,
        connect_timeout: timeout,
        handshake_timeout: timeout,
        timeout,
        amount: Amount::Duration(timeout),
        warm_up: Duration::ZERO,
        limits,
        ..Plan::new(format!("http://{address}/"))
    };
    let outcome = ends(plan);
    let connections = &outcome.totals.connections;
    assert!(connections.never_open > 9000, "{connections:?}");
    assert!(outcome.rate.seconds > 0.0 && !outcome.rate.interrupted, "{outcome}");
    let shortfall = outcome.shortfall().expect("it fell short").to_string();
    assert!(shortfall.contains("of 10000 connections were never open"), "{shortfall}");
}
