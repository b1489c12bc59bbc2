//! ECN (RFC 3168): agreed on in the handshake, marks echoed until the sender has slowed down, and slowed down for once a
//! window.

use anywire_tcp::{ConnId, Ecn};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, Bits, CWR, ECE, SYN, Segment};

fn host(ecn: Ecn) -> Host {
    let mut settings = settings();
    settings.ecn = ecn;
    Host::with(settings, small_limits())
}

/// A peer that asks for ECN.
fn accepted(host: &mut Host, bits: Bits) -> (ConnId, Peer, Segment) {
    accepted_from(host, Peer::new(), bits)
}

fn accepted_from(host: &mut Host, mut peer: Peer, bits: Bits) -> (ConnId, Peer, Segment) {
    host.engine.listen(peer.there, Default::default()).unwrap();
    let answer = host.answers(&Segment { bits, ..peer.syn() }).remove(0);
    peer.heard(&answer);
    peer.seq += 1;
    host.give(&[peer.acks()]);
    (host.news()[0].0, peer, answer)
}

#[test]
fn it_is_accepted_if_asked_for_and_allowed() {
    for (ecn, bits, agreed) in [
        (Ecn::Accept, SYN | ECE | CWR, true),
        (Ecn::Ask, SYN | ECE | CWR, true),
        (Ecn::Off, SYN | ECE | CWR, false),
        (Ecn::Accept, SYN, false),
        (Ecn::Accept, SYN | ECE, false),
    ] {
        let mut host = host(ecn);
        let (id, _, answer) = accepted(&mut host, bits);
        assert_eq!(answer.bits, if agreed { SYN | ACK | ECE } else { SYN | ACK });
        assert_eq!(answer.traffic_class & 3, 0, "no SYN is ECN-capable");
        host.engine.send(id, b"data");
        assert_eq!(host.sent_one().traffic_class & 3, if agreed { 2 } else { 0 });
    }
}

#[test]
fn it_is_asked_for_once_and_not_when_the_syn_is_sent_again() {
    let mut host = host(Ecn::Ask);
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    let syns = host.wait_millis(1500);
    assert_eq!((syns[0].1.bits, syns[1].1.bits), (SYN | ECE | CWR, SYN));
    let mut peer = Peer { there: syns[0].1.from, ..Peer::new() };
    peer.heard(&syns[0].1);
    host.answers(&Segment { bits: SYN | ACK | ECE, ..peer.syn_ack() });
    host.engine.send(id, b"data");
    assert_eq!(host.sent_one().traffic_class & 3, 2);
}

#[test]
fn a_mark_is_echoed_until_the_peer_has_slowed_down() {
    let mut host = host(Ecn::Accept);
    let (id, mut peer, _) = accepted(&mut host, SYN | ECE | CWR);
    let mut echoes = Vec::new();
    for number in 0..6 {
        let mut data = peer.data(&[1; 2896 / 2]);
        data.traffic_class = if number == 1 { 3 } else { 2 };
        if number == 4 {
            data.bits = data.bits | CWR;
        }
        host.give(&[data]);
        host.read(id);
        echoes.extend(host.wait_millis(50).into_iter().map(|(_, ack)| ack.is(ECE)));
    }
    assert_eq!(echoes, [false, true, true, true, false, false]);
}

#[test]
fn an_echo_slows_us_down_once_a_window_and_is_told() {
    let mut host = host(Ecn::Accept);
    let (id, mut peer, _) = accepted(&mut host, SYN | ECE | CWR);
    peer.window = 65_535;
    host.engine.send(id, &[1; 60_000]);
    let first = host.sent();
    assert_eq!(first.len(), 10);
    let mut second = Vec::new();
    for segment in &first {
        peer.heard(segment);
        second.extend(host.answers(&Segment { bits: ACK | ECE, ..peer.acks() }));
    }
    assert!((5..=8).contains(&second.len()), "{} for ten: seven tenths of the window are left", second.len());
    assert_eq!(second.iter().filter(|segment| segment.is(CWR)).count(), 1, "once");
    assert!(second[0].is(CWR), "with the first new data");
    assert_eq!(host.engine.counters().retransmits, 0);
}

