//! A connection that the peer closes while it is idle is evicted before a call can get it.

mod support;

use std::sync::{Mutex, mpsc};

use support::{OK, Peer, block_on, client, eventually, on_each_wire};

#[test]
fn a_fin_evicts_and_the_next_call_goes_out_on_a_fresh_connection() {
    on_each_wire(|wire| {
        let (close, closing) = mpsc::channel::<()>();
        let closing = Mutex::new(closing);
        let peer = Peer::start(wire, move |mut talk| {
            assert!(talk.request().is_some(), "a connection without a request");
            talk.say(OK);
            if talk.number == 0 {
                closing.lock().expect("no panic").recv().expect("the test goes on");
                talk.half_close();
            }
            // Nothing may come on a connection that was closed.
            assert!(talk.request().is_none(), "a request on a connection that was closed");
        });
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.post(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!(client.counters().total().idle, 1);
        close.send(()).expect("the peer waits");
        eventually("the connection is evicted", || client.counters().total().evicted == 1);
        assert_eq!(client.counters().total().idle, 0);
        block_on(client.post(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let counters = client.counters().total();
        assert_eq!((counters.dialed, counters.resent, counters.reused), (2, 0, 0));
    });
}

#[test]
fn bytes_that_nobody_asked_for_evict_too() {
    on_each_wire(|wire| {
        let (speak, speaking) = mpsc::channel::<()>();
        let speaking = Mutex::new(speaking);
        let peer = Peer::start(wire, move |mut talk| {
            assert!(talk.request().is_some(), "a connection without a request");
            talk.say(OK);
            if talk.number == 0 {
                speaking.lock().expect("no panic").recv().expect("the test goes on");
                talk.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
            }
            assert!(talk.request().is_none(), "a request on a connection out of step");
        });
        let (_loops, client) = client(1, |builder| builder);
        block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        speak.send(()).expect("the peer waits");
        eventually("the connection is evicted", || client.counters().total().evicted == 1);
        let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!(block_on(answer.text()).expect("a body"), "ok");
    });
}

#[test]
fn an_answer_with_bytes_behind_it_ends_its_connection() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n");
        let (_loops, client) = client(1, |builder| builder);
        for round in 1..=2 {
            let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert_eq!(block_on(answer.text()).expect("a body"), "ok");
            assert_eq!(client.counters().total().dialed, round);
            assert_eq!(client.counters().total().idle, 0);
        }
    });
}
