//! A loop that does not look leaves frames to be dropped and counted, and goes on as soon as it looks again.

use std::net::UdpSocket;

use anywire_stack::device::Device;
use anywire_stack::xdp::{Options, WantedMode};
use anywire_tcp::Instant;

use crate::networks::frames::{STACK, THEIRS, await_frame, datagram, datagram_to, open};
use crate::networks::{Pair, eventually};

const DEPTH: usize = 32;

#[test]
fn frames_beyond_the_rings_are_dropped_and_counted() {
    let Some(pair) = Pair::new() else { return };
    let options = Options { depth: Some(DEPTH as u32), ..Options::default() };
    let (mut device, _claim) = open(&pair, WantedMode::Any, options);
    let socket = pair.theirs.run(|| UdpSocket::bind((THEIRS, 0)).expect("a free port"));
    for round in 0..3_u8 {
        for number in 0..200_u8 {
            socket.send_to(&[round, number], (STACK, 9)).expect("it leaves");
        }
        let lost = u64::from(round + 1) * (200 - DEPTH as u64);
        eventually("the drops", || (device.counters().receive_ring_full >= lost).then_some(()));
        let mut frames = device.batch();
        let (mut came, mut last) = (0, None);
        while device.receive(Instant::default(), &mut frames) > 0 {
            for payload in frames.iter().filter_map(|frame| datagram_to(frame, 9)) {
                came += 1;
                assert!(last < Some(payload[1]), "in order");
                last = Some(payload[1]);
            }
            frames.clear();
        }
        assert_eq!((came, device.counters().dropped_in), (DEPTH, lost), "round {round}");
    }
    socket.send_to(b"as ever", (STACK, 9)).expect("it leaves");
    await_frame(&mut device, |frame| (datagram_to(frame, 9)? == b"as ever").then_some(()));
    assert_eq!(device.socket_counters(), Default::default());
}

/// More frames in a batch than the ring takes: the rest stays in the batch, in its order.
#[test]
fn frames_without_room_stay_in_the_batch() {
    let Some(pair) = Pair::new() else { return };
    let options = Options { depth: Some(DEPTH as u32), ..Options::default() };
    let (mut device, _claim) = open(&pair, WantedMode::Any, options);
    let socket = pair.theirs.run(|| UdpSocket::bind((THEIRS, 0)).expect("a free port"));
    let port = socket.local_addr().expect("it is bound").port();
    let mut batch = device.batch();
    for number in 0..64 {
        assert!(batch.push(&datagram(port, &[number])));
    }
    assert_eq!(device.transmit(Instant::default(), &mut batch), DEPTH);
    assert_eq!((batch.len(), datagram_to(&batch[0], port)), (64 - DEPTH, Some(&[DEPTH as u8][..])));
    eventually("room", || {
        device.transmit(Instant::default(), &mut batch);
        batch.is_empty().then_some(())
    });
    for number in 0..64 {
        let mut byte = [0];
        socket.recv(&mut byte).expect("a datagram");
        assert_eq!(byte, [number]);
    }
    assert_eq!(device.counters().dropped_out, 0);
}
