//! What the SYNs of both ends offer is what the connection has: MSS, window scale, timestamps, SACK; in any combination
//! of option bytes.

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, FIN, PSH, RST, SYN, Segment};

#[test]
fn a_syn_offers_what_the_settings_allow() {
    let mut host = Host::new();
    host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    let syn = host.sent_one();
    assert_eq!((syn.bits, syn.mss, syn.scale, syn.sack_permitted), (SYN, Some(1460), Some(3), true));
    assert_eq!(syn.timestamps.map(|(_, echo)| echo), Some(0));
    assert_eq!((syn.window, syn.hop_limit, syn.dont_fragment), (65_535, 64, true));

    let mut settings = settings();
    (settings.sack, settings.timestamps, settings.receive_window) = (false, false, 10_000);
    let mut host = Host::with(settings, small_limits());
    host.engine.connect("[fd00::2]:5000".parse().unwrap(), Default::default()).unwrap();
    let syn = host.sent_one();
    assert_eq!((syn.mss, syn.scale, syn.sack_permitted, syn.timestamps), (Some(1440), Some(0), false, None));
    assert_eq!(syn.window, 10_000);
}

#[test]
fn a_syn_ack_offers_only_what_the_syn_did() {
    for bits in 0..8 {
        let peer = Peer {
            scale: (bits & 1 != 0).then_some(7),
            sack: bits & 2 != 0,
            timestamps: (bits & 4 != 0).then_some((77, 0)),
            ..Peer::new()
        };
        let mut host = Host::new();
        host.engine.listen(peer.there, Default::default()).unwrap();
        let answer = host.answers(&peer.syn()).remove(0);
        assert!(answer.is(SYN | ACK) && answer.ack == peer.seq + 1);
        assert_eq!(answer.mss, Some(1460));
        assert_eq!(answer.scale.is_some(), peer.scale.is_some());
        assert_eq!(answer.sack_permitted, peer.sack);
        assert_eq!(answer.timestamps.map(|(_, echo)| echo), peer.timestamps.map(|_| 77));
    }
}

#[test]
fn windows_are_scaled_after_the_syn_and_only_if_both_scale() {
    let mut peer = {
        let mut host = Host::new();
        // The window of the SYN is not scaled, the next one is.
        let (id, mut peer) = host.accept(Peer { scale: Some(8), window: 16, ..Peer::new() });
        assert_eq!(host.engine.send(id, &[1; 20_000]), 20_000);
        let sent = host.sent();
        let bytes: usize = sent.iter().map(|segment| segment.payload.len()).sum();
        assert_eq!(bytes, 2 * 1448, "two whole segments of 16 times 256 bytes");
        assert_eq!(sent[0].window, (256 * 1024 / 8) as u16, "our own window, scaled by 3");
        peer.heard_all(&sent);
        peer
    };
    let mut host = Host::new();
    let (id, _) = host.accept(Peer { scale: None, window: 1000, ..Peer::new() });
    assert_eq!(host.engine.send(id, &[1; 20_000]), 20_000);
    let sent = host.sent();
    assert_eq!(sent.iter().map(|segment| segment.payload.len()).sum::<usize>(), 1000, "as it stands there");
    assert_eq!(sent[0].window, 65_535, "not scaled");
    peer.heard_all(&sent);
}

#[test]
fn a_scale_above_fourteen_counts_as_fourteen() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer { scale: Some(255), window: 1, ..Peer::new() });
    host.engine.send(id, &[1; 100_000]);
    let sent: usize = host.sent().iter().map(|segment| segment.payload.len()).sum();
    assert_eq!(sent, 10 * 1448, "the window is 16,384 bytes, the congestion window ten segments");
}

#[test]
fn the_smaller_mss_counts_less_the_options_of_each_segment() {
    for (mss, timestamps, expected) in [
        (Some(1460), true, 1448),
        (Some(1460), false, 1460),
        (Some(9000), false, 1460),
        (Some(1000), true, 988),
        // RFC 9293 MUST-15: 536 if the peer says nothing.
        (None, false, 536),
        (None, true, 524),
    ] {
        let mut host = Host::new();
        let timestamps = timestamps.then_some((1, 0));
        let (id, _) = host.accept(Peer { mss, timestamps, ..Peer::new() });
        host.engine.send(id, &[1; 5000]);
        let sent = host.sent();
        assert_eq!(sent[0].payload.len(), expected, "{mss:?} {timestamps:?}");
        assert!(sent.iter().all(|segment| segment.payload.len() <= expected));
    }
}

