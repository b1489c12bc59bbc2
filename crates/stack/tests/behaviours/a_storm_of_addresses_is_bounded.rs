//! A port that sends from ever new addresses fills its own share of the switch's table, and no other port's.

use std::time::Duration;

use anywire_stack::device::Device;
use anywire_stack::switch::{Limits, Settings, Switch};
use anywire_tcp::{Instant, Mac};

use crate::support::{batch, frame, mac, marks, received_at, send};

const STATIONS: usize = 100;
const STATIONS_PER_PORT: usize = 80;

fn storm_mac(number: u32) -> Mac {
    let [a, b, c, d] = number.to_be_bytes();
    Mac::new([6, 0, a, b, c, d])
}

#[test]
fn the_table_keeps_its_limits_and_the_others_their_places() {
    let limits = Limits { stations: STATIONS, stations_per_port: STATIONS_PER_PORT, ..Limits::default() };
    let switch = Switch::new(Settings { limits, ..Settings::default() });
    let [mut honest, mut loud, mut third] = [1, 2, 3].map(|number| switch.port(mac(number)).unwrap());
    send(&mut honest, frame(mac(50), mac(3), 1));

    let mut sent = 0;
    while sent < 10_000 {
        let frames = (sent..sent + 50).map(|number| frame(storm_mac(number), mac(3), number));
        assert_eq!(loud.transmit(crate::support::NOW, &mut batch(frames)), 50);
        received_at(&mut third, crate::support::NOW);
        sent += 50;
    }
    assert_eq!(switch.stations(), STATIONS_PER_PORT + 1);
    assert_eq!(switch.counters().stations_refused, 10_000 - STATIONS_PER_PORT as u64);

    // Who was known is still reached alone; who found no place is reached all the same.
    send(&mut third, frame(mac(3), mac(50), 2));
    assert_eq!((marks(&mut honest), marks(&mut loud)), (vec![2], vec![]));
    send(&mut third, frame(mac(3), storm_mac(9_999), 3));
    assert_eq!((marks(&mut honest), marks(&mut loud)), (vec![3], vec![3]));

    // Later, others have a place again.
    let later = Instant::default() + limits.station_lifetime + Duration::from_secs(1);
    let frames = (0..40).map(|number| frame(mac(100 + number), mac(3), 0));
    honest.transmit(later, &mut batch(frames));
    third.transmit(later, &mut batch([frame(mac(3), mac(139), 4)]));
    assert_eq!((received_at(&mut honest, later).len(), received_at(&mut loud, later).len()), (1, 0));
}
