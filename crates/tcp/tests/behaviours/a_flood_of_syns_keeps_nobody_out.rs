//! SYNs from peers that never answer: half-open connections are bounded, cookies serve the honest (RFC 4987).

use std::time::Duration;

use anywire_tcp::{Events, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::random::Random;
use crate::common::wire::{ACK, RST, SYN, Segment};

fn flooded() -> Host {
    let mut limits = small_limits();
    limits.half_open = 8;
    limits.replies = 16;
    let mut host = Host::with(settings(), limits);
    let peer = Peer::new();
    host.engine.listen(peer.there, Default::default()).unwrap();
    for port in 0..1000 {
        host.give(&[peer.clone().port(10_000 + port).syn()]);
        host.sent();
    }
    assert_eq!((host.engine.half_open(), host.engine.connections()), (8, 0));
    assert_eq!(host.engine.counters().cookies_sent, 992);
    host
}

#[test]
fn an_honest_peer_is_served_and_keeps_its_options() {
    for peer in [
        Peer { scale: Some(7), ..Peer::new() },
        Peer::plain(),
        Peer { sack: false, ..Peer::new() },
        Peer::v6(),
    ] {
        let mut host = flooded();
        let v6 = peer.here.is_ipv6();
        let _ = v6.then(|| host.engine.listen(peer.there, Default::default()).unwrap());
        let mut peer = peer;
        let answer = host.answers(&peer.syn()).remove(0);
        assert_eq!(answer.bits, SYN | ACK);
        assert_eq!(answer.scale.is_some(), peer.scale.is_some());
        assert_eq!(answer.sack_permitted, peer.sack);
        peer.heard(&answer);
        peer.seq += 1;
        host.wait_millis(100);
        let id = {
            host.give(&[peer.data(b"hello")]);
            let news = host.news();
            assert!(news.iter().any(|(_, events)| events.has(Events::INCOMING)), "{news:?}");
            news[0].0
        };
        assert_eq!((host.engine.status(id), host.engine.counters().cookies_accepted), (Status::Open, 1));
        assert_eq!(host.read(id), b"hello");
        // The window is scaled as it was agreed.
        peer.window = 40;
        host.give(&[peer.acks()]);
        host.engine.send(id, &[1; 4000]);
        let sent = host.sent();
        let wanted = if peer.scale == Some(7) { 1200 } else { 40 };
        let bytes: usize = sent.iter().map(|segment| segment.payload.len()).sum();
        assert!(
            bytes <= 40 << peer.scale.unwrap_or(0) && (bytes >= wanted.min(1200) || bytes == 0),
            "{bytes}"
        );
    }
}

#[test]
fn a_guess_is_no_cookie_and_an_old_one_neither() {
    let mut host = flooded();
    let mut peer = Peer::plain();
    let answer = host.answers(&peer.syn()).remove(0);
    peer.heard(&answer);
    peer.seq += 1;
    let mut random = Random::new(5);
    for _ in 0..1000 {
        let guess = Segment { ack: random.next() as u32, ..peer.acks() };
        assert_eq!(host.answers(&guess)[0].bits, RST);
    }
    // Another's, or for another number of the peer.
    assert_eq!(host.answers(&peer.clone().port(5001).acks())[0].bits, RST);
    assert_eq!(host.answers(&Segment { seq: peer.seq + 1, ..peer.acks() })[0].bits, RST);
    host.wait(Duration::from_secs(130));
    assert_eq!(host.answers(&peer.acks())[0].bits, RST);
    assert_eq!(host.engine.connections(), 0);
}

#[test]
fn the_flood_passes_and_leaves_nothing() {
    let mut host = flooded();
    host.wait(Duration::from_secs(70));
    assert_eq!(host.engine.half_open(), 0);
    host.accept(Peer::new());
    assert_eq!(host.engine.counters().cookies_accepted, 0, "no cookie was needed");
}

#[test]
fn answers_are_bounded_while_nothing_leaves() {
    let mut limits = small_limits();
    limits.replies = 16;
    let mut host = Host::with(settings(), limits);
    let peer = Peer::new();
    host.engine.listen(peer.there, Default::default()).unwrap();
    for port in 0..200 {
        host.give(&[peer.clone().port(10_000 + port).syn()]);
    }
    assert_eq!(host.sent().len(), 16);
    assert!(host.engine.counters().replies_dropped > 0);
    // The timer sends the SYN-ACKs that were dropped.
    assert!(!host.wait_millis(1500).is_empty());
}

#[test]
fn handshakes_that_are_over_take_no_room_from_those_to_come() {
    let mut host = Host::new();
    // More in a moment than there is room for timers.
    for port in 0..5000 {
        let (id, _) = host.accept(Peer::new().port(10_000 + port));
        host.engine.abort(id);
        host.sent();
    }
    assert_eq!(host.engine.counters().refused_by_limit, 0);
    // Who is slow is still asked again.
    host.give(&[Peer::new().syn()]);
    assert!(host.sent_one().is(SYN | ACK));
    let again = host.wait_millis(1100);
    assert!(matches!(&again[..], [(_, answer)] if answer.is(SYN | ACK)), "{again:?}");
}
