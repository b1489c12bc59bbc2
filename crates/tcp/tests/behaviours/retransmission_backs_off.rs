//! The retransmission timer (RFC 6298): one second at first, measured then, doubled for each silence until a measurement, and
//! given up after the user timeout.

use std::collections::VecDeque;
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

/// How far apart segments leave, in milliseconds.
fn gaps(sent: &[(u64, Segment)]) -> Vec<u64> {
    times(sent).windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Karn's rule: the answer after 20 s could be for any of the transmissions, so it is no measurement, and the timeout stays as
/// long as it has become until there is one (RFC 6298, sections 3 and 5).
#[test]
fn an_ambiguous_answer_measures_nothing_and_leaves_the_timeout_as_long_as_it_is() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer { timestamps: None, ..Peer::new() });
    host.engine.send(id, b"one");
    let first = host.wait(Duration::from_secs(20));
    assert!(first.len() >= 4);
    let measured = host.engine.info(id).unwrap().rtt;
    peer.heard(&first[0].1);
    host.give(&[peer.acks()]);
    assert_eq!(host.engine.info(id).unwrap().rtt, measured);
    host.engine.send(id, b"two");
    let again = host.wait(Duration::from_secs(60));
    let longest = *gaps(&first).last().unwrap();
    assert!(
        gaps(&again)[0] >= 2 * longest && gaps(&again)[0] <= 2 * longest + 2,
        "{first:?}, then {again:?}"
    );
    // Another one, and then a measurement.
    peer.heard(&again[0].1);
    host.give(&[peer.acks()]);
    host.engine.send(id, b"three");
    peer.heard(&host.sent_one());
    host.give(&[peer.acks()]);
    assert_eq!(host.engine.info(id).unwrap().backoff, 0);
    host.engine.send(id, b"four");
    assert!(gaps(&host.wait(Duration::from_secs(2)))[0] < 500);
}

/// The timestamp that it echoes tells which transmission was answered, and so how long that took (RFC 7323, section 4).
#[test]
fn an_answer_that_echoes_the_last_transmission_is_a_measurement() {
    let mut host = Host::new();
    host.round_trip = 50;
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, b"one");
    let mut last = host.sent_one();
    for _ in 0..5 {
        let wait = host.engine.next_deadline().unwrap();
        host.now = wait;
        last = host.sent().pop().unwrap_or(last);
    }
    assert!(host.engine.info(id).unwrap().backoff >= 2);
    host.wait_millis(50);
    peer.heard(&last);
    host.give(&[peer.acks()]);
    let info = host.engine.info(id).unwrap();
    assert_eq!((info.backoff, info.send_q), (0, 0));
    assert!(info.rtt.abs_diff(Duration::from_millis(50)) <= Duration::from_millis(2), "{info:?}");
}

/// How often each of twelve segments leaves, one after the other, on a path that has become slow for good: its round trip was 50 ms
/// and is now so many.
fn transmissions_on_a_slow_path(peer: Peer, round_trip: u64) -> Vec<usize> {
    let mut host = Host::new();
    host.round_trip = 50;
    let (id, mut peer) = host.accept(peer);
    for _ in 0..10 {
        host.engine.send(id, b"fast");
        peer.heard(&host.sent_one());
        host.pass(50, &mut peer);
        host.give(&[peer.acks()]);
    }
    let mut under_way = VecDeque::new();
    let mut transmissions = Vec::new();
    for _ in 0..12 {
        host.engine.send(id, b"slow");
        let mut count = 0;
        while host.engine.info(id).unwrap().send_q > 0 {
            for (at, segment) in host.wait_millis(10) {
                under_way.push_back((at + round_trip, segment));
                count += 1;
            }
            peer.later(10);
            while under_way.front().is_some_and(|(at, _)| *at <= host.millis()) {
                let (_, segment) = under_way.pop_front().unwrap();
                // What comes once more is reported (RFC 2883).
                let is_again = segment.seq != peer.ack;
                let sack =
                    if is_again && peer.sack { vec![(segment.seq, segment.end())] } else { Vec::new() };
                peer.heard(&segment);
                host.give(&[Segment { sack, ..peer.acks() }]);
            }
        }
        transmissions.push(count);
    }
    assert_eq!(host.engine.status(id), Status::Open);
    transmissions
}

/// Without the second half of Karn's rule each segment would go again for ever, and none would ever be measured.
#[test]
fn a_path_that_has_become_slow_for_good_is_measured_in_the_end() {
    for peer in [Peer::new(), Peer { timestamps: None, ..Peer::new() }, Peer::plain()] {
        for round_trip in [600, 2000, 7000] {
            let found = transmissions_on_a_slow_path(peer.clone(), round_trip);
            assert!(found[..5].iter().sum::<usize>() <= 13, "{found:?} at {round_trip} ms for {peer:?}");
            assert!(found[5..].iter().all(|count| *count == 1), "{found:?} at {round_trip} ms for {peer:?}");
        }
    }
}

/// The user timeout is of one stall: it begins with the first timeout in a row, however long that has taken to come.
#[test]
fn a_stall_is_timed_from_its_own_first_timeout() {
    let mut settings = settings();
    settings.user_timeout = Duration::from_secs(30);
    let mut host = Host::with(settings, small_limits());
    let (id, mut peer) = host.accept(Peer::plain());
    host.engine.send(id, b"one");
    let sent = host.wait(Duration::from_secs(2));
    assert_eq!(sent.len(), 4, "{sent:?}");
    peer.heard(&sent[0].1);
    host.give(&[peer.acks()]);
    host.wait(Duration::from_secs(40));
    let start = host.millis();
    host.engine.send(id, b"two");
    let sent = host.wait(Duration::from_secs(29));
    assert!(sent.len() > 1, "{sent:?}");
    assert_eq!(host.engine.status(id), Status::Open);
    let first_timeout = sent[1].0;
    while host.engine.status(id) == Status::Open {
        host.wait_millis(100);
    }
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
    let stalled = host.millis() - first_timeout;
    assert!((30_000..=30_200).contains(&stalled), "{stalled} ms after {sent:?} from {start} on");
}

#[test]
fn what_waited_behind_a_lost_segment_measures_nothing_either() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::plain());
    host.engine.send(id, &[1; 2 * 1460]);
    let sent = host.sent();
    assert_eq!(sent.len(), 2);
    let before = host.engine.info(id).unwrap();
    // The first is lost, and again twice; then both are acknowledged.
    host.wait(Duration::from_secs(4));
    peer.heard_all(&sent);
    host.give(&[peer.acks()]);
    let after = host.engine.info(id).unwrap();
    assert_eq!(
        (after.send_q, after.rtt, after.rttvar),
        (0, before.rtt, before.rttvar),
        "no round trip of 4 s"
    );
    // Only the backoff is left, until there is a measurement.
    host.engine.send(id, b"more");
    peer.heard(&host.sent_one());
    host.give(&[peer.acks()]);
    host.engine.send(id, b"and more");
    let again = times(&host.wait(Duration::from_secs(2)));
    assert!(again.len() >= 3 && again[1] - again[0] <= 1000, "{again:?}");
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
