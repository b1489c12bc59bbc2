//! Forged questions, announcements and SYNs from a whole link cost a bounded table, bounded questions and bounded frames, and who has
//! connections keeps them.

use std::time::Duration;

use anywire_packet::Mac;
use anywire_packet::arp::Arp;
use anywire_packet::ethernet::Link as Header;
use anywire_packet::ndp::{Ndp, group_mac, solicited_node};
use anywire_stack::ip::{Limits, Probing};
use anywire_tcp::ConnectOptions;

use crate::links::{Link, host, ip, is_question, mac};

/// Host 1 with small limits and an open connection of host 2's.
fn link() -> (Link, Limits) {
    let mut limits = Limits::default();
    (limits.neighbours, limits.resolving, limits.pending, limits.outgoing) = (64, 16, 32, 40);
    let mut link = Link::new();
    link.hosts.push(host(1, Probing::OFF, limits).with(link.now, &["10.0.0.1", "fd00::1"]));
    link.hosts.push(host(2, Probing::OFF, Limits::default()).with(link.now, &["10.0.0.2", "fd00::2"]));
    link.run(Duration::from_secs(5));
    link.hosts[0].engine.listen("0.0.0.0:80".parse().unwrap(), ConnectOptions::default()).expect("room");
    link.hosts[0].engine.add_route(on_link("10.0.0.0/8")).expect("room");
    let id = link.hosts[1].connect("10.0.0.1:80");
    link.run(Duration::from_secs(1));
    assert!(link.hosts[1].is_open(id));
    (link, limits)
}

fn on_link(network: &str) -> anywire_tcp::Route {
    let network = network.parse().expect("a network");
    anywire_tcp::Route { network, via: anywire_tcp::Via::OnLink, mtu: 1500, source: None }
}

/// What host 2 and host 1 send each other arrives, and host 2 is not asked for.
fn still_flows(link: &mut Link) {
    link.take(0);
    link.hosts[0].sent.clear();
    let (client, server) = (link.hosts[1].engine.at(0), link.hosts[0].engine.at(0));
    let (client, server) = (client.expect("a connection"), server.expect("a connection"));
    let before = link.hosts[0].engine.readable(server);
    link.hosts[1].engine.send(client, b"text");
    link.hosts[0].engine.send(server, b"text");
    link.run(Duration::from_millis(500));
    assert_eq!(link.hosts[0].engine.readable(server), before + 4);
    assert_eq!(link.hosts[1].engine.readable(client), 4);
    assert_eq!(link.hosts[0].count(|frame| is_question(frame) && frame[38..42] == [10, 0, 0, 2]), 0);
}

#[test]
fn questions_from_forged_hosts() {
    let (mut link, limits) = link();
    for number in 0..20_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let (from, sender) = (Mac::new([2, 1, 0, a, b, c]), [10, 9 + a, b, c].into());
        link.give(0, &Arp::request(from, sender, [10, 0, 0, 1].into()).frame(Mac::BROADCAST, from));
        let target = "fd00::1".parse().expect("an address");
        let group = solicited_node(target);
        let asks = Ndp::Solicitation { target, source_mac: Some(from) };
        let source = format!("fd00::9:{number:x}").parse().expect("an address");
        link.give(0, &asks.frame(Header::new(group_mac(group), from), source, group));
    }
    let counters = link.hosts[0].layer.counters();
    assert_eq!(counters.evicted, 40_000 - (limits.neighbours as u64 - 1));
    let answers = u64::from(limits.neighbour_answers_burst);
    assert!(counters.neighbours_unanswered >= 40_000 - answers, "no time has passed: {counters:?}");
    assert!(counters.outgoing_dropped >= answers - limits.outgoing as u64, "the device has taken nothing");
    assert!(link.take(0).len() <= limits.outgoing);
    still_flows(&mut link);
}

#[test]
fn announcements_of_forged_hosts_are_not_even_kept() {
    let (mut link, _) = link();
    let before = link.hosts[0].layer.counters();
    for number in 0..20_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let (from, sender) = (Mac::new([2, 1, 0, a, b, c]), [10, 9 + a, b, c].into());
        link.give(0, &Arp::request(from, sender, sender).frame(Mac::BROADCAST, from));
    }
    let counters = link.hosts[0].layer.counters();
    assert_eq!((counters.evicted, counters.moved), (before.evicted, before.moved));
    assert!(link.take(0).is_empty());
    still_flows(&mut link);
}

