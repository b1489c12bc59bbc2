//! Deadlines of millions of connections: a timer wheel of four levels, to the millisecond.
//!
//! An entry is a `u32` that the caller understands. There is no removal. A timer that is no longer wanted fires at its
//! time. The caller then sees from the connection that there is nothing to do, or inserts it again for later. So an
//! acknowledgment, which moves a connection's deadline, never touches the wheel.
//!
//! | level | slots | one covers | reaches |
//! | --- | --- | --- | --- |
//! | 0 | 4096 | 1 ms | 4 s: nearly all retransmissions, touched once on the way in and once out |
//! | 1 | 256 | 1 s | 4 min |
//! | 2 | 256 | 66 s | 4.6 h |
//! | 3 | 1024 | 70 min | 24 days |
//!
//! A slot is a list of chunks of one cache line. In level 0 the slot implies the tick, and a chunk has fifteen entries (4.3
//! bytes each). In the levels above a chunk has seven entries with their ticks (9.1 bytes each). When the time of a slot
//! there begins, its entries move to the levels below. Chunks come from an arena and go back to a free list, so a wheel of
//! constant length allocates nothing. Nothing comes early; late is only what [`Wheel::advance`] is called late for.
//!
//! Limits: `entries_max`, for which only addresses are reserved; ticks up to 2^30 ms (12 days) ahead of the present, of which
//! `advance` hears at least that often.

use std::io;

use anywire_sys::arena::Arena;

use crate::table::Full;
use crate::time::Tick;

/// Entries by the tick at which they are due.
pub(crate) struct Wheel {
    levels: [Level; LEVELS],
    chunks: Arena<Chunk>,
    /// First of the list of chunks that are not in use.
    free: u32,
    /// How many chunks have ever been used.
    fresh: usize,
    /// No entry lies before this tick.
    clock: Tick,
    /// Not after the first entry's tick; none if there are no entries.
    next: Option<Tick>,
    len: usize,
    entries_max: usize,
}

