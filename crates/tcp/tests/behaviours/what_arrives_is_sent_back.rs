//! Messages that go back as they came, and small ones one after the other: the quick ways, with timestamps, and the general
//! ones, without, do the same.

use std::time::Duration;

use anywire_tcp::ConnectOptions;

use crate::common::host::{Host, Peer};

fn no_nagle() -> ConnectOptions {
    ConnectOptions { no_nagle: true, ..ConnectOptions::default() }
}

/// Bytes that tell their places apart.
fn bytes(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 7 + salt) as u8).collect()
}

#[test]
fn a_message_goes_back_whole_whatever_its_length() {
    for peer in [Peer::new(), Peer::plain()] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(peer);
        for length in (1..300).step_by(11).chain([231, 232, 233, 500]) {
            let message = bytes(length, length);
            assert_eq!(host.answers(&peer.data(&message)), []);
            assert_eq!(host.engine.splice(id, length), length);
            assert_eq!((host.engine.readable(id), host.engine.splice(id, 1)), (0, 0));
            let sent = host.sent_one();
            assert_eq!((sent.payload.clone(), sent.ack), (message, peer.seq));
            peer.heard(&sent);
            assert_eq!(host.answers(&peer.acks()), []);
            assert_eq!(host.engine.memory().segments_in_use, 0);
        }
    }
}

#[test]
fn parts_go_back_in_their_order() {
    for peer in [Peer::new(), Peer::plain()] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept_with(peer, no_nagle());
        let (first, second) = (bytes(150, 1), bytes(300, 2));
        host.give(&[peer.data(&first), peer.data(&second)]);
        assert_eq!(host.engine.splice(id, 50), 50);
        assert_eq!(host.engine.splice(id, 70), 70, "joins what waits");
        let mut moved = 120;
        while moved < 450 {
            moved += host.engine.splice(id, 1000);
        }
        let sent = host.sent();
        let payload: Vec<u8> = sent.iter().flat_map(|segment| segment.payload.clone()).collect();
        assert_eq!(payload, [first, second].concat());
        peer.heard_all(&sent);
        host.give(&[peer.acks()]);
        assert_eq!(host.engine.memory().segments_in_use, 0);
    }
}

/// Nothing has arrived before the handshake is done, so no segment is queued, not even an empty one.
#[test]
fn a_connection_that_opens_has_nothing_to_send_back() {
    let mut host = Host::new();
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), no_nagle()).unwrap();
    host.sent_one();
    assert_eq!((host.engine.readable(id), host.engine.splice(id, 100)), (0, 0));
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

#[test]
fn small_messages_leave_one_after_the_other_and_the_first_keeps_its_timer() {
    for peer in [Peer::new(), Peer::plain()] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept_with(peer, no_nagle());
        let start = host.millis();
        for number in 0..5 {
            let message = bytes(200, number);
            assert!(host.engine.send_with(id, 200, |place| place.copy_from_slice(&message)));
            let sent = host.sent_one();
            assert_eq!((sent.payload, sent.seq), (message, peer.ack.wrapping_add(200 * number as u32)));
            host.wait_millis(10);
            peer.later(10);
        }
        let sent = host.wait(Duration::from_millis(400));
        let (at, again) = &sent[0];
        assert_eq!((at - start, again.payload.clone()), (271, bytes(200, 0)), "RFC 6298 5.1");
        peer.ack = peer.ack.wrapping_add(1000);
        host.give(&[peer.acks()]);
        assert_eq!(host.engine.memory().segments_in_use, 0);
        assert_eq!(host.wait(Duration::from_secs(2)), []);
    }
}

/// The answer would carry the ACK, but the peer's window is closed (RFC 9293 3.8.6.3: the ACK waits for less than 500 ms).
#[test]
fn what_cannot_leave_delays_no_ack() {
    for peer in [Peer::new(), Peer::plain()] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept_with(peer, no_nagle());
        peer.window = 0;
        host.give(&[peer.data(&bytes(200, 1))]);
        assert_eq!(host.engine.splice(id, 200), 200);
        let sent = host.wait_millis(100);
        assert!(
            sent.iter().any(|(_, segment)| segment.ack == peer.seq && segment.payload.is_empty()),
            "{sent:?}"
        );
    }
}