#[test]
fn syns_from_forged_hosts() {
    let (mut link, limits) = link();
    let syn = link.hosts[1].sent.iter().find(|frame| frame[12..14] == [8, 0] && frame[47] == 2).cloned();
    let syn = syn.expect("how the connection began");
    let begun = link.now;
    for number in 0..20_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let mut forged = syn.clone();
        forged[26..30].copy_from_slice(&[10, 9 + a, b, c]);
        seal(&mut forged, &syn);
        link.give(0, &forged);
        link.advance(0);
        assert!(link.take(0).len() <= limits.resolving);
        link.now = link.now + Duration::from_micros(200);
    }
    let host = &link.hosts[0];
    let asked = host.count(is_question);
    let seconds = link.now.since(begun).as_secs() as usize + 1;
    assert!(asked <= limits.resolving * (seconds + 1), "{asked} questions in {seconds} s");
    assert!(host.layer.counters().not_asked > 10_000);
    assert_eq!(host.engine.counters().frames_malformed, 0, "they came to where they should");
    still_flows(&mut link);
    // And who is new is served as soon as there is room to ask.
    link.run(Duration::from_secs(5));
    link.hosts.push(host_3(link.now));
    link.run(Duration::from_secs(5));
    let id = link.hosts[2].connect("10.0.0.1:80");
    link.run(Duration::from_secs(3));
    assert!(link.hosts[2].is_open(id));
}

/// Who has connections is heard in a flood of questions, and others are as soon as it is over.
#[test]
fn questions_are_answered_within_a_limit() {
    let (mut link, limits) = link();
    let ask = |link: &mut Link, sender: [u8; 4]| {
        let before = link.hosts[0].layer.counters().answered;
        let from = mac(sender[3]);
        link.give(0, &Arp::request(from, sender.into(), [10, 0, 0, 1].into()).frame(Mac::BROADCAST, from));
        link.take(0);
        link.hosts[0].layer.counters().answered - before
    };
    let answered: u64 = (0..2 * limits.neighbour_answers_burst).map(|_| ask(&mut link, [10, 0, 0, 9])).sum();
    assert_eq!(answered, u64::from(limits.neighbour_answers_burst));
    assert_eq!(ask(&mut link, [10, 0, 0, 2]), 1, "it has a connection");
    link.now = link.now + Duration::from_millis(2);
    assert_eq!([ask(&mut link, [10, 0, 0, 9]), ask(&mut link, [10, 0, 0, 9])], [1, 1]);
    assert_eq!(ask(&mut link, [10, 0, 0, 9]), 0);
}

fn host_3(now: anywire_tcp::Instant) -> crate::links::Host {
    host(3, Probing::OFF, Limits::default()).with(now, &["10.0.0.3"])
}

/// Mends the checksums of a frame whose source was changed.
fn seal(frame: &mut [u8], original: &[u8]) {
    use anywire_packet::checksum::update;
    let two = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    for at in [24, 50] {
        let mut sum = two(frame, at);
        for word in [26, 28] {
            sum = update(sum, two(original, word), two(frame, word));
        }
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

#[test]
fn who_is_known_stays_known_while_many_others_ask() {
    let (mut link, _) = link();
    // Without a connection it gives way; with one it does not.
    for number in 0..1000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let (from, sender) = (Mac::new([2, 1, 0, a, b, c]), [10, 9 + a, b, c].into());
        link.give(0, &Arp::request(from, sender, [10, 0, 0, 1].into()).frame(Mac::BROADCAST, from));
    }
    link.take(0);
    link.hosts[0].sent.clear();
    link.hosts[0].connect("10.0.0.2:81");
    let frames = link.take(0);
    assert!(frames.len() == 1 && frames[0][..6] == mac(2).bytes(), "{frames:02x?}");
    assert!(link.hosts[0].engine.uses_neighbour(ip("10.0.0.2")));
}
