//! Each direction ends for itself (RFC 9293 3.6): after our FIN the peer still sends, after the peer's FIN we still do.

use anywire_tcp::{End, Events, Status};

use crate::common::host::{Host, Peer};
use crate::common::wire::{ACK, FIN, RST, Segment};

#[test]
fn after_our_fin_the_peer_still_sends() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.send(id, b"last words");
    host.engine.shutdown(id);
    let fin = host.sent_one();
    assert!(fin.is(FIN) && fin.payload == b"last words", "with the last data: {fin:?}");
    assert_eq!(host.engine.send(id, b"more"), 0, "nothing goes behind it");
    peer.heard(&fin);
    host.give(&[peer.acks()]);
    for _ in 0..3 {
        let data = peer.data(&[7; 1000]);
        host.give(&[data]);
        assert_eq!(host.read(id), [7; 1000]);
    }
    let answers = host.answers(&peer.fin());
    assert_eq!(answers.last().map(|ack| (ack.bits, ack.ack)), Some((ACK, peer.seq)));
    assert!(host.engine.is_finished(id));
    host.engine.close(id);
    assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (0, 1));
    assert_eq!(host.engine.counters().closed, 1);
}

#[test]
fn after_the_peers_fin_we_still_send() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let (data, fin) = (peer.data(b"question"), peer.fin());
    let _ = host.news();
    host.give(&[data, fin]);
    assert!(matches!(host.news()[..], [(_, events)] if events.has(Events::READABLE)));
    assert_eq!(host.engine.status(id), Status::PeerClosed);
    assert!(!host.engine.is_finished(id), "something is to be read");
    assert_eq!(host.read(id), b"question");
    assert!(host.engine.is_finished(id));
    host.sent();
    host.engine.send(id, &[1; 5000]);
    host.engine.close(id);
    let sent = host.sent();
    assert_eq!(sent.iter().map(|segment| segment.payload.len()).sum::<usize>(), 5000);
    assert!(sent.last().unwrap().is(FIN));
    peer.heard_all(&sent);
    host.give(&[peer.acks()]);
    assert_eq!(
        (host.engine.connections(), host.engine.in_time_wait()),
        (0, 0),
        "LAST-ACK ends without TIME-WAIT"
    );
}

#[test]
fn both_in_one_segment_with_data() {
    let mut host = Host::new();
    let (id, mut peer) = host.call(Peer::new());
    host.engine.shutdown(id);
    let fin = host.sent_one();
    peer.heard(&fin);
    let mut last = peer.data(b"bye");
    last.bits = FIN | ACK;
    peer.seq += 1;
    let answers = host.answers(&last);
    assert_eq!(answers[0].ack, peer.seq);
    assert_eq!(host.read(id), b"bye");
    assert!(host.engine.is_finished(id));
    // The user hears of the end when TIME-WAIT is over, and may close before.
    host.engine.close(id);
    assert_eq!(host.engine.in_time_wait(), 1);
}

/// Whether or not its transmission was taken for lost before.
#[test]
fn an_ack_of_all_but_the_fin_leaves_the_fin() {
    for peer in [Peer::new(), Peer::plain()] {
        for is_late in [false, true] {
            let mut host = Host::new();
            let (id, mut peer) = host.accept(peer.clone());
            host.engine.send(id, &[1; 100]);
            host.engine.shutdown(id);
            let sent = host.sent_one();
            assert!(sent.is(FIN) && sent.payload.len() == 100, "{sent:?}");
            if is_late {
                let again = host.wait_millis(1500);
                assert!(!again.is_empty() && again.iter().all(|(_, one)| one.end() == sent.end()));
            }
            peer.ack = sent.end().wrapping_sub(1);
            let mut answers = host.answers(&peer.acks());
            answers.extend(host.wait_millis(5000).into_iter().map(|(_, segment)| segment));
            let is_fin = |one: &Segment| one.is(FIN) && one.payload.is_empty() && one.seq == peer.ack;
            assert!(!answers.is_empty() && answers.iter().all(is_fin), "{answers:?}");
            peer.ack = sent.end();
            host.give(&[peer.acks()]);
            let _ = host.sent();
            assert_eq!(host.wait_millis(60_000), [], "nothing is left to send");
            let fin = peer.fin();
            assert_eq!(host.answers(&fin).last().map(|ack| ack.ack), Some(peer.seq));
            host.engine.close(id);
            assert_eq!((host.engine.in_time_wait(), host.engine.memory().segments_in_use), (1, 0));
        }
    }
}

#[test]
fn a_fin_that_was_queued_before_the_handshake_leaves_after_it() {
    let mut host = Host::new();
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    host.engine.send(id, b"all");
    host.engine.shutdown(id);
    let syn = host.sent_one();
    let mut peer = Peer { there: syn.from, ..Peer::new() };
    peer.heard(&syn);
    let sent = host.answers(&peer.syn_ack());
    assert!(matches!(&sent[..], [one] if one.is(FIN) && one.payload == b"all"), "{sent:?}");
    peer.seq += 1;
    peer.heard_all(&sent);
    host.give(&[peer.acks()]);
    host.give(&[peer.fin()]);
    assert!(host.engine.is_finished(id));
    host.engine.close(id);
    assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (0, 1));
}

#[test]
fn data_for_one_who_has_closed_is_reset_but_what_is_old_is_not() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    let old = peer.data(b"read before");
    host.give(std::slice::from_ref(&old));
    host.read(id);
    host.engine.close(id);
    peer.heard_all(&host.sent());
    // The same again with the FIN: nothing in it is lost.
    let again = peer.clone();
    let mut both = old;
    both.bits = both.bits | FIN;
    both.ack = again.ack;
    let answers = host.answers(&both);
    assert!(answers.iter().all(|answer| !answer.is(RST)), "{answers:?}");
    assert_eq!(host.engine.in_time_wait(), 1);

    // RFC 9293 3.6.1, MUST-12; RFC 2525 2.17: data arrives after the user has closed.
    let (id, mut peer) = host.accept(Peer::new().port(5001));
    host.engine.close(id);
    peer.heard_all(&host.sent());
    let data = peer.data(b"unwanted");
    let answers = host.answers(&data);
    assert!(matches!(&answers[..], [one] if one.is(RST) && one.seq == peer.ack), "{answers:?}");
    assert_eq!(host.engine.connections(), 0);
}

#[test]
fn closing_with_unread_data_resets() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.give(&[peer.data(b"unread")]);
    host.engine.close(id);
    let answers = host.sent();
    assert!(answers.iter().any(|answer| answer.is(RST)), "{answers:?}");
    assert_eq!(host.engine.memory().segments_in_use, 0);
    assert_eq!(host.engine.connections(), 0);
}

#[test]
fn fin_wait_2_of_one_who_has_closed_ends_by_itself() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.close(id);
    peer.heard_all(&host.sent());
    host.give(&[peer.acks()]);
    host.wait_millis(59_000);
    assert_eq!(host.engine.connections(), 1);
    host.wait_millis(2_000);
    assert_eq!(host.engine.connections(), 0);
    // A user who holds it may wait for as long as it likes.
    let (id, mut peer) = host.accept(Peer::new().port(5001));
    host.engine.shutdown(id);
    peer.heard_all(&host.sent());
    host.give(&[peer.acks()]);
    host.wait_millis(1_000_000);
    assert_eq!(host.engine.status(id), Status::Open);
    host.give(&[peer.fin()]);
    host.wait_millis(61_000);
    assert_eq!(host.engine.status(id), Status::Ended(End::Closed));
    host.engine.close(id);
    assert_eq!(host.engine.connections(), 0);
}
