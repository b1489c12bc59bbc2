//! The retransmission timer (RFC 6298): one second at first, measured then, doubled for each silence, and given up after
//! the user timeout.

use std::time::Duration;

use anywire_tcp::{End, Events, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{SYN, Segment};

fn times(sent: &[(u64, Segment)]) -> Vec<u64> {
    sent.iter().map(|(at, _)| *at).collect()
}

#[test]
fn a_syn_is_sent_again_after_one_second_and_then_twice_as_late_each_time() {
    let mut host = Host::new();
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    let sent = host.wait(Duration::from_secs(400));
    assert!(sent.iter().all(|(_, segment)| segment.bits == SYN && segment.seq == sent[0].1.seq));
    assert_eq!(times(&sent)[..7], [0, 1000, 3000, 7000, 15_000, 31_000, 63_000]);
    // RFC 9293 MUST-23: for three minutes at least.
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
    assert!(host.news().iter().any(|(_, events)| events.has(Events::CLOSED)));
    let last = *times(&sent).last().unwrap();
    assert!((120_000..=181_000).contains(&last), "{last}");
    assert_eq!(host.engine.counters().timed_out, 1);
}

#[test]
fn a_timer_is_its_own_in_a_place_that_was_another_ones() {
    for age in 0..4 {
        let mut host = Host::new();
        let connect = |host: &mut Host| {
            host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap()
        };
        let before = connect(&mut host);
        assert_eq!(host.sent().len(), 1);
        host.wait_millis(age);
        host.engine.abort(before);
        assert_eq!(connect(&mut host).index(), before.index(), "the same place");
        let sent = host.wait(Duration::from_secs(5));
        assert_eq!(times(&sent), [age, age + 1000, age + 3000]);
    }
}

#[test]
fn a_syn_ack_is_sent_again_and_forgotten_after_its_retries() {
    let mut host = Host::new();
    let peer = Peer::new();
    host.engine.listen(peer.there, Default::default()).unwrap();
    host.give(&[peer.syn()]);
    let sent = host.wait(Duration::from_secs(200));
    assert_eq!(times(&sent), [0, 1000, 3000, 7000, 15_000, 31_000]);
    assert_eq!((host.engine.half_open(), host.engine.counters().timed_out), (0, 1));
}

#[test]
fn data_is_sent_again_after_the_measured_timeout_and_then_twice_as_late() {
    let mut settings = settings();
    settings.user_timeout = Duration::from_secs(600);
    let mut host = Host::with(settings, small_limits());
    let (id, mut peer) = host.accept(Peer::new());
    // A round trip of 80 ms a few times.
    for _ in 0..8 {
        host.engine.send(id, b"ping");
        let sent = host.sent();
        host.wait_millis(80);
        peer.heard_all(&sent);
        host.give(&[peer.acks()]);
    }
    let start = host.millis();
    host.engine.send(id, b"lost");
    let sent = host.wait(Duration::from_secs(700));
    let gaps: Vec<_> = times(&sent).windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(times(&sent)[0], start);
    assert!((200..=260).contains(&gaps[0]), "SRTT and four deviations, or the floor: {gaps:?}");
    for pair in gaps[..gaps.len() - 1].windows(2) {
        assert!(pair[1] == 60_000 || pair[1].abs_diff(2 * pair[0]) <= 2, "doubled up to a minute: {gaps:?}");
    }
    assert!(sent.iter().all(|(_, segment)| segment.payload == b"lost"));
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
    // On the moment.
    assert!((600_000..=600_400).contains(&(times(&sent).last().unwrap() - start)) || gaps.last().is_some());
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

#[test]
fn progress_resets_the_backoff_and_an_ambiguous_answer_measures_nothing() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::plain());
    host.engine.send(id, b"one");
    let first = host.wait(Duration::from_secs(20));
    assert!(first.len() >= 4);
    // The answer after 20 s could be for any of the transmissions: Karn's rule.
    peer.heard(&first[0].1);
    host.give(&[peer.acks()]);
    host.engine.send(id, b"two");
    let again = times(&host.wait(Duration::from_secs(2)));
    assert!(again.len() >= 3 && again[1] - again[0] <= 1000, "{again:?}");
}

#[test]
fn what_waited_behind_a_lost_segment_measures_nothing_either() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::plain());
    host.engine.send(id, &[1; 2 * 1460]);
    let sent = host.sent();
    assert_eq!(sent.len(), 2);
    // The first is lost, and again twice; then both are acknowledged.
    host.wait(Duration::from_secs(4));
    peer.heard_all(&sent);
    host.give(&[peer.acks()]);
    host.engine.send(id, b"more");
    let again = times(&host.wait(Duration::from_secs(2)));
    assert!(again.len() >= 3 && again[1] - again[0] <= 1000, "no round trip of four seconds: {again:?}");
}

#[test]
fn after_a_timeout_everything_goes_again_in_slow_start() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer { sack: false, ..Peer::new() });
    host.engine.send(id, &[1; 10 * 1448]);
    assert_eq!(host.sent().len(), 10);
    let mut arrived = 0;
    for round in 0..12 {
        let sent = host.wait_millis(if round == 0 { 300 } else { 10 });
        // One, two, four: as many as the window lets go for the ACKs.
        assert!(sent.len() <= [1, 2, 4, 8, 10][round.min(4)], "round {round}: {sent:?}");
        for (_, segment) in &sent {
            if segment.seq == peer.ack {
                peer.heard(segment);
                arrived += 1;
                host.give(&[peer.acks()]);
            }
        }
        if arrived == 10 {
            assert!(round <= 4, "it took {round} round trips");
            assert_eq!(host.engine.memory().segments_in_use, 0);
            return;
        }
    }
    panic!("only {arrived} of 10 arrived");
}
