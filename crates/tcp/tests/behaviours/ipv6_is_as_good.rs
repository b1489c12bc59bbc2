//! IPv6: both roles, extension headers, many peers at the same time.

use anywire_tcp::ConnectError;

use crate::common::host::{Host, Peer, THERE_V6};
use crate::common::wire::{ACK, SYN, ip_frame};

#[test]
fn both_roles_talk_and_end() {
    let mut host = Host::new();
    for called in [false, true] {
        let peer = Peer::v6().port(5000 + u16::from(called));
        let (id, mut peer) = if called { host.call(peer) } else { host.accept(peer) };
        assert_eq!(host.engine.addresses(id), (peer.there, peer.here));
        host.give(&[peer.data(b"question")]);
        assert_eq!(host.read(id), b"question");
        host.engine.send(id, b"answer");
        let answer = host.sent_one();
        assert_eq!((&answer.payload[..], answer.ack, answer.hop_limit), (&b"answer"[..], peer.seq, 64));
        peer.heard(&answer);
        host.engine.close(id);
        peer.heard_all(&host.sent());
        host.answers(&peer.fin());
        assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (0, 1 + usize::from(called)));
    }
    host.wait_millis(61_000);
    assert_eq!(host.engine.in_time_wait(), 0);
}

#[test]
fn many_peers_are_told_apart_and_their_places_are_used_again() {
    let mut host = Host::new();
    for round in 0..3_u16 {
        let mut open = Vec::new();
        for number in 0..100_u16 {
            let mut peer = Peer::v6().port(1000 + number % 3);
            peer.here.set_ip(format!("fd00::{:x}:{:x}", round + 1, number).parse().unwrap());
            open.push(host.accept(peer));
        }
        for (id, peer) in &mut open {
            let text = format!("from {}", peer.here);
            host.give(&[peer.data(text.as_bytes())]);
            assert_eq!(host.read(*id), text.as_bytes());
            assert_eq!(host.engine.addresses(*id).1, peer.here);
        }
        for (id, _) in open {
            host.engine.abort(id);
        }
        host.sent();
        assert_eq!(host.engine.connections(), 0);
    }
}

#[test]
fn extension_headers_are_passed_over_and_fragments_refused() {
    let mut host = Host::new();
    let peer = Peer::v6();
    host.engine.listen(peer.there, Default::default()).unwrap();
    let syn = peer.syn().frame();
    let tcp = &syn[54..];
    let (from, to) = (peer.here.ip(), peer.there.ip());
    // Hop-by-hop and destination options, both with padding alone.
    let mut packet = vec![60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0];
    packet.extend(tcp);
    host.give_frame(&ip_frame(from, to, 0, 0, 64, &packet));
    let answer = host.sent_one();
    assert_eq!((answer.bits, answer.ack), (SYN | ACK, peer.seq + 1));
    let mut fragment = vec![6, 0, 0, 1, 0, 0, 0, 9];
    fragment.extend(tcp);
    let before = host.engine.counters().fragments_refused;
    host.give_frame(&ip_frame(from, to, 44, 0, 64, &fragment));
    assert_eq!(host.sent(), []);
    assert_eq!(host.engine.counters().fragments_refused, before + 1);
}

#[test]
fn families_do_not_mix() {
    let mut host = Host::new();
    let from_v4 = "10.0.0.1:1".parse().unwrap();
    let to_v6 = format!("[{THERE_V6}]:80").parse().unwrap();
    assert_eq!(host.engine.connect_from(from_v4, to_v6, Default::default()), Err(ConnectError::NoAddress));
}

/// RFC 9293 MUST-15: 1220 bytes if the peer says nothing.
#[test]
fn a_peer_that_offers_no_mss_gets_segments_of_1220_bytes() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer { mss: None, timestamps: None, ..Peer::v6() });
    host.engine.send(id, &[1; 5000]);
    assert_eq!(host.sent()[0].payload.len(), 1220);
}
