//! Fast retransmit and recovery by SACK and time (RFC 6675, 8985) or by duplicate ACKs alone (RFC 5681, 6582), with limited
//! transmit (RFC 3042), and a loss probe at the end of a flight (RFC 8985 7).

use std::collections::BTreeSet;
use std::time::Duration;

use anywire_tcp::{Algorithm, ConnId, ConnectOptions, Engine, Frames, Settings, Status};

use crate::common::host::{Host, Peer, engine, settings, small_limits};
use crate::common::network::{Impairment, Network};
use crate::common::random::Random;
use crate::common::wire::Segment;

/// Sends `bytes` from the first engine to the second over 20 ms each way, and drops the data segments with these numbers
/// once. Gives the sender's counters and the duration in milliseconds, which must be equal without header prediction.
fn transfer(settings: &Settings, bytes: usize, dropped: &[usize]) -> (anywire_tcp::Counters, u64) {
    let [predicted, general] = [true, false].map(|predicts| {
        let mut settings = settings.clone();
        settings.predicts = predicts;
        transfer_one_way(&settings, bytes, dropped)
    });
    assert_eq!(predicted, general);
    predicted
}

fn transfer_one_way(settings: &Settings, bytes: usize, dropped: &[usize]) -> (anywire_tcp::Counters, u64) {
    let mut engines = [1, 2].map(|last| engine(settings.clone(), small_limits(), last, 1500));
    engines[1].listen("10.0.0.2:80".parse().unwrap(), ConnectOptions::default()).unwrap();
    let id = engines[0].connect("10.0.0.2:80".parse().unwrap(), ConnectOptions::default()).unwrap();
    let mut network = Network::new(engines, Impairment::delay(20_000), Random::new(1));
    network.drops = dropped.iter().copied().collect::<BTreeSet<_>>();
    let start = network.now;
    let (mut sent, mut heard) = (0, 0);
    let heard_cell = std::cell::Cell::new(0);
    network.run(
        Duration::from_secs(120),
        |engine: &mut Engine, end, _| {
            if end == 0 {
                while sent < bytes && engine.status(id) == Status::Open {
                    let taken =
                        engine.send(id, &vec![(sent / 1000) as u8; (bytes - sent).min(1000 - sent % 1000)]);
                    sent += taken;
                    if taken == 0 {
                        break;
                    }
                }
            } else {
                while let Some(news) = engine.next_ready() {
                    while engine.recv(news.id, |there| {
                        for byte in there {
                            assert_eq!(*byte, (heard / 1000) as u8);
                            heard += 1;
                        }
                        there.len()
                    }) > 0
                    {}
                }
                heard_cell.set(heard);
            }
        },
        |_| heard_cell.get() == bytes,
    );
    assert_eq!(heard_cell.get(), bytes);
    let took = network.now.since(start).as_millis() as u64;
    (*network.engines[0].counters(), took)
}

fn both(check: impl Fn(&Settings)) {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let mut settings = settings();
        settings.congestion = algorithm;
        check(&settings);
    }
}

#[test]
fn one_loss_in_a_window_costs_one_round_trip() {
    both(|settings| {
        let (counters, without) = transfer(settings, 100_000, &[]);
        assert_eq!((counters.retransmits, counters.timeouts, counters.loss_probes), (0, 0, 0));
        for lost in [0, 4, 9, 15, 30] {
            let (counters, took) = transfer(settings, 100_000, &[lost]);
            assert_eq!(
                (counters.timeouts, counters.retransmits, counters.fast_recoveries),
                (0, 1, 1),
                "{lost}"
            );
            assert!(took <= without + 300, "{took} for {without} with {lost}");
        }
    });
}

#[test]
fn many_losses_in_a_window_are_repaired_at_once_with_sack() {
    both(|settings| {
        // An ACK has room for three blocks.
        for lost in [&[20, 22, 24][..], &[20, 21, 22, 23, 24], &[13, 16, 19], &[0, 1]] {
            let (counters, _) = transfer(settings, 100_000, lost);
            assert_eq!((counters.timeouts, counters.fast_recoveries), (0, 1), "{lost:?}: {counters:?}");
            assert_eq!(counters.retransmits, lost.len() as u64, "{lost:?}: {counters:?}");
        }
    });
}

