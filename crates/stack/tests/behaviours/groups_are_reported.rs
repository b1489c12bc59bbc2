//! A host reports the groups by which neighbours ask for its IPv6 addresses (RFC 3810, RFC 2710), so that a switch which watches for
//! that brings it the questions.

use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;

use anywire_packet::mld::{Query, Version};
use anywire_stack::device::Device;
use anywire_stack::ip::{Event, Layer, Limits, Probing, Settings};
use anywire_stack::stream::Interface;
use anywire_stack::tap::{Options, Tap};
use anywire_tcp::Instant;

use crate::hosts::next_event;
use crate::kernel::{TAP, in_own_network, lonely_engine, runtime, shell};
use crate::links::{Link, host, ip, is_question, mac};

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const SECOND: Duration = Duration::from_secs(1);

/// What a frame reports: the type of the message, and kind and last byte of each group in it.
fn reported(frame: &[u8]) -> Option<(u8, Vec<(u8, u8)>)> {
    // IPv6, hop-by-hop options, and behind them ICMP.
    let message = frame.get(62..).filter(|_| frame[12..14] == [0x86, 0xdd] && frame[20] == 0)?;
    assert!(frame[21] == 1 && frame[54..62] == [58, 0, 5, 2, 0, 0, 1, 0], "one hop, and an alert");
    let groups = match message[0] {
        143 => message[8..].chunks(20).map(|record| (record[0], record[19])).collect(),
        _ => vec![(0, message[23])],
    };
    Some((message[0], groups))
}

fn all_reported(frames: &[Vec<u8>]) -> Vec<(u8, Vec<(u8, u8)>)> {
    frames.iter().filter_map(|frame| reported(frame)).collect()
}

/// A host with these addresses, whose changes were told.
fn settled(addresses: &[&str]) -> Link {
    let mut link = Link::new();
    link.hosts.push(host(1, Probing::OFF, Limits::default()).with(link.now, addresses));
    link.run(SECOND * 10);
    link.hosts[0].sent.clear();
    link
}

/// What it reports within this time.
fn run(link: &mut Link, duration: Duration) -> Vec<(u8, Vec<(u8, u8)>)> {
    link.run(duration);
    let told = all_reported(&link.hosts[0].sent);
    link.hosts[0].sent.clear();
    told
}

#[test]
fn a_group_is_joined_before_its_address_is_probed() {
    let mut link = Link::new();
    let addresses = ["10.0.0.1", "fd00::1"];
    link.hosts.push(host(1, Probing::RFC_5227, Limits::default()).with(link.now, &addresses));
    link.run(SECOND * 20);
    let of_v6: Vec<_> = link.hosts[0].sent.iter().filter(|frame| frame[12] == 0x86).collect();
    assert!(reported(of_v6[0]).is_some() && is_question(of_v6[1]), "the probe comes second");
    let begins = (143, vec![(4, 1)]);
    assert_eq!(all_reported(&link.hosts[0].sent), [begins.clone(), begins], "told twice");
    assert_eq!(&of_v6[0][22..38], &[0; 16], "it has no address yet (RFC 3590)");
}

#[test]
fn queries_are_answered_in_the_version_of_the_router() {
    let mut link = settled(&["fd00::1", "fd00::2", "10.0.0.1", "fe80::1"]);
    let ask = |link: &mut Link, group: Option<&str>, version| {
        let group = group.map(|group| group.parse().expect("a group"));
        let query = Query { group, response_max: SECOND, version };
        link.give(0, &query.frame(mac(9), ROUTER));
    };
    // Two addresses share the first one.
    let all = || (143, vec![(2, 1), (2, 2)]);
    ask(&mut link, None, Version::V2);
    assert_eq!(run(&mut link, SECOND), [all()]);
    ask(&mut link, Some("ff02::1:ff00:2"), Version::V2);
    ask(&mut link, None, Version::V2);
    assert_eq!(run(&mut link, SECOND), [all()], "one answer for both");
    ask(&mut link, Some("ff02::1:ff00:3"), Version::V2);
    assert_eq!(run(&mut link, SECOND), [], "it is a group of others");
    ask(&mut link, None, Version::V1);
    assert_eq!(run(&mut link, SECOND), [(131, vec![(0, 1)]), (131, vec![(0, 2)])]);
    let counters = link.hosts[0].layer.counters();
    assert_eq!((counters.group_queries, counters.refused), (5, 0));
    let mut forged = Query { group: None, response_max: SECOND, version: Version::V2 }.frame(mac(9), ROUTER);
    // It has come from further away.
    forged[21] = 2;
    link.give(0, &forged);
    assert_eq!((run(&mut link, SECOND), link.hosts[0].layer.counters().refused), (vec![], 1));
}

#[test]
fn a_group_is_left_with_the_last_address_that_has_it() {
    let mut link = settled(&["fd00::1", "fe80::1"]);
    let remove = |link: &mut Link, address| {
        let host = &mut link.hosts[0];
        host.layer.remove_address(&mut host.engine, ip(address));
    };
    remove(&mut link, "fe80::1");
    assert_eq!(run(&mut link, SECOND * 5), []);
    remove(&mut link, "fd00::1");
    let ends = (143, vec![(3, 1)]);
    assert_eq!(run(&mut link, SECOND * 5), [ends.clone(), ends]);
    // The link leads to another switch: nothing is left to tell it.
    let now = link.now;
    link.hosts[0].layer.announce_again(now);
    assert_eq!(run(&mut link, SECOND * 5), []);
}

#[test]
fn a_link_that_comes_back_is_told_all_groups() {
    let mut link = settled(&["fd00::1"]);
    let now = link.now;
    link.hosts[0].layer.announce_again(now);
    let begins = (143, vec![(4, 1)]);
    assert_eq!(run(&mut link, SECOND * 5), [begins.clone(), begins]);
}

/// The kernel's bridge is a switch that watches (MLD snooping).
#[test]
fn a_bridge_knows_who_listens() {
    in_own_network("groups_are_reported::a_bridge_knows_who_listens", || {
        if Command::new("bridge").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "bridge of iproute2 is needed");
            return crate::skipped::say("this needs bridge of iproute2");
        }
        runtime().block_on(async {
            let tap = Tap::open(TAP, Options::default()).expect("it was made");
            shell(
                "ip link add br0 type bridge mcast_snooping 1
                 ip link set tap0 master br0 up
                 ip link set br0 up",
            );
            let mut settings = Settings::new(7);
            settings.probing = Probing::OFF;
            let mac = tap.capabilities().mac.expect("a TAP has one");
            let mut layer = Layer::new(mac, settings, Limits::default());
            let ours = ip("fd00::2");
            layer.add_address(Instant::default(), ours).expect("room");
            let (interface, driver) = Interface::with_layer(lonely_engine(&tap), layer, tap);
            tokio::task::spawn_local(driver);
            assert_eq!(next_event(&interface).await, Some(Event::AddressReady(ours)));
            let is_known = || {
                let shown = Command::new("bridge").args(["mdb", "show"]).output().expect("it is there");
                let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
                shown.lines().any(|line| line.contains("tap0") && line.contains("ff02::1:ff00:2"))
            };
            let known = async {
                while !is_known() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(crate::kernel::PATIENCE, known).await.expect("the bridge hears of it");
        });
    });
}
