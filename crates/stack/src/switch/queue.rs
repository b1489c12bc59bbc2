//! The frames that wait for the owner of a port, and the empty batches that are swapped for them.
//!
//! A full batch goes in and out by exchange: its memory moves from engine to engine, and an empty batch goes back. A
//! few frames are copied behind the waiting ones instead. A batch of one frame would take as much memory as one of
//! sixty-four, and as much of the receiver's time.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use anywire_tcp::{Frames, Instant};

use crate::device::batch;

/// The frames that wait for one port.
#[derive(Debug)]
pub(super) struct Queue {
    batches: VecDeque<Batch>,
    /// Frames in all batches.
    frames: usize,
    frames_max: usize,
    /// Since when there has been no room without anything being taken.
    full_since: Option<Instant>,
}

#[derive(Debug)]
struct Batch {
    frames: Frames,
    bytes: u64,
}

impl Queue {
    pub(super) const fn new(frames_max: usize) -> Self {
        Self { batches: VecDeque::new(), frames: 0, frames_max, full_since: None }
    }

    /// How many frames wait.
    pub(super) const fn len(&self) -> usize {
        self.frames
    }

    /// How many more it takes.
    #[inline]
    pub(super) const fn room(&self) -> usize {
        self.frames_max.saturating_sub(self.frames)
    }

    /// Whether it has been full for longer than `patience` without anything being taken.
    pub(super) fn is_stuck(&self, now: Instant, patience: Duration) -> bool {
        self.full_since.is_some_and(|since| now.since(since) > patience)
    }

    /// Takes a whole batch, which there must be room for, and leaves an empty one. `bytes` is the sum of its frames.
    /// Whether it was handed over, not copied.
    #[inline]
    pub(super) fn append(
        &mut self,
        frames: &mut Frames,
        bytes: u64,
        now: Instant,
        spares: &mut Spares,
    ) -> bool {
        let joins_the_last = self.batches.back().is_some_and(|last| last.frames.room() >= frames.len());
        if joins_the_last && frames.len() < HANDED_OVER_MIN_FRAMES {
            for frame in frames.iter() {
                self.push(frame, now, spares);
            }
            frames.clear();
            return false;
        }
        self.count(frames.len(), now);
        self.batches.push_back(Batch { frames: mem::replace(frames, spares.take()), bytes });
        true
    }

    /// Copies one frame in; false if there is no room.
    #[inline]
    pub(super) fn push(&mut self, frame: &[u8], now: Instant, spares: &mut Spares) -> bool {
        if self.room() == 0 {
            return false;
        }
        if !self.batches.back_mut().is_some_and(|last| last.push(frame)) {
            let mut batch = Batch { frames: spares.take(), bytes: 0 };
            if !batch.push(frame) {
                return false;
            }
            self.batches.push_back(batch);
        }
        self.count(1, now);
        true
    }

    /// Exchanges `frames`, which is empty, for the batch that has waited longest. Gives its frames and bytes.
    #[inline]
    pub(super) fn pop(&mut self, frames: &mut Frames, spares: &mut Spares) -> (usize, u64) {
        let Some(batch) = self.batches.pop_front() else { return (0, 0) };
        self.full_since = None;
        self.frames -= batch.frames.len();
        spares.give(mem::replace(frames, batch.frames));
        (frames.len(), batch.bytes)
    }

    #[inline]
    fn count(&mut self, frames: usize, now: Instant) {
        self.frames += frames;
        if self.frames >= self.frames_max {
            self.full_since.get_or_insert(now);
        }
    }
}

impl Batch {
    #[inline]
    fn push(&mut self, frame: &[u8]) -> bool {
        let taken = self.frames.push(frame);
        self.bytes += if taken { frame.len() as u64 } else { 0 };
        taken
    }
}

/// Empty batches, whose memory is reused. The last one in goes out first, because it is still in the cache.
#[derive(Debug)]
pub(super) struct Spares {
    batches: Vec<Frames>,
    /// Of the switch.
    mtu: usize,
}

impl Spares {
    pub(super) const fn new(mtu: usize) -> Self {
        Self { batches: Vec::new(), mtu }
    }

    /// An empty batch, used before if there is one.
    #[inline]
    pub(super) fn take(&mut self) -> Frames {
        self.batches.pop().unwrap_or_else(|| batch(self.mtu))
    }

    /// Keeps one for later, if there are not enough.
    #[inline]
    pub(super) fn give(&mut self, mut frames: Frames) {
        if self.batches.len() < SPARES_MAX {
            if !frames.is_empty() {
                frames.clear();
            }
            self.batches.push(frames);
        }
    }
}

/// Fewer frames than this are copied behind the waiting ones, if they fit: at least half of the memory of two batches
/// is then in use.
const HANDED_OVER_MIN_FRAMES: usize = Frames::BATCH / 2;

/// Empty batches to keep: as many as four full ports of the default size held, 8 MiB.
const SPARES_MAX: usize = 64;
