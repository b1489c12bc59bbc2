//! Sequence numbers, timestamps and the clock wrap without any effect (RFC 9293 3.4, RFC 7323 5).

use std::time::Duration;

use anywire_tcp::Status;

use crate::common::host::{Host, Peer};
use crate::common::random::Random;

#[test]
fn the_peers_numbers_and_stamps_run_through_the_wrap() {
    let mut host = Host::new();
    let (id, mut peer) =
        host.accept(Peer { seq: u32::MAX - 60_000, timestamps: Some((u32::MAX - 50, 0)), ..Peer::new() });
    let (mut sent, mut heard) = (0_u64, 0_u64);
    let mut random = Random::new(3);
    let mut rounds = 0;
    while peer.seq > 1 << 31 || peer.seq < 200_000 {
        let mut out = vec![0; random.between(1, 4000) as usize];
        random.fill(&mut out);
        let taken = host.engine.send(id, &out);
        sent += taken as u64;
        let data = peer.data(&out[..out.len().min(1448)]);
        host.give(std::slice::from_ref(&data));
        assert_eq!(host.read(id), data.payload);
        for segment in host.sent() {
            if segment.seq == peer.ack {
                heard += segment.payload.len() as u64;
                peer.heard(&segment);
            }
        }
        peer.later(7);
        host.wait_millis(7);
        host.give(&[peer.acks()]);
        rounds += 1;
        assert!(rounds < 2000);
    }
    assert_eq!(host.engine.status(id), Status::Open);
    assert!(sent - heard < 300_000);
    assert_eq!((host.engine.counters().out_of_window, host.engine.counters().refused_by_paws), (0, 0));
}

#[test]
fn our_own_numbers_run_through_the_wrap() {
    // Moves the clock on until a new connection of this name begins shortly before the wrap.
    let mut host = Host::new();
    host.sent();
    let from = "10.0.0.1:1234".parse().unwrap();
    let to = Peer::new().here;
    let id = host.engine.connect_from(from, to, Default::default()).unwrap();
    let first = host.sent_one().seq;
    host.engine.close(id);
    host.wait(Duration::from_micros((u64::from(u32::MAX - first) - 30_000) * 4));
    let id = host.engine.connect_from(from, to, Default::default()).unwrap();
    let syn = host.sent_one();
    assert!(syn.seq > u32::MAX - 60_000, "{}", syn.seq);
    let mut peer = Peer { there: from, ..Peer::new() };
    peer.heard(&syn);
    host.give(&[peer.syn_ack()]);
    peer.seq += 1;
    let mut heard = 0;
    host.engine.send(id, &[5; 60_000]);
    for round in 0.. {
        // Each tenth is lost.
        for (number, segment) in host.wait_millis(5).into_iter().map(|(_, segment)| segment).enumerate() {
            if (round + number) % 10 != 0 && segment.seq == peer.ack {
                heard += segment.payload.len();
                peer.heard(&segment);
                host.give(&[peer.acks()]);
            }
        }
        peer.later(5);
        if heard == 60_000 {
            break;
        }
        assert!(round < 20_000, "{heard}");
    }
    assert!(peer.ack < 1 << 31);
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

#[test]
fn the_clock_of_the_engine_wraps_after_49_days() {
    let mut host = Host::new();
    host.wait(Duration::from_millis((1 << 32) - 1000 - 500));
    let (id, mut peer) = host.accept(Peer::new());
    for _ in 0..10 {
        host.engine.send(id, b"tick");
        let sent = host.wait_millis(100);
        assert_eq!(sent.len(), 1);
        peer.later(100);
        peer.heard(&sent[0].1);
        host.give(&[peer.acks()]);
    }
    host.engine.send(id, b"lost");
    let sent = host.wait_millis(3000);
    assert!((4..=6).contains(&sent.len()), "it backs off as ever: {sent:?}");
    host.engine.abort(id);
    host.sent();
    let (id, mut peer) = host.accept(Peer::new().port(5001));
    host.engine.close(id);
    peer.heard_all(&host.sent());
    host.answers(&peer.fin());
    host.wait_millis(59_000);
    assert_eq!(host.engine.in_time_wait(), 1);
    host.wait_millis(2_000);
    assert_eq!(host.engine.in_time_wait(), 0);
}
