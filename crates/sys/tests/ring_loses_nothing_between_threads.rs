//! What one thread puts into a ring comes out in the other: all of it, in order, unchanged.

use std::thread;

use anywire_sys::ring;

/// Bytes that depend on the number: a frame that is mixed with another one shows.
fn frame(number: u64, room: &mut Vec<u8>) {
    room.clear();
    let length = 8 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57) as usize;
    room.resize(length, number as u8);
    room[..8].copy_from_slice(&number.to_le_bytes());
}

#[test]
fn a_million_frames_of_all_lengths_pass() {
    const COUNT: u64 = 1_000_000;
    let (mut writer, mut reader) = ring::pair(4096);
    let other = thread::spawn(move || {
        let mut bytes = Vec::new();
        for number in 0..COUNT {
            frame(number, &mut bytes);
            while !writer.push(&bytes) {
                writer.publish();
                thread::yield_now();
            }
            if number % 7 == 0 {
                writer.publish();
            }
        }
    });
    let (mut next, mut expected) = (0, Vec::new());
    while next < COUNT {
        let count = reader.read(64, |bytes| {
            frame(next, &mut expected);
            assert_eq!(bytes, expected);
            next += 1;
        });
        if count == 0 {
            thread::yield_now();
        }
    }
    other.join().unwrap();
    assert!(reader.is_closed() && reader.is_empty());
}

#[test]
fn nothing_is_seen_before_it_is_published() {
    let (mut writer, mut reader) = ring::pair(256);
    assert!(writer.push(b"one"));
    assert_eq!((reader.read(9, |_| {}), reader.is_empty()), (0, true));
    writer.publish();
    assert!(!reader.is_empty());
    assert_eq!(reader.read(9, |bytes| assert_eq!(bytes, b"one")), 1);
    assert!(writer.push(b"two"));
    drop(writer);
    assert_eq!(
        reader.read(9, |bytes| assert_eq!(bytes, b"two")),
        1,
        "the last ones are published at the end"
    );
}

#[test]
fn the_promised_room_is_there_wherever_the_end_lies() {
    for start in 0..64 {
        let (mut writer, mut reader) = ring::pair(1024);
        for _ in 0..start {
            assert!(writer.push(&[0; 13]));
            writer.publish();
            reader.read(1, |_| {});
        }
        for length in [1, 60, 200] {
            let room = writer.room(length);
            assert!(
                (0..room).all(|_| writer.push(&vec![1; length])),
                "{room} of {length} bytes from {start} on"
            );
            writer.publish();
            assert_eq!(reader.read(usize::MAX, |bytes| assert_eq!(bytes, vec![1; length])), room);
        }
    }
}

#[test]
fn what_never_fits_is_refused_and_what_is_longest_always_fits() {
    let (mut writer, mut reader) = ring::pair(100);
    assert_eq!(writer.frame_max_bytes(), 32);
    assert!(!writer.push(&[0; 33]));
    for _ in 0..1000 {
        assert!(writer.push(&[7; 32]) && writer.push(&[]));
        writer.publish();
        let mut lengths = Vec::new();
        assert_eq!(reader.read(9, |bytes| lengths.push(bytes.len())), 2);
        assert_eq!(lengths, [32, 0]);
    }
    drop(reader);
    assert!(writer.is_closed());
}

#[test]
fn a_panic_of_the_one_who_looks_costs_one_frame() {
    let (mut writer, mut reader) = ring::pair(256);
    assert!(writer.push(b"bad") && writer.push(b"good"));
    writer.publish();
    let seen =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reader.read(9, |_| panic!("as asked"))));
    assert!(seen.is_err());
    assert_eq!(reader.read(9, |bytes| assert_eq!(bytes, b"good")), 1);
    assert_eq!(writer.room(60), 256 / 64 - 1);
}
