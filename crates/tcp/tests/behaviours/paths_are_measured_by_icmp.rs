//! Path MTU (RFC 1191, RFC 8201), other ICMP messages (RFC 9293 3.9.2.2), and forged ones (RFC 5927).

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::time::Duration;

use anywire_tcp::{Algorithm, ConnId, End, Frames, KeepAlive, SoftError, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{Segment, icmp_error, sum};

fn flight(peer: Peer) -> (Host, ConnId, Peer, Vec<Segment>) {
    let mut host = Host::new();
    host.round_trip = 20;
    let (id, peer) = host.accept(peer);
    host.engine.send(id, &[1; 8000]);
    let sent = host.sent();
    assert_eq!(sent.iter().map(|segment| segment.payload.len()).sum::<usize>(), 8000 / 1448 * 1448);
    (host, id, peer, sent)
}

#[test]
fn what_was_too_long_goes_again_in_shorter_segments() {
    for (peer, router, kind, mtu, mss) in [
        (Peer::new(), "192.0.2.1", (3, 4), 1000, 948),
        (Peer::new(), "192.0.2.1", (3, 4), 600, 548),
        // Below what IPv4 guarantees.
        (Peer::new(), "192.0.2.1", (3, 4), 68, 500),
        // From a router of before RFC 1191: the next plateau of its table, 1492.
        (Peer::new(), "192.0.2.1", (3, 4), 0, 1440),
    ] {
        let (mut host, id, mut peer, sent) = flight(peer);
        host.give_frame(&icmp_error(router.parse().unwrap(), &sent[0], kind.0, kind.1, mtu));
        let mut again = host.sent();
        let first: Vec<_> = again.iter().map(|segment| segment.payload.len()).collect();
        assert!(first.iter().all(|length| *length <= mss) && first.contains(&mss), "{mtu}: {first:?}");
        assert_eq!(again[0].seq, sent[0].seq);
        // All of it arrives, and later writes leave in segments as short.
        let mut heard = 0;
        let mut rounds = 0;
        while heard < 8000 {
            for segment in &again {
                if segment.seq == peer.ack {
                    heard += segment.payload.len();
                    peer.heard(segment);
                }
            }
            host.give(&[peer.acks()]);
            again = host.sent();
            rounds += 1;
            assert!(rounds < 20, "{heard}");
        }
        assert_eq!(host.engine.counters().timeouts, 0, "{mtu}");
        host.engine.send(id, &[2; 5000]);
        assert!(host.sent().iter().all(|segment| segment.payload.len() <= mss));
        assert_eq!(host.engine.segment_bytes(id), mss);
    }
}

/// RFC 1191 has paths down to 68 bytes, RFC 5927 7.2 has segments no smaller than is sensible: routers cut them instead.
#[test]
fn what_the_narrowest_paths_do_not_take_may_be_fragmented() {
    for peer in [Peer::new(), Peer { timestamps: None, ..Peer::new() }] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(peer);
        let headers = if peer.timestamps.is_some() { 52 } else { 40 };
        host.engine.send(id, &[1; 3000]);
        let sent = host.sent();
        assert!(sent.iter().all(|segment| segment.dont_fragment));
        host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 3, 4, 552));
        let again = host.sent();
        assert!(again.iter().all(|segment| segment.dont_fragment), "552 is no such path");
        host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 3, 4, 296));
        // The lost flight is sent again at once, and the connection has no trouble after that.
        let mut heard = 0;
        for segment in host.sent() {
            assert!(!segment.dont_fragment);
            heard += segment.payload.len();
            peer.heard(&segment);
        }
        assert_ne!(heard, 0);
        host.give(&[peer.acks()]);
        for _ in 0..100 {
            for (_, segment) in host.wait_millis(100) {
                assert!(!segment.dont_fragment && segment.payload.len() <= 552 - headers, "{segment:?}");
                if segment.seq == peer.ack {
                    heard += segment.payload.len();
                    peer.heard(&segment);
                }
                host.give(&[peer.acks()]);
            }
        }
        assert_eq!(heard, 3000);
        host.engine.send(id, &[2; 100]);
        let frames = host.frames();
        assert_eq!(frames.len(), 1);
        let header = &frames[0][14..34];
        assert_eq!((header[6] & 0x40, sum(&[header])), (0, 0xffff));
        assert_ne!(header[4..6], [0, 0], "fragments of different segments are told apart");
    }
    // A connection without such a message goes on as it was.
    let (mut host, id, _, _) = flight(Peer::new());
    host.engine.send(id, &[3; 100]);
    assert!(host.sent().iter().all(|segment| segment.dont_fragment));
}

