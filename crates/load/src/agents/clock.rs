//! How far the clock of an agent is from the leader's: the leader asks often, and the fastest answer tells it best.
//!
//! Both clocks count from a moment of their own, so that it does not matter what the clocks on their walls say.

use std::time::Instant;

/// A clock that counts from its making.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since its making; it lasts for 584 years.
    pub(crate) fn ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// One question for the other's clock, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    /// When it was asked, by the own clock.
    pub(crate) asked: u64,
    /// What the other one's said.
    pub(crate) other: u64,
    /// When the answer was here, by the own clock.
    pub(crate) answered: u64,
}

impl Exchange {
    fn round_trip(&self) -> u64 {
        self.answered.saturating_sub(self.asked)
    }
}

/// The other's clock by the own one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offset {
    /// Nanoseconds by which the other's is ahead.
    ahead: i128,
    /// The round trip of the answer that told it, in nanoseconds: it is wrong by half of that at most.
    pub(crate) round_trip: u64,
}

impl Offset {
    /// By the fastest answer: the longer one was on its way, the less is known of when the clock was read. `None` without an answer.
    pub(crate) fn of(exchanges: &[Exchange]) -> Option<Self> {
        let fastest = exchanges.iter().min_by_key(|exchange| exchange.round_trip())?;
        let round_trip = fastest.round_trip();
        let read_at = i128::from(fastest.asked) + i128::from(round_trip / 2);
        Some(Self { ahead: i128::from(fastest.other) - read_at, round_trip })
    }

    /// A moment of the own clock by the other's; a moment before the other's clock began is its begin.
    pub(crate) fn there(&self, own: u64) -> u64 {
        u64::try_from((i128::from(own) + self.ahead).max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: i128 = 3_600_000_000_000;

    proptest! {
        /// Whatever the ways take, a moment is told to within half of the fastest round trip, hours apart too.
        #[test]
        fn a_moment_is_wrong_by_half_a_round_trip_at_most(
            ahead in -HOUR..HOUR,
            ways in prop::collection::vec((0_u64..10_000_000, 0_u64..10_000_000), 1..20),
            own in 2 * HOUR as u64..3 * HOUR as u64,
        ) {
            let mut asked = 2 * HOUR as u64;
            let exchanges: Vec<_> = ways.iter().map(|(there, back)| {
                asked += 20_000_000;
                let other = (i128::from(asked + there) + ahead) as u64;
                Exchange { asked, other, answered: asked + there + back }
            }).collect();
            let offset = Offset::of(&exchanges).unwrap();
            let right = (i128::from(own) + ahead) as u64;
            let fastest = ways.iter().map(|(there, back)| there + back).min().unwrap();
            prop_assert_eq!(offset.round_trip, fastest);
            prop_assert!(offset.there(own).abs_diff(right) <= fastest / 2 + 1);
        }
    }

    #[test]
    fn nothing_is_known_without_an_answer_and_nothing_overflows() {
        assert_eq!(Offset::of(&[]), None);
        let behind = Offset::of(&[Exchange { asked: u64::MAX, other: 0, answered: u64::MAX }]).unwrap();
        assert_eq!(behind.there(0), 0);
        let ahead = Offset::of(&[Exchange { asked: 0, other: u64::MAX, answered: 0 }]).unwrap();
        assert_eq!(ahead.there(u64::MAX), u64::MAX);
    }
}
