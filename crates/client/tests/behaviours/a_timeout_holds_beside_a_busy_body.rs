//! A caller's own timeout ends a call whose body is always there: the reader of a busy body lets its runtime run.

use std::thread;
use std::time::Duration;

use crate::support::{Peer, block_on, client, on_each_wire};
use anywire_client::{Error, Limits, Phase};

#[test]
fn a_callers_timeout_ends_a_body_of_chunks_of_a_byte() {
    on_each_wire(|wire| {
        // Ends at some time, so that a timeout that does not hold is a failure and no hang.
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            let chunks = "1\r\nx\r\n".repeat(10_000);
            let left = (0..1000).all(|_| talk.try_say(&chunks));
            if left {
                talk.say("0\r\n\r\n");
            }
        });
        let (_loops, client) = client(1, |builder| builder);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let read_all = async {
            let mut answer = client.get(peer.url("/")).via(peer.via()).send().await.expect("an answer");
            while answer.chunk().await.expect("a good body").is_some() {
                // Printing takes as long. The next chunk is there each time.
                thread::sleep(Duration::from_micros(10));
            }
        };
        let timed = async { tokio::time::timeout(Duration::from_millis(200), read_all).await };
        assert!(runtime.block_on(timed).is_err(), "the body was read to its end");
    });
}

#[test]
fn the_total_deadline_ends_a_body_of_chunks_of_a_byte() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            let chunks = "1\r\nx\r\n".repeat(10_000);
            let left = (0..1000).all(|_| talk.try_say(&chunks));
            if left {
                talk.say("0\r\n\r\n");
            }
        });
        let limits = Limits { body_bytes: usize::MAX, ..Limits::default() };
        let (_loops, client) = client(1, |builder| builder.limits(limits));
        let call = client.get(peer.url("/")).via(peer.via()).total_timeout(Duration::from_millis(300));
        let error = block_on(async { call.send().await?.bytes().await }).expect_err("a body without end");
        assert!(matches!(error, Error::Timeout { phase: Phase::Total, .. }), "{error:?}");
        assert_eq!(client.counters().total().total_timeouts, 1);
    });
}

/// As a loop of retries asks whose time is over.
#[test]
fn a_call_without_time_is_not_sent() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| builder);
        let call = |limit| block_on(client.post(peer.url("/")).via(peer.via()).total_timeout(limit).send());
        let error = call(Duration::ZERO).expect_err("no time");
        assert!(matches!(error, Error::Timeout { phase: Phase::Total, sent: false, .. }), "{error:?}");
        assert!(!error.may_have_been_processed());
        assert_eq!(client.counters().total().total_timeouts, 1);
        assert_eq!(peer.accepted(), 0);
        assert_eq!(call(Duration::MAX).expect("a response").status().as_u16(), 200);
    });
}
