//! An MTU larger than a cell of the pool. Our segments fit into a cell, and the MSS asks the peer for segments that do. So
//! all data out of order can be stored (RFC 9293 MUST-67, SHLD-31).

use anywire_tcp::{ConnectOptions, Events};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, SYN};

/// What a large cell holds.
const CELL_BYTES: u16 = 2028;

fn host(mtu: u16) -> Host {
    Host::with_mtu(settings(), small_limits(), mtu)
}

/// Peers with an MTU of 9000.
fn peers() -> [Peer; 3] {
    let mss = Some(8960);
    [Peer { mss, ..Peer::new() }, Peer { mss, ..Peer::plain() }, Peer { mss: Some(8940), ..Peer::v6() }]
}

#[test]
fn a_larger_mss_is_not_offered() {
    for (mtu, mss) in [(2067, 2027), (2068, 2028), (2069, 2028), (9000, 2028), (65_535, 2028)] {
        let mut host = host(mtu);
        host.engine.connect("10.0.0.2:5000".parse().unwrap(), ConnectOptions::default()).unwrap();
        assert_eq!(host.sent_one().mss, Some(mss), "{mtu}");
        let peer = Peer::new();
        host.engine.listen(peer.there, ConnectOptions::default()).unwrap();
        let answer = host.answers(&peer.syn()).remove(0);
        assert!(answer.is(SYN | ACK));
        assert_eq!(answer.mss, Some(mss), "{mtu}");
    }
}

#[test]
fn what_is_sent_fits_into_a_cell() {
    for peer in peers() {
        let mut host = host(9000);
        let (id, peer) = host.accept(peer);
        let options = if peer.timestamps.is_some() { 12 } else { 0 };
        let bytes = usize::from(CELL_BYTES) - options;
        assert_eq!(host.engine.segment_bytes(id), bytes);
        host.engine.send(id, &[7; 9000]);
        let longest = host.sent().iter().map(|segment| segment.payload.len()).max();
        assert_eq!(longest, Some(bytes));
    }
}

#[test]
fn what_arrives_out_of_order_is_kept() {
    for peer in peers() {
        let mut host = host(9000);
        let (id, mut peer) = host.accept(peer);
        let bytes = usize::from(CELL_BYTES) - if peer.timestamps.is_some() { 12 } else { 0 };
        let late = vec![2; bytes];
        host.answers(&peer.data_at(bytes as i64, &late));
        host.give(&[peer.data(&vec![1; bytes])]);
        assert!(host.news().iter().any(|(of, events)| *of == id && events.has(Events::READABLE)));
        assert_eq!(host.read(id), [vec![1; bytes], late].concat());
        assert_eq!(host.engine.counters().dropped_for_memory, 0);
    }
}

#[test]
fn longer_ones_than_were_asked_for_are_taken_in_order() {
    let mut host = host(9000);
    let (id, mut peer) = host.accept(Peer::new());
    // A frame of nine kilobytes has the room of the whole batch.
    host.give(&[peer.data(&[3; 8948])]);
    assert_eq!(host.read(id), [3; 8948]);
    host.give(&[peer.data(&[4; 8948])]);
    // The next batch moves it out of its frame.
    host.give(&[peer.data(&[5; 100])]);
    assert_eq!(host.read(id), [[4; 8948].as_slice(), &[5; 100]].concat());
}
