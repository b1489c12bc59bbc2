//! ECN (RFC 3168): agreed on in the handshake, marks echoed until the sender has slowed down, and slowed down for once a
//! window.

use anywire_tcp::Ecn;

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, CWR, ECE, SYN, Segment};

fn host(ecn: Ecn) -> Host {
    let mut settings = settings();
    settings.ecn = ecn;
    Host::with(settings, small_limits())
}

/// A peer that asks for ECN.
fn accepted(host: &mut Host, bits: crate::common::wire::Bits) -> (anywire_tcp::ConnId, Peer, Segment) {
    let mut peer = Peer::new();
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
