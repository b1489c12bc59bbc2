//! Data that arrived before the peer reset the connection, or fell silent, is still read. It is freed when its reader no
//! longer wants it.

use anywire_tcp::{ConnId, End, Status};

use crate::common::host::{Host, Peer};
use crate::common::wire::{RST, Segment};

fn read(host: &mut Host, id: ConnId) -> Vec<u8> {
    let mut all = Vec::new();
    while host.engine.recv(id, |bytes| {
        all.extend_from_slice(bytes);
        bytes.len()
    }) > 0
    {}
    all
}

fn reset_behind(host: &mut Host, data: &[&[u8]], batches: usize) -> ConnId {
    let (id, mut peer) = host.accept(Peer::new());
    let mut segments: Vec<Segment> = data.iter().map(|data| peer.data(data)).collect();
    segments.push(peer.segment(RST));
    let part = segments.len().div_ceil(batches);
    segments.chunks(part).for_each(|batch| host.give(batch));
    assert_eq!(host.engine.status(id), Status::Ended(End::Reset));
    id
}

#[test]
fn what_arrived_is_read_before_the_reset_is_seen() {
    // In the frame of the reset's own batch, in several of them, and in an earlier one.
    for (data, batches) in [(&[&b"early"[..]][..], 1), (&[b"ea", b"rly"], 1), (&[b"ea", b"rly"], 3)] {
        for is_read_in_the_batch in [true, false] {
            let mut host = Host::new();
            let id = reset_behind(&mut host, data, batches);
            assert!(!host.engine.is_finished(id), "there is something to read");
            assert_eq!(host.engine.readable(id), 5);
            if !is_read_in_the_batch {
                host.give(&[]);
            }
            assert_eq!(read(&mut host, id), b"early");
            assert!(host.engine.is_finished(id));
            assert_eq!(host.engine.status(id), Status::Ended(End::Reset));
            host.give(&[]);
            assert_eq!(host.engine.memory().segments_in_use, 0, "what was read is free");
            host.sent();
            host.engine.close(id);
            assert_eq!((host.engine.connections(), host.engine.counters().reset), (0, 1));
            assert_eq!(host.sent(), [], "one who was reset says nothing any more");
        }
    }
}

#[test]
fn who_lets_go_frees_what_was_not_read() {
    for abort in [false, true] {
        for moves in [false, true] {
            let mut host = Host::new();
            let id = reset_behind(&mut host, &[b"never", b"read"], 1);
            if moves {
                host.give(&[]);
                assert!(host.engine.memory().segments_in_use > 0);
            }
            if abort {
                host.engine.abort(id)
            } else {
                host.engine.close(id)
            }
            host.give(&[]);
            assert_eq!((host.engine.connections(), host.engine.memory().segments_in_use), (0, 0));
            // The place is as good as new.
            let (id, mut peer) = host.accept(Peer::new().port(5001));
            host.give(&[peer.data(b"fresh")]);
            assert_eq!(read(&mut host, id), b"fresh");
        }
    }
}

#[test]
fn what_arrived_out_of_order_is_not_shown() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.give(&[peer.data(b"first")]);
    let reset = peer.segment(RST);
    peer.data(b"lost");
    host.give(&[peer.data(b"third")]);
    host.give(&[reset]);
    assert_eq!(read(&mut host, id), b"first");
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

#[test]
fn an_end_that_came_before_the_reset_stays_an_end() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.give(&[peer.data(b"all")]);
    assert!(!host.engine.has_peer_closed(id));
    let end = peer.fin();
    host.give(&[end, peer.segment(RST)]);
    assert_eq!(host.engine.status(id), Status::Ended(End::Reset));
    assert_eq!(read(&mut host, id), b"all");
    assert!(host.engine.has_peer_closed(id));
}

#[test]
fn an_end_of_our_own_making_drops_what_arrived() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.give(&[peer.data(b"unread")]);
    host.give(&[]);
    host.engine.abort(id);
    assert_eq!(host.engine.memory().segments_in_use, 0);
    assert!(host.sent_one().is(RST));
    assert_eq!(host.engine.connections(), 0);
}

#[test]
fn what_cannot_be_sent_back_any_more_is_dropped() {
    let mut host = Host::new();
    let id = reset_behind(&mut host, &[b"echo?"], 1);
    // An echo loop comes to an end.
    assert_eq!(host.engine.splice(id, 5), 0);
    assert!(host.engine.is_finished(id));
    host.give(&[]);
    assert_eq!(host.engine.memory().segments_in_use, 0);
}
