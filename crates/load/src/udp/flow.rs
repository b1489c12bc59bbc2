//! What became of the datagrams of one flow: each is new, a second one, or out of order.

use std::collections::VecDeque;
use std::time::Duration;

/// The account of one flow.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// How many were sent.
    pub(crate) sent: u64,
    /// A bit for each number that has come back.
    seen: Vec<u64>,
    /// One more than the highest number so far (RFC 4737: NextExp).
    next_expected: u64,
    /// The numbers that came last, the latest at the back.
    latest: VecDeque<u64>,
    /// Numbers and when they were sent, some for each time in which one may come back.
    sent_at: VecDeque<(u64, Duration)>,
}

/// What one arrival is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In order.
    InOrder,
    /// New, but a later one came before it (RFC 4737 section 3). The extent is how many arrivals ago the first such one came
    /// (section 4.2.2), at most [`EXTENT_MAX`].
    Reordered { extent: u64 },
    /// It has come before.
    Duplicate,
    /// No such number was sent.
    Unknown,
}

impl Flow {
    /// The number of one that is sent now. It may come back within [`MARKS`] times `mark_every`.
    pub(crate) fn send(&mut self, now: Duration, mark_every: Duration) -> u64 {
        let number = self.sent;
        self.sent += 1;
        if self.sent_at.back().is_none_or(|(_, at)| now.saturating_sub(*at) >= mark_every) {
            let patience = mark_every * MARKS;
            // The first mark of those that are too old tells where the others begin.
            while self.sent_at.get(1).is_some_and(|(_, at)| now.saturating_sub(*at) > patience) {
                self.sent_at.pop_front();
            }
            self.sent_at.push_back((number, now));
        }
        number
    }

    /// How many may still come back: those that were sent within `patience`, to a [`MARKS`]th of it, and have not come.
    pub(crate) fn on_their_way(&self, now: Duration, patience: Duration) -> u64 {
        let is_too_old = |(_, at): &&(u64, Duration)| now.saturating_sub(*at) > patience;
        let mark = self.sent_at.iter().rev().find(is_too_old).or(self.sent_at.front());
        let Some(&(first, _)) = mark else { return 0 };
        let has_come = |number: u64| {
            self.seen.get((number / 64) as usize).is_some_and(|word| word & (1 << (number % 64)) != 0)
        };
        (first..self.sent).filter(|&number| !has_come(number)).count() as u64
    }

    /// Takes the number of a datagram that has come back.
    pub(crate) fn arrive(&mut self, number: u64) -> Arrival {
        if number >= self.sent {
            return Arrival::Unknown;
        }
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            return Arrival::Duplicate;
        }
        self.seen[word] |= bit;
        let arrival = if number >= self.next_expected {
            self.next_expected = number + 1;
            Arrival::InOrder
        } else {
            let first_later = self.latest.iter().position(|&earlier| earlier > number).unwrap_or(0);
            Arrival::Reordered { extent: (self.latest.len() - first_later) as u64 }
        };
        if self.latest.len() == EXTENT_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(number);
        arrival
    }
}

/// So exactly is it known when a datagram was sent.
pub(crate) const MARKS: u32 = 16;
/// How many arrivals are kept in mind for the extent of reordering.
pub(crate) const EXTENT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(numbers: &[u64]) -> Vec<Arrival> {
        let mut flow = Flow { sent: 1000, ..Flow::default() };
        numbers.iter().map(|&number| flow.arrive(number)).collect()
    }

    #[test]
    fn order_is_as_rfc_4737_says() {
        use Arrival::{InOrder, Reordered};
        // 6 comes after 7 and 8: two arrivals late.
        assert_eq!(
            arrivals(&[1, 2, 3, 4, 5, 7, 8, 6]),
            [InOrder, InOrder, InOrder, InOrder, InOrder, InOrder, InOrder, Reordered { extent: 2 },]
        );
        // A loss is no reordering.
        assert_eq!(arrivals(&[0, 5, 9]), [InOrder; 3]);
        assert_eq!(arrivals(&[3, 0, 1]), [InOrder, Reordered { extent: 1 }, Reordered { extent: 2 }]);
    }

    #[test]
    fn a_second_one_is_no_new_one() {
        use Arrival::{Duplicate, InOrder, Unknown};
        assert_eq!(arrivals(&[0, 0, 1, 0, 1000]), [InOrder, Duplicate, InOrder, Duplicate, Unknown]);
    }

    #[test]
    fn only_what_is_young_is_on_its_way() {
        let (ms, mut flow) = (Duration::from_millis, Flow::default());
        assert_eq!(flow.on_their_way(ms(0), ms(160)), 0);
        // One each 10 ms.
        (0..100).for_each(|number| assert_eq!(flow.send(ms(number * 10), ms(10)), number));
        assert_eq!(flow.on_their_way(ms(990), ms(160)), 18);
        assert!(flow.sent_at.len() <= MARKS as usize + 2);
        flow.arrive(98);
        flow.arrive(5);
        assert_eq!(flow.on_their_way(ms(990), ms(160)), 17);
        assert_eq!(flow.on_their_way(ms(1200), ms(160)), 1);
        // What is younger than that is on its way as a whole.
        let mut flow = Flow::default();
        (0..100).for_each(|_| _ = flow.send(ms(1), ms(10)));
        assert_eq!(flow.on_their_way(ms(100), ms(160)), 100);
    }

    #[test]
    fn the_extent_is_bounded() {
        let mut flow = Flow { sent: 1000, ..Flow::default() };
        (1..500).for_each(|number| assert_eq!(flow.arrive(number), Arrival::InOrder));
        assert_eq!(flow.arrive(0), Arrival::Reordered { extent: EXTENT_MAX as u64 });
    }
}
