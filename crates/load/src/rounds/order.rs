//! The order of the candidates in each round, drawn by a seed. In a fixed order each candidate always follows the same
//! one, and what that one leaves behind looks like a property of the next. A mirrored order also cancels what grows steadily.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Draws one order a round; the same seed gives the same orders.
///
/// ```
/// use anywire_load::rounds::Order;
///
/// let mut order = Order::of_seed(7);
/// let mut first = order.next_round(3);
/// assert_eq!(Order::of_seed(7).next_round(3), first);
/// first.sort();
/// assert_eq!(first, [0, 1, 2]);
/// ```
#[derive(Debug, Clone)]
pub struct Order {
    state: u64,
    /// Whether each second round is the one before it backwards.
    is_mirrored: bool,
    /// The order of the last round that was drawn and not yet mirrored.
    last: Option<Vec<usize>>,
}

impl Order {
    /// The orders of this seed.
    pub fn of_seed(seed: u32) -> Self {
        Self { state: u64::from(seed), is_mirrored: false, last: None }
    }

    /// Each second round has the order of the one before it backwards. Of two candidates that makes ABBA or BAAB of each two
    /// rounds, which the seed draws: a machine that grows slower strikes both alike.
    ///
    /// ```
    /// use anywire_load::rounds::Order;
    ///
    /// let mut order = Order::mirrored(7);
    /// let (first, mut second) = (order.next_round(2), order.next_round(2));
    /// second.reverse();
    /// assert_eq!(first, second);
    /// ```
    pub fn mirrored(seed: u32) -> Self {
        Self { is_mirrored: true, ..Self::of_seed(seed) }
    }

    /// A seed from the system's randomness. It has 32 bits, so that every reader of JSON keeps all of its digits.
    pub fn random_seed() -> u32 {
        RandomState::new().build_hasher().finish() as u32
    }

    /// The order of the next round: each of `0 .. count` once.
    pub fn next_round(&mut self, count: usize) -> Vec<usize> {
        if let Some(mut last) = self.last.take().filter(|last| last.len() == count) {
            last.reverse();
            return last;
        }
        let drawn = self.draw(count);
        self.last = self.is_mirrored.then(|| drawn.clone());
        drawn
    }

    /// Fisher-Yates.
    fn draw(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            // The remainder favours some places by one in 2^60, which no round notices.
            let chosen = self.next() % (last as u64 + 1);
            order.swap(last, chosen as usize);
        }
        order
    }

    /// SplitMix64: small, and good enough for any number of rounds.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_round_has_each_candidate_once() {
        for count in 0..6 {
            let mut order = Order::of_seed(1);
            for _ in 0..20 {
                let mut round = order.next_round(count);
                round.sort_unstable();
                assert_eq!(round, (0..count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn two_mirrored_rounds_are_abba_or_baab() {
        let mut order = Order::mirrored(3);
        let blocks: Vec<_> = (0..40).map(|_| [order.next_round(2), order.next_round(2)].concat()).collect();
        let (abba, baab) = ([0, 1, 1, 0], [1, 0, 0, 1]);
        assert!(blocks.iter().all(|block| *block == abba || *block == baab), "{blocks:?}");
        assert!(blocks.iter().any(|block| *block == abba) && blocks.iter().any(|block| *block == baab));
    }

    #[test]
    fn every_order_comes_up_and_no_candidate_has_one_predecessor() {
        let mut order = Order::of_seed(2);
        let rounds: Vec<_> = (0..200).map(|_| order.next_round(4)).collect();
        assert_eq!(rounds.iter().collect::<HashSet<_>>().len(), 24);
        let pairs: HashSet<_> =
            rounds.iter().flat_map(|round| round.windows(2).map(|two| (two[0], two[1]))).collect();
        assert_eq!(pairs.len(), 12);
    }
}
