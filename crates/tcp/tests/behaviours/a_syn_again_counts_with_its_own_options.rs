//! Systems leave options out of a SYN that they send again, for paths that drop segments with them. What such a SYN does not offer
//! is not agreed: window scale and timestamps must be in both SYNs (RFC 7323 1.3 and 3.2), and so must an ECN-setup (RFC 3168 6.1.1).

use crate::common::host::{Host, Peer};
use crate::common::wire::{ACK, Bits, CWR, ECE, SYN, Segment};

/// A peer with all options, whose shift is 7.
fn modern() -> Peer {
    Peer { scale: Some(7), ..Peer::new() }
}

/// A SYN and, after the interval of answers, the next one; the answers to both.
fn answers(host: &mut Host, first: &Segment, next: &Segment) -> [Segment; 2] {
    host.engine.listen(first.to, Default::default()).unwrap();
    let lost = host.answers(first).remove(0);
    assert_eq!(host.wait_millis(600), [], "before the SYN-ACK is due again");
    [lost, host.answers(next).remove(0)]
}

#[test]
fn what_a_later_syn_leaves_out_is_not_agreed() {
    let mut host = Host::new();
    let mut peer = Peer::plain();
    let [lost, answer] = answers(&mut host, &modern().syn(), &peer.syn());
    assert!(lost.scale.is_some() && lost.sack_permitted && lost.timestamps.is_some());
    assert_eq!((answer.bits, answer.seq, answer.ack), (SYN | ACK, lost.seq, lost.ack));
    assert_eq!((answer.scale, answer.sack_permitted, answer.timestamps), (None, false, None));
    // Neither has the one that leaves by itself.
    let again = host.wait_millis(5000).remove(0).1;
    assert_eq!((again.scale, again.sack_permitted, again.timestamps), (None, false, None));
    peer.heard(&answer);
    peer.seq += 1;
    peer.window = 1000;
    host.give(&[peer.data(b"hello")]);
    let id = host.news()[0].0;
    assert_eq!(host.read(id), b"hello");
    host.engine.send(id, &[1; 20_000]);
    let sent = host.sent();
    assert_eq!(sent.iter().map(|segment| segment.payload.len()).sum::<usize>(), 1000, "as it stands there");
    assert!(sent.iter().all(|segment| segment.timestamps.is_none()));
}

#[test]
fn each_option_counts_for_itself() {
    for kept in 0..8 {
        let has = |bit: u8| kept & bit != 0;
        let next = Peer {
            scale: has(1).then_some(7),
            sack: has(2),
            timestamps: has(4).then_some((50_600, 0)),
            ..modern()
        };
        let mut host = Host::new();
        let [_, answer] = answers(&mut host, &modern().syn(), &next.syn());
        assert_eq!((answer.scale.is_some(), answer.sack_permitted), (has(1), has(2)));
        let echo = answer.timestamps.map(|(_, echo)| echo);
        assert_eq!(echo, has(4).then_some(50_600), "of the latest SYN");
        let mut peer = next;
        peer.heard(&answer);
        peer.seq += 1;
        peer.window = 100;
        host.give(&[peer.data(b"hello")]);
        let id = host.news()[0].0;
        assert_eq!(host.read(id), b"hello");
        host.engine.send(id, &[1; 20_000]);
        let sent: usize = host.sent().iter().map(|segment| segment.payload.len()).sum();
        let window = if has(1) { 100 << 7 } else { 100 };
        assert!(sent <= window && (sent == 100) != has(1), "{sent} of {window}");
    }
}

/// A path that drops ECN-setup SYN-ACKs lets this one through.
#[test]
fn an_ecn_setup_that_is_left_out_is_not_answered() {
    let ecn = SYN | ECE | CWR;
    for (first, next, expected) in [(ecn, ecn, SYN | ACK | ECE), (ecn, SYN, SYN | ACK), (SYN, ecn, SYN | ACK)]
    {
        let mut host = Host::new();
        let of = |bits: Bits| Segment { bits, ..modern().syn() };
        let [_, answer] = answers(&mut host, &of(first), &of(next));
        assert_eq!(answer.bits, expected, "{first:?}, then {next:?}");
        let mut peer = modern();
        peer.heard(&answer);
        peer.seq += 1;
        host.give(&[peer.acks()]);
        let id = host.news()[0].0;
        host.engine.send(id, b"data");
        let marks = if answer.is(ECE) { 2 } else { 0 };
        assert_eq!(host.sent_one().traffic_class & 3, marks, "{first:?}, then {next:?}");
    }
}

