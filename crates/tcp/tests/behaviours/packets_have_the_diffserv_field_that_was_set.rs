//! The Diffserv field (RFC 2474) is set for a connection or by its listener. Every packet of the connection has it, from
//! the first to the last (RFC 9293 MUST-48, SHLD-21, SHLD-22).

use std::time::Duration;

use anywire_tcp::{ConnectOptions, Ecn};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, CWR, ECE, FIN, RST, SYN, Segment};

/// Expedited forwarding, and the largest value.
const FIELDS: [u8; 2] = [46, 63];

fn with(dscp: u8) -> ConnectOptions {
    ConnectOptions { dscp, no_nagle: true, ..ConnectOptions::default() }
}

/// All of these have the field, and nothing in the bits of ECN.
fn assert_all_have(sent: &[Segment], dscp: u8) {
    assert!(!sent.is_empty());
    for segment in sent {
        assert_eq!(segment.traffic_class, dscp << 2, "{segment:?}");
    }
}

#[test]
fn from_the_first_packet_to_the_last() {
    for dscp in FIELDS {
        // The usual segments, those with other options or none, and IPv6.
        for peer in [Peer::new(), Peer { sack: false, ..Peer::new() }, Peer::plain(), Peer::v6()] {
            let mut host = Host::new();
            host.engine.listen(peer.there, with(dscp)).unwrap();
            let answer = host.answers(&peer.syn());
            assert!(answer[0].is(SYN | ACK));
            assert_all_have(&answer, dscp);
            // The SYN comes again, and so does its answer.
            assert_all_have(&host.answers(&peer.syn()), dscp);

            let mut host = Host::new();
            let (id, mut peer) = host.accept_with(peer, with(dscp));
            host.engine.send(id, &[1; 5000]);
            let sent = host.sent();
            assert_all_have(&sent, dscp);
            // Again, after a timeout.
            assert_all_have(&[host.wait_millis(2000).remove(0).1], dscp);
            peer.heard_all(&sent);
            host.give(&[peer.acks()]);
            // Out of order and in order.
            assert_all_have(&host.answers(&peer.data_at(10, b"second....")), dscp);
            assert_all_have(&host.answers(&peer.data(b"first.....")), dscp);
            peer.seq = peer.seq.wrapping_add(10);
            host.read(id);
            host.engine.send(id, b"one segment");
            let sent = host.sent();
            assert_all_have(&sent, dscp);
            peer.heard_all(&sent);
            host.give(&[peer.acks()]);
            host.engine.close(id);
            let fin = host.sent_one();
            assert!(fin.is(FIN));
            assert_all_have(std::slice::from_ref(&fin), dscp);
            peer.heard(&fin);
            let last = host.answers(&peer.fin());
            assert!(last[0].is(ACK) && last[0].ack == peer.seq);
            assert_all_have(&last, dscp);
        }
    }
}

#[test]
fn of_one_that_we_open_too() {
    for dscp in FIELDS {
        for peer in [Peer::new(), Peer::plain(), Peer::v6()] {
            let mut host = Host::new();
            host.engine.connect(peer.here, with(dscp)).unwrap();
            let sent: Vec<_> = host.wait_millis(4000).into_iter().map(|(_, syn)| syn).collect();
            assert!(sent.len() > 1 && sent.iter().all(|syn| syn.is(SYN)));
            assert_all_have(&sent, dscp);

            let mut host = Host::new();
            let (id, _) = host.call_with(peer, with(dscp));
            host.engine.send(id, b"one segment");
            assert_all_have(&host.sent(), dscp);
            host.engine.abort(id);
            let reset = host.sent();
            assert!(reset[0].is(RST));
            assert_all_have(&reset, dscp);
        }
    }
}

#[test]
fn it_can_be_changed_and_is_that_of_one_connection() {
    let mut host = Host::new();
    let (one, _) = host.accept_with(Peer::new(), with(0));
    let (other, _) = host.accept(Peer::new().port(5001));
    for dscp in [46, 0, 10] {
        host.engine.set_dscp(one, dscp);
        host.engine.send(one, b"x");
        assert_all_have(&host.sent(), dscp);
    }
    host.engine.send(other, b"x");
    assert_all_have(&host.sent(), 0);
    // Only the lower six bits count.
    host.engine.set_dscp(other, 64 + 5);
    host.engine.send(other, b"x");
    assert_all_have(&host.sent(), 5);
}

#[test]
fn it_can_be_changed_while_the_connection_opens() {
    let mut host = Host::new();
    let mut peer = Peer::new();
    let id = host.engine.connect(peer.here, with(46)).unwrap();
    host.engine.set_dscp(id, 10);
    let syn = host.sent_one();
    assert_all_have(std::slice::from_ref(&syn), 10);
    peer.there = syn.from;
    peer.heard(&syn);
    assert_all_have(&host.answers(&peer.syn_ack()), 10);
    host.engine.send(id, b"x");
    assert_all_have(&host.sent(), 10);
}

#[test]
fn keep_alive_probes_have_it() {
    let mut host = Host::new();
    host.accept_with(Peer::new(), ConnectOptions { keep_alive: true, ..with(46) });
    let probes = host.wait(Duration::from_secs(7300));
    assert_all_have(&[probes[0].1.clone()], 46);
}

#[test]
fn marks_of_congestion_are_apart_from_it() {
    let mut settings = settings();
    settings.ecn = Ecn::Accept;
    let mut host = Host::with(settings, small_limits());
    let peer = Peer::new();
    host.engine.listen(peer.there, with(46)).unwrap();
    let mut syn = peer.syn();
    syn.bits = SYN | ECE | CWR;
    let answer = host.answers(&syn).remove(0);
    assert!(answer.is(SYN | ACK | ECE));
    assert_eq!(answer.traffic_class, 46 << 2);
    let mut peer = peer;
    peer.heard(&answer);
    peer.seq = peer.seq.wrapping_add(1);
    host.give(&[peer.segment(ACK)]);
    let id = host.news()[0].0;
    host.engine.send(id, b"data");
    assert_eq!(host.sent_one().traffic_class, 46 << 2 | 2, "ECT(0), RFC 3168");
}
