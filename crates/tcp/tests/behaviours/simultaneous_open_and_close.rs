//! Both ends open at once (RFC 9293 3.5, figure 7), and both ends close at once (figure 13).

use std::num::NonZeroU32;
use std::time::Duration;

use anywire_tcp::{ConnId, End, Engine, Events, Status};

use crate::common::host::{Host, Peer, engine, settings, small_limits};
use crate::common::network::{Impairment, Network};
use crate::common::random::{Random, for_each_seed_both_ways};
use crate::common::wire::{ACK, FIN, RST, SYN, Segment};

const ONE: &str = "10.0.0.1:1000";
const TWO: &str = "10.0.0.2:2000";

#[test]
fn a_syn_for_a_syn_is_answered_by_a_syn_ack_and_opens() {
    let mut host = Host::new();
    let id =
        host.engine.connect_from(ONE.parse().unwrap(), TWO.parse().unwrap(), Default::default()).unwrap();
    host.engine.send(id, b"first");
    let syn = host.sent_one();
    let mut peer = Peer { here: TWO.parse().unwrap(), there: ONE.parse().unwrap(), ..Peer::new() };
    let answer = host.answers(&peer.syn()).remove(0);
    assert_eq!((answer.bits, answer.seq, answer.ack), (SYN | ACK, syn.seq, peer.seq + 1));
    assert_eq!(answer.timestamps.map(|(_, echo)| echo), Some(50_000));
    assert_eq!(host.engine.status(id), Status::Opening);
    assert_eq!(host.engine.readable(id), 0);
    // The peer has answered ours in the same way: its SYN-ACK has a number that we had.
    peer.heard(&syn);
    let sent = host.answers(&peer.syn_ack());
    assert_eq!(host.engine.status(id), Status::Open);
    assert_eq!(sent.len(), 1, "one ACK, with the data: {sent:?}");
    assert_eq!(&sent[0].payload[..], b"first");
    assert!(matches!(host.news()[..], [(opened, events)] if opened == id && events.has(Events::OPENED)));
    peer.seq += 1;
    host.give(&[peer.data(b"hello")]);
    assert_eq!((host.engine.readable(id), host.read(id)), (5, b"hello".to_vec()));
}

/// As for a listener: what one SYN leaves out is not agreed, and the segments of a peer without timestamps count.
#[test]
fn what_a_later_syn_leaves_out_is_not_agreed() {
    let ends = |peer| Peer { here: TWO.parse().unwrap(), there: ONE.parse().unwrap(), ..peer };
    for kept in 0..8 {
        for answers_ours in [false, true] {
            let has = |bit: u8| kept & bit != 0;
            let mut host = Host::new();
            let id = host
                .engine
                .connect_from(ONE.parse().unwrap(), TWO.parse().unwrap(), Default::default())
                .unwrap();
            let syn = host.sent_one();
            let modern = ends(Peer { scale: Some(7), ..Peer::new() });
            let first = host.answers(&modern.syn()).remove(0);
            assert!(first.scale.is_some() && first.sack_permitted && first.timestamps.is_some());
            assert_eq!(host.wait_millis(600), [], "before the SYN-ACK is due again");
            let mut peer = ends(Peer {
                scale: has(1).then_some(7),
                sack: has(2),
                timestamps: has(4).then_some((50_600, 0)),
                mss: Some(1000),
                window: 100,
                ..Peer::new()
            });
            if answers_ours {
                peer.heard(&syn);
                host.answers(&peer.syn_ack());
                peer.seq += 1;
            } else {
                let answer = host.answers(&peer.syn()).remove(0);
                assert_eq!((answer.bits, answer.seq), (SYN | ACK, first.seq));
                assert_eq!((answer.scale.is_some(), answer.sack_permitted), (has(1), has(2)));
                let echo = answer.timestamps.map(|(_, echo)| echo);
                assert_eq!(echo, has(4).then_some(50_600), "of the latest SYN");
                peer.heard(&answer);
                peer.seq += 1;
                host.give(&[peer.segment(ACK)]);
            }
            assert_eq!(host.engine.status(id), Status::Open, "{kept} {answers_ours}");
            host.engine.send(id, &[1; 5000]);
            let sent = host.sent();
            // The window of a SYN is not scaled.
            let length = if answers_ours || !has(1) { 100 } else { 1000 - if has(4) { 12 } else { 0 } };
            assert_eq!(sent[0].payload.len(), length, "{kept} {answers_ours}");
            assert_eq!(sent[0].timestamps.is_some(), has(4));
            host.give(&[peer.data(b"hello")]);
            assert_eq!(host.read(id), b"hello");
        }
    }
}

