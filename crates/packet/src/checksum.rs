//! The Internet checksum: a ones-complement sum of 16-bit words (RFC 1071).
//!
//! A running sum is a `u64` that stands for the data modulo 2^16 - 1: any value congruent to it will do until [`fold`].
//! Data is summed as little-endian words, because the sum of swapped words is the swapped sum (RFC 1071 2 B). So the folded
//! result of [`sum`] is in wire order when it is written with `to_le_bytes`, and is a number after [`u16::swap_bytes`].
//! Header fields that the caller has as numbers are added as numbers instead ([`header`]).

/// Adds bytes to a sum: little-endian words, the last byte of an odd length with a zero behind it.
pub use anywire_sys::checksum::ones_complement_sum as sum;

/// Copies bytes to a place that is as long, and gives the sum of them, in one pass.
pub use anywire_sys::checksum::copy_and_sum as sum_copy;

/// The sum in 16 bits.
#[inline]
pub const fn fold(sum: u64) -> u16 {
    // The half that holds high + low gets the carry of the half that holds low + high.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// Whether data that holds its own checksum is whole, `sum` being the sum of all of it.
#[inline]
pub const fn is_right(sum: u64) -> bool {
    // Congruent to zero, and not all zeros: no header is.
    sum.is_multiple_of(0xffff)
}

/// The checksum, as a number, of header fields added as numbers and of data summed by [`sum`].
#[inline]
pub const fn header(fields: u64, data: u64) -> u16 {
    !fold(fields + fold(data).swap_bytes() as u64)
}

/// The checksum after one 16-bit word of the data changed (RFC 1624 3, equation 3).
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// The sum of a few words.
#[inline]
pub fn sum_words<const N: usize>(words: [u64; N], initial: u64) -> u64 {
    let (mut sum, mut carry) = (initial, false);
    for word in words {
        (sum, carry) = sum.carrying_add(word, carry);
    }
    // What the last carry carries over comes around without another.
    let (sum, carry) = sum.overflowing_add(u64::from(carry));
    sum + u64::from(carry)
}

/// The sum of a few words and of a number that is no word of ones: then no carry is left over at the end.
#[inline(always)]
pub fn sum_words_and<const N: usize>(words: [u64; N], number: u32) -> u64 {
    let (mut sum, mut carry) = (0_u64, false);
    for word in words {
        (sum, carry) = sum.carrying_add(word, carry);
    }
    let (sum, carry) = sum.carrying_add(u64::from(number), carry);
    sum.wrapping_add(u64::from(carry))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 4.1, the plain way.
    fn plain(bytes: &[u8]) -> u16 {
        let mut total = 0u64;
        for pair in bytes.chunks(2) {
            total += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes, 0)).swap_bytes(), 0xddf2);
        assert_eq!(header(0, sum(&bytes, 0)), !0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn ones_all_the_way_do_not_overflow() {
        let bytes = [0xff; 70_000];
        assert_eq!(fold(sum(&bytes, u64::MAX)), 0xffff);
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0), 0);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_plain_way(bytes: Vec<u8>, lead in 0usize..9, initial: u32) {
            let whole = &bytes[lead.min(bytes.len())..];
            prop_assert_eq!(fold(sum(whole, 0)).swap_bytes(), plain(whole));
            let mut copy = vec![0; whole.len()];
            let copied = sum_copy(whole, &mut copy);
            prop_assert_eq!(fold(copied), fold(sum(whole, 0)));
            prop_assert_eq!(&copy, whole);
            let with = [&initial.to_le_bytes()[..], whole].concat();
            prop_assert_eq!(fold(sum(whole, u64::from(initial))), fold(sum(&with, 0)));
        }

        #[test]
        fn words_sum_as_their_bytes_do(words: [u64; 3], ones: [bool; 3], number: u32) {
            let words: [u64; 3] = std::array::from_fn(|i| if ones[i] { u64::MAX } else { words[i] });
            let bytes = words.into_iter().chain([number.into()]).flat_map(u64::to_le_bytes).collect::<Vec<_>>();
            prop_assert_eq!(fold(sum_words_and(words, number)).swap_bytes(), plain(&bytes));
            prop_assert_eq!(fold(sum_words(words, number.into())).swap_bytes(), plain(&bytes));
        }

        #[test]
        fn an_update_is_a_new_sum(
            words in prop::collection::vec(1u16.., 1..40),
            at: prop::sample::Index,
            new in 1u16..,
        ) {
            let at = at.index(words.len());
            let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
            let checksum = |words: &[u16]| !plain(&bytes(words));
            let mut changed = words.clone();
            changed[at] = new;
            prop_assert_eq!(update(checksum(&words), words[at], new), checksum(&changed));
        }
    }
}
