//! A connection answers segments that may be forged, or may be answers themselves, once in half a second, in whatever state it is.
//! Others cannot use its answers up (RFC 9293 3.10.7.4 and 3.8.4, RFC 5961 7 and 10).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anywire_tcp::{ConnectOptions, Frames, Settings};

use crate::common::host::{Host, Peer, engine, settings, small_limits};
use crate::common::wire::{ACK, FIN, RST, SYN, Segment};

/// A state in which a peer's segments are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum In {
    HalfOpen,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWaitWithUser,
    TimeWait,
}

const STATES: [In; 10] = [
    In::HalfOpen,
    In::SynReceived,
    In::Established,
    In::FinWait1,
    In::FinWait2,
    In::CloseWait,
    In::Closing,
    In::LastAck,
    In::TimeWaitWithUser,
    In::TimeWait,
];

/// Brings the host into a state towards this peer, and gives the peer as it is then.
fn bring(host: &mut Host, mut peer: Peer, state: In) -> Peer {
    if state == In::HalfOpen {
        host.engine.listen(peer.there, ConnectOptions::default()).expect("a free port");
        peer.heard(&host.answers(&peer.syn())[0]);
        peer.seq = peer.seq.wrapping_add(1);
        return peer;
    }
    if state == In::SynReceived {
        host.engine.connect_from(peer.there, peer.here, ConnectOptions::default()).expect("a connection");
        let syn = host.sent_one();
        peer.heard(&syn);
        // Both open at once.
        assert!(host.answers(&Segment { ack: 0, ..peer.syn() })[0].is(SYN | ACK));
        peer.seq = peer.seq.wrapping_add(1);
        return peer;
    }
    let (id, mut peer) = host.accept(peer);
    if matches!(state, In::CloseWait | In::LastAck) {
        assert_eq!(host.answers(&peer.fin()).len(), 1);
    }
    if !matches!(state, In::Established | In::CloseWait) {
        host.engine.shutdown(id);
        let fin = host.sent_one();
        assert!(fin.is(FIN));
        if !matches!(state, In::FinWait1 | In::Closing | In::LastAck) {
            peer.heard(&fin);
        }
    }
    match state {
        In::FinWait2 => assert_eq!(host.answers(&peer.acks()), []),
        In::Closing | In::TimeWait | In::TimeWaitWithUser => assert_eq!(host.answers(&peer.fin()).len(), 1),
        _ => {}
    }
    if state == In::TimeWait {
        host.engine.close(id);
        assert_eq!(host.engine.in_time_wait(), 1);
    }
    peer
}

const ODD: usize = 8;

