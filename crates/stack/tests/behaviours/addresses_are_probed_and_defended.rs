//! An address is ours only if nobody else answers to it, and is defended afterwards (RFC 5227, RFC 4862).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anywire_packet::arp::Arp;
use anywire_stack::ip::{Event, LayerError, Limits, Probing};
use anywire_tcp::{ConnectOptions, ListenError, Mac};

use crate::links::{Link, host, ip, is_question, mac};

const SECOND: Duration = Duration::from_secs(1);

/// Host 1 has both addresses, and host 2 wants them.
fn link(first: Probing, wanted: &[&str], probing: Probing) -> Link {
    let mut link = Link::new();
    let taken = host(1, first, Limits::default()).with(link.now, &["10.0.0.1", "fd00::1"]);
    link.hosts.push(taken);
    if first == Probing::OFF {
        link.run(SECOND * 10);
    }
    link.hosts.push(host(2, probing, Limits::default()).with(link.now, wanted));
    link
}

#[test]
fn a_free_address_is_the_engines_after_its_probes() {
    for (probing, least, most) in
        [(Probing::RFC_5227, 4.0, 7.0), (Probing::LOCAL, 0.2, 0.35), (Probing::OFF, 0.0, 0.01)]
    {
        let mut link = link(Probing::OFF, &["10.0.0.2", "fd00::2"], probing);
        let begun = link.now;
        let mut ready = Vec::new();
        while ready.len() < 2 {
            let to = "10.0.0.2:80".parse().unwrap();
            if ready.is_empty() && probing.probes > 0 {
                let early = link.hosts[1].engine.listen(to, ConnectOptions::default());
                assert_eq!(early, Err(ListenError::NoAddress));
            }
            link.run(Duration::from_millis(5));
            ready.extend(link.hosts[1].events());
            let passed = link.now.since(begun).as_secs_f64();
            assert!(passed < most, "{ready:?} after {passed} s");
        }
        assert!(link.now.since(begun).as_secs_f64() >= least);
        ready.sort_by_key(|event| format!("{event:?}"));
        assert_eq!(ready, [Event::AddressReady(ip("10.0.0.2")), Event::AddressReady(ip("fd00::2"))]);
        assert_eq!(link.hosts[1].count(is_question), 2 * usize::from(probing.probes));
        let to = "10.0.0.2:80".parse().unwrap();
        link.hosts[1].engine.listen(to, ConnectOptions::default()).expect("it is there now");
    }
}

#[test]
fn an_address_in_use_is_not_taken() {
    for wanted in ["10.0.0.1", "fd00::1"] {
        let mut link = link(Probing::OFF, &[wanted], Probing::RFC_5227);
        link.run(SECOND * 10);
        let in_use = Event::AddressInUse { address: ip(wanted), by: mac(1) };
        assert_eq!(link.hosts[1].events(), [in_use]);
        assert_eq!(
            in_use.to_string(),
            format!("{wanted} is in use by 02:00:00:00:00:01: take another address")
        );
        let to = (ip(wanted), 80).into();
        let refused = link.hosts[1].engine.listen(to, ConnectOptions::default());
        assert_eq!(refused, Err(ListenError::NoAddress));
        let ready: Vec<_> = link.hosts[0].events();
        assert!(
            ready.iter().all(|event| matches!(event, Event::AddressReady(_))),
            "who has it is not disturbed"
        );
    }
}

/// Whoever has given a host the address waits for this event; any other may be lost.
#[test]
fn what_becomes_of_an_address_is_told_whatever_neighbours_do() {
    let (mut link, limits) = (Link::new(), Limits::default());
    link.hosts.push(host(2, Probing::LOCAL, limits).with(link.now, &["10.0.0.2"]));
    link.run(SECOND);
    assert_eq!(link.hosts[0].events(), [Event::AddressReady(ip("10.0.0.2"))]);
    let now = link.now;
    link.hosts[0].layer.add_address(now, ip("10.0.0.5")).expect("room");
    let says = |last: u8, host: u8, target: u8| {
        let message = Arp::request(mac(last), [10, 0, 0, host].into(), [10, 0, 0, target].into());
        message.frame(Mac::BROADCAST, mac(last))
    };
    link.give(0, &says(9, 5, 5));
    // A neighbour that is known moves to and fro.
    link.give(0, &says(7, 7, 2));
    for moves in 1..=2 * limits.events as u8 {
        link.give(0, &says(7 + moves % 2, 7, 7));
    }
    let events = link.hosts[0].events();
    assert_eq!(events.len(), limits.events);
    assert_eq!(events[0], Event::AddressInUse { address: ip("10.0.0.5"), by: mac(9) });
    assert!(link.hosts[0].layer.counters().events_lost > 0);
}

/// Two that begin at the same time: at most one has it.
#[test]
fn of_two_that_want_an_address_no_two_get_it() {
    for wanted in ["10.0.0.5", "fd00::5"] {
        let mut link = Link::new();
        for number in [1, 2] {
            link.hosts.push(host(number, Probing::RFC_5227, Limits::default()).with(link.now, &[wanted]));
        }
        link.run(SECOND * 10);
        let events: Vec<_> = link.hosts.iter_mut().flat_map(|host| host.events()).collect();
        let ready = events.iter().filter(|event| matches!(event, Event::AddressReady(_))).count();
        assert!(ready <= 1 && events.len() == 2, "{events:?}");
    }
}

