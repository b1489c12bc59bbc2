//! Random choices that a seed repeats, and a test's runs over many seeds.

/// A generator of the kind that is called splitmix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `limit`, without `limit` itself.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A generator of its own, for another thread or task.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }
}

/// Runs `check` for each seed: as many as `ANYWIRE_SEEDS` says, else `usual`; from `ANYWIRE_FIRST_SEED` on. The first
/// that fails ends it, and says how to repeat it.
pub(crate) fn for_each_seed(usual: u64, check: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("ANYWIRE_FIRST_SEED").unwrap_or(0);
    for seed in first..first + number("ANYWIRE_SEEDS").unwrap_or(usual) {
        if std::panic::catch_unwind(|| check(seed)).is_err() {
            panic!("seed {seed} failed: again with ANYWIRE_FIRST_SEED={seed} ANYWIRE_SEEDS=1");
        }
    }
}
