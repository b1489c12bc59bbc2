//! A random order of the numbers below a count that needs no memory: each place is computed, and so is its inverse.

/// A fixed random order of `0..count`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
}

impl Permutation {
    /// `count` is from 1 to 2^32.
    pub(super) fn new(count: u64) -> Self {
        let bits = count.next_power_of_two().trailing_zeros().max(2);
        Self { count, mask: (1 << bits) - 1, shift: bits.div_ceil(2) }
    }

    /// The number at a place.
    pub(super) fn at(&self, place: u64) -> u64 {
        // What falls outside is sent on until it falls inside, as a walk along a cycle: this keeps it one to one.
        let mut value = self.mix(place, FACTORS);
        while value >= self.count {
            value = self.mix(value, FACTORS);
        }
        value
    }

    /// The place of a number.
    pub(super) fn place(&self, number: u64) -> u64 {
        let [first, second] = FACTORS.map(inverse);
        let mut value = self.mix(number, [second, first]);
        while value >= self.count {
            value = self.mix(value, [second, first]);
        }
        value
    }

    /// One to one on the numbers of these bits. A shift by half of them or more undoes itself, so the whole is undone by
    /// the inverse factors in the other order.
    fn mix(&self, mut value: u64, factors: [u64; 2]) -> u64 {
        value ^= value >> self.shift;
        for factor in factors {
            value = value.wrapping_mul(factor) & self.mask;
            value ^= value >> self.shift;
        }
        value
    }
}

/// Odd, with bits well spread: those of splitmix64.
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// The number that undoes the multiplication by an odd one, modulo 2^64 and so modulo any smaller power of two.
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
            let order = Permutation::new(count);
            let mut seen = vec![false; count as usize];
            for place in 0..count {
                let number = order.at(place);
                assert!(
                    !std::mem::replace(&mut seen[number as usize], true),
                    "{number} of {count} comes twice"
                );
                assert_eq!(order.place(number), place, "of {count}");
            }
        }
    }

    #[test]
    fn the_order_is_no_order() {
        let order = Permutation::new(1_000_000);
        let near = (0..1000).filter(|place| order.at(*place).abs_diff(order.at(place + 1)) < 1000).count();
        assert!(near < 10, "{near} of 1000 neighbours lie close together");
    }
}