#[test]
fn an_address_of_ours_is_defended_every_ten_seconds() {
    let mut link = Link::of(1);
    let intruder =
        Arp::request(mac(9), [10, 0, 0, 1].into(), [10, 0, 0, 1].into()).frame(Mac::BROADCAST, mac(9));
    let mut said = Vec::new();
    for _ in 0..25 {
        link.give(0, &intruder);
        said.extend(link.hosts[0].events());
        link.run(SECOND);
    }
    let conflict = Event::AddressConflict { address: ip("10.0.0.1"), by: mac(9) };
    assert_eq!(said, [conflict; 3]);
    let defences = link.hosts[0].count(|frame| frame[12..14] == [8, 6] && frame[28..32] == frame[38..42]);
    assert_eq!(defences, 3);
    assert_eq!(link.hosts[0].layer.counters().conflicts, 25);
}

/// A switch brings our frames back, or a repeater does, from an address of its own. Not so the probe of an IPv6 address: nothing
/// in it says whose it is, unless the source does.
#[test]
fn what_we_have_said_ourselves_is_no_conflict() {
    for address in ["10.0.0.1", "fd00::1"] {
        for repeater in [None, Some(mac(9))] {
            let mut link = Link::new();
            link.hosts.push(host(1, Probing::LOCAL, Limits::default()).with(link.now, &[address]));
            let mut said = 0;
            for _ in 0..2000 {
                link.advance(0);
                for mut frame in link.take(0) {
                    let is_probe = is_question(&frame) && frame[12..14] == [0x86, 0xdd];
                    if let Some(repeater) = repeater {
                        if is_probe {
                            continue;
                        }
                        frame[6..12].copy_from_slice(&repeater.bytes());
                    }
                    said += 1;
                    link.give(0, &frame);
                }
                link.now = link.now + Duration::from_millis(5);
            }
            assert!(said > 0, "{address}");
            assert_eq!(link.hosts[0].events(), [Event::AddressReady(ip(address))], "by {repeater:?}");
            assert_eq!(link.hosts[0].layer.counters().conflicts, 0, "{address} by {repeater:?}");
        }
    }
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    let limits = Limits::default();
    let mut host = host(1, Probing::OFF, limits);
    let now = Default::default();
    for address in ["127.0.0.1", "0.0.0.0", "224.0.0.1", "ff02::1", "::"] {
        assert_eq!(host.layer.add_address(now, ip(address)), Err(LayerError::NotAHost(ip(address))));
    }
    host.layer.add_address(now, ip("10.0.0.1")).expect("room");
    assert_eq!(host.layer.add_address(now, ip("10.0.0.1")), Err(LayerError::Known(ip("10.0.0.1"))));
    for last in 2..=limits.addresses as u8 {
        host.layer.add_address(now, [10, 0, 0, last].into()).expect("room");
    }
    assert_eq!(
        host.layer.add_address(now, ip("10.0.0.200")),
        Err(LayerError::TooManyAddresses(limits.addresses))
    );
}

/// Nobody gets an answer there, and it may be tried again.
#[test]
fn an_address_that_the_engine_does_not_take_is_not_ours() {
    let mut link = Link::new();
    link.hosts.push(host(1, Probing::OFF, Limits::default()).with(link.now, &["10.0.0.1", "10.0.0.2"]));
    let mut others = (0..u32::MAX).map(|number| IpAddr::from(Ipv4Addr::from_bits((11 << 24) + number)));
    let engine = &mut link.hosts[0].engine;
    while engine.add_address(others.next().expect("fewer than all")).is_ok() {}
    link.advance(0);
    let events = link.hosts[0].events();
    let refused = events.iter().filter_map(|event| match event {
        Event::AddressRefused { address, .. } => Some(*address),
        _ => None,
    });
    assert_eq!(refused.collect::<Vec<_>>(), [ip("10.0.0.1"), ip("10.0.0.2")], "{events:?}");
    let question = Arp::request(mac(9), [10, 0, 0, 9].into(), [10, 0, 0, 1].into());
    link.give(0, &question.frame(Mac::BROADCAST, mac(9)));
    link.run(SECOND * 10);
    assert_eq!(link.hosts[0].layer.counters().answered, 0);
    assert!(link.hosts[0].sent.is_empty(), "neither answered nor announced");
    let now = link.now;
    link.hosts[0].layer.add_address(now, ip("10.0.0.1")).expect("it is not there");
}

#[test]
fn a_device_is_told_the_groups_that_ask_for_its_addresses() {
    let link = Link::of(1);
    let groups: Vec<_> = link.hosts[0].layer.groups().iter().map(ToString::to_string).collect();
    assert_eq!(groups, ["33:33:ff:00:00:01", "33:33:00:00:00:01"]);
    assert!(host(2, Probing::OFF, Limits::default()).layer.groups().is_empty(), "no IPv6, no groups");
}
