//! Text that has arrived in the window is kept, however it overlaps what is there already (RFC 9293 3.10.7.4, SHLD-31; RFC 2018 8),
//! and the part of it that had arrived before is reported (RFC 2883 4).

use anywire_tcp::{ConnId, Frames};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::random::{Random, for_each_seed_both_ways};
use crate::common::wire::{ACK, FIN, Segment};

const STREAM: usize = 6000;

/// Which bytes of a stream have arrived.
struct Model(Vec<bool>);

impl Model {
    /// The cumulative acknowledgement.
    fn acknowledged(&self) -> usize {
        self.0.iter().position(|has_come| !has_come).unwrap_or(STREAM)
    }

    /// The first run of bytes of a segment that had arrived before.
    fn duplicate_in(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        let left = (from..to).find(|at| self.0[*at])?;
        let right = (left..to).find(|at| !self.0[*at]).unwrap_or(to);
        Some((left, right))
    }

    /// The run of bytes that this one lies in.
    fn block_of(&self, at: usize) -> (usize, usize) {
        let left = (0..at).rev().find(|before| !self.0[*before]).map_or(0, |gap| gap + 1);
        (left, (at..STREAM).find(|behind| !self.0[*behind]).unwrap_or(STREAM))
    }
}

/// The blocks of an ACK, from the first byte of the stream on.
fn blocks(answer: &Segment, peer: &Peer) -> Vec<(usize, usize)> {
    let at = |number: u32| number.wrapping_sub(peer.seq) as usize;
    answer.sack.iter().map(|(left, right)| (at(*left), at(*right))).collect()
}

#[test]
fn any_overlaps_are_kept_and_reported_as_a_model_says() {
    for_each_seed_both_ways(80, |seed, predicts| {
        let mut random = Random::new(seed);
        let mut settings = settings();
        settings.predicts = predicts;
        let mut host = Host::with(settings, small_limits());
        let start = if random.chance(0.5) { u32::MAX - random.below(3000) as u32 } else { 7_000_000 };
        let (id, peer) = host.accept(Peer { seq: start, ..Peer::new() });
        let mut stream = vec![0; STREAM];
        random.fill(&mut stream);
        let mut model = Model(vec![false; STREAM]);
        let longest = random.pick(&[3, 100, 1400]);
        for _ in 0..60 {
            let from = random.below(STREAM as u64 - 1) as usize;
            let longest = random.pick(&[longest, 1400]);
            let to = (from + 1 + random.below(longest) as usize).min(STREAM);
            let duplicate = model.duplicate_in(from, to);
            let was_in_order = from == model.acknowledged() && !model.0.contains(&true);
            model.0[from..to].fill(true);
            host.give(&[peer.data_at(from as i64, &stream[from..to])]);
            let answers = if was_in_order { host.wait_millis(50) } else { host.wait_millis(0) };
            let Some((_, answer)) = answers.last() else { continue };
            let (reported, acknowledged) = (blocks(answer, &peer), model.acknowledged());
            assert_eq!(answer.ack.wrapping_sub(peer.seq) as usize, acknowledged, "{from}..{to}");
            let mut blocks = &reported[..];
            if let Some(duplicate) = duplicate {
                assert_eq!(blocks.first(), Some(&duplicate), "{from}..{to} came, and a part again");
                blocks = &blocks[1..];
                if duplicate.0 > acknowledged {
                    assert_eq!(blocks.first(), Some(&model.block_of(duplicate.0)), "the block that holds it");
                }
            } else if from > acknowledged {
                assert_eq!(blocks.first(), Some(&model.block_of(from)), "the block of what came");
            }
            for (left, right) in blocks {
                assert_eq!(model.block_of(*left), (*left, *right), "a block without its neighbours");
            }
        }
        // All of it in order, and the stream is whole, byte for byte.
        for from in (0..STREAM).step_by(1000) {
            host.give(&[peer.data_at(from as i64, &stream[from..from + 1000])]);
        }
        assert_eq!(host.read(id), stream);
        host.wait_millis(100);
        assert_eq!(host.engine.memory().segments_in_use, 0);
        host.outcome()
    });
}

