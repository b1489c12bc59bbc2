//! Who a segment is for: a hash table from the hash of a connection's tuple to a `u32` that the caller understands.
//!
//! A bucket is one cache line with ten entries: tags of 16 bits that are compared at once, and values. A lookup costs one
//! line in the common case, then one look at what the value stands for, which is the caller's (a tag is wrong once in
//! 10,000 lookups). If its bucket is full, an entry goes to one of the next. Each bucket counts the entries that passed
//! over it. So a lookup ends at the first bucket with a count of zero, and a removal leaves no tombstone.
//!
//! Limits: `entries_max` is fixed and the memory with it (9.6 bytes an entry at load 2/3). An entry lies less than
//! [`REACH_MAX`] buckets from home, so every lookup is bounded, whatever the hashes. Both give [`Full`]. Hashes must be
//! keyed ([`crate::hash::place_hash`]), or peers could choose which buckets to fill.
//!
//! Why load 2/3: an entry that was put aside stays there when its bucket has room again. Filled once, a table at load 0.8
//! answers a hit from 1.11 buckets and a miss from 1.70 on average. Once every entry has been exchanged twelve times
//! (simulated, random victims), the figures are 1.48 and 12. At 2/3 it is 1.03 and 1.13, then 1.13 and 2.0, for 1.6 bytes
//! an entry more.

use std::io;

use anywire_advice::Advice;
use anywire_sys::arena::Arena;
use anywire_sys::tags;

/// Entries by hash; each is a `u32` whose meaning is the caller's.
pub(crate) struct Table {
    buckets: Arena<Bucket>,
    /// How many of them are used; less than 2^32.
    bucket_count: u64,
    /// Buckets that an entry may lie in, its home included.
    reach: usize,
    len: usize,
    entries_max: usize,
}

/// There are as many entries as were reserved; or, if hashes are not random, no place is left near an entry's home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot remember another connection: as many as were reserved are there{help}",
    help = Advice("raise the limit or close some")
)]
pub(crate) struct Full;

impl Table {
    /// A table for `entries_max` entries. Fails if the system gives no memory.
    pub(crate) fn new(entries_max: usize) -> io::Result<Self> {
        // A bucket has ten places, and two thirds of all places may be taken.
        Self::with_buckets(entries_max.saturating_mul(3).div_ceil(20).max(1), entries_max)
    }

    fn with_buckets(bucket_count: usize, entries_max: usize) -> io::Result<Self> {
        if u32::try_from(bucket_count).is_err() {
            let message =
                format!("cannot reserve a table for {entries_max} entries: 28 thousand million are the most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut buckets = Arena::reserve(bucket_count, Bucket::EMPTY)?;
        if !buckets.grow_to(bucket_count) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let reach = bucket_count.min(REACH_MAX);
        Ok(Self { buckets, bucket_count: bucket_count as u64, reach, len: 0, entries_max })
    }

    /// Entries in the table.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the table holds, full or not.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.bytes()
    }

    /// Asks for the cache line that [`find_from`](Self::find_from) will read first.
    #[inline(always)]
    pub(crate) fn prefetch(&self, home: u32) {
        self.buckets.prefetch(home as usize);
    }

    /// The first value under `hash` that `is_it` recognises; it is asked rarely about a value of another hash.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.find_from(self.home(hash), hash, is_it)
    }

    /// The same for a caller that knows [`home`](Self::home) already.
    #[inline(always)]
    pub(crate) fn find_from(&self, home: u32, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = home as usize;
        for _ in 0..self.reach {
            let bucket = &self.buckets[at];
            let mut hits = bucket.hits(tag(hash));
            while hits != 0 {
                let value = bucket.values[hits.trailing_zeros() as usize];
                if is_it(value) {
                    return Some(value);
                }
                hits &= hits - 1;
            }
            if !bucket.was_passed() {
                break;
            }
            at = self.next(at);
        }
        None
    }

