//! Each time that the engine stores is compared as it should be, however long nothing happened before: seconds, weeks in which the
//! clock of 32 bits comes half round or wraps, a year. Whether the engine was called meanwhile or not.
//!
//! A row for each comparison; where it makes no difference how much time has passed, all spans give what ten seconds give.

use std::num::NonZeroU32;
use std::time::Duration;

use anywire_tcp::{
    Algorithm, ConnId, ConnectOptions, End, Events, Instant, KeepAlive, Limits, Settings, Status,
};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, FIN, RST, SYN, Segment, icmp_error};

/// How long nothing happens, and how often the engine hears the time meanwhile.
#[derive(Clone, Copy, Debug)]
struct Span {
    length: Duration,
    step: Option<Duration>,
}

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// What the others are compared with.
const SHORT: Span = Span { length: Duration::from_secs(10), step: None };

/// Up to a year: 24.9 days are 2^31 ms, and 49.7 are 2^32.
fn spans() -> Vec<Span> {
    let wrap = Duration::from_millis(1 << 32);
    let mut all = vec![SHORT, Span { step: Some(SECOND), ..SHORT }];
    for length in [DAY, 13 * DAY, 25 * DAY, 30 * DAY, wrap, 50 * DAY, 75 * DAY, 365 * DAY] {
        all.extend([None, Some(DAY), Some(7 * DAY)].map(|step| Span { length, step }));
    }
    all.push(Span { length: 50 * DAY, step: Some(HOUR) });
    all
}

impl Span {
    /// Lets it pass; what leaves meanwhile, if the engine is called.
    fn pass(self, host: &mut Host, peer: &mut Peer) -> Vec<Segment> {
        let (end, mut sent) = (host.now + self.length, Vec::new());
        if let Some(step) = self.step {
            while host.now + step < end {
                host.now = host.now + step;
                sent.extend(host.sent());
            }
        }
        host.now = end;
        peer.later(self.length.as_millis() as u32);
        sent
    }

    fn is_at_least(self, length: Duration) -> bool {
        self.length >= length
    }
}

/// What comes of it.
type Row = fn(Span) -> String;

/// What should.
type Right = fn(Span) -> String;

