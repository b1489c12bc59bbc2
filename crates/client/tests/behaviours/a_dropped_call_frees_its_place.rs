//! Dropping the future of a call cancels it, wherever it is; its place goes to the next one.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Gate, HANG, OK, Peer, block_on, client, eventually, on_each_wire, poll_once};
use anywire_client::{Error, Limits};
use anywire_http::Body;

fn narrow(queue: usize) -> Limits {
    Limits { connections_per_origin: 1, queue_per_origin: queue, ..Limits::default() }
}

#[test]
fn a_call_in_flight_closes_its_connection() {
    on_each_wire(|wire| {
        let (report, ends) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                if request.head.path() == "/never" {
                    let _ = report.send("sent");
                    talk.wait_for_end();
                    let _ = report.send("closed");
                    return;
                }
                talk.say(OK);
            }
        });
        let (_loops, client) =
            client(1, |builder| builder.limits(narrow(1)).acquire_timeout(Duration::from_secs(20)));
        let mut call = client.get(peer.url("/never")).via(peer.via()).send();
        assert!(poll_once(&mut call).is_pending());
        assert_eq!(ends.recv().expect("the call arrives"), "sent");
        let mut waiting = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut waiting).is_pending());
        drop(call);
        assert_eq!(ends.recv().expect("the connection ends"), "closed");
        block_on(waiting).expect("the place is free");
        let counters = client.counters().total();
        assert_eq!((counters.active, counters.idle, counters.dialed), (0, 1, 2));
    });
}

#[test]
fn a_call_in_the_queue_leaves_it() {
    on_each_wire(|wire| {
        let (go_on, going_on) = mpsc::channel::<()>();
        let going_on = std::sync::Mutex::new(going_on);
        let peer = Peer::start(wire, move |mut talk| {
            while talk.request().is_some() {
                going_on.lock().expect("no panic").recv().expect("the test goes on");
                talk.say(OK);
            }
        });
        let (_loops, client) =
            client(1, |builder| builder.limits(narrow(1)).acquire_timeout(Duration::from_secs(20)));
        let mut first = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut first).is_pending());
        eventually("the first has the connection", || client.counters().total().active == 1);
        let mut second = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut second).is_pending());
        eventually("the second waits", || client.counters().total().waiting == 1);
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("no room");
        assert!(matches!(error, Error::QueueFull { .. }), "{error:?}");
        drop(second);
        let mut third = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut third).is_pending());
        eventually("the third came", || client.counters().total().requests == 4);
        go_on.send(()).expect("the peer waits");
        go_on.send(()).expect("the peer waits");
        block_on(first).expect("an answer");
        block_on(third).expect("an answer");
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.queue_full, counters.waiting), (1, 1, 0));
    });
}

#[test]
fn a_call_leaves_the_queue_with_its_body_at_once() {
    let long = Duration::from_secs(3600);
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request();
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| {
            builder.limits(narrow(2)).acquire_timeout(long).read_timeout(long).total_timeout(long)
        });
        let mut first = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut first).is_pending());
        eventually("the first has the connection", || client.counters().total().active == 1);
        let (sender, body) = Body::channel(1);
        let mut second = client.post(peer.url("/")).via(peer.via()).body(body).send();
        assert!(poll_once(&mut second).is_pending());
        eventually("the second waits", || client.counters().total().waiting == 1);
        drop(second);
        eventually("its body is dropped", || sender.is_closed());
        eventually("it is counted no more", || client.counters().total().waiting == 0);
    });
}

#[test]
fn a_call_that_left_the_queue_misses_no_deadline() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request();
            talk.wait_for_end();
        });
        let (_loops, client) =
            client(1, |builder| builder.limits(narrow(2)).acquire_timeout(Duration::from_millis(300)));
        let mut first = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut first).is_pending());
        eventually("the first has the connection", || client.counters().total().active == 1);
        let mut gone = client.get(peer.url("/")).via(peer.via()).send();
        assert!(poll_once(&mut gone).is_pending());
        eventually("the second waits", || client.counters().total().waiting == 1);
        drop(gone);
        // It waits behind the one that has left, so that its deadline passes last.
        let error = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect_err("no connection");
        assert!(error.is_timeout(), "{error:?}");
        let counters = client.counters().total();
        assert_eq!((counters.waiting, counters.acquire_timeouts), (0, 1));
    });
}