#[test]
fn without_sack_one_segment_a_round_trip_is_repaired() {
    both(|settings| {
        let mut settings = settings.clone();
        settings.sack = false;
        for lost in [&[4][..], &[0], &[20, 22, 24], &[25, 26]] {
            let (counters, _) = transfer(&settings, 100_000, lost);
            assert_eq!((counters.timeouts, counters.fast_recoveries), (0, 1), "{lost:?}: {counters:?}");
            assert_eq!(counters.retransmits, lost.len() as u64, "{lost:?}: {counters:?}");
        }
    });
}

#[test]
fn a_lost_retransmission_is_sent_again() {
    both(|settings| {
        // Segment 69 is the end of the 100,000 bytes, and all later ones are retransmissions.
        let (counters, _) = transfer(settings, 100_000, &[20, 31]);
        assert_eq!(counters.timeouts, 0, "{counters:?}");
    });
}

#[test]
fn a_loss_at_the_end_is_found_by_a_probe() {
    both(|settings| {
        // Segments 0 to 9 are all of it; the last ones are lost.
        for lost in [&[8, 9][..], &[7, 8, 9]] {
            let (counters, took) = transfer(settings, 14_480, lost);
            assert_eq!(counters.loss_probes, 1, "{lost:?}");
            assert_eq!(counters.timeouts, 0, "{lost:?}: {counters:?}");
            assert!(took < 350, "{lost:?} took {took}");
        }
        // The ACK of a lone one may be delayed for longer than the timeout takes: no probe.
        let (counters, took) = transfer(settings, 14_480, &[9]);
        assert_eq!((counters.loss_probes, counters.timeouts), (0, 1));
        assert!(took < 450, "took {took}");
    });
}

/// Acknowledges the way a receiver with SACK does that holds everything but the first segment.
fn duplicate(peer: &Peer, sent: &[Segment], upto: usize) -> Segment {
    let mut ack = peer.acks();
    if peer.sack {
        ack.sack = vec![(sent[1].seq, sent[upto].end())];
    }
    ack
}

fn flight(host: &mut Host, peer: Peer, bytes: usize) -> (ConnId, Peer, Vec<Segment>) {
    host.round_trip = 40;
    let (id, peer) = host.accept(peer);
    assert_eq!(host.engine.send(id, &vec![1; bytes]), bytes);
    let sent = host.sent();
    (id, peer, sent)
}

#[test]
fn limited_transmit_sends_new_data_for_the_first_two_duplicates() {
    for peer in [Peer::new(), Peer { sack: false, ..Peer::new() }] {
        let mut host = Host::new();
        let (_, peer, sent) = flight(&mut host, peer, 40_000);
        assert_eq!(sent.len(), 10, "the initial window (RFC 6928)");
        host.wait_millis(40);
        for number in 1..=2 {
            host.wait_millis(1);
            let more = host.answers(&duplicate(&peer, &sent, number));
            assert_eq!(more.len(), 1, "{peer:?}: {more:?}");
            assert_eq!(more[0].seq, sent[0].seq.wrapping_add(1448 * (9 + number as u32)), "new data");
        }
        host.wait_millis(1);
        let third = host.answers(&duplicate(&peer, &sent, 3));
        assert_eq!(third[0].seq, sent[0].seq, "the fast retransmit");
    }
}

