//! Hosts that know nothing of each other but addresses find each other by ARP and by neighbour discovery, notice when one is gone or
//! has another interface, and ask no more than they have to.

use std::time::Duration;

use anywire_packet::arp::Arp;
use anywire_packet::ndp::{ALL_NODES, Advertised, Ndp, group_mac};
use anywire_stack::ip::Event;
use anywire_tcp::{ConnectOptions, End, Mac, Status};

use crate::links::{Link, default_route, ip, is_question, is_tcp, mac};

const SECOND: Duration = Duration::from_secs(1);

/// A link where host 2 listens.
fn link(hosts: u8) -> Link {
    let mut link = Link::of(hosts);
    link.hosts[1].engine.listen("0.0.0.0:80".parse().unwrap(), ConnectOptions::default()).expect("room");
    link
}

#[test]
fn a_connection_begins_with_one_question() {
    for (to, family) in [("10.0.0.2:80", "ARP"), ("[fd00::2]:80", "NDP")] {
        let mut link = link(3);
        let id = link.hosts[0].connect(to);
        link.run(SECOND / 10);
        assert!(link.hosts[0].is_open(id), "{family}");
        // The one that is asked learns who asks, so it need not ask back.
        assert_eq!([0, 1, 2].map(|host: usize| link.hosts[host].count(is_question)), [1, 0, 0], "{family}");
        assert_eq!(link.hosts[0].layer.counters().resolved, 1);
        assert_eq!(link.hosts[1].layer.counters().answered, 1);
        // Further connections ask nobody.
        let more: Vec<_> = (0..10).map(|_| link.hosts[0].connect(to)).collect();
        link.run(SECOND / 10);
        assert!(more.iter().all(|id| link.hosts[0].is_open(*id)));
        assert_eq!(link.hosts[0].count(is_question), 1, "{family}");
        assert!(!link.hosts[0].engine.has_unresolved());
    }
}

#[test]
fn others_are_reached_through_their_gateway() {
    for (gateway, to) in [("10.0.0.2", "192.0.2.1:80"), ("fd00::2", "[2001:db8::1]:80")] {
        let mut link = link(2);
        let host = &mut link.hosts[0];
        host.engine.add_route(default_route(gateway)).expect("room");
        host.connect(to);
        link.run(SECOND / 10);
        let host = &link.hosts[0];
        assert_eq!((host.count(is_question), host.count(is_tcp)), (1, 1));
        let syn = host.sent.iter().find(|frame| is_tcp(frame)).expect("it has left");
        assert_eq!(syn[..6], mac(2).bytes());
    }
}

#[test]
fn who_is_not_there_is_asked_for_three_times_and_told() {
    let mut link = link(2);
    let id = link.hosts[0].connect("10.0.0.77:80");
    link.run(Duration::from_millis(3500));
    let host = &mut link.hosts[0];
    assert_eq!((host.count(is_question), host.count(is_tcp)), (3, 0));
    assert_eq!(host.engine.status(id), Status::Ended(End::Unreachable));
    assert_eq!(host.events(), [Event::NeighbourUnreachable(ip("10.0.0.77"))]);
    assert_eq!(host.layer.counters().unreachable, 1);
}

#[test]
fn an_idle_connection_costs_a_question_now_and_then_and_a_lively_one_none() {
    let mut link = link(2);
    let id = link.hosts[0].connect("10.0.0.2:80");
    link.run(SECOND);
    link.hosts.iter_mut().for_each(|host| host.sent.clear());
    link.run(SECOND * 300);
    let questions = link.hosts[0].count(is_question);
    assert!((6..=15).contains(&questions), "{questions} in five minutes: 20 to 50 s each");
    assert!(link.hosts[0].sent.iter().all(|frame| frame[..6] == mac(2).bytes()), "to its interface alone");
    link.hosts.iter_mut().for_each(|host| host.sent.clear());
    for _ in 0..300 {
        link.hosts[0].engine.send(id, b"text");
        link.run(SECOND);
        let accepted = link.hosts[1].engine.at(0).expect("the connection");
        while link.hosts[1].engine.recv(accepted, <[u8]>::len) > 0 {}
    }
    assert_eq!(link.hosts[0].count(is_question), 0, "the other end acknowledges what it gets");
    assert!(link.hosts[0].is_open(id));
}

#[test]
fn a_neighbour_that_is_gone_is_noticed_and_found_again() {
    let mut link = link(2);
    let id = link.hosts[0].connect("10.0.0.2:80");
    link.run(SECOND);
    link.hosts[1].is_unplugged = true;
    link.run(SECOND * 60);
    assert_eq!(link.hosts[0].events(), [Event::NeighbourUnreachable(ip("10.0.0.2"))]);
    link.hosts[1].is_unplugged = false;
    link.hosts[0].engine.send(id, b"text");
    link.run(SECOND);
    assert_eq!(link.hosts[1].engine.at(0).map(|id| link.hosts[1].engine.readable(id)), Some(4));
    assert!(link.hosts[0].is_open(id));
}

