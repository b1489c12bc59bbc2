//! A bad network impairs frames as often, as late and as slowly as its settings say, and in the same way for the same seed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use anywire_stack::device::{Capabilities, Device, DeviceCounters};
use anywire_stack::impair::{Impair, Impairment};
use anywire_stack::pair::{Endpoint, Settings};
use anywire_tcp::{Frames, Instant};

use crate::support::{NOW, batch, frame, mac, mark, received_at};

const PERFECT: fn() -> Impairment = Impairment::default;

/// One end of a cable. It looks at no address, so that a frame with a flipped bit arrives as well.
#[derive(Default)]
struct CableEnd {
    incoming: Rc<RefCell<VecDeque<Vec<u8>>>>,
    outgoing: Rc<RefCell<VecDeque<Vec<u8>>>>,
}

impl Device for CableEnd {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _now: Instant, frames: &mut Frames) -> usize {
        let mut waiting = self.incoming.borrow_mut();
        let count = waiting.len().min(frames.room());
        for frame in waiting.drain(..count) {
            assert!(frames.push(&frame), "there was room");
        }
        count
    }

    fn room(&self) -> usize {
        Frames::BATCH
    }

    fn transmit(&mut self, _now: Instant, frames: &mut Frames) -> usize {
        let count = frames.len();
        self.outgoing.borrow_mut().extend(frames.iter().map(<[u8]>::to_vec));
        frames.clear();
        count
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

fn impaired(outgoing: Impairment) -> (Impair<CableEnd>, CableEnd) {
    let one = CableEnd::default();
    let two = CableEnd { incoming: Rc::clone(&one.outgoing), outgoing: Rc::clone(&one.incoming) };
    (Impair::new(one, outgoing), two)
}

/// Sends the frames `0..count`, `each` microseconds apart by batch, and gives what arrives.
fn run(device: &mut impl Device, other: &mut impl Device, count: u32, each: u64) -> Vec<Vec<u8>> {
    let (mut seen, mut now) = (Vec::new(), NOW);
    for start in (0..count).step_by(50) {
        now = Instant::from_micros(u64::from(start) / 50 * each);
        let end = count.min(start + 50);
        device.transmit(now, &mut batch((start..end).map(|number| frame(mac(1), mac(2), number))));
        seen.extend(received_at(other, now));
    }
    while let Some(deadline) = device.next_deadline() {
        now = now.max(deadline);
        assert_eq!(device.receive(now, &mut Frames::new()), 0);
        seen.extend(received_at(other, now));
    }
    seen
}

fn assert_near(count: u64, expected: f64, of: u64) {
    let deviation = (expected * (1.0 - expected / of as f64)).sqrt();
    assert!((count as f64 - expected).abs() < 5.0 * deviation + 1.0, "{count} of {of}, expected {expected}");
}

#[test]
fn the_rates_are_those_asked_for() {
    const FRAMES: u64 = 100_000;
    let asked = Impairment { loss: 0.01, duplicate: 0.02, reorder: 0.03, corrupt: 0.04, ..PERFECT() };
    let (mut device, mut other) = impaired(asked);
    let seen = run(&mut device, &mut other, FRAMES as u32, 10);
    let counters = device.outgoing_counters();
    assert_eq!(counters.frames, FRAMES);
    let survived = FRAMES - counters.lost;
    assert_near(counters.lost, FRAMES as f64 * 0.01, FRAMES);
    assert_near(counters.duplicated, survived as f64 * 0.02, survived);
    assert_near(counters.reordered, survived as f64 * 0.03, survived);
    let copies = survived + counters.duplicated;
    assert_near(counters.corrupted, copies as f64 * 0.04, copies);
    assert_eq!(seen.len() as u64, copies);
}

#[test]
fn probabilities_are_taken_from_0_to_1() {
    for (loss, lost) in [(f64::NAN, 0), (-1.0, 0), (0.0, 0), (1.0, 1000), (7.0, 1000)] {
        let (mut device, mut other) = impaired(Impairment { loss, ..PERFECT() });
        assert_eq!(run(&mut device, &mut other, 1000, 10).len() as u64, 1000 - lost, "{loss}");
        assert_eq!(device.outgoing_counters().lost, lost, "{loss}");
    }
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let asked = |seed| Impairment {
        loss: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        corrupt: 0.1,
        jitter: Duration::from_micros(70),
        seed,
        ..PERFECT()
    };
    let seen = |seed| {
        let (mut device, mut other) = impaired(asked(seed));
        run(&mut device, &mut other, 5_000, 100)
    };
    let first = seen(42);
    assert!(first == seen(42));
    assert!(first != seen(43));
}

#[test]
fn without_impairments_batches_pass_as_they_are() {
    let [one, mut other] = Endpoint::pair(Settings::default());
    let mut device = Impair::new(one, PERFECT());
    let mut sent = batch((0..64).map(|number| frame(mac(1), mac(2), number)));
    let places: Vec<_> = sent.iter().map(<[u8]>::as_ptr).collect();
    assert_eq!(device.transmit(NOW, &mut sent), 64);
    assert_eq!(other.receive(NOW, &mut sent), 64);
    assert_eq!(sent.iter().map(<[u8]>::as_ptr).collect::<Vec<_>>(), places);
    assert_eq!(device.next_deadline(), None);
}

#[test]
fn a_corrupt_frame_differs_in_one_bit() {
    let (mut device, mut other) = impaired(Impairment { corrupt: 1.0, ..PERFECT() });
    for number in 0..500 {
        let sent = frame(mac(1), mac(2), number);
        device.transmit(NOW, &mut batch([sent.clone()]));
        let [seen] = received_at(&mut other, NOW).try_into().unwrap();
        let bits: u32 = seen.iter().zip(&sent).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(bits, 1);
    }
    assert_eq!(device.outgoing_counters().corrupted, 500);
}

#[test]
fn a_delayed_frame_comes_in_its_time_and_order() {
    let delay = Duration::from_millis(5);
    let (mut device, mut other) = impaired(Impairment { delay, ..PERFECT() });
    device.transmit(NOW, &mut batch((0..10).map(|number| frame(mac(1), mac(2), number))));
    let due = NOW + delay;
    assert_eq!(device.next_deadline(), Some(due));
    device.receive(Instant::from_micros(4_999), &mut Frames::new());
    assert_eq!(received_at(&mut other, due).len(), 0);
    device.receive(due, &mut Frames::new());
    assert!(received_at(&mut other, due).iter().map(|frame| mark(frame)).eq(0..10));

    let jitter = Duration::from_millis(4);
    let (mut device, mut other) = impaired(Impairment { delay, jitter, ..PERFECT() });
    let seen = run(&mut device, &mut other, 5_000, 100);
    assert!(seen.iter().map(|frame| mark(frame)).eq(0..5_000), "jitter alone reorders nothing");
}

#[test]
fn reordered_frames_are_overtaken_but_not_lost() {
    let (mut device, mut other) = impaired(Impairment { reorder: 0.05, ..PERFECT() });
    let mut seen: Vec<_> =
        run(&mut device, &mut other, 10_000, 100).iter().map(|frame| mark(frame)).collect();
    let overtaken = seen.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(overtaken > 200, "{overtaken}");
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..10_000));
}

