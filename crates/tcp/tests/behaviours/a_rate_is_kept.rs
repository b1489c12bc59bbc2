//! A connection with a rate of its own sends no faster, and the others are not held back by it.

use std::num::NonZeroU32;
use std::time::Duration;

use anywire_tcp::{
    ConnId, ConnectOptions, End, Engine, Events, Frames, Instant, Limits, Mac, Route, Settings, Status, Via,
};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::RST;

#[test]
fn a_rate_is_kept_and_others_go_on() {
    let (mut client, mut server) = (engine("10.0.0.1", 1, 2), engine("10.0.0.2", 2, 1));
    server.listen("10.0.0.2:80".parse().expect("an address"), ConnectOptions::default()).expect("a listener");
    let mut connect =
        || client.connect("10.0.0.2:80".parse().expect("an address"), ConnectOptions::default());
    let (slow, fast) = (connect().expect("a connection"), connect().expect("a connection"));
    assert!(client.set_rate(slow, NonZeroU32::new(1_000_000)));
    let mut received = [0_usize; 2];
    let mut sides: Vec<ConnId> = Vec::new();
    let mut frames = Frames::new();
    // A second, in steps of a millisecond.
    for step in 0..1000 {
        let now = Instant::from_micros(step * 1000);
        for id in [slow, fast] {
            let room = client.send_room(id);
            client.send(id, &vec![7; room]);
        }
        client.advance(now);
        client.transmit(now, &mut frames);
        server.receive(now, &mut frames);
        while let Some(news) = server.next_ready() {
            if news.events.has(Events::INCOMING) {
                sides.push(news.id);
            }
            let side = sides.iter().position(|id| *id == news.id).expect("it came in");
            while server.recv(news.id, |bytes| {
                received[side] += bytes.len();
                bytes.len()
            }) > 0
            {}
        }
        server.advance(now);
        server.transmit(now, &mut frames);
        client.receive(now, &mut frames);
        while client.next_ready().is_some() {}
    }
    let [slow_bytes, fast_bytes] = received;
    assert!((950_000..=1_010_000).contains(&slow_bytes), "{slow_bytes} bytes in a second at 1 MB/s");
    assert!(fast_bytes > 20 * slow_bytes, "the other one sent {fast_bytes}");
}

/// A connection that has ended takes no memory for a rate, so that closing it gives back all that it had.
#[test]
fn a_connection_that_has_ended_has_no_rate() {
    let mut limits = small_limits();
    limits.extensions = 1;
    let mut host = Host::with(settings(), limits);
    let (ended, peer) = host.accept(Peer::new());
    host.give(&[peer.segment(RST)]);
    assert!(!host.engine.set_rate(ended, NonZeroU32::new(1000)));
    host.engine.close(ended);
    let (open, _) = host.accept(Peer::new().port(5001));
    assert!(host.engine.set_rate(open, NonZeroU32::new(1000)));
}

fn engine(address: &str, own: u8, peer: u8) -> Engine {
    let mut engine =
        Engine::new(Settings::new([1, 2, 3, u64::from(own)]), Limits::default()).expect("address space");
    engine.add_address(address.parse().expect("an address")).expect("room");
    let mac = |last| Mac::new([2, 0, 0, 0, 0, last]);
    engine.set_mac(mac(own));
    let network = "10.0.0.0/8".parse().expect("a network");
    engine.add_route(Route { network, via: Via::OnLink, mtu: 1500, source: None }).expect("a route");
    engine.add_neighbour([10, 0, 0, peer].into(), mac(peer)).expect("room");
    engine
}

/// A look at what was just sent is left to the wheel, where keep-alive has a later place: but not if a rate is to be kept.
#[test]
fn a_rate_is_kept_with_keep_alive_too() {
    let mut host = Host::new();
    let keep = ConnectOptions { keep_alive: true, ..ConnectOptions::default() };
    let (id, mut peer) = host.accept_with(Peer::new(), keep);
    assert!(host.engine.set_rate(id, NonZeroU32::new(10_000)));
    // Five seconds' worth.
    assert_eq!(host.engine.send(id, &[7; 50_000]), 50_000);
    let mut bytes = 0;
    for _ in 0..600 {
        for (_, segment) in host.wait_millis(10) {
            bytes += segment.payload.len();
            peer.heard(&segment);
            host.give(&[peer.acks()]);
        }
    }
    assert_eq!(bytes, 50_000);
}

/// RFC 6298 is about silence after a segment has left. What waits for its rate has not.
#[test]
fn what_waits_for_its_rate_is_not_given_up() {
    for is_heard in [true, false] {
        let mut host = Host::with(settings(), small_limits());
        let (id, mut peer) = host.accept(Peer::new());
        assert!(host.engine.set_rate(id, NonZeroU32::new(200)));
        host.engine.set_user_timeout(id, Duration::from_secs(5));
        host.engine.send(id, &[1; 3 * 1448]);
        let lost = host.sent_one();
        let mut arrived = 0;
        for _ in 0..600 {
            for (_, segment) in host.wait_millis(100) {
                assert_eq!(segment.payload.len(), 1448);
                if is_heard && arrived == 0 {
                    assert_eq!(segment.seq, lost.seq, "the timer has not waited for the others");
                }
                if is_heard && segment.seq == peer.ack {
                    arrived += 1;
                    peer.heard(&segment);
                    host.give(&[peer.acks()]);
                }
            }
            peer.later(100);
        }
        let end = if is_heard { Status::Open } else { Status::Ended(End::TimedOut) };
        assert_eq!((host.engine.status(id), arrived), (end, if is_heard { 3 } else { 0 }));
    }
}
