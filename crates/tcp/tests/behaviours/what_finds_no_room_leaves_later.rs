//! What is to be sent is never lost because there is no room or no memory at the moment: it leaves as soon as there is some, without
//! a call or a segment from the peer. And what ends takes no memory from what goes on.
//! RFC 9293 3.10.4 (CLOSE: a FIN is sent), 3.10.5 (ABORT: a reset is sent), 3.8.6.1 (MUST-35, MUST-36), 3.8.6.2.1 (what the window allows
//! is sent); RFC 2525 2.17; RFC 5681 4.2.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anywire_tcp::{ConnId, ConnectOptions, Events, Frames, Limits};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, Bits, FIN, RST, SYN, Segment, icmp_error};

fn host(change: impl FnOnce(&mut Limits)) -> Host {
    let mut limits = small_limits();
    change(&mut limits);
    let mut host = Host::with(settings(), limits);
    host.engine.listen(Peer::new().there, ConnectOptions::default()).expect("a free port");
    host
}

/// The peer of this number opens a connection.
fn open_as(host: &mut Host, number: u32, peer: &Peer) -> (ConnId, Peer) {
    let address = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_1000 + number / 1000));
    let mut peer = Peer { here: SocketAddr::new(address, 5000 + (number % 1000) as u16), ..peer.clone() };
    host.give(&[peer.syn()]);
    let answer = host.sent_one();
    assert!(answer.is(SYN | ACK));
    peer.heard(&answer);
    peer.seq = peer.seq.wrapping_add(1);
    host.give(&[peer.segment(ACK)]);
    (host.news().remove(0).0, peer)
}

fn open(host: &mut Host, count: u32) -> Vec<(ConnId, Peer)> {
    (0..count).map(|number| open_as(host, number, &Peer::new())).collect()
}

/// Peers that have heard a segment of this kind.
fn told(sent: &[(u64, Segment)], kind: Bits) -> usize {
    sent.iter().filter(|(_, segment)| segment.is(kind)).map(|(_, one)| one.to).collect::<HashSet<_>>().len()
}

#[test]
fn all_fins_leave() {
    let mut host = host(|limits| (limits.connections, limits.segment_bytes) = (4096, 64 << 10));
    let mut all = open(&mut host, 3000);
    for (id, _) in &all {
        host.engine.close(*id);
    }
    assert_eq!(host.engine.memory().segments_in_use, 0, "FINs take no memory of data");
    let mut acks = Vec::new();
    for fin in host.sent().iter().filter(|segment| segment.is(FIN)) {
        let (_, peer) = all.iter_mut().find(|(_, peer)| peer.here == fin.to).expect("one of them");
        peer.heard(fin);
        acks.push(peer.fin());
    }
    assert_eq!(acks.len(), 3000);
    for batch in acks.chunks(50) {
        host.give(batch);
        host.sent();
    }
    assert_eq!(host.engine.connections(), 0);
}