#[test]
fn the_window_is_reduced_once_and_the_pace_is_proportional() {
    let mut host = Host::new();
    let (_, mut peer, mut sent) = flight(&mut host, Peer::new(), 100_000);
    host.wait_millis(40);
    let mut out = Vec::new();
    for number in 1..10 {
        host.wait_millis(1);
        out.extend(host.answers(&duplicate(&peer, &sent, number)));
    }
    // Limited transmit, the retransmission, and PRR's share of the delivered data, which is below one for one.
    assert!((4..=8).contains(&out.len()), "{} segments for nine ACKs", out.len());
    let again = out.iter().filter(|segment| segment.seq == sent[0].seq).count();
    assert_eq!(again, 1, "once");
    sent.append(&mut out);
    peer.ack = sent[9].end();
    host.give(&[peer.acks()]);
    assert_eq!(host.engine.counters().fast_recoveries, 1);
}

#[test]
fn a_segment_that_was_only_overtaken_is_not_sent_again() {
    let mut host = Host::new();
    let (_, mut peer, sent) = flight(&mut host, Peer::new(), 5 * 1448);
    host.wait_millis(40);
    peer.later(40);
    // Two were faster than the first, by less than a quarter of a round trip.
    assert_eq!(host.answers(&duplicate(&peer, &sent, 1)), []);
    assert_eq!(host.answers(&duplicate(&peer, &sent, 2)), []);
    host.wait_millis(5);
    peer.ack = sent[2].end();
    host.give(&[peer.acks()]);
    peer.ack = sent[4].end();
    host.give(&[peer.acks()]);
    host.wait_millis(1000);
    assert_eq!((host.engine.counters().retransmits, host.engine.memory().segments_in_use), (0, 0));
}

#[test]
fn a_gap_that_stays_is_repaired_by_the_timer_of_reordering() {
    let mut host = Host::new();
    let (_, peer, sent) = flight(&mut host, Peer::new(), 2 * 1448);
    host.wait_millis(40);
    // One ACK, with a block, and silence: a quarter of a round trip later the first one goes again.
    assert_eq!(host.answers(&duplicate(&peer, &sent, 1)), []);
    let again = host.wait_millis(60);
    assert!(matches!(&again[..], [(_, one)] if one.seq == sent[0].seq), "{again:?}");
    assert_eq!(host.engine.counters().timeouts, 0);
}

/// The clocks of some systems move in steps of 16 ms. Segments that overtake each other within a step are not lost, also if a round trip
/// is shorter, though RFC 8985 5.1 asks for a clock that is finer than a quarter of it; and a loss needs no timeout.
#[test]
fn a_clock_that_moves_in_steps_makes_no_losses_and_hides_none() {
    const STEP: u64 = 16;
    for (steps, is_lost) in [(0, false), (1, false), (3, false), (0, true), (1, true), (3, true)] {
        let mut host = Host::new();
        host.round_trip = steps * STEP;
        let (id, mut peer) = host.accept(Peer::new());
        let pass = |host: &mut Host, peer: &mut Peer| {
            for _ in 0..steps {
                host.now = host.now + Duration::from_millis(STEP);
                peer.later(STEP as u32);
                assert_eq!(host.sent(), [], "{steps} steps");
            }
        };
        // After a loss the window grows with time, of which none passes without steps.
        for round in 1..=if (steps, is_lost) == (0, true) { 1 } else { 20 } {
            assert_eq!(host.engine.send(id, &[1; 5 * 1448]), 5 * 1448);
            let sent = host.sent();
            assert_eq!(sent.len(), 5);
            pass(&mut host, &mut peer);
            let mut again = Vec::new();
            for upto in 1..=if is_lost { 4 } else { 2 } {
                again.extend(host.answers(&duplicate(&peer, &sent, upto)));
            }
            if is_lost {
                assert!(matches!(&again[..], [one] if one.seq == sent[0].seq), "{steps} steps: {again:?}");
                pass(&mut host, &mut peer);
            } else {
                assert_eq!(again, [], "{steps} steps");
            }
            peer.heard_all(&sent);
            assert_eq!(host.answers(&peer.acks()), []);
            let counters = host.engine.counters();
            let expected = if is_lost { round } else { 0 };
            assert_eq!((counters.retransmits, counters.timeouts, counters.loss_probes), (expected, 0, 0));
        }
        assert_eq!(host.engine.memory().segments_in_use, 0);
    }
}

