//! Segments out of order, overlapping, repeated and beyond the window, against a model. The reports about them are checked
//! too (SACK, RFC 2018; D-SACK, RFC 2883).

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::random::{Random, for_each_seed_both_ways};
use crate::common::wire::{ACK, FIN, Segment, URG};

#[test]
fn any_pieces_make_the_stream_that_a_model_makes() {
    for_each_seed_both_ways(400, |seed, predicts| {
        let mut random = Random::new(seed);
        let mut settings = settings();
        settings.predicts = predicts;
        settings.receive_window = random.pick(&[1000, 5000, 20_000]);
        let mut limits = small_limits();
        limits.out_of_order_segments = random.pick(&[2, 10, 256]);
        let mut host = Host::with(settings, limits);
        let start = if random.chance(0.5) { u32::MAX - random.below(3000) as u32 } else { 7_000_000 };
        let peer = Peer { sack: random.chance(0.7), seq: start, ..Peer::new() };
        let (id, peer) = host.accept(peer);
        let mut stream = vec![0; 6000];
        random.fill(&mut stream);
        let (mut heard, mut held) = (Vec::new(), vec![false; stream.len()]);
        let mut acked = 0;
        let mut has_fin = false;
        let mut right = u64::from(peer.window).min(u64::from(host.engine.settings().receive_window)) as usize;
        for step in 0..2000 {
            let mut batch = Vec::new();
            for _ in 0..random.between(1, 5) {
                let from = match random.below(10) {
                    0 | 1 => acked,
                    2..8 => acked + random.below(2500) as usize,
                    _ => random.below(6000) as usize,
                };
                let from = from.min(stream.len());
                let to = (from + random.below(1400) as usize).min(stream.len());
                let mut segment = peer.data_at(from as i64, &stream[from..to]);
                if to == stream.len() && random.chance(0.5) {
                    segment.bits = segment.bits | FIN;
                }
                batch.push((from, to, segment));
            }
            host.give(&batch.iter().map(|(.., segment)| segment.clone()).collect::<Vec<_>>());
            if random.chance(0.8) {
                heard.extend(host.read(id));
            }
            for (from, to, _) in &batch {
                held[*from..*to].fill(true);
            }
            for answer in host
                .sent()
                .into_iter()
                .chain(host.wait_millis(random.below(60)).into_iter().map(|(_, one)| one))
            {
                let now = answer.ack.wrapping_sub(peer.seq) as usize;
                has_fin |= now == stream.len() + 1;
                let now = now.min(stream.len());
                assert!(now >= acked, "an ACK never goes back");
                assert!(held[..now].iter().all(|held| *held), "it acknowledges what it never had");
                acked = now;
                right = right.max(answer.ack.wrapping_sub(peer.seq) as usize + usize::from(answer.window));
                check_blocks(&answer, &peer, &held, acked);
            }
            assert!(heard.len() + host.engine.readable(id) <= stream.len());
            assert_eq!(heard, stream[..heard.len()], "step {step}");
            if has_fin {
                heard.extend(host.read(id));
                assert_eq!(heard, stream);
                assert!(host.engine.is_finished(id));
                host.engine.close(id);
                let fin = host.sent().pop().expect("our FIN");
                host.give(&[Segment { ack: fin.end(), seq: peer.seq.wrapping_add(6001), ..peer.acks() }]);
                assert_eq!((host.engine.connections(), host.engine.memory().segments_in_use), (0, 0));
                return host.outcome();
            }
        }
        panic!("not done: {acked} of 6000");
    });
}

/// Each reported block was really sent and lies ahead of the ACK, except a duplicate in front.
fn check_blocks(answer: &Segment, peer: &Peer, held: &[bool], acked: usize) {
    assert!(peer.sack || answer.sack.is_empty());
    for (number, (left, right)) in answer.sack.iter().enumerate() {
        let (left, right) = (left.wrapping_sub(peer.seq) as usize, right.wrapping_sub(peer.seq) as usize);
        assert!(left < right && right <= held.len() + 1, "{left}..{right}");
        assert!(
            held[left.min(held.len())..right.min(held.len())].iter().all(|held| *held),
            "{left}..{right}"
        );
        assert!(number == 0 || left > acked, "only the first may be a duplicate: {:?}", answer);
    }
}

