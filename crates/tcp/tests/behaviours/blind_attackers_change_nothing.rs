//! Attackers who know both addresses and ports of a connection and guess everything else (RFC 5961, RFC 5927), from a hundred
//! thousand seeds: resets, SYNs, data, ACKs and ICMP errors.

use anywire_tcp::{ConnId, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::random::{Random, seeds};
use crate::common::wire::{ACK, Bits, PSH, RST, SYN, Segment, icmp_error};

/// One of each kind, with every field guessed.
fn forge(random: &mut Random, peer: &Peer) -> (Vec<Segment>, Vec<u8>) {
    let mut guess = |bits: Bits| Segment {
        seq: random.next() as u32,
        ack: random.next() as u32,
        window: random.next() as u16,
        urgent: random.next() as u16,
        timestamps: random.chance(0.8).then(|| (random.next() as u32, random.next() as u32)),
        sack: if random.chance(0.2) { vec![(random.next() as u32, random.next() as u32)] } else { vec![] },
        ..peer.segment(bits)
    };
    let segments = vec![
        guess(RST),
        guess(RST | ACK),
        guess(SYN),
        guess(ACK),
        Segment { payload: b"forged".to_vec(), ..guess(ACK | PSH) },
    ];
    let about = Segment { from: peer.there, to: peer.here, ..guess(ACK) };
    let (router, kinds) =
        if peer.here.is_ipv4() { ("192.0.2.1", [3, 4, 11, 12]) } else { ("fd00::99", [1, 2, 3, 4]) };
    let (kind, code) = (random.pick(&kinds), random.below(16) as u8);
    (segments, icmp_error(router.parse().unwrap(), &about, kind, code, random.next() as u32 & 0xffff))
}

/// The honest ends go on as if nothing had come.
fn check(host: &mut Host, id: ConnId, peer: &mut Peer, seed: u64) {
    assert_eq!(host.engine.status(id), Status::Open, "seed {seed}");
    peer.later(1);
    host.give(&[peer.data(&seed.to_be_bytes())]);
    assert_eq!(host.read(id), seed.to_be_bytes(), "seed {seed}");
    host.engine.send(id, &[7; 1448]);
    let sent: Vec<_> = host.sent().into_iter().filter(|segment| !segment.payload.is_empty()).collect();
    assert!(
        matches!(&sent[..], [one] if one.seq == peer.ack && one.payload == [7; 1448]),
        "{seed}: {sent:?}"
    );
    peer.heard_all(&sent);
    host.give(&[peer.acks()]);
}

fn host(predicts: bool) -> Host {
    let mut settings = settings();
    settings.predicts = predicts;
    Host::with(settings, small_limits())
}

#[test]
fn a_hundred_thousand_guesses_of_every_field() {
    let [predicted, general] = [true, false].map(guess_every_field);
    assert_eq!(predicted, general);
}

fn guess_every_field(predicts: bool) -> impl PartialEq + std::fmt::Debug {
    let mut host = host(predicts);
    let (id, mut peer) = host.accept(Peer::new());
    for seed in seeds(100_000) {
        let mut random = Random::new(seed);
        let (segments, message) = forge(&mut random, &peer);
        host.give(&segments);
        host.give_frame(&message);
        host.sent();
        if seed % 100 == 0 {
            host.wait_millis(1);
            check(&mut host, id, &mut peer, seed);
        }
    }
    assert_eq!(host.engine.connections(), 1);
    assert_eq!(host.engine.segment_bytes(id), 1448, "no forged message has narrowed the path");
    host.outcome()
}

/// While data is in flight, and over IPv6.
#[test]
fn guesses_while_a_flight_is_under_way() {
    for peer in [Peer::new(), Peer::v6()] {
        let [predicted, general] =
            [true, false].map(|predicts| guess_beside_a_flight(peer.clone(), predicts));
        assert_eq!(predicted, general);
    }
}

fn guess_beside_a_flight(peer: Peer, predicts: bool) -> impl PartialEq + std::fmt::Debug {
    let mut host = host(predicts);
    let (id, mut peer) = host.accept(peer);
    host.engine.send(id, &[1; 10_000]);
    let flight = host.sent();
    for seed in seeds(20_000) {
        let mut random = Random::new(1 << 40 | seed);
        let (segments, message) = forge(&mut random, &peer);
        host.give(&segments);
        host.give_frame(&message);
        host.sent();
    }
    assert_eq!((host.engine.status(id), host.engine.readable(id)), (Status::Open, 0));
    peer.heard_all(&flight);
    host.give(&[peer.acks()]);
    host.sent();
    assert_eq!(host.engine.counters().timeouts, 0);
    host.outcome()
}
