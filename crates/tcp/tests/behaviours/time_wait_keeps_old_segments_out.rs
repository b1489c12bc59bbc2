//! TIME-WAIT (RFC 9293 3.6.1): its answers, its duration, and its end for a new connection (RFC 6191, RFC 1337).

use std::time::Duration;

use anywire_tcp::{ConnId, ConnectError, ConnectOptions, End, Events, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, FIN, RST, SYN, Segment};

/// A connection that we have closed first.
fn closed(host: &mut Host, peer: Peer) -> Peer {
    let peer = ended(host, peer).1;
    assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (0, 1));
    peer
}

/// The same, and with its id.
fn ended(host: &mut Host, peer: Peer) -> (ConnId, Peer) {
    let (id, peer) = in_time_wait(host, peer);
    host.engine.close(id);
    (id, peer)
}

/// The same of which the user has not let go yet.
fn in_time_wait(host: &mut Host, peer: Peer) -> (ConnId, Peer) {
    let (id, mut peer) = host.accept(peer);
    host.engine.shutdown(id);
    peer.heard_all(&host.sent());
    let ack = host.answers(&peer.fin());
    assert_eq!(ack.last().map(|ack| ack.ack), Some(peer.seq));
    assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (1, 0));
    (id, peer)
}

#[test]
fn a_fin_again_is_acknowledged_again_and_a_reset_changes_nothing() {
    let mut host = Host::new();
    let peer = closed(&mut host, Peer::new());
    let fin = Segment { seq: peer.seq.wrapping_sub(1), ..peer.clone().fin() };
    let answer = host.answers(&fin).remove(0);
    assert_eq!((answer.bits, answer.seq, answer.ack), (ACK, peer.ack, peer.seq));
    assert_eq!(host.answers(&peer.segment(RST)), [], "RFC 1337");
    assert_eq!(host.answers(&peer.acks()), [], "an ACK in order needs no answer");
    assert_eq!(host.engine.in_time_wait(), 1);
    host.wait(Duration::from_secs(59));
    assert_eq!(host.engine.in_time_wait(), 1);
    host.wait(Duration::from_secs(2));
    assert_eq!(host.engine.in_time_wait(), 0);
    assert_eq!(host.answers(&fin)[0].bits, RST, "nobody knows it any more");
}

/// Whether a user still holds the old connection or not.
#[test]
fn a_newer_syn_opens_a_new_connection() {
    for is_held in [false, true] {
        let wait = |peer: Peer| {
            let mut host = Host::new();
            let (id, peer) = if is_held { in_time_wait(&mut host, peer) } else { ended(&mut host, peer) };
            host.news();
            (host, id, peer)
        };
        // By the timestamps, whatever the number.
        let (mut host, id, mut peer) = wait(Peer::new());
        let old_end = peer.ack;
        let old = Peer { timestamps: Some((49_000, 0)), seq: peer.seq + 10, ..peer.clone() };
        let answer = host.answers(&old.syn()).remove(0);
        assert_eq!(answer.bits, ACK, "an old one is told where we are");
        peer.later(1000);
        peer.seq = peer.seq.wrapping_sub(100_000);
        let answer = host.answers(&peer.syn()).remove(0);
        assert_eq!(answer.bits, SYN | ACK);
        assert!(answer.seq.wrapping_sub(old_end) as i32 > 0, "a number behind all that was used");
        assert_eq!((host.engine.in_time_wait(), host.engine.counters().time_wait_reused), (0, 1));
        // Its user hears of the end, and the new one opens beside it.
        assert_eq!(host.engine.status(id), Status::Ended(End::Closed));
        let closed = host.news().iter().filter(|(_, events)| events.has(Events::CLOSED)).count();
        assert_eq!(closed, usize::from(is_held));
        peer.heard(&answer);
        peer.seq = peer.seq.wrapping_add(1);
        host.give(&[peer.data(b"next")]);
        let next = host.news()[0].0;
        assert_eq!(host.read(next), b"next");
        host.engine.close(id);
        assert_eq!((host.engine.status(next), host.engine.connections()), (Status::Open, 1));

        // If the clock has not moved on, by the number (RFC 6191, section 2).
        let (mut host, _, peer) = wait(Peer::new());
        let old = Segment { seq: peer.seq.wrapping_sub(100), ..peer.syn() };
        assert_eq!(host.answers(&old)[0].bits, ACK);
        assert_eq!(host.answers(&Segment { seq: peer.seq + 100, ..peer.syn() })[0].bits, SYN | ACK);

        // With a clock where there was none, whatever the number.
        let (mut host, _, peer) = wait(Peer::plain());
        let new = Peer { seq: peer.seq.wrapping_sub(100), ..Peer::new() };
        assert_eq!(host.answers(&new.syn())[0].bits, SYN | ACK);

        // Without, by the number.
        let (mut host, _, peer) = wait(Peer::plain());
        let old = Segment { seq: peer.seq.wrapping_sub(100), ..peer.syn() };
        assert_eq!(host.answers(&old)[0].bits, ACK);
        let new = Segment { seq: peer.seq + 100, ..peer.syn() };
        let answer = host.answers(&new).remove(0);
        assert_eq!(answer.bits, SYN | ACK);
        assert!(answer.seq.wrapping_sub(peer.ack) as i32 > 0);

        // Nobody listens any more: there is nothing to open.
        let (mut host, id, peer) = wait(Peer::new());
        host.engine.stop_listening_anywhere();
        assert_eq!(host.answers(&Segment { seq: peer.seq + 100, ..peer.syn() })[0].bits, ACK);
        let is_there = host.engine.in_time_wait() == 1 || host.engine.status(id) == Status::PeerClosed;
        assert!(is_there, "held: {is_held}");
    }
}