#[test]
fn the_newest_block_comes_first_and_then_those_reported_last() {
    let mut host = Host::new();
    let (_, peer) = host.accept(Peer::new());
    let at = |from: u32, to: u32| (peer.seq.wrapping_add(from), peer.seq.wrapping_add(to));
    let blocks = |host: &mut Host, from: i64| host.answers(&peer.data_at(from, &[1; 100])).remove(0).sack;
    assert_eq!(blocks(&mut host, 1000), [at(1000, 1100)]);
    assert_eq!(blocks(&mut host, 3000), [at(3000, 3100), at(1000, 1100)]);
    assert_eq!(blocks(&mut host, 2000), [at(2000, 2100), at(3000, 3100), at(1000, 1100)]);
    assert_eq!(
        blocks(&mut host, 2100),
        [at(2000, 2200), at(3000, 3100), at(1000, 1100)],
        "neighbours are one"
    );
    assert_eq!(
        blocks(&mut host, 500),
        [at(500, 600), at(2000, 2200), at(3000, 3100)],
        "three fit beside timestamps"
    );
    assert_eq!(blocks(&mut host, 1100), [at(1000, 1200), at(500, 600), at(2000, 2200)], "it is news again");
}

#[test]
fn a_duplicate_is_reported_once() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let data = peer.data(&[1; 500]);
    host.give(std::slice::from_ref(&data));
    host.read(id);
    host.sent();
    let answer = host.answers(&data).remove(0);
    assert_eq!((answer.ack, answer.sack), (peer.seq, vec![(data.seq, peer.seq)]));
    // And only once, and the connection is as small as before.
    let next = peer.data(&[2; 1448]);
    let more = peer.data(&[2; 1448]);
    host.give(&[next, more]);
    assert!(host.sent().iter().all(|ack| ack.sack.is_empty()));
    // One behind a gap that came twice: within the block that is reported next.
    let ahead = peer.data_at(100, &[3; 50]);
    host.answers(&ahead);
    let answer = host.answers(&ahead).remove(0);
    assert_eq!(answer.sack[0], (ahead.seq, ahead.end()));
    let _ = ACK;
}

#[test]
fn a_fin_ahead_of_a_gap_waits_for_it() {
    let mut host = Host::new();
    let (id, peer) = host.accept(Peer::new());
    let fin = Segment { bits: FIN | ACK, ..peer.data_at(5, b"world") };
    host.give(&[fin.clone(), fin]);
    assert!(!host.engine.is_finished(id));
    // Whatever lies behind a FIN is nothing.
    host.give(&[peer.data_at(11, b"beyond"), Segment { bits: FIN | ACK, ..peer.data_at(10, b"") }]);
    host.sent();
    let answers = host.answers(&peer.data_at(0, b"hello"));
    assert_eq!(answers[0].ack, peer.seq.wrapping_add(11));
    assert_eq!(host.read(id), b"helloworld");
    assert!(host.engine.is_finished(id));
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

/// Data beyond a FIN that came first is nothing; a FIN within data that came first is a lie.
#[test]
fn a_fin_in_front_of_data_that_has_arrived_is_not_held() {
    // Alone, at the end of known bytes, and behind new bytes.
    for (at, payload) in [(10, &b""[..]), (5, b"world"), (4, b"oworld"), (2, b"lloworld")] {
        let mut host = Host::new();
        let (id, peer) = host.accept(Peer::new());
        host.give(&[peer.data_at(5, b"world"), peer.data_at(10, b"again")]);
        host.give(&[Segment { bits: FIN | ACK, ..peer.data_at(at, payload) }]);
        assert!(!host.engine.is_finished(id));
        host.give(&[peer.data_at(0, b"hello")]);
        assert_eq!(host.read(id), b"helloworldagain");
        assert!(!host.engine.is_finished(id));
        assert_eq!(host.engine.memory().segments_in_use, 0);
    }
}

/// RFC 9293 MUST-31, RFC 6093: data that is marked as urgent is data like any other, however much it is.
#[test]
fn urgent_data_is_in_line() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let mut all = Vec::new();
    for (length, urgent) in [(1, 1), (1448, 1), (1448, 1448), (10, 60_000), (10, 0)] {
        let bytes = vec![length as u8; length];
        let data = peer.data(&bytes);
        host.give(&[Segment { bits: data.bits | URG, urgent, ..data }]);
        all.extend(bytes);
    }
    assert_eq!(host.read(id), all);
}