/// RFC 6864 4.3: fragments of two packets are never joined. What is sent again is another packet, and so is that of another
/// connection to the same host.
#[test]
fn packets_that_may_be_fragmented_have_a_number_of_their_own() {
    let mut host = Host::new();
    let mut flights: Vec<_> = (5000..5003).map(|port| host.accept(Peer::new().port(port))).collect();
    for (id, _) in &flights {
        host.engine.send(*id, &[b'a'; 1200]);
    }
    for lost in host.sent().iter().filter(|segment| segment.payload.len() == 1200) {
        host.give_frame(&icmp_error(lost.to.ip(), lost, 3, 4, 300));
    }
    let mut seen = HashSet::new();
    let mut payloads = 0;
    // What is not acknowledged goes again and again, with ACKs in between; and then the rest and a FIN.
    for step in 0..60 {
        let sent = host.frames();
        let segments: Vec<_> = sent.iter().filter_map(|frame| Segment::of(frame)).collect();
        for (frame, segment) in sent.iter().zip(&segments) {
            assert!(!segment.dont_fragment);
            assert!(seen.insert(u16::from_be_bytes([frame[18], frame[19]])), "step {step}: {segment:?}");
            payloads += usize::from(!segment.payload.is_empty());
        }
        for (id, peer) in &mut flights {
            if step == 40 {
                host.engine.shutdown(*id);
            }
            if step >= 40 {
                let own: Vec<_> =
                    segments.iter().filter(|segment| segment.to == peer.here).cloned().collect();
                peer.heard_all(&own);
                host.give(&[peer.acks()]);
            } else if step % 10 == 5 {
                let data = peer.data(b"more");
                host.give(&[data]);
                host.read(*id);
            }
        }
        host.now = host.now + Duration::from_millis(50);
        flights.iter_mut().for_each(|(_, peer)| peer.later(50));
    }
    assert!(payloads > 12 && seen.len() > payloads, "{payloads} of {} have a payload", seen.len());
    assert!(host.engine.counters().retransmits > 3);
}

/// A peer that reports narrow paths for its own connections takes at most half of the extensions from the others.
#[test]
fn narrow_paths_leave_half_of_the_extensions_for_losses() {
    let mut limits = small_limits();
    limits.extensions = 6;
    let mut host = Host::with(settings(), limits);
    let mut may_be_fragmented = 0;
    for port in 5000..5010 {
        let (id, peer) = host.accept(Peer::new().port(port));
        host.engine.send(id, &[1; 1448]);
        let sent = host.sent();
        host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 3, 4, 296));
        let again = host.sent();
        assert!(again.iter().all(|segment| segment.to == peer.here && segment.payload.len() <= 500));
        may_be_fragmented +=
            u32::from(!again.is_empty() && again.iter().all(|segment| !segment.dont_fragment));
    }
    assert_eq!(may_be_fragmented, 3);
}

/// RFC 1191 6.3, RFC 8201 5.2: what one connection has learned serves the next, for ten minutes.
#[test]
fn the_next_connection_to_a_destination_knows_its_path() {
    let (mut host, id, _, sent) = flight(Peer::new());
    host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 3, 4, 1000));
    assert_eq!(host.engine.segment_bytes(id), 948);
    host.engine.abort(id);
    host.sent();
    let (next, _) = host.accept(Peer::new().port(5001));
    assert_eq!(host.engine.segment_bytes(next), 948);
    let (other, _) = host.accept(Peer::v6());
    assert_eq!(host.engine.segment_bytes(other), 1428, "another destination");
    host.wait_millis(600_000);
    let (later, _) = host.accept(Peer::new().port(5002));
    assert_eq!(host.engine.segment_bytes(later), 1448, "it may have become wider");
}

