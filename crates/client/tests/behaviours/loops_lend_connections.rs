//! A loop may have the connections that other loops do not use, and gives them back once those are short of their share. In
//! sum there are never more than the cap.

use std::sync::Barrier;

use crate::support::{OK, Peer, all, block_on, client, eventually, on_each_wire, on_token};
use anywire_client::{Call, Client, ClientBuilder, Limits};
use anywire_loops::{Loops, Task};

/// So many connections, with one call each over HTTP/2 too.
fn limited(builder: ClientBuilder, connections: usize) -> ClientBuilder {
    let mut limits = Limits { connections_per_origin: connections, ..Limits::default() };
    limits.http2.streams = 1;
    builder.limits(limits)
}

/// Makes so many calls at a time on a loop.
fn call_on(loops: &Loops, index: usize, count: usize, call: impl Fn() -> Call + Send + 'static) -> Task<()> {
    loops.get(index).spawn(move || async move {
        let calls: Vec<_> = (0..count).map(|_| anywire_loops::spawn(call().send())).collect();
        for call in calls {
            assert_eq!(call.await.expect("no panic").expect("an answer").status(), 200);
        }
    })
}

fn call_of(client: &Client, peer: &Peer) -> impl Fn() -> Call + Send + 'static {
    let (client, url, via) = (client.clone(), peer.url("/"), peer.via().clone());
    move || client.get(&url).via(&via)
}

#[test]
fn one_loop_may_have_the_whole_cap() {
    on_each_wire(|wire| {
        // Nobody is answered before all eight have asked.
        let all_there = Barrier::new(8);
        let peer = Peer::start(wire, move |mut talk| {
            let is_first = talk.number < 8;
            while talk.request().is_some() {
                if is_first {
                    all_there.wait();
                }
                talk.say(OK);
                if is_first {
                    return talk.wait_for_end();
                }
            }
        });
        let (loops, client) = client(4, |builder| limited(builder, 8));
        block_on(call_on(&loops, 2, 8, call_of(&client, &peer))).expect("all at a time");
        let counters = client.counters();
        assert_eq!((counters.total().dialed, counters.total().lent, peer.most_open()), (8, 6, 8));
        assert_eq!((counters.per_loop[2].requests, counters.total().given_back), (8, 0));
        // The others get their shares as they need them.
        for index in [0, 1, 3] {
            block_on(call_on(&loops, index, 1, call_of(&client, &peer))).expect("an answer");
        }
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.lent, counters.given_back), (11, 6, 3));
        assert_eq!((counters.idle, counters.waiting), (8, 0));
    });
}

#[test]
fn busy_connections_come_back_after_their_calls() {
    for is_http2 in [false, true] {
        on_each_wire(|wire| {
            let (peer, tokens) = on_token(wire, is_http2);
            let (loops, client) = client(2, |builder| {
                let builder = limited(builder, 2);
                if is_http2 { builder.http2_prior_knowledge() } else { builder.http1_only() }
            });
            let first = call_on(&loops, 0, 3, call_of(&client, &peer));
            eventually("two are under way", || {
                let counters = client.counters().total();
                (counters.active, counters.waiting, counters.lent) == (2, 1, 1)
            });
            let second = call_on(&loops, 1, 1, call_of(&client, &peer));
            eventually("the other loop is short", || {
                let counters = client.counters().total();
                (counters.waiting, counters.given_back) == (2, 1)
            });
            (0..4).for_each(|_| tokens.send(()).expect("the peer is there"));
            block_on(first).expect("answers");
            block_on(second).expect("an answer");
            let dialed: Vec<_> = client.counters().per_loop.iter().map(|one| one.dialed).collect();
            assert_eq!(dialed, [2, 1]);
            eventually("both are idle", || client.counters().total().idle == 2);
        });
    }
}

#[test]
fn calls_from_outside_borrow_nothing() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (_loops, client) = client(2, |builder| limited(builder, 4));
        let call = call_of(&client, &peer);
        for answer in all((0..100).map(|_| call().send())) {
            answer.expect("an answer");
        }
        let counters = client.counters().total();
        assert_eq!((counters.lent, counters.given_back), (0, 0));
        assert!(counters.dialed <= 4, "{counters:?}");
    });
}

#[test]
fn what_was_kept_for_a_caller_that_left_is_for_others() {
    on_each_wire(|wire| {
        let (peer, tokens) = on_token(wire, false);
        let (loops, client) = client(2, |builder| limited(builder, 2));
        let under_way = |active, waiting| {
            eventually("so many are under way, and so many wait", || {
                let counters = client.counters().total();
                (counters.active, counters.waiting) == (active, waiting)
            });
        };
        let first = call_on(&loops, 0, 2, call_of(&client, &peer));
        under_way(2, 0);
        // The other loop is short of its share, until its caller leaves.
        let call = call_of(&client, &peer);
        let (leave, left) = tokio::sync::oneshot::channel::<()>();
        let leaving = loops.get(1).spawn(move || async move {
            let mut sending = call().send();
            let _ = crate::support::poll_once(&mut sending);
            let _ = left.await;
        });
        under_way(2, 1);
        eventually("one is to be given back", || client.counters().total().given_back == 1);
        let second = call_on(&loops, 0, 1, call_of(&client, &peer));
        under_way(2, 2);
        leave.send(()).expect("it waits");
        block_on(leaving).expect("no panic");
        under_way(2, 1);
        // One call ends, on the connection that stays or on the one that is given back.
        tokens.send(()).expect("the peer is there");
        under_way(2, 0);
        (0..2).for_each(|_| tokens.send(()).expect("the peer is there"));
        block_on(first).expect("answers");
        block_on(second).expect("an answer");
    });
}
