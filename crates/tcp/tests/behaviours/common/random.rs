//! A small generator of random numbers: a test that fails prints the seed, and the seed brings it back.

/// SplitMix64 (Steele, Lea, Flood 2014): any seed will do, and every run is the same everywhere.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6a09_e667_f3bc_c909)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end.max(1))) >> 64) as u64
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        (self.next() >> 11) as f64 / ((1_u64 << 53) as f64) < probability
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }
}

/// The seeds to run: as many as `ANYWIRE_SEEDS` says, else `usual`; from `ANYWIRE_FIRST_SEED` on.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("ANYWIRE_FIRST_SEED").unwrap_or(0);
    first..first + number("ANYWIRE_SEEDS").unwrap_or(usual)
}

/// Runs `check` for each seed; panics with the seeds that failed, at the fifth of them at the latest.
pub fn for_each_seed(usual: u64, check: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let mut failed = Vec::new();
    for seed in seeds(usual) {
        if std::panic::catch_unwind(|| check(seed)).is_err() {
            eprintln!("seed {seed} failed: again with ANYWIRE_FIRST_SEED={seed} ANYWIRE_SEEDS=1");
            failed.push(seed);
            if failed.len() == 5 {
                break;
            }
        }
    }
    assert!(failed.is_empty(), "failed with the seeds {failed:?}");
}

/// Runs a simulation for each seed with header prediction and without it: every frame and every counter is the same.
pub fn for_each_seed_both_ways<T: PartialEq + std::fmt::Debug>(
    usual: u64,
    run: impl Fn(u64, bool) -> T + std::panic::RefUnwindSafe,
) {
    for_each_seed(usual, |seed| assert_eq!(run(seed, true), run(seed, false), "predicted, and in general"));
}