/// Segments that may be forged, or answers of an end that disagrees.
fn odd(peer: &Peer) -> [(&'static str, Segment); ODD] {
    let at = |ahead: u32, bits| Segment { seq: peer.seq.wrapping_add(ahead), ..peer.segment(bits) };
    [
        ("beyond the window", at(0x4000_0000, ACK)),
        ("before the window", at(0u32.wrapping_sub(100), ACK)),
        ("a keep-alive probe", at(0u32.wrapping_sub(1), ACK)),
        ("a reset in the window", at(100, RST)),
        ("a SYN in the window", at(100, SYN)),
        ("a SYN before the window", at(0u32.wrapping_sub(100), SYN)),
        ("the SYN", at(0u32.wrapping_sub(1), SYN)),
        ("a SYN with an ACK", at(0u32.wrapping_sub(100), SYN | ACK)),
    ]
}

#[test]
fn a_burst_gets_one_answer_in_every_state() {
    for state in STATES {
        for peer in [Peer::new(), Peer::plain(), Peer::v6()] {
            for kind in 0..ODD {
                let mut host = Host::new();
                let peer = bring(&mut host, peer.clone(), state);
                let (name, segment) = odd(&peer)[kind].clone();
                if matches!(state, In::TimeWait | In::TimeWaitWithUser) && name == "a SYN in the window" {
                    // It is newer, and opens the next connection.
                    continue;
                }
                let mut count = || (0..200).map(|_| host.answers(&segment).len()).sum::<usize>();
                let first = count();
                assert!(first <= 1, "{state:?}: {first} answers to 200 segments: {name}");
                assert_eq!(count(), 0, "{state:?}: {name}, in the same moment");
                host.wait_millis(500);
                let second = (0..200).map(|_| host.answers(&segment).len()).sum::<usize>();
                assert_eq!(second, first, "{state:?}: {name}, half a second later");
            }
        }
    }
}

#[test]
fn the_interval_can_be_set() {
    for millis in [0, 1, 50, 3_000] {
        let mut settings: Settings = settings();
        settings.answer_interval = Duration::from_millis(millis);
        let mut host = Host::with(settings, small_limits());
        let (_, peer) = host.accept(Peer::new());
        let (_, probe) = odd(&peer)[2].clone();
        for _ in 0..3 {
            assert_eq!(host.answers(&probe).len(), 1);
            assert_eq!(host.answers(&probe).len(), 0);
            host.wait_millis(millis.max(1));
        }
        assert_eq!(host.engine.counters().answers_withheld, 3);
    }
}

/// Each of two ends was led to believe in an end that there is not: one segment is enough, and each answer asks for the next.
#[test]
fn no_two_states_answer_each_other_for_ever() {
    for one in STATES {
        for other in STATES {
            for timestamps in [Peer::new().timestamps, None] {
                let count = exchange(one, other, timestamps);
                assert!(count < 80, "{one:?} and {other:?}: {count} segments in five seconds");
            }
        }
    }
}

/// How many segments leave both ends in five seconds.
fn exchange(one: In, other: In, timestamps: Option<(u32, u32)>) -> usize {
    let mut here = Host::new();
    let mut there = Host::new();
    there.engine = engine(settings(), small_limits(), 2, 1500);
    // Where the segments that a test makes by hand are sent.
    there.engine.set_mac(here.engine.mac());
    let peer = Peer { timestamps, ..Peer::new() };
    let mirrored = Peer { here: peer.there, there: peer.here, seq: 99, ..peer };
    let peer = bring(&mut here, peer, one);
    bring(&mut there, mirrored, other);
    let mut now = here.now.max(there.now);
    let mut frames = Frames::new();
    for (_, segment) in odd(&peer).into_iter().take(3) {
        assert!(frames.push(&segment.frame()));
    }
    here.engine.receive(now, &mut frames);
    let mut count = 0;
    for _ in 0..5_000 {
        now = now + Duration::from_millis(1);
        for (from, to) in [(0, 1), (1, 0)] {
            let engines = [&mut here.engine, &mut there.engine];
            engines[from].advance(now);
            engines[from].transmit(now, &mut frames);
            count += frames.len();
            engines[to].receive(now, &mut frames);
        }
    }
    count
}

/// So many that a table of those answered lately would be full.
const OTHERS: u32 = 70_000;

#[test]
fn a_connection_answers_whatever_others_send() {
    let mut limits = small_limits();
    limits.connections = OTHERS as usize + 8;
    let mut host = Host::with(settings(), limits);
    let honest = bring(&mut host, Peer { timestamps: None, ..Peer::new() }, In::Established);
    let probes: Vec<Segment> = (0..OTHERS)
        .map(|number| {
            let address = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_1000 + number / 32_768));
            let here = SocketAddr::new(address, 1024 + (number % 32_768) as u16);
            let mut peer = Peer { here, timestamps: None, ..Peer::new() };
            peer.heard(&host.answers(&peer.syn())[0]);
            peer.seq = peer.seq.wrapping_add(1);
            host.give(&[peer.acks()]);
            odd(&peer)[number as usize % 4].1.clone()
        })
        .collect();
    for some in probes.chunks(64) {
        host.give(some);
        host.frames();
    }
    for kind in 0..ODD {
        let answers = host.answers(&odd(&honest)[kind].1);
        assert!(matches!(&answers[..], [one] if one.to == honest.here), "{kind}: {answers:?}");
        host.wait_millis(500);
    }
}