/// Without timestamps of ours every connection is without, and the peer offers them with each SYN: the number decides.
#[test]
fn the_first_syn_once_more_opens_nothing_though_timestamps_are_off() {
    for is_held in [false, true] {
        let mut settings = settings();
        settings.timestamps = false;
        let mut host = Host::with(settings, small_limits());
        let first = Peer::new().syn();
        let (_, peer) =
            if is_held { in_time_wait(&mut host, Peer::new()) } else { ended(&mut host, Peer::new()) };
        host.wait_millis(1000);
        assert_eq!(host.answers(&first)[0].bits, ACK);
        assert_eq!((host.engine.half_open(), host.engine.counters().time_wait_reused), (0, 0));
        let newer = Segment { seq: peer.seq + 100, timestamps: first.timestamps, ..peer.syn() };
        assert_eq!(host.answers(&newer)[0].bits, SYN | ACK);
    }
}

/// RFC 9293 3.10.7.4, eighth: "Acknowledge it, and restart the 2 MSL timeout". The ACK of the FIN may be lost more than once.
#[test]
fn a_fin_again_starts_it_anew() {
    for is_held in [false, true] {
        let mut host = Host::new();
        let (id, mut peer) =
            if is_held { in_time_wait(&mut host, Peer::new()) } else { ended(&mut host, Peer::new()) };
        let fin = Segment { seq: peer.seq.wrapping_sub(1), ..peer.segment(ACK | FIN) };
        for seconds in [50, 50, 50] {
            host.wait(Duration::from_secs(seconds));
            assert_eq!(host.answers(&fin)[0].bits, ACK, "held: {is_held}");
        }
        // Nothing else does, and neither does a FIN with another number.
        host.wait(Duration::from_secs(50));
        peer.seq = peer.seq.wrapping_sub(2);
        host.answers(&peer.segment(ACK | FIN));
        host.answers(&peer.data(b"x"));
        host.wait(Duration::from_secs(11));
        assert_eq!(host.answers(&fin)[0].bits, RST, "held: {is_held}");
        host.engine.close(id);
        assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (0, 0));
    }
}

/// A peer that starts them anew as often as it gets an answer, behind one that it leaves alone.
#[test]
fn starting_them_anew_takes_no_memory() {
    let mut host = Host::new();
    let mut fins: Vec<_> = (0..251)
        .map(|number| {
            let (id, mut peer) = host.accept(Peer::new().port(6000 + number));
            host.engine.shutdown(id);
            peer.heard_all(&host.sent());
            host.answers(&peer.fin());
            host.engine.close(id);
            Segment { seq: peer.seq.wrapping_sub(1), ..peer.segment(ACK | FIN) }
        })
        .collect();
    fins.remove(0);
    let before = host.engine.memory().others;
    for _ in 0..90 {
        host.wait_millis(600);
        assert!(fins.iter().all(|fin| host.answers(fin)[0].bits == ACK));
    }
    assert_eq!(host.engine.in_time_wait(), 251, "the first one's time is not over");
    let more = host.engine.memory().others - before;
    assert!(more < 64_000, "{more} bytes for 22,500 segments");
    host.wait(Duration::from_secs(10));
    assert_eq!(host.engine.in_time_wait(), 250);
    host.wait(Duration::from_secs(51));
    assert_eq!(host.engine.in_time_wait(), 0);
}

