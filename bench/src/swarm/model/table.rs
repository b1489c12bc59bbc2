//! The model's table: from a connection's addresses to its block, one cache line a lookup.

use anyhow::Result;
use anywire_sys::arena::Arena;

/// Open addressing over buckets of one line.
pub struct Table {
    buckets: Arena<Bucket>,
}

/// Ten entries: a tag of 16 bits that a lookup compares, and the index that it is after. An empty place has tag 0.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u16; 10],
    full: u32,
    indices: [u32; 10],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Table {
    /// With room for so many entries at three quarters of its places.
    pub fn for_entries(entries: usize) -> Result<Self> {
        let buckets = (entries * 4).div_ceil(3 * 10).max(1);
        let mut buckets = Arena::reserve(buckets, Bucket { tags: [0; 10], full: 0, indices: [0; 10] })?;
        let capacity = buckets.capacity();
        buckets.grow_to(capacity);
        Ok(Self { buckets })
    }

    /// Adds an entry; the table must not be full.
    pub fn insert(&mut self, hash: u64, index: u32) {
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(place) = bucket.tags.iter().position(|&tag| tag == 0) {
                bucket.tags[place] = tag(hash);
                bucket.indices[place] = index;
                bucket.full = u32::from(place == 9);
                return;
            }
            at = self.after(at);
        }
    }

    /// Asks for the line of this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.buckets.prefetch(self.home(hash));
    }

    /// The first index with the tag of this hash that `is_it` agrees to.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = tag(hash);
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            let mut equal = 0_u32;
            for (place, &of_entry) in bucket.tags.iter().enumerate() {
                equal |= u32::from(of_entry == tag) << place;
            }
            while equal != 0 {
                let index = bucket.indices[equal.trailing_zeros() as usize % 10];
                if is_it(index) {
                    return Some(index);
                }
                equal &= equal - 1;
            }
            if bucket.full == 0 {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Memory it takes.
    pub fn bytes(&self) -> usize {
        self.buckets.bytes()
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }
}

#[inline(always)]
fn tag(hash: u64) -> u16 {
    (hash as u16).max(1)
}

/// Both addresses, both ports and a key, mixed by one wide multiplication. An engine needs a hash that withstands
/// attacks, which takes longer.
#[inline(always)]
pub fn hash(remote_address: u32, local_address: u32, remote_port: u16, local_port: u16) -> u64 {
    let addresses = (u64::from(remote_address) << 32) | u64::from(local_address);
    let ports = (u64::from(remote_port) << 16) | u64::from(local_port);
    let product = u128::from(addresses ^ KEYS[0]) * u128::from((ports.wrapping_mul(KEYS[2])) ^ KEYS[1]);
    let mixed = (product >> 64) as u64 ^ product as u64;
    mixed.wrapping_mul(KEYS[2]).rotate_left(32)
}

const KEYS: [u64; 3] = [0x2d35_8dcc_aa6c_78a5, 0x8bb8_4b93_962e_acc9, 0x9e37_79b9_7f4a_7c15];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_and_no_other() {
        let entries = 100_000;
        let of =
            |index: u32| hash(0x0a00_0000 + index / 60_000, 0x0a80_0000, 1024 + (index % 60_000) as u16, 80);
        let mut table = Table::for_entries(entries as usize).unwrap();
        for index in 0..entries {
            table.insert(of(index), index);
        }
        let mut looked_at = 0_u32;
        for index in 0..entries {
            let found = table.find(of(index), |candidate| {
                looked_at += 1;
                candidate == index
            });
            assert_eq!(found, Some(index));
        }
        // A tag tells nearly all apart.
        assert!(looked_at < entries + entries / 100, "{looked_at}");
        assert_eq!(table.find(of(entries + 5), |candidate| candidate == entries + 5), None);
    }
}
