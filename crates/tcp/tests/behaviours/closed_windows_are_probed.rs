//! A window that closes and opens again, from both sides (RFC 9293 3.8.6.1), and windows that are too small to be worth a
//! segment (3.8.6.2).

use std::time::Duration;

use anywire_tcp::{ConnectOptions, End, Status};

use crate::common::host::{Host, Peer, engine, settings, small_limits};
use crate::common::network::{Impairment, Network};
use crate::common::random::Random;
use crate::common::wire::{ACK, FIN, RST, Segment};

fn no_nagle() -> ConnectOptions {
    ConnectOptions { no_nagle: true, ..ConnectOptions::default() }
}

/// Fills the peer's window of `window` bytes and acknowledges it closed; more waits.
fn closed(host: &mut Host, window: u16) -> (anywire_tcp::ConnId, Peer) {
    let (id, mut peer) = host.accept(Peer { window, ..Peer::new() });
    host.engine.send(id, &[1; 10_000]);
    let sent = host.sent();
    assert_eq!(sent.iter().map(|segment| segment.payload.len()).sum::<usize>(), usize::from(window));
    peer.heard_all(&sent);
    peer.window = 0;
    assert_eq!(host.answers(&peer.acks()), []);
    (id, peer)
}

#[test]
fn a_closed_window_is_probed_at_growing_intervals_for_as_long_as_the_peer_answers() {
    let mut host = Host::new();
    let (id, peer) = closed(&mut host, 2896);
    let mut gaps = Vec::new();
    let mut last = host.millis();
    for _ in 0..20 {
        let probe = loop {
            let deadline = host.engine.next_deadline().expect("a probe is to come");
            host.now = deadline.max(host.now);
            let mut sent = host.sent();
            assert!(sent.len() < 2);
            if let Some(probe) = sent.pop() {
                break probe;
            }
        };
        // A segment that the peer must answer: its number is below the window, so nothing of it is ever taken twice.
        assert_eq!((probe.seq, probe.payload.len(), probe.bits), (peer.ack.wrapping_sub(1), 0, ACK));
        gaps.push(host.millis() - last);
        last = host.millis();
        host.give(&[peer.acks()]);
    }
    assert!(gaps[0] >= 200 && gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
    assert_eq!(*gaps.last().unwrap(), 60_000);
    // RFC 9293 MUST-37: for ten minutes and more.
    assert_eq!((host.engine.status(id), host.engine.counters().window_probes), (Status::Open, 20));
}

#[test]
fn the_answer_to_a_probe_opens_the_window_again() {
    let mut host = Host::new();
    let (_, mut peer) = closed(&mut host, 2896);
    assert!(!host.wait_millis(2000).is_empty());
    peer.window = 10_000;
    let sent = host.answers(&peer.acks());
    assert_eq!(sent.len(), 4, "the rest waits for these: Nagle");
    peer.heard_all(&sent);
    let rest = host.answers(&peer.acks());
    assert_eq!(rest.iter().map(|segment| segment.payload.len()).sum::<usize>(), 10_000 - 5 * 1448 - 1448);
    peer.heard_all(&rest);
    host.give(&[peer.acks()]);
    assert_eq!(host.wait(Duration::from_secs(100)), []);
    assert_eq!(host.engine.memory().segments_in_use, 0);
}

#[test]
fn a_peer_that_does_not_answer_probes_is_given_up() {
    let mut host = Host::new();
    let (id, _) = closed(&mut host, 2896);
    host.wait(Duration::from_secs(250));
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
}

#[test]
fn a_peer_that_answers_for_ever_keeps_no_connection_that_nobody_holds() {
    let mut host = Host::new();
    let (id, peer) = closed(&mut host, 2896);
    host.engine.close(id);
    for _ in 0..400 {
        host.wait_millis(1000);
        host.give(&[peer.acks()]);
    }
    assert_eq!((host.engine.connections(), host.engine.counters().timed_out), (0, 1));
}

#[test]
fn a_window_that_is_taken_back_is_stood() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer { window: 10_000, ..Peer::new() });
    host.engine.send(id, &[1; 20_000]);
    let sent = host.sent();
    peer.heard(&sent[0]);
    // SND.UNA + SND.WND is now far to the left of SND.NXT (RFC 9293 MUST-34).
    peer.window = 100;
    assert_eq!(host.answers(&peer.acks()), []);
    peer.heard_all(&sent[1..]);
    peer.window = 20_000;
    let more = host.answers(&peer.acks());
    assert_eq!(more[0].seq, sent.last().unwrap().end());
}