/// A FIN in each state in which one is sent, while there is no memory for a single byte.
#[test]
fn a_fin_leaves_in_any_state_without_memory() {
    let mut host = host(|limits| (limits.connections, limits.segment_bytes) = (64, 8 * 2048));
    let (idle, _) = open_as(&mut host, 0, &Peer::new());
    let (ended, mut ended_peer) = open_as(&mut host, 1, &Peer::new());
    let (in_flight, _) = open_as(&mut host, 2, &Peer::new());
    let (waiting, mut slow) = open_as(&mut host, 3, &Peer { window: 1000, timestamps: None, ..Peer::new() });
    let calling = host.engine.connect("10.0.0.2:9".parse().expect("an address"), ConnectOptions::default());
    let calling = calling.expect("room");
    let syn = host.sent_one();
    let end = ended_peer.fin();
    host.give(&[end]);
    assert_eq!(host.engine.send(in_flight, &[1; 1448]), 1448);
    slow.window = 0;
    host.give(&[slow.acks()]);
    assert_eq!(host.engine.send(waiting, &[1; 100]), 100);
    host.sent();
    let fillers: Vec<_> = (10..40).map(|number| open_as(&mut host, number, &Peer::new()).0).collect();
    assert!(fillers.iter().any(|id| host.engine.send(*id, &[2; 1448]) == 0), "the memory is used up");
    host.sent();
    for id in [idle, ended, in_flight, waiting, calling] {
        host.engine.shutdown(id);
    }
    let fins =
        |sent: &[Segment]| -> Vec<_> { sent.iter().filter(|one| one.is(FIN)).map(|one| one.to).collect() };
    let ports: Vec<_> = fins(&host.sent()).iter().map(SocketAddr::port).collect();
    assert_eq!(ports, [5000, 5001, 5002]);
    // Behind the data, and behind the handshake.
    slow.window = 1000;
    assert_eq!(fins(&host.answers(&slow.acks())), [slow.here]);
    let mut called = Peer { here: syn.to, there: syn.from, ..Peer::new() };
    called.heard(&syn);
    assert_eq!(fins(&host.answers(&called.syn_ack())), [syn.to]);
}

/// Very many peers that have vanished are let go of. Whoever is there goes on.
#[test]
fn fins_take_no_memory_from_others() {
    let mut host = host(|limits| (limits.connections, limits.segment_bytes) = (8192, 1 << 20));
    let mut all = open(&mut host, 7400);
    let (id, mut honest) = all.pop().expect("one");
    for (id, _) in &all {
        host.engine.close(*id);
    }
    host.wait_millis(10);
    honest.later(10);
    let request = honest.data(b"a question");
    host.give(&[request]);
    assert_eq!((host.read(id).len(), host.engine.send(id, b"an answer")), (10, 9));
    assert!(host.sent().iter().any(|segment| segment.payload == b"an answer"));
}

/// How a connection is broken off.
#[derive(Debug, Clone, Copy)]
enum Break {
    Abort,
    /// Something was not read.
    CloseUnread,
    /// The peer goes on sending to one who has closed.
    DataForNobody,
    /// Its holder lets go of it after somebody else has ended it.
    Claimed,
}

#[test]
fn as_many_resets_leave_as_connections_are_broken_off() {
    for how in [Break::Abort, Break::CloseUnread, Break::DataForNobody, Break::Claimed] {
        let mut host = host(|limits| (limits.connections, limits.replies) = (512, 16));
        let mut all = open(&mut host, 500);
        for (id, peer) in &mut all {
            match how {
                Break::Abort => host.engine.abort(*id),
                Break::CloseUnread => {
                    host.give(&[peer.data(b"unread")]);
                    host.engine.close(*id);
                }
                Break::DataForNobody => {
                    host.engine.close(*id);
                    host.give(&[peer.data(b"for nobody")]);
                }
                Break::Claimed => {
                    let claimed = ConnId::claimed(id.index());
                    host.engine.claim(*id);
                    host.engine.abort(*id);
                    host.engine.release(claimed);
                    host.engine.close(*id);
                }
            }
            assert!(!host.engine.is_held(*id) && host.engine.at(id.index()).is_none(), "{how:?}");
        }
        assert_eq!(host.news(), [], "{how:?}: nobody is left to hear of it");
        // A device with little room.
        let mut frames = Frames::new();
        host.engine.transmit_up_to(host.now, &mut frames, 7);
        let mut sent: Vec<_> = frames.iter().filter_map(Segment::of).map(|segment| (0, segment)).collect();
        assert_eq!(sent.len(), 7, "{how:?}");
        sent.extend(host.wait_millis(1));
        assert_eq!(
            (told(&sent, RST), sent.iter().filter(|(_, one)| one.is(RST)).count()),
            (500, 500),
            "{how:?}"
        );
        let counters = host.engine.counters();
        assert_eq!(
            (counters.resets_sent, counters.replies_dropped, host.engine.connections()),
            (500, 0, 0),
            "{how:?}"
        );
        // Each is at the left edge of the peer's window, so it is believed (RFC 5961 3.2).
        let (_, peer) = &all[0];
        let (_, reset) = sent.iter().find(|(_, segment)| segment.to == peer.here).expect("one for each");
        assert_eq!(reset.seq, peer.ack, "{how:?}");
    }
}

