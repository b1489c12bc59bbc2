//! One direction of a bad network: frames enter, and some of them leave, some later.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use anywire_packet::layout::finish;
use anywire_tcp::{Checksum, Frames, Instant, Meta};
use fastrand::Rng;

use super::{ImpairCounters, Impairment};
use crate::offload::segments;

/// One direction of a bad network. Times in here are nanoseconds, since a fast line carries several frames in
/// a microsecond.
#[derive(Debug)]
pub(super) struct Lane {
    impairment: Impairment,
    random: Rng,
    /// The frames that are held back, the one that is due next first; those due together in the order of
    /// entering.
    held: BinaryHeap<Reverse<Held>>,
    /// Memory of frames that have left.
    free: Vec<Vec<u8>>,
    entered: u64,
    /// When each frame that waits for the line will have left it.
    line: VecDeque<u64>,
    /// When the line is free.
    line_free_at: u64,
    /// When the last one is due that was not reordered: the next is not due before.
    due_before: u64,
    fates: Vec<Fate>,
    /// One segment of a super-frame.
    segment: Vec<u8>,
    /// Keeps the rest of a batch, to be swapped for it.
    survivors: Frames,
    counters: ImpairCounters,
}

/// When a frame is due, a number that keeps the order of entering, and the frame.
type Held = (u64, u64, Vec<u8>, Meta);

/// What happens to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fate {
    /// None if it is lost, two if it comes twice.
    copies: usize,
    corrupts: [bool; 2],
    /// The first copy is.
    is_reordered: bool,
}

impl Lane {
    /// One for a device whose batches have the room of this empty one.
    pub(super) fn new(impairment: Impairment, survivors: Frames) -> Self {
        Self {
            impairment,
            random: Rng::with_seed(impairment.seed),
            held: BinaryHeap::new(),
            free: Vec::new(),
            entered: 0,
            line: VecDeque::new(),
            line_free_at: 0,
            due_before: 0,
            fates: Vec::new(),
            segment: Vec::new(),
            survivors,
            counters: ImpairCounters::default(),
        }
    }

    pub(super) const fn counters(&self) -> ImpairCounters {
        self.counters
    }

