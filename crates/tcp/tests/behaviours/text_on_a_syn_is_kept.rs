//! Text and FIN that come with a SYN-ACK, or with the SYN of a simultaneous open, are kept: they are in order. The user gets them once
//! the connection is open (RFC 9293 3.10.7.3, fourth: "other controls or text").

use anywire_tcp::{ConnId, ConnectOptions, End, Events, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, Bits, FIN, RST, SYN, Segment};

const TEXT: &[u8] = b"welcome";

/// A connection whose SYN has left.
fn calling(peer: &Peer) -> (Host, ConnId, Peer) {
    let mut host = Host::new();
    let id = host.engine.connect(peer.here, ConnectOptions::default()).expect("a connection");
    let syn = host.sent_one();
    let mut peer = Peer { there: syn.from, ..peer.clone() };
    peer.heard(&syn);
    (host, id, peer)
}

fn with_text(segment: Segment, bits: Bits, text: &[u8]) -> Segment {
    Segment { payload: text.to_vec(), bits: segment.bits | bits, ..segment }
}

fn are_open_and_readable(events: Events) -> bool {
    events.has(Events::OPENED) && events.has(Events::READABLE)
}

fn peers() -> [Peer; 3] {
    [Peer::new(), Peer::plain(), Peer::v6()]
}

#[test]
fn on_a_syn_ack() {
    for (peer, fin) in peers().into_iter().flat_map(|peer| [(peer.clone(), false), (peer, true)]) {
        let (mut host, id, peer) = calling(&peer);
        let end = if fin { FIN } else { Bits::default() };
        let answer = host.answers(&with_text(peer.syn_ack(), end, TEXT)).remove(0);
        assert_eq!(answer.ack.wrapping_sub(peer.seq), 8 + u32::from(fin), "all of it is acknowledged");
        let news = host.news();
        assert!(matches!(news[..], [(_, events)] if are_open_and_readable(events)), "{news:?}");
        assert_eq!((host.read(id), host.engine.is_finished(id)), (TEXT.to_vec(), fin));
        assert_eq!(host.engine.memory().segments_in_use, 0);
    }
}

/// Both SYNs cross, and the peer's has text. It is the user's with each of the segments that may open the connection, whether
/// that has the text again or not.
#[test]
fn on_the_syn_of_a_simultaneous_open() {
    for (peer, fin) in peers().into_iter().flat_map(|peer| [(peer.clone(), false), (peer, true)]) {
        let end = if fin { FIN } else { Bits::default() };
        type Open = fn(&Peer, Bits) -> Segment;
        let opening: [Open; 4] = [
            |peer, end| Segment {
                seq: peer.seq.wrapping_add(7 + u32::from(end.has(FIN))),
                ..peer.segment(ACK)
            },
            |peer, end| with_text(peer.segment(ACK), end, TEXT),
            |peer, _| Segment { seq: peer.seq.wrapping_sub(1), ..peer.syn_ack() },
            |peer, end| with_text(Segment { seq: peer.seq.wrapping_sub(1), ..peer.syn_ack() }, end, TEXT),
        ];
        for open in opening {
            let (mut host, id, mut peer) = calling(&peer);
            let answer = host.answers(&with_text(peer.syn(), end, TEXT)).remove(0);
            assert!(answer.is(SYN | ACK));
            peer.heard(&answer);
            // The same SYN again changes nothing.
            let again = host.answers(&with_text(peer.syn(), end, TEXT));
            assert!(again.iter().all(|answer| answer.is(SYN | ACK)), "{again:?}");
            assert_eq!(
                (host.news(), host.engine.readable(id), host.read(id)),
                (vec![], 0, vec![]),
                "not open yet"
            );
            peer.seq = peer.seq.wrapping_add(1);
            host.give(&[open(&peer, end)]);
            // Alone it may wait for company, as the ACK of any text.
            let answer = host.wait_millis(50).pop().expect("an ACK").1;
            assert_eq!(answer.ack.wrapping_sub(peer.seq), 7 + u32::from(fin), "all of it is acknowledged");
            let news = host.news();
            assert!(matches!(news[..], [(of, all)] if of == id && are_open_and_readable(all)), "{news:?}");
            assert_eq!((host.read(id), host.engine.is_finished(id)), (TEXT.to_vec(), fin));
            assert_eq!(host.engine.memory().segments_in_use, 0);
        }
    }
}

/// What is beyond the window of our SYN comes again.
#[test]
fn no_more_than_the_window_takes() {
    let (mut settings, window) = (settings(), 1000);
    settings.receive_window = window;
    let mut host = Host::with(settings, small_limits());
    let peer = Peer::new();
    let id = host.engine.connect(peer.here, ConnectOptions::default()).expect("a connection");
    let syn = host.sent_one();
    let mut peer = Peer { there: syn.from, ..peer };
    peer.heard(&syn);
    let answer = host.answers(&with_text(peer.syn_ack(), FIN, &[b'x'; 1400])).remove(0);
    assert_eq!((answer.ack.wrapping_sub(peer.seq), answer.window), (1001, 0));
    assert_eq!((host.read(id).len(), host.engine.is_finished(id)), (1000, false));
}

/// A reset in between takes the text away, and whoever has closed meanwhile does not read it: the peer learns that (MUST-12).
#[test]
fn it_goes_with_a_connection_that_does_not_open() {
    let crossed = || {
        let (mut host, id, mut peer) = calling(&Peer::new());
        let answer = host.answers(&with_text(peer.syn(), Bits::default(), TEXT)).remove(0);
        peer.heard(&answer);
        peer.seq = peer.seq.wrapping_add(1);
        (host, id, peer)
    };
    let (mut host, id, peer) = crossed();
    host.give(&[peer.segment(RST)]);
    assert_eq!((host.engine.status(id), host.read(id)), (Status::Ended(End::Refused), vec![]));
    assert_eq!(host.engine.memory().segments_in_use, 0);

    let (mut host, id, peer) = crossed();
    host.engine.close(id);
    let sent = host.answers(&Segment { seq: peer.seq.wrapping_add(7), ..peer.segment(ACK) });
    assert!(sent.last().is_some_and(|last| last.is(RST)), "{sent:?}");
    assert_eq!((host.engine.connections(), host.engine.memory().segments_in_use), (0, 0));
}
