//! Where calls share connections, one that has a connection to itself is counted as such only for as long as it waits: one that
//! was refused, or has gone elsewhere, has none dialled for it.

use crate::support::{Peer, block_on, client, eventually, poll_once, wire};
use anywire_client::{Client, Error, Limits};

/// A call that has a connection to itself.
fn post(client: &Client, peer: &Peer) -> anywire_client::Sending {
    client.post(peer.url("/")).via(peer.via()).body("order").send()
}

#[test]
fn nobody_dials_for_a_call_that_found_the_queue_full() {
    const BYE: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let (answer, to_answer) = std::sync::mpsc::channel::<()>();
    let to_answer = std::sync::Mutex::new(to_answer);
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        talk.request();
        let _ = to_answer.lock().expect("no panic").recv();
        talk.say(BYE);
    });
    let other = Peer::answering(wire("tcp"), BYE);
    // Each of two loops has two connections and no queue.
    let limits = Limits { connections_per_origin: 4, queue_per_origin: 0, ..Limits::default() };
    let (_loops, client) = client(2, |builder| builder.pipelining(8).limits(limits));
    // All calls to the peer go to the same loop, because those in between go to the other one.
    let skip_a_loop = || drop(block_on(client.get(other.url("/")).send()).expect("an answer"));
    let mut calls = Vec::new();
    for _ in 0..2 {
        skip_a_loop();
        let mut call = post(&client, &peer);
        assert!(poll_once(&mut call).is_pending());
        calls.push(call);
    }
    skip_a_loop();
    assert!(matches!(block_on(post(&client, &peer)), Err(Error::QueueFull { .. })));
    drop(answer);
    for call in calls {
        block_on(call).expect("an answer");
    }
    eventually("the connections are closed", || client.counters().total().active == 0);
    skip_a_loop();
    block_on(post(&client, &peer)).expect("an answer");
    let counters = block_on(client.origins()).remove(&peer.url("")).expect("it was called");
    assert_eq!((counters.dialing, counters.idle, counters.waiting), (0, 0, 0), "{counters:?}");
    assert_eq!(peer.accepted(), 3);
}
