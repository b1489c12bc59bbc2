//! Frames as a device with offloads hands them over: checksums that were verified or never finished, and super-frames of up to 64 KiB that
//! hold the payload of many segments, in any order. What leaves for such a device has a partial checksum.

use std::cell::RefCell;

use anywire_tcp::{Checksum, ConnectOptions, Engine, Events, Frames, Meta, Settings};

use crate::common::host::{Host, Peer, engine, settings, small_limits};
use crate::common::network::{Impairment, Network};
use crate::common::random::{Random, for_each_seed, for_each_seed_both_ways};
use crate::common::wire::{ACK, FIN, PSH, Segment};

/// Where the checksum is in a frame of TCP over IPv4.
const CHECKSUM_AT: usize = 50;

const fn meta(checksum: Checksum) -> Meta {
    Meta { checksum, segment_bytes: 0, is_answered: false }
}

/// Frames in one batch, with what is known of each.
fn give(host: &mut Host, frames: &[(Vec<u8>, Meta)]) {
    let mut batch = Frames::with_bytes(frames.len(), frames.iter().map(|(frame, _)| frame.len() + 64).sum());
    for (frame, meta) in frames {
        assert!(batch.push(frame), "room");
        batch.describe_last(*meta);
    }
    host.engine.receive(host.now, &mut batch);
}

/// A segment whose checksum was never finished.
fn unfinished(segment: &Segment) -> Vec<u8> {
    let mut frame = segment.frame();
    let at = if segment.from.is_ipv4() { CHECKSUM_AT } else { CHECKSUM_AT + 20 };
    frame[at] ^= 0x5a;
    frame
}

#[test]
fn a_checksum_is_looked_at_unless_somebody_has_or_nobody_needs_to() {
    for peer in [Peer::new(), Peer::plain(), Peer::v6()] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(peer);
        let mut heard = Vec::new();
        for (checksum, is_taken) in
            [(Checksum::Unchecked, false), (Checksum::Verified, true), (Checksum::Partial, true)]
        {
            let mut after = peer.clone();
            let data = after.data(b"hello");
            // With a neighbour in the batch that is whole, so that they are told apart.
            let other = Peer::new().port(6000).syn().frame();
            give(&mut host, &[(unfinished(&data), meta(checksum)), (other, Meta::default())]);
            if is_taken {
                peer = after;
                heard.extend(b"hello");
            }
            assert_eq!(host.engine.readable(id), heard.len(), "{checksum:?}");
        }
        assert_eq!(host.engine.counters().frames_malformed, 1);
        assert_eq!(host.read(id), heard);
    }
}

#[test]
fn the_header_of_ip_has_a_checksum_of_its_own() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let mut frame = peer.data(b"hello").frame();
    frame[25] ^= 1;
    give(&mut host, &[(frame, meta(Checksum::Partial))]);
    assert_eq!((host.engine.readable(id), host.engine.counters().frames_malformed), (0, 1));
}

/// A super-frame as long as there are: in order it is read where it lies, and it asks for an ACK at once.
#[test]
fn the_longest_one_is_one_text() {
    for v6 in [false, true] {
        let mut host = Host::new();
        let mut peer = if v6 { Peer::v6() } else { Peer::new() };
        peer.scale = Some(7);
        let (id, mut peer) = host.accept(peer);
        let headers = if v6 { 86 } else { 66 };
        let bytes: Vec<u8> = (0..65_535 - headers).map(|at: u32| (at % 251) as u8).collect();
        let data = peer.data(&bytes);
        let known = Meta { checksum: Checksum::Partial, segment_bytes: 1448, ..Meta::default() };
        give(&mut host, &[(unfinished(&data), known)]);
        assert_eq!(host.sent_one().ack, peer.seq, "two segments are owed an ACK");
        assert!(host.read(id) == bytes);
        assert_eq!(host.engine.memory().segments_in_use, 0);
    }
}

