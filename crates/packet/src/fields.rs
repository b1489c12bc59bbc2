//! Fields of headers at their places, as numbers.

#[inline(always)]
pub(crate) fn two<const LEN: usize>(head: &[u8; LEN], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline(always)]
pub(crate) fn four<const LEN: usize>(head: &[u8; LEN], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

pub(crate) fn sixteen<const LEN: usize>(head: &[u8; LEN], at: usize) -> u128 {
    head[at..at + 16].iter().fold(0, |address, byte| address << 8 | u128::from(*byte))
}

#[inline(always)]
pub(crate) fn put<const LEN: usize, const N: usize>(head: &mut [u8; LEN], at: usize, bytes: [u8; N]) {
    head[at..at + N].copy_from_slice(&bytes);
}
