//! How much leaves at once and in which order: the initial window, the restart after idleness, tiny segments, and fairness
//! between connections.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use anywire_tcp::{Algorithm, ConnId, ConnectOptions, Frames};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{FIN, RST, Segment};

#[test]
fn ten_segments_at_first_and_two_more_for_each_ack() {
    let mut host = Host::new();
    host.round_trip = 10;
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, &[1; 200_000]);
    let sent = host.sent();
    assert_eq!(sent.len(), 10, "RFC 6928");
    peer.heard(&sent[0]);
    peer.heard(&sent[1]);
    assert_eq!(host.answers(&peer.acks()).len(), 4, "two acknowledged, two more (RFC 3465)");
}

#[test]
fn an_ack_for_a_batch_opens_the_window_by_eight_at_most() {
    for (heard, more) in [(4, 4), (8, 8), (10, 8)] {
        let mut host = Host::new();
        host.round_trip = 10;
        let (id, mut peer) = host.accept(Peer::new());
        host.engine.send(id, &[1; 200_000]);
        let sent = host.sent();
        peer.heard_all(&sent[..heard]);
        assert_eq!(host.answers(&peer.acks()).len(), heard + more, "RFC 9406 4.3");
    }
}

#[test]
fn after_idleness_the_window_is_the_initial_one_again() {
    let mut host = Host::new();
    host.round_trip = 10;
    let (id, mut peer) = host.accept(Peer::new());
    let mut flight = 0;
    for _ in 0..6 {
        host.engine.send(id, &[1; 100_000]);
        let sent = host.sent();
        flight = sent.len();
        host.wait_millis(10);
        peer.later(10);
        for segment in &sent {
            peer.heard(segment);
            host.give(&[peer.acks()]);
        }
        peer.heard_all(&host.sent());
        host.give(&[peer.acks()]);
    }
    assert!(flight > 20, "{flight}");
    while host.engine.memory().segments_in_use > 0 {
        peer.heard_all(&host.sent());
        host.give(&[peer.acks()]);
    }
    host.wait(Duration::from_secs(5));
    host.engine.send(id, &[1; 100_000]);
    assert_eq!(host.sent().len(), 10, "RFC 5681 4.1");
}

/// Sends `bytes` each `step` milliseconds for so many of them, over a path of 100 ms whose peer acknowledges each segment. At the
/// end all comes back.
fn send_at_a_pace(host: &mut Host, id: ConnId, peer: &mut Peer, (bytes, step): (usize, u64), millis: u64) {
    let mut under_way = VecDeque::new();
    for at in (0..millis + 1000).step_by(10) {
        if at < millis && at % step == 0 {
            assert_eq!(host.engine.send(id, &vec![1; bytes]), bytes);
        }
        under_way.extend(host.wait_millis(10).into_iter().map(|(at, segment)| (at + 100, segment)));
        peer.later(10);
        while under_way.front().is_some_and(|(due, _)| *due <= host.millis()) {
            peer.heard(&under_way.pop_front().expect("it is there").1);
            host.give(&[peer.acks()]);
        }
    }
    assert_eq!(host.engine.info(id).map(|info| info.send_q), Some(0), "all has arrived");
}

/// The window of a user who has filled it once, and then sends little with always something in flight.
fn window_after_a_pace(
    predicts: bool,
    algorithm: Algorithm,
    has_lost: bool,
    pace: (usize, u64),
) -> (u32, u64) {
    let mut settings = settings();
    (settings.predicts, settings.congestion) = (predicts, algorithm);
    let mut host = Host::with(settings, small_limits());
    host.round_trip = 100;
    let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
    let (id, mut peer) = host.accept_with(Peer { scale: Some(8), ..Peer::new() }, options);
    if has_lost {
        host.engine.send(id, &[1; 14_480]);
        let sent = host.sent();
        host.pass(100, &mut peer);
        let sack = vec![(sent[0].end(), sent[9].end())];
        let again = host.answers(&Segment { sack, ..peer.acks() });
        assert_eq!(again.first().map(|one| one.seq), Some(sent[0].seq));
        host.pass(100, &mut peer);
        peer.heard(&again[0]);
        peer.ack = sent[9].end();
        host.give(&[peer.acks()]);
        assert!(host.engine.info(id).is_some_and(|info| info.ssthresh.is_some()));
    }
    // More than the window takes, and always something in flight from then on.
    host.engine.send(id, &[1; 60_000]);
    send_at_a_pace(&mut host, id, &mut peer, pace, 20_000);
    (host.engine.info(id).map_or(0, |info| info.cwnd), host.outcome().0)
}

