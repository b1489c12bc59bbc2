//! Segments by one who does not see the connection: challenged, counted, and otherwise without effect (RFC 5961), old
//! duplicates by their timestamps (PAWS, RFC 7323 5).

use std::time::Duration;

use anywire_tcp::{Engine, Frames, Instant, Status};

use crate::common::host::{Host, Peer, engine, settings, small_limits};
use crate::common::random::Random;
use crate::common::wire::{ACK, FIN, RST, SYN, Segment};

#[test]
fn a_reset_in_the_window_but_not_at_its_edge_is_challenged() {
    let mut host = Host::new();
    let (id, peer) = host.accept(Peer::new());
    let reset = Segment { seq: peer.seq + 100, ..peer.segment(RST) };
    let answers = host.answers(&reset);
    assert!(
        matches!(&answers[..], [one] if (one.bits, one.seq, one.ack) == (ACK, peer.ack, peer.seq)),
        "{answers:?}"
    );
    assert_eq!(host.answers(&Segment { seq: peer.seq.wrapping_sub(1), ..reset.clone() }), []);
    assert_eq!(host.answers(&Segment { seq: peer.seq + 10_000_000, ..reset }), []);
    assert_eq!((host.engine.status(id), host.engine.counters().challenges), (Status::Open, 1));
}

#[test]
fn a_syn_is_challenged_wherever_it_lies() {
    let mut host = Host::new();
    let (id, peer) = host.accept(Peer::new());
    for seq in [peer.seq, peer.seq + 5000, peer.seq.wrapping_sub(5000), peer.seq + 1_000_000_000] {
        for bits in [SYN, SYN | ACK, SYN | FIN] {
            let answers = host.answers(&Segment { seq, ..peer.segment(bits) });
            assert!(matches!(&answers[..], [one] if (one.bits, one.ack) == (ACK, peer.seq)), "{answers:?}");
            host.wait_millis(500);
        }
    }
    assert_eq!((host.engine.status(id), host.engine.connections()), (Status::Open, 1));
}

#[test]
fn data_with_an_impossible_ack_is_not_taken() {
    let mut host = Host::new();
    let (id, peer) = host.accept(Peer::new());
    for ack in [peer.ack + 1, peer.ack.wrapping_add(1 << 30), peer.ack.wrapping_sub(100_000)] {
        let answers = host.answers(&Segment { ack, ..peer.data_at(0, b"forged") });
        assert!(matches!(&answers[..], [one] if one.ack == peer.seq), "{answers:?}");
        host.wait_millis(500);
    }
    // Without any ACK as well (RFC 9293 3.10.7.4, fifth).
    assert_eq!(host.answers(&Segment { bits: crate::common::wire::PSH, ..peer.data_at(0, b"forged") }), []);
    assert_eq!(host.engine.readable(id), 0);
    // One of the recent past is as good as any.
    host.give(&[Segment { ack: peer.ack.wrapping_sub(100), ..peer.data_at(0, b"honest") }]);
    assert_eq!(host.read(id), b"honest");
}

/// Linux has the same limit. Data is answered each time, because it cannot itself be an answer.
#[test]
fn a_connection_answers_what_may_be_an_answer_twice_a_second() {
    let mut host = Host::new();
    let (_, mut peer) = host.accept(Peer::new());
    host.give(&[peer.data(b"seen")]);
    host.wait_millis(1000);
    let old = |payload: &[u8]| Segment { seq: peer.seq.wrapping_sub(4), ..peer.data_at(0, payload) };
    let reset = Segment { seq: peer.seq + 100, ..peer.segment(RST) };
    for _ in 0..3 {
        let before = *host.engine.counters();
        let mut answers = 0;
        for _ in 0..20 {
            answers += host.answers(&old(b"")).len() + host.answers(&reset).len();
            assert_eq!(host.answers(&old(b"seen")).len(), 1);
        }
        assert_eq!(answers, 1);
        let after = host.engine.counters();
        assert_eq!(after.answers_withheld - before.answers_withheld, 39);
        host.wait_millis(500);
    }
}

