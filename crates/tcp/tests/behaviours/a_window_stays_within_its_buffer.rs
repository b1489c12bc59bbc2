//! The window that is announced is what the buffer has room for: it closes when the buffer is full, whatever the unit of its field,
//! and its edge does not go back (RFC 9293 3.8.6, MUST-39; RFC 7323 2.3, 2.4).

use anywire_tcp::ConnId;

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::random::Random;
use crate::common::wire::Segment;

/// With a unit of 1, 2, 8, 32 and 64 bytes, at both sides of a power of two.
const WINDOWS: [u32; 9] =
    [4000, 65_535, 65_536, 131_071, 256 << 10, 300_001, 1 << 20, (1 << 20) + 7, 3 << 20];

fn host(window: u32) -> Host {
    let (mut settings, mut limits) = (settings(), small_limits());
    settings.receive_window = window;
    limits.segment_bytes = 256 << 20;
    Host::with(settings, limits)
}

/// A window, and what the peer has been told of it.
struct Told {
    host: Host,
    id: ConnId,
    peer: Peer,
    /// The limit, and the unit of the field.
    limit: u32,
    unit: u32,
    /// Bytes that the peer has sent, and that were read. All that counts is relative to the first.
    sent: u32,
    read: u32,
    first: u32,
    /// The furthest edge that was told.
    edge: u32,
}

impl Told {
    fn new(limit: u32, scales: bool) -> Self {
        let mut host = host(limit);
        let (id, peer) = host.accept(if scales { Peer::new() } else { Peer::plain() });
        let bits = u32::BITS - limit.leading_zeros();
        let unit = if scales { 1 << bits.saturating_sub(16) } else { 1 };
        let first = peer.seq;
        Self { host, id, peer, limit, unit, sent: 0, read: 0, first, edge: limit.min(65_535) }
    }

    /// What may be sent still.
    fn room(&self) -> u32 {
        self.edge - self.sent
    }

    fn send(&mut self, length: u32) {
        let data = self.peer.data(&vec![b'x'; length as usize]);
        self.sent += length;
        // An old byte asks for an ACK at once.
        let old = self.peer.data_at(-1, b"x");
        self.host.give(&[data, old]);
        self.hear();
    }

    fn read(&mut self, length: u32) {
        self.read += self.host.read_some(self.id, length as usize) as u32;
        self.hear();
    }

    /// All that was sent is acknowledged, and no edge is beyond the buffer or before an earlier one.
    fn hear(&mut self) {
        let heard: Vec<Segment> = self.host.sent();
        for segment in &heard {
            assert_eq!(segment.ack.wrapping_sub(self.first), self.sent, "what was allowed is taken");
            let edge = self.sent + u32::from(segment.window) * self.unit;
            let most = self.read + self.limit;
            assert!(edge <= most, "{edge} was told, and there is room up to {most}");
            assert!(edge + self.unit > self.edge, "{edge} was told, and {} before", self.edge);
            self.edge = self.edge.max(edge);
        }
        self.peer.heard_all(&heard);
        let unread = self.host.engine.readable(self.id) as u32;
        assert_eq!(unread, self.sent - self.read);
        assert!(unread <= self.limit);
    }
}

#[test]
fn it_closes_when_nobody_reads() {
    for (limit, scales) in WINDOWS.into_iter().flat_map(|limit| [(limit, true), (limit, false)]) {
        // Large segments, and then fewer bytes than the unit each time.
        let mut told = Told::new(limit, scales);
        let large = if limit > 1 << 20 { 1448 } else { 1000 };
        while told.room() >= large {
            told.send(large);
        }
        for _ in 0..10_000 {
            if told.room() == 0 {
                break;
            }
            told.send(told.room().min((told.unit / 2).max(1)));
        }
        assert_eq!(told.room(), 0, "a window of {limit} closes");
        let answer = told.host.answers(&told.peer.data_at(0, b"x"));
        assert_eq!(answer.last().expect("an answer").window, 0, "and it says so");
        // A step of less than a segment is not announced.
        assert!(told.sent + 1460 > limit, "{} bytes were taken, of {limit}", told.sent);
        // The whole of it opens again.
        told.read(u32::MAX);
        let open = told.edge - told.read;
        assert!(open > (limit - told.unit).min(65_534), "{open} of {limit} are open");
    }
}

#[test]
fn its_edge_goes_on_with_the_reader_and_never_back() {
    for (number, limit) in WINDOWS.into_iter().enumerate() {
        let mut random = Random::new(7 + number as u64);
        for scales in [true, false] {
            let mut told = Told::new(limit, scales);
            for _ in 0..600 {
                let most = random.pick(&[3, told.unit, 300, 1448]);
                let length = (1 + random.below(u64::from(most)) as u32).min(told.room());
                if length > 0 && random.chance(0.7) {
                    told.send(length);
                }
                if random.chance(0.5) {
                    told.read(1 + random.below(2000) as u32);
                }
            }
        }
    }
}

/// A reader that keeps up never sees an edge that goes back, not by a part of a unit either.
#[test]
fn it_does_not_seem_to_go_back_while_the_reader_keeps_up() {
    for limit in WINDOWS {
        let mut told = Told::new(limit, true);
        for round in 0..300 {
            let before = told.edge;
            let data = told.peer.data(&vec![b'x'; 1 + round % 401]);
            told.sent += data.payload.len() as u32;
            told.host.give(&[data]);
            told.read += told.host.read(told.id).len() as u32;
            let heard: Vec<Segment> =
                told.host.wait_millis(50).into_iter().map(|(_, segment)| segment).collect();
            told.peer.later(50);
            told.peer.heard_all(&heard);
            for segment in &heard {
                let edge = told.sent + u32::from(segment.window) * told.unit;
                assert!(edge >= before && edge <= told.read + limit, "{edge} behind {before}");
                told.edge = edge;
            }
        }
    }
}

/// What is read widens a window that has become small, and no other: a peer that keeps half of it hears of nothing.
#[test]
fn reading_announces_nothing_while_half_of_it_is_open() {
    for (limit, scales) in WINDOWS.into_iter().flat_map(|limit| [(limit, true), (limit, false)]) {
        let mut told = Told::new(limit, scales);
        let most = if scales { limit } else { limit.min(65_535) };
        // All but the first 64 KiB of a scaled window are announced by the first ACK.
        told.send(1);
        told.read(1);
        while told.room() > most / 2 + 1448 {
            told.send(1000);
        }
        for _ in 0..told.sent / 100 {
            told.host.read_some(told.id, 100);
            assert_eq!(told.host.sent(), [], "{limit}, scaled: {scales}");
        }
    }
}

/// A window has no more than 65,535 units of 2^14 bytes (RFC 7323 2.3). More than that counts as the most.
#[test]
fn no_window_is_too_large() {
    for limit in [(1 << 30) - 1, 1 << 30, 3 << 30, u32::MAX] {
        let mut host = host(limit);
        let (id, mut peer) = host.accept(Peer::new());
        let mut last = 0;
        for _ in 0..100 {
            let data = [peer.data(&[b'x'; 1400]), peer.data(&[b'x'; 1400])];
            host.give(&data);
            let sent = host.sent();
            peer.heard_all(&sent);
            last = sent.last().map_or(last, |segment| segment.window);
        }
        assert_eq!(host.read(id).len(), 280_000);
        assert!(last > 65_500, "{last} of 65,535 units are open");
    }
}
