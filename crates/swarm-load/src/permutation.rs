//! The order in which connections send: a permutation that is computed place by place, so it needs no memory.

use crate::plan::Order;

/// An order of `0..count`: each number has one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    order: Order,
    count: u32,
    mask: u64,
    shift: u32,
    key: u64,
}

impl Permutation {
    /// Another seed gives another random order.
    pub(crate) fn new(order: Order, count: u32, seed: u64) -> Self {
        let bits = u64::from(count).next_power_of_two().trailing_zeros().max(2);
        let mask = (1 << bits) - 1;
        // The high bits of the product depend on all bits of the seed.
        let key = (seed.wrapping_mul(FACTORS[0]) >> 32) & mask;
        Self { order, count, mask, shift: bits.div_ceil(2), key }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// The number at a place.
    pub(crate) fn at(&self, place: u32) -> u32 {
        if self.order == Order::Sequential {
            return place;
        }
        // Mixes until the value is below the count. This walks along a cycle of the mix, so it stays one to one.
        let mut value = self.mix(place.into());
        while value >= u64::from(self.count) {
            value = self.mix(value);
        }
        value as u32
    }

    /// One to one on the numbers of these bits: odd factors, and shifts by half of the bits or more, can be undone.
    fn mix(&self, mut value: u64) -> u64 {
        value ^= self.key;
        value ^= value >> self.shift;
        for factor in FACTORS {
            value = value.wrapping_mul(factor) & self.mask;
            value ^= value >> self.shift;
        }
        value ^ self.key
    }
}

/// Odd factors with well-spread bits, from splitmix64.
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_place() {
        for count in [1, 2, 3, 7, 64, 1000, 4097, 100_000] {
            for (order, seed) in [(Order::Random, 0), (Order::Random, 7), (Order::Sequential, 7)] {
                let order = Permutation::new(order, count, seed);
                let mut seen = vec![false; count as usize];
                for place in 0..count {
                    let number = order.at(place);
                    assert!(
                        !std::mem::replace(&mut seen[number as usize], true),
                        "{number} of {count} comes twice"
                    );
                }
            }
        }
    }

    #[test]
    fn a_random_order_keeps_no_neighbours() {
        let order = Permutation::new(Order::Random, 1_000_000, 0);
        let near = (0..1000).filter(|place| order.at(*place).abs_diff(order.at(place + 1)) < 1000).count();
        assert!(near < 10, "{near} of 1000 neighbours lie close together");
    }

    #[test]
    fn each_seed_has_an_order_of_its_own() {
        let order = |seed| {
            let order = Permutation::new(Order::Random, 1000, seed);
            (0..1000).map(move |place| order.at(place))
        };
        for other in [2, 3, 1 << 40] {
            let same = order(1).zip(order(other)).filter(|(one, other)| one == other).count();
            assert!(same < 20, "{same} of 1000 stand where they stood, by seed {other}");
        }
    }
}