#[test]
fn what_is_sent_again_is_not_marked_as_capable() {
    let mut host = host(Ecn::Accept);
    let (id, ..) = accepted(&mut host, SYN | ECE | CWR);
    host.engine.send(id, b"lost");
    let sent = host.wait_millis(2000);
    assert!(sent.len() > 2);
    assert_eq!(sent[0].1.traffic_class & 3, 2);
    assert!(sent[1..].iter().all(|(_, again)| again.traffic_class & 3 == 0), "RFC 3168 6.1.5");
}

/// Ten segments are out, the ACK of the first has a mark or none, and the one at `lost` does not arrive. It goes again for the
/// third duplicate at the latest. Gives how many segments leave once all have arrived.
fn marked_and_lost(peer: Peer, mark: Bits, lost: usize) -> usize {
    let mut host = host(Ecn::Accept);
    let (id, mut peer, _) = accepted_from(&mut host, peer, SYN | ECE | CWR);
    host.engine.send(id, &[1; 60_000]);
    let sent = host.sent();
    assert_eq!(sent.len(), 10);
    host.pass(20, &mut peer);
    let mut left = Vec::new();
    for (at, segment) in sent.iter().enumerate().filter(|(at, _)| *at != lost) {
        peer.heard(segment);
        let sack = if peer.sack && at > lost { vec![(sent[lost].end(), segment.end())] } else { vec![] };
        let bits = if at == 0 { ACK | mark } else { ACK };
        left.extend(host.answers(&Segment { bits, sack, ..peer.acks() }));
        let is_repaired = left.iter().any(|segment| segment.seq == sent[lost].seq);
        assert!(is_repaired || at < lost + 3, "{mark:?}, and {lost} lost: {left:?}");
    }
    assert_eq!(left.iter().filter(|segment| segment.is(CWR)).count(), 1, "told once");
    let again = left.iter().position(|segment| segment.seq == sent[lost].seq).expect("it went again");
    peer.heard(&left.remove(again));
    peer.ack = sent[9].end();
    peer.heard_all(&left);
    let out = host.answers(&peer.acks()).len();
    let counters = host.engine.counters();
    assert_eq!((counters.retransmits, counters.fast_recoveries, counters.timeouts), (1, 1, 0));
    out
}

/// RFC 3168 6.1.2: a mark slows down, and takes nothing from the repair of losses (RFC 5681 3.2, RFC 6582 3.2). There is one
/// reaction to a window of data (RFC 9438 4.6).
#[test]
fn a_mark_and_a_loss_in_one_window_are_repaired_at_once_and_slow_us_down_once() {
    for peer in [Peer { sack: false, ..Peer::new() }, Peer::new()] {
        for (mark, lost) in [(ACK, 1), (ECE, 1), (ECE, 4), (ECE, 6)] {
            let out = marked_and_lost(peer.clone(), mark, lost);
            assert!((7..=8).contains(&out), "{out} of ten with {mark:?}, and {lost} lost");
        }
    }
}

/// No segment was sent again, so duplicates right behind the window with the mark are of a loss.
#[test]
fn a_loss_right_behind_a_window_with_a_mark_is_repaired_without_a_timeout() {
    let mut host = host(Ecn::Accept);
    let (id, mut peer, _) = accepted_from(&mut host, Peer { sack: false, ..Peer::new() }, SYN | ECE | CWR);
    host.engine.send(id, &[1; 60_000]);
    let first = host.sent();
    peer.heard_all(&first);
    let second = host.answers(&Segment { bits: ACK | ECE, ..peer.acks() });
    assert!(second.len() > 4, "{second:?}");
    for _ in 0..2 {
        host.answers(&peer.acks());
    }
    assert_eq!(host.answers(&peer.acks())[0].seq, second[0].seq);
}
