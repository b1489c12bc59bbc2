//! What became of the datagrams of one flow: each is new, a second one, or out of order.

use std::collections::VecDeque;

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
    fn the_extent_is_bounded() {
        let mut flow = Flow { sent: 1000, ..Flow::default() };
        (1..500).for_each(|number| assert_eq!(flow.arrive(number), Arrival::InOrder));
        assert_eq!(flow.arrive(0), Arrival::Reordered { extent: EXTENT_MAX as u64 });
    }
}
