//! The queue between the ends of a pair is bounded: frames without room stay with their sender. Frames that cannot arrive are
//! dropped and counted.

use anywire_stack::device::Device;
use anywire_stack::pair::{Endpoint, Settings};

use crate::support::{NOW, batch, frame, mac, mark, marks, send};

const QUEUE: usize = 100;

fn pair() -> [Endpoint; 2] {
    Endpoint::pair(Settings { queue_frames: QUEUE, ..Settings::default() })
}

#[test]
fn frames_without_room_stay_in_their_order() {
    let [mut one, mut two] = pair();
    let sixty = |start| batch((start..start + 60).map(|number| frame(mac(1), mac(2), number)));
    assert_eq!(one.transmit(NOW, &mut sixty(0)), 60);
    assert_eq!(one.room(), 40);
    let mut second = sixty(60);
    assert_eq!(one.transmit(NOW, &mut second), 40);
    assert_eq!((one.room(), two.waiting()), (0, QUEUE));
    assert!(second.iter().map(mark).eq(100..120));
    assert_eq!(one.transmit(NOW, &mut second), 0);
    assert_eq!((one.counters().frames_out, one.counters().dropped_out), (100, 0));

    assert!(marks(&mut two).into_iter().eq(0..100));
    assert_eq!((one.room(), two.waiting()), (QUEUE, 0));
    assert_eq!((two.counters().frames_in, two.counters().bytes_in), (100, 6000));
    assert_eq!(one.transmit(NOW, &mut second), 20);
    assert!(marks(&mut two).into_iter().eq(100..120));
}

#[test]
fn one_direction_does_not_hold_back_the_other() {
    let [mut one, mut two] = pair();
    while one.room() > 0 {
        assert_eq!(send(&mut one, frame(mac(1), mac(2), 0)), 1);
    }
    assert_eq!(two.room(), QUEUE);
    assert_eq!(send(&mut two, frame(mac(2), mac(1), 7)), 1);
    assert_eq!(marks(&mut one), [7]);
}

#[test]
fn giants_go_nowhere() {
    let [mut one, mut two] = pair();
    let mut giant = frame(mac(1), mac(2), 1);
    giant.resize(1515, 0);
    let mut frames = batch([frame(mac(1), mac(2), 0), giant, frame(mac(1), mac(2), 2)]);
    assert_eq!((one.transmit(NOW, &mut frames), frames.len()), (2, 0));
    assert_eq!(marks(&mut two), [0, 2]);
    assert_eq!((one.counters().frames_out, one.counters().dropped_out), (2, 1));
}

#[test]
fn an_end_alone_waits_for_nobody() {
    let [mut one, mut two] = pair();
    while one.room() > 0 {
        send(&mut one, frame(mac(1), mac(2), 0));
    }
    send(&mut two, frame(mac(2), mac(1), 7));
    drop(two);
    assert_eq!(one.room(), QUEUE);
    assert_eq!(send(&mut one, frame(mac(1), mac(2), 0)), 0);
    assert_eq!(one.counters().dropped_out, 1);
    assert_eq!(marks(&mut one), [7], "what was sent before arrives");
}
