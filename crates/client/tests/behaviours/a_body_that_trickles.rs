//! The read timeout is about silence, not about the whole body. The total deadline of a call holds for its body, and that of a
//! client by default for a collected body only.

use std::thread::sleep;
use std::time::Duration;

use crate::support::{AnyWire, Peer, block_on, client, on_four_wires_at_a_time};
use anywire_client::{Error, Phase, Timeouts};
use anywire_http::Body;

/// A body of ten bytes, one each 150 ms: 1.5 s in all.
fn trickling(wire: AnyWire) -> Peer {
    Peer::start(wire, |mut talk| {
        talk.request();
        talk.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n");
        for _ in 0..10 {
            sleep(Duration::from_millis(150));
            talk.say("x");
        }
        talk.wait_for_end();
    })
}

#[test]
fn a_stream_may_last_longer_than_both_deadlines() {
    on_four_wires_at_a_time(|wire| {
        let peer = trickling(wire);
        let (read, total) = (Duration::from_millis(1000), Duration::from_millis(500));
        let timeouts = Timeouts { read, total, ..Timeouts::default() };
        let (_loops, client) = client(1, |builder| builder.timeouts(timeouts));
        let mut answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        let mut read = 0;
        while let Some(chunk) = block_on(answer.chunk()).expect("a good body") {
            read += chunk.len();
        }
        assert_eq!(read, 10);
    });
}

#[test]
fn a_stream_ends_by_the_total_deadline_of_its_call() {
    on_four_wires_at_a_time(|wire| {
        let peer = trickling(wire);
        let (_loops, client) = client(1, |builder| builder.read_timeout(Duration::from_millis(1000)));
        let limit = Duration::from_millis(500);
        let call = client.get(peer.url("/")).via(peer.via()).total_timeout(limit);
        let mut answer = block_on(call.send()).expect("an answer");
        let error = loop {
            match block_on(answer.chunk()) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the whole body came"),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, Error::Timeout { phase: Phase::Total, limit: told, .. } if told == limit),
            "{error:?}"
        );
        assert_eq!(client.counters().total().total_timeouts, 1);
    });
}

/// As with other clients, time that the caller takes is part of the whole.
#[test]
fn a_stream_that_its_caller_does_not_take_ends_by_the_total_deadline_too() {
    on_four_wires_at_a_time(|wire| {
        const LENGTH: usize = 4 << 20;
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n"));
            talk.say(vec![b'x'; LENGTH]);
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| builder.total_timeout(Duration::from_millis(500)));
        let mut answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        crate::support::eventually("it is over time", || client.counters().total().total_timeouts == 1);
        let error = loop {
            match block_on(answer.chunk()) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the whole body came"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Timeout { phase: Phase::Total, .. }), "{error:?}");
    });
}

#[test]
fn a_collected_body_ends_by_the_total_deadline() {
    on_four_wires_at_a_time(|wire| {
        let peer = trickling(wire);
        let (_loops, client) = client(1, |builder| builder.read_timeout(Duration::from_millis(1000)));
        let call = client.get(peer.url("/")).via(peer.via()).total_timeout(Duration::from_millis(500));
        let answer = block_on(call.send()).expect("an answer");
        let error = block_on(answer.bytes()).expect_err("too late");
        assert!(matches!(error, Error::Timeout { phase: Phase::Total, .. }), "{error:?}");
    });
}

#[test]
fn a_collected_body_may_last_longer_than_the_read_timeout() {
    on_four_wires_at_a_time(|wire| {
        let peer = trickling(wire);
        let (_loops, client) = client(1, |builder| builder.read_timeout(Duration::from_millis(1000)));
        let answer = block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("an answer");
        assert_eq!(block_on(answer.bytes()).expect("a good body").len(), 10);
    });
}

#[test]
fn a_head_that_never_comes_ends_by_the_total_deadline() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request();
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| builder);
        let call = client.get(peer.url("/")).via(peer.via()).total_timeout(Duration::from_millis(200));
        let error = block_on(call.send()).expect_err("too late");
        assert!(matches!(error, Error::Timeout { phase: Phase::Total, sent: true, .. }), "{error:?}");
    });
}

#[test]
fn silence_ends_a_stream_whose_upload_rests() {
    on_four_wires_at_a_time(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| builder);
        let (_sender, upload) = Body::channel(10);
        let call = client.post(peer.url("/")).via(peer.via()).body(upload);
        let call = call.read_timeout(Duration::from_millis(200)).total_timeout(Duration::from_secs(2));
        let mut response = block_on(call.send()).expect("a head");
        assert_eq!(block_on(response.chunk()).expect("a good body").expect("half of it"), "half");
        let error = block_on(response.chunk()).expect_err("the peer is silent");
        assert!(matches!(error, Error::Timeout { phase: Phase::Body, .. }), "{error:?}");
    });
}