/// Host 2 gets another interface: host 3's takes over its address.
#[test]
fn an_announcement_moves_a_neighbour_and_its_connections() {
    for is_v6 in [false, true] {
        let mut link = link(2);
        let to = if is_v6 { "[fd00::2]:80" } else { "10.0.0.2:80" };
        let id = link.hosts[0].connect(to);
        link.run(SECOND);
        let (new, address) =
            (Mac::new([2, 0, 0, 0, 0, 0x33]), ip(if is_v6 { "fd00::2" } else { "10.0.0.2" }));
        link.give(0, &announcement(new, is_v6, true));
        assert_eq!(link.hosts[0].events(), [Event::NeighbourMoved { address, from: mac(2), to: new }]);
        link.hosts[0].engine.send(id, b"text");
        let frames = link.take(0);
        assert!(!frames.is_empty() && frames.iter().all(|frame| frame[..6] == new.bytes()));
        // Nobody is there: it is asked, and given up.
        link.hosts[1].is_unplugged = true;
        link.run(SECOND * 20);
        assert!(link.hosts[0].events().contains(&Event::NeighbourUnreachable(address)));
        link.hosts[1].is_unplugged = false;
        link.run(SECOND * 60);
        assert!(link.hosts[0].is_open(id), "and then found where it is");
        assert_eq!(link.hosts[1].engine.at(0).map(|id| link.hosts[1].engine.readable(id)), Some(4));
    }
}

/// RFC 4861 7.2.5: without the override flag, what is known stays.
#[test]
fn an_advertisement_that_does_not_override_changes_no_interface() {
    let mut link = link(2);
    let id = link.hosts[0].connect("[fd00::2]:80");
    link.run(SECOND);
    link.give(0, &announcement(mac(0x33), true, false));
    link.hosts[0].engine.send(id, b"text");
    assert!(link.take(0).iter().all(|frame| frame[..6] == mac(2).bytes()));
    assert_eq!(link.hosts[0].events(), []);
}

#[test]
fn nobody_becomes_a_neighbour_by_saying_so() {
    let mut link = Link::of(1);
    for (number, is_v6) in [(0x33, false), (0x34, true)] {
        link.give(0, &announcement(mac(number), is_v6, true));
    }
    // One that asks from another network, and one that asks for another host.
    let far = Arp::request(mac(0x35), [192, 0, 2, 1].into(), [10, 0, 0, 1].into());
    let others = Arp::request(mac(0x36), [10, 0, 0, 6].into(), [10, 0, 0, 7].into());
    for question in [far, others] {
        link.give(0, &question.frame(Mac::BROADCAST, question.sender_mac));
    }
    assert_eq!(link.take(0).len(), 1, "who asks is answered");
    for to in ["10.0.0.2:80", "[fd00::2]:80", "10.0.0.6:80"] {
        link.hosts[0].connect(to);
    }
    let asked = link.take(0);
    assert_eq!(asked.iter().filter(|frame| is_question(frame)).count(), 3);
    assert_eq!(asked.len(), 3, "no frame leaves before they answer");
}

#[test]
fn what_was_sent_to_another_interface_is_ignored() {
    let mut link = Link::of(1);
    let asking = Arp::request(mac(9), [10, 0, 0, 9].into(), [10, 0, 0, 1].into());
    link.give(0, &asking.frame(mac(8), mac(9)));
    assert!(link.take(0).is_empty());
    assert_eq!(link.hosts[0].layer.counters().refused, 1);
    link.give(0, &asking.frame(mac(1), mac(9)));
    let answer = link.take(0).remove(0);
    assert_eq!((answer.len(), &answer[..6]), (60, &mac(9).bytes()[..]), "padded, and to who has asked");
}

/// What host 2's address says to all, from another interface.
fn announcement(new: Mac, is_v6: bool, overrides: bool) -> Vec<u8> {
    if !is_v6 {
        return Arp::request(new, [10, 0, 0, 2].into(), [10, 0, 0, 2].into())
            .frame(Mac::BROADCAST, new)
            .to_vec();
    }
    let target = "fd00::2".parse().expect("an address");
    let flags = Advertised { overrides, ..Advertised::default() };
    let link = anywire_packet::Link::new(group_mac(ALL_NODES), new);
    Ndp::Advertisement { target, target_mac: Some(new), flags }.frame(link, target, ALL_NODES)
}
