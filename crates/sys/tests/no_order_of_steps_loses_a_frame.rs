//! Loom tries the orders in which a writer and a reader can take the steps of a ring of frames. Each frame arrives whole
//! and in order, no word is touched by both at a time, and frames pushed before the writer was dropped are read.
//!
//! The ring is the real one: its file, compiled once more with loom's atomics, over memory that loom watches.

use loom::thread;

#[path = "../src/ring.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of it is used here")]
mod ring;

mod sync {
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

#[path = "support/watched_words.rs"]
#[allow(unreachable_pub)]
mod words;

/// A frame of the largest size that the ring of 64 bytes takes, so the third one does not fit before its end.
fn frame(number: u8) -> [u8; 16] {
    [number; 16]
}

/// Every order of steps with so many preemptions at most. The writer pushes so many frames and publishes after each
/// `batch`th.
fn model(preemptions: usize, frames: u8, batch: u8, read_at_once: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let (mut writer, mut reader) = ring::pair(64);
        let reading = thread::spawn(move || {
            let mut seen = Vec::new();
            loop {
                // In this order: a reader that sees the drop of the writer also sees all frames published before.
                let is_closed = reader.is_closed();
                let count = reader.read(read_at_once, |bytes| seen.push(bytes.to_vec()));
                if count == 0 && is_closed {
                    return seen;
                }
                if count == 0 {
                    thread::yield_now();
                }
            }
        });
        for number in 1..=frames {
            while !writer.push(&frame(number)) {
                writer.publish();
                thread::yield_now();
            }
            if number % batch == 0 {
                writer.publish();
            }
        }
        drop(writer);
        let expected: Vec<_> = (1..=frames).map(|number| frame(number).to_vec()).collect();
        assert_eq!(reading.join().expect("no panic"), expected);
    });
}

#[test]
fn frames_that_have_room() {
    model(3, 2, 1, 1);
    model(3, 3, 2, 2);
}

#[test]
fn frames_that_wait_for_room_and_skip_the_end() {
    model(2, 4, 1, 1);
    model(2, 5, 2, 2);
}