/// 0..100 has been read, 100..200 is missing, and what else there is lies as given.
fn with_held(held: &[(i64, usize)]) -> (Host, ConnId, Peer) {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let first = peer.data(&[b'a'; 100]);
    host.give(&[first]);
    assert_eq!(host.read(id).len(), 100);
    host.wait_millis(50);
    peer.later(50);
    peer.seq = peer.seq.wrapping_sub(100);
    for (from, length) in held {
        host.give(&[peer.data_at(*from, &vec![b'b'; *length])]);
        host.sent();
    }
    (host, id, peer)
}

#[test]
fn a_segment_over_gaps_fills_them_all() {
    let (mut host, id, peer) = with_held(&[(200, 100), (400, 100), (600, 1)]);
    host.give(&[peer.data_at(150, &[b'c'; 550])]);
    let answer = host.sent_one();
    assert_eq!(blocks(&answer, &peer), [(200, 300), (150, 700)], "the first duplicate, and all of it");
    let answer = host.answers(&peer.data_at(100, &[b'd'; 50])).remove(0);
    assert_eq!(answer.ack.wrapping_sub(peer.seq), 700);
    let wanted =
        [(50, b'd'), (50, b'c'), (100, b'b'), (100, b'c'), (100, b'b'), (100, b'c'), (1, b'b'), (99, b'c')];
    let wanted: Vec<u8> = wanted.iter().flat_map(|(length, byte)| vec![*byte; *length]).collect();
    assert_eq!(host.read(id), wanted, "what came first counts");
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

/// RFC 2883 4.1 to 4.3: a repeated segment, a partly repeated one, and two parts of one of which the first is reported.
#[test]
fn duplicates_are_reported_on_either_side_of_the_ack() {
    type Case = (&'static [(i64, usize)], (i64, usize), &'static [(usize, usize)]);
    let cases: [Case; 9] = [
        // Below the ACK: whole, in part, and up to it.
        (&[], (0, 100), &[(0, 100)]),
        (&[(200, 100)], (20, 60), &[(20, 80), (200, 300)]),
        (&[(300, 100)], (50, 100), &[(50, 100), (300, 400)]),
        // Above it: whole, in part on each side, over a border of two segments.
        (&[(200, 100)], (200, 100), &[(200, 300), (200, 300)]),
        (&[(200, 100)], (250, 100), &[(250, 300), (200, 350)]),
        (&[(200, 100)], (150, 100), &[(200, 250), (150, 300)]),
        (&[(200, 100), (300, 100), (500, 9)], (250, 100), &[(250, 350), (200, 400), (500, 509)]),
        // Two parts above it, and two of which one is below.
        (&[(200, 100), (400, 100)], (150, 400), &[(200, 300), (150, 550)]),
        (&[(200, 100)], (50, 300), &[(50, 100)]),
    ];
    for (held, (from, length), wanted) in cases {
        let (mut host, _, peer) = with_held(held);
        let answer = host.answers(&peer.data_at(from, &vec![b'c'; length])).remove(0);
        assert_eq!(blocks(&answer, &peer), wanted, "{from}..{} over {held:?}", from + length as i64);
        // And only once.
        let answer = host.answers(&peer.data_at(1000, b"x")).remove(0);
        assert_eq!(blocks(&answer, &peer)[0], (1000, 1001), "{held:?}");
    }
    // Of a segment that fills the gap, and goes into what lies behind it.
    let (mut host, _, peer) = with_held(&[(200, 100)]);
    let answer = host.answers(&peer.data_at(100, &[b'c'; 150])).remove(0);
    assert_eq!((answer.ack.wrapping_sub(peer.seq), blocks(&answer, &peer)), (300, vec![(200, 250)]));
}

/// A device may join segments, or have a large MTU: what does not fit into a cell takes more of them.
#[test]
fn a_segment_of_many_cells_is_kept() {
    let (mut host, id, peer) = with_held(&[(200, 100), (20_000, 100)]);
    let stream: Vec<u8> = (0..30_000_u32).map(|at| (at % 251) as u8).collect();
    let fin = Segment { bits: FIN | ACK, ..peer.data_at(150, &stream[150..]) };
    let mut frames = Frames::with_room(1, 40_000);
    assert!(frames.push(&fin.frame()), "room");
    host.engine.receive(host.now, &mut frames);
    let answer = host.sent_one();
    assert_eq!(blocks(&answer, &peer), [(200, 300), (150, 30_001)]);
    host.give(&[peer.data_at(100, &stream[100..150])]);
    let read = host.read(id);
    assert_eq!(read.len(), 29_900);
    assert!(read[200..19_900] == stream[300..20_000] && read[20_000..] == stream[20_100..]);
    assert!(host.engine.is_finished(id));
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

/// The limits on segments out of order hold for each piece of one.
#[test]
fn pieces_count_as_segments() {
    let mut limits = small_limits();
    limits.out_of_order_segments = 10;
    let mut host = Host::with(settings(), limits);
    let (_, peer) = host.accept(Peer::new());
    for at in 0..9 {
        host.give(&[peer.data_at(100 + 10 * at, b"x")]);
    }
    assert_eq!(host.engine.counters().out_of_order, 9);
    let answers = host.answers(&peer.data_at(95, &[b'y'; 200]));
    assert_eq!((host.engine.counters().out_of_order, host.engine.counters().dropped_for_memory), (10, 1));
    assert_eq!(blocks(answers.last().expect("an ACK"), &peer)[1], (95, 101), "the first gap is filled");
    // The rest comes again.
    let answer = host.answers(&peer.data_at(0, &[b'z'; 300])).remove(0);
    assert_eq!(answer.ack.wrapping_sub(peer.seq), 300);
}

/// RFC 2883 4: the block that holds the duplicate follows it, also if the new part of its segment found no room.
#[test]
fn the_block_of_a_duplicate_follows_it() {
    let mut limits = small_limits();
    limits.out_of_order_segments = 2;
    let mut host = Host::with(settings(), limits);
    let (_, peer) = host.accept(Peer::new());
    for at in [500, 100] {
        host.give(&[peer.data_at(at, &[b'x'; 100])]);
        host.sent();
    }
    let answer = host.answers(&peer.data_at(450, &[b'y'; 100])).remove(0);
    assert_eq!(host.engine.counters().dropped_for_memory, 1);
    assert_eq!(blocks(&answer, &peer), [(500, 550), (500, 600), (100, 200)]);
}

/// The end of the stream is where a FIN has said first, in order or not.
#[test]
fn overlaps_move_no_fin() {
    let fin_behind =
        |peer: &Peer, at: i64, bytes: &[u8]| Segment { bits: FIN | ACK, ..peer.data_at(at, bytes) };
    // Data behind a FIN that is held is nothing, in a segment that fills the gap or leaves one.
    for (from, filled) in [(0, true), (2, false)] {
        let mut host = Host::new();
        let (id, peer) = host.accept(Peer::new());
        host.give(&[fin_behind(&peer, 5, b"world")]);
        host.give(&[peer.data_at(from, &b"helloworldmore"[from as usize..])]);
        assert!(!host.engine.is_finished(id), "unread");
        if !filled {
            host.give(&[peer.data_at(0, b"he")]);
        }
        let answer = host.sent().pop().expect("an ACK");
        assert_eq!(answer.ack.wrapping_sub(peer.seq), 11, "{from}");
        assert_eq!(host.read(id), b"helloworld");
        assert!(host.engine.is_finished(id));
    }
    // And a FIN in front of data that is held is a lie, also in a segment that fills the gap.
    for bytes in [&b"hello"[..], b"hellowor"] {
        let mut host = Host::new();
        let (id, peer) = host.accept(Peer::new());
        host.give(&[peer.data_at(5, b"world")]);
        host.give(&[fin_behind(&peer, 0, bytes)]);
        assert_eq!(host.read(id), b"helloworld");
        assert!(!host.engine.is_finished(id));
    }
}
