//! Random numbers that are the same for the same seed on every machine: xorshift64*, started by splitmix64.

/// A stream of random numbers. Good enough to lose frames by; no secret may depend on it.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        // splitmix64 (Steele, Lea, Flood 2014): near seeds give far states, and none of them is zero but one.
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
        Self { state: if state == 0 { 1 } else { state } }
    }

    #[inline]
    pub(super) const fn next(&mut self) -> u64 {
        // Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016).
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, or 0 if that is 0.
    pub(super) const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    #[inline]
    pub(super) const fn is_hit(&mut self, chance: Chance) -> bool {
        // Where nothing can happen, no number is spent on it.
        chance.of_two_to_64 > 0 && (self.next() as u128) < chance.of_two_to_64
    }
}

/// A probability, ready to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chance {
    of_two_to_64: u128,
}

impl Chance {
    /// Not a number counts as 0.
    pub(super) const fn new(probability: f64) -> Self {
        Self { of_two_to_64: (probability.clamp(0.0, 1.0) * TWO_TO_64) as u128 }
    }
}

const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_kept() {
        for probability in [0.0, 0.001, 0.1, 0.5, 0.999, 1.0] {
            let mut random = Random::new(3);
            let hits = (0..100_000).filter(|_| random.is_hit(Chance::new(probability))).count() as f64;
            let (mean, deviation) =
                (100_000.0 * probability, (100_000.0 * probability * (1.0 - probability)).sqrt());
            assert!((hits - mean).abs() <= 5.0 * deviation, "{hits} hits at {probability}");
        }
        assert_eq!([Chance::new(f64::NAN), Chance::new(-1.0)], [Chance::new(0.0); 2]);
        assert_eq!(Chance::new(7.0), Chance::new(1.0));
    }

    #[test]
    fn numbers_are_below_their_end() {
        let mut random = Random::new(0);
        assert!((0..10_000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }
}
