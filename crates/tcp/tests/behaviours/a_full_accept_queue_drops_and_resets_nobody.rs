//! As many connections wait to be accepted as the backlog says, and one more: then SYNs and the ACKs that end a handshake are dropped
//! and counted, and nobody is reset. listen(2); `sk_acceptq_is_full` of Linux.

use std::net::SocketAddr;

use anywire_tcp::{ConnId, ConnectOptions, Events, ListenerId};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, RST, SYN};

fn listening(host: &mut Host, backlog: usize) -> ListenerId {
    let listener = host.engine.listen(Peer::new().there, ConnectOptions::default()).expect("a free port");
    host.engine.set_backlog(listener, backlog);
    listener
}

fn peer(number: u16) -> Peer {
    Peer::new().port(20_000 + number)
}

/// A peer whose SYN was answered, and which has not answered that.
fn half_open(host: &mut Host, number: u16) -> Peer {
    let mut peer = peer(number);
    let answer = host.answers(&peer.syn()).pop().expect("there is room");
    assert!(answer.is(SYN | ACK));
    peer.heard(&answer);
    peer.seq = peer.seq.wrapping_add(1);
    peer
}

fn incoming(host: &mut Host) -> Vec<ConnId> {
    host.news().into_iter().filter(|(_, events)| events.has(Events::INCOMING)).map(|(id, _)| id).collect()
}

#[test]
fn one_more_than_the_backlog_waits() {
    for backlog in [0, 1, 5] {
        let mut host = Host::new();
        listening(&mut host, backlog);
        let mut waiting = Vec::new();
        for number in 0..=backlog as u16 {
            let peer = half_open(&mut host, number);
            host.give(&[peer.acks()]);
            waiting.extend(incoming(&mut host));
        }
        assert_eq!((waiting.len(), host.engine.counters().listen_overflows), (backlog + 1, 0));
        // A SYN is dropped without a word.
        assert_eq!(host.answers(&peer(100).syn()), []);
        assert_eq!(host.engine.counters().listen_overflows, 1);
        // Each that is accepted makes room for one.
        for (number, id) in waiting.into_iter().enumerate() {
            host.engine.accept(id);
            let peer = half_open(&mut host, 100 + number as u16);
            host.give(&[peer.acks()]);
            assert_eq!(incoming(&mut host).len(), 1);
            assert_eq!(host.answers(&self::peer(200).syn()), []);
        }
        assert_eq!(host.engine.counters().resets_sent, 0);
    }
}

/// A listener for one address takes the place of the one for any while connections wait.
#[test]
fn what_waited_before_another_listener_came_makes_room_where_it_came() {
    let mut host = Host::new();
    let any = SocketAddr::new([0, 0, 0, 0].into(), Peer::new().there.port());
    let listener = host.engine.listen(any, ConnectOptions::default()).expect("a free port");
    host.engine.set_backlog(listener, 1);
    let mut waiting = Vec::new();
    for number in 0..2 {
        let peer = half_open(&mut host, number);
        host.give(&[peer.acks()]);
        waiting.extend(incoming(&mut host));
    }
    let specific = listening(&mut host, 1);
    waiting.into_iter().for_each(|id| host.engine.accept(id));
    host.engine.stop_listening(specific);
    for number in 100..102 {
        let peer = half_open(&mut host, number);
        host.give(&[peer.acks()]);
        assert_eq!(incoming(&mut host).len(), 1);
    }
    assert_eq!(host.engine.counters().listen_overflows, 0);
}