#[test]
fn a_slow_line_has_its_rate_and_its_queue() {
    // 60 bytes at 4.8 Mbit/s take 100 us.
    let line = Impairment { rate_bits_per_second: Some(4_800_000), queue_frames: 20, ..PERFECT() };
    let (mut device, mut other) = impaired(line);
    let count = device.transmit(NOW, &mut batch((0..50).map(|number| frame(mac(1), mac(2), number))));
    assert_eq!(count, 50, "the network swallows what it cannot carry");
    let mut arrivals = Vec::new();
    while let Some(now) = device.next_deadline() {
        device.receive(now, &mut Frames::new());
        arrivals.extend(received_at(&mut other, now).iter().map(|frame| (mark(frame), now.as_micros())));
    }
    // One on the line, twenty behind it.
    assert!(arrivals.into_iter().eq((0..21).map(|number| (number, u64::from(number + 1) * 100))));
    assert_eq!(device.outgoing_counters().overflowed, 29);
}

#[test]
fn what_is_held_is_bounded() {
    let asked = Impairment { delay: Duration::from_secs(1), held_frames: 100, ..PERFECT() };
    let (mut device, mut other) = impaired(asked);
    assert_eq!(run(&mut device, &mut other, 1_000, 0).len(), 100);
    assert_eq!(device.outgoing_counters().overflowed, 900);
}

#[test]
fn what_is_received_can_be_impaired_too() {
    let (device, mut other) = impaired(PERFECT());
    let delay = Duration::from_millis(1);
    let mut device = device.incoming(Impairment { loss: 0.5, delay, ..PERFECT() });
    other.transmit(NOW, &mut batch((0..64).map(|number| frame(mac(2), mac(1), number))));
    assert_eq!(received_at(&mut device, NOW).len(), 0);
    let due = device.next_deadline().unwrap();
    assert_eq!(due, NOW + delay);
    let seen = received_at(&mut device, due).len() as u64;
    assert_eq!(seen + device.incoming_counters().lost, 64);
    assert!((16..48).contains(&seen));
}