    /// When the next frame is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let Reverse((due, ..)) = self.held.peek()?;
        Some(Instant::from_micros(due.div_ceil(1000)))
    }

    /// Takes a batch in. What passes at once stays in `frames`; the others are held, until
    /// [`leave`](Self::leave).
    pub(super) fn enter(&mut self, now: Instant, frames: &mut Frames) {
        if frames.has_metas() && self.does_something() {
            return self.enter_by_segments(now, frames);
        }
        self.counters.frames += frames.len() as u64;
        let mut fates = std::mem::take(&mut self.fates);
        fates.clear();
        fates.extend((0..frames.len()).map(|_| self.draw()));
        let changes = |fate: &Fate| fate.copies > 0 && *fate != PASSES;
        if self.holds_all() || fates.iter().any(changes) {
            for (frame, fate) in frames.iter().zip(&fates) {
                for copy in 0..fate.copies {
                    self.hold(
                        now,
                        frame,
                        Meta::default(),
                        fate.corrupts[copy],
                        fate.is_reordered && copy == 0,
                    );
                }
            }
            frames.clear();
        } else if fates.iter().any(|fate| fate.copies == 0) {
            self.keep_survivors(frames, &fates);
        }
        self.fates = fates;
    }

    /// The same for frames of which the device knows something. A super-frame is cut, since a network loses segments. All are held.
    fn enter_by_segments(&mut self, now: Instant, frames: &mut Frames) {
        let mut scratch = std::mem::take(&mut self.segment);
        for (number, frame) in frames.iter().enumerate() {
            segments(frame, frames.meta(number), &mut scratch, |segment, meta| {
                self.counters.frames += 1;
                let fate = self.draw();
                for copy in 0..fate.copies {
                    self.hold(now, segment, meta, fate.corrupts[copy], fate.is_reordered && copy == 0);
                }
            });
        }
        self.segment = scratch;
        frames.clear();
    }

    /// Puts the frames that are due into `frames`, which comes in empty, as far as there is room. Gives their
    /// number.
    pub(super) fn leave(&mut self, now: Instant, frames: &mut Frames) -> usize {
        while let Some(Reverse((due, _, bytes, meta))) = self.held.peek() {
            if *due > nanos(now) || frames.room() == 0 {
                break;
            }
            if frames.push(bytes) {
                if *meta != Meta::default() {
                    frames.describe_last(*meta);
                }
            } else if frames.is_empty() {
                // Longer than the owner's batches: it would never leave.
                self.counters.overflowed += 1;
            } else {
                break;
            }
            self.free.extend(self.held.pop().map(|Reverse((.., bytes, _))| bytes));
        }
        frames.len()
    }

    /// Whether anything ever happens to a frame.
    fn does_something(&self) -> bool {
        let Impairment { loss, duplicate, corrupt, reorder, .. } = self.impairment;
        self.holds_all()
            || [loss, duplicate, corrupt, reorder].into_iter().any(|probability| probability > 0.0)
    }

    /// Whether every frame takes its time.
    fn holds_all(&self) -> bool {
        let Impairment { delay, jitter, rate_bits_per_second, .. } = self.impairment;
        rate_bits_per_second.is_some() || !delay.is_zero() || !jitter.is_zero()
    }

    fn draw(&mut self) -> Fate {
        let Impairment { loss, duplicate, corrupt, reorder, .. } = self.impairment;
        // Where nothing can happen, no number is spent on it.
        let mut is_hit = |probability: f64| probability > 0.0 && self.random.f64() < probability;
        if is_hit(loss) {
            self.counters.lost += 1;
            return Fate { copies: 0, ..PASSES };
        }
        let copies = 1 + usize::from(is_hit(duplicate));
        let corrupts = [is_hit(corrupt), copies == 2 && is_hit(corrupt)];
        let is_reordered = is_hit(reorder);
        self.counters.duplicated += copies as u64 - 1;
        Fate { copies, corrupts, is_reordered }
    }

    fn keep_survivors(&mut self, frames: &mut Frames, fates: &[Fate]) {
        for (frame, _) in frames.iter().zip(fates).filter(|(_, fate)| fate.copies > 0) {
            if !self.survivors.push(frame) {
                self.counters.overflowed += 1;
            }
        }
        std::mem::swap(frames, &mut self.survivors);
        self.survivors.clear();
    }

    fn hold(&mut self, now: Instant, frame: &[u8], mut meta: Meta, corrupts: bool, is_reordered: bool) {
        let Some(due) = self.due(now, frame.len(), is_reordered) else {
            self.counters.overflowed += 1;
            return;
        };
        let mut bytes = self.free.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame);
        if corrupts {
            self.counters.corrupted += 1;
            if meta.checksum == Checksum::Partial {
                // So that its receiver can see it.
                finish(&mut bytes);
            }
            meta.checksum = Checksum::Unchecked;
            let bit = self.random.usize(..bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        self.held.push(Reverse((due, self.entered, bytes, meta)));
        self.entered += 1;
    }

    /// When a frame is to leave; none if there is no room for it.
    fn due(&mut self, now: Instant, frame_bytes: usize, is_reordered: bool) -> Option<u64> {
        let now = nanos(now);
        if self.held.len() >= self.impairment.held_frames {
            return None;
        }
        let sent = self.send_on_line(now, frame_bytes)?;
        let jitter = nanos_of(self.impairment.jitter);
        let earliest = nanos_of(self.impairment.delay).saturating_sub(jitter);
        let latest = nanos_of(self.impairment.delay).saturating_add(jitter);
        let wait = if jitter == 0 { earliest } else { self.random.u64(earliest..=latest) };
        let due = sent.saturating_add(wait).max(self.due_before);
        if is_reordered {
            self.counters.reordered += 1;
            let held_by = self.random.u64(..=nanos_of(self.impairment.reorder_by)).max(1000);
            return Some(due.saturating_add(held_by));
        }
        self.due_before = due;
        Some(due)
    }

    /// When the line has carried a frame that comes now; none if too many wait.
    fn send_on_line(&mut self, now: u64, frame_bytes: usize) -> Option<u64> {
        let Some(rate) = self.impairment.rate_bits_per_second else { return Some(now) };
        while self.line.front().is_some_and(|&sent| sent <= now) {
            self.line.pop_front();
        }
        if self.line.len() > self.impairment.queue_frames {
            return None;
        }
        let takes = frame_bytes as u128 * 8 * 1_000_000_000 / u128::from(rate.max(1));
        let sent = self.line_free_at.max(now).saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
        self.line_free_at = sent;
        self.line.push_back(sent);
        Some(sent)
    }
}

fn nanos(moment: Instant) -> u64 {
    moment.as_micros().saturating_mul(1000)
}

fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const PASSES: Fate = Fate { copies: 1, corrupts: [false; 2], is_reordered: false };