/// What happens after any span as it does after ten seconds.
const ALIKE: [(&str, Row); 21] = [
    ("a SYN-ACK goes again", |span| {
        let (mut host, _, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        let other = peer.port(6000);
        host.give(&[other.syn()]);
        times(&mut host, 5 * SECOND)
    }),
    ("a SYN goes again", |span| {
        let (mut host, _, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.frames();
        host.engine.connect(peer.port(6000).here, ConnectOptions::default()).expect("a connection");
        times(&mut host, 5 * SECOND)
    }),
    ("a SYN goes again, though the engine was not told of the time before", |span| {
        let (mut host, _, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.engine.connect(peer.port(6000).here, ConnectOptions::default()).expect("a connection");
        times(&mut host, 5 * SECOND)
    }),
    ("data goes again", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.engine.send(id, b"hello");
        times(&mut host, 5 * SECOND)
    }),
    ("data without an ACK is given up", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.engine.send(id, b"hello");
        end_of(&mut host, id)
    }),
    ("a closed window is probed", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        peer.window = 0;
        host.give(&[peer.acks()]);
        host.engine.send(id, b"hello");
        format!("{} {}", times(&mut host, 5 * SECOND), end_of(&mut host, id))
    }),
    ("a delayed ACK leaves", |span| {
        let (mut host, _, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.give(&[peer.data(b"hello")]);
        times(&mut host, SECOND)
    }),
    ("a deadline comes", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.frames();
        let told = |host: &mut Host| {
            host.frames();
            host.news().iter().any(|(_, events)| events.has(Events::DEADLINE))
        };
        host.engine.set_idle_deadline(id, Some(host.now + SECOND));
        host.now = host.now + Duration::from_millis(999);
        let early = told(&mut host);
        host.now = host.now + Duration::from_millis(1);
        let in_time = told(&mut host);
        host.engine.set_idle_deadline(id, Some(Instant::from_micros(0)));
        host.now = host.now + Duration::from_millis(1);
        format!("early: {early}, in time: {in_time}, passed long ago: {}", told(&mut host))
    }),
    ("a deadline that was set before", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        host.engine.set_idle_deadline(id, Some(host.now + span.length + SECOND));
        span.pass(&mut host, &mut peer);
        let told = |host: &mut Host| {
            host.frames();
            host.news().iter().any(|(_, events)| events.has(Events::DEADLINE))
        };
        let early = told(&mut host);
        host.now = host.now + SECOND;
        format!("{early} {}", early || told(&mut host))
    }),
    ("keep-alive that begins then", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.frames();
        host.engine.set_keep_alive(id, Some(keep_alive(10 * SECOND)));
        format!("{} {}", times(&mut host, 15 * SECOND), end_of(&mut host, id))
    }),
    ("TIME-WAIT with a user", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        end_first(&mut host, id, &mut peer);
        end_of(&mut host, id)
    }),
    ("TIME-WAIT without a user", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        end_first(&mut host, id, &mut peer);
        host.engine.close(id);
        until(&mut host, |host| host.engine.in_time_wait() == 0)
    }),
    ("FIN-WAIT-2 without a user", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.engine.close(id);
        peer.heard_all(&host.sent());
        host.give(&[peer.acks()]);
        until(&mut host, |host| host.engine.connections() == 0)
    }),
    ("the congestion window after idleness (NewReno)", |span| after_idleness(Algorithm::NewReno, span)),
    ("the congestion window after idleness (CUBIC)", |span| after_idleness(Algorithm::Cubic, span)),
    ("a probe of the peer, and a reset in the window, are answered", |span| {
        let (mut host, _, mut peer) = open(Peer::new());
        let probe = |peer: &Peer| Segment { seq: peer.seq.wrapping_sub(1), ..peer.segment(ACK) };
        let reset = |peer: &Peer| Segment { seq: peer.seq.wrapping_add(9), ..peer.segment(RST) };
        let before = host.answers(&probe(&peer)).len();
        span.pass(&mut host, &mut peer);
        let probed = host.answers(&probe(&peer)).len();
        let at_once = host.answers(&probe(&peer)).len();
        host.wait_millis(500);
        format!("{before} {probed} {at_once} {}", host.answers(&reset(&peer)).len())
    }),
    ("a rate is kept", |span| {
        let (mut host, id, mut peer) = open(Peer { window: 60_000, ..Peer::new() });
        assert!(host.engine.set_rate(id, NonZeroU32::new(10_000)));
        span.pass(&mut host, &mut peer);
        host.engine.send(id, &[7; 14_480]);
        let sent = host.wait(5 * SECOND);
        let fresh = |from: u64| sent.iter().filter(|(at, _)| *at < from).count();
        let start = host.millis() - 5000;
        format!("{} at once, {} in half a second", fresh(start + 10), fresh(start + 500))
    }),
    ("a loss is found by SACK and time, with what is kept beside the block", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        round_trip(&mut host, id, &mut peer, 5);
        assert!(host.engine.set_rate(id, NonZeroU32::new(100_000_000)));
        span.pass(&mut host, &mut peer);
        host.engine.send(id, &[7; 5 * 1448]);
        let sent: Vec<_> = host.wait_millis(20).into_iter().map(|(_, segment)| segment).collect();
        peer.later(20);
        let sacked = Segment { sack: vec![(sent[1].seq, sent[4].end())], ..peer.acks() };
        let again =
            host.answers(&sacked).iter().map(|one| one.seq.wrapping_sub(sent[0].seq)).collect::<Vec<_>>();
        format!("{again:?} {}", host.engine.counters().timeouts)
    }),
    ("a loss at the end of a flight is probed", |span| {
        let (mut host, id, mut peer) = open(Peer::new());
        round_trip(&mut host, id, &mut peer, 5);
        span.pass(&mut host, &mut peer);
        host.engine.send(id, &[7; 5 * 1448]);
        times(&mut host, SECOND)
    }),
    ("data out of order is held for a minute", |span| {
        let (mut host, _, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.give(&[peer.data_at(5, b"later")]);
        until(&mut host, |host| host.engine.counters().out_of_order_dropped == 1)
    }),
    ("a handshake from the other side", |span| {
        let (mut host, _, mut peer) = open(Peer::new());
        span.pass(&mut host, &mut peer);
        host.frames();
        let (id, peer) = host.call(Peer { seq: 5, ..peer.port(6000) });
        host.engine.send(id, b"hello");
        format!("{} {}", times(&mut host, 2 * SECOND), peer.seq)
    }),
];

