//! Peers that lie: SACK blocks for data they do not have, windows that shrink and jump. Once they are honest the whole
//! stream arrives, and no state is left over.

use std::sync::LazyLock;

use anywire_tcp::{ConnId, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::random::{Random, for_each_seed_both_ways};
use crate::common::wire::Segment;

const BYTES: usize = 60_000;

static STREAM: LazyLock<Vec<u8>> = LazyLock::new(|| (0..BYTES).map(|at| (at % 251) as u8).collect());

/// A peer, the part of the stream that it has, and the part still to be sent.
struct Reader {
    host: Host,
    id: ConnId,
    peer: Peer,
    taken: usize,
    heard: usize,
}

impl Reader {
    fn new(peer: Peer) -> Self {
        Self::with(peer, true)
    }

    fn with(peer: Peer, predicts: bool) -> Self {
        let mut settings = settings();
        settings.predicts = predicts;
        let mut host = Host::with(settings, small_limits());
        let (id, peer) = host.accept(peer);
        Self { host, id, peer, taken: 0, heard: 0 }
    }

    fn is_done(&self) -> bool {
        self.heard == BYTES
    }

    /// The segments sent within `millis`.
    fn sent(&mut self, millis: u64) -> Vec<Segment> {
        self.taken += self.host.engine.send(self.id, &STREAM[self.taken..]);
        self.host.wait_millis(millis).into_iter().map(|(_, segment)| segment).collect()
    }

    /// Takes the next bytes of the stream from a segment, at most `room` of them.
    fn hear(&mut self, segment: &Segment, room: usize) {
        let old = self.peer.ack.wrapping_sub(segment.seq) as i32;
        let Some(new) = usize::try_from(old).ok().and_then(|old| segment.payload.get(old..)) else { return };
        let new = &new[..new.len().min(room)];
        assert_eq!(new, &STREAM[self.heard..self.heard + new.len()], "at {}", self.heard);
        self.heard += new.len();
        self.peer.ack = self.peer.ack.wrapping_add(new.len() as u32);
    }

    /// From now on it is honest, with the timestamps that it echoes, too (RFC 7323 4.3).
    fn finish(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "{} of {BYTES} bytes", self.heard);
            for segment in self.sent(500) {
                let is_next = self.peer.ack.wrapping_sub(segment.seq).cast_signed() >= 0;
                if let (Some((_, echo)), Some((value, _)), true) =
                    (&mut self.peer.timestamps, segment.timestamps, is_next)
                {
                    *echo = value;
                }
                self.hear(&segment, usize::MAX);
            }
            self.host.give(&[self.peer.acks()]);
            if self.is_done() {
                break;
            }
        }
        self.host.wait_millis(1000);
        assert_eq!(self.host.engine.status(self.id), Status::Open);
        assert_eq!(self.host.engine.memory().segments_in_use, 0);
    }
}

/// RFC 2018, section 8: a peer may discard reported data, so only the ACK frees anything.
#[test]
fn blocks_of_what_never_arrived_lose_nothing() {
    for_each_seed_both_ways(500, |seed, predicts| {
        let mut random = Random::new(seed);
        let mut reader = Reader::with(Peer::new(), predicts);
        for _ in 0..random.between(1, 40) {
            for segment in reader.sent(random.between(1, 400)) {
                if random.chance(0.6) {
                    reader.hear(&segment, usize::MAX);
                }
            }
            let from = reader.peer.ack;
            let blocks = (0..random.between(0, 3)).map(|_| {
                let left =
                    from.wrapping_add(random.pick(&[0, 1, 1448, 2896, 14_480, 60_000, 1 << 31, u32::MAX]));
                let length = random.pick(&[0, 1, 1448, 1449, 30_000, 1 << 30, u32::MAX]);
                (left, left.wrapping_add(length))
            });
            let sack = blocks.collect();
            for _ in 0..random.between(1, 4) {
                reader.host.give(&[Segment { sack: Vec::clone(&sack), ..reader.peer.acks() }]);
            }
            if reader.is_done() {
                break;
            }
        }
        reader.finish();
        reader.host.outcome()
    });
}

