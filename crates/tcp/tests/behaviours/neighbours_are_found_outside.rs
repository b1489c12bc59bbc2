//! Who a neighbour is, the layer below finds out (ARP, RFC 4861). Until then its frames say whom they wait for, afterwards a segment
//! asks nobody; and what is no TCP is left to that layer.

use std::net::IpAddr;

use anywire_tcp::{
    ConnectOptions, Counters, End, Engine, Events, Limits, Mac, Route, RouteError, Status, Via,
};

use crate::common::host::{HERE, HERE_V6, Host, Peer, THERE, settings, small_limits};
use crate::common::wire::{ACK, SYN, Segment, ip_frame, sum};

const OURS: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
const PEER: Mac = Mac::new([2, 0, 0, 0, 0, 2]);
const ROUTER: Mac = Mac::new([2, 0, 0, 0, 0, 9]);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A host on 10.0.0.0/8, with a gateway to all else, that knows no neighbour.
fn host(limits: Limits) -> Host {
    let mut engine = Engine::new(settings(), limits).expect("address space");
    engine.set_mac(OURS);
    for address in [HERE, HERE_V6] {
        engine.add_address(ip(address)).expect("room");
    }
    for (network, via) in
        [("10.0.0.0/8", Via::OnLink), ("fd00::/64", Via::OnLink), ("0.0.0.0/0", Via::Gateway(ip("10.0.0.9")))]
    {
        let network = network.parse().expect("a network");
        engine.add_route(Route { network, via, mtu: 1500, source: None }).expect("room");
    }
    Host::of(engine)
}

fn from(address: &str) -> Peer {
    Peer { here: (ip(address), 5000).into(), ..Peer::new() }
}

#[test]
fn frames_say_whom_they_wait_for() {
    for (remote, neighbour, mac) in
        [(THERE, THERE, PEER), ("192.0.2.7", "10.0.0.9", ROUTER), ("fd00::2", "fd00::2", PEER)]
    {
        let mut host = host(small_limits());
        assert!(!host.engine.has_unresolved());
        let id = host.engine.connect((ip(remote), 80).into(), ConnectOptions::default()).expect("a way");
        let frames = host.frames();
        let [syn] = &frames[..] else { panic!("one frame, not {frames:?}") };
        assert_eq!((host.engine.unresolved(syn), host.engine.has_unresolved()), (Some(ip(neighbour)), true));
        assert!(syn[0] & 1 == 1 && syn[6..12] == OURS.bytes(), "it is nobody's: {:02x?}", &syn[..12]);

        host.engine.set_neighbour(ip(neighbour), Some(mac));
        assert!(!host.engine.has_unresolved() && host.engine.uses_neighbour(ip(neighbour)));
        let again = loop {
            host.now = host.engine.next_deadline().expect("the SYN is due again");
            let frames = host.frames();
            if !frames.is_empty() {
                break frames;
            }
        };
        assert_eq!((&again[0][..6], &again[0][12..20]), (&mac.bytes()[..], &syn[12..20]));
        assert_eq!(host.engine.unresolved(&again[0]), None);
        host.engine.abort(id);
        assert!(!host.engine.uses_neighbour(ip(neighbour)), "nothing is sent there any more");
    }
}

#[test]
fn an_open_connection_follows_its_neighbour_to_another_interface() {
    let mut host = host(small_limits());
    host.engine.set_neighbour(ip(THERE), Some(PEER));
    let peer = Peer::new();
    let options = ConnectOptions { no_nagle: true, ..ConnectOptions::default() };
    host.engine.listen(peer.there, options).expect("a listener");
    // Nothing is known of a neighbour that no connection has asked for.
    host.give(&[peer.syn()]);
    let answer = host.frames().remove(0);
    assert_eq!(host.engine.unresolved(&answer), Some(ip(THERE)));
    host.engine.set_neighbour(ip(THERE), Some(PEER));
    let (id, _) = host.accept(peer.port(5001));
    for mac in [PEER, ROUTER, PEER] {
        host.engine.send(id, b"text");
        host.engine.set_neighbour(ip(THERE), Some(mac));
        let frames = host.frames();
        assert!(!frames.is_empty() && frames.iter().all(|frame| frame[..6] == mac.bytes()));
    }
    host.engine.add_neighbour(ip(THERE), ROUTER).expect("room");
    host.engine.set_neighbour(ip(THERE), None);
    assert!(!host.engine.has_unresolved(), "what the user has set is not resolved");
}

