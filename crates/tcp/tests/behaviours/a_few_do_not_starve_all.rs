//! Peers that make others hold memory for ever: data behind a gap that is never filled, windows that never open.

use std::time::Duration;

use anywire_tcp::{End, Limits, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::Segment;

fn little_memory() -> Limits {
    let mut limits = small_limits();
    limits.segment_bytes = 1 << 20;
    limits
}

#[test]
fn data_behind_gaps_leaves_room_to_send_and_goes_after_a_time() {
    let mut host = Host::with(settings(), little_memory());
    let (victim, mut honest) = host.accept(Peer::new().port(6000));
    for attacker in 0..12 {
        let (_, peer) = host.accept(Peer::new().port(7000 + attacker));
        for segment in 1..=180 {
            host.give(&[peer.data_at(segment * 1448, &[1; 1448])]);
            host.sent();
        }
    }
    assert!(host.engine.memory().segments_in_use <= 1 << 18, "a quarter of the memory");
    assert!(host.engine.counters().dropped_for_memory > 0);
    assert_eq!(host.engine.send(victim, b"hello"), 5);
    honest.heard_all(&host.sent());
    host.give(&[honest.acks()]);
    // They never fill their gaps.
    let held = host.engine.counters().out_of_order;
    host.wait(Duration::from_secs(61));
    assert_eq!(host.engine.memory().segments_in_use, 0);
    assert_eq!(host.engine.counters().out_of_order_dropped, held);
    assert_eq!(host.engine.connections(), 13, "and are told what was not kept, by their ACKs");
}

#[test]
fn whoever_fills_gaps_finds_room_where_others_do_not() {
    let mut host = Host::with(settings(), little_memory());
    let (id, mut honest) = host.accept(Peer::new().port(6000));
    let (_, attacker) = host.accept(Peer::new().port(7000));
    for segment in 1..=180 {
        host.give(&[attacker.data_at(segment * 1448, &[1; 1448])]);
        host.sent();
    }
    host.wait(Duration::from_secs(3));
    honest.later(3000);
    // Behind a gap, with the share of memory used up by one who makes no progress.
    host.give(&[honest.data_at(5, b"world")]);
    host.give(&[honest.data_at(0, b"hello")]);
    assert_eq!(host.read(id), b"helloworld");
    assert!(host.engine.counters().out_of_order_dropped > 0);
}

/// The peer sends dropped data again, although SACK had reported it (RFC 2018, section 8).
#[test]
fn what_was_dropped_may_come_again() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.give(&[peer.data_at(5, b"world")]);
    host.wait(Duration::from_secs(61));
    peer.later(61_000);
    assert_eq!(host.engine.counters().out_of_order_dropped, 1);
    let data = peer.data(b"hello");
    host.give(&[data]);
    let (_, answer) = host.wait_millis(100).remove(0);
    assert_eq!((answer.ack, answer.sack), (peer.seq, vec![]));
    let data = peer.data(b"world");
    host.give(&[data]);
    assert_eq!(host.read(id), b"helloworld");
}

#[test]
fn closed_windows_leave_room_for_those_who_have_nothing_queued() {
    let mut host = Host::with(settings(), little_memory());
    let (victim, _) = host.accept(Peer::new().port(6000));
    for attacker in 0..20 {
        let (id, _) = host.accept(Peer { window: 0, ..Peer::new().port(7000 + attacker) });
        host.engine.send(id, &[1; 256 << 10]);
    }
    assert_eq!(host.engine.send(victim, b"hello"), 5);
}

#[test]
fn those_whose_windows_stay_closed_lose_their_queues_where_others_find_no_memory() {
    let mut host = Host::with(settings(), little_memory());
    let (victim, _) = host.accept(Peer::new().port(6000));
    let attackers: Vec<_> = (0..200)
        .map(|attacker| {
            let (id, peer) = host.accept(Peer { window: 0, ..Peer::new().port(7000 + attacker) });
            host.engine.send(id, &[1; 16 << 10]);
            (id, peer)
        })
        .collect();
    assert_eq!(
        host.engine.send(victim, &[1; 1448]),
        0,
        "there is no memory, and nobody has kept it for long"
    );
    for _ in 0..20 {
        host.wait_millis(1000);
        for (_, peer) in &attackers {
            host.give(&[peer.acks()]);
        }
    }
    assert_eq!(host.engine.counters().evicted_for_memory, 0, "as long as nobody needs it");
    assert_eq!(host.engine.send(victim, &[1; 1448]), 1448);
    assert_eq!(host.engine.counters().evicted_for_memory, 1);
    let ended = attackers.iter().filter(|(id, _)| host.engine.status(*id) == Status::Ended(End::Aborted));
    assert_eq!(ended.count(), 1);
}

/// They report what came behind a gap, and never acknowledge the gap, also after the timer has sent it again.
#[test]
fn peers_that_acknowledge_nothing_leave_others_their_recovery() {
    for report_again in [false, true] {
        let mut limits = small_limits();
        limits.extensions = 4;
        let mut host = Host::with(settings(), limits);
        host.round_trip = 20;
        let (id, mut honest) = host.accept(Peer::new().port(6000));
        let attackers: Vec<_> =
            (0..4).map(|attacker| host.accept(Peer::new().port(7000 + attacker))).collect();
        let reports: Vec<_> = attackers
            .iter()
            .map(|(id, peer)| {
                host.engine.send(*id, &[1; 5 * 1448]);
                let sent = host.sent();
                Segment { sack: vec![(sent[2].seq, sent[2].end())], ..peer.acks() }
            })
            .collect();
        host.give(&reports);
        host.wait(Duration::from_secs(2));
        if report_again {
            host.give(&reports);
        }
        honest.later(2000);
        host.engine.send(id, &[2; 5 * 1448]);
        let sent: Vec<_> = host.sent().into_iter().filter(|segment| segment.to == honest.here).collect();
        let recoveries = host.engine.counters().fast_recoveries;
        honest.heard(&sent[0]);
        for upto in 2..5 {
            let report = Segment { sack: vec![(sent[2].seq, sent[upto].end())], ..honest.acks() };
            host.give(&[report]);
        }
        assert_eq!(host.engine.counters().fast_recoveries, recoveries + 1, "{report_again}");
        assert!(host.sent().iter().any(|segment| segment.seq == sent[1].seq), "it goes again at once");
        host.give(&[honest.data_at(5, b"world")]);
        host.give(&[honest.data_at(0, b"hello")]);
        assert_eq!(host.read(id), b"helloworld", "{report_again}");
        // Peers that say nothing any more are given up, as without this.
        host.wait(Duration::from_secs(600));
        assert_eq!(host.engine.counters().timed_out, 5, "{report_again}");
    }
}