/// RFC 9293 3.10.7.4, first: a peer at window 0 accepts RCV.NXT alone, and so neither an ACK nor a reset with SND.NXT.
#[test]
fn a_peer_that_has_taken_its_window_back_accepts_acks_and_resets() {
    for (window, scale) in [(0, 0), (100, 0), (1, 7)] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(Peer { window: 10_000, scale: Some(scale), ..Peer::new() });
        host.engine.send(id, &[1; 4 * 1448]);
        assert_eq!(host.sent().len(), 4);
        peer.window = window;
        host.give(&[peer.acks()]);
        let end = peer.ack + (u32::from(window) << scale);
        let accepts = |segment: &Segment| (peer.ack..=end).contains(&segment.seq);
        let ack = host.answers(&peer.clone().data_at(10, b"x")).remove(0);
        assert!(ack.bits == ACK && accepts(&ack), "{ack:?} for {} to {end}", peer.ack);
        let data = peer.clone().data(&[1; 1448]);
        host.give(&[data]);
        host.read(id);
        let acks = host.wait_millis(50);
        assert!(acks.len() == 1 && accepts(&acks[0].1), "{acks:?} for {} to {end}", peer.ack);
        host.engine.abort(id);
        let reset = host.sent_one();
        assert!(reset.is(RST) && accepts(&reset), "{reset:?} for {} to {end}", peer.ack);
    }
}

/// RFC 9293 3.8.6, SHLD-17 and MUST-35.
#[test]
fn a_window_taken_back_to_zero_ends_no_connection_whose_peer_answers() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer { window: 10_000, ..Peer::new() });
    host.engine.send(id, &[1; 4 * 1448]);
    let sent = host.sent();
    assert_eq!(sent.len(), 4);
    peer.window = 0;
    host.give(&[peer.acks()]);
    let mut probes = 0;
    for _ in 0..600 {
        for _ in host.wait_millis(1000) {
            probes += 1;
            host.give(&[peer.acks()]);
        }
        peer.later(1000);
    }
    assert_eq!(host.engine.status(id), Status::Open, "after ten minutes");
    assert!((10..40).contains(&probes), "{probes} probes, at growing intervals");
    peer.window = 10_000;
    host.give(&[peer.acks()]);
    for _ in 0..20 {
        for (_, segment) in host.wait_millis(100) {
            if segment.seq == peer.ack {
                peer.heard(&segment);
            }
        }
        host.give(&[peer.acks()]);
    }
    assert_eq!(peer.ack, sent[3].end());

    // Silence is another matter.
    let (id, mut peer) = host.accept(Peer { window: 10_000, ..Peer::new().port(6000) });
    host.engine.send(id, &[1; 4 * 1448]);
    peer.window = 0;
    host.give(&[peer.acks()]);
    host.wait(Duration::from_secs(250));
    assert_eq!(host.engine.status(id), Status::Ended(End::TimedOut));
}

/// RFC 9293 3.10.7.4: only an acceptable segment says what SND.WND is.
#[test]
fn a_forged_ack_at_a_closed_window_of_ours_does_not_freeze_the_peers() {
    let mut settings = settings();
    settings.receive_window = 4000;
    let mut host = Host::with(settings, small_limits());
    let (id, mut peer) = host.accept_with(Peer { window: 2896, ..Peer::plain() }, no_nagle());
    for part in [1460, 1460, 1080] {
        let data = peer.data(&vec![1; part]);
        host.give(&[data]);
    }
    assert_eq!(host.sent().last().unwrap().window, 0);
    // Any number up to 2^31 ahead, with an ACK that is right.
    host.give(&[Segment { seq: peer.seq.wrapping_add(1 << 30), window: 0, ..peer.acks() }]);
    host.sent();
    peer.window = 20_000;
    host.give(&[peer.acks()]);
    host.engine.send(id, &[2; 10_000]);
    assert_eq!(host.sent().iter().map(|segment| segment.payload.len()).sum::<usize>(), 10_000);
}

/// RFC 9293 MUST-66.
#[test]
fn a_reset_and_urgent_data_are_heeded_at_a_closed_window_of_ours() {
    let mut settings = settings();
    settings.receive_window = 4000;
    let mut host = Host::with(settings, small_limits());
    let (id, mut peer) = host.accept(Peer::plain());
    for part in [1460, 1460, 1080] {
        let data = peer.data(&vec![1; part]);
        host.give(&[data]);
    }
    assert_eq!(host.sent().last().unwrap().window, 0);
    // Urgent data is in line (RFC 6093), so its segment is answered as any other.
    let urgent = Segment { bits: ACK | crate::common::wire::URG, ..peer.data_at(0, b"!") };
    assert!(matches!(&host.answers(&urgent)[..], [one] if one.ack == peer.seq && one.window == 0));
    host.give(&[peer.segment(RST)]);
    assert_eq!(host.engine.status(id), Status::Ended(End::Reset));
}

