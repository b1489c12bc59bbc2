//! The order in which connections or tasks take turns: each place is computed, so that no list of them is kept.

use crate::plan::Order;

/// An order of `0..count`: each number has one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    order: Order,
    count: u64,
    mask: u64,
    shift: u32,
    key: u64,
}

impl Turns {
    /// `count` is from 1 to 2^32. Another seed gives another random order.
    pub(crate) fn new(order: Order, count: u64, seed: u64) -> Self {
        let bits = count.next_power_of_two().trailing_zeros().max(2);
        let mask = (1 << bits) - 1;
        // The high bits of the product depend on all bits of the seed.
        let key = (seed.wrapping_mul(FACTORS[0]) >> 32) & mask;
        Self { order, count, mask, shift: bits.div_ceil(2), key }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// The number at a place.
    pub(crate) fn at(&self, place: u64) -> u64 {
        self.walk(place, FACTORS)
    }

    /// The place of a number.
    pub(crate) fn place(&self, number: u64) -> u64 {
        let [first, second] = FACTORS.map(inverse);
        self.walk(number, [second, first])
    }

    /// Mixes until the value is below the count. It follows a cycle of the mix, so it stays one to one.
    fn walk(&self, mut value: u64, factors: [u64; 2]) -> u64 {
        if self.order == Order::Sequential {
            return value;
        }
        loop {
            value = self.mix(value, factors);
            if value < self.count {
                return value;
            }
        }
    }

    /// One to one on the numbers of these bits. The key, and a shift by half of the bits or more, undo themselves. So
    /// the inverse factors in the other order undo the whole.
    fn mix(&self, mut value: u64, factors: [u64; 2]) -> u64 {
        value ^= self.key;
        value ^= value >> self.shift;
        for factor in factors {
            value = value.wrapping_mul(factor) & self.mask;
            value ^= value >> self.shift;
        }
        value ^ self.key
    }
}

/// Odd, with bits well spread: those of splitmix64.
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// The inverse of an odd number, modulo 2^64 and so modulo any smaller power of two.
fn inverse(odd: u64) -> u64 {
    // Newton's step doubles the bits that are right, of which there are three at first.
    (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_place() {
        for count in [1, 2, 3, 7, 64, 1000, 4097, 100_000] {
            for (order, seed) in [(Order::Random, 0), (Order::Random, 7), (Order::Sequential, 7)] {
                let turns = Turns::new(order, count, seed);
                let mut seen = vec![false; count as usize];
                for place in 0..count {
                    let number = turns.at(place);
                    assert!(
                        !std::mem::replace(&mut seen[number as usize], true),
                        "{number} of {count} comes twice"
                    );
                    assert_eq!(turns.place(number), place, "of {count}");
                }
            }
        }
    }

    #[test]
    fn a_random_order_keeps_no_neighbours() {
        let turns = Turns::new(Order::Random, 1_000_000, 0);
        let near = (0..1000).filter(|place| turns.at(*place).abs_diff(turns.at(place + 1)) < 1000).count();
        assert!(near < 10, "{near} of 1000 neighbours lie close together");
    }

    #[test]
    fn each_seed_has_an_order_of_its_own() {
        let order = |seed| {
            let turns = Turns::new(Order::Random, 1000, seed);
            (0..1000).map(move |place| turns.at(place))
        };
        for other in [2, 3, 1 << 40] {
            let same = order(1).zip(order(other)).filter(|(one, other)| one == other).count();
            assert!(same < 20, "{same} of 1000 stand where they stood, by seed {other}");
        }
    }
}