/// Our first SYN-ACK may have arrived, and did not agree to it. Neither does what another number has count.
#[test]
fn what_a_later_syn_adds_is_not_agreed() {
    let ends = |peer| Peer { here: TWO.parse().unwrap(), there: ONE.parse().unwrap(), ..peer };
    let (plain, modern) = (ends(Peer::plain()), ends(Peer { scale: Some(7), ..Peer::new() }));
    let another = Peer { seq: plain.seq + 5, ..plain };
    for (first, next, has_options) in [(&plain, &modern, false), (&modern, &another, true)] {
        let mut host = Host::new();
        host.engine.connect_from(ONE.parse().unwrap(), TWO.parse().unwrap(), Default::default()).unwrap();
        host.sent_one();
        host.answers(&first.syn());
        host.give(&[next.syn()]);
        let again = host.wait_millis(1500).remove(0).1;
        assert_eq!(again.bits, SYN | ACK);
        assert_eq!((again.scale.is_some(), again.sack_permitted), (has_options, has_options));
        assert_eq!(again.timestamps.is_some(), has_options);
    }
}

/// A connection in SYN-RECEIVED: both SYNs have crossed.
fn crossed() -> (Host, ConnId, Peer) {
    let mut host = Host::new();
    let id =
        host.engine.connect_from(ONE.parse().unwrap(), TWO.parse().unwrap(), Default::default()).unwrap();
    let syn = host.sent_one();
    let mut peer = Peer { here: TWO.parse().unwrap(), there: ONE.parse().unwrap(), ..Peer::new() };
    host.answers(&peer.syn());
    peer.heard(&syn);
    peer.seq += 1;
    (host, id, peer)
}

#[test]
fn a_plain_ack_completes_it_as_well() {
    let (mut host, id, peer) = crossed();
    host.give(&[peer.segment(ACK)]);
    assert_eq!(host.engine.status(id), Status::Open);
    assert_eq!(host.engine.counters().opened, 1);
}

/// RFC 9293 3.10.4, CLOSE in SYN-RECEIVED: what was sent leaves, and the FIN behind it. A rate or a duplicate is no text of the
/// peer's SYN.
#[test]
fn what_was_sent_before_a_close_leaves_once_it_is_open() {
    type Before = fn(&mut Host, ConnId, &Peer);
    let before: [Before; 3] = [
        |_, _, _| {},
        |host, id, _| assert!(host.engine.set_rate(id, NonZeroU32::new(1_000_000))),
        |host, _, peer| drop(host.answers(&peer.data_at(-1, b"x"))),
    ];
    for before in before {
        let (mut host, id, peer) = crossed();
        before(&mut host, id, &peer);
        host.engine.send(id, b"all");
        host.engine.close(id);
        let sent = host.answers(&peer.segment(ACK));
        assert!(
            matches!(&sent[..], [all] if all.payload == b"all" && all.is(FIN) && !all.is(RST)),
            "all and the end: {sent:?}"
        );
    }
}

/// RFC 9293 3.10.7.4, RFC 5961 3.2: an ACK, and not the SYN-ACK again.
#[test]
fn what_is_not_acceptable_gets_an_ack() {
    let (.., peer) = crossed();
    let old = peer.timestamps.map(|(value, echo)| (value - 1, echo));
    for segment in [
        Segment { seq: peer.seq + 10, ..peer.segment(RST) },
        Segment { seq: peer.seq - 1, ..peer.segment(ACK) },
        Segment { seq: peer.seq - 1, payload: vec![b'x'], ..peer.segment(ACK) },
        Segment { timestamps: old, ..peer.segment(ACK) },
    ] {
        let (mut host, id, peer) = crossed();
        let answers = host.answers(&segment);
        assert!(
            matches!(&answers[..], [ack] if (ack.bits, ack.seq, ack.ack) == (ACK, peer.ack, peer.seq)),
            "{segment:?}: {answers:?}"
        );
        assert_eq!(host.engine.status(id), Status::Opening);
        // It opens as before.
        host.give(&[peer.segment(ACK)]);
        assert_eq!(host.engine.status(id), Status::Open);
    }
}