    /// Adds an entry. Nothing is compared: the caller knows that it is new.
    pub(crate) fn insert(&mut self, hash: u64, value: u32) -> Result<(), Full> {
        if self.len == self.entries_max {
            return Err(Full);
        }
        let home = self.home(hash) as usize;
        let mut at = home;
        let mut distance = 0;
        while self.buckets[at].is_full() {
            distance += 1;
            if distance == self.reach {
                return Err(Full);
            }
            at = self.next(at);
        }
        self.buckets[at].add(tag(hash), value);
        self.len += 1;
        self.for_passed(home, distance, |control| *control += PASSED_ONE);
        Ok(())
    }

    /// Takes an entry out; says whether it was there.
    pub(crate) fn remove(&mut self, hash: u64, value: u32) -> bool {
        let Some(place) = self.place(hash, value) else { return false };
        self.buckets[place.bucket].control &= !(1 << place.entry);
        self.len -= 1;
        self.for_passed(self.home(hash) as usize, place.distance, |control| *control -= PASSED_ONE);
        true
    }

    /// Gives the entry `old` the value `new` under the same hash; says whether it was there.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) -> bool {
        let Some(place) = self.place(hash, old) else { return false };
        self.buckets[place.bucket].values[place.entry] = new;
        true
    }

    fn place(&self, hash: u64, value: u32) -> Option<Position> {
        let mut at = self.home(hash) as usize;
        for distance in 0..self.reach {
            let bucket = &self.buckets[at];
            let mut hits = bucket.hits(tag(hash));
            while hits != 0 {
                let entry = hits.trailing_zeros() as usize;
                if bucket.values[entry] == value {
                    return Some(Position { bucket: at, entry, distance });
                }
                hits &= hits - 1;
            }
            if !bucket.was_passed() {
                break;
            }
            at = self.next(at);
        }
        None
    }

    fn for_passed(&mut self, home: usize, distance: usize, mut change: impl FnMut(&mut u32)) {
        let mut at = home;
        for _ in 0..distance {
            change(&mut self.buckets[at].control);
            at = self.next(at);
        }
    }

    /// The upper half of the hash, scaled to the number of buckets: any number will do, and there is no division.
    #[inline(always)]
    pub(crate) const fn home(&self, hash: u64) -> u32 {
        (((hash >> 32) * self.bucket_count) >> 32) as u32
    }

    #[inline(always)]
    const fn next(&self, at: usize) -> usize {
        if at + 1 == self.bucket_count as usize { 0 } else { at + 1 }
    }
}

/// One cache line. A tag counts only while its bit in `control` is set, so every 16-bit tag is a good one.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u16; ENTRIES],
    values: [u32; ENTRIES],
    /// The low ten bits: which entries are taken. Above: how many entries passed over this bucket.
    control: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    const EMPTY: Self = Self { tags: [0; ENTRIES], values: [0; ENTRIES], control: 0 };

    /// A bit for each entry with this tag.
    #[inline(always)]
    fn hits(&self, tag: u16) -> u32 {
        tags::equal(&self.tags, tag) & self.control
    }

    #[inline(always)]
    const fn was_passed(&self) -> bool {
        self.control >= PASSED_ONE
    }

    const fn is_full(&self) -> bool {
        self.control & TAKEN == TAKEN
    }

    fn add(&mut self, tag: u16, value: u32) {
        let entry = self.control.trailing_ones() as usize;
        self.tags[entry] = tag;
        self.values[entry] = value;
        self.control |= 1 << entry;
    }
}

struct Position {
    bucket: usize,
    entry: usize,
    distance: usize,
}

/// The tag is from the lower half of the hash and tells nothing about the bucket.
#[inline(always)]
const fn tag(hash: u64) -> u16 {
    hash as u16
}