/// RFC 6191 2, RFC 9293 MAY-2: it ends when the next connection is there, and a SYN that only gets a cookie may be forged.
#[test]
fn a_cookie_ends_it_when_it_comes_back() {
    for is_held in [false, true] {
        let mut limits = small_limits();
        limits.half_open = 1;
        let mut host = Host::with(settings(), limits);
        let (id, mut peer) =
            if is_held { in_time_wait(&mut host, Peer::new()) } else { ended(&mut host, Peer::new()) };
        host.news();
        assert_eq!(host.answers(&Peer::new().port(6000).syn()).len(), 1);
        assert_eq!(host.engine.half_open(), 1, "full");
        let fin = Segment { seq: peer.seq.wrapping_sub(1), ..peer.segment(ACK | FIN) };
        peer.later(1000);
        let old_end = peer.ack;
        peer.seq = peer.seq.wrapping_add(5000);
        let answer = host.answers(&peer.syn()).remove(0);
        assert_eq!((answer.bits, host.engine.counters().cookies_sent), (SYN | ACK, 1));
        // The old one is still there: its peer may be the one to hear.
        assert_eq!(host.answers(&fin)[0].seq, old_end, "held: {is_held}");
        assert_eq!(host.engine.counters().time_wait_reused, 0);
        // What brings no cookie opens nothing.
        peer.seq = peer.seq.wrapping_add(1);
        peer.ack = answer.seq.wrapping_add(2);
        host.give(&[peer.acks()]);
        assert_eq!((host.news(), host.engine.counters().cookies_accepted), (vec![], 0));
        peer.heard(&answer);
        host.give(&[peer.data(b"next")]);
        let next = host.news().iter().find(|(_, events)| events.has(Events::INCOMING)).expect("it opens").0;
        assert_eq!((host.read(next), host.engine.in_time_wait()), (b"next".to_vec(), 0));
        assert_eq!(host.engine.counters().time_wait_reused, 1);
        assert_eq!(host.engine.status(id), Status::Ended(End::Closed));
    }
}

/// While half-open connections have no room, a SYN is answered by a cookie. Its number cannot be behind the last one, so only
/// timestamps would tell old segments from new ones.
#[test]
fn without_room_for_a_number_of_our_choice_only_timestamps_open_a_new_connection() {
    for (peer, is_held, bits) in [
        (Peer::new(), true, SYN | ACK),
        (Peer::new(), false, SYN | ACK),
        (Peer::plain(), true, ACK),
        (Peer::plain(), false, ACK),
    ] {
        let mut limits = small_limits();
        limits.half_open = 4;
        let mut host = Host::with(settings(), limits);
        let (id, mut peer) = in_time_wait(&mut host, peer);
        if !is_held {
            host.engine.close(id);
        }
        for port in 1..=4 {
            host.answers(&Peer::new().port(port).syn());
        }
        peer.later(1000);
        peer.seq = peer.seq.wrapping_add(100);
        let answer = host.answers(&peer.syn()).remove(0);
        assert_eq!((answer.bits, host.engine.half_open()), (bits, 4), "held: {is_held}");
    }
}

/// Both ends have said all (RFC 9293 3.10.5).
#[test]
fn giving_it_up_sends_no_reset() {
    let mut host = Host::new();
    let (id, _) = in_time_wait(&mut host, Peer::new());
    host.engine.abort(id);
    assert_eq!((host.sent(), host.engine.connections(), host.engine.counters().resets_sent), (vec![], 0, 0));
}

#[test]
fn what_has_arrived_stays_when_a_newer_syn_comes() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::v6());
    host.engine.shutdown(id);
    peer.heard_all(&host.sent());
    host.give(&[peer.data(b"the last words"), peer.clone().fin()]);
    host.sent();
    peer.seq = peer.seq.wrapping_add(1000);
    assert_eq!(host.answers(&peer.syn())[0].bits, SYN | ACK);
    assert_eq!(host.engine.status(id), Status::Ended(End::Closed));
    assert_eq!(host.read(id), b"the last words");
    host.engine.close(id);
    assert_eq!((host.engine.connections(), host.engine.half_open()), (0, 1));
}