/// What depends on how much time has passed: what is right then.
const UNLIKE: [(&str, Row, Right); 9] = [
    (
        "an older timestamp is taken after 24 days (RFC 7323 5.5)",
        |span| {
            let (mut host, id, mut peer) = open(Peer::new());
            host.give(&[peer.acks()]);
            let old = peer.timestamps.map(|(value, echo)| (value.wrapping_sub(1000), echo));
            span.pass(&mut host, &mut peer);
            peer.timestamps = old;
            host.give(&[peer.data(b"x")]);
            format!("{}", host.engine.readable(id))
        },
        |span| format!("{}", u8::from(span.is_at_least(25 * DAY))),
    ),
    (
        "a TIME-WAIT of before gives way once it is over",
        |span| {
            let (mut host, id, mut peer) = open(Peer::new());
            end_first(&mut host, id, &mut peer);
            host.engine.close(id);
            let old = peer.timestamps.map(|(value, echo)| (value.wrapping_sub(1000), echo));
            span.pass(&mut host, &mut peer);
            peer.timestamps = old;
            format!("{:?}", host.answers(&peer.syn())[0].bits)
        },
        |span| format!("{:?}", if span.is_at_least(DAY) { SYN | ACK } else { ACK }),
    ),
    (
        "a cookie without a flood",
        |span| cookie_after(span, false),
        |span| if span.is_at_least(DAY) { "0 RST".to_owned() } else { "1 ".to_owned() },
    ),
    (
        "a cookie of one flood in the next one",
        |span| cookie_after(span, true),
        |span| if span.is_at_least(DAY) { "0 RST".to_owned() } else { "1 ".to_owned() },
    ),
    (
        "data out of order of before",
        |span| {
            let (mut host, id, mut peer) = open(Peer::new());
            host.give(&[peer.data_at(5, b"later")]);
            host.sent();
            span.pass(&mut host, &mut peer);
            host.give(&[peer.data(b"first")]);
            format!("{}", host.engine.readable(id))
        },
        |span| format!("{}", if span.is_at_least(DAY) { 5 } else { 10 }),
    ),
    (
        "the MTU of a path is known for ten minutes",
        |span| {
            let (mut host, id, mut peer) = open(Peer::new());
            host.engine.send(id, &[1; 1448]);
            let sent = host.sent_one();
            host.give_frame(&icmp_error("192.0.2.1".parse().expect("an address"), &sent, 3, 4, 1000));
            peer.ack = sent.end();
            host.sent();
            host.give(&[peer.acks()]);
            span.pass(&mut host, &mut peer);
            host.frames();
            let (next, _) = host.accept(Peer::new().port(6000));
            format!("{}", host.engine.segment_bytes(next))
        },
        |span| format!("{}", if span.is_at_least(DAY) { 1448 } else { 948 }),
    ),
    (
        "the last segment of a handshake that we answered",
        |span| {
            let mut host = Host::new();
            host.engine.listen(Peer::new().there, ConnectOptions::default()).expect("a free port");
            let mut peer = Peer { timestamps: None, ..Peer::new() };
            peer.heard(&host.answers(&peer.syn())[0]);
            peer.seq = peer.seq.wrapping_add(1);
            Span { step: None, ..span }.pass(&mut host, &mut peer);
            host.give(&[peer.acks()]);
            let id = host.news()[0].0;
            host.frames();
            host.engine.send(id, b"hello");
            times(&mut host, 6 * SECOND)
        },
        // Its round trip is unknown: RFC 6298 5.7.
        |_| "[0, 3000]".to_owned(),
    ),
    (
        "the second segment of a handshake that we began",
        |span| {
            let mut host = Host::new();
            let id = host.engine.connect(Peer::new().here, ConnectOptions::default()).expect("a connection");
            let syn = host.sent_one();
            let mut peer = Peer { there: syn.from, ..Peer::new() };
            peer.heard(&syn);
            Span { step: None, ..span }.pass(&mut host, &mut peer);
            host.give(&[peer.syn_ack()]);
            host.frames();
            assert_eq!(host.engine.status(id), Status::Open);
            host.engine.send(id, b"hello");
            times(&mut host, 6 * SECOND)
        },
        |_| "[0, 3000]".to_owned(),
    ),
    (
        "the ACK of data, of a caller that slept",
        |span| {
            let (mut host, id, mut peer) = open(Peer::new());
            round_trip(&mut host, id, &mut peer, 1);
            host.engine.send(id, b"hello");
            peer.heard_all(&host.sent());
            Span { step: None, ..span }.pass(&mut host, &mut peer);
            host.give(&[peer.acks()]);
            host.frames();
            host.engine.send(id, b"again");
            let sent = host.wait(61 * SECOND).iter().filter(|(_, one)| one.payload == b"again").count();
            format!("{} {:?}", sent > 1, host.engine.status(id))
        },
        |_| "true Open".to_owned(),
    ),
];