#[test]
fn too_many_narrow_paths_are_forgotten_and_counted() {
    let mut limits = small_limits();
    limits.path_mtus = 0;
    let mut host = Host::with(settings(), limits);
    let (id, _) = host.accept(Peer::new());
    host.engine.send(id, &[1; 1448]);
    let sent = host.sent();
    host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 3, 4, 1000));
    assert_eq!((host.engine.segment_bytes(id), host.engine.counters().path_mtus_evicted), (948, 1));
    host.sent();
    let (next, _) = host.accept(Peer::new().port(5001));
    assert_eq!(host.engine.segment_bytes(next), 1448);
}

#[test]
fn ipv6_says_packet_too_big() {
    let mut host = Host::new();
    let (id, peer) = host.accept(Peer::v6());
    host.engine.send(id, &[1; 5000]);
    let sent = host.sent();
    assert_eq!(sent[0].payload.len(), 1428);
    host.give_frame(&icmp_error("fd00::99".parse().unwrap(), &sent[0], 2, 0, 1300));
    let again = host.sent();
    assert_eq!((again[0].seq, again[0].payload.len()), (peer.ack, 1300 - 72));
    host.give_frame(&icmp_error("fd00::99".parse().unwrap(), &sent[0], 2, 0, 100));
    assert_eq!(host.engine.segment_bytes(id), 1280 - 72, "IPv6 guarantees 1280");
}

#[test]
fn one_about_what_was_never_sent_or_is_acknowledged_is_forged() {
    let (mut host, id, peer, sent) = flight(Peer::new());
    for seq in [peer.ack.wrapping_sub(1), sent.last().unwrap().end(), peer.ack.wrapping_add(1 << 30)] {
        let about = Segment { seq, ..sent[0].clone() };
        host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &about, 3, 4, 600));
        assert_eq!((host.sent(), host.engine.segment_bytes(id)), (vec![], 1448));
    }
    // Nothing is in flight, so none can be about what is.
    let (mut idle, id, about) = {
        let mut host = Host::new();
        let (id, peer) = host.accept(Peer::new());
        (host, id, Segment { seq: peer.ack, from: peer.there, to: peer.here, ..sent[0].clone() })
    };
    idle.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &about, 3, 4, 600));
    assert_eq!(idle.engine.segment_bytes(id), 1448);
    let (next, _) = idle.accept(Peer::new().port(5001));
    assert_eq!(idle.engine.segment_bytes(next), 1448, "nor have others learned from it");
    // Nor does one make segments longer.
    host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 3, 4, 9000));
    assert_eq!(host.engine.segment_bytes(id), 1448);
}

/// RFC 9293 3.8.4: whatever a router says, a peer that answers nothing is given up.
#[test]
fn a_narrow_path_keeps_no_dead_peer_alive() {
    let keep_alive = KeepAlive { idle: Duration::from_secs(5), interval: Duration::from_secs(5), probes: 2 };
    // Nothing in flight, or a segment that the path takes.
    for bytes in [0, 100] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(Peer::new());
        host.engine.set_keep_alive(id, Some(keep_alive));
        host.engine.send(id, &[1; 100][..bytes]);
        host.sent();
        let about = Segment { seq: peer.ack, from: peer.there, to: peer.here, ..peer.acks() };
        host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &about, 3, 4, 1000));
        if bytes > 0 {
            peer.ack += bytes as u32;
            host.give(&[peer.acks()]);
        }
        assert_eq!(host.wait_millis(20_000).len(), 2, "probes");
        assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
    }
}