#[test]
fn the_smallest_mss_counts() {
    for (first, next, expected) in
        [(1460, Some(1000), 1000), (1000, Some(1460), 1000), (1460, None, 536), (1460, Some(1460), 1460)]
    {
        let mut host = Host::new();
        let mut peer = Peer { mss: next, ..Peer::plain() };
        let [_, answer] = answers(&mut host, &Peer { mss: Some(first), ..Peer::plain() }.syn(), &peer.syn());
        peer.heard(&answer);
        peer.seq += 1;
        host.give(&[peer.acks()]);
        let id = host.news()[0].0;
        host.engine.send(id, &[1; 5000]);
        assert_eq!(host.sent()[0].payload.len(), expected, "{first}, then {next:?}");
    }
}

/// Our first SYN-ACK may have arrived, and did not agree to it.
#[test]
fn what_a_later_syn_adds_is_not_agreed() {
    let mut host = Host::new();
    let [_, answer] = answers(&mut host, &Peer::plain().syn(), &modern().syn());
    assert_eq!((answer.scale, answer.sack_permitted, answer.timestamps), (None, false, None));
}

/// A SYN that was overtaken does not bring an old timestamp back.
#[test]
fn an_older_timestamp_is_not_echoed() {
    let mut host = Host::new();
    let older = Peer { timestamps: Some((49_000, 0)), ..modern() };
    let [_, answer] = answers(&mut host, &modern().syn(), &older.syn());
    assert_eq!(answer.timestamps.map(|(_, echo)| echo), Some(50_000));
}

/// It may be forged.
#[test]
fn a_syn_with_another_number_takes_nothing_away() {
    for is_ack in [false, true] {
        let mut host = Host::new();
        let mut other = Peer::plain().syn();
        if is_ack {
            other.bits = SYN | ACK;
        } else {
            other.seq += 1;
        }
        let [lost, answer] = answers(&mut host, &modern().syn(), &other);
        assert_eq!(
            (answer.scale, answer.sack_permitted, answer.timestamps.map(|(_, echo)| echo)),
            (lost.scale, true, Some(50_000))
        );
    }
}

/// A SYN that comes too soon after an answer gets none, and counts all the same.
#[test]
fn what_is_left_out_counts_without_an_answer() {
    let mut host = Host::new();
    let peer = modern();
    host.engine.listen(peer.there, Default::default()).unwrap();
    for _ in 0..2 {
        host.give(&[peer.syn()]);
        host.sent();
    }
    assert_eq!(host.answers(&Peer::plain().syn()), []);
    let again = host.wait_millis(1500).remove(0).1;
    assert_eq!((again.scale, again.sack_permitted, again.timestamps), (None, false, None));
}

/// While connections are opened by cookies each SYN is answered by itself.
#[test]
fn a_cookie_agrees_to_what_the_later_syn_offers() {
    let mut limits = crate::common::host::small_limits();
    limits.half_open = 1;
    let mut host = Host::with(crate::common::host::settings(), limits);
    let mut peer = Peer::plain();
    host.engine.listen(peer.there, Default::default()).unwrap();
    host.answers(&modern().port(4000).syn());
    let lost = host.answers(&modern().syn()).remove(0);
    assert!(lost.timestamps.is_some());
    host.now = host.now + std::time::Duration::from_millis(600);
    let answer = host.answers(&peer.syn()).remove(0);
    assert_eq!((answer.scale, answer.sack_permitted, answer.timestamps), (None, false, None));
    peer.heard(&answer);
    peer.seq += 1;
    peer.window = 1000;
    host.give(&[peer.data(b"hello")]);
    assert_eq!(host.engine.counters().cookies_accepted, 1);
    let id = host.news()[0].0;
    assert_eq!(host.read(id), b"hello");
    host.engine.send(id, &[1; 20_000]);
    let sent: usize = host.sent().iter().map(|segment| segment.payload.len()).sum();
    assert!(sent <= 1000 && sent > 0, "{sent}");
}