#[test]
fn any_order_makes_the_stream() {
    const LENGTH: usize = 300_000;
    for_each_seed_both_ways(60, |seed, predicts| {
        let mut random = Random::new(seed);
        let mut settings = settings();
        settings.predicts = predicts;
        let mut host = Host::with(settings, small_limits());
        let start = if random.chance(0.5) { u32::MAX - random.below(200_000) as u32 } else { 7_000_000 };
        let peer = Peer { sack: random.chance(0.7), seq: start, scale: Some(7), ..Peer::new() };
        let (id, peer) = host.accept(peer);
        let mut stream = vec![0; LENGTH];
        random.fill(&mut stream);
        let (mut heard, mut acked) = (Vec::new(), 0_usize);
        for _ in 0..3000 {
            let mut batch = Vec::new();
            for _ in 0..random.between(1, 4) {
                // Near the left edge, mostly beyond it; sometimes what came before.
                let from = match random.below(8) {
                    0 | 1 => acked,
                    2 => acked.saturating_sub(random.below(70_000) as usize),
                    _ => acked + random.below(200_000) as usize,
                };
                let from = from.min(LENGTH);
                let longest = random.pick(&[1448, 20_000, 65_400]);
                let to = (from + random.below(longest) as usize).min(LENGTH);
                let mut segment = peer.data_at(from as i64, &stream[from..to]);
                if to == LENGTH {
                    segment.bits = segment.bits | FIN;
                }
                let known = Meta { checksum: Checksum::Partial, segment_bytes: 1448, ..Meta::default() };
                batch.push((unfinished(&segment), known));
            }
            give(&mut host, &batch);
            if random.chance(0.7) {
                heard.extend(host.read(id));
                assert!(heard == stream[..heard.len()]);
            }
            for answer in host.sent() {
                let now = answer.ack.wrapping_sub(peer.seq) as usize;
                assert!(now >= acked, "an ACK never goes back");
                acked = now.min(LENGTH);
                if now == LENGTH + 1 {
                    heard.extend(host.read(id));
                    assert!(heard == stream && host.engine.is_finished(id));
                    host.engine.close(id);
                    let fin = host.sent().pop().expect("our FIN");
                    let seq = peer.seq.wrapping_add(LENGTH as u32 + 1);
                    host.give(&[Segment { ack: fin.end(), seq, ..peer.acks() }]);
                    assert_eq!((host.engine.connections(), host.engine.memory().segments_in_use), (0, 0));
                    return host.outcome();
                }
            }
        }
        panic!("not done: {acked} of {LENGTH}");
    });
}

/// Out of order as well, all of a super-frame is kept, and reported as one block.
#[test]
fn one_beyond_a_gap_is_reported_whole() {
    let mut host = Host::new();
    let (id, peer) = host.accept(Peer { scale: Some(7), ..Peer::new() });
    let bytes = vec![7; 60_000];
    let known = Meta { checksum: Checksum::Partial, segment_bytes: 1448, ..Meta::default() };
    give(&mut host, &[(unfinished(&peer.data_at(1448, &bytes)), known)]);
    let answer = host.sent_one();
    let at = |from: u32| peer.seq.wrapping_add(from);
    assert_eq!((answer.ack, &answer.sack[..]), (at(0), &[(at(1448), at(61_448))][..]));
    give(&mut host, &[(unfinished(&peer.data_at(0, &[6; 1448])), meta(Checksum::Partial))]);
    assert_eq!((host.sent_one().ack, host.read(id).len()), (at(61_448), 61_448));
}

