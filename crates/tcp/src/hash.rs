//! Keyed hashes: a quick one for the connection table, SipHash for what a peer gets to see.
//!
//! A peer chooses its addresses and ports, so a plain hash would let it crowd one bucket of the table or guess another
//! connection's first sequence number. What the table hashes never leaves the engine, and is hashed for every frame: it
//! needs spread and a key that cannot be guessed. All else leaves it: initial sequence numbers (RFC 6528), timestamps (RFC
//! 7323 7.1), SYN cookies (RFC 4987) and ports (RFC 6056). So it takes the full strength of SipHash-2-4 (Aumasson and
//! Bernstein, 2012), from which nobody learns the key. Each purpose has a key of its own, so what one gives away says
//! nothing of another.

use anywire_packet::Addresses;

/// The secret of a hash. It has no `Debug`: a secret does not belong into a log.
#[derive(Clone, Copy)]
pub(crate) struct Key(pub(crate) [u64; 2]);

/// The keys of an engine, one for each purpose. `docs/tcp.md` lists what leaves for each.
pub(crate) struct Keys {
    /// Where the table keeps a connection: the only one of [`place_hash`].
    pub(crate) table: Key,
    /// First sequence numbers and the clocks of timestamps.
    pub(crate) starts: Key,
    pub(crate) cookies: Key,
    pub(crate) ports: Key,
    /// Identifications of packets that may be fragmented.
    pub(crate) fragments: Key,
}

impl Keys {
    /// The keys that follow from the secret of the settings.
    pub(crate) fn new(secret: [u64; 4]) -> Self {
        let of = |purpose| Key::derived(secret, purpose);
        Self { table: of(0), starts: of(1), cookies: of(2), ports: of(3), fragments: of(4) }
    }
}

impl Key {
    /// The key of a purpose. Whoever knows one, even all but one, would have to invert SipHash to learn the secret.
    fn derived([a, b, c, d]: [u64; 4], purpose: u64) -> Self {
        // Both halves of the secret count in each word, whichever of them the caller has filled well.
        let word = |number| {
            let input = [purpose, number];
            secret_hash(Self([a, b]), &input) ^ secret_hash(Self([c, d]), &input).rotate_left(32)
        };
        Self([word(0), word(1)])
    }
}

/// Where the table keeps a connection: two folded multiplications, each with a part of the key, where SipHash-1-3 takes
/// 88 instructions.
#[inline(always)]
pub(crate) const fn place_hash(Key([k0, k1]): Key, a: u64, b: u64) -> u64 {
    let both = fold_multiply(a ^ k0, b ^ k1);
    fold_multiply(both ^ k1.rotate_left(32), k0 | 1)
}

/// SipHash-2-4 of these words, little-endian. For values that leave the engine.
pub(crate) fn secret_hash(key: Key, words: &[u64]) -> u64 {
    let mut state = State::new(key);
    for word in words {
        state.absorb(*word);
    }
    // The last word holds the length.
    state.absorb((words.len() as u64) << 59);
    state.finish()
}

/// The same of two addresses and both ports.
pub(crate) fn secret_hash_of_tuple(key: Key, addresses: &Addresses, ports: u32) -> u64 {
    match *addresses {
        // Twelve bytes: one word less to absorb.
        Addresses::V4 { local, remote } => {
            let mut state = State::new(key);
            state.absorb(u64::from(local) << 32 | u64::from(remote));
            state.absorb(12 << 56 | u64::from(ports));
            state.finish()
        }
        Addresses::V6 { local, remote } => {
            let halves = [local, remote].map(|address| [(address >> 64) as u64, address as u64]);
            let [[a, b], [c, d]] = halves;
            secret_hash(key, &[a, b, c, d, ports.into()])
        }
    }
}

/// The same of two addresses, both ports, another number, and 56 bits more.
pub(crate) fn secret_hash_of_syn(key: Key, addresses: &Addresses, ports: u32, seq: u32, more: u64) -> u64 {
    let mut state = State::new(key);
    let bytes = match *addresses {
        Addresses::V4 { local, remote } => {
            state.absorb(u64::from(local) << 32 | u64::from(remote));
            8
        }
        Addresses::V6 { local, remote } => {
            for address in [local, remote] {
                state.absorb((address >> 64) as u64);
                state.absorb(address as u64);
            }
            32
        }
    };
    state.absorb(u64::from(seq) << 32 | u64::from(ports));
    // Eight bytes, and seven with the length.
    state.absorb((bytes + 15) << 56 | more & ((1 << 56) - 1));
    state.finish()
}

