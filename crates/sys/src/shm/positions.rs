//! The protocol of a ring's positions: how far it is written and read, where it ends, and who sleeps.
//!
//! A position counts all bytes since the start, modulo 2^62. The two bits above it tell how a direction has ended, so that
//! one load gives both, and the end never overtakes the bytes before it.
//!
//! Each end keeps its own position to itself and only publishes it. It reads and checks the peer's position. That only
//! grows, and never passes the own one (as a reader) or the own one plus the size of the ring (as a writer).
//!
//! Why no wake-up is lost: an end that wants to sleep first sets its flag and then checks the positions once more. An end
//! that changes a position does so first and then checks the flag. A fence stands between the two on either side, so at
//! least one of them sees the other. The test `no_order_of_steps_loses_a_byte_or_a_wake_up` compiles this file against loom
//! and tries the possible orders.

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, AtomicU64, fence};

/// What both ends see of one ring. Zeros are a new one.
#[repr(C)]
pub(crate) struct Direction {
    /// How far it is written, and how the writer has ended. Stored by the writer alone.
    written: Line<AtomicU64>,
    /// How far it is read. Stored by the reader alone.
    read: Line<AtomicU64>,
    // On lines of their own: they rarely change, so that a look at them mostly stays within the core.
    /// Whether the reader [sleeps](SLEEPS), and whether it has [left](GONE).
    reader: Line<AtomicU32>,
    /// Whether the writer [sleeps](SLEEPS).
    writer: Line<AtomicU32>,
}

/// Two lines of the cache for itself: the processor fetches them in pairs.
#[repr(C, align(128))]
struct Line<T>(T);

#[cfg(test)]
#[allow(dead_code, reason = "the model test alone needs it")]
impl Direction {
    /// Outside of shared memory, for the model test.
    pub(crate) fn new() -> Self {
        Self {
            written: Line(AtomicU64::new(0)),
            read: Line(AtomicU64::new(0)),
            reader: Line(AtomicU32::new(0)),
            writer: Line(AtomicU32::new(0)),
        }
    }
}

/// A position that the peer has written is impossible. The peer is broken or hostile, and the ring of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer's position in the shared ring is impossible: it is broken or hostile")]
pub struct Broken;

/// What a reader finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The writer has ended the stream, and all of it was read.
    End,
    /// The writer has broken the stream off, and all that it had written was read.
    Reset,
}

/// The writer's own knowledge of a ring.
#[derive(Debug)]
pub(crate) struct Head {
    capacity: u64,
    /// How far it has written.
    at: u64,
    /// How far the reader had read at the last look.
    tail: u64,
    /// [`ENDED`] or [`RESET`], once the stream has ended.
    ending: u64,
}

impl Head {
    pub(crate) const fn new(capacity: u64) -> Self {
        Self { capacity, at: 0, tail: 0, ending: 0 }
    }

    #[inline]
    pub(crate) const fn position(&self) -> u64 {
        self.at
    }

    /// The room that there is. The reader's position is loaded only if less than `wanted` was free at the last look.
    #[inline]
    pub(crate) fn room(&mut self, ring: &Direction, wanted: usize) -> Result<usize, Broken> {
        let mut used = distance(self.tail, self.at);
        if ((self.capacity - used) as usize) < wanted {
            let tail = ring.read.0.load(Acquire);
            let now = distance(tail, self.at);
            // It only shrinks, because nothing was written meanwhile.
            if now > used {
                return Err(Broken);
            }
            (self.tail, used) = (tail, now);
        }
        Ok((self.capacity - used) as usize)
    }

    /// Shows the reader so many more bytes, which lie in the ring already and had room.
    #[inline]
    pub(crate) fn publish(&mut self, ring: &Direction, bytes: usize) {
        self.at = (self.at + bytes as u64) & POSITION;
        ring.written.0.store(self.at | self.ending, Release);
    }

    pub(crate) fn end(&mut self, ring: &Direction) {
        self.end_as(ring, ENDED);
    }

    pub(crate) fn reset(&mut self, ring: &Direction) {
        self.end_as(ring, RESET);
    }

    /// The first end counts: a whole stream stays whole, and a cut one stays cut.
    fn end_as(&mut self, ring: &Direction, ending: u64) {
        if self.ending == 0 {
            self.ending = ending;
            self.publish(ring, 0);
        }
    }

    #[inline]
    pub(crate) fn is_reader_gone(&self, ring: &Direction) -> bool {
        ring.reader.0.load(Relaxed) & GONE != 0
    }

    #[inline]
    pub(crate) fn must_wake(&self, ring: &Direction) -> bool {
        must_wake(&ring.reader)
    }

    /// More room than at the last look.
    pub(crate) const fn awaited(&self) -> Awaited {
        Awaited::Room { read: self.tail }
    }
}

/// The reader's own knowledge of a ring.
#[derive(Debug)]
pub(crate) struct Tail {
    capacity: u64,
    /// How far it has read.
    at: u64,
    /// How far it was written at the last look, and how the writer had ended.
    head: u64,
    /// [`GONE`] once it has left.
    leaving: u32,
}