#[test]
fn an_answer_that_waits_keeps_its_neighbour() {
    let mut limits = small_limits();
    limits.neighbours = 4;
    let mut host = host(limits);
    // Resets, whose senders nobody else holds; one number is the gateway's.
    let asks: Vec<_> = (20..30).map(|last| from(&format!("10.0.0.{last}")).segment(ACK)).collect();
    host.give(&asks);
    let frames = host.frames();
    let waiting: Vec<_> = frames.iter().map(|frame| host.engine.unresolved(frame)).collect();
    assert_eq!(waiting, ["10.0.0.20", "10.0.0.21", "10.0.0.22"].map(|address| Some(ip(address))));
    assert_eq!(host.engine.counters().neighbours_refused, 7);
    let to: Vec<_> =
        frames.iter().filter_map(|frame| Segment::of(frame)).map(|reset| reset.to.ip()).collect();
    assert_eq!(to, waiting.into_iter().flatten().collect::<Vec<_>>());
    // They have left, and others have their numbers.
    host.give(&asks[5..6]);
    let reset = host.frames().remove(0);
    assert_eq!(host.engine.unresolved(&reset), Some(ip("10.0.0.25")));
}

/// SYNs from a thousand forged addresses of the link, which take numbers as half-open connections.
#[test]
fn a_flood_of_neighbours_keeps_nobody_out() {
    let mut limits = small_limits();
    limits.neighbours = 32;
    let mut host = host(limits);
    let (id, mut early) = host.accept(Peer::new());
    for number in 0..1000 {
        host.give(&[from(&format!("10.1.{}.{}", number / 250, 1 + number % 250)).syn()]);
        assert_eq!(host.sent().len(), 1, "each has its answer");
    }
    let Counters { cookies_sent, neighbours_refused, .. } = *host.engine.counters();
    assert_eq!((host.engine.half_open() as u64 + cookies_sent, neighbours_refused), (1000, 0));
    assert!(host.engine.half_open() <= 24, "three quarters of the numbers");
    // A newcomer is served by a cookie, and who was there goes on.
    let mut late = from("10.7.0.1");
    let answer = host.answers(&late.syn()).remove(0);
    assert_eq!(answer.bits, SYN | ACK);
    late.heard(&answer);
    late.seq += 1;
    host.give(&[late.data(b"hello")]);
    assert_eq!(host.engine.counters().cookies_accepted, 1);
    host.give(&[early.data(b"still here")]);
    assert_eq!((host.read(id), host.engine.status(id)), (b"still here".to_vec(), Status::Open));
    // Numbers come back with their connections: all over again.
    host.wait_millis(200_000);
    assert_eq!(host.engine.half_open(), 0);
    host.give(&[from("10.8.0.1").syn()]);
    assert_eq!(host.engine.half_open(), 1);
}

#[test]
fn progress_is_what_a_peer_has_acknowledged() {
    let mut host = host(small_limits());
    let (id, mut peer) = host.accept(Peer::new());
    host.wait_millis(1000);
    host.engine.take_progress(ip(THERE));
    // Nothing comes back: no progress.
    host.engine.send(id, b"lost");
    peer.heard(&host.sent_one());
    host.wait_millis(100);
    assert!(!host.engine.take_progress(ip(THERE)));
    host.give(&[peer.acks()]);
    host.wait_millis(1000);
    host.engine.take_progress(ip(THERE));
    host.engine.send(id, b"heard");
    peer.heard(&host.sent_one());
    host.give(&[peer.acks()]);
    host.wait_millis(1000);
    assert!(host.engine.take_progress(ip(THERE)), "it was acknowledged");
    assert!(!host.engine.take_progress(ip(THERE)), "that is told once");
}

