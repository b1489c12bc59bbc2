//! Nagle's algorithm (RFC 9293 3.7.4) and delayed ACKs (3.8.6.3).

use std::time::Duration;

use anywire_tcp::ConnectOptions;

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::PSH;

#[test]
fn less_than_a_segment_waits_while_something_is_not_acknowledged() {
    let mut settings = settings();
    for predicts in [true, false] {
        settings.predicts = predicts;
        small_ones_wait(Host::with(settings.clone(), small_limits()));
    }
}

fn small_ones_wait(mut host: Host) {
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, b"first");
    let first = host.sent_one();
    assert!(first.is(PSH));
    for _ in 0..10 {
        host.engine.send(id, b"more ");
        assert!(host.engine.send_with(id, 5, |place| place.copy_from_slice(b"also ")));
        assert_eq!(host.sent(), []);
    }
    peer.heard(&first);
    let sent = host.answers(&peer.acks());
    let bytes: Vec<u8> = sent.iter().flat_map(|segment| segment.payload.clone()).collect();
    assert_eq!(bytes, b"more also ".repeat(10));
    // A full segment never waits, and a FIN takes the queued bytes along.
    host.engine.send(id, &[1; 1448]);
    assert_eq!(host.sent().len(), 1);
    host.engine.send(id, b"rest");
    assert_eq!(host.sent(), []);
    host.engine.shutdown(id);
    assert_eq!(host.sent().len(), 1);
}

#[test]
fn without_nagle_everything_leaves_at_once() {
    let mut host = Host::new();
    let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
    let (accepted, _) = host.accept_with(Peer::new(), options);
    let (called, _) = host.call_with(Peer::new().port(6000), options);
    for id in [accepted, called] {
        for _ in 0..5 {
            host.engine.send(id, b"tick");
            assert_eq!(host.sent_one().payload, b"tick");
        }
    }
}

#[test]
fn an_ack_waits_for_company_but_less_than_half_a_second() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let start = host.millis();
    assert_eq!(host.answers(&peer.data(b"question")), []);
    let sent = host.wait_millis(500);
    assert!(
        matches!(&sent[..], [(at, ack)] if at - start == 40 && ack.ack == peer.seq && ack.payload.is_empty()),
        "{sent:?}"
    );
    // It rides on an answer.
    host.give(&[peer.data(b"question")]);
    host.read(id);
    host.engine.send(id, b"answer");
    assert_eq!(host.sent_one().ack, peer.seq);
    let again: Vec<_> = host.wait_millis(100);
    assert_eq!(again, [], "no second ACK");
}

#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    for number in 1..=20 {
        let answers = host.answers(&peer.data(&[1; 1448]));
        assert_eq!(answers.len(), usize::from(number % 2 == 0), "segment {number}");
        host.read(id);
    }
    // A batch is processed whole before its ACK leaves (RFC 9293 MUST-58, MUST-59).
    let batch: Vec<_> = (0..8).map(|_| peer.data(&[1; 1448])).collect();
    host.give(&batch);
    let answers = host.sent();
    assert!(matches!(&answers[..], [one] if one.ack == peer.seq), "{answers:?}");
}

#[test]
fn a_full_segment_is_what_the_peer_makes_of_it() {
    let mut settings = settings();
    for predicts in [true, false] {
        settings.predicts = predicts;
        // The peer's path takes less than ours, down to the least that every host takes: still every second one.
        for size in [536, 1000, 1440] {
            let mut host = Host::with(settings.clone(), small_limits());
            let (id, mut peer) = host.accept(Peer::new());
            for number in 1..=10 {
                let answers = host.answers(&peer.data(&vec![1; size]));
                assert_eq!(answers.len(), usize::from(number % 2 == 0), "segment {number} of {size} bytes");
                host.read(id);
            }
        }
        // Small ones are not full: an ACK for as many bytes as two of ours have, 29 times 100, and not for every second.
        let mut host = Host::with(settings.clone(), small_limits());
        let (id, mut peer) = host.accept(Peer::new());
        // The first read widens the window to its whole size, and an ACK says so.
        host.give(&[peer.data(b"x")]);
        host.read(id);
        assert_eq!(host.sent_one().ack, peer.seq);
        for number in 1..=58 {
            let answers = host.answers(&peer.data(&[1; 100]));
            assert_eq!(answers.len(), usize::from(number % 29 == 0), "segment {number}");
            host.read(id);
        }
        // A peer that takes small segments only, and whose own are as small.
        let mut host = Host::with(settings.clone(), small_limits());
        let (id, mut peer) = host.accept(Peer { mss: Some(200), ..Peer::new() });
        for number in 1..=10 {
            let answers = host.answers(&peer.data(&[1; 188]));
            assert_eq!(answers.len(), usize::from(number % 2 == 0), "segment {number}");
            host.read(id);
        }
    }
}

#[test]
fn without_delay_each_batch_is_acknowledged() {
    let mut settings = settings();
    settings.delayed_ack = Duration::ZERO;
    let mut host = Host::with(settings, small_limits());
    let (_, mut peer) = host.accept(Peer::new());
    for _ in 0..3 {
        let answers = host.answers(&peer.data(b"x"));
        assert!(matches!(&answers[..], [one] if one.ack == peer.seq), "{answers:?}");
    }
}

#[test]
fn what_is_out_of_order_or_fills_a_gap_is_acknowledged_at_once() {
    for peer in [Peer::new(), Peer { sack: false, ..Peer::new() }] {
        let mut host = Host::new();
        let (_, mut peer) = host.accept(peer);
        let answers = host.answers(&peer.data_at(10, b"second...."));
        assert!(matches!(&answers[..], [one] if one.ack == peer.seq), "{answers:?}");
        let answers = host.answers(&peer.data(b"first....."));
        assert!(matches!(&answers[..], [one] if one.ack == peer.seq.wrapping_add(10)), "{answers:?}");
    }
    // Without SACK, each of a batch for itself: the peer counts them.
    let mut host = Host::new();
    let (_, peer) = host.accept(Peer { sack: false, ..Peer::new() });
    let batch: Vec<_> = (1..4).map(|number| peer.data_at(10 * number, &[1; 10])).collect();
    host.give(&batch);
    let answers = host.sent();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|ack| ack.ack == peer.seq));
}