/// RFC 9438 5.8, RFC 7661, RFC 9293 3.8.2: what is never in flight proves nothing about the path.
#[test]
fn a_window_that_is_not_filled_does_not_grow() {
    for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
        for has_lost in [false, true] {
            // Ten segments in flight, or always less than two.
            for pace in [(1448, 10), (100, 10), (2896, 50)] {
                let [cwnd, unpredicted] =
                    [true, false].map(|predicts| window_after_a_pace(predicts, algorithm, has_lost, pace));
                assert_eq!(cwnd, unpredicted, "{algorithm:?}, {pace:?}");
                // Twice what was ever in flight, which slow start may come to.
                assert!(cwnd.0 <= 2 * 55, "{cwnd:?} segments by {algorithm:?}, loss {has_lost}, {pace:?}");
            }
        }
    }
}

#[test]
fn a_tiny_mss_is_not_heeded_below_64_bytes() {
    for mss in [0, 1, 40, 64] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(Peer { mss: Some(mss), ..Peer::new() });
        assert_eq!(host.engine.segment_bytes(id), 52);
        assert_eq!(host.engine.send(id, &[3; 2000]), 2000);
        let mut heard: usize = 0;
        for round in 0.. {
            for segment in host.sent() {
                assert!(segment.payload.len() <= 52);
                heard += segment.payload.len();
                peer.heard(&segment);
            }
            host.give(&[peer.acks()]);
            if heard == 2000 {
                break;
            }
            assert!(round < 100);
        }
        assert_eq!(host.engine.memory().segments_in_use, 0);
    }
}

#[test]
fn data_written_before_a_tiny_mss_was_known_is_cut() {
    let mut host = Host::new();
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), ConnectOptions::default()).unwrap();
    let text: Vec<u8> = (0..3000).map(|place| (place % 251) as u8).collect();
    assert_eq!(host.engine.send(id, &text), 3000);
    host.engine.shutdown(id);
    let syn = host.sent_one();
    let mut peer = Peer { there: syn.from, mss: Some(100), ..Peer::new() };
    peer.heard(&syn);
    let mut sent = host.answers(&peer.syn_ack());
    peer.seq += 1;
    let mut heard: Vec<u8> = Vec::new();
    for round in 0.. {
        for segment in &sent {
            assert!(segment.payload.len() <= 88 && segment.seq == peer.ack);
            heard.extend(&segment.payload);
            peer.heard(segment);
        }
        if sent.last().is_some_and(|segment| segment.is(FIN)) {
            break;
        }
        sent = host.answers(&peer.acks());
        assert!(round < 100);
    }
    assert_eq!(heard, text);
}

/// How many data segments each connection sends when the device takes `room` frames at a time.
fn shares(host: &mut Host, rounds: usize, room: usize) -> HashMap<u16, usize> {
    let mut shares = HashMap::new();
    for _ in 0..rounds {
        let mut frames = Frames::with_room(room, 2048);
        host.engine.transmit(host.now, &mut frames);
        for frame in frames.iter() {
            let segment = Segment::of(frame).unwrap();
            *shares.entry(segment.to.port()).or_default() += 1;
        }
    }
    shares
}

#[test]
fn connections_take_turns_of_two_segments() {
    let mut host = Host::new();
    let ids: Vec<_> = (0..10).map(|port| host.accept(Peer::new().port(5000 + port)).0).collect();
    for (number, id) in ids.into_iter().enumerate() {
        // The last one has only a word to say.
        host.engine.send(id, &vec![1; if number == 9 { 10 } else { 14_480 }]);
    }
    let shares = shares(&mut host, 5, 4);
    assert_eq!(shares.len(), 10, "everybody had a turn in twenty segments: {shares:?}");
    assert!(shares.values().all(|count| *count <= 4), "{shares:?}");
}

#[test]
fn classes_share_by_their_weights() {
    let mut host = Host::new();
    host.engine.set_class_weight(1, 1);
    host.engine.set_class_weight(2, 3);
    let mut ids = Vec::new();
    for (port, class) in [(5000, 1), (5001, 2), (5002, 2), (5003, 2), (5004, 1), (5005, 1)] {
        let options = ConnectOptions { class, ..ConnectOptions::default() };
        let peer = Peer::new().port(port);
        // Both ways of opening use the option.
        let (id, _) = if port % 2 == 0 {
            let listener = host.engine.listen(peer.there, options).unwrap();
            let accepted = host.accept(peer);
            host.engine.stop_listening(listener);
            accepted
        } else {
            host.call_with(peer, options)
        };
        ids.push(id);
    }
    for id in ids {
        host.engine.send(id, &[1; 14_480]);
    }
    let shares = shares(&mut host, 6, 4);
    let of = |ports: [u16; 3]| ports.iter().map(|port| shares.get(port).copied().unwrap_or(0)).sum::<usize>();
    let (low, high) = (of([5000, 5004, 5005]), of([5001, 5002, 5003]));
    assert!(high >= 2 * low && low > 0, "{low} and {high}: {shares:?}");
}