impl Wheel {
    /// A wheel for `entries_max` entries, the first of them due after `now`. Fails if the system gives no addresses.
    pub(crate) fn new(now: Tick, entries_max: usize) -> io::Result<Self> {
        let levels = SHAPES.map(Level::new);
        // All chunks of a slot are full but one.
        let slots = levels.iter().map(|level| level.slots.len()).sum::<usize>();
        let chunks = entries_max.div_ceil(ENTRIES_ABOVE as usize) + slots;
        if chunks > NONE as usize {
            let message =
                format!("cannot reserve timers for {entries_max} entries: 30 thousand million are the most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let chunks = Arena::reserve(chunks, Chunk::EMPTY)?;
        Ok(Self { levels, chunks, free: NONE, fresh: 0, clock: now, next: None, len: 0, entries_max })
    }

    /// Entries in the wheel.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the wheel holds.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.bytes() + self.levels.iter().map(Level::bytes).sum::<usize>()
    }

    /// When to call [`advance`](Self::advance) next: at or before the first entry's tick. `None`: there is no entry.
    pub(crate) const fn next(&self) -> Option<Tick> {
        self.next
    }

    /// Whether [`advance`](Self::advance) has not heard the time for so many ticks.
    pub(crate) const fn is_behind(&self, now: Tick, ticks: u32) -> bool {
        now.since(self.clock) > ticks
    }

    /// Puts `entry` in, to come out at `at`, or with the next [`advance`](Self::advance) if that has passed.
    pub(crate) fn insert(&mut self, at: Tick, entry: u32) -> Result<(), Full> {
        if self.len == self.entries_max {
            return Err(Full);
        }
        let at = if at.is_before(self.clock) { self.clock } else { at };
        let begins = self.place(at, entry);
        self.len += 1;
        if self.next.is_none_or(|next| begins.is_before(next)) {
            self.next = Some(begins);
        }
        Ok(())
    }

    /// Appends the entries due at `now` to `out`, in the order of ticks. It handles at most `limit` entries, and some of
    /// them may only move to another level. Tells whether more are due at this `now`.
    pub(crate) fn advance(&mut self, now: Tick, limit: usize, out: &mut Vec<u32>) -> bool {
        let mut left = limit;
        while let Some(next) = self.next
            && next.is_due(now)
        {
            if left == 0 {
                return true;
            }
            let Some((level, tick)) = self.first_slot() else { break };
            self.clock = tick;
            left -= if level == 0 { self.fire(left, out) } else { self.deal(level, left) };
            self.next = self.first_slot().map(|(_, tick)| tick);
        }
        if self.clock.is_before(now) {
            self.clock = now;
        }
        false
    }

    /// The occupied slot that begins first, and its time. If several begin together, it is the highest, because its entries
    /// must move down before the others may fire.
    fn first_slot(&self) -> Option<(usize, Tick)> {
        let mut first = None;
        let mut shortest = u32::MAX;
        for level in (0..LEVELS).rev() {
            if let Some(distance) = self.distance_to(level)
                && distance < shortest
            {
                shortest = distance;
                first = Some((level, self.clock.after(distance)));
            }
        }
        first
    }

    /// Ticks from the clock to the beginning of a level's first occupied slot; 0 if the clock is in it.
    fn distance_to(&self, level: usize) -> Option<u32> {
        let shape = SHAPES[level];
        let from = shape.index(self.clock);
        let slots = self.levels[level].next_occupied(from)?.wrapping_sub(from) as u32 & (shape.slots - 1);
        Some((slots << shape.width).saturating_sub(self.clock.since(shape.begin(self.clock))))
    }

    /// Takes up to `limit` entries out of the slot of this tick.
    fn fire(&mut self, limit: usize, out: &mut Vec<u32>) -> usize {
        let index = SHAPES[0].index(self.clock);
        let mut done = 0;
        while done < limit {
            let slot = &mut self.levels[0].slots[index];
            if slot.head == NONE {
                break;
            }
            let chunk = &self.chunks[slot.head as usize];
            self.chunks.prefetch(chunk.next as usize);
            let count = slot.count as usize;
            let kept = count.saturating_sub(limit - done);
            out.extend_from_slice(&chunk.words[kept..count]);
            done += count - kept;
            slot.count = kept as u32;
            if kept == 0 {
                self.drop_chunk(0, index);
            }
        }
        self.len -= done;
        done
    }

    /// Moves up to `limit` entries of a slot that begins now to the levels below.
    fn deal(&mut self, level: usize, limit: usize) -> usize {
        let index = SHAPES[level].index(self.clock);
        let mut done = 0;
        while done < limit {
            let slot = &mut self.levels[level].slots[index];
            if slot.head == NONE {
                break;
            }
            slot.count -= 1;
            let (last, is_empty) = (slot.count as usize, slot.count == 0);
            let chunk = &self.chunks[slot.head as usize];
            let (entry, at) = (chunk.words[last], Tick(chunk.words[ENTRIES_ABOVE as usize + last]));
            if is_empty {
                self.chunks.prefetch(chunk.next as usize);
                self.drop_chunk(level, index);
            }
            self.place(at, entry);
            done += 1;
        }
        done
    }

    /// Puts an entry into the slot of its tick, which is not before the clock. Returns when that slot begins.
    #[inline]
    fn place(&mut self, at: Tick, entry: u32) -> Tick {
        if SHAPES[0].reaches(self.clock, at) {
            return self.place_in(0, at, entry);
        }
        let is_near = |level: &usize| SHAPES[*level].reaches(self.clock, at);
        let level = (1..LEVELS - 1).find(is_near).unwrap_or(LEVELS - 1);
        self.place_in(level, at, entry)
    }

    #[inline(always)]
    fn place_in(&mut self, level: usize, at: Tick, entry: u32) -> Tick {
        let shape = SHAPES[level];
        let index = shape.index(at);
        let mut slot = self.levels[level].slots[index];
        if slot.count == shape.chunk_entries {
            slot = self.add_chunk(level, index);
        }
        let place = slot.count as usize;
        let chunk = &mut self.chunks[slot.head as usize];
        chunk.words[place] = entry;
        if level != 0 {
            chunk.words[ENTRIES_ABOVE as usize + place] = at.0;
        }
        self.levels[level].slots[index].count += 1;
        shape.begin(at)
    }

    /// Puts an empty chunk before the others of a slot.
    #[inline(never)]
    fn add_chunk(&mut self, level: usize, index: usize) -> Slot {
        let chunk = if self.free == NONE {
            if self.fresh == self.chunks.len() {
                // There is room for all entries that `insert` accepts: see `new`.
                self.chunks.grow();
            }
            self.fresh += 1;
            self.fresh as u32 - 1
        } else {
            let chunk = self.free;
            self.free = self.chunks[chunk as usize].next;
            chunk
        };
        let level = &mut self.levels[level];
        self.chunks[chunk as usize].next = level.slots[index].head;
        level.slots[index] = Slot { head: chunk, count: 0 };
        level.mark(index);
        level.slots[index]
    }

    /// Gives back the first chunk of a slot, which is empty.
    fn drop_chunk(&mut self, number: usize, index: usize) {
        let level = &mut self.levels[number];
        let slot = &mut level.slots[index];
        let chunk = &mut self.chunks[slot.head as usize];
        let next = chunk.next;
        chunk.next = self.free;
        self.free = slot.head;
        *slot = Slot { head: next, count: SHAPES[number].chunk_entries };
        if next == NONE {
            level.unmark(index);
        }
    }
}

/// A cache line of entries.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Chunk {
    /// Level 0: fifteen entries. Above: seven entries, then their ticks.
    words: [u32; 15],
    next: u32,
}

