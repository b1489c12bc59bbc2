//! A connection that the peer closes while it is idle is evicted before a call can get it.

use std::sync::{Mutex, mpsc};

use crate::support::{Gate, HANG, OK, Peer, block_on, client, eventually, on_each_wire, poll_once};
use anywire_client::Limits;
use anywire_http::Buffer;

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

/// An answer that fills a read buffer to its last byte, and more bytes behind it in the same write.
fn full_buffer(behind: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 00000\r\n\r\n";
    let length = Buffer::DEFAULT_BYTES - head.len();
    let head = head.replace("00000", &length.to_string());
    assert_eq!(head.len() + length, Buffer::DEFAULT_BYTES);
    format!("{head}{}{behind}", "x".repeat(length))
}

#[test]
fn bytes_behind_a_full_buffer_are_no_answer_to_a_waiting_call() {
    on_each_wire(|wire| {
        if wire.scheme() == "coat" {
            // It sends pieces of 8 KiB, so the bytes behind may arrive after the next call has left.
            return;
        }
        let (answer, answering) = mpsc::channel::<()>();
        let answering = Mutex::new(answering);
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                match request.head.path() {
                    "/first" => {
                        answering.lock().expect("no panic").recv().expect("the test goes on");
                        talk.say(full_buffer("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"));
                    }
                    _ => talk.say(OK),
                }
            }
        });
        let (_loops, client) = client(1, |builder| {
            builder.limits(Limits { connections_per_origin: 1, ..Limits::default() }).acquire_timeout(HANG)
        });
        let mut first = client.get(peer.url("/first")).via(peer.via()).send();
        assert!(poll_once(&mut first).is_pending());
        eventually("the first has the connection", || client.counters().total().active == 1);
        let mut second = client.get(peer.url("/second")).via(peer.via()).send();
        assert!(poll_once(&mut second).is_pending());
        eventually("the second waits", || client.counters().total().waiting == 1);
        answer.send(()).expect("the peer waits");
        let first = block_on(first).expect("an answer");
        assert!(block_on(first.bytes()).is_ok());
        let second = block_on(second).expect("an answer");
        assert_eq!(block_on(second.text()).expect("a body"), "ok");
        assert_eq!(client.counters().total().dialed, 2);
    });
}

#[test]
fn an_answer_that_fills_the_buffer_leaves_its_connection_alive() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            while talk.request().is_some() {
                talk.say(full_buffer(""));
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        for _ in 0..3 {
            let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
            assert!(block_on(answer.bytes()).is_ok());
        }
        let counters = client.counters().total();
        assert_eq!((counters.evicted, counters.dialed), (0, 1));
    });
}

#[test]
fn the_look_comes_before_each_call() {
    // All on one loop and in memory: the end has come, and no task has run since to see it.
    let gate = Gate::new();
    let (loops, client) = client(1, |builder| builder);
    let via = gate.via().clone();
    let (ask, asked) = mpsc::channel::<()>();
    let (close, closed) = mpsc::channel::<()>();
    let (caller, calls) = (client.clone(), via);
    let calling = loops.get(0).spawn(move || async move {
        let call = || caller.post("http://peer.example/").via(&calls).send();
        call().await.expect("an answer");
        ask.send(()).expect("the test waits");
        // Blocks the loop on purpose.
        closed.recv().expect("the test goes on");
        call().await.expect("an answer").text().await
    });
    let mut talk = gate.accept();
    assert!(talk.request().is_some());
    talk.say(OK);
    asked.recv().expect("the first call is answered");
    talk.half_close();
    close.send(()).expect("the loop waits");
    // Beside the test, which ends at once if the second call goes out on the first connection.
    std::thread::spawn(move || {
        let mut talk = gate.accept();
        assert!(talk.request().is_some());
        talk.say(OK);
        talk.wait_for_end();
    });
    assert_eq!(calling.wait().expect("no panic").expect("a body"), "ok");
    let counters = client.counters().total();
    assert_eq!((counters.evicted, counters.resent, counters.reused), (1, 0, 0));
}
