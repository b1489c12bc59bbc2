//! Echo is answered (RFC 1122 3.2.2.6, RFC 4443 4.2), and a datagram for a port that nobody has (RFC 1122 4.1.3.1): so many a second.

use std::net::IpAddr;
use std::time::Duration;

use anywire_packet::checksum;
use anywire_packet::ethernet::{EtherType, Link as Header};
use anywire_packet::udp::Udp;
use anywire_packet::{Addresses, Mac};
use anywire_stack::ip::{Limits, Probing};

use crate::links::{Link, host, ip, is_question, mac};

const PEER: Mac = mac(9);

/// A packet of host 9 for host 1, with its headers.
fn frame(from: IpAddr, to: IpAddr, protocol: u8, message: &[u8]) -> Vec<u8> {
    let addresses = addresses(from, to);
    let (ether_type, length) = if from.is_ipv4() { (EtherType::IPV4, 20) } else { (EtherType::IPV6, 40) };
    let mut frame = Header::new(mac(1), PEER).header(ether_type).to_vec();
    frame.resize(14 + length, 0);
    anywire_packet::ip::write(&mut frame[14..], &addresses, protocol, 0, message.len(), None).expect("room");
    frame.extend(message);
    frame
}

fn addresses(from: IpAddr, to: IpAddr) -> Addresses {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Addresses::V4 { local: from.to_bits(), remote: to.to_bits() },
        (IpAddr::V6(from), IpAddr::V6(to)) => Addresses::V6 { local: from.to_bits(), remote: to.to_bits() },
        _ => panic!("addresses of two families"),
    }
}

fn echo_request(from: IpAddr, to: IpAddr, data: &[u8]) -> Vec<u8> {
    let (kind, protocol) = if from.is_ipv4() { (8, 1) } else { (128, 58) };
    let mut message = [&[kind, 0, 0, 0, 0, 7, 0, 1], data].concat();
    let pseudo = if from.is_ipv4() { 0 } else { addresses(from, to).pseudo(protocol, message.len()) };
    let sum = checksum::header(pseudo, checksum::sum(&message, 0));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    frame(from, to, protocol, &message)
}

fn datagram(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let mut datagram = vec![0; 20];
    Udp { source: 4000, destination: 53 }.write(&mut datagram, &addresses(from, to));
    frame(from, to, 17, &datagram)
}

/// Host 1, which knows host 9 already.
fn link(limits: Limits) -> Link {
    let mut link = Link::new();
    link.hosts.push(host(1, Probing::OFF, limits).with(link.now, &["10.0.0.1", "fd00::1"]));
    link.run(Duration::from_secs(5));
    for (from, to) in [("10.0.0.9", "10.0.0.1"), ("fd00::9", "fd00::1")] {
        link.give(0, &echo_request(ip(from), ip(to), b""));
        let asked = link.take(0);
        assert!(asked.len() == 1 && is_question(&asked[0]), "who has asked is not known yet");
        match ip(from) {
            IpAddr::V4(from) => {
                let arp = anywire_packet::arp::Arp::parse(&asked[0][14..]).expect("a question");
                assert_eq!(arp.target, from);
                link.give(0, &arp.reply(PEER).frame(mac(1), PEER));
            }
            IpAddr::V6(from) => {
                let flags = anywire_packet::ndp::Advertised {
                    solicited: true,
                    overrides: true,
                    ..Default::default()
                };
                let message =
                    anywire_packet::ndp::Ndp::Advertisement { target: from, target_mac: Some(PEER), flags };
                let IpAddr::V6(to) = ip(to) else { panic!("of one family") };
                link.give(0, &message.frame(Header::new(mac(1), PEER), from, to));
            }
        }
        assert_eq!(link.take(0).len(), 1, "the answer that has waited");
    }
    link.run(Duration::from_secs(1));
    link
}

#[test]
fn an_echo_comes_back_with_its_data() {
    for (from, to, kind, at) in [("10.0.0.9", "10.0.0.1", 0, 34), ("fd00::9", "fd00::1", 129, 54)] {
        let mut link = link(Limits::default());
        let request = echo_request(ip(from), ip(to), b"are you there?");
        link.give(0, &request);
        let answer = link.take(0).remove(0);
        assert_eq!((&answer[..12], answer[at]), (&[PEER.bytes(), mac(1).bytes()].concat()[..], kind));
        assert_eq!((&answer[at + 4..], answer.len()), (&request[at + 4..], request.len()));
        let of = Addresses::of(&answer).expect("a whole packet");
        assert_eq!(of.ips(), (ip(from), ip(to)));
        // Damaged, sent by a group, for another host, from nowhere: no answer.
        let mut from_a_group = request.clone();
        from_a_group[6] |= 1;
        let mut damaged = request.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let other = if kind == 0 { "10.0.0.7" } else { "fd00::7" };
        let nowhere = if kind == 0 { "127.0.0.1" } else { "::1" };
        for frame in [
            damaged,
            from_a_group,
            echo_request(ip(from), ip(other), b""),
            echo_request(ip(nowhere), ip(to), b""),
            echo_request(ip(to), ip(to), b""),
        ] {
            link.give(0, &frame);
            assert!(link.take(0).is_empty());
        }
        assert_eq!(link.hosts[0].layer.counters().echoes, 3);
    }
}

#[test]
fn a_port_that_nobody_has_is_unreachable() {
    for (from, to, kind, at) in [("10.0.0.9", "10.0.0.1", [3, 3], 34), ("fd00::9", "fd00::1", [1, 4], 54)] {
        let mut link = link(Limits::default());
        let asked = datagram(ip(from), ip(to));
        link.give(0, &asked);
        let answer = link.take(0).remove(0);
        assert_eq!(answer[at..at + 2], kind);
        assert_eq!(answer[at + 8..], asked[14..], "it quotes what has come");
        let mut damaged = asked.clone();
        *damaged.last_mut().unwrap() ^= 1;
        link.give(0, &damaged);
        link.give(0, &frame(ip(from), ip(to), 99, &[0; 20]));
        assert!(link.take(0).is_empty(), "neither is a datagram");
        assert_eq!(link.hosts[0].layer.counters().ports_unreachable, 1);
    }
}

#[test]
fn there_are_so_many_answers_a_second() {
    let limits = Limits::default();
    let mut link = link(limits);
    let before = link.hosts[0].layer.counters();
    let request = echo_request(ip("10.0.0.9"), ip("10.0.0.1"), b"flood");
    let mut answers = 0;
    for _ in 0..1000 {
        for _ in 0..20 {
            link.give(0, &request);
            answers += link.take(0).len();
        }
        link.now = link.now + Duration::from_millis(1);
    }
    let most = (limits.answers_per_second + limits.answers_burst) as usize;
    assert!((most - 10..=most).contains(&answers), "{answers}");
    let counters = link.hosts[0].layer.counters();
    assert_eq!(counters.answers_withheld - before.answers_withheld, 20_000 - answers as u64);
}
