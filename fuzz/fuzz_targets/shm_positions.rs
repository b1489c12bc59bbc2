//! Two ends of shared rings, whose memory is overwritten as the input says: positions, announcements and bytes. Each call
//! gives bytes, an end or `Broken`, and no end changes a byte that is not its own. Until the first lie the rings carry exactly
//! what was written.

#![no_main]

use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use anywire_sys::shm::{self, Broken, Ends, Found, RING_MIN_BYTES, Watch};
use libfuzzer_sys::fuzz_target;

/// The steps that the input asks for.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// From nothing to more than a ring.
    fn length(&mut self) -> usize {
        let byte = usize::from(self.byte());
        if byte < 64 { byte } else { byte * 17 }
    }
}

/// Both ends, and what they should have found.
struct Scene {
    ends: [Ends; 2],
    memory: File,
    /// What each end has written and the other one has not read.
    under_way: [VecDeque<u8>; 2],
    /// How each end has ended its stream.
    ended: [Option<Found>; 2],
    /// Somebody has written to the memory past the protocol: nothing is expected any more, except that all is contained.
    is_hostile: bool,
    next: u8,
}

impl Scene {
    fn new() -> Self {
        let (here, memory) = shm::create(RING_MIN_BYTES).expect("memory");
        let there = shm::open(memory.as_fd(), RING_MIN_BYTES).expect("it is sealed");
        Self {
            ends: [here, there],
            memory: memory.into(),
            under_way: Default::default(),
            ended: [None; 2],
            is_hostile: false,
            next: 0,
        }
    }

    fn write(&mut self, end: usize, length: usize, cut: usize) {
        let bytes: Vec<u8> = (0..length).map(|at| self.next.wrapping_add(at as u8)).collect();
        self.next = self.next.wrapping_add(length as u8 | 1);
        let (one, other) = bytes.split_at(cut.min(length));
        let before = self.ring(1 - end);
        let written = self.ends[end].writer.write(&[IoSlice::new(one), IoSlice::new(other)]);
        assert!(self.ring(1 - end) == before, "a writer changed the ring that it reads");
        let Some(written) = self.expect_honest(written) else { return };
        assert!(written <= length && written <= RING_MIN_BYTES, "{written} of {length} bytes");
        if !self.is_hostile {
            assert_eq!(written, length.min(RING_MIN_BYTES - self.under_way[end].len()));
            self.under_way[end].extend(&bytes[..written]);
        }
    }

    fn read(&mut self, end: usize, length: usize) {
        let mut buffer = vec![0; length];
        let before = [self.ring(0), self.ring(1)];
        let found = self.ends[end].reader.read(&mut buffer);
        assert!([self.ring(0), self.ring(1)] == before, "a reader changed a ring");
        let Some(found) = self.expect_honest(found) else { return };
        if let Found::Bytes(read) = found {
            assert!(read <= length && read <= RING_MIN_BYTES, "{read} bytes into {length}");
        }
        if self.is_hostile {
            return;
        }
        let under_way = &mut self.under_way[1 - end];
        match found {
            Found::Bytes(read) => {
                assert_eq!(read, length.min(under_way.len()));
                assert!(buffer[..read].iter().copied().eq(under_way.drain(..read)));
            }
            // A read of nothing need not look whether something has come.
            _ if length == 0 => {}
            end_or_nothing => {
                assert!(under_way.is_empty());
                assert_eq!(end_or_nothing, self.ended[1 - end].unwrap_or(Found::Nothing));
            }
        }
    }

    /// Looks without moving anything.
    fn look(&mut self, end: usize) {
        let room = self.ends[end].writer.room();
        let found = self.ends[end].reader.look();
        let _ = self.ends[end].writer.is_reader_gone();
        if let Some(room) = self.expect_honest(room) {
            assert!(room <= RING_MIN_BYTES);
        }
        if let Some(Found::Bytes(waiting)) = self.expect_honest(found) {
            assert!((1..=RING_MIN_BYTES).contains(&waiting), "{waiting} bytes wait");
        }
    }

