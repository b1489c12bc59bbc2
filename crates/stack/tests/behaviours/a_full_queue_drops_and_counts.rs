//! A port's queue is bounded. A sender that asks for room loses nothing; one that does not loses the frames beyond it; and
//! a port that takes nothing delays its senders only briefly.

use std::time::Duration;

use anywire_stack::device::Device;
use anywire_stack::switch::{Limits, Port, Settings, Switch};
use anywire_tcp::{Instant, Mac};

use crate::support::{NOW, batch, frame, mac, marks, received_at, send};

const QUEUE: usize = 100;

fn three_ports() -> (Switch, [Port; 3]) {
    let limits = Limits { queue_frames: QUEUE, ..Limits::default() };
    let switch = Switch::new(Settings { limits, ..Settings::default() });
    let ports = [1, 2, 3].map(|number| switch.port(mac(number)).unwrap());
    (switch, ports)
}

#[test]
fn what_is_too_much_is_dropped_and_counted_on_both_sides() {
    let (switch, [mut one, mut two, _]) = three_ports();
    let sixty = |start| batch((start..start + 60).map(|number| frame(mac(1), mac(2), number)));
    assert_eq!(one.transmit(NOW, &mut sixty(0)), 60);
    assert_eq!(one.room(), 40);
    assert_eq!(one.transmit(NOW, &mut sixty(60)), 40);
    assert_eq!((one.room(), two.waiting()), (0, QUEUE));
    assert_eq!(one.transmit(NOW, &mut sixty(120)), 0);

    assert_eq!((one.counters().frames_out, one.counters().dropped_out), (100, 80));
    assert_eq!((two.counters().dropped_in, switch.counters().full), (80, 80));
    assert!(marks(&mut two).into_iter().eq(0..100), "those that came first are kept");
    assert_eq!((one.room(), two.waiting()), (QUEUE, 0));
    assert_eq!((two.counters().frames_in, two.counters().bytes_in), (100, 6000));
}

#[test]
fn room_is_that_of_the_fullest_port_lately_sent_to() {
    let (_switch, [mut one, mut two, mut three]) = three_ports();
    for number in 0..30 {
        send(&mut one, frame(mac(1), mac(2), number));
    }
    send(&mut one, frame(mac(1), mac(3), 0));
    assert_eq!(one.room(), QUEUE - 30);
    assert_eq!(three.room(), QUEUE, "who sends to nobody waits for nobody");
    marks(&mut two);
    assert_eq!(one.room(), QUEUE - 1);
    marks(&mut three);
}

#[test]
fn a_port_that_takes_nothing_is_not_waited_for() {
    let (switch, [mut one, mut two, mut three]) = three_ports();
    while one.room() > 0 {
        send(&mut one, frame(mac(1), mac(2), 0));
    }
    assert_eq!(switch.counters().full, 0);

    let later = Instant::default() + Limits::default().patience + Duration::from_micros(1);
    received_at(&mut three, later);
    assert_eq!(one.room(), QUEUE, "the full port counts no more");
    let mut frames = batch([frame(mac(1), mac(2), 1), frame(mac(1), mac(3), 2)]);
    assert_eq!(one.transmit(later, &mut frames), 1);
    assert_eq!(received_at(&mut three, later).len(), 1);
    assert_eq!(switch.counters().full, 1);

    // It comes back, and counts again.
    assert_eq!(received_at(&mut two, later).len(), QUEUE);
    send(&mut one, frame(mac(1), mac(2), 3));
    assert_eq!(one.room(), QUEUE - 1);
}

#[test]
fn flooding_fills_queues_but_holds_nobody_back() {
    let (switch, [mut one, mut two, three]) = three_ports();
    for number in 0..150 {
        assert_eq!(send(&mut one, frame(mac(1), Mac::BROADCAST, number)), 1);
    }
    assert_eq!(one.room(), QUEUE);
    assert_eq!((marks(&mut two).len(), three.waiting()), (QUEUE, QUEUE));
    assert_eq!((switch.counters().full, three.counters().dropped_in), (100, 50));
}