#[test]
fn times_are_compared_as_after_ten_seconds() {
    for (name, row) in ALIKE {
        let expected = row(SHORT);
        for span in spans() {
            assert_eq!(row(span), expected, "{name}, after {span:?}");
        }
    }
}

#[test]
fn times_that_count_are_compared_by_what_has_passed() {
    for (name, row, expected) in UNLIKE {
        for span in spans() {
            assert_eq!(row(span), expected(span), "{name}, after {span:?}");
        }
    }
}

/// With an open connection, and nothing to wait for.
pub(super) fn open(peer: Peer) -> (Host, ConnId, Peer) {
    open_with(settings(), peer)
}

pub(super) fn open_with(settings: Settings, peer: Peer) -> (Host, ConnId, Peer) {
    let mut host = Host::with(settings, small_limits());
    host.round_trip = 20;
    let (id, mut peer) = host.accept(peer);
    host.pass(3000, &mut peer);
    assert_eq!(host.engine.next_deadline(), None);
    (host, id, peer)
}

/// When segments leave from now on, in milliseconds.
pub(super) fn times(host: &mut Host, duration: Duration) -> String {
    let start = host.millis();
    let all: Vec<_> = host.wait(duration).iter().map(|(at, _)| at - start).collect();
    format!("{all:?}")
}

/// In how many seconds this is so, or `never`.
fn until(host: &mut Host, is_so: impl Fn(&Host) -> bool) -> String {
    for second in 0..400 {
        host.frames();
        if is_so(host) {
            return format!("{second}");
        }
        host.wait(SECOND);
    }
    "never".to_owned()
}

/// In how many seconds a connection ends.
pub(super) fn end_of(host: &mut Host, id: ConnId) -> String {
    until(host, |host| matches!(host.engine.status(id), Status::Ended(End::TimedOut | End::Closed)))
}

fn end_first(host: &mut Host, id: ConnId, peer: &mut Peer) {
    host.frames();
    host.engine.shutdown(id);
    let fin = host.sent_one();
    assert!(fin.is(FIN));
    peer.heard(&fin);
    host.give(&[peer.fin()]);
    host.sent();
}

fn keep_alive(idle: Duration) -> KeepAlive {
    KeepAlive { idle, interval: 2 * SECOND, probes: 3 }
}

/// So many segments go there and are acknowledged, 20 ms later.
pub(super) fn round_trip(host: &mut Host, id: ConnId, peer: &mut Peer, segments: usize) -> usize {
    host.engine.send(id, &vec![b'a'; segments * 1448]);
    let mut sent = host.sent();
    let count = sent.len();
    while !sent.is_empty() {
        host.wait_millis(20);
        peer.later(20);
        peer.heard_all(&sent);
        host.give(&[peer.acks()]);
        sent = host.sent();
    }
    count
}