    /// Goes to sleep and wakes up by itself.
    fn sleep(&self, end: usize, steps: u8) {
        let watches: [Watch; 2] = [self.ends[end].writer.watch(), self.ends[end].reader.watch()];
        for (bit, watch) in watches.iter().enumerate() {
            let sleeps = steps >> bit & 1 == 1 && watch.sleep();
            if !self.is_hostile {
                assert!(!(sleeps && watch.has_come()), "it sleeps although something has come");
            }
            if steps >> (2 + bit) & 1 == 1 {
                watch.wake_up();
            }
        }
        if steps & 16 != 0 {
            let ends = &self.ends[1 - end];
            let _ = ends.writer.must_wake() | ends.reader.must_wake();
            if !self.is_hostile {
                assert!(!ends.writer.must_wake(), "a wake-up is asked for once");
            }
        }
    }

    fn end(&mut self, end: usize, how: u8) {
        match how % 8 {
            0 if self.ended[end].is_none() => {
                self.ends[end].writer.end();
                self.ended[end] = Some(Found::End);
            }
            1 if self.ended[end].is_none() => {
                self.ends[end].writer.reset();
                self.ended[end] = Some(Found::Reset);
            }
            2 => {
                self.ends[end].reader.leave();
                assert!(self.is_hostile || self.ends[1 - end].writer.is_reader_gone());
            }
            _ => {}
        }
    }

    /// Overwrites one of the eight words of the protocol.
    fn lie(&mut self, which: u8, how: u8, number: u64) {
        self.is_hostile = true;
        let offset = u64::from(which & 7) * 128;
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, offset).expect("it has that size");
        let now = u64::from_ne_bytes(bytes);
        let lie = match how & 3 {
            0 => number,
            // Near the truth: a byte too many, a ring too many, one less than before.
            1 => now.wrapping_add(u64::from(how >> 2)).wrapping_sub(16),
            2 => now.wrapping_add(RING_MIN_BYTES as u64).wrapping_add(u64::from(how >> 2)).wrapping_sub(32),
            // The bits that tell of an end.
            _ => now ^ u64::from(how >> 2 & 3) << 62 ^ u64::from(how >> 4),
        };
        self.memory.write_all_at(&lie.to_ne_bytes(), offset).expect("it has that size");
    }

    /// Overwrites some bytes anywhere.
    fn garble(&mut self, place: u16, number: u64) {
        self.is_hostile = true;
        let places = HEADER_BYTES + 2 * RING_MIN_BYTES as u64 - 8;
        self.memory.write_all_at(&number.to_ne_bytes(), u64::from(place) % places).expect("it has that size");
    }

    /// The bytes of the ring that this end writes.
    fn ring(&self, end: usize) -> Vec<u8> {
        let mut bytes = vec![0; RING_MIN_BYTES];
        let offset = HEADER_BYTES + (end * RING_MIN_BYTES) as u64;
        self.memory.read_exact_at(&mut bytes, offset).expect("it has that size");
        bytes
    }

    /// A peer that keeps to the protocol is never called broken.
    fn expect_honest<T>(&self, found: Result<T, Broken>) -> Option<T> {
        assert!(self.is_hostile || found.is_ok(), "nobody has lied");
        found.ok()
    }
}

fuzz_target!(|input: &[u8]| {
    let mut input = Input(input);
    let mut scene = Scene::new();
    while !input.0.is_empty() {
        let step = input.byte();
        let end = usize::from(step >> 3 & 1);
        match step & 7 {
            0 | 1 => {
                let (length, cut) = (input.length(), input.length());
                // Nobody writes behind an end.
                if scene.ended[end].is_none() || scene.is_hostile {
                    scene.write(end, length, cut);
                }
            }
            2 | 3 => {
                let length = input.length();
                scene.read(end, length);
            }
            4 => {
                scene.look(end);
                scene.sleep(end, input.byte());
            }
            5 => scene.end(end, input.byte()),
            6 => {
                let (which, how) = (input.byte(), input.byte());
                let number = if how & 3 == 0 { input.number() } else { 0 };
                scene.lie(which, how, number);
            }
            _ => {
                let place = u16::from_le_bytes([input.byte(), input.byte()]);
                let number = input.number();
                scene.garble(place, number);
            }
        }
    }
});

/// The page of positions before the rings.
const HEADER_BYTES: u64 = 4096;