#[test]
fn a_storm_of_openings_leaves_open_connections_their_turns() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer::new());
    for _ in 0..200 {
        host.engine.connect("10.0.0.2:9000".parse().unwrap(), ConnectOptions::default()).unwrap();
    }
    host.engine.send(id, b"hello");
    let mut frames = Frames::with_room(16, 2048);
    host.engine.transmit(host.now, &mut frames);
    assert!(frames.iter().any(|frame| Segment::of(frame).unwrap().payload == b"hello"));
}

#[test]
fn what_finds_no_room_waits_and_is_not_lost() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer::new());
    host.engine.send(id, &[1; 14_480]);
    let mut none = Frames::with_room(0, 0);
    host.engine.transmit(host.now, &mut none);
    assert!(none.is_empty() && host.engine.wants_to_transmit());
    assert_eq!(host.sent().len(), 10);
}

/// A batch for short frames takes the frames that fit, no connection loses its place in the ring, and no sequence number
/// moves.
#[test]
fn a_frame_too_long_for_a_batch_waits_for_a_larger_one() {
    for predicts in [true, false] {
        let mut settings = settings();
        settings.predicts = predicts;
        let mut host = Host::with(settings, small_limits());
        let (id, mut peer) = host.accept(Peer::new());
        let (closing, other) = host.accept(Peer::new().port(5001));
        let opening =
            host.engine.connect("10.0.0.2:9000".parse().unwrap(), ConnectOptions::default()).unwrap();
        host.engine.send(id, &[1; 14_480]);
        host.engine.close(closing);
        let mut small = Frames::with_room(2, 64);
        let mut sent = Vec::new();
        for _ in 0..100 {
            small.clear();
            host.engine.transmit(host.now, &mut small);
            sent.extend(small.iter().filter_map(Segment::of));
        }
        assert!(sent.len() <= 2 && host.engine.wants_to_transmit(), "{sent:?}");
        sent.extend(host.sent());
        let of = |port: u16| sent.iter().filter(move |segment| segment.to.port() == port);
        assert_eq!(of(5000).map(|segment| segment.payload.len()).sum::<usize>(), 14_480, "{predicts}");
        assert_eq!(of(5000).next().map(|segment| segment.seq), Some(peer.ack));
        assert!(of(5001).any(|segment| (segment.is(FIN), segment.seq) == (true, other.ack)));
        assert_eq!(of(9000).count(), 1, "the SYN of {opening:?}");
        for segment in of(5000) {
            peer.heard(segment);
        }
        host.give(&[peer.acks()]);
        assert_eq!(host.engine.counters().retransmits, 0);
    }
}

#[test]
fn the_longest_frames_fill_a_batch_to_its_last_place() {
    let mut host = Host::with_mtu(settings(), small_limits(), 9000);
    let ids: Vec<_> =
        (0..64).map(|port| host.accept(Peer { mss: Some(8960), ..Peer::v6().port(port + 1) }).0).collect();
    let size = host.engine.segment_bytes(ids[0]);
    assert!(size > 2000, "{size}");
    for id in ids {
        assert_eq!(host.engine.send(id, &vec![1; size]), size);
    }
    let mut frames = Frames::new();
    host.engine.transmit(host.now, &mut frames);
    assert_eq!(frames.len(), 64);
    assert!(frames.iter().all(|frame| Segment::of(frame).unwrap().payload.len() == size));
}

/// So that its user may send something with it.
#[test]
fn an_ack_that_is_about_to_leave_alone_is_told() {
    let mut host = Host::new();
    let (id, peer) = host.accept(Peer::new());
    assert!(!host.engine.sends_pure_ack(id), "nothing is to be acknowledged");
    host.give(&[peer.data_at(100, b"behind a gap")]);
    assert!(host.engine.sends_pure_ack(id));
    assert_eq!(host.engine.send(id, b"data"), 4);
    assert!(!host.engine.sends_pure_ack(id), "it goes with the data");
    assert_eq!(host.sent_one().payload, b"data");
    assert!(!host.engine.sends_pure_ack(id), "it has left");
    // A reset that waits takes no data with it.
    host.engine.claim(id);
    host.engine.abort(id);
    assert!(!host.engine.sends_pure_ack(id));
    assert!(host.sent_one().is(RST));
}
