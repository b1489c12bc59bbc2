//! What a client counts for each origin: connections by state, calls, retries, errors by kind, deadlines by phase.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use anywire_client::{Client, Limits, OriginCounters, Phase, Retries, Timeouts};

use crate::support::{OK, Peer, block_on, client, eventually, wire};

fn of(client: &Client, peer: &Peer) -> OriginCounters {
    let origin = peer.url("");
    block_on(client.origins()).remove(&origin).unwrap_or_default()
}

#[test]
fn connections_and_calls_are_those_of_now() {
    let (answer, to_answer) = mpsc::channel::<()>();
    let to_answer = Mutex::new(to_answer);
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while talk.request().is_some() {
            let _ = to_answer.lock().expect("no panic").recv();
            talk.say(OK);
        }
    });
    let other = Peer::answering(wire("tcp"), OK);
    let limits = Limits { connections_per_origin: 1, ..Limits::default() };
    let (_loops, client) = client(1, |builder| builder.limits(limits));
    let call = |url: String| {
        let call = client.get(url);
        std::thread::spawn(move || block_on(call.send()).expect("an answer"))
    };
    let calls = [call(peer.url("/a")), call(peer.url("/b"))];
    eventually("one is on the connection, one waits", || {
        let counters = of(&client, &peer);
        (counters.busy, counters.waiting, counters.idle) == (1, 1, 0)
    });
    block_on(client.get(other.url("/")).send()).expect("an answer");
    assert_eq!(of(&client, &other).attempts, 1);
    drop(answer);
    calls.into_iter().for_each(|call| drop(call.join().expect("no panic")));
    let counters = of(&client, &peer);
    assert_eq!((counters.busy, counters.waiting, counters.idle, counters.attempts), (0, 0, 1, 2));
    assert!(counters.errors.is_empty() && counters.timeouts.is_empty(), "{counters:?}");
}

#[test]
fn errors_are_counted_by_kind_and_deadlines_by_phase() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            match request.head.path() {
                "/close" => return,
                "/cut" => return talk.say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ncut"),
                "/garbage" => return talk.say("no HTTP at all\r\n\r\n"),
                _ => talk.wait_for_end(),
            }
        }
    });
    let timeouts = Timeouts { read: Duration::from_millis(50), ..Timeouts::default() };
    let retries = Retries { max: 1, first_pause: Duration::ZERO, ..Retries::default() };
    let (_loops, client) = client(1, |builder| builder.timeouts(timeouts).retries(retries));
    for path in ["/close", "/cut", "/garbage", "/silent"] {
        block_on(async { client.get(peer.url(path)).send().await?.text().await }).expect_err(path);
    }
    eventually("the body that broke off is counted", || of(&client, &peer).errors.len() == 3);
    let counters = of(&client, &peer);
    // `/close` was called twice, as a GET may be.
    assert_eq!((counters.attempts, counters.retries), (5, 1), "{counters:?}");
    let errors: Vec<_> = counters.errors.iter().map(|(kind, count)| (*kind, *count)).collect();
    assert!(errors.contains(&("timeout", 1)), "{errors:?}");
    assert_eq!(errors.iter().map(|(_, count)| count).sum::<u64>(), 5, "{errors:?}");
    assert_eq!(
        counters.timeouts.iter().map(|(phase, count)| (*phase, *count)).collect::<Vec<_>>(),
        [(Phase::Read, 1)]
    );
    // For a page of counts.
    let json = serde_json::to_value(&counters).expect("JSON");
    assert_eq!(
        (&json["retries"], &json["errors"]["timeout"], &json["timeouts"]["read"]),
        (&1.into(), &1.into(), &1.into())
    );
}

#[test]
fn an_origin_that_nobody_is_at_is_counted() {
    let peer = Peer::answering(wire("tcp"), OK);
    peer.stop_listening();
    let (_loops, client) = client(1, |builder| builder);
    eventually("nobody listens", || block_on(client.get(peer.url("/")).send()).is_err());
    let counters = of(&client, &peer);
    assert!(counters.errors.get("connect").is_some_and(|count| *count > 0), "{counters:?}");
    assert_eq!((counters.busy, counters.dialing, counters.waiting), (0, 0, 0));
}

#[test]
fn what_a_pool_had_counted_outlasts_it() {
    let peer = Peer::answering(wire("tcp"), OK);
    let timeouts = Timeouts {
        pool_unused: Duration::from_millis(1),
        idle: Duration::from_millis(1),
        ..Timeouts::default()
    };
    let (_loops, client) = client(1, |builder| builder.timeouts(timeouts));
    block_on(client.get(peer.url("/")).send()).expect("an answer");
    eventually("the pool is gone", || client.counters().total().pools_unused == 1);
    assert_eq!(of(&client, &peer).attempts, 1);
}
