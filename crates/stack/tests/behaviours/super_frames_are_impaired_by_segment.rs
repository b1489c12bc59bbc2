//! A bad network loses and damages the segments of a super-frame one by one, and what it damages can be seen.

use anywire_stack::device::{Capabilities, Device, DeviceCounters};
use anywire_stack::impair::{Impair, Impairment};
use anywire_tcp::{Checksum, Frames, Instant, Meta};

use crate::support::{NOW, internet_checksum, mac};

const SEGMENTS: usize = 40;
const SEGMENT_BYTES: usize = 1000;
const HEADERS: usize = 54;

/// Brings one super-frame, whose checksum was never finished.
struct OneSuperFrame(Option<Vec<u8>>);

impl Device for OneSuperFrame {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(1500)
    }

    fn receive(&mut self, _: Instant, frames: &mut Frames) -> usize {
        if let Some(frame) = self.0.take() {
            assert!(frames.push(&frame));
            frames.describe_last(Meta {
                checksum: Checksum::Partial,
                segment_bytes: SEGMENT_BYTES as u16,
                ..Meta::default()
            });
        }
        frames.len()
    }

    fn room(&self) -> usize {
        0
    }

    fn transmit(&mut self, _: Instant, _: &mut Frames) -> usize {
        0
    }

    fn batch(&self) -> Frames {
        Frames::with_bytes(Frames::BATCH, 100_000)
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

/// 39 segments of 1000 bytes and one of 500, from number 7 on, as one frame.
fn super_frame() -> Vec<u8> {
    let payload: Vec<_> = (0..SEGMENTS * SEGMENT_BYTES - 500).map(|at| (at / SEGMENT_BYTES) as u8).collect();
    let length = (40 + payload.len()) as u16;
    let mut frame =
        [&mac(2).bytes()[..], &mac(1).bytes(), &[0x08, 0, 0x45, 0], &length.to_be_bytes()].concat();
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 80, 0x30, 0x39, 0, 0, 0, 7, 1, 2, 3, 4, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

/// What arrives of it: frames, and what is known of them.
fn received(incoming: Impairment) -> Vec<(Vec<u8>, Meta)> {
    let device = OneSuperFrame(Some(super_frame()));
    let mut device = Impair::new(device, Impairment::default()).incoming(incoming);
    let (mut frames, mut all) = (device.batch(), Vec::new());
    while device.receive(NOW, &mut frames) > 0 {
        all.extend((0..frames.len()).map(|number| (frames[number].to_vec(), frames.meta(number))));
        frames.clear();
    }
    all
}

fn seq(frame: &[u8]) -> usize {
    u32::from_be_bytes(frame[38..42].try_into().expect("four bytes")) as usize
}

/// Whether the checksum of TCP is right.
fn is_right(frame: &[u8]) -> bool {
    let length = ((frame.len() - 34) as u16).to_be_bytes();
    internet_checksum(&[&frame[26..34], &[0, 6], &length, &frame[34..]].concat()) == 0
}

#[test]
fn a_good_network_lets_it_pass_whole() {
    let all = received(Impairment::default());
    assert!(all.len() == 1 && all[0].0 == super_frame() && all[0].1.segment_bytes == SEGMENT_BYTES as u16);
}

#[test]
fn segments_are_lost_one_by_one() {
    let all = received(Impairment { loss: 0.5, seed: 5, ..Impairment::default() });
    assert!((8..32).contains(&all.len()), "{} of {SEGMENTS}", all.len());
    for (frame, meta) in &all {
        let number = (seq(frame) - 7) / SEGMENT_BYTES;
        let length = if number + 1 == SEGMENTS { 500 } else { SEGMENT_BYTES };
        assert_eq!((seq(frame) - 7) % SEGMENT_BYTES, 0);
        assert_eq!(*meta, Meta { checksum: Checksum::Partial, segment_bytes: 0, ..Meta::default() });
        assert!(frame[HEADERS..] == vec![number as u8; length], "segment {number}");
        assert_eq!(internet_checksum(&frame[14..34]), 0, "the header of IP is whole");
    }
}

#[test]
fn damage_can_be_seen() {
    let all = received(Impairment { corrupt: 1.0, ..Impairment::default() });
    assert_eq!(all.len(), SEGMENTS);
    for (frame, meta) in all {
        assert_eq!(meta, Meta::default(), "somebody has to look");
        let is_whole = internet_checksum(&frame[14..34]) == 0 && is_right(&frame);
        // Ethernet's own check sequence is not ours.
        let is_in_ethernet = frame[..14] != super_frame()[..14];
        assert_eq!(is_whole, is_in_ethernet, "the damage shows in a checksum");
    }
}