/// Ten tags, ten values and the control word fill a cache line.
const ENTRIES: usize = 10;
const TAKEN: u32 = (1 << ENTRIES) - 1;
/// At most ten entries in each of the buckets in reach can have passed: far from the 2^22 that fit.
const PASSED_ONE: u32 = 1 << ENTRIES;
/// Random hashes need less even at load 0.8: 47 at the most among 100 million entries.
const REACH_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::hash::{Key, place_hash};

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64),
        Remove(prop::sample::Index),
        Replace(prop::sample::Index),
        Absent(u64),
    }

    /// Hashes as a secret key makes them, and worse ones than chance would: few buckets, few tags, all the same.
    fn hash() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => any::<u64>(),
            2 => (0..4_u64, 0..4_u64).prop_map(|(high, tag)| high << 62 | tag),
            1 => Just(u64::MAX),
            1 => Just(0),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => hash().prop_map(Step::Insert),
            3 => any::<prop::sample::Index>().prop_map(Step::Remove),
            1 => any::<prop::sample::Index>().prop_map(Step::Replace),
            2 => hash().prop_map(Step::Absent),
        ]
    }

    fn values(table: &Table, hash: u64) -> Vec<u32> {
        let mut seen = Vec::new();
        assert_eq!(
            table.find(hash, |value| {
                seen.push(value);
                false
            }),
            None
        );
        seen
    }

    proptest! {
        /// Up to the last free place: lookups and removals must hold when entries have spilled all over.
        #[test]
        fn behaves_as_a_map(buckets in 1..9_usize, steps in prop::collection::vec(step(), 1..200)) {
            let mut table = Table::with_buckets(buckets, buckets * ENTRIES).unwrap();
            let mut model = HashMap::new();
            for (value, step) in (0_u32..).zip(steps) {
                let one = |index: prop::sample::Index, model: &HashMap<u32, u64>| {
                    let mut entries: Vec<_> = model.iter().map(|(&value, &hash)| (value, hash)).collect();
                    entries.sort_unstable();
                    (!entries.is_empty()).then(|| entries[index.index(entries.len())])
                };
                match step {
                    Step::Insert(hash) => {
                        let expected = if model.len() == buckets * ENTRIES { Err(Full) } else { Ok(()) };
                        prop_assert_eq!(table.insert(hash, value), expected);
                        if expected.is_ok() {
                            model.insert(value, hash);
                        }
                    }
                    Step::Remove(index) => if let Some((value, hash)) = one(index, &model) {
                        prop_assert!(table.remove(hash, value));
                        prop_assert!(!table.remove(hash, value));
                        model.remove(&value);
                    },
                    Step::Replace(index) => if let Some((old, hash)) = one(index, &model) {
                        prop_assert!(table.replace(hash, old, value));
                        prop_assert!(!table.replace(hash, old, value));
                        model.remove(&old);
                        model.insert(value, hash);
                    },
                    Step::Absent(hash) => {
                        let expected = model.values().filter(|other| **other == hash).count();
                        let seen = values(&table, hash);
                        let of_this_hash = seen.iter().filter(|value| model.get(value) == Some(&hash)).count();
                        prop_assert_eq!(of_this_hash, expected);
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                for (&value, &hash) in &model {
                    prop_assert_eq!(table.find(hash, |other| other == value), Some(value));
                }
            }
            for (value, hash) in model {
                prop_assert!(table.remove(hash, value));
            }
            // Nothing is left behind that would make a lookup longer.
            prop_assert!(table.buckets[..buckets].iter().all(|bucket| bucket.control == 0));
        }
    }

    #[test]
    fn holds_all_it_was_made_for_in_ten_bytes_each() {
        let count = 200_000_u32;
        let key = Key([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        let hash = |value: u32| place_hash(key, value.into(), 7);
        let mut table = Table::new(count as usize).unwrap();
        for value in 0..count {
            table.insert(hash(value), value).unwrap();
        }
        assert_eq!(table.insert(0, 0), Err(Full));
        assert!(table.bytes() <= 10 * count as usize + (2 << 20), "{}", table.bytes());
        // A look at a value that is not the right one costs a cache miss of the caller's.
        let mut looks = 0;
        for value in 0..count {
            let mut is_it = |other| {
                looks += 1;
                other == value
            };
            assert_eq!(table.find(hash(value), &mut is_it), Some(value));
        }
        assert!(looks < count + count / 2_000, "{looks}");
    }

    #[test]
    fn equal_hashes_cannot_make_a_lookup_long() {
        let mut table = Table::new(100_000).unwrap();
        let full = (0..).find(|&value| table.insert(42, value) == Err(Full)).unwrap();
        assert_eq!(full as usize, REACH_MAX * ENTRIES);
        assert_eq!(values(&table, 42).len(), REACH_MAX * ENTRIES);
        assert!((0..full).rev().all(|value| table.remove(42, value)));
        assert_eq!(table.len(), 0);
        assert_eq!(table.insert(42, 1), Ok(()));
    }
}