#[test]
fn a_mistaken_timeout_is_taken_back() {
    let mut host = Host::new();
    let (_, mut peer, sent) = flight(&mut host, Peer::new(), 10 * 1448);
    peer.heard_all(&sent);
    let ack = peer.acks();
    host.wait_millis(450);
    let counters = *host.engine.counters();
    assert_eq!((counters.loss_probes, counters.timeouts), (1, 1));
    // The ACK was only late: it echoes the first sending (RFC 3522). Nothing more is sent again.
    let before = host.engine.counters().retransmits;
    host.give(&[ack]);
    host.wait_millis(2000);
    assert_eq!(host.engine.counters().retransmits, before);
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

/// RACK's times wrap after 71 minutes, and the extension of a connection with a rate stays while it is idle. The last
/// segment before the idle time must not seem to be sent after the present ones.
#[test]
fn a_long_idle_time_makes_no_segment_look_lost() {
    let mut host = Host::new();
    host.round_trip = 100;
    let (id, mut peer) = host.accept(Peer::new());
    assert!(host.engine.set_rate(id, std::num::NonZeroU32::new(100_000_000)));
    for idle_minutes in [1, 40, 0] {
        host.engine.send(id, &[1; 4 * 1448]);
        let sent: Vec<_> = host.wait_millis(100).into_iter().map(|(_, segment)| segment).collect();
        assert_eq!(sent.len(), 4);
        peer.later(100);
        // The first one is lost. The last two may only be late.
        host.give(&[duplicate(&peer, &sent, 1)]);
        let again = host.wait_millis(50);
        assert!(matches!(&again[..], [(_, one)] if one.seq == sent[0].seq), "{idle_minutes}: {again:?}");
        peer.heard_all(&sent[..2]);
        assert_eq!(host.answers(&peer.acks()), [], "the others are in flight");
        peer.heard_all(&sent[2..]);
        host.give(&[peer.acks()]);
        host.wait(Duration::from_secs(60 * idle_minutes));
        peer.later(60_000 * idle_minutes as u32);
    }
    assert_eq!(host.engine.counters().retransmits, 3);
}

/// RFC 6675 5, RFC 5681 3.1: a loss behind the recovery point is of another window of data, and slows down once more.
#[test]
fn a_loss_in_the_next_window_that_shows_during_a_repair_is_a_second_one() {
    let mut host = Host::new();
    host.round_trip = 20;
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, &[1; 100_000]);
    let first = host.sent();
    assert_eq!(first.len(), 10);
    host.pass(20, &mut peer);
    // The first one is lost, and so is the first new one that leaves in its repair.
    let mut left = Vec::new();
    for segment in &first[1..] {
        left.extend(host.answers(&Segment { sack: vec![(first[0].end(), segment.end())], ..peer.acks() }));
    }
    let again = left.iter().position(|segment| segment.seq == first[0].seq).expect("it goes again");
    let [again, lost, arrived @ .., last] = &left[again..] else { panic!("{left:?}") };
    assert!(!arrived.is_empty(), "{left:?}");
    host.pass(20, &mut peer);
    // What is behind arrives before the repair.
    let sack = vec![(lost.end(), last.end()), (first[0].end(), lost.seq)];
    let mut more = host.answers(&Segment { sack, ..peer.acks() });
    peer.heard(again);
    peer.ack = lost.seq;
    more.extend(host.answers(&Segment { sack: vec![(lost.end(), last.end())], ..peer.acks() }));
    assert_eq!(more.iter().filter(|segment| segment.seq == lost.seq).count(), 1, "{more:?}");
    assert_eq!((host.engine.counters().fast_recoveries, host.engine.counters().timeouts), (2, 0));
}