#[test]
fn a_frame_that_nobody_takes_ends_an_opening_and_nothing_else() {
    let mut host = host(small_limits());
    let id = host.engine.connect((ip(THERE), 80).into(), ConnectOptions::default()).expect("a way");
    let syn = host.frames().remove(0);
    let mut another = syn.clone();
    another[38] ^= 1;
    host.engine.undelivered(&another);
    assert_eq!(host.engine.status(id), Status::Opening, "of a number that was never sent");
    host.engine.undelivered(&syn);
    assert_eq!(host.engine.status(id), Status::Ended(End::Unreachable));
    assert!(host.news().iter().any(|(_, events)| events.has(Events::CLOSED)));

    let (open, _) = host.accept(Peer::new());
    host.engine.send(open, b"text");
    let text = host.frames().remove(0);
    host.engine.undelivered(&text);
    assert_eq!(host.engine.status(open), Status::Open);
    assert!(host.wait_millis(1000).iter().any(|(_, segment)| segment.payload == b"text"), "it is sent again");
}

#[test]
fn what_is_no_tcp_is_left_over() {
    let (here, there) = (ip(HERE), ip(THERE));
    let mut arp = ip_frame(there, here, 1, 0, 64, &[0; 28]);
    arp[12..14].copy_from_slice(&[8, 6]);
    let mut echo = vec![8, 0, 0, 0, 0, 7, 0, 1];
    let check = !sum(&[&echo]);
    echo[2..4].copy_from_slice(&check.to_be_bytes());
    let echo = ip_frame(there, here, 1, 0, 64, &echo);
    let udp = ip_frame(there, here, 17, 0, 64, &[0; 20]);
    let mut damaged = udp.clone();
    damaged[30] ^= 1;
    let mut fragment = ip_frame(there, here, 6, 0, 64, &[0; 20]);
    fragment[20] = 0x20;
    let check = !sum(&[&fragment[14..24], &fragment[26..34]]);
    fragment[24..26].copy_from_slice(&check.to_be_bytes());

    for (frame, is_left) in [(arp, true), (echo, true), (udp, true), (damaged, false), (fragment, false)] {
        let mut host = host(small_limits());
        host.give_frame(&frame);
        let left: Vec<_> = host.engine.left_over().map(|(frame, _)| frame.to_vec()).collect();
        assert_eq!(left, if is_left { vec![frame] } else { vec![] });
        host.give(&[Peer::new().syn()]);
        assert_eq!(host.engine.left_over().count(), 0, "it is of the last batch alone");
        assert!(host.frames().len() <= 1, "and answered by others");
    }
}

#[test]
fn fragments_are_counted() {
    let mut host = host(small_limits());
    let mut fragment = Peer::new().syn().frame();
    fragment[20] = 0x20;
    let check = !sum(&[&fragment[14..24], &fragment[26..34]]);
    fragment[24..26].copy_from_slice(&check.to_be_bytes());
    host.give_frame(&fragment);
    let counters = host.engine.counters();
    assert_eq!((counters.fragments_refused, counters.frames_malformed), (1, 0));
}

#[test]
fn more_neighbours_than_the_limit_are_refused() {
    let mut limits = small_limits();
    limits.neighbours = 3;
    let mut host = host(limits);
    for last in [1, 2] {
        host.engine.add_neighbour([10, 5, 0, last].into(), PEER).expect("room beside the gateway");
    }
    assert_eq!(host.engine.add_neighbour(ip("10.5.0.3"), PEER), Err(RouteError::TooMany));
    let to = (ip("10.5.0.3"), 80).into();
    let refused = host.engine.connect(to, ConnectOptions::default());
    assert_eq!(refused, Err(anywire_tcp::ConnectError::NoNeighbour));
    assert_eq!(host.engine.connections(), 0);
    let known = (ip("10.5.0.2"), 80).into();
    host.engine.connect(known, ConnectOptions::default()).expect("its neighbour is known");
}
