//! A response that its caller drops is read to its end, if little of it is left: its connection carries the next call. More than that,
//! or what comes too late, ends the connection. On simulated time.

use std::time::Duration;

use anywire_client::{Client, ClientBuilder, Counters, Limits, Timeouts};
use tokio::time::{Instant, sleep};

use crate::support::OK;
use crate::support::simulated::{Line, Simulated, SimulatedPeer};

const KIB: usize = 1 << 10;

/// A peer whose first response has this head, and then these pieces, each after a pause. All others are OK.
fn peer(scene: &Simulated, head: &'static str, pieces: Vec<(Duration, Vec<u8>)>) -> SimulatedPeer {
    scene.peer(move |mut line: Line| {
        let pieces = pieces.clone();
        async move {
            if line.number == 0 && line.head().await.is_some() {
                line.say(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n")).await;
                for (pause, piece) in pieces {
                    sleep(pause).await;
                    if !line.say(piece).await {
                        return;
                    }
                }
            }
            while line.head().await.is_some() {
                line.say(OK).await;
            }
        }
    })
}

/// Calls, drops the response with its body, and calls again. How many connections there were, what was counted, and how long the second
/// call took.
fn played(
    head: &'static str,
    pieces: Vec<(Duration, Vec<u8>)>,
    options: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> (usize, Counters, Duration) {
    let scene = Simulated::new();
    let peer = peer(&scene, head, pieces);
    // One that is not free makes the next call wait.
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    let client = scene.client(|builder| options(builder.limits(limits)));
    scene.run(async move || {
        let get = |client: &Client| client.get("http://peer.example/").via(peer.via()).send();
        drop(get(&client).await.expect("a head"));
        let begin = Instant::now();
        assert_eq!(get(&client).await.expect("an answer").text().await.expect("a body"), "ok");
        (peer.accepted(), client.counters().total(), begin.elapsed())
    })
}

fn soon(piece: impl Into<Vec<u8>>) -> (Duration, Vec<u8>) {
    (Duration::from_millis(10), piece.into())
}

#[test]
fn a_small_rest_is_read_in_each_framing() {
    let chunked = "transfer-encoding: chunked";
    let cases = [
        ("content-length: 9", vec![soon("some"), soon("thing")]),
        ("content-length: 65536", vec![soon(vec![b'x'; 64 * KIB])]),
        (chunked, vec![soon("4\r\nso"), soon("me\r\n0\r\n\r\n")]),
        (chunked, vec![soon("4\r\nsome\r\n0\r\nx: y\r\n\r\n")]),
        (chunked, vec![soon([b"8000\r\n", &vec![b'x'; 32 * KIB][..], b"\r\n0\r\n\r\n"].concat())]),
    ];
    for (head, pieces) in cases {
        let (accepted, counters, took) = played(head, pieces, |builder| builder);
        assert_eq!((accepted, counters.drained, counters.undrained, counters.reused), (1, 1, 0, 1), "{head}");
        assert!(took < Duration::from_secs(1), "{head}: {took:?}");
        assert_eq!((counters.active, counters.idle), (0, 1), "{head}");
    }
}

#[test]
fn a_long_rest_ends_the_connection() {
    let chunked = "transfer-encoding: chunked";
    let cases = [
        // The length says so at once.
        ("content-length: 65537", vec![soon("x")]),
        (chunked, vec![soon([b"10001\r\n", &vec![b'x'; 64 * KIB + 1][..]].concat())]),
    ];
    for (head, pieces) in cases {
        let (accepted, counters, took) = played(head, pieces, |builder| builder);
        assert_eq!((accepted, counters.drained, counters.undrained, counters.reused), (2, 0, 1, 0), "{head}");
        assert!(took < Duration::from_secs(1), "{head}: {took:?}");
    }
}

#[test]
fn a_rest_that_comes_too_late_ends_the_connection_in_time() {
    for (head, piece) in [("content-length: 9", &b"x"[..]), ("transfer-encoding: chunked", b"1\r\nx\r\n")] {
        // Each byte is soon enough.
        let pieces = vec![(Duration::from_millis(200), piece.to_vec()); 5];
        let (accepted, counters, took) = played(head, pieces, |builder| builder);
        assert_eq!((accepted, counters.drained, counters.undrained), (2, 0, 1), "{head}");
        assert_eq!((counters.total_timeouts, counters.body_timeouts), (0, 0), "nobody waits for that");
        assert!(took >= Duration::from_millis(500) && took < Duration::from_millis(600), "{head}: {took:?}");
    }
}

#[test]
fn what_is_wrong_with_the_rest_is_nobodys_error() {
    let cases = [
        ("content-length: 9", vec![soon("something and more")]),
        ("transfer-encoding: chunked", vec![soon("zz\r\n")]),
    ];
    for (head, pieces) in cases {
        let (accepted, counters, _) = played(head, pieces, |builder| builder);
        assert_eq!((accepted, counters.drained, counters.reused), (2, 0, 0), "{head}");
    }
}

#[test]
fn a_stream_and_a_last_response_are_not_read() {
    let cases = [
        "content-type: text/event-stream\r\ntransfer-encoding: chunked",
        "connection: close\r\ncontent-length: 9",
        // Up to the end of the connection.
        "content-type: text/plain",
    ];
    for head in cases {
        let (accepted, counters, took) = played(head, vec![soon("x")], |builder| builder);
        assert_eq!((accepted, counters.drained, counters.undrained), (2, 0, 0), "{head}");
        assert!(took < Duration::from_millis(100), "{head}: {took:?}");
    }
}

#[test]
fn both_bounds_may_be_others() {
    let pieces = || vec![soon("some"), soon("thing")];
    let none = Limits { drain_bytes: 0, connections_per_origin: 1, ..Limits::default() };
    let (accepted, counters, _) = played("content-length: 9", pieces(), |builder| builder.limits(none));
    assert_eq!((accepted, counters.drained), (2, 0));
    let few = Limits { drain_bytes: 8, connections_per_origin: 1, ..Limits::default() };
    let (accepted, counters, _) = played("content-length: 9", pieces(), |builder| builder.limits(few));
    assert_eq!((accepted, counters.undrained), (2, 1));
    let short = Timeouts { drain: Duration::from_millis(15), ..Timeouts::default() };
    let (accepted, counters, _) = played("content-length: 9", pieces(), |builder| builder.timeouts(short));
    assert_eq!((accepted, counters.undrained), (2, 1));
}