#[test]
fn data_for_a_closed_window_of_ours_is_not_taken_but_acks_and_resets_are() {
    let mut settings = settings();
    settings.receive_window = 4000;
    let mut host = Host::with(settings, small_limits());
    let (id, mut peer) = host.accept(Peer::new());
    let data = peer.data(&[1; 1448]);
    host.give(&[data]);
    let data = peer.data(&[2; 1448]);
    host.give(&[data]);
    let data = peer.data(&[3; 1104]);
    let ack = host.answers(&data);
    assert_eq!((ack[0].ack, ack[0].window), (peer.seq, 0));
    // A probe with a byte is answered, the byte not taken.
    let answers = host.answers(&peer.data_at(0, b"x"));
    assert!(matches!(&answers[..], [one] if one.ack == peer.seq && one.window == 0), "{answers:?}");
    assert_eq!(host.engine.readable(id), 4000);
    // RFC 9293 MUST-66: the ACK of a segment at the closed window counts.
    host.engine.send(id, b"out");
    peer.heard_all(&host.sent());
    host.give(&[Segment { seq: peer.seq, ..peer.data_at(0, b"y") }]);
    assert_eq!(host.engine.counters().timeouts, 0);
    host.wait_millis(5000);
    assert_eq!(host.engine.counters().retransmits, 0, "it was acknowledged");
    host.give(&[peer.segment(RST)]);
    assert_eq!(host.engine.status(id), Status::Ended(End::Reset));
}

#[test]
fn our_window_opens_in_steps_that_are_worth_a_segment() {
    let mut settings = settings();
    settings.receive_window = 16_000;
    let mut host = Host::with(settings, small_limits());
    let (id, mut peer) = host.accept(Peer::new());
    for _ in 0..10 {
        let data = peer.data(&[1; 1400]);
        host.give(&[data]);
    }
    let data = peer.data(&[1; 2000]);
    let ack = host.answers(&data);
    assert_eq!(ack.last().unwrap().window, 0);
    // A byte at a time: nothing is said before two segments' worth of room is there.
    let mut read = 0;
    let update = loop {
        read += host.read_some(id, 100);
        let sent = host.sent();
        if let Some(update) = sent.into_iter().next() {
            break update;
        }
        assert!(read < 4000, "never opened");
    };
    assert!(read >= 2 * 1448, "{read}");
    assert_eq!(usize::from(update.window), read);
    // Data that arrives after a small read does not move the edge by a small step.
    let edge = update.ack.wrapping_add(u32::from(update.window));
    host.read_some(id, 10);
    let data = peer.data(&[2; 100]);
    host.give(&[data]);
    let ack = host.wait_millis(50);
    assert_eq!(ack[0].1.ack.wrapping_add(u32::from(ack[0].1.window)), edge);
}

#[test]
fn a_little_window_is_not_filled_at_once_by_a_sender_with_more() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer { window: 8000, ..Peer::new() });
    host.engine.send(id, &[1; 30_000]);
    let sent = host.sent();
    peer.heard_all(&sent);
    peer.window = 500;
    assert_eq!(host.answers(&peer.acks()), [], "less than half of the largest window, and than a segment");
    // Until the timer overrides (RFC 9293 3.8.6.2.1).
    let later = host.wait_millis(1000);
    assert!(later[0].0 >= 100, "{later:?}");
    assert_eq!(later[0].1.payload.len(), 500);
    peer.heard(&later[0].1);
    peer.window = 8000;
    let sent = host.answers(&peer.acks());
    assert!(sent.iter().all(|segment| segment.payload.len() >= 948), "{sent:?}");
}

/// Both bounds of a sender (RFC 9293 3.8.6.2.1): a window takes a segment, or half of the largest one that the peer has offered.
#[test]
fn a_segment_or_half_of_the_peers_buffer_is_worth_sending() {
    for (largest, window, sent) in [(8000, 1448, 1448), (8000, 1447, 0), (1024, 512, 512), (1024, 511, 0)] {
        let mut host = Host::new();
        let (id, mut peer) = host.accept(Peer { window: largest, ..Peer::new() });
        host.engine.send(id, &vec![1; usize::from(largest)]);
        let first = host.sent();
        peer.heard_all(&first);
        host.give(&[peer.acks()]);
        let rest = host.sent();
        peer.heard_all(&rest);
        peer.window = window;
        host.give(&[peer.acks()]);
        assert_eq!((host.sent(), host.engine.send(id, &[1; 30_000])), (vec![], 30_000));
        let lengths: Vec<_> = host.sent().iter().map(|segment| segment.payload.len()).collect();
        assert_eq!(lengths, if sent > 0 { vec![sent] } else { vec![] }, "{window} of {largest}");
    }
}