#[test]
fn a_response_that_is_dropped_closes_its_connection() {
    on_each_wire(|wire| {
        let (report, ends) = mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            talk.request();
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nsome");
            talk.wait_for_end();
            let _ = report.send(());
        });
        let (_loops, client) = client(1, |builder| builder);
        let mut answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!(block_on(answer.chunk()).expect("a good body").expect("some of it"), "some");
        drop(answer);
        ends.recv().expect("the connection ends");
        eventually("its place is free", || client.counters().total().active == 0);
    });
}

#[test]
fn a_body_that_was_asked_for_and_dropped_frees_its_place() {
    let long = Duration::from_secs(3600);
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            while let Some(request) = talk.request() {
                if request.head.path() == "/endless" {
                    talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n");
                    talk.wait_for_end();
                    return;
                }
                talk.say(OK);
            }
        });
        let (loops, client) = client(1, |builder| {
            builder.limits(narrow(1)).acquire_timeout(long).read_timeout(long).total_timeout(long)
        });
        for converted in [false, true] {
            let (client, via) = (client.clone(), peer.via().clone());
            let (endless, next) = (peer.url("/endless"), peer.url("/"));
            // On the loop, where the connection's task runs between two steps.
            let calling = loops.get(0).spawn(move || async move {
                let answer = client.get(endless).via(&via).send().await.expect("an answer");
                let mut body = match converted {
                    false => answer.into_parts().1,
                    true => http::Response::try_from(answer).expect("convertible").into_body(),
                };
                assert_eq!(body.chunk().await.expect("a good body").expect("some of it"), "hi");
                assert!(poll_once(&mut Box::pin(body.chunk())).is_pending());
                for _ in 0..10 {
                    // The connection has heard that more is wanted, and waits for the peer.
                    tokio::task::yield_now().await;
                }
                drop(body);
                client.get(next).via(&via).send().await.expect("the place is free");
            });
            block_on(calling).expect("no panic");
        }
    });
}

#[test]
fn a_dial_that_outlives_its_call_is_the_next_ones_and_counts_as_fresh() {
    let gate = Gate::new();
    gate.fill();
    let (_loops, client) = client(1, |builder| builder.connect_timeout(HANG));
    let send = || client.get("http://peer.example/").via(gate.via()).send();
    let mut call = send();
    assert!(poll_once(&mut call).is_pending());
    eventually("the call waits for its dial", || client.counters().total().waiting == 1);
    drop(call);
    drop(gate.accept());
    let mut talk = gate.accept();
    eventually("the dial ends", || client.counters().total().idle == 1);
    let mut next = send();
    assert!(poll_once(&mut next).is_pending());
    assert!(talk.request().is_some());
    talk.say(OK);
    block_on(next).expect("an answer");
    let counters = client.counters().total();
    assert_eq!((counters.dialed, counters.reused), (1, 0));
}

#[test]
fn a_call_that_is_never_polled_does_nothing() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (_loops, client) = client(1, |builder| builder);
        drop(client.get(peer.url("/")).via(peer.via()).send());
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!(client.counters().total().requests, 1);
    });
}

#[test]
fn a_call_that_is_dropped_before_its_loop_hears_of_it_costs_no_connection() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (loops, client) = client(1, |builder| builder);
        let send = || client.get(peer.url("/")).via(peer.via()).send();
        block_on(send()).expect("an answer");
        let (block, blocked) = mpsc::channel::<()>();
        let (report, blocks) = mpsc::channel();
        let blocking = loops.get(0).spawn(move || async move {
            report.send(()).expect("the test waits");
            // Blocks the loop on purpose.
            blocked.recv().expect("the test goes on");
        });
        blocks.recv().expect("the loop blocks");
        let mut call = send();
        assert!(poll_once(&mut call).is_pending());
        drop(call);
        block.send(()).expect("the loop waits");
        blocking.wait().expect("no panic");
        block_on(send()).expect("an answer");
        assert_eq!((peer.accepted(), client.counters().total().dialed), (1, 1));
    });
}