/// RFC 9293 MUST-34: the peer drops data beyond its present window.
#[test]
fn windows_that_shrink_and_jump_lose_nothing() {
    for_each_seed_both_ways(500, |seed, predicts| {
        let mut random = Random::new(seed);
        let mut reader = Reader::with(Peer::new(), predicts);
        let start = reader.peer.ack;
        let mut most = 0;
        for _ in 0..random.between(1, 60) {
            let right = reader.peer.ack.wrapping_sub(start) + u32::from(reader.peer.window);
            for segment in reader.sent(random.between(1, 1000)) {
                let end = segment.end().wrapping_sub(start);
                // Retransmissions and probes may lie anywhere before it.
                assert!(segment.payload.is_empty() || end <= most.max(right), "{segment:?} beyond {right}");
                most = most.max(if segment.payload.is_empty() { 0 } else { end });
                let room = (right as usize).saturating_sub(reader.heard);
                reader.hear(&segment, room);
            }
            reader.peer.window = random.pick(&[0, 0, 1, 2, 500, 1447, 1448, 5000, 65_535]);
            reader.host.give(&[reader.peer.acks()]);
            if reader.is_done() {
                break;
            }
        }
        reader.peer.window = 65_535;
        reader.host.give(&[reader.peer.acks()]);
        reader.finish();
        reader.host.outcome()
    });
}

/// A look at the queue for each packet would be dear: an ACK of 60 bytes costs the peer nothing.
#[test]
fn acks_that_tell_nothing_new_are_not_looked_at_without_end() {
    let mut reader = Reader::new(Peer::new());
    let sent = reader.sent(1);
    let report = |reader: &Reader, place: usize| {
        let (segment, acks) = (&sent[place], reader.peer.acks());
        Segment { sack: vec![(segment.seq, segment.end())], ..acks }
    };
    let ignored = |reader: &Reader| reader.host.engine.counters().sacks_ignored;
    // The same again and again is nothing to look for.
    for _ in 0..1000 {
        let again = report(&reader, 2);
        reader.host.give(&[again]);
    }
    assert_eq!(ignored(&reader), 0);
    // Alternating known reports: the first one tells something new, and sixteen more are examined.
    for number in 0..1000 {
        let known = report(&reader, [4, 2][number % 2]);
        reader.host.give(&[known]);
    }
    assert_eq!(ignored(&reader), 1000 - 1 - 16);
    // In the next millisecond it is heard again.
    reader.host.now = reader.host.now + std::time::Duration::from_millis(1);
    for place in [2, 4] {
        let known = report(&reader, place);
        reader.host.give(&[known]);
    }
    assert_eq!(ignored(&reader), 1000 - 1 - 16);
    reader.finish();
}

/// The check of every TCB in debug builds would see a count that is wrong.
#[test]
fn an_ack_may_end_within_a_segment_that_was_reported() {
    let mut reader = Reader::new(Peer::new());
    let sent = reader.sent(1);
    let reported = Segment { sack: vec![(sent[1].seq, sent[1].end())], ..reader.peer.acks() };
    reader.host.give(&[reported]);
    reader.hear(&sent[0], usize::MAX);
    reader.hear(&sent[1], 100);
    reader.host.give(&[reader.peer.acks()]);
    reader.finish();
}

/// In time, and after a timeout that no timestamp shows to be mistaken.
#[test]
fn an_ack_may_end_within_a_segment_that_it_reports() {
    for millis in [1, 1000] {
        let mut reader = Reader::new(Peer { timestamps: None, ..Peer::new() });
        let sent = reader.sent(millis);
        reader.hear(&sent[0], usize::MAX);
        reader.hear(&sent[1], 100);
        let reported = Segment { sack: vec![(sent[1].seq, sent[3].end())], ..reader.peer.acks() };
        reader.host.give(&[reported]);
        reader.finish();
    }
}

/// From 2^31 on its right edge counts as less than all numbers.
#[test]
fn a_block_that_ends_beyond_what_was_sent_reports_nothing() {
    // In time, and after a timeout.
    for (ahead, millis) in
        [1, 1 << 30, 1 << 31, (1 << 31) + 10_000].into_iter().flat_map(|ahead| [(ahead, 1), (ahead, 300)])
    {
        let mut reader = Reader::new(Peer { timestamps: None, ..Peer::new() });
        let sent = reader.sent(millis);
        reader.hear(&sent[0], usize::MAX);
        let lie = vec![(sent[1].seq, sent[9].end().wrapping_add(ahead))];
        reader.host.give(&[Segment { sack: lie, ..reader.peer.acks() }]);
        assert!(reader.sent(1).len() <= 2, "the others still are in flight, or lost");
        reader.finish();
    }
}