impl Chunk {
    const EMPTY: Self = Self { words: [0; 15], next: NONE };
}

/// A list of chunks, all full but the first, which has `count` entries. An empty list counts as a full chunk.
#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    count: u32,
}

/// Slots of the same width, used cyclically.
struct Level {
    slots: Box<[Slot]>,
    /// A bit for each slot that has entries.
    occupied: Box<[u64]>,
    /// A bit for each word of `occupied` that is not zero.
    words: u64,
}

impl Level {
    fn new(shape: Shape) -> Self {
        let empty = Slot { head: NONE, count: shape.chunk_entries };
        let slots = shape.slots as usize;
        Self { slots: vec![empty; slots].into(), occupied: vec![0; slots / 64].into(), words: 0 }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + size_of_val(&*self.occupied)
    }

    /// The first occupied slot at `from` or after it, cyclically.
    fn next_occupied(&self, from: usize) -> Option<usize> {
        let (word, bit) = (from / 64, from % 64);
        let here = self.occupied[word] & (u64::MAX << bit);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let behind = self.words & (u64::MAX << word << 1);
        let words = if behind == 0 { self.words } else { behind };
        if words == 0 {
            return None;
        }
        let word = words.trailing_zeros() as usize;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    fn mark(&mut self, index: usize) {
        self.occupied[index / 64] |= 1 << (index % 64);
        self.words |= 1 << (index / 64);
    }

    fn unmark(&mut self, index: usize) {
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.words &= !(1 << (index / 64));
        }
    }
}

/// How a level divides time.
#[derive(Clone, Copy)]
struct Shape {
    /// A power of two, at least 64 and at most 4096 (64 words of 64 bits).
    slots: u32,
    /// A slot is 2^`width` ticks wide.
    width: u32,
    /// Entries that a chunk holds.
    chunk_entries: u32,
}

impl Shape {
    /// The slot of a tick.
    #[inline(always)]
    const fn index(self, at: Tick) -> usize {
        ((at.0 >> self.width) & (self.slots - 1)) as usize
    }

    /// When the slot of a tick begins.
    #[inline(always)]
    const fn begin(self, at: Tick) -> Tick {
        Tick(at.0 >> self.width << self.width)
    }

    /// Whether a tick's slot is free of entries that are due a whole revolution earlier.
    #[inline(always)]
    const fn reaches(self, clock: Tick, at: Tick) -> bool {
        at.since(self.begin(clock)) < self.slots << self.width
    }
}