/// RFC 5681 3.1: ssthresh follows from the flight of the first timeout, and what went again for a narrower path met none.
#[test]
fn a_timeout_after_a_narrow_path_ends_slow_start_at_half_of_the_flight() {
    let [plain, narrow] = [false, true].map(|is_narrow| {
        let mut settings = settings();
        settings.congestion = Algorithm::NewReno;
        let mut host = Host::with(settings, small_limits());
        let (id, mut peer) = host.accept(Peer::new());
        host.engine.send(id, &[1; 200_000]);
        let sent = host.sent();
        assert_eq!(sent.len(), 10);
        if is_narrow {
            host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 3, 4, 1000));
            host.sent();
        }
        let mut sent = Vec::new();
        while host.engine.counters().timeouts == 0 {
            sent = host.wait_millis(10).into_iter().map(|(_, segment)| segment).collect();
        }
        // Each round acknowledges all that has arrived, in order.
        let mut rounds = Vec::new();
        for _ in 0..9 {
            peer.later(10);
            let mut next: Vec<_> = host.wait_millis(10).into_iter().map(|(_, segment)| segment).collect();
            for segment in &sent {
                peer.heard(segment);
                next.extend(host.answers(&peer.acks()));
            }
            host.engine.send(id, &[1; 50_000]);
            next.extend(host.sent());
            rounds.push(next.iter().map(|segment| segment.payload.len()).sum::<usize>());
            sent = next;
        }
        rounds
    });
    assert!(plain[8] < 20_000 && narrow[8] < 20_000, "{plain:?} bytes a round, and {narrow:?}");
}

/// RFC 1191 6.4, RFC 8201 5.4: no reduction is behind it, so no ACK of an original takes it back (RFC 3522 is of timeouts and fast
/// retransmits).
#[test]
fn a_delayed_ack_stops_nothing_that_the_path_did_not_take() {
    for lost in [None, Some(1)] {
        let mut host = Host::new();
        host.round_trip = 20;
        let (id, mut peer) = host.accept(Peer::new());
        assert!(host.engine.set_rate(id, Some(NonZeroU32::MAX)));
        host.engine.send(id, &[1; 20_000]);
        let sent = host.sent();
        assert_eq!(sent.len(), 10);
        host.pass(10, &mut peer);
        if let Some(lost) = lost {
            // A recovery is under way.
            peer.heard(&sent[0]);
            let sack = vec![(sent[lost].end(), sent[lost + 3].end())];
            host.give(&[Segment { sack, ..peer.acks() }]);
            assert_eq!(host.engine.counters().fast_recoveries, 1);
        }
        host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[9], 3, 4, 1000));
        let mut frames = Frames::new();
        host.engine.transmit_up_to(host.now, &mut frames, 2);
        assert_eq!(frames.len(), 2);
        host.now = host.now + Duration::from_millis(5);
        peer.heard_all(&sent[..5]);
        let again = host.answers(&peer.acks());
        assert_eq!((again[0].seq, again[0].payload.len()), (sent[5].seq, 948), "{again:?}");
        let counters = host.engine.counters();
        assert_eq!((counters.timeouts, counters.loss_probes), (0, 0));
    }
}

#[test]
fn an_open_connection_survives_every_error_and_an_opening_one_the_soft_ones() {
    for code in 0..16 {
        // The message quotes a number in flight: with any other number it would be ignored.
        let (mut host, id, mut peer, sent) = flight(Peer::new());
        host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 3, code, 0));
        assert_eq!(host.engine.status(id), Status::Open, "code {code}");
        let data = peer.data(b"goes on");
        host.give(&[data]);
        assert_eq!(host.read(id), b"goes on");
    }
    for (kind, code, ends) in [
        (3, 0, false),
        (3, 1, false),
        (3, 5, false),
        (11, 0, false),
        (12, 0, false),
        (4, 0, false),
        (3, 2, true),
        (3, 3, true),
    ] {
        let mut host = Host::new();
        let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
        let syn = host.sent_one();
        host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &syn, kind, code, 0));
        let is_over = host.engine.status(id) == Status::Ended(End::Refused);
        assert_eq!(is_over, ends, "type {kind} code {code}");
    }
}

