//! Time as the engine sees it: microseconds since a start that the caller chose.

use std::time::Duration;

/// A moment, in microseconds since the caller's start. The engine never reads a clock; it is told. What it is told never goes
/// back: a moment before the last one counts as the last one.
///
/// ```
/// use std::time::Duration;
/// use anywire_tcp::Instant;
///
/// let start = Instant::from_micros(5_000);
/// assert_eq!((start + Duration::from_millis(2)).as_micros(), 7_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Instant(u64);

impl Instant {
    /// So many microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, or zero if that is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Whole milliseconds since the start.
    pub(crate) const fn millis(self) -> u64 {
        self.0 / 1000
    }

    /// Microseconds that wrap after 71 minutes: what a segment remembers of its sending.
    pub(crate) const fn short(self) -> u32 {
        self.0 as u32
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// The tick of the engine's timers and timestamps: milliseconds in 32 bits. They wrap after 49 days, so they are compared by
/// their distance. The engine lets none become so old that this would fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tick(pub(crate) u32);

impl Tick {
    /// Whether this moment has come at `now`.
    pub(crate) const fn is_due(self, now: Self) -> bool {
        now.0.wrapping_sub(self.0) as i32 >= 0
    }

    /// Whether this is before `other`.
    pub(crate) const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    pub(crate) const fn after(self, millis: u32) -> Self {
        Self(self.0.wrapping_add(millis))
    }

    /// If it is longer ago than `millis`, it is that long ago now.
    pub(crate) const fn keep_near(&mut self, now: Self, millis: u32) {
        if self.is_due(now) && now.since(*self) > millis {
            self.0 = now.0.wrapping_sub(millis);
        }
    }

    /// Milliseconds from `earlier` to this; less than 2^31 for moments that belong together.
    pub(crate) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// How far ahead anything may be due: 12 days, a quarter of what ticks tell apart.
pub(crate) const FARTHEST_MILLIS: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_compare_across_their_wrap() {
        let before = Tick(u32::MAX - 1);
        let after = before.after(3);
        assert!(before.is_before(after) && before.is_due(after) && !after.is_due(before));
        assert_eq!(after.since(before), 3);
        assert!(before.is_due(before));
    }
}