/// What was acknowledged is kept, also if four super-frames of four connections come while there is hardly any memory.
#[test]
fn a_batch_is_kept_though_memory_is_short() {
    let mut limits = small_limits();
    limits.segment_bytes = 16 << 10;
    let mut host = Host::with(settings(), limits);
    let peers = (0..4).map(|number| Peer { scale: Some(7), ..Peer::new().port(6000 + number) });
    let mut connections: Vec<_> = peers.map(|peer| host.accept(peer)).collect();
    let known = Meta { checksum: Checksum::Partial, segment_bytes: 1448, ..Meta::default() };
    let batch: Vec<_> = connections
        .iter_mut()
        .map(|(_, peer)| (unfinished(&peer.data(&[peer.here.port() as u8; 65_000])), known))
        .collect();
    give(&mut host, &batch);
    assert_eq!(host.sent().len(), 4, "each is acknowledged");
    // The next batch takes the place of that one.
    give(&mut host, &[(Peer::new().port(9).acks().frame(), Meta::default())]);
    for (id, peer) in &connections {
        assert!(host.read(*id) == vec![peer.here.port() as u8; 65_000], "{:?}", host.engine.status(*id));
    }
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

/// What leaves for a device that finishes checksums says so, and its header of IP is whole.
#[test]
fn what_leaves_is_partial() {
    let mut settings = settings();
    settings.checksum_offload = true;
    let mut host = Host::with(settings, small_limits());
    let mut frames = Frames::new();
    let id = host.engine.connect("10.0.0.2:80".parse().expect("an address"), ConnectOptions::default());
    id.expect("there is room");
    host.engine.transmit(host.now, &mut frames);
    assert_eq!((frames.len(), frames.meta(0)), (1, meta(Checksum::Partial)));
    let mut syn = frames[0].to_vec();
    assert_eq!(syn[CHECKSUM_AT..CHECKSUM_AT + 2], [0, 0]);
    // With its checksum it is whole, the one of IP included.
    finish(&mut syn);
    assert!(Segment::of(&syn).expect("it is TCP").mss.is_some());
    // And an engine for any device says nothing.
    let mut host = Host::new();
    host.engine
        .connect("10.0.0.2:80".parse().expect("an address"), ConnectOptions::default())
        .expect("there is room");
    host.engine.transmit(host.now, &mut frames);
    frames.clear();
    assert!(!frames.has_metas());
}

/// Writes the checksum of TCP over IPv4.
fn finish(frame: &mut [u8]) {
    frame[CHECKSUM_AT..CHECKSUM_AT + 2].fill(0);
    let length = ((frame.len() - 34) as u16).to_be_bytes();
    let all = [&frame[26..34], &[0, 6], &length, &frame[34..]].concat();
    let total: u64 =
        all.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum();
    let folded = (0..4).fold(total, |sum, _| (sum & 0xffff) + (sum >> 16));
    frame[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// Joins segments that follow one another, as GRO does, into frames of up to 64 KiB.
fn join(frames: &[Vec<u8>]) -> Vec<(Vec<u8>, Meta)> {
    let mut joined: Vec<(Segment, usize)> = Vec::new();
    for segment in frames.iter().filter_map(|frame| Segment::of(frame)) {
        if let Some((last, first_bytes)) = joined.last_mut()
            && (last.from, last.to, last.ack, last.timestamps)
                == (segment.from, segment.to, segment.ack, segment.timestamps)
            && last.end() == segment.seq
            && last.bits == ACK
            && (segment.bits == ACK || segment.bits == ACK | PSH)
            && last.payload.len().is_multiple_of(*first_bytes)
            && segment.payload.len() <= *first_bytes
            && last.payload.len() + segment.payload.len() < 65_000
            && last.sack.is_empty()
            && segment.sack.is_empty()
            && !segment.payload.is_empty()
        {
            last.payload.extend(&segment.payload);
            last.bits = segment.bits;
            continue;
        }
        let bytes = segment.payload.len().max(1);
        joined.push((segment, bytes));
    }
    let one = |(segment, bytes): &(Segment, usize)| {
        let is_super = segment.payload.len() > *bytes;
        let segment_bytes = if is_super { *bytes as u16 } else { 0 };
        (unfinished(segment), Meta { checksum: Checksum::Partial, segment_bytes, ..Meta::default() })
    };
    joined.iter().map(one).collect()
}

/// Two engines over a link that loses, doubles and reorders, whose far end joins what follows one another.
#[test]
fn streams_survive_a_link_that_joins() {
    const LENGTH: usize = 400_000;
    for_each_seed(40, |seed| {
        let mut random = Random::new(seed);
        let end = |last, random: &mut Random| {
            let mut settings = Settings::new([seed, 1, 2, u64::from(last)]);
            settings.receive_window = random.pick(&[70_000, 256 << 10, 1 << 20]);
            engine(settings, small_limits(), last, 1500)
        };
        let mut engines = [end(1, &mut random), end(2, &mut random)];
        // Where the frames that are made by hand are sent.
        let mac = engines[0].mac();
        engines[1].set_mac(mac);
        let impairment = Impairment {
            loss: random.pick(&[0.0, 0.001, 0.02]),
            duplicate: random.pick(&[0.0, 0.01]),
            reorder: random.pick(&[0.0, 0.01]),
            ..Impairment::delay(random.pick(&[10, 1000, 20_000]))
        };
        let mut stream = vec![0; LENGTH];
        random.fill(&mut stream);
        let mut network = Network::new(engines, impairment, random);
        network.joins = Some(join);
        network.engines[1]
            .listen("10.0.0.2:80".parse().expect("an address"), ConnectOptions::default())
            .expect("free");
        let id =
            network.engines[0].connect("10.0.0.2:80".parse().expect("an address"), ConnectOptions::default());
        let id = id.expect("room");
        let state = RefCell::new((0, Vec::new()));
        let app = |engine: &mut Engine, end: usize, _| {
            let (sent, heard) = &mut *state.borrow_mut();
            while let Some(ready) = engine.next_ready() {
                if end == 1 && ready.events.has(Events::READABLE) {
                    while engine.recv(ready.id, |bytes| {
                        heard.extend_from_slice(bytes);
                        bytes.len()
                    }) > 0
                    {}
                }
            }
            if end == 0 && *sent < LENGTH {
                *sent += engine.send(id, &stream[*sent..]);
            }
        };
        let is_done =
            network.run(std::time::Duration::from_secs(600), app, |_| state.borrow().1.len() >= LENGTH);
        assert!(is_done && state.borrow().1 == stream, "seed {seed}");
    });
}