/// The addresses and ports of one that was broken off are free at once, and its place is when the reset has left.
#[test]
fn a_reset_that_waits_holds_its_place_and_nothing_else() {
    let mut host = host(|limits| limits.connections = 2);
    let remote: SocketAddr = "10.0.0.2:5000".parse().expect("an address");
    let (from, options) = (SocketAddr::new(Peer::new().there.ip(), 2000), ConnectOptions::default());
    let (first, mut peer) = host.call(Peer::new());
    let port = peer.there;
    let request = peer.data(b"unread");
    host.give(&[request]);
    host.engine.send(first, &[1; 1000]);
    host.engine.abort(first);
    assert_eq!((host.engine.connections(), host.engine.memory().segments_in_use), (1, 0));
    let second = host.engine.connect_from(port, remote, options).expect("its name is free");
    assert!(host.engine.connect_from(from, remote, options).is_err(), "there is no place");
    // A segment for the earlier one is for nobody.
    let sent = host.sent();
    assert_eq!(sent.iter().map(|segment| segment.is(RST)).collect::<Vec<_>>(), [true, false]);
    assert_eq!((sent[0].seq, host.engine.connections()), (peer.ack, 1));
    let third = host.engine.connect_from(from, remote, options).expect("there is a place");
    assert!(third.index() == first.index() && third != first && second != first);
}

/// What a connection needs memory for that has something to send already.
#[derive(Debug, Clone, Copy)]
enum Need {
    /// The window opens for a part of a segment.
    Window,
    /// The path has become narrower.
    Path,
    /// The same, and the segment is lost.
    Loss,
}

/// How others give memory back.
#[derive(Debug, Clone, Copy)]
enum Given {
    Reset,
    Abort,
    Acknowledged,
}

/// Peers that make us cut single bytes off their segments, until not even promised memory is left. They have acknowledged none.
fn use_up(host: &mut Host) -> Vec<(ConnId, Peer)> {
    let tiny = || Peer { window: 0, scale: None, timestamps: None, ..Peer::new() };
    let mut hogs: Vec<_> = (100..108).map(|number| open_as(host, number, &tiny())).collect();
    for (id, _) in &hogs {
        host.engine.send(*id, &[7; 1448]);
    }
    let mut unanswered = 0;
    while unanswered < hogs.len() {
        unanswered = 0;
        for (_, peer) in hogs.iter_mut() {
            peer.window += 1;
            unanswered += usize::from(host.answers(&peer.acks()).is_empty());
        }
    }
    assert!(hogs.iter().all(|(_, peer)| peer.window < 64), "they have asked for more");
    hogs
}

