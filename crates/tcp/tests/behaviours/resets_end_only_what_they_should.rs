//! Resets: sent where there is no connection, received by a connection, and forged (RFC 9293 3.5.2, 3.5.3; RFC 5961).

use anywire_tcp::{End, Events, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, FIN, PSH, RST, SYN, Segment, URG};

#[test]
fn a_segment_for_no_connection_is_reset() {
    let mut host = Host::new();
    let peer = Peer { ack: 99, ..Peer::plain() };
    // Without ACK: <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>.
    let answer = host.answers(&peer.syn()).remove(0);
    assert_eq!((answer.bits, answer.seq, answer.ack), (RST | ACK, 0, peer.seq + 1));
    let data = Segment { bits: PSH, payload: vec![1; 10], ..peer.segment(PSH) };
    assert_eq!(host.answers(&data)[0].ack, peer.seq + 10);
    // With ACK: <SEQ=SEG.ACK><CTL=RST>.
    for bits in [ACK, SYN | ACK, FIN | ACK] {
        let answer = host.answers(&peer.segment(bits)).remove(0);
        assert_eq!((answer.bits, answer.seq), (RST, 99));
    }
    // A RST is never answered.
    assert_eq!(host.answers(&peer.segment(RST)), []);
    assert_eq!(host.answers(&peer.segment(RST | ACK)), []);
    assert_eq!(host.engine.counters().resets_sent, 5);
}

#[test]
fn a_listener_takes_a_syn_resets_an_ack_and_passes_over_the_rest() {
    let mut host = Host::new();
    let peer = Peer { ack: 99, ..Peer::plain() };
    host.engine.listen(peer.there, Default::default()).unwrap();
    assert_eq!(host.answers(&peer.segment(RST)), []);
    assert_eq!(host.answers(&peer.segment(FIN)), []);
    assert_eq!(host.answers(&peer.segment(URG | PSH)), []);
    let answer = host.answers(&peer.segment(ACK)).remove(0);
    assert_eq!((answer.bits, answer.seq), (RST, 99));
    assert_eq!(host.answers(&peer.segment(SYN | ACK))[0].bits, RST);
    assert_eq!(host.engine.half_open(), 0);
    assert_eq!(host.answers(&peer.syn())[0].bits, SYN | ACK);
}

#[test]
fn a_refused_connection_says_so() {
    let mut host = Host::new();
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    let syn = host.sent_one();
    let mut peer = Peer { there: syn.from, ..Peer::plain() };
    peer.heard(&syn);
    // Not without an ACK, nor with that of another SYN.
    host.give(&[peer.segment(RST)]);
    host.give(&[Segment { ack: peer.ack + 1, ..peer.segment(RST | ACK) }]);
    assert_eq!(host.engine.status(id), Status::Opening);
    host.give(&[peer.segment(RST | ACK)]);
    assert!(matches!(host.news()[..], [(of, events)] if of == id && events.has(Events::CLOSED)));
    assert_eq!(host.engine.status(id), Status::Ended(End::Refused));
    assert_eq!(host.engine.connections(), 1, "until its user lets go");
    host.engine.close(id);
    assert_eq!(host.engine.connections(), 0);
    assert_eq!(host.sent(), []);
}

#[test]
fn a_reset_at_the_edge_ends_it_and_what_was_to_be_sent_is_freed() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, &[1; 10_000]);
    host.sent();
    host.give(&[peer.segment(RST)]);
    assert_eq!(host.engine.status(id), Status::Ended(End::Reset));
    assert_eq!(host.engine.memory().segments_in_use, 0);
    assert_eq!(host.engine.send(id, b"more"), 0);
    assert_eq!(host.answers(&peer.data(b"late"))[0].bits, RST, "the name is free");
    host.engine.close(id);
    assert_eq!((host.engine.connections(), host.engine.counters().reset), (0, 1));
}

#[test]
fn a_segment_behind_a_reset_in_the_same_batch_finds_no_connection() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::plain());
    let reset = peer.segment(RST);
    let data = peer.data(b"late");
    host.give(&[reset, data]);
    assert_eq!(host.engine.status(id), Status::Ended(End::Reset));
    assert_eq!(host.sent_one().bits, RST);
    host.news();
    // And a SYN there opens a new connection.
    let (id, peer) = host.accept(Peer::plain().port(5001));
    host.give(&[peer.segment(RST), peer.syn()]);
    assert_eq!(host.engine.status(id), Status::Ended(End::Reset));
    assert_eq!(host.sent_one().bits, SYN | ACK);
}

#[test]
fn abort_resets_the_peer_at_once() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, b"sent");
    peer.heard_all(&host.sent());
    host.engine.send(id, &[1; 100]);
    host.engine.abort(id);
    let sent = host.sent();
    assert!(matches!(&sent[..], [one] if one.is(RST) && one.seq == peer.ack), "{sent:?}");
    assert_eq!((host.engine.connections(), host.engine.memory().segments_in_use), (0, 0));
    assert_eq!(host.engine.in_time_wait(), 0);
}

#[test]
fn an_opening_that_is_given_up_leaves_nothing() {
    let mut host = Host::new();
    for close in [true, false] {
        let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
        host.engine.send(id, b"never sent");
        host.sent();
        if close {
            host.engine.close(id)
        } else {
            host.engine.abort(id)
        }
        assert_eq!((host.engine.connections(), host.engine.memory().segments_in_use), (0, 0));
    }
}

#[test]
fn a_half_open_connection_is_dropped_by_a_right_reset_only() {
    let mut host = Host::with(settings(), small_limits());
    let peer = Peer::plain();
    host.engine.listen(peer.there, Default::default()).unwrap();
    let syn_ack = host.answers(&peer.syn()).remove(0);
    assert_eq!(host.answers(&Segment { seq: peer.seq.wrapping_sub(5), ..peer.segment(RST) }), []);
    // RFC 9293 3.10.7.4: <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>.
    let challenge = host.answers(&Segment { seq: peer.seq + 100, ..peer.segment(RST) }).remove(0);
    let parts = (challenge.bits, challenge.seq, challenge.ack);
    assert_eq!(parts, (ACK, syn_ack.seq.wrapping_add(1), peer.seq.wrapping_add(1)));
    assert_eq!(host.engine.half_open(), 1);
    host.give(&[Segment { seq: peer.seq + 1, ..peer.segment(RST) }]);
    assert_eq!(host.engine.half_open(), 0);
    assert_eq!(host.engine.counters().timed_out, 0);
    // Back in LISTEN, and the user is told nothing (MUST-11).
    assert_eq!((host.news(), host.answers(&peer.syn())[0].bits), (vec![], SYN | ACK));
}