/// RFC 9293 MUST-47: the user may ask for them.
#[test]
fn errors_that_do_not_end_a_connection_are_told() {
    let told = |host: &Host, id| {
        let info = host.engine.info(id).expect("it is there");
        (info.soft_errors, info.soft_error)
    };
    let router = || "192.0.2.1".parse().unwrap();
    let (mut host, id, mut peer, sent) = flight(Peer::new());
    assert_eq!(told(&host, id), (0, None));
    for (count, kind, code, error) in [
        (1, 3, 1, SoftError::Unreachable),
        (2, 11, 0, SoftError::Unreachable),
        (3, 3, 3, SoftError::Refused),
        (4, 3, 4, SoftError::TooBig { mtu: 1400 }),
        // A Source Quench is discarded (MUST-55).
        (4, 4, 0, SoftError::TooBig { mtu: 1400 }),
    ] {
        host.give_frame(&icmp_error(router(), &sent[0], kind, code, 1400));
        assert_eq!(told(&host, id), (count, Some(error)), "type {kind} code {code}");
    }
    peer.heard_all(&sent);
    host.give(&[peer.acks()]);
    host.give_frame(&icmp_error(router(), &sent[0], 3, 1, 0));
    assert_eq!(told(&host, id).0, 4, "about a number that is not in flight: it may be forged");
    host.engine.abort(id);
    host.sent();
    let (id, _) = host.accept(Peer::new().port(5001));
    assert_eq!(told(&host, id), (0, None), "another connection has its own");
    // Of one that is being opened, too.
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    let syn = host.sent_one();
    host.give_frame(&icmp_error(router(), &syn, 3, 0, 0));
    assert_eq!(told(&host, id), (1, Some(SoftError::Unreachable)));
}

/// RFC 9293 MUST-55, RFC 6633.
#[test]
fn a_source_quench_slows_nobody_down() {
    let (mut host, id, _, sent) = flight(Peer::new());
    host.give_frame(&icmp_error("192.0.2.1".parse().unwrap(), &sent[0], 4, 0, 0));
    host.engine.send(id, &[2; 20_000]);
    assert_eq!(sent.len() + host.sent().len(), 10, "the initial window, as if nothing had come");
}

/// The first link of all paths.
#[test]
fn a_link_with_a_lower_mtu_narrows_all_paths() {
    let (mut host, id, _, _) = flight(Peer::new());
    host.engine.lower_mtu(1000);
    let again = host.sent();
    assert!(!again.is_empty() && again.iter().all(|segment| segment.payload.len() <= 948));
    host.engine.abort(id);
    host.sent();
    // Longer than a path is remembered, and by a peer that nobody has talked to.
    host.wait_millis(700_000);
    let (id, _) = host.accept(Peer::new().port(5001));
    host.engine.send(id, &[2; 5000]);
    let sent = host.sent();
    assert!(!sent.is_empty() && sent.iter().all(|segment| segment.payload.len() <= 948));
    assert_eq!(host.engine.next_hop(sent[0].to.ip()).map(|hop| hop.mtu), Ok(1000));
    // A larger one is none that would lower it, and less than IP needs is no MTU.
    host.engine.lower_mtu(1500);
    assert_eq!(host.engine.next_hop(sent[0].to.ip()).map(|hop| hop.mtu), Ok(1000));
    host.engine.lower_mtu(100);
    assert_eq!(host.engine.next_hop(sent[0].to.ip()).map(|hop| hop.mtu), Ok(576));
}

/// Whoever has found out: a probe from outside, or the user.
#[test]
fn a_path_that_was_told_of_is_kept_to() {
    let (mut host, id, _, sent) = flight(Peer::new());
    let there = sent[0].to.ip();
    host.engine.set_path_mtu("10.0.0.77".parse().unwrap(), 600);
    assert!(host.sent().is_empty(), "of another path");
    host.engine.set_path_mtu(there, 1000);
    let again = host.sent();
    assert!(!again.is_empty() && again.iter().all(|segment| segment.payload.len() <= 948));
    host.engine.abort(id);
    host.sent();
    let (id, _) = host.accept(Peer::new().port(5001));
    host.engine.send(id, &[2; 5000]);
    let sent = host.sent();
    assert!(!sent.is_empty() && sent.iter().all(|segment| segment.payload.len() <= 948), "so are later ones");
    host.engine.abort(id);
    host.sent();
    // No wider than the first link, and no narrower than ICMP could say.
    host.engine.set_path_mtu(there, 9000);
    host.engine.set_path_mtu(there, 1);
    let (id, _) = host.accept(Peer::new().port(5002));
    host.engine.send(id, &[3; 3000]);
    let sent = host.sent();
    assert!(!sent.is_empty() && sent.iter().all(|segment| segment.payload.len() == 500));
}
