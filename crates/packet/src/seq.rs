//! Sequence numbers: 32 bits that wrap, compared by their distance (RFC 9293 3.4).

use std::ops::{Add, AddAssign, Sub};

/// A sequence number. `a - b` is the distance from `b` to `a`, modulo 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// Whether it lies before `other`.
    pub const fn lt(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether it lies before `other`, or is the same.
    pub const fn le(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) <= 0
    }

    /// Whether it lies behind `other`.
    pub const fn gt(self, other: Self) -> bool {
        other.lt(self)
    }

    /// Whether it lies behind `other`, or is the same.
    pub const fn ge(self, other: Self) -> bool {
        other.le(self)
    }

    /// Whether it lies in `start..end`.
    pub const fn within(self, start: Self, end: Self) -> bool {
        start.le(self) && self.lt(end)
    }

    /// The later of both.
    pub const fn max(self, other: Self) -> Self {
        if self.lt(other) { other } else { self }
    }

    /// The earlier of both.
    pub const fn min(self, other: Self) -> Self {
        if self.lt(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Self;

    fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, count: u32) {
        *self = *self + count;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;

    fn sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }
}

impl Sub for Seq {
    type Output = u32;

    fn sub(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

impl std::fmt::Debug for Seq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn order_follows_distance(start: u32, ahead in 1u32..0x7fff_ffff) {
            let (a, b) = (Seq(start), Seq(start) + ahead);
            prop_assert!(a.lt(b) && a.le(b) && b.gt(a) && b.ge(a) && !b.le(a));
            prop_assert_eq!(b - a, ahead);
            prop_assert_eq!(a.max(b), b);
            prop_assert_eq!(b.min(a), a);
            prop_assert!(a.within(a, b) && !b.within(a, b));
        }
    }
}
