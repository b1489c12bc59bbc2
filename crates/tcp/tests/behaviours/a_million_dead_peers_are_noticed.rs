//! Keep-alive of a population: all peers vanish at once, and within the set time all of their connections are gone, each after all
//! of its probes. A hundred thousand here.

use std::time::Duration;

use anywire_tcp::{ConnectOptions, End, Frames, Instant, KeepAlive, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::ACK;

const PEERS: usize = 100_000;
const PROBES: u8 = 3;

#[test]
fn every_dead_peer_is_given_up_within_the_set_time_and_none_sooner() {
    let mut limits = small_limits();
    limits.connections = PEERS;
    limits.half_open = 1024;
    let mut host = Host::with(settings(), limits);
    host.engine.listen("0.0.0.0:80".parse().unwrap(), ConnectOptions::default()).unwrap();
    let keep_alive =
        KeepAlive { idle: Duration::from_secs(60), interval: Duration::from_secs(10), probes: PROBES };
    // Half of them have timestamps, and half have sent something.
    let mut ids = Vec::with_capacity(PEERS);
    let peer_of = |number: usize| {
        let mut peer = if number.is_multiple_of(2) { Peer::new() } else { Peer::plain() };
        let address = [10, 1 + (number / 50_000) as u8, 0, 2];
        peer.here = (address, 1 + (number % 50_000) as u16).into();
        peer
    };
    for first in (0..PEERS).step_by(32) {
        let mut peers: Vec<_> = (first..PEERS.min(first + 32)).map(peer_of).collect();
        let syns: Vec<_> = peers.iter().map(Peer::syn).collect();
        host.give(&syns);
        for (peer, answer) in peers.iter_mut().zip(host.sent()) {
            assert_eq!(answer.to, peer.here);
            peer.heard(&answer);
            peer.seq = peer.seq.wrapping_add(1);
        }
        let firsts: Vec<_> = peers
            .iter_mut()
            .enumerate()
            .map(|(place, peer)| if place % 4 < 2 { peer.data(b"hello") } else { peer.segment(ACK) })
            .collect();
        host.give(&firsts);
        for (id, _) in host.news() {
            host.read(id);
            host.engine.set_keep_alive(id, Some(keep_alive));
            ids.push(id);
        }
        host.sent();
    }
    assert_eq!(ids.len(), PEERS);
    // The last of the delayed ACKs.
    host.wait(Duration::from_secs(1));
    let start = host.now;
    assert_eq!(run(&mut host, Duration::from_secs(58)), 0);
    let probes = run(&mut host, Duration::from_secs(29));
    assert_eq!(probes, PEERS * usize::from(PROBES), "each peer had its chances");
    assert!(ids.iter().all(|id| host.engine.status(*id) == Status::Open));
    // They ask again within a second, however many there are at once.
    assert_eq!(run(&mut host, Duration::from_secs(4)), 0);
    assert!(host.now.since(start) <= Duration::from_secs(91));
    assert!(ids.iter().all(|id| host.engine.status(*id) == Status::Ended(End::TimedOut)));
    assert_eq!(host.engine.counters().replies_dropped, 0);
    assert_eq!(host.engine.counters().timed_out, PEERS as u64);
    let counted = host.engine.memory().others;
    assert!(counted < 40 << 20, "{counted} bytes beside the TCBs");
}

/// Time passes; gives how many frames left.
fn run(host: &mut Host, duration: Duration) -> usize {
    let (end, mut sent, mut frames) = (host.now + duration, 0, Frames::new());
    loop {
        host.engine.advance(host.now);
        frames.clear();
        host.engine.transmit(host.now, &mut frames);
        sent += frames.len();
        let next: Option<Instant> = host.engine.next_deadline().filter(|next| *next < end);
        let Some(next) = next else { break };
        host.now = next.max(host.now);
    }
    host.now = end;
    sent
}