/// Sends for so many round trips, and then until all has arrived; a segment of one round trip is lost. Gives how many
/// segments leave in each.
fn flights(host: &mut Host, id: ConnId, peer: &mut Peer, rounds: usize, lossy: Option<usize>) -> Vec<usize> {
    let (mut counts, mut held) = (Vec::new(), Vec::new());
    let mut sent = Vec::new();
    for round in 0.. {
        if round < rounds {
            host.engine.send(id, &[b'a'; 64 << 10]);
        }
        sent.extend(host.sent());
        if round >= rounds && sent.is_empty() {
            break;
        }
        counts.push(sent.len());
        if lossy == Some(round) {
            sent.remove(1);
        }
        let arrived = std::mem::take(&mut sent);
        sent.extend(host.wait_millis(20).into_iter().map(|(_, segment)| segment));
        peer.later(20);
        for segment in arrived {
            held.push(segment);
            while let Some(next) = held.iter().position(|one: &Segment| one.seq == peer.ack) {
                peer.heard(&held.swap_remove(next));
            }
            host.give(&[peer.acks()]);
        }
        host.news();
    }
    counts
}

/// How many segments leave in each round trip after the span, on a connection that has met a loss.
fn after_idleness(algorithm: Algorithm, span: Span) -> String {
    let mut settings = settings();
    settings.congestion = algorithm;
    let (mut host, id, mut peer) = open_with(settings, Peer { scale: Some(8), sack: false, ..Peer::new() });
    flights(&mut host, id, &mut peer, 12, Some(3));
    assert_eq!((host.engine.counters().fast_recoveries, host.engine.counters().timeouts), (1, 0));
    host.pass(1000, &mut peer);
    span.pass(&mut host, &mut peer);
    format!("{:?}", flights(&mut host, id, &mut peer, 12, None))
}

/// How many cookies of before are accepted, and the answer to a second one.
fn cookie_after(span: Span, again: bool) -> String {
    let mut limits: Limits = small_limits();
    limits.half_open = 1;
    let mut host = Host::with(settings(), limits);
    host.engine.listen(Peer::new().there, ConnectOptions::default()).expect("a free port");
    let flood = |host: &mut Host| {
        for port in [7000, 7001] {
            host.give(&[Peer::new().port(port).syn()]);
            host.frames();
        }
    };
    flood(&mut host);
    let mut peer = Peer { timestamps: None, ..Peer::new() };
    peer.heard(&host.answers(&peer.syn())[0]);
    peer.seq = peer.seq.wrapping_add(1);
    span.pass(&mut host, &mut peer);
    host.frames();
    if again {
        flood(&mut host);
    }
    host.give(&[peer.acks()]);
    let answers: Vec<_> =
        host.sent().iter().filter(|one| one.to == peer.here).map(|one| format!("{:?}", one.bits)).collect();
    format!("{} {}", host.engine.counters().cookies_accepted, answers.concat())
}

/// Nothing asks for it but its own timer, with keep-alive too.
#[test]
fn an_opening_that_may_take_days_ends_in_time() {
    for keep_alive in [false, true] {
        let mut settings = settings();
        settings.open_timeout = Duration::from_secs(10 * 24 * 3600);
        let mut host = Host::with(settings, small_limits());
        let options = ConnectOptions { keep_alive, ..Default::default() };
        let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), options).unwrap();
        for _ in 0..9 * 24 {
            host.wait(3600 * SECOND);
        }
        assert_eq!(host.engine.status(id), Status::Opening);
        for _ in 0..2 * 24 {
            host.wait(3600 * SECOND);
        }
        assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut), "with keep-alive: {keep_alive}");
    }
}

/// The bits that name the period of a cookie return after 34 minutes.
#[test]
fn a_cookie_is_valid_for_two_minutes_and_never_again() {
    for seconds in [10, 63] {
        let span = Span { length: seconds * SECOND, step: None };
        assert_eq!(cookie_after(span, true), "1 ", "after {span:?}");
    }
    for periods in [2, 3, 16, 31, 32, 33, 64, 1024] {
        let span = Span { length: periods * 64 * SECOND, step: None };
        assert_eq!(cookie_after(span, true), "0 RST", "after {span:?}");
    }
}
