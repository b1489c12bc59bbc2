//! The frames that wait for one end of a pair, and the empty batches that are swapped for them.
//!
//! A full batch goes in and out by exchange: its memory moves from engine to engine, and an empty batch goes back. A
//! few frames are copied behind the waiting ones instead. A batch of one frame would take as much memory as one of
//! sixty-four, and as much of the receiver's time.

use std::collections::VecDeque;
use std::mem;

use anywire_tcp::{Frames, Meta};

use crate::device::batch;

/// The frames that wait for one end.
#[derive(Debug)]
pub(super) struct Queue {
    batches: VecDeque<Batch>,
    /// Frames in all batches.
    frames: usize,
    frames_max: usize,
}

#[derive(Debug)]
struct Batch {
    frames: Frames,
    bytes: u64,
}

impl Queue {
    pub(super) const fn new(frames_max: usize) -> Self {
        Self { batches: VecDeque::new(), frames: 0, frames_max }
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

    /// Takes the first frames, as many as there is room for. Gives their number and bytes.
    #[inline]
    pub(super) fn append(&mut self, frames: &mut Frames, spares: &mut Spares) -> (usize, u64) {
        let count = frames.len();
        if count == 0 {
            return (0, 0);
        }
        let joins_the_last = self.batches.back().is_some_and(|last| last.frames.room() >= count);
        if count > self.room() || joins_the_last && count < HANDED_OVER_MIN_FRAMES {
            return self.copy(frames, spares);
        }
        let bytes = frames.iter().map(|frame| frame.len() as u64).sum();
        self.frames += count;
        self.batches.push_back(Batch { frames: mem::replace(frames, spares.take()), bytes });
        (count, bytes)
    }

    /// The same by a copy of each frame. Sharing the batch's memory would keep all of it in use, and replacing that takes 6 us;
    /// copying 64 of the longest frames takes 2.
    fn copy(&mut self, frames: &mut Frames, spares: &mut Spares) -> (usize, u64) {
        let (mut taken, mut bytes) = (0, 0);
        for (index, frame) in frames.iter().enumerate().take(self.room()) {
            if !self.batches.back_mut().is_some_and(|last| last.push(frame, frames.meta(index))) {
                let mut batch = Batch { frames: spares.take(), bytes: 0 };
                if !batch.push(frame, frames.meta(index)) {
                    break;
                }
                self.batches.push_back(batch);
            }
            taken += 1;
            bytes += frame.len() as u64;
        }
        self.frames += taken;
        frames.remove_first(taken);
        (taken, bytes)
    }

    /// Exchanges `frames`, which is empty, for the batch that has waited longest. Gives its frames and bytes.
    #[inline]
    pub(super) fn pop(&mut self, frames: &mut Frames, spares: &mut Spares) -> (usize, u64) {
        let Some(batch) = self.batches.pop_front() else { return (0, 0) };
        self.frames -= batch.frames.len();
        spares.give(mem::replace(frames, batch.frames));
        (frames.len(), batch.bytes)
    }
}

impl Batch {
    #[inline]
    fn push(&mut self, frame: &[u8], meta: Meta) -> bool {
        let taken = self.frames.push(frame);
        if taken {
            self.frames.describe_last(meta);
            self.bytes += frame.len() as u64;
        }
        taken
    }
}

/// Empty batches, whose memory is reused. The last one in goes out first, because it is still in the cache.
#[derive(Debug)]
pub(super) struct Spares {
    batches: Vec<Frames>,
    /// Of the pair.
    mtu: usize,
}

impl Spares {
    pub(super) const fn new(mtu: usize) -> Self {
        Self { batches: Vec::new(), mtu }
    }

    /// An empty batch, used before if there is one.
    #[inline]
    fn take(&mut self) -> Frames {
        self.batches.pop().unwrap_or_else(|| batch(self.mtu))
    }

    /// Keeps one for later, if there are not enough.
    #[inline]
    fn give(&mut self, mut frames: Frames) {
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

/// Empty batches to keep: as many as four full queues of the default size held, 8 MiB.
const SPARES_MAX: usize = 64;