#[test]
fn an_mss_is_not_asked_for_beyond_the_route() {
    let mut host = Host::with_mtu(settings(), small_limits(), 600);
    host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    assert_eq!(host.sent_one().mss, Some(560));
}

#[test]
fn options_come_in_any_order_and_unknown_ones_are_passed_over() {
    let syn = |raw: &[u8]| {
        let mut host = Host::new();
        let peer = Peer::plain();
        host.engine.listen(peer.there, Default::default()).unwrap();
        let mut syn = peer.syn();
        (syn.mss, syn.raw_options) = (None, raw.to_vec());
        host.answers(&syn).remove(0)
    };
    // Scale, padding, timestamps, an unknown one of six bytes, MSS, the end.
    let all = syn(&[3, 3, 2, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 250, 6, 1, 2, 3, 4, 2, 4, 3, 0, 1, 4, 2, 0]);
    assert!(all.scale.is_some() && all.sack_permitted);
    assert_eq!(all.timestamps.map(|(_, echo)| echo), Some(9));
    // RFC 9293 MUST-7: lengths that cannot be, and ends in the middle of an option.
    for raw in
        [&[2, 0][..], &[2, 1], &[2], &[3, 255, 1, 1], &[8, 10, 1], &[4, 0, 4, 2], &[250, 1], &[0, 4, 2, 0]]
    {
        let answer = syn(raw);
        assert!(answer.is(SYN | ACK), "{raw:?}");
        assert_eq!((answer.scale, answer.sack_permitted, answer.timestamps), (None, false, None), "{raw:?}");
    }
}

#[test]
fn options_are_understood_in_any_segment() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::plain());
    let mut data = peer.data(b"with options");
    data.raw_options = vec![1, 1, 253, 4, 7, 7, 2, 4, 5, 0xb4, 0];
    host.give(&[data]);
    assert_eq!(host.read(id), b"with options");
}

/// Also where they are at other places than usual: the timestamp of each is echoed.
#[test]
fn timestamps_are_understood_in_any_segment_and_at_any_place() {
    for bits in [ACK, ACK | PSH, FIN | ACK] {
        for front in [vec![], vec![1], vec![253, 4, 7, 7]] {
            let mut host = Host::new();
            let (id, mut peer) = host.accept(Peer::new());
            peer.later(7);
            let (stamp, echo) = peer.timestamps.expect("agreed on");
            let mut options = front;
            options.extend([8, 10]);
            options.extend(stamp.to_be_bytes());
            options.extend(echo.to_be_bytes());
            options.resize(options.len().next_multiple_of(4), 1);
            let payload = if bits == ACK | PSH { b"text".to_vec() } else { vec![] };
            let segment = Segment { raw_options: options, timestamps: None, payload, ..peer.segment(bits) };
            host.give(&[segment]);
            host.engine.send(id, b"answer");
            let answer = host.sent().pop().expect("data");
            assert_eq!(answer.timestamps.map(|(_, echo)| echo), Some(stamp), "{bits:?}");
        }
    }
}

#[test]
fn a_wrong_ack_of_our_syn_is_reset_and_the_right_one_still_counts() {
    let mut host = Host::new();
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    let syn = host.sent_one();
    let mut peer = Peer { there: syn.from, ..Peer::new() };
    peer.heard(&syn);
    for wrong in [syn.seq, syn.seq.wrapping_add(2), syn.seq.wrapping_sub(1000)] {
        let answers = host.answers(&Segment { ack: wrong, ..peer.syn_ack() });
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].bits, answers[0].seq), (RST, wrong));
    }
    assert_eq!(host.answers(&peer.syn_ack()).len(), 1, "the ACK");
    assert_eq!(host.engine.status(id), anywire_tcp::Status::Open);
}

#[test]
fn data_given_before_the_handshake_leaves_after_it_and_makes_no_second_syn() {
    let mut host = Host::new();
    let id = host.engine.connect("10.0.0.2:5000".parse().unwrap(), Default::default()).unwrap();
    let syn = host.sent_one();
    assert_eq!(host.engine.send(id, b"early"), 5);
    assert_eq!(host.engine.readable(id), 0);
    assert_eq!(host.sent(), [], "not a SYN again");
    let mut peer = Peer { there: syn.from, ..Peer::new() };
    peer.heard(&syn);
    let sent = host.answers(&peer.syn_ack());
    assert_eq!(sent.len(), 1, "the ACK rides on the data");
    assert_eq!((&sent[0].payload[..], sent[0].ack), (&b"early"[..], peer.seq + 1));
}

