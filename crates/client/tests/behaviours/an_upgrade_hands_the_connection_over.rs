//! A call that asks for another protocol gets the connection, from the first byte behind the response's head.

use std::time::{Duration, Instant};

use crate::support::{HANG, OK, Peer, block_on, client, eventually, on_each_wire};
use anywire_client::{Error, Limits};
use anywire_http::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: toy\r\n\r\n";

#[test]
fn bytes_go_both_ways_and_the_end_ends_it() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            let Some(request) = talk.request() else { return };
            if request.head.path() != "/toy" {
                return talk.say(OK);
            }
            let headers = request.head.headers();
            assert_eq!((headers.get("connection"), headers.get("upgrade")), (Some("upgrade"), Some("toy")));
            // With the first words of the other protocol behind the head.
            talk.say(format!("{SWITCH}hello"));
            while let Some(bytes) = talk.read(100) {
                talk.say(bytes);
            }
            talk.say("bye");
        });
        let (_loops, client) = client(1, |builder| {
            let limits = Limits { connections_per_origin: 1, ..Limits::default() };
            // No deadline of HTTP holds for the other protocol.
            builder.limits(limits).read_timeout(Duration::from_millis(200))
        });
        let call = || client.get(peer.url("/toy")).via(peer.via()).upgrade("toy");
        // On a busy machine the switch may be late.
        let begun = Instant::now();
        let response = loop {
            match block_on(call().send()) {
                Err(error) if error.is_timeout() && begun.elapsed() < HANG => {}
                switched => break switched.expect("a switch"),
            }
        };
        assert_eq!(response.status(), 101);
        let timeouts_before = client.counters().total().read_timeouts;
        let mut upgraded = response.upgrade().expect("the connection");
        block_on(async {
            let mut bytes = [0; 5];
            upgraded.read_exact(&mut bytes).await.expect("left-over bytes");
            assert_eq!(&bytes, b"hello");
            // Far more than is on its way at a time.
            let large = vec![b'x'; 300_000];
            let (mut reader, mut writer) = tokio::io::split(upgraded);
            let mut back = vec![0; large.len()];
            let (read, written) = tokio::join!(reader.read_exact(&mut back), writer.write_all(&large));
            read.and(written.map(|()| 0)).expect("an echo");
            assert_eq!(back, large);
            let counters = client.counters().total();
            assert_eq!((counters.active, counters.idle), (1, 0), "it counts");
            writer.shutdown().await.expect("an end");
            let mut rest = String::new();
            reader.read_to_string(&mut rest).await.expect("the peer's end");
            assert_eq!(rest, "bye");
        });
        assert_eq!(client.counters().total().read_timeouts, timeouts_before);
        let plain = client.get(peer.url("/")).via(peer.via()).read_timeout(HANG);
        block_on(plain.send()).expect("its place is free");
    });
}

#[test]
fn dropping_it_closes_the_connection_and_so_does_closing_the_client() {
    on_each_wire(|wire| {
        let (report, ends) = std::sync::mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            talk.request();
            talk.say(SWITCH);
            talk.wait_for_end();
            let _ = report.send(());
        });
        let (_loops, client) = client(1, |builder| builder);
        let upgrade = || {
            let call = client.get(peer.url("/")).via(peer.via()).upgrade("toy");
            block_on(call.send()).expect("a switch").upgrade().expect("the connection")
        };
        drop(upgrade());
        ends.recv().expect("the connection ends");
        eventually("its place is free", || client.counters().total().active == 0);
        let mut upgraded = upgrade();
        assert_eq!(block_on(client.shutdown(Duration::ZERO)).calls_cut, 1);
        ends.recv().expect("the connection ends");
        assert_eq!(block_on(upgraded.read(&mut [0; 9])).expect("an end"), 0);
    });
}

#[test]
fn dropping_it_needs_no_peer_that_closes() {
    on_each_wire(|wire| {
        let (over, waits) = std::sync::mpsc::channel::<()>();
        let waits = std::sync::Mutex::new(waits);
        let peer = Peer::start(wire, move |mut talk| {
            talk.request();
            talk.say(SWITCH);
            assert_eq!(talk.read(100).as_deref(), Some(&b"last words"[..]));
            // It neither closes nor speaks.
            let _ = waits.lock().expect("no panic").recv();
        });
        let (_loops, client) = client(1, |builder| builder);
        let call = client.get(peer.url("/")).via(peer.via()).upgrade("toy");
        let mut upgraded = block_on(call.send()).expect("a switch").upgrade().expect("the connection");
        block_on(upgraded.write_all(b"last words")).expect("room");
        drop(upgraded);
        eventually("its place is free", || client.counters().total().active == 0);
        drop(over);
    });
}

#[test]
fn a_peer_that_stays_with_http_is_an_error_with_its_status() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let (_loops, client) = client(1, |builder| builder);
        let call = client.get(peer.url("/")).via(peer.via()).upgrade("toy");
        let response = block_on(call.send()).expect("an answer");
        let error = response.upgrade().expect_err("no switch");
        assert!(matches!(&error, Error::Status { status, .. } if *status == 200), "{error:?}");
    });
}

/// The rest of the request would be read as the first bytes of the other protocol.
#[test]
fn a_switch_before_the_request_has_left_is_an_error() {
    on_each_wire(|wire| {
        let peer = Peer::start(wire, |mut talk| {
            talk.request_head();
            talk.say(SWITCH);
            talk.wait_for_end();
        });
        let (_loops, client) = client(1, |builder| builder);
        let (_unfinished, body) = Body::channel(1);
        let call = client.post(peer.url("/")).via(peer.via()).upgrade("toy").body(body);
        let error = block_on(call.send()).expect_err("the body has no end yet");
        assert!(matches!(error, Error::Switched { .. }), "{error:?}");
        eventually("the connection is closed", || client.counters().total().active == 0);
    });
}