#[test]
fn a_fast_connection_that_outran_the_clock_still_gets_a_number_behind_its_last() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer { scale: Some(14), ..Peer::plain() });
    // Ten megabytes in no time: the clock of initial numbers has gone on by nothing.
    for _ in 0..100 {
        host.engine.send(id, &[1; 100_000]);
        while host.engine.memory().segments_in_use > 0 {
            peer.heard_all(&host.sent());
            host.give(&[peer.acks()]);
        }
    }
    host.engine.close(id);
    peer.heard_all(&host.sent());
    host.answers(&peer.fin());
    let new = Segment { seq: peer.seq + 100, ..peer.syn() };
    let answer = host.answers(&new).remove(0);
    assert_eq!(answer.bits, SYN | ACK);
    assert!(answer.seq.wrapping_sub(peer.ack) as i32 > 0, "{} for {}", answer.seq, peer.ack);
}

#[test]
fn we_open_again_over_a_time_wait_only_with_timestamps() {
    for (has_timestamps, is_held) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut host = Host::new();
        let peer = if has_timestamps { Peer::new() } else { Peer::plain() };
        let (id, mut peer) = host.call(peer);
        host.engine.shutdown(id);
        peer.heard_all(&host.sent());
        host.answers(&peer.fin());
        if !is_held {
            host.engine.close(id);
        }
        assert_eq!(host.engine.in_time_wait(), usize::from(!is_held));
        let again = host.engine.connect_from(peer.there, peer.here, ConnectOptions::default());
        if has_timestamps {
            let syn = host.sent_one();
            assert!(again.is_ok() && syn.bits == SYN && syn.seq.wrapping_sub(peer.ack) as i32 > 0);
            assert_eq!((host.engine.in_time_wait(), host.engine.counters().time_wait_reused), (0, 1));
            assert_eq!(host.engine.status(id), Status::Ended(End::Closed));
        } else {
            assert_eq!(again, Err(ConnectError::InUse));
        }
    }
}

#[test]
fn more_than_the_limit_push_the_oldest_out() {
    let mut limits = small_limits();
    limits.time_wait = 10;
    let mut host = Host::with(settings(), limits);
    for port in 0..25 {
        closed_nth(&mut host, port);
    }
    assert_eq!((host.engine.in_time_wait(), host.engine.counters().time_wait_evicted), (10, 15));
    let first = Peer::new().port(5000);
    let last = Peer::new().port(5024);
    assert_eq!(host.answers(&first.segment(ACK))[0].bits, RST);
    assert_eq!(host.answers(&last.segment(ACK))[0].bits, ACK);
}

fn closed_nth(host: &mut Host, port: u16) {
    let (id, mut peer) = host.accept(Peer::new().port(5000 + port));
    host.engine.close(id);
    peer.heard_all(&host.sent());
    host.answers(&peer.fin());
}

#[test]
fn one_that_was_taken_over_delays_no_other() {
    let mut host = Host::new();
    let mut first = closed(&mut host, Peer::new());
    host.wait(Duration::from_secs(1));
    closed_nth(&mut host, 1);
    host.wait(Duration::from_secs(30));
    // The first gives way, and the connection that follows ends as well.
    first.later(40_000);
    first.seq = first.seq.wrapping_add(1000);
    let (id, mut again) = host.accept(first);
    host.engine.close(id);
    again.heard_all(&host.sent());
    host.answers(&again.fin());
    assert_eq!(host.engine.in_time_wait(), 2);
    host.wait(Duration::from_secs(32));
    assert_eq!(host.engine.in_time_wait(), 1, "the second has gone in its time");
    host.wait(Duration::from_secs(30));
    assert_eq!(host.engine.in_time_wait(), 0);
}

#[test]
fn a_time_wait_of_zero_leaves_at_once() {
    let mut settings = settings();
    settings.time_wait = Duration::ZERO;
    let mut host = Host::with(settings, small_limits());
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.close(id);
    peer.heard_all(&host.sent());
    assert_eq!(host.answers(&peer.fin())[0].ack, peer.seq, "its last ACK leaves");
    assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (0, 0));
}