#[test]
fn initial_numbers_move_with_the_clock_and_differ_between_connections() {
    let mut host = Host::new();
    let mut numbers = Vec::new();
    for port in 0..20 {
        let from = format!("10.0.0.1:{}", 2000 + port).parse().unwrap();
        host.engine.connect_from(from, "10.0.0.2:80".parse().unwrap(), Default::default()).unwrap();
        numbers.push(host.sent_one().seq);
    }
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[1] - pair[0] > 1000), "{numbers:?}");

    // The same four-tuple later: on by one in 4 us (RFC 9293 3.4.1), of a SYN and of a SYN-ACK.
    let number = |micros: u64, is_ours: bool| {
        let mut host = Host::new();
        host.wait(std::time::Duration::from_micros(micros));
        if is_ours {
            let from = "10.0.0.1:2000".parse().unwrap();
            host.engine.connect_from(from, "10.0.0.2:80".parse().unwrap(), Default::default()).unwrap();
        } else {
            let peer = Peer::new();
            host.engine.listen(peer.there, Default::default()).unwrap();
            host.give(&[peer.syn()]);
        }
        host.sent_one().seq
    };
    for is_ours in [true, false] {
        let first = number(0, is_ours);
        for micros in [4, 8, 1000, 500_000, 999_996, 1_000_000, 1_500_000, 8_000_000] {
            let later = number(micros, is_ours).wrapping_sub(first);
            assert_eq!(u64::from(later), micros / 4, "{micros} us later, in a SYN of ours: {is_ours}");
        }
    }
}

/// RFC 9293 MUST-9: without the secret they cannot be computed.
#[test]
fn initial_numbers_follow_from_the_secret() {
    let number = |secret: [u64; 4]| {
        let mut host = Host::with(anywire_tcp::Settings::new(secret), small_limits());
        let from = "10.0.0.1:2000".parse().unwrap();
        host.engine.connect_from(from, "10.0.0.2:80".parse().unwrap(), Default::default()).unwrap();
        host.sent_one().seq
    };
    assert_eq!(number([1, 2, 3, 4]), number([1, 2, 3, 4]));
    assert_ne!(number([1, 2, 3, 4]), number([5, 6, 7, 8]));
}

/// RFC 9293 3.10.7.4, first, and RFC 7323 3.2, 5.3: a half-open connection takes and answers what an open one does.
#[test]
fn what_does_not_belong_to_a_half_open_connection_opens_nothing_and_gets_an_ack() {
    let half_open = || {
        let (mut host, mut peer) = (Host::new(), Peer::new());
        host.engine.listen(peer.there, Default::default()).unwrap();
        let answer = host.answers(&peer.syn()).remove(0);
        peer.heard(&answer);
        peer.seq += 1;
        (host, peer)
    };
    let (_, peer) = half_open();
    let old = peer.timestamps.map(|(value, echo)| (value - 1, echo));
    for (segment, is_answered) in [
        // A probe of a peer whose last ACK was lost.
        (Segment { seq: peer.seq - 1, ..peer.acks() }, true),
        (Segment { seq: peer.seq + 100_000, ..peer.acks() }, true),
        (Segment { timestamps: old, ..peer.acks() }, true),
        (Segment { timestamps: None, ..peer.acks() }, false),
        (Segment { timestamps: None, payload: b"x".to_vec(), ..peer.acks() }, false),
    ] {
        let (mut host, peer) = half_open();
        let answers = host.answers(&segment);
        let is_ack = |ack: &Segment| (ack.bits, ack.seq, ack.ack) == (ACK, peer.ack, peer.seq);
        assert_eq!(
            (answers.len(), answers.iter().all(is_ack)),
            (usize::from(is_answered), true),
            "{segment:?}"
        );
        assert_eq!((host.news(), host.engine.half_open()), (vec![], 1), "{segment:?}");
        // Not for each that somebody sends.
        assert_eq!(host.answers(&segment), []);
        host.give(&[peer.acks()]);
        assert_eq!(host.news().len(), 1, "it opens as before");
    }
}