#[test]
fn a_segment_that_there_is_no_memory_to_cut_leaves_later() {
    for need in [Need::Window, Need::Path, Need::Loss] {
        for given in [Given::Reset, Given::Abort, Given::Acknowledged] {
            let case = format!("{need:?}, {given:?}");
            let mut host = host(|limits| limits.segment_bytes = 16 * 2048);
            let (window, first, second) = match need {
                Need::Window => (0, 0, 1460),
                // A small cell, so that its ACK gives no memory for the second.
                Need::Path => (100, 100, 1460),
                Need::Loss => (1460, 1460, 0),
            };
            let peer = Peer { window, timestamps: None, scale: None, ..Peer::new() };
            let (id, mut peer) = open_as(&mut host, 0, &peer);
            host.engine.send(id, &[1; 1460][..first]);
            let first = host.sent();
            assert_eq!(host.engine.send(id, &[1; 1460][..second]), second);
            assert_eq!((first.len(), host.sent()), (usize::from(window > 0), Vec::new()), "{case}");
            let hogs = use_up(&mut host);
            let before = match need {
                Need::Window => {
                    peer.window = 800;
                    host.answers(&peer.acks())
                }
                Need::Path => {
                    // The first segment has passed all the same.
                    host.give_frame(&icmp_error(
                        "192.0.2.1".parse().expect("an address"),
                        &first[0],
                        3,
                        4,
                        1000,
                    ));
                    let mut sent = host.sent();
                    peer.heard_all(&first);
                    peer.window = 1460;
                    sent.extend(host.answers(&peer.acks()));
                    sent
                }
                Need::Loss => {
                    host.give_frame(&icmp_error(
                        "192.0.2.1".parse().expect("an address"),
                        &first[0],
                        3,
                        4,
                        1000,
                    ));
                    host.sent()
                }
            };
            assert_eq!(before, [], "{case}: there is no memory to cut it");
            for (hog, mut its_peer) in hogs {
                match given {
                    Given::Reset => host.give(&[its_peer.segment(RST)]),
                    Given::Abort => host.engine.abort(hog),
                    Given::Acknowledged => {
                        // All that it has for certain.
                        its_peer.ack = its_peer.ack.wrapping_add(u32::from(its_peer.window) - 2);
                        host.give(&[its_peer.acks()]);
                    }
                }
            }
            // No time passes, so that it is no timer.
            let mut after = host.sent();
            after.extend(host.wait_millis(1).into_iter().map(|(_, segment)| segment));
            let lengths: Vec<_> =
                after.iter().filter(|one| one.to == peer.here).map(|one| one.payload.len()).collect();
            let expected: &[usize] = match need {
                Need::Window => &[800],
                Need::Path | Need::Loss => &[960],
            };
            assert!(lengths.starts_with(expected), "{case}: {lengths:?}");
        }
    }
}

/// Windows close at once for more connections than there is room for probes.
#[test]
fn probes_of_closed_windows_are_put_off_and_not_skipped() {
    let mut host = host(|limits| limits.replies = 8);
    let closed = || Peer { window: 0, ..Peer::new() };
    let all: Vec<_> = (0..100).map(|number| open_as(&mut host, number, &closed())).collect();
    for (id, _) in &all {
        host.engine.send(*id, b"it waits");
    }
    assert_eq!(host.sent(), []);
    // All probes are due, and nothing can leave yet.
    host.now = host.engine.next_deadline().expect("probes are to come") + Duration::from_secs(2);
    host.engine.advance(host.now);
    let newcomer = Peer::new().port(9000);
    host.give(&[newcomer.syn()]);
    let mut sent = host.wait_millis(100);
    assert_eq!(
        sent.iter().filter(|(_, one)| one.is(SYN) && one.to == newcomer.here).count(),
        1,
        "it finds room"
    );
    sent.retain(|(_, segment)| !segment.is(SYN));
    assert_eq!((told(&sent, ACK), sent.len()), (100, 100));
    assert_eq!((host.engine.counters().window_probes, host.engine.counters().replies_dropped), (100, 0));
}

/// Without SACK the peer counts the ACKs: one for each segment behind a gap.
#[test]
fn duplicate_acks_that_find_no_room_follow() {
    for frames_max in 1..6 {
        let mut host = host(|_| ());
        let (_, peer) = open_as(&mut host, 0, &Peer { sack: false, ..Peer::new() });
        let behind: Vec<_> = (1..5).map(|number| peer.data_at(number * 10, b"behind")).collect();
        host.give(&behind);
        let (mut acks, mut frames) = (Vec::new(), Frames::new());
        for _ in 0..10 {
            frames.clear();
            host.engine.transmit_up_to(host.now, &mut frames, frames_max);
            acks.extend(frames.iter().filter_map(Segment::of).map(|segment| (segment.bits, segment.ack)));
        }
        assert_eq!(acks, [(ACK, peer.seq); 4], "{frames_max} frames at a time");
    }
}

