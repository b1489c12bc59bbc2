//! Packets to the switch's own address go on to the next hop of their prefix: one hop older, with a right
//! checksum.

mod support;

use std::time::Duration;

use anywire_stack::device::Device;
use anywire_stack::switch::{Limits, Port, Prefix, Settings, Switch, SwitchError};
use anywire_tcp::{Instant, Mac};

use support::{NOW, batch, frame, internet_checksum, ipv4, ipv6, mac, marks, received, send};

const HERE: [u8; 4] = [10, 1, 0, 2];
const THERE: [u8; 4] = [10, 2, 0, 2];

fn v6(network: u8) -> [u8; 16] {
    let mut address = [0; 16];
    address[..6].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8, 0, network]);
    address[15] = 1;
    address
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn router() -> (Switch, [Port; 3]) {
    let switch = Switch::new(Settings::default());
    let ports = [1, 2, 3].map(|number| switch.port(mac(number)).unwrap());
    switch.route(prefix("10.1.0.0/16"), mac(1)).unwrap();
    switch.route(prefix("10.2.0.0/16"), mac(2)).unwrap();
    switch.route(prefix("10.2.99.0/24"), mac(3)).unwrap();
    switch.route(prefix("2001:db8:2::/48"), mac(2)).unwrap();
    (switch, ports)
}

#[test]
fn a_packet_of_either_version_is_rewritten() {
    let (switch, [mut one, mut two, mut three]) = router();
    for ttl in 2..=255 {
        send(&mut one, ipv4(mac(1), switch.mac(), HERE, THERE, ttl, b"payload"));
        let [seen] = received(&mut two).try_into().unwrap();
        assert_eq!(seen, ipv4(switch.mac(), mac(2), HERE, THERE, ttl - 1, b"payload"), "TTL {ttl}");
        assert_eq!(internet_checksum(&seen[14..34]), 0);
    }
    send(&mut one, ipv4(mac(1), switch.mac(), HERE, [10, 2, 99, 1], 64, b""));
    assert_eq!((received(&mut two).len(), received(&mut three).len()), (0, 1));

    send(&mut one, ipv6(mac(1), switch.mac(), v6(1), v6(2), 64));
    assert_eq!(received(&mut two), [ipv6(switch.mac(), mac(2), v6(1), v6(2), 63)]);
    assert_eq!(switch.counters().frames_routed, 254 + 1 + 1);
}

#[test]
fn a_whole_batch_is_routed_in_place() {
    let (switch, [mut one, mut two, _]) = router();
    let mut sent = batch((0..64).map(|number| ipv4(mac(1), switch.mac(), HERE, THERE, 64, &[number])));
    let places: Vec<_> = sent.iter().map(<[u8]>::as_ptr).collect();
    one.transmit(NOW, &mut sent);
    assert_eq!(two.receive(NOW, &mut sent), 64);
    assert_eq!(sent.iter().map(<[u8]>::as_ptr).collect::<Vec<_>>(), places);
}

#[test]
fn what_somebody_else_holds_is_not_changed() {
    let (switch, [mut one, mut two, _]) = router();
    let whole = batch((0..64).map(|number| ipv4(mac(1), switch.mac(), HERE, THERE, 64, &[number])));
    one.transmit(NOW, &mut whole.select(0..64));
    assert!(whole.iter().all(|frame| frame[22] == 64), "the TTL of the sender's own frames");
    let seen = received(&mut two);
    assert!(seen.len() == 64 && seen.iter().all(|frame| frame[22] == 63));
}

#[test]
fn routed_and_switched_frames_share_a_batch() {
    let (switch, [mut one, mut two, mut three]) = router();
    let mut frames = batch([
        frame(mac(1), mac(3), 1),
        ipv4(mac(1), switch.mac(), HERE, THERE, 64, b""),
        frame(mac(1), mac(2), 2),
        ipv4(mac(1), switch.mac(), HERE, HERE, 64, b"back to where it came from"),
    ]);
    one.transmit(NOW, &mut frames);
    assert_eq!(marks(&mut three), [1]);
    let seen = received(&mut two);
    assert_eq!((seen.len(), seen[0][22], support::mark(&seen[1])), (2, 63, 2));
    assert_eq!(received(&mut one).len(), 1);
}

#[test]
fn what_cannot_be_routed_is_counted_where_the_reason_stands() {
    let (switch, [mut one, mut two, mut three]) = router();
    let to_switch = |target, ttl| ipv4(mac(1), switch.mac(), HERE, target, ttl, b"");
    let mut wrong_sum = to_switch(THERE, 64);
    wrong_sum[24] ^= 1;
    let mut cut = to_switch(THERE, 64);
    cut.truncate(33);
    let mut frames = batch([
        to_switch(THERE, 1),
        to_switch(THERE, 0),
        ipv6(mac(1), switch.mac(), v6(1), v6(2), 1),
        to_switch([10, 3, 0, 1], 64),
        to_switch([224, 0, 0, 1], 64),
        ipv6(mac(1), switch.mac(), v6(1), v6(9), 64),
        wrong_sum,
        cut,
        frame(mac(1), switch.mac(), 1),
    ]);
    one.transmit(NOW, &mut frames);
    let counters = switch.counters();
    assert_eq!((counters.expired, counters.no_route, counters.not_ip), (3, 3, 3));
    assert_eq!(counters.frames_routed, 0);
    for port in [&mut one, &mut two, &mut three] {
        assert_eq!(received(port).len(), 0);
    }
}

#[test]
fn routes_can_be_replaced_and_removed_and_are_limited() {
    let limits = Limits { routes: 1, ..Limits::default() };
    let switch = Switch::new(Settings { limits, ..Settings::default() });
    switch.route(prefix("10.0.0.0/8"), mac(1)).unwrap();
    switch.route(prefix("10.0.0.0/8"), mac(2)).unwrap();
    let refused = switch.route(prefix("11.0.0.0/8"), mac(1));
    assert_eq!(refused, Err(SwitchError::RoutesExhausted { limit: 1 }));
    assert_eq!(
        switch.route(prefix("10.0.0.0/8"), Mac::BROADCAST),
        Err(SwitchError::NotAStation(Mac::BROADCAST))
    );
    assert!(switch.remove_route(prefix("10.0.0.0/8")) && !switch.remove_route(prefix("10.0.0.0/8")));
}

#[test]
fn a_next_hop_that_nobody_knows_is_looked_for() {
    let (switch, [mut one, mut two, mut three]) = router();
    switch.route(prefix("10.4.0.0/16"), mac(40)).unwrap();
    let later = Instant::default() + Duration::from_secs(1);
    one.transmit(later, &mut batch([ipv4(mac(1), switch.mac(), HERE, [10, 4, 0, 1], 64, b"")]));
    assert_eq!((received(&mut two).len(), received(&mut three).len()), (1, 1));
}
