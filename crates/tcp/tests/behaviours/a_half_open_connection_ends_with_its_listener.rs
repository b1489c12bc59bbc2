//! A half-open connection ends with its listener: what comes for it later meets whatever listens there then, its SYN-ACK is not
//! sent again, and no id of a listener is that of a later one.
//! RFC 9293 3.10.4 (CLOSE deletes the TCB of LISTEN), 3.10.7.1 (no such connection: a reset).

use std::net::SocketAddr;

use anywire_tcp::{ConnectOptions, Events, ListenerId};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, RST, SYN, Segment};

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(Peer::new().there.ip(), port)
}

fn listen(host: &mut Host, address: SocketAddr) -> ListenerId {
    host.engine.listen(address, ConnectOptions::default()).expect("a free port")
}

/// A peer whose SYN was answered, on port 80.
fn half_open(host: &mut Host, mut peer: Peer) -> Peer {
    host.give(&[peer.syn()]);
    let answer = host.sent_one();
    assert!(answer.is(SYN | ACK));
    peer.heard(&answer);
    peer.seq = peer.seq.wrapping_add(1);
    peer
}

/// What comes after a listener has ended.
#[derive(Debug, Clone, Copy)]
enum Later {
    Nothing,
    AnotherPort,
    AnotherAddress,
    ThePortAgain,
    AllAddresses,
}

/// What the peer sends then.
fn segments(peer: &Peer) -> [(&'static str, Segment); 3] {
    [
        ("the ACK", peer.segment(ACK)),
        ("data", peer.clone().data(b"hello")),
        ("the SYN again", Peer { seq: peer.seq.wrapping_sub(1), ..peer.clone() }.syn()),
    ]
}

#[test]
fn what_comes_later_meets_what_listens_then() {
    use Later::{AllAddresses, AnotherAddress, AnotherPort, Nothing, ThePortAgain};
    for later in [Nothing, AnotherPort, AnotherAddress, ThePortAgain, AllAddresses] {
        for number in 0..3 {
            for v6 in [false, true] {
                let mut host = Host::new();
                let peer = if v6 { Peer::v6() } else { Peer::new() };
                let there = peer.there;
                let other: SocketAddr = "10.0.0.77:80".parse().expect("an address");
                host.engine.add_address(other.ip()).expect("room");
                let listener = listen(&mut host, there);
                let peer = half_open(&mut host, peer);
                host.engine.stop_listening(listener);
                let options = ConnectOptions { keep_alive: true, dscp: 46, ..ConnectOptions::default() };
                let (new, listens_again) = match later {
                    Nothing => (None, false),
                    AnotherPort => (Some(SocketAddr::new(there.ip(), 81)), false),
                    AnotherAddress => (Some(other), false),
                    ThePortAgain => (Some(there), true),
                    AllAddresses => (Some("0.0.0.0:80".parse().expect("an address")), true),
                };
                let new = new.map(|new| host.engine.listen(new, options).expect("a free port"));
                let (what, segment) = segments(&peer)[number].clone();
                let answers = host.answers(&segment);
                let case = format!("{what} after {later:?}, IPv6: {v6}: {answers:?}");
                assert_ne!(new, Some(listener), "{case}");
                assert!(!host.news().iter().any(|(_, events)| events.has(Events::INCOMING)), "{case}");
                assert_eq!(answers.len(), 1, "{case}");
                if segment.is(SYN) && listens_again {
                    assert!(answers[0].is(SYN | ACK) && answers[0].traffic_class >> 2 == 46, "{case}");
                    assert_eq!(host.engine.half_open(), 1, "{case}");
                } else {
                    assert!(answers[0].is(RST), "{case}");
                    assert_eq!(host.engine.half_open(), 0, "{case}");
                }
            }
        }
    }
}

#[test]
fn its_syn_ack_is_not_sent_again_and_its_peer_hears_a_reset() {
    for timestamps in [true, false] {
        let mut host = Host::new();
        let listener = listen(&mut host, at(80));
        let peer = half_open(&mut host, if timestamps { Peer::new() } else { Peer::plain() });
        host.engine.stop_listening(listener);
        let sent = host.wait_millis(70_000);
        let [(_, reset)] = &sent[..] else { panic!("one segment, not {sent:?}") };
        // A peer believes it, be the handshake over for it or not (RFC 9293 3.10.7.3, 3.10.7.4).
        assert_eq!((reset.bits, reset.seq, reset.ack), (RST | ACK, peer.ack, peer.seq));
        assert_eq!((host.engine.half_open(), host.engine.counters().retransmits), (0, 0));
    }
}

/// More resets than there is room for: the others follow.
#[test]
fn all_peers_hear_a_reset() {
    let mut limits = small_limits();
    (limits.half_open, limits.replies) = (1000, 10);
    let mut host = Host::with(settings(), limits);
    let listener = listen(&mut host, at(80));
    for port in 0..100 {
        half_open(&mut host, Peer::new().port(5000 + port));
    }
    host.engine.stop_listening(listener);
    let sent = host.wait_millis(70_000);
    let told = sent.iter().filter(|(_, segment)| segment.is(RST)).count();
    assert_eq!((told, sent.len(), host.engine.half_open()), (100, 100, 0));
}

#[test]
fn an_old_id_of_a_listener_stops_no_other_one() {
    let mut host = Host::new();
    let mut old = Vec::new();
    for _ in 0..3 {
        for port in 80..90 {
            old.push(listen(&mut host, at(port)));
        }
        for id in &old {
            host.engine.stop_listening(*id);
        }
    }
    let new: Vec<_> = (80..90).map(|port| listen(&mut host, at(port))).collect();
    assert!(new.iter().all(|id| !old.contains(id)));
    for id in &old {
        host.engine.stop_listening(*id);
    }
    for port in 80..90 {
        let peer = Peer { there: at(port), ..Peer::new().port(port) };
        assert!(
            host.answers(&peer.syn())[0].is(SYN | ACK),
            "port {port} was listened on until an old id was given"
        );
    }
    host.engine.stop_listening_anywhere();
    for port in 80..90 {
        let peer = Peer { there: at(port), ..Peer::new().port(port + 1000) };
        assert!(host.answers(&peer.syn())[0].is(RST), "port {port}");
    }
}