/// RFC 9293 MUST-11: it was no LISTEN that it came from, so its user hears of the end.
#[test]
fn a_reset_refuses_what_we_opened_too() {
    let (mut host, id, peer) = crossed();
    host.give(&[peer.segment(RST)]);
    assert_eq!(host.engine.status(id), Status::Ended(End::Refused));
    assert!(matches!(host.news()[..], [(of, events)] if of == id && events.has(Events::CLOSED)));
}

#[test]
fn a_lost_syn_ack_is_sent_again_by_the_timer_and_for_the_peers_syn() {
    let mut host = Host::new();
    host.engine.connect_from(ONE.parse().unwrap(), TWO.parse().unwrap(), Default::default()).unwrap();
    host.sent_one();
    let peer = Peer { here: TWO.parse().unwrap(), there: ONE.parse().unwrap(), ..Peer::new() };
    assert_eq!(host.answers(&peer.syn()).len(), 1);
    assert_eq!(host.answers(&peer.syn())[0].bits, SYN | ACK);
    let sent = host.wait_millis(1500);
    assert!(matches!(&sent[..], [(_, again)] if again.bits == SYN | ACK), "{sent:?}");
}

#[test]
fn two_engines_open_and_close_at_once_over_any_link() {
    for_each_seed_both_ways(200, |seed, predicts| {
        let mut random = Random::new(seed);
        let impairment = Impairment { loss: 0.05, duplicate: 0.05, reorder: 0.1, ..Impairment::delay(5000) };
        let mut settings = settings();
        settings.time_wait = Duration::from_millis(100);
        settings.predicts = predicts;
        let mut engines = [1, 2].map(|last| engine(settings.clone(), small_limits(), last, 1500));
        let ids = [
            engines[0].connect_from(ONE.parse().unwrap(), TWO.parse().unwrap(), Default::default()).unwrap(),
            engines[1].connect_from(TWO.parse().unwrap(), ONE.parse().unwrap(), Default::default()).unwrap(),
        ];
        for end in 0..2 {
            assert_eq!(engines[end].send(ids[end], &[end as u8; 3000]), 3000);
            engines[end].shutdown(ids[end]);
        }
        let (mut heard, mut closed) = ([0, 0], [false; 2]);
        let random_of_network = Random::new(random.next());
        let mut network = Network::new(engines, impairment, random_of_network);
        let app = |engine: &mut Engine, end: usize, _| {
            let id: ConnId = ids[end];
            if closed[end] {
                return;
            }
            assert!(
                !matches!(engine.status(id), Status::Ended(end) if end != End::Closed),
                "{:?}",
                engine.status(id)
            );
            heard[end] += engine.recv(id, |bytes| {
                assert!(bytes.iter().all(|byte| usize::from(*byte) == 1 - end));
                bytes.len()
            });
            if engine.is_finished(id) {
                closed[end] = true;
                engine.close(id);
            }
        };
        network.run(Duration::from_secs(300), app, |network| {
            network.engines.iter().all(|engine| engine.connections() == 0 && engine.in_time_wait() == 0)
        });
        assert_eq!((heard, closed), ([3000; 2], [true; 2]));
        network.outcome()
    });
}

#[test]
fn fins_that_cross_bring_both_ends_through_closing() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    host.engine.close(id);
    let fin = host.sent_one();
    assert_eq!(fin.bits & FIN, FIN);
    // The peer's FIN left before it saw ours.
    let answers = host.answers(&peer.fin());
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].bits, answers[0].ack), (ACK, peer.seq));
    assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (1, 0), "CLOSING");
    peer.heard(&fin);
    assert_eq!(host.answers(&peer.acks()), Vec::<Segment>::new());
    assert_eq!((host.engine.connections(), host.engine.in_time_wait()), (0, 1), "TIME-WAIT");
    host.wait(Duration::from_secs(61));
    assert_eq!(host.engine.in_time_wait(), 0);
}
