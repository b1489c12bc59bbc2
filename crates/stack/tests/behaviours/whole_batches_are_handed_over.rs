//! A batch arrives at the other end of a pair as it is: the same memory, never copied.

use anywire_stack::device::Device;
use anywire_stack::pair::{Endpoint, Settings};
use anywire_tcp::Frames;

use crate::support::{NOW, batch, frame, mac, marks};

#[test]
fn the_receiver_sees_the_memory_of_the_sender() {
    let [mut one, mut two] = Endpoint::pair(Settings::default());
    let (mut sent, mut seen) = (Frames::new(), Frames::new());
    for round in 0..100 {
        for number in 0..Frames::BATCH as u32 {
            assert!(sent.push(&frame(mac(1), mac(2), round * 100 + number)));
        }
        let places: Vec<_> = sent.iter().map(<[u8]>::as_ptr).collect();
        assert_eq!(one.transmit(NOW, &mut sent), Frames::BATCH);
        assert!(sent.is_empty(), "the sender has an empty batch again");
        assert_eq!(two.receive(NOW, &mut seen), Frames::BATCH);
        assert_eq!(seen.iter().map(<[u8]>::as_ptr).collect::<Vec<_>>(), places);
        assert!(seen.iter().map(crate::support::mark).eq((0..64).map(|number| round * 100 + number)));
        seen.clear();
    }
}

#[test]
fn a_few_frames_join_those_that_wait() {
    let [mut one, mut two] = Endpoint::pair(Settings::default());
    for number in 0..70 {
        assert_eq!(one.transmit(NOW, &mut batch([frame(mac(1), mac(2), number)])), 1);
    }
    let mut frames = Frames::new();
    assert_eq!(two.receive(NOW, &mut frames), 64, "one full batch, not sixty-four of one frame");
    assert!(frames.iter().map(crate::support::mark).eq(0..64));
    frames.clear();
    assert!(marks(&mut two).into_iter().eq(64..70));
}

#[test]
fn what_shares_its_memory_is_handed_over_as_well() {
    let [mut one, mut two] = Endpoint::pair(Settings::default());
    let whole = batch((0..60).map(|number| frame(mac(1), mac(2), number)));
    let mut part = whole.select((0..60).filter(|number| number % 2 == 0));
    assert_eq!(one.transmit(NOW, &mut part), 30);
    assert_eq!(one.transmit(NOW, &mut batch([frame(mac(1), mac(2), 60)])), 1);
    assert!(marks(&mut two).into_iter().eq((0..=60).filter(|number| number % 2 == 0)));
    assert!(whole.iter().map(crate::support::mark).eq(0..60), "the sender's own frames are untouched");
}

#[test]
fn a_batch_has_room_for_frames_of_the_mtu() {
    for mtu in [576, 1500, 9000] {
        let [mut one, mut two] = Endpoint::pair(Settings { mtu, ..Settings::default() });
        let mut longest = frame(mac(1), mac(2), 7);
        longest.resize(14 + mtu, 1);
        let (mut sent, mut seen) = (one.batch(), two.batch());
        for _ in 0..Frames::BATCH {
            assert!(sent.push(&longest), "at an MTU of {mtu}");
        }
        assert!(!sent.push(&longest));
        assert_eq!(one.transmit(NOW, &mut sent), Frames::BATCH);
        assert_eq!(two.receive(NOW, &mut seen), Frames::BATCH);
        assert!(seen.iter().all(|frame| frame == longest));
    }
}
