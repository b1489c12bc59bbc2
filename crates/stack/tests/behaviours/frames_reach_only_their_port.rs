//! Frames to a known address reach its port alone; those to everybody, to a group or to a stranger reach all
//! others once.

use anywire_stack::device::Device;
use anywire_stack::switch::{Limits, Port, Settings, Switch, SwitchError};
use anywire_tcp::Mac;

use crate::support::{batch, frame, mac, marks, received, send};

fn switch_with(ports: u16) -> (Switch, Vec<Port>) {
    let switch = Switch::new(Settings::default());
    let ports = (0..ports).map(|number| switch.port(mac(number)).unwrap()).collect();
    (switch, ports)
}

#[test]
fn a_batch_of_mixed_destinations_is_split_in_order() {
    let (switch, mut ports) = switch_with(4);
    let mut frames = batch((0..60).map(|i| frame(mac(0), mac(1 + i % 3), u32::from(i))));
    assert_eq!(ports[0].transmit(crate::support::NOW, &mut frames), 60);
    assert!(frames.is_empty());
    for port in 1..4 {
        let expected: Vec<_> = (0..60).filter(|i| 1 + i % 3 == port).collect();
        assert_eq!(marks(&mut ports[port as usize]), expected);
    }
    assert_eq!(marks(&mut ports[0]), []);
    let counters = ports[0].counters();
    assert_eq!((counters.frames_out, counters.bytes_out, counters.dropped_out), (60, 3600, 0));
    let counters = ports[2].counters();
    assert_eq!((counters.frames_in, counters.bytes_in, counters.dropped_in), (20, 1200, 0));
    assert_eq!(switch.counters().frames_copied, 60);
}

#[test]
fn strangers_groups_and_everybody_are_flooded_once() {
    let (switch, mut ports) = switch_with(5);
    for to in [mac(99), Mac::BROADCAST, Mac::new([0x33, 0x33, 0, 0, 0, 1])] {
        assert_eq!(send(&mut ports[2], frame(mac(2), to, 7)), 1);
        for (number, port) in ports.iter_mut().enumerate() {
            assert_eq!(marks(port), if number == 2 { vec![] } else { vec![7] }, "port {number}");
        }
    }
    assert_eq!(switch.counters().frames_flooded, 3);
}

#[test]
fn a_station_behind_a_port_is_learned_from_what_it_sends() {
    let (switch, mut ports) = switch_with(3);
    let station = mac(50);
    send(&mut ports[1], frame(station, mac(0), 1));
    assert_eq!((marks(&mut ports[0]), switch.stations()), (vec![1], 1));

    send(&mut ports[0], frame(mac(0), station, 2));
    assert_eq!((marks(&mut ports[1]), marks(&mut ports[2])), (vec![2], vec![]));

    // To a station behind the same port: not the switch's business.
    send(&mut ports[1], frame(mac(51), station, 3));
    assert_eq!(ports.iter_mut().map(marks).collect::<Vec<_>>(), [[]; 3]);
    assert_eq!(switch.counters().filtered, 1);

    // It moves.
    send(&mut ports[2], frame(station, mac(0), 4));
    send(&mut ports[0], frame(mac(0), station, 5));
    assert_eq!((marks(&mut ports[1]), marks(&mut ports[2])), (vec![], vec![5]));
    assert_eq!(switch.counters().stations_moved, 1);

    // It comes back, and moves once more.
    for port in [1, 2] {
        send(&mut ports[port], frame(station, mac(0), 4));
        send(&mut ports[0], frame(mac(0), station, 5));
        assert_eq!(marks(&mut ports[port]), [5]);
        assert_eq!(marks(&mut ports[3 - port]), []);
    }
    assert_eq!(switch.counters().stations_moved, 3);

    // Its port is closed: it is a stranger again.
    drop(ports.pop());
    send(&mut ports[0], frame(mac(0), station, 6));
    assert_eq!(marks(&mut ports[1]), [6]);
    assert_eq!(switch.counters().frames_flooded, 1);
}

#[test]
fn nobody_takes_the_address_of_a_port() {
    let (switch, mut ports) = switch_with(3);
    send(&mut ports[2], frame(mac(1), mac(0), 1));
    send(&mut ports[0], frame(mac(0), mac(1), 2));
    assert_eq!((marks(&mut ports[1]), marks(&mut ports[2])), (vec![2], vec![]));
    assert_eq!((switch.counters().stations_forged, switch.stations()), (1, 0));
}

#[test]
fn runts_and_giants_go_nowhere() {
    let (switch, mut ports) = switch_with(2);
    let mut giant = frame(mac(0), mac(1), 1);
    giant.resize(1515, 0);
    let mut frames = batch([vec![2; 13], giant, frame(mac(0), mac(1), 3)]);
    ports[0].transmit(crate::support::NOW, &mut frames);
    assert_eq!(marks(&mut ports[1]), [3]);
    assert_eq!(switch.counters().malformed, 2);
}

#[test]
fn jumbo_frames_pass_where_the_mtu_allows_them() {
    let switch = Switch::new(Settings { mtu: 9000, ..Settings::default() });
    let [mut one, mut two, mut three] = [1, 2, 3].map(|number| switch.port(mac(number)).unwrap());
    let mut jumbo = frame(mac(1), mac(2), 2);
    jumbo.resize(9014, 3);
    let mut frames = one.batch();
    assert!(frames.push(&jumbo) && frames.push(&frame(mac(1), mac(3), 4)));
    assert_eq!(one.transmit(crate::support::NOW, &mut frames), 2);
    assert!(received(&mut two) == [jumbo], "the jumbo frame has changed");
    assert_eq!(marks(&mut three), [4]);
}

#[test]
fn ports_are_limited_and_their_addresses_unique() {
    let limits = Limits { ports: 2, ..Limits::default() };
    let switch = Switch::new(Settings { limits, ..Settings::default() });
    let one = switch.port(mac(1)).unwrap();
    assert_eq!(switch.port(mac(1)).unwrap_err(), SwitchError::AddressTaken(mac(1)));
    assert_eq!(switch.port(Mac::BROADCAST).unwrap_err(), SwitchError::NotAStation(Mac::BROADCAST));
    let _two = switch.port(mac(2)).unwrap();
    assert_eq!(switch.port(mac(3)).unwrap_err(), SwitchError::PortsExhausted { limit: 2 });
    drop(one);
    assert_eq!(switch.port(mac(1)).unwrap().mac(), mac(1));
}
