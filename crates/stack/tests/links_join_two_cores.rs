//! The ports of two switches in two threads reach each other through a link, in order and without loss.

mod support;

use std::sync::mpsc;
use std::thread;

use anywire_stack::device::Device;
use anywire_stack::link::{self, Bridge, Limits, Link};
use anywire_stack::switch::{Settings, Switch};
use anywire_tcp::{Frames, Mac};

use support::{NOW, batch, frame, mac, mark, received};

const COUNT: u32 = 200_000;

/// Sends `0..COUNT` from `own` to `peer` over a switch with an uplink, as there is room, and gives what comes
/// back.
fn core(end: Link, own: Mac, peer: Mac, uplink: Mac) -> u32 {
    let switch = Switch::new(Settings::default());
    let mut port = switch.port(own).unwrap();
    let mut uplink = Bridge::new(switch.port(uplink).unwrap(), end);
    let (mut sent, mut seen) = (0, 0);
    let mut frames = Frames::new();
    while sent < COUNT || seen < COUNT {
        while sent < COUNT && frames.room() > 0 && frames.len() < port.room() {
            assert!(frames.push(&frame(own, peer, sent)), "room");
            sent += 1;
        }
        port.transmit(NOW, &mut frames);
        let is_over = uplink.devices().1.is_closed();
        let moved = uplink.forward(NOW);
        for arrived in received(&mut port) {
            assert_eq!(mark(&arrived), seen);
            seen += 1;
        }
        if moved == 0 {
            assert!(!is_over || seen == COUNT, "the other core has gone after {seen} frames");
            thread::yield_now();
        }
    }
    // What the other has not seen yet must still go out.
    while uplink.devices().0.waiting() > 0 && !uplink.devices().1.is_closed() {
        uplink.forward(NOW);
        thread::yield_now();
    }
    assert_eq!(port.counters().dropped_out + port.counters().dropped_in, 0);
    assert_eq!(uplink.devices().1.counters().dropped_out, 0);
    seen
}

#[test]
fn two_switches_exchange_everything() {
    let (near, far) = link::pair([mac(11), mac(12)], Limits::default());
    let other = thread::spawn(move || core(far, mac(2), mac(1), mac(12)));
    assert_eq!(core(near, mac(1), mac(2), mac(11)), COUNT);
    assert_eq!(other.join().unwrap(), COUNT);
}

#[test]
fn a_link_takes_what_it_has_room_for() {
    let (mut near, mut far) = link::pair([mac(1), mac(2)], Limits { ring_bytes: 0, ..Limits::default() });
    let room = near.room();
    assert!(room >= Frames::BATCH, "a batch of the longest frames always has room");
    let (mut taken, mut offered) = (0, 0);
    while taken == offered {
        let mut longest = frame(mac(1), mac(2), 0);
        longest.resize(1514, 0);
        taken += near.transmit(NOW, &mut batch([longest]));
        offered += 1;
    }
    assert!(taken >= room, "{taken} taken, {room} promised");
    assert_eq!((near.room(), near.counters().dropped_out), (0, 1));
    assert_eq!(received(&mut far).len(), taken);
    assert_eq!(near.room(), room);

    let mut giant = frame(mac(1), mac(2), 0);
    giant.resize(1515, 0);
    assert_eq!(near.transmit(NOW, &mut batch([giant])), 0);
}

#[test]
fn what_was_sent_before_the_end_arrives() {
    let (mut near, mut far) = link::pair([mac(1), mac(2)], Limits::default());
    let (done, wait) = mpsc::channel();
    let other = thread::spawn(move || {
        far.transmit(NOW, &mut batch([frame(mac(2), mac(1), 7)]));
        drop(far);
        done.send(()).unwrap();
    });
    wait.recv().unwrap();
    other.join().unwrap();
    assert!(near.is_closed());
    assert_eq!(received(&mut near).len(), 1);
    assert_eq!(near.transmit(NOW, &mut batch([frame(mac(1), mac(2), 8)])), 0);
    assert_eq!((near.counters().dropped_out, near.room()), (1, Frames::BATCH));
}
