//! A payload for many connections lies in memory once until all have acknowledged it, and arrives as if each had its own.

use anywire_tcp::{ConnectOptions, SharedPayload};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::icmp_error;

const NO_NAGLE: ConnectOptions = ConnectOptions { no_nagle: true, keep_alive: false, class: 0, dscp: 0 };

#[test]
fn each_connection_costs_64_bytes_and_the_last_ack_frees_the_payload() {
    let mut host = Host::with(settings(), small_limits());
    let mut open: Vec<_> = (5000..5100).map(|port| host.accept(Peer::new().port(port))).collect();
    let payload = SharedPayload::from((0..1000).map(|byte| byte as u8).collect::<Vec<_>>());
    let before = host.engine.memory().segments_in_use;
    for (id, _) in &open {
        assert_eq!(host.engine.send_shared(*id, &payload), 1000);
    }
    assert_eq!(host.engine.memory().segments_in_use - before, 100 * 64 + 1000);
    let sent = host.sent();
    assert_eq!(sent.len(), 100);
    for ((_, peer), segment) in open.iter_mut().zip(&sent) {
        assert_eq!((segment.to, &segment.payload[..]), (peer.here, payload.bytes()));
        peer.heard(segment);
    }
    for (number, (_, peer)) in open.iter().enumerate() {
        let kept = host.engine.memory().segments_in_use - before;
        assert_eq!(kept, (100 - number) * 64 + 1000);
        host.give(&[peer.acks()]);
    }
    assert_eq!(host.engine.memory().segments_in_use, before);
    // Sent again it is kept again.
    assert_eq!(host.engine.send_shared(open[0].0, &payload), 1000);
    assert_eq!(host.engine.memory().segments_in_use, before + 1064);
}

#[test]
fn a_lost_payload_goes_again_also_in_parts() {
    for peer in [Peer::new(), Peer::plain(), Peer::v6()] {
        let is_v4 = peer.here.is_ipv4();
        let mut host = Host::new();
        let (id, mut peer) = host.accept(peer);
        let payload = SharedPayload::from((0..1400).map(|byte| byte as u8).collect::<Vec<_>>());
        assert_eq!(host.engine.send_shared(id, &payload), 1400);
        let lost = host.sent_one();
        assert_eq!(lost.payload, payload.bytes());
        let router = if is_v4 { "192.0.2.1".parse() } else { "2001:db8::99".parse() }.unwrap();
        let (kind, code) = if is_v4 { (3, 4) } else { (2, 0) };
        host.give_frame(&icmp_error(router, &lost, kind, code, 1280));
        let mut heard = Vec::new();
        for segment in host.sent() {
            heard.extend_from_slice(&segment.payload);
            peer.heard(&segment);
            host.give(&[peer.acks()]);
        }
        for (_, segment) in host.wait_millis(3000) {
            if segment.seq == peer.ack {
                heard.extend_from_slice(&segment.payload);
                peer.heard(&segment);
            }
        }
        host.give(&[peer.acks()]);
        assert_eq!(heard, payload.bytes());
        assert_eq!(host.engine.memory().segments_in_use, 0);
    }
}

#[test]
fn what_makes_no_segment_of_its_own_is_copied() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let small = SharedPayload::from(vec![1; 100]);
    assert_eq!(host.engine.send_shared(id, &small), 100);
    assert_eq!(host.engine.send_shared(id, &small), 100, "it waits for an ACK (RFC 9293 3.7.4)");
    assert_eq!(host.engine.send(id, &[2; 10]), 10);
    let first = host.sent_one();
    assert_eq!(first.payload, [1; 100]);
    peer.heard(&first);
    let second = host.answers(&peer.acks()).remove(0);
    assert_eq!(second.payload, [&[1; 100][..], &[2; 10]].concat());
    peer.heard(&second);
    host.give(&[peer.acks()]);
    let long = SharedPayload::from(vec![3; 4000]);
    assert_eq!(host.engine.send_shared(id, &long), 4000);
    let mut sent = host.sent();
    peer.heard_all(&sent);
    sent.extend(host.answers(&peer.acks()));
    assert_eq!(sent.iter().map(|segment| segment.payload.len()).sum::<usize>(), 4000);
    // A little more than a segment: one cell for it would have to be cut.
    peer.heard_all(&sent[sent.len() - 1..]);
    host.give(&[peer.acks()]);
    let before = host.engine.memory().segments_in_use;
    assert_eq!(host.engine.send_shared(id, &SharedPayload::from(vec![4; 1500])), 1500);
    assert!(host.engine.memory().segments_in_use - before > 2048);
}

