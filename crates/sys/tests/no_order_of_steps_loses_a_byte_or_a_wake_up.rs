//! Loom tries the orders in which a writer and a reader can take the steps of a shared ring's protocol, and the values that
//! each may see of the other's memory. No byte is read before it is written or overwritten before it is read, and no end
//! sleeps for ever.
//!
//! The positions are the real ones: their file, compiled once more with loom's atomics.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use positions::{Direction, Found, Head, Tail};

#[path = "../src/shm/positions.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of it is used here")]
mod positions;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

/// What an end sleeps by: a wake-up that comes before the sleep is not lost.
struct Bell {
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    fn new() -> Self {
        Self { rung: Mutex::new(false), rings: Condvar::new() }
    }

    fn ring(&self) {
        *self.rung.lock().expect("no thread panics") = true;
        self.rings.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().expect("no thread panics");
        while !*rung {
            rung = self.rings.wait(rung).expect("no thread panics");
        }
        *rung = false;
    }
}

/// A ring of two bytes. Loom fails if a byte is written while it may be read.
struct Ring {
    direction: Direction,
    bytes: [UnsafeCell<u8>; CAPACITY],
    for_reader: Bell,
    for_writer: Bell,
}

/// Writes these bytes, one at a time, and then the end.
#[allow(unsafe_code)]
fn write(ring: &Ring, bytes: u8) {
    let mut head = Head::new(CAPACITY as u64);
    for byte in 1..=bytes {
        while head.room(&ring.direction, 1).expect("an honest reader") == 0 {
            if head.awaited().sleep(&ring.direction) {
                ring.for_writer.wait();
            }
        }
        // SAFETY: loom checks that no other thread accesses it meanwhile.
        ring.bytes[head.position() as usize % CAPACITY].with_mut(|place| unsafe { *place = byte });
        head.publish(&ring.direction, 1);
        if head.must_wake(&ring.direction) {
            ring.for_reader.ring();
        }
    }
    head.end(&ring.direction);
    if head.must_wake(&ring.direction) {
        ring.for_reader.ring();
    }
}

/// Reads to the end, at most so many bytes at a time.
#[allow(unsafe_code)]
fn read(ring: &Ring, at_once: usize) -> Vec<u8> {
    let (mut tail, mut all) = (Tail::new(CAPACITY as u64), Vec::new());
    loop {
        match tail.look(&ring.direction, at_once).expect("an honest writer") {
            Found::Bytes(waiting) => {
                let read = waiting.min(at_once);
                for at in 0..read {
                    let place = (tail.position() as usize + at) % CAPACITY;
                    // SAFETY: loom checks that no thread writes it meanwhile.
                    all.push(ring.bytes[place].with(|place| unsafe { *place }));
                }
                tail.free(&ring.direction, read);
                if tail.must_wake(&ring.direction) {
                    ring.for_writer.ring();
                }
            }
            Found::Nothing => {
                if tail.awaited().sleep(&ring.direction) {
                    ring.for_reader.wait();
                }
            }
            Found::End => return all,
            Found::Reset => unreachable!("nobody resets it"),
        }
    }
}

/// Every order of steps with so many preemptions at most.
fn model(preemptions: usize, bytes: u8, at_once: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let ring = Arc::new(Ring {
            direction: Direction::new(),
            bytes: std::array::from_fn(|_| UnsafeCell::new(0)),
            for_reader: Bell::new(),
            for_writer: Bell::new(),
        });
        let theirs = Arc::clone(&ring);
        let reading = thread::spawn(move || read(&theirs, at_once));
        write(&ring, bytes);
        assert_eq!(reading.join().expect("no panic"), (1..=bytes).collect::<Vec<_>>());
    });
}

#[test]
fn bytes_and_the_end_arrive_however_the_steps_fall() {
    model(3, 1, 1);
    model(3, 2, 2);
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    model(2, 3, 1);
    model(2, 3, 2);
}

const CAPACITY: usize = 2;