/// Each end was led to believe in bytes that the other never sent, so each of their ACKs is impossible for the other.
#[test]
fn ends_that_disagree_do_not_answer_each_other_for_ever() {
    let mut ends = [1, 2].map(|last| engine(settings(), small_limits(), last, 1500));
    ends[1].listen("10.0.0.2:80".parse().unwrap(), Default::default()).unwrap();
    let id = ends[0].connect("10.0.0.2:80".parse().unwrap(), Default::default()).unwrap();
    let (mut now, mut count, mut last) = (Instant::from_micros(1_000_000), 0, None);
    let mut pass = |ends: &mut [Engine; 2], millis: u64, forged: &[Segment]| {
        count = 0;
        for step in 0..millis {
            for from in 0..2 {
                let mut frames = Frames::new();
                for segment in
                    forged.iter().filter(|segment| step == 0 && (segment.to.port() == 80) == (from == 0))
                {
                    assert!(frames.push(&segment.frame()));
                }
                ends[from].advance(now);
                ends[from].transmit(now, &mut frames);
                for frame in frames.iter() {
                    last = Segment::of(frame).filter(|segment| segment.to.port() == 80).or(last.take());
                    count += 1;
                }
                ends[1 - from].receive(now, &mut frames);
            }
            now = now + Duration::from_millis(1);
        }
        (count, last.clone())
    };
    pass(&mut ends, 100, &[]);
    ends[0].send(id, b"x");
    let (_, last) = pass(&mut ends, 500, &[]);
    let last = last.expect("something was sent");
    let (value, echo) = last.timestamps.unwrap();
    let timestamps = |value: u32, echo: u32| Some((value.wrapping_add(600), echo));
    let to_server = Segment {
        seq: last.end(),
        payload: vec![9; 10],
        timestamps: timestamps(value, echo),
        ..last.clone()
    };
    let to_client = Segment {
        from: last.to,
        to: last.from,
        seq: last.ack,
        ack: last.end(),
        payload: vec![9; 10],
        timestamps: timestamps(echo, value),
        ..last
    };
    let (count, _) = pass(&mut ends, 10_000, &[to_server, to_client]);
    assert!(count < 20, "{count} segments in ten seconds");
    assert!(ends[0].counters().answers_withheld + ends[1].counters().answers_withheld > 0);
}

#[test]
fn blind_forgers_neither_reset_nor_write_nor_stop_a_connection() {
    let mut random = Random::new(11);
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, b"out");
    peer.heard_all(&host.sent());
    host.give(&[peer.acks()]);
    for _ in 0..20_000 {
        let mut forged = peer.segment(crate::common::wire::Bits(random.next() as u8));
        forged.seq = random.next() as u32;
        forged.ack = random.next() as u32;
        forged.window = random.next() as u16;
        forged.timestamps = random.chance(0.8).then(|| (random.next() as u32, random.next() as u32));
        forged.payload = vec![0x66; random.below(100) as usize];
        // One in eight thousand hits the window of a blind forger's guess; a RST or ACK must be exact.
        host.give(&[forged]);
        host.sent();
    }
    peer.later(1000);
    host.give(&[peer.data(b"real")]);
    assert_eq!(host.engine.status(id), Status::Open);
    assert_eq!(host.read(id), b"real", "and the honest peer is still heard");
}

#[test]
fn paws_refuses_what_is_older_than_the_last() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    peer.later(1000);
    host.give(&[peer.data(b"new")]);
    host.sent();
    let old = Segment { timestamps: Some((50_500, 0)), ..peer.data_at(0, b"old") };
    let answers = host.answers(&old);
    assert!(matches!(&answers[..], [one] if one.ack == peer.seq), "{answers:?}");
    assert_eq!((host.read(id), host.engine.counters().refused_by_paws), (b"new".to_vec(), 1));
    // Without timestamps, nothing but a reset counts.
    assert_eq!(host.answers(&Segment { timestamps: None, ..peer.data_at(0, b"none") }), []);
    assert_eq!(host.engine.readable(id), 0);
    // An old reset at the edge counts as well (RFC 7323 3.2).
    host.give(&[Segment { timestamps: None, ..peer.segment(RST) }]);
    assert!(matches!(host.engine.status(id), Status::Ended(_)));
}

#[test]
fn a_stamp_out_of_the_window_does_not_become_the_latest() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let ahead = Some((50_000 + (1 << 30), 0));
    for forged in [
        Segment { timestamps: ahead, seq: peer.seq.wrapping_sub(10_000), ..peer.segment(ACK) },
        Segment { timestamps: ahead, ack: peer.ack + 1_000_000, ..peer.data_at(0, b"x") },
        Segment { timestamps: ahead, seq: peer.seq + 10, ..peer.segment(RST) },
        Segment { timestamps: ahead, ..peer.segment(SYN) },
    ] {
        host.answers(&forged);
    }
    host.give(&[peer.data(b"real")]);
    assert_eq!(host.read(id), b"real");
}

#[test]
fn after_24_days_an_old_stamp_is_taken() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    for _ in 0..25 {
        host.wait(Duration::from_secs(86_400));
    }
    // The peer's clock has wrapped meanwhile.
    peer.timestamps = Some((50_000_u32.wrapping_add(25 * 86_400_000), 0));
    host.give(&[peer.data(b"still here")]);
    assert_eq!(host.read(id), b"still here");
}