#[test]
fn an_empty_payload_takes_nothing() {
    let mut host = Host::new();
    let (id, _) = host.accept_with(Peer::new(), NO_NAGLE);
    assert_eq!(host.engine.send_shared(id, &SharedPayload::from(Vec::new())), 0);
    assert_eq!((host.sent(), host.engine.memory().segments_in_use), (vec![], 0));
}

/// What has not left shares its segment with what comes behind it, and nothing overtakes it.
#[test]
fn what_waits_for_its_turn_is_joined() {
    let mut host = Host::new();
    let (id, _) = host.accept_with(Peer::new(), NO_NAGLE);
    assert!(host.engine.send_with(id, 3, |room| room.copy_from_slice(b"one")));
    assert!(host.engine.send_with(id, 4, |room| room.copy_from_slice(b" two")));
    assert_eq!(host.engine.send_shared(id, &SharedPayload::from(b" three".to_vec())), 6);
    assert_eq!(host.sent_one().payload, b"one two three");
}

#[test]
fn a_payload_goes_no_further_than_the_send_queue() {
    let mut limits = small_limits();
    limits.send_bytes = 1000;
    let mut host = Host::with(settings(), limits);
    let (id, _) = host.accept_with(Peer::new(), NO_NAGLE);
    let payload = SharedPayload::from(vec![5; 600]);
    assert_eq!(host.engine.send_shared(id, &payload), 600);
    host.sent_one();
    assert_eq!((host.engine.send_shared(id, &payload), host.sent_one().payload.len()), (400, 400));
}

#[test]
fn the_last_of_the_memory_is_for_empty_queues() {
    let mut limits = small_limits();
    limits.segment_bytes = 64 << 10;
    let mut host = Host::with(settings(), limits);
    let (busy, _) = host.accept_with(Peer::new(), NO_NAGLE);
    assert_eq!(host.engine.send(busy, &[1; 100]), 100);
    host.sent_one();
    let fresh = || SharedPayload::from(vec![5; 1000]);
    for port in 6000.. {
        if host.engine.memory().segments_in_use > (64 << 10) / 8 * 7 {
            break;
        }
        let (id, _) = host.accept(Peer::new().port(port));
        assert_eq!(host.engine.send_shared(id, &fresh()), 1000);
        host.sent_one();
    }
    assert_eq!(host.engine.send_shared(busy, &fresh()), 0);
    let (idle, _) = host.accept(Peer::new().port(5001));
    assert_eq!(host.engine.send_shared(idle, &fresh()), 1000);
}

#[test]
fn one_that_wants_no_delay_shares_what_is_behind_others_too() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept_with(Peer::new(), NO_NAGLE);
    let (one, other) = (SharedPayload::from(vec![1; 100]), SharedPayload::from(vec![2; 50]));
    for payload in [&one, &other, &one] {
        assert_eq!(host.engine.send_shared(id, payload), payload.bytes().len());
        let segment = host.sent_one();
        assert_eq!(segment.payload, payload.bytes());
        peer.heard(&segment);
    }
    assert_eq!(host.engine.memory().segments_in_use, 3 * 64 + 150);
    host.give(&[peer.acks()]);
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

#[test]
fn two_engines_keep_the_same_payload_each_by_itself() {
    let mut hosts = [Host::new(), Host::new()];
    let mut open: Vec<_> = hosts.iter_mut().map(|host| host.accept(Peer::new()).0).collect();
    let payloads: Vec<_> = (0..10_u8).map(|byte| SharedPayload::from(vec![byte; 100])).collect();
    for (number, payload) in payloads.iter().enumerate() {
        for end in [number % 2, 1 - number % 2] {
            let host = &mut hosts[end];
            assert_eq!(host.engine.send_shared(open[end], payload), 100);
            assert_eq!(host.sent_one().payload, payload.bytes());
            host.engine.abort(open[end]);
            host.sent();
            open[end] = host.accept(Peer::new().port(6000 + number as u16)).0;
        }
    }
}

#[test]
fn a_payload_without_room_is_not_taken() {
    let mut limits = small_limits();
    limits.segment_bytes = 64 << 10;
    let mut host = Host::with(settings(), limits);
    let open: Vec<_> = (5000..5200).map(|port| host.accept(Peer::new().port(port)).0).collect();
    let mut taken = 0;
    for id in &open {
        // Each has its own, so that nothing is shared.
        taken += host.engine.send_shared(*id, &SharedPayload::from(vec![5; 1000]));
    }
    let in_use = host.engine.memory().segments_in_use;
    assert!(in_use <= 64 << 10 && taken > 40_000 && taken < 62_000, "{in_use} in use, {taken} taken");
}