/// The peer takes the connection for open, and sends. What it sends comes again, and opens it once there is room.
#[test]
fn the_end_of_a_handshake_waits_for_room() {
    let mut host = Host::new();
    listening(&mut host, 0);
    let (first, mut late) = (half_open(&mut host, 0), half_open(&mut host, 1));
    host.give(&[first.acks()]);
    let waiting = incoming(&mut host);
    let hello = late.data(b"hello");
    for segment in [late.acks(), hello.clone()] {
        assert_eq!(host.answers(&segment), []);
    }
    assert_eq!((incoming(&mut host).len(), host.engine.counters().listen_overflows), (0, 2));
    // Meanwhile the SYN-ACK is sent again, by which the peer knows that it is not forgotten.
    let again = host.wait_millis(1500);
    assert!(
        again.iter().any(|(_, segment)| segment.is(SYN | ACK))
            && again.iter().all(|(_, segment)| !segment.is(RST))
    );
    host.engine.accept(waiting[0]);
    host.give(&[hello]);
    let opened = incoming(&mut host);
    assert_eq!(host.read(opened[0]), b"hello");
    assert_eq!(host.engine.counters().resets_sent, 0);
}

/// A SYN that is dropped opens nothing, so nothing gives way to it: it may be forged.
#[test]
fn a_connection_in_time_wait_stays() {
    for is_held in [false, true] {
        let mut host = Host::new();
        listening(&mut host, 0);
        let mut closing = half_open(&mut host, 0);
        host.give(&[closing.acks()]);
        let closed = incoming(&mut host)[0];
        host.engine.accept(closed);
        host.engine.shutdown(closed);
        closing.heard_all(&host.sent());
        host.answers(&closing.fin());
        if !is_held {
            host.engine.close(closed);
        }
        let waits = half_open(&mut host, 1);
        host.give(&[waits.acks()]);
        let waiting = incoming(&mut host);
        let there = |host: &Host| (host.engine.connections(), host.engine.in_time_wait());
        let before = there(&host);
        closing.later(1000);
        assert_eq!(host.answers(&closing.syn()), []);
        assert_eq!((there(&host), host.engine.counters().listen_overflows), (before, 1), "held: {is_held}");
        host.engine.accept(waiting[0]);
        assert!(host.answers(&closing.syn())[0].is(SYN | ACK), "there is room");
        assert_eq!(host.engine.counters().time_wait_reused, 1);
    }
}

#[test]
fn a_cookie_waits_for_room() {
    let mut limits = small_limits();
    limits.half_open = 1;
    let mut host = Host::with(settings(), limits);
    listening(&mut host, 0);
    // The place of the one half-open connection is taken, so that these get cookies.
    half_open(&mut host, 9);
    let (first, late) = (half_open(&mut host, 0), half_open(&mut host, 1));
    assert_eq!(host.engine.counters().cookies_sent, 2);
    host.give(&[first.acks()]);
    let waiting = incoming(&mut host);
    assert_eq!(host.answers(&late.acks()), []);
    assert_eq!((incoming(&mut host).len(), host.engine.counters().listen_overflows), (0, 1));
    host.engine.accept(waiting[0]);
    host.give(&[late.acks()]);
    assert_eq!((incoming(&mut host).len(), host.engine.counters().resets_sent), (1, 0));
}

#[test]
fn listeners_have_queues_of_their_own_and_none_without_a_backlog() {
    let mut host = Host::new();
    let listener = listening(&mut host, 0);
    let first = half_open(&mut host, 0);
    host.give(&[first.acks()]);
    let there = Peer::v6().there;
    host.engine.listen(there, ConnectOptions::default()).expect("a free port");
    for number in 0..50 {
        let mut peer = Peer::v6().port(20_000 + number);
        let answer = host.answers(&peer.syn()).pop().expect("there is no limit");
        peer.heard(&answer);
        peer.seq = peer.seq.wrapping_add(1);
        host.give(&[peer.acks()]);
    }
    assert_eq!((incoming(&mut host).len(), host.engine.counters().listen_overflows), (51, 0));
    // One that comes after it begins anew.
    host.engine.stop_listening(listener);
    listening(&mut host, 0);
    let next = half_open(&mut host, 2);
    host.give(&[next.acks()]);
    assert_eq!(incoming(&mut host).len(), 1);
}