/// The rest of the memory is held for good. A small message does not wait until there is room for a large one, and a large one not
/// behind small ones.
#[test]
fn a_small_message_leaves_once_there_is_memory_for_it() {
    let mut host = host(|limits| (limits.connections, limits.segment_bytes) = (64, 4 * 2048));
    let mut idle: Vec<_> = (0..32).map(|number| open_as(&mut host, number, &Peer::new())).collect();
    for (id, _) in &idle {
        assert!(host.engine.send_with(*id, 200, |room| room.fill(1)));
    }
    let sent = host.sent();
    let waiting: Vec<_> = (40..43).map(|number| open_as(&mut host, number, &Peer::new()).0).collect();
    let ways: [fn(&mut Host, ConnId) -> bool; 3] = [
        |host, id| host.engine.send(id, &[2; 1000]) == 1000,
        |host, id| host.engine.send_with(id, 100, |room| room.fill(2)),
        |host, id| host.engine.send(id, &[2; 100]) == 100,
    ];
    for (id, way) in waiting.iter().zip(ways) {
        assert!(!way(&mut host, *id), "nothing is left");
    }
    host.news();
    let mut acknowledge = |host: &mut Host| {
        let (_, mut peer) = idle.pop().expect("there are more");
        peer.heard_all(&sent.iter().filter(|segment| segment.to == peer.here).cloned().collect::<Vec<_>>());
        host.give(&[peer.acks()]);
        host.sent();
    };
    for (id, way) in waiting.iter().zip(ways).skip(1) {
        acknowledge(&mut host);
        assert_eq!(host.news(), [(*id, Events::WRITABLE)]);
        assert!(way(&mut host, *id));
        host.sent();
        assert!(host.engine.next_deadline().is_none_or(|next| next > host.now), "nobody spins");
    }
    for round in 0..8 {
        assert_eq!(host.news(), [], "{round}");
        acknowledge(&mut host);
    }
    assert_eq!(host.news(), [(waiting[0], Events::WRITABLE)]);
    assert!(ways[0](&mut host, waiting[0]));
}

/// Users that find no memory again and again are remembered once each.
#[test]
fn who_waits_for_memory_takes_none() {
    let mut host = host(|limits| (limits.connections, limits.segment_bytes) = (64, 16 * 2048));
    let hogs: Vec<_> = (0..20).map(|number| open_as(&mut host, number, &Peer::new()).0).collect();
    assert!(hogs.iter().any(|id| host.engine.send(*id, &[1; 1448]) < 1448));
    host.sent();
    let mut total = 0;
    for round in 0..2000 {
        let (id, peer) = open_as(&mut host, 100 + round % 100, &Peer::new());
        assert_eq!((host.engine.send(id, &[1; 100]), host.engine.send(id, b"again")), (0, 0));
        host.give(&[peer.segment(RST)]);
        host.engine.close(id);
        host.news();
        // So long that no timer remembers it.
        host.wait_millis(50);
        if round == 500 {
            total = host.engine.memory().total();
        }
    }
    let after = host.engine.memory().total();
    assert!(after <= total, "{total} bytes, and {after} later");
    // Those that are there hear of room all the same.
    let (id, _) = open_as(&mut host, 300, &Peer::new());
    assert_eq!(host.engine.send(id, b"later"), 0);
    for hog in hogs {
        host.engine.abort(hog);
    }
    host.wait_millis(1);
    assert_eq!(host.news().iter().filter(|(waiting, _)| *waiting == id).count(), 1);
    assert_eq!(host.engine.send(id, b"later"), 5);
}