/// RFC 8985 7.2 and 7.3, RFC 5681 3.1: a probe that found no room is nothing to send in a repair or after a timeout.
#[test]
fn a_probe_that_found_no_room_does_not_leave_in_a_repair() {
    for is_timeout in [false, true] {
        let mut host = Host::new();
        host.round_trip = 20;
        let (id, mut peer) = host.accept(Peer::new());
        host.engine.send(id, &[1; 100_000]);
        let sent = host.sent();
        // The device has no room when the probe is due.
        let wait = if is_timeout { 1000 } else { 45 };
        while let Some(next) = host.engine.next_deadline()
            && host.millis() < wait
            && host.engine.counters().timeouts == 0
        {
            host.now = next.max(host.now + Duration::from_millis(1));
            host.engine.advance(host.now);
            host.engine.transmit_up_to(host.now, &mut Frames::new(), 0);
        }
        assert_eq!(host.engine.counters().timeouts, u64::from(is_timeout));
        peer.later(host.millis() as u32);
        let left = if is_timeout {
            host.sent()
        } else {
            host.answers(&Segment { sack: vec![(sent[0].end(), sent[3].end())], ..peer.acks() })
        };
        assert_eq!(left[0].seq, sent[0].seq, "{left:?}");
        assert_eq!(host.engine.counters().loss_probes, 0);
        assert!(!is_timeout || left.len() == 1, "{left:?}");
    }
}

/// RFC 8985 7.4.2: as for a fast recovery, and so by what was in flight. The ACK that shows it may cover all of that.
#[test]
fn a_loss_that_a_probe_has_repaired_slows_down_as_any_other() {
    both(|settings| {
        let mut host = Host::with(settings.clone(), small_limits());
        host.round_trip = 20;
        let (id, mut peer) = host.accept(Peer::new());
        host.engine.send(id, &[1; 10 * 1448]);
        let first = host.sent();
        assert_eq!(first.len(), 10);
        let mut probe = Vec::new();
        while host.engine.counters().loss_probes == 0 {
            probe = host.wait_millis(1);
            peer.later(1);
        }
        assert!(probe.len() == 1 && probe[0].1.seq == first[9].seq, "{probe:?}");
        // All but the last have arrived, and their ACK is late.
        peer.heard_all(&first[..9]);
        host.give(&[peer.acks()]);
        host.engine.send(id, &[1; 100_000]);
        let second = host.sent();
        assert!(second.len() > 8, "{second:?}");
        peer.heard(&probe[0].1);
        peer.heard_all(&second);
        let third = host.answers(&peer.acks());
        assert_eq!(host.engine.counters().fast_recoveries, 1);
        let share = third.len() * 10 / (second.len() + 1);
        assert!((4..=7).contains(&share), "{} after {}", third.len(), second.len() + 1);
    });
}

/// A probe that took the place of the last segment leaves open whether that was lost, until there is news of later data. Others need the
/// place for what they know of their losses.
#[test]
fn a_probe_that_nobody_judges_costs_others_nothing() {
    let mut limits = small_limits();
    limits.extensions = 1;
    let mut host = Host::with(settings(), limits);
    host.round_trip = 20;
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, &[1; 4 * 1448]);
    let sent = host.sent();
    host.pass(20, &mut peer);
    peer.heard_all(&sent[..2]);
    host.give(&[peer.acks()]);
    // The third one has come, and its ACK waits for another segment.
    peer.heard(&sent[2]);
    let probes = host.wait_millis(200);
    assert_eq!(probes.iter().map(|(_, probe)| probe.seq).collect::<Vec<_>>(), [sent[3].seq]);
    peer.heard(&probes[0].1);
    host.give(&[peer.acks()]);
    assert_eq!((host.engine.counters().loss_probes, host.engine.counters().timeouts), (1, 0));
    let (_, other) = host.accept(Peer::new().port(5001));
    let out_of_order = other.data_at(200, &[1; 100]);
    host.give(std::slice::from_ref(&out_of_order));
    assert_eq!(host.engine.counters().dropped_for_memory, 1, "the probe may still be judged");
    host.wait(Duration::from_secs(10));
    host.give(&[out_of_order]);
    assert_eq!((host.engine.counters().out_of_order, host.engine.counters().dropped_for_memory), (1, 1));
}
