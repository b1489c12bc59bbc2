//! On a loop, on a plain thread, on another runtime: the same client, the same future.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::{OK, Peer, all, block_on, builder, client, on_each_wire, poll_once, wire};

#[test]
fn calls_from_outside_spread_evenly() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (_loops, client) = client(4, |builder| builder);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (client, url, via) = (client.clone(), peer.url("/"), peer.via().clone());
            let call = async move {
                for _ in 0..50 {
                    client.get(&url).via(&via).send().await.expect("an answer");
                }
            };
            calls.spawn_on(call, runtime.handle());
        }
        while let Some(call) = block_on(calls.join_next()) {
            call.expect("no panic");
        }
        let counters = client.counters();
        assert_eq!(counters.total().requests, 400);
        assert_eq!(counters.balance(), 1.0);
    });
}

#[test]
fn calls_on_a_loop_stay_there() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (loops, client) = client(2, |builder| builder);
        let task = {
            let (client, url, via) = (client.clone(), peer.url("/"), peer.via().clone());
            loops.get(1).spawn(move || async move {
                for _ in 0..50 {
                    assert_eq!(client.get(&url).via(&via).send().await.expect("an answer").status(), 200);
                }
            })
        };
        task.wait().expect("the task ends");
        let requests: Vec<_> = client.counters().per_loop.iter().map(|one| one.requests).collect();
        assert_eq!(requests, [0, 50]);
        assert_eq!(peer.accepted(), 1);
    });
}

#[test]
fn a_client_without_loops_starts_its_own() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let client = builder().build();
        assert!(client.counters().per_loop.is_empty());
        for _ in 0..3 {
            let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert_eq!(block_on(answer.text()).expect("a body"), "ok");
        }
        assert_eq!(client.counters().total().requests, 3);
    });
}

#[test]
fn an_answer_outlives_its_client() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request();
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n");
            talk.say("x".repeat(1_000_000));
            talk.wait_for_end();
        });
        let answer = {
            let client = builder().build();
            block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer")
        };
        assert_eq!(block_on(answer.bytes()).expect("a good body").len(), 1_000_000);
    });
}

#[test]
fn a_loop_that_stopped_is_a_typed_error() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let shutdown = loops.shutdown(Duration::from_secs(20)).expect("not on a loop");
        assert!(shutdown.is_clean(), "an idle client holds the loops up: {shutdown:?}");
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("no loop");
        assert!(matches!(error, anywire_client::Error::Loop { .. }), "{error:?}");
    });
}

/// However many calls a thread makes while a loop is busy, it is woken once at most.
#[test]
fn a_batch_from_outside_is_one_wake_up() {
    let peer = Peer::answering(wire("memory"), OK);
    let (loops, client) = client(1, |builder| builder);
    let one = loops.get(0);
    let (report, is_busy) = mpsc::channel();
    let (go_on, going_on) = mpsc::channel::<()>();
    let busy = one.spawn(move || async move {
        report.send(()).expect("the test waits");
        // Blocks the loop on purpose.
        going_on.recv().expect("the test goes on");
    });
    is_busy.recv().expect("the loop runs");
    let before = one.counters();
    let mut calls: Vec<_> = (0..100).map(|_| client.get(peer.url("/")).via(peer.via()).send()).collect();
    assert!(calls.iter_mut().all(|call| poll_once(call).is_pending()));
    go_on.send(()).expect("the loop waits");
    busy.wait().expect("no panic");
    for answer in all(calls) {
        assert_eq!(answer.expect("an answer").status(), 200);
    }
    let after = one.counters();
    assert_eq!(after.hand_overs - before.hand_overs, 100);
    assert!(after.wake_ups - before.wake_ups <= 1, "{} wake-ups", after.wake_ups - before.wake_ups);
}
