//! The TTL of IPv4 and the hop limit of IPv6 are a setting of the engine (RFC 9293 MUST-49), and those of each packet of TCP.

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, FIN, RST, SYN, Segment, sum};

/// A host whose packets pass so many routers.
fn host(hop_limit: u8) -> Host {
    let mut settings = settings();
    settings.hop_limit = hop_limit;
    Host::with(settings, small_limits())
}

#[track_caller]
fn assert_all_have(frames: &[Vec<u8>], hop_limit: u8) {
    assert!(!frames.is_empty());
    for frame in frames {
        let segment = Segment::of(frame).expect("it is TCP");
        assert_eq!(segment.hop_limit, hop_limit, "{segment:?}");
        // The other fields of an IPv4 header, and its checksum, are whole.
        assert!(frame[12..14] != [8, 0] || sum(&[&frame[14..34]]) == 0xffff, "{segment:?}");
    }
}

#[test]
fn from_the_first_packet_to_the_last() {
    for (hop_limit, on_the_wire) in [(64, 64), (255, 255), (5, 5), (0, 1)] {
        for peer in [Peer::new(), Peer::plain(), Peer::v6()] {
            let mut host = host(hop_limit);
            // A reset: nobody listens there.
            host.give(&[peer.syn()]);
            let frames = host.frames();
            assert!(Segment::of(&frames[0]).is_some_and(|reset| reset.is(RST)));
            assert_all_have(&frames, on_the_wire);
            let (id, mut peer) = host.accept(peer);
            host.engine.send(id, &[1; 5000]);
            let frames = host.frames();
            assert!(frames.len() > 1);
            assert_all_have(&frames, on_the_wire);
            frames.iter().filter_map(|frame| Segment::of(frame)).for_each(|segment| peer.heard(&segment));
            host.give(&[peer.acks()]);
            host.engine.close(id);
            let frames = host.frames();
            assert!(Segment::of(&frames[0]).is_some_and(|fin| fin.is(FIN | ACK)));
            assert_all_have(&frames, on_the_wire);
            host.engine.connect(peer.here, Default::default()).expect("a port is free");
            let frames = host.frames();
            assert!(Segment::of(&frames[0]).is_some_and(|syn| syn.is(SYN)));
            assert_all_have(&frames, on_the_wire);
        }
    }
}