/// Both bounds of a receiver (RFC 9293 3.8.6.2.2): the edge moves on by a segment, or by half of the buffer.
#[test]
fn the_edge_moves_on_by_a_segment_or_half_of_the_buffer() {
    // The buffer, what lies in it, what is read of it; whether the edge moves, and whether that is said at once.
    for (buffer, unread, read, moves, says) in [
        (16_000, 15_000, 2896, true, true),
        (16_000, 15_000, 2895, true, false),
        (16_000, 15_000, 1448, true, false),
        (16_000, 15_000, 1447, false, false),
        (2000, 1500, 1000, true, true),
        (2000, 1500, 999, false, false),
    ] {
        let mut settings = settings();
        settings.receive_window = buffer;
        let mut host = Host::with(settings, small_limits());
        let (id, mut peer) = host.accept(Peer::new());
        let mut left = unread;
        while left > 0 {
            let data = peer.data(&vec![1; left.min(1400)]);
            host.give(&[data]);
            left -= left.min(1400);
        }
        host.wait_millis(100);
        assert_eq!(host.read_some(id, read), read);
        assert_eq!(host.sent().len(), usize::from(says), "{read} of {unread} in {buffer}");
        // An old byte asks for an ACK at once.
        let ack = host.answers(&peer.data_at(-1, &[1])).pop().expect("an ACK");
        let edge =
            ack.ack.wrapping_add(u32::from(ack.window)).wrapping_sub(peer.seq.wrapping_sub(unread as u32));
        let expected = buffer + if moves { read as u32 } else { 0 };
        assert_eq!(edge, expected, "{read} of {unread} in {buffer}");
    }
}

#[test]
fn a_fin_waits_behind_data_that_has_no_window() {
    let mut host = Host::new();
    let (id, mut peer) = closed(&mut host, 2896);
    host.engine.shutdown(id);
    assert!(host.wait_millis(900).iter().all(|(_, segment)| !segment.is(FIN)));
    peer.window = 20_000;
    let sent = host.answers(&peer.acks());
    assert!(sent.last().unwrap().is(FIN));
}

/// Each probes the other, and no answer to a probe is one itself.
#[test]
fn two_closed_windows_are_probed_now_and_then_and_lose_nothing() {
    const BYTES: usize = 2_000_000;
    let mut settings = settings();
    settings.receive_window = 100_000;
    let mut engines = [1, 2].map(|last| engine(settings.clone(), small_limits(), last, 1500));
    engines[1].listen("10.0.0.2:80".parse().unwrap(), ConnectOptions::default()).unwrap();
    let to = "10.0.0.2:80".parse().unwrap();
    let mut ids = [Some(engines[0].connect(to, ConnectOptions::default()).unwrap()), None];
    let mut network = Network::new(engines, Impairment::delay(20_000), Random::new(1));
    let (mut sent, mut heard) = ([0; 2], [0; 2]);
    let start = network.now;
    let of = |place: usize| (place / 1000) as u8;
    let heard_all = std::cell::Cell::new(false);
    let reads_at = start + Duration::from_secs(3600);
    let calm_at = start + Duration::from_secs(10);
    let count = |network: &Network| {
        let frames = |end: usize| network.engines[end].counters().frames_sent;
        [frames(0), frames(1)]
    };
    let (calm, quiet) = (std::cell::Cell::new(None), std::cell::Cell::new(None));
    network.run(
        Duration::from_secs(7200),
        |engine, end, now| {
            while let Some(news) = engine.next_ready() {
                ids[end] = Some(news.id);
            }
            let Some(id) = ids[end] else { return };
            while sent[end] < BYTES && engine.status(id) == Status::Open {
                let left = (BYTES - sent[end]).min(1000 - sent[end] % 1000);
                let taken = engine.send(id, &vec![of(sent[end]); left]);
                sent[end] += taken;
                if taken == 0 {
                    break;
                }
            }
            while now >= reads_at
                && engine.recv(id, |there| {
                    for byte in there {
                        assert_eq!(*byte, of(heard[end]));
                        heard[end] += 1;
                    }
                    there.len()
                }) > 0
            {}
            heard_all.set(heard == [BYTES; 2]);
        },
        |network| {
            if network.now >= calm_at && calm.get().is_none() {
                calm.set(Some(count(network)));
            }
            if network.now < reads_at {
                quiet.set(Some(count(network)));
            }
            heard_all.get()
        },
    );
    assert!(heard_all.get(), "{heard:?}");
    let (calm, quiet) = (calm.get().expect("probes"), quiet.get().expect("probes"));
    for end in 0..2 {
        let frames = quiet[end] - calm[end];
        assert!((60..600).contains(&frames), "{frames} frames in an hour");
    }
}
