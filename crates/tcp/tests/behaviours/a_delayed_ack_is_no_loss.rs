//! The retransmission timeout leaves room for an ACK that the peer delays by up to half a second (RFC 9293 MUST-40), and
//! still repairs the loss of a lone segment.

use anywire_tcp::{ConnId, ConnectOptions, Status};

use crate::common::host::{Host, Peer};
use crate::common::wire::Segment;

const ROUND_TRIPS: [u64; 7] = [2, 20, 100, 180, 200, 300, 500];

fn no_nagle() -> ConnectOptions {
    ConnectOptions { no_nagle: true, ..ConnectOptions::default() }
}

/// Opens a connection over a path of this round trip.
fn open(peer: Peer, round_trip: u64) -> (Host, ConnId, Peer) {
    let mut host = Host::new();
    host.round_trip = round_trip;
    let (id, peer) = host.accept_with(peer, no_nagle());
    (host, id, peer)
}

/// Sends bytes, and gives the peer's ACK after a time.
fn exchange(host: &mut Host, id: ConnId, peer: &mut Peer, bytes: usize, millis: u64) {
    assert_eq!(host.engine.send(id, &vec![1; bytes]), bytes);
    let sent = host.wait_millis(millis);
    peer.later(millis as u32);
    let ack = acknowledgement(peer, sent.iter().map(|(_, segment)| segment));
    host.give(&[ack]);
}

/// What a peer says of these segments: it reports a duplicate if it can (RFC 2883), and echoes nothing of it (RFC 7323 4.3).
fn acknowledgement<'s>(peer: &mut Peer, segments: impl Iterator<Item = &'s Segment>) -> Segment {
    let mut duplicates = Vec::new();
    for segment in segments {
        if segment.seq == peer.ack {
            peer.heard(segment);
        } else {
            duplicates = vec![(segment.seq, segment.end())];
        }
    }
    let sack = if peer.sack { duplicates } else { Vec::new() };
    Segment { sack, ..peer.acks() }
}

/// Forty pairs of full segments, which no peer may delay, and forty segments that are alone; gives how often one of these
/// left twice.
fn sent_again(peer: Peer, round_trip: u64, delay: u64) -> u64 {
    let (mut host, id, mut peer) = open(peer, round_trip);
    for _ in 0..40 {
        exchange(&mut host, id, &mut peer, 2896, round_trip);
        host.pass(20, &mut peer);
    }
    let before = host.engine.counters().retransmits;
    for _ in 0..40 {
        exchange(&mut host, id, &mut peer, 100, round_trip + delay);
        host.pass(300, &mut peer);
    }
    assert_eq!(host.engine.status(id), Status::Open);
    host.engine.counters().retransmits - before
}

fn peers() -> [Peer; 3] {
    [Peer::new(), Peer { timestamps: None, ..Peer::new() }, Peer::plain()]
}

#[test]
fn no_lone_segment_is_sent_again_for_a_delay_that_is_usual() {
    for peer in peers() {
        for round_trip in ROUND_TRIPS {
            for delay in [0, 40, 100, 200, 250] {
                let again = sent_again(peer.clone(), round_trip, delay);
                assert_eq!(again, 0, "round trip {round_trip}, delay {delay}, {peer:?}");
            }
        }
    }
}

#[test]
fn a_longer_delay_costs_one_segment_and_is_known_from_then_on() {
    for peer in peers() {
        for round_trip in ROUND_TRIPS {
            for delay in [300, 400, 500] {
                let again = sent_again(peer.clone(), round_trip, delay);
                assert!(again <= 1, "{again} for round trip {round_trip}, delay {delay}, {peer:?}");
            }
        }
    }
}

/// A peer of the Internet acknowledges the first segments at once and delays later.
#[test]
fn a_delay_that_begins_later_is_learned() {
    for peer in peers() {
        let (mut host, id, mut peer) = open(peer, 30);
        for _ in 0..20 {
            exchange(&mut host, id, &mut peer, 100, 30);
        }
        for _ in 0..20 {
            exchange(&mut host, id, &mut peer, 100, 30 + 200);
            host.pass(300, &mut peer);
        }
        assert!(host.engine.counters().retransmits <= 1, "{:?}", host.engine.counters());
    }
}

#[test]
fn the_loss_of_a_lone_segment_is_repaired_soon_after_its_ack_was_due() {
    for peer in peers() {
        for round_trip in ROUND_TRIPS {
            for delay in [0, 40, 100, 200, 250, 300, 400, 500] {
                let (mut host, id, mut peer) = open(peer.clone(), round_trip);
                for _ in 0..40 {
                    exchange(&mut host, id, &mut peer, 2896, round_trip);
                }
                exchange(&mut host, id, &mut peer, 100, round_trip + delay);
                for _ in 0..40 {
                    exchange(&mut host, id, &mut peer, 2896, round_trip);
                }
                let start = host.millis();
                host.engine.send(id, b"lost");
                // A longer delay has cost a timeout that was spurious. Then the longest delay allowed is assumed.
                let known = if delay <= 250 { delay } else { 504 };
                let sent = host.wait_millis(round_trip + known + 100);
                let times: Vec<_> = sent.iter().map(|(at, _)| at - start).collect();
                assert_eq!(times.len(), 2, "round trip {round_trip}, delay {delay}: {times:?}");
            }
        }
    }
}

/// A timeout that proves spurious takes nothing of the window: by the echoed timestamp (RFC 3522) or by the duplicate that the
/// peer reports (RFC 2883, RFC 3708).
#[test]
fn a_spurious_timeout_is_taken_back() {
    for peer in [Peer::new(), Peer { timestamps: None, ..Peer::new() }] {
        let (mut host, id, mut peer) = open(peer, 20);
        for _ in 0..10 {
            exchange(&mut host, id, &mut peer, 2896, 20);
        }
        host.engine.send(id, b"alone");
        let sent = host.wait_millis(500);
        assert_eq!(sent.len(), 2, "it was sent again");
        peer.later(500);
        let ack = acknowledgement(&mut peer, sent.iter().map(|(_, segment)| segment));
        host.give(&[ack]);
        host.engine.send(id, &[1; 20 * 1448]);
        assert!(host.sent().len() >= 10, "the window is what it was");
    }
}