/// A slot is a quarter of what the level below reaches, so it can be dealt out there when it begins.
const SHAPES: [Shape; LEVELS] = [
    Shape { slots: 4096, width: 0, chunk_entries: 15 },
    Shape { slots: 256, width: 10, chunk_entries: ENTRIES_ABOVE },
    Shape { slots: 256, width: 16, chunk_entries: ENTRIES_ABOVE },
    Shape { slots: 1024, width: 22, chunk_entries: ENTRIES_ABOVE },
];
const LEVELS: usize = 4;
const ENTRIES_ABOVE: u32 = 7;
/// No chunk.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert { ahead: i32, count: u32 },
        Advance { by: u32, limit: usize },
    }

    /// Distances of all magnitudes.
    fn distance(bits: u32) -> impl Strategy<Value = u32> {
        (0..=bits, any::<u32>()).prop_map(|(bits, random)| random & ((1 << bits) - 1) | 1 << bits >> 1)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (distance(30), 1..40_u32).prop_map(|(ahead, count)| Step::Insert { ahead: ahead as i32, count }),
            1 => (0..5_000_i32, 1..3_u32).prop_map(|(behind, count)| Step::Insert { ahead: -behind, count }),
            2 => (distance(29), 1..50_usize).prop_map(|(by, limit)| Step::Advance { by, limit }),
            2 => (0..3_000_u32, 1..500_usize).prop_map(|(by, limit)| Step::Advance { by, limit }),
        ]
    }

    proptest! {
        /// Against a sorted map of times that do not wrap.
        #[test]
        fn gives_each_entry_at_its_tick_and_in_order(start: u32, steps in prop::collection::vec(step(), 1..80)) {
            let tick = |time: u64| Tick(start.wrapping_add(time as u32));
            let mut wheel = Wheel::new(tick(0), 100_000).unwrap();
            let mut model = BTreeSet::new();
            let mut times = Vec::new();
            let mut out = Vec::new();
            let mut now = 10_000_u64;
            let mut busy = wheel.advance(tick(now), 1, &mut out);
            for step in steps {
                let clock = now - u64::from(tick(now).since(wheel.clock));
                match step {
                    Step::Insert { ahead, count } => for i in 0..count {
                        let at = now.saturating_add_signed(i64::from(ahead) + i64::from(i * i));
                        let entry = times.len() as u32;
                        wheel.insert(tick(at), entry).unwrap();
                        let at = at.max(clock);
                        times.push(at);
                        model.insert((at, entry));
                    },
                    Step::Advance { by, limit } => {
                        now += if busy { 0 } else { u64::from(by) };
                        busy = wheel.advance(tick(now), limit, &mut out);
                        prop_assert!(out.len() <= limit);
                        let mut last = 0;
                        for entry in out.drain(..) {
                            let at = times[entry as usize];
                            prop_assert!(at <= now, "entry at {at} came at {now}");
                            prop_assert!(at >= last, "entry at {at} came after one at {last}");
                            last = at;
                            prop_assert!(model.remove(&(at, entry)), "came twice");
                        }
                        if !busy {
                            prop_assert!(model.first().is_none_or(|&(at, _)| at > now), "late at {now}");
                        }
                    }
                }
                prop_assert_eq!(wheel.len(), model.len());
                match (wheel.next(), model.first()) {
                    (None, None) => {}
                    (Some(next), Some(&(at, _))) => prop_assert!(!tick(at).is_before(next)),
                    (next, first) => prop_assert!(false, "{next:?} {first:?}"),
                }
            }
        }
    }

    #[test]
    fn refuses_more_than_its_limit_and_takes_no_more_memory_than_it_reserved() {
        let mut wheel = Wheel::new(Tick(0), 100_000).unwrap();
        for entry in 0..100_000_u32 {
            wheel.insert(Tick(entry.wrapping_mul(0x9e37_79b1) >> 1), entry).unwrap();
        }
        assert_eq!(wheel.insert(Tick(1), 1), Err(Full));
        let mut out = Vec::new();
        assert!(!wheel.advance(Tick(1 << 31).after(u32::MAX), usize::MAX, &mut out));
        assert_eq!(out.len(), 100_000);
        assert_eq!(wheel.next(), None);
        let bytes = wheel.bytes();
        for entry in 0..100_000_u32 {
            wheel.insert(Tick(1 << 31).after(entry % 4096), entry).unwrap();
        }
        assert_eq!(wheel.bytes(), bytes);
    }
}