/// For maps whose keys no peer chooses: one folded multiplication for each part of a key, where the standard library's
/// hasher takes 100 instructions. What strangers may ask for is looked up with it, and never put in.
#[derive(Clone, Copy, Default)]
pub(crate) struct OwnHasher(u64);

impl std::hash::Hasher for OwnHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = fold_multiply(self.0 ^ word ^ 0x243f_6a88_85a3_08d3, 0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

const fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// The four words of SipHash (section 2 of the paper).
struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    const fn new(Key([k0, k1]): Key) -> Self {
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    const fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    fn finish(mut self) -> u64 {
        self.v2 ^= 0xff;
        for _ in 0..4 {
            self.round();
        }
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    const fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32).wrapping_add(self.v3);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[expect(deprecated, reason = "the only SipHash-2-4 that the standard library shows, with keys")]
        #[test]
        fn the_secret_hash_agrees_with_the_standard_library(k0: u64, k1: u64, a: u64, b: u64) {
            let mut hasher = std::hash::SipHasher::new_with_keys(k0, k1);
            hasher.write(&a.to_le_bytes());
            hasher.write(&b.to_le_bytes());
            prop_assert_eq!(secret_hash(Key([k0, k1]), &[a, b]), hasher.finish());
            let mut hasher = std::hash::SipHasher::new_with_keys(k0, k1);
            hasher.write(&a.to_le_bytes());
            hasher.write(&(b as u32).to_le_bytes());
            let addresses = Addresses::V4 { local: (a >> 32) as u32, remote: a as u32 };
            prop_assert_eq!(secret_hash_of_tuple(Key([k0, k1]), &addresses, b as u32), hasher.finish());
            let addresses = Addresses::V6 { local: u128::from(a) << 64, remote: u128::from(b) };
            let mut hasher = std::hash::SipHasher::new_with_keys(k0, k1);
            for word in [a, 0, 0, b, k0 & 0xffff_ffff] {
                hasher.write(&word.to_le_bytes());
            }
            prop_assert_eq!(secret_hash_of_tuple(Key([k0, k1]), &addresses, k0 as u32), hasher.finish());
            for (addresses, words) in [
                (Addresses::V4 { local: (a >> 32) as u32, remote: a as u32 }, vec![a]),
                (addresses, vec![a, 0, 0, b]),
            ] {
                let mut hasher = std::hash::SipHasher::new_with_keys(k0, k1);
                words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
                hasher.write(&b.to_le_bytes());
                hasher.write(&k1.to_le_bytes()[..7]);
                let hash = secret_hash_of_syn(Key([k0, k1]), &addresses, b as u32, (b >> 32) as u32, k1);
                prop_assert_eq!(hash, hasher.finish());
            }
        }
    }

    /// Each bit of the secret counts in each key, and each key is another.
    #[test]
    fn every_key_follows_from_the_whole_secret() {
        let all = |secret| {
            let Keys { table, starts, cookies, ports, fragments } = Keys::new(secret);
            [table, starts, cookies, ports, fragments].map(|Key(words)| words)
        };
        let secret = [1, 2, 3, 4];
        let mut seen: Vec<u64> = all(secret).concat();
        for bit in 0..256 {
            let mut other = secret;
            other[bit / 64] ^= 1 << (bit % 64);
            seen.extend(all(other).concat());
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "no word of a key is there twice");
    }

    /// Neighbouring addresses and ports occur in a scan or a load test. They must share buckets no more often than random
    /// ones.
    #[test]
    fn neighbours_are_spread() {
        const BUCKETS: usize = 4096;
        let key = Key([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        for step in [1_u64, 2, 1 << 16, 1 << 32] {
            let mut counts = vec![0_u32; BUCKETS];
            for number in 0..(BUCKETS as u64 * 8) {
                let (a, b) =
                    if step == 1 << 32 { (number, 80) } else { (0x0a00_0001_0a00_0002, number * step) };
                let hash = place_hash(key, a, b);
                counts[(((hash >> 32) * BUCKETS as u64) >> 32) as usize] += 1;
            }
            // Eight each by chance; with 4096 buckets, 30 in one has a chance of one in a million.
            assert!(counts.iter().all(|count| *count < 30), "step {step}: {:?}", counts.iter().max());
        }
    }
}
