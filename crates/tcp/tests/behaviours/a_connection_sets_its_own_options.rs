//! Options that a single open connection sets (RFC 9293 3.9.1) without effect on others: Nagle's algorithm, a user timeout,
//! the size of its segments.

use std::time::Duration;

use anywire_tcp::{ConnectOptions, End, Status};

use crate::common::host::{Host, Peer, settings, small_limits};

#[test]
fn nagle_is_switched_off_and_on_again() {
    let mut settings = settings();
    for predicts in [true, false] {
        settings.predicts = predicts;
        nagle_is_switched(Host::with(settings.clone(), small_limits()));
    }
}

fn nagle_is_switched(mut host: Host) {
    let (id, mut peer) = host.accept(Peer::new());
    let (other, _) = host.accept(Peer::new().port(5001));
    for id in [id, other] {
        host.engine.send(id, b"first");
        let first = host.sent_one();
        if first.to == peer.here {
            peer.heard(&first);
        }
        host.engine.send(id, b"waits");
        assert_eq!(host.sent(), []);
    }
    // What waited leaves at once, and only here.
    host.engine.set_no_nagle(id, true);
    let waited = host.sent_one();
    assert_eq!((waited.to, &waited.payload[..]), (peer.here, &b"waits"[..]));
    peer.heard(&waited);
    host.engine.send(id, b"at once");
    let next = host.sent_one();
    assert_eq!(next.payload, b"at once");
    peer.heard(&next);
    host.engine.send(other, b"!");
    assert_eq!(host.sent(), []);

    host.engine.set_no_nagle(id, false);
    host.engine.send(id, b"waits again");
    assert_eq!(host.sent(), []);
    assert_eq!(host.answers(&peer.acks())[0].payload, b"waits again");
}

#[test]
fn nagle_that_was_off_from_the_start_is_switched_on() {
    let mut host = Host::new();
    let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
    let (id, _) = host.call_with(Peer::new(), options);
    host.engine.set_no_nagle(id, false);
    host.engine.send(id, b"first");
    assert_eq!(host.sent_one().payload, b"first");
    host.engine.send(id, b"waits");
    assert_eq!(host.sent(), []);
}

#[test]
fn a_user_timeout_is_that_of_one_connection() {
    let mut host = Host::new();
    let ids = [5000, 5001, 5002].map(|port| host.accept(Peer::new().port(port)).0);
    let [short, usual, again] = ids;
    host.engine.set_user_timeout(short, Duration::from_secs(7));
    host.engine.set_user_timeout(again, Duration::from_secs(7));
    host.engine.set_user_timeout(again, Duration::ZERO);
    for id in ids {
        host.engine.send(id, b"unanswered");
    }
    let statuses = |host: &Host| ids.map(|id| host.engine.status(id));
    host.wait(Duration::from_secs(6));
    assert_eq!(statuses(&host), [Status::Open; 3]);
    host.wait(Duration::from_secs(2));
    assert_eq!(statuses(&host), [Status::Ended(End::TimedOut), Status::Open, Status::Open]);
    // That of the settings: three minutes.
    host.wait(Duration::from_secs(170));
    assert_eq!([usual, again].map(|id| host.engine.status(id)), [Status::Open; 2]);
    host.wait(Duration::from_secs(5));
    assert_eq!([usual, again].map(|id| host.engine.status(id)), [Status::Ended(End::TimedOut); 2]);
}

#[test]
fn a_user_timeout_may_be_longer_than_the_usual_one() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer::new());
    host.engine.set_user_timeout(id, Duration::from_secs(600));
    host.engine.send(id, b"unanswered");
    host.wait(Duration::from_secs(590));
    assert_eq!(host.engine.status(id), Status::Open);
    host.wait(Duration::from_secs(20));
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
}

#[test]
fn segments_are_as_large_as_is_said() {
    let peers = [
        (Peer::new(), 1500, 1448),
        (Peer::plain(), 1500, 1460),
        (Peer { mss: Some(700), ..Peer::new() }, 1500, 688),
        (Peer::new(), 900, 848),
    ];
    for (peer, mtu, bytes) in peers {
        let mut host = Host::with_mtu(settings(), small_limits(), mtu);
        let (id, peer) = host.accept(peer);
        assert_eq!(host.engine.segment_bytes(id), bytes, "{peer:?}");
        host.engine.send(id, &[7; 5000]);
        let longest = host.sent().iter().map(|segment| segment.payload.len()).max();
        assert_eq!(longest, Some(bytes), "{peer:?}");
    }
}