impl Tail {
    pub(crate) const fn new(capacity: u64) -> Self {
        Self { capacity, at: 0, head: 0, leaving: 0 }
    }

    #[inline]
    pub(crate) const fn position(&self) -> u64 {
        self.at
    }

    /// What there is. The writer's position is loaded only if less than `wanted` was there at the last look.
    #[inline]
    pub(crate) fn look(&mut self, ring: &Direction, wanted: usize) -> Result<Found, Broken> {
        let mut waiting = distance(self.at, self.head & POSITION);
        if (waiting as usize) < wanted {
            let head = ring.written.0.load(Acquire);
            let now = distance(self.at, head & POSITION);
            // It only grows, because nothing was read meanwhile.
            if now < waiting || now > self.capacity {
                return Err(Broken);
            }
            (self.head, waiting) = (head, now);
        }
        Ok(match waiting {
            0 if self.head & RESET != 0 => Found::Reset,
            0 if self.head & ENDED != 0 => Found::End,
            0 => Found::Nothing,
            waiting => Found::Bytes(waiting as usize),
        })
    }

    /// Gives the room of so many bytes back, which were read.
    #[inline]
    pub(crate) fn free(&mut self, ring: &Direction, bytes: usize) {
        self.at = (self.at + bytes as u64) & POSITION;
        ring.read.0.store(self.at, Release);
    }

    pub(crate) fn leave(&mut self, ring: &Direction) {
        self.leaving = GONE;
        ring.reader.0.store(GONE, Relaxed);
    }

    #[inline]
    pub(crate) fn must_wake(&self, ring: &Direction) -> bool {
        let waiting = distance(self.at, self.head & POSITION);
        (waiting <= self.capacity / 2 || self.leaving != 0) && must_wake(&ring.writer)
    }

    /// More than at the last look, or an end.
    pub(crate) const fn awaited(&self) -> Awaited {
        Awaited::Bytes { written: self.head }
    }
}

/// What an end of a ring waits for: a change of what the peer had stored at the last look.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Awaited {
    /// The reader waits for the writer.
    Bytes { written: u64 },
    /// The writer waits for the reader.
    Room { read: u64 },
}

impl Awaited {
    /// Whether there is a change.
    #[inline]
    pub(crate) fn has_come(self, ring: &Direction) -> bool {
        match self {
            Self::Bytes { written } => ring.written.0.load(Relaxed) != written,
            Self::Room { read } => {
                ring.read.0.load(Relaxed) != read || ring.reader.0.load(Relaxed) & GONE != 0
            }
        }
    }

    /// Announces that this end sleeps from now on. False if the change that it waits for has come: then it must not sleep.
    pub(crate) fn sleep(self, ring: &Direction) -> bool {
        // Not a store: a reader that has left stays so.
        self.end(ring).0.fetch_or(SLEEPS, Relaxed);
        // Whatever the peer did before it could see that is seen by the look behind this.
        fence(SeqCst);
        let sleeps = !self.has_come(ring);
        if !sleeps {
            self.wake_up(ring);
        }
        sleeps
    }

    /// Withdraws the announcement.
    pub(crate) fn wake_up(self, ring: &Direction) {
        self.end(ring).0.fetch_and(!SLEEPS, Relaxed);
    }

    const fn end(self, ring: &Direction) -> &Line<AtomicU32> {
        match self {
            Self::Bytes { .. } => &ring.reader,
            Self::Room { .. } => &ring.writer,
        }
    }
}

/// Whether an end has announced its sleep, and no other call has undertaken to wake it. Called behind the store of a
/// position.
#[inline]
fn must_wake(end: &Line<AtomicU32>) -> bool {
    fence(SeqCst);
    let state = end.0.load(Relaxed);
    // Fails only if the end has woken up by itself or left.
    state & SLEEPS != 0 && end.0.compare_exchange(state, state & !SLEEPS, Relaxed, Relaxed).is_ok()
}

/// From one position on to another one.
#[inline]
const fn distance(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from) & POSITION
}

/// The bits of a position.
const POSITION: u64 = (1 << 62) - 1;
/// In `written`: nothing more will come, and the stream is whole.
const ENDED: u64 = 1 << 62;
/// In `written`: nothing more will come, and the stream was cut.
const RESET: u64 = 1 << 63;

/// It has announced that it sleeps, and no call has undertaken to wake it.
const SLEEPS: u32 = 1;
/// The reader has left.
const GONE: u32 = 2;

#[cfg(test)]
impl Head {
    /// Claims to have written so much.
    pub(super) fn lie(&self, ring: &Direction, position: u64) {
        ring.written.0.store(position & POSITION, Release);
    }
}

#[cfg(test)]
impl Tail {
    /// Claims to have read so much.
    pub(super) fn lie(&self, ring: &Direction, position: u64) {
        ring.read.0.store(position & POSITION, Release);
    }
}
