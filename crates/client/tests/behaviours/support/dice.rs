//! Numbers that look random and are the same in each run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub struct Dice(AtomicU64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A number below `sides`.
    pub fn roll(&self, sides: u64) -> u64 {
        let before = self.0.load(Ordering::Relaxed);
        let now = before.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.store(now, Ordering::Relaxed);
        (now >> 33) % sides
    }

    /// Once in so many times.
    pub fn once_in(&self, times: u64) -> bool {
        self.roll(times) == 0
    }

    /// A while of less than `milliseconds`, and in half of the cases none at all. Time is simulated.
    pub async fn rest(&self, milliseconds: u64) {
        if self.once_in(2) {
            tokio::time::sleep(Duration::from_millis(self.roll(milliseconds))).await;
        }
    }
}
