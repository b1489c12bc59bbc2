//! The ones-complement sum of the Internet checksum (RFC 1071), in the widest registers that the processor has.
//!
//! A sum is a `u64` that stands for the data modulo 2^16 - 1, and any value congruent to it is as good. Words are
//! little-endian, and the last byte of an odd length has a zero behind it. What the processor can do is found out once;
//! from then on a call costs one comparison more than the sum.
//!
//! | way | needs | bytes a step | the end of the data |
//! | --- | --- | --- | --- |
//! | AVX-512 | F, BW, BMI2 | 64 | a masked load, so up to 64 bytes are one step |
//! | AVX2 | AVX2, 32 bytes | 32 | a load that reaches back, with a mask over what was summed already |
//! | plain | nothing | 32 | a load that reaches back, what was summed already shifted out |
//!
//! SSE2 is not among them: without carries, it takes a third more instructions than plain for 200 bytes.
//!
//! A vector holds lanes of 64 bits. One vector collects whole lanes and may run over; another collects their upper halves
//! and cannot. Together they give the sum of the lower halves to the last bit, and that sum cannot run over either. So a
//! step is one load, one shift and two additions, without a mask for the lower halves.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Adds `bytes` to `initial`.
///
/// ```
/// use anywire_sys::checksum::ones_complement_sum;
///
/// // The example of RFC 1071 section 3, whose sum is 0xddf2 in wire order.
/// let sum = ones_complement_sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0);
/// assert_eq!(sum % 0xffff, 0xf2dd);
/// ```
#[inline]
pub fn ones_complement_sum(bytes: &[u8], initial: u64) -> u64 {
    if bytes.is_empty() {
        return initial;
    }
    #[cfg(target_arch = "x86_64")]
    {
        let (start, to, len) = (bytes.as_ptr(), std::ptr::null_mut(), bytes.len());
        match BEST.load(Relaxed) {
            // SAFETY: `BEST` says so only on a processor with AVX-512; without a copy there need be no target.
            AVX_512 => return unsafe { avx_512::pass::<false>(start, to, len, initial) },
            // SAFETY: the same for AVX2, and there are 32 bytes.
            AVX2 if len >= 32 => return unsafe { avx2::pass::<false>(start, to, len, initial) },
            _ => {}
        }
    }
    other_sum(bytes, initial)
}

/// Copies `source` to `target`, which is as long, and gives the sum of it: one pass for both.
///
/// # Panics
///
/// If the lengths differ.
///
/// ```
/// use anywire_sys::checksum::{copy_and_sum, ones_complement_sum};
///
/// let mut target = [0; 3];
/// let sum = copy_and_sum(&[1, 2, 3], &mut target);
/// assert_eq!(target, [1, 2, 3]);
/// assert_eq!(sum % 0xffff, ones_complement_sum(&target, 0) % 0xffff);
/// ```
#[inline]
pub fn copy_and_sum(source: &[u8], target: &mut [u8]) -> u64 {
    assert!(source.len() == target.len(), "a copy is as long as what is copied");
    if source.is_empty() {
        return 0;
    }
    #[cfg(target_arch = "x86_64")]
    {
        let (start, to, len) = (source.as_ptr(), target.as_mut_ptr(), source.len());
        match BEST.load(Relaxed) {
            // SAFETY: `BEST` says so only on a processor with AVX-512; the target is as long, and borrowed uniquely.
            AVX_512 => return unsafe { avx_512::pass::<true>(start, to, len, 0) },
            // SAFETY: the same for AVX2, and there are 32 bytes.
            AVX2 if len >= 32 => return unsafe { avx2::pass::<true>(start, to, len, 0) },
            _ => {}
        }
    }
    other_copy(source, target)
}

#[inline(never)]
fn other_sum(bytes: &[u8], initial: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let (start, to, len) = (bytes.as_ptr(), std::ptr::null_mut(), bytes.len());
        match best() {
            // SAFETY: the processor has AVX-512, and without a copy there need be no target.
            AVX_512 => return unsafe { avx_512::pass::<false>(start, to, len, initial) },
            // SAFETY: the processor has AVX2, there are 32 bytes, and without a copy there need be no target.
            AVX2 if len >= 32 => return unsafe { avx2::pass::<false>(start, to, len, initial) },
            _ => {}
        }
    }
    plain(bytes, initial)
}

/// The lengths are equal: the caller has compared them.
#[inline(never)]
fn other_copy(source: &[u8], target: &mut [u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let (start, to, len) = (source.as_ptr(), target.as_mut_ptr(), source.len().min(target.len()));
        match best() {
            // SAFETY: the processor has AVX-512; the target is as long, and borrowed uniquely.
            AVX_512 => return unsafe { avx_512::pass::<true>(start, to, len, 0) },
            // SAFETY: the processor has AVX2, and there are 32 bytes; the target is as long, and borrowed uniquely.
            AVX2 if len >= 32 => return unsafe { avx2::pass::<true>(start, to, len, 0) },
            _ => {}
        }
    }
    target.copy_from_slice(source);
    plain(source, 0)
}

/// The best way that this processor knows, once it was asked for: several threads may find out the same.
#[cfg(target_arch = "x86_64")]
static BEST: AtomicU8 = AtomicU8::new(UNKNOWN);
#[cfg(target_arch = "x86_64")]
const UNKNOWN: u8 = 0;
#[cfg(target_arch = "x86_64")]
const NEITHER: u8 = 1;
#[cfg(target_arch = "x86_64")]
const AVX2: u8 = 2;
#[cfg(target_arch = "x86_64")]
const AVX_512: u8 = 3;

#[cfg(target_arch = "x86_64")]
#[inline]
fn best() -> u8 {
    match BEST.load(Relaxed) {
        UNKNOWN => find_out(),
        known => known,
    }
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn find_out() -> u8 {
    let has_avx_512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("bmi2");
    let best = match is_x86_feature_detected!("avx2") {
        _ if has_avx_512 => AVX_512,
        true => AVX2,
        false => NEITHER,
    };
    BEST.store(best, Relaxed);
    best
}

/// The sum of two sums, with the carry added at the bottom.
#[inline(always)]
const fn add(first: u64, second: u64) -> u64 {
    let (sum, carry) = first.overflowing_add(second);
    sum + carry as u64
}

/// Longer data goes through a pass in parts: far from the 2^34 bytes whose lanes would not fit one. Tests come by it
/// sooner.
#[cfg(target_arch = "x86_64")]
const PART_BYTES: usize = if cfg!(test) { 1 << 11 } else { 1 << 30 };

#[cfg(target_arch = "x86_64")]
type Pass = unsafe fn(*const u8, *mut u8, usize, u64) -> u64;

/// # Safety
/// As for `pass`, with a target that may be null.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
unsafe fn in_parts(source: *const u8, target: *mut u8, len: usize, initial: u64, pass: Pass) -> u64 {
    let (mut sum, mut at) = (initial, 0);
    while at < len {
        // Halves, so that the last part is no short one; of an even length, so that their sums add up.
        let part = if len - at > PART_BYTES { PART_BYTES / 2 } else { len - at };
        let to = if target.is_null() { target } else { target.wrapping_add(at) };
        // SAFETY: the part lies in the data, and in the target if there is one.
        sum = unsafe { pass(source.add(at), to, part, sum) };
        at += part;
    }
    sum
}

#[cfg(target_arch = "x86_64")]
mod avx_512 {
    #[allow(clippy::wildcard_imports, reason = "a dozen names with their own prefix")]
    use std::arch::x86_64::*;

    use super::{PART_BYTES, add, in_parts};

    /// A pass over the data. Plain pointers keep the compiler from making the copy a pass of its own.
    ///
    /// # Safety
    /// There are `len` bytes at `source`, one at least; if `COPY`, as many can be written at `target`, and the two do not
    /// overlap. The processor has the features enabled here.
    #[target_feature(enable = "avx512f,avx512bw,bmi2")]
    pub(super) unsafe fn pass<const COPY: bool>(
        source: *const u8,
        target: *mut u8,
        len: usize,
        initial: u64,
    ) -> u64 {
        // The last 1 to 64 bytes.
        let last = (len - 1) & !63;
        let mask = u64::MAX >> (len.wrapping_neg() & 63);
        // SAFETY: masked bytes are neither read nor written; `last` is less than `len`.
        let tail = unsafe {
            let tail = _mm512_maskz_loadu_epi8(mask, source.add(last).cast());
            if COPY {
                _mm512_mask_storeu_epi8(target.add(last).cast(), mask, tail);
            }
            tail
        };
        let mut words = tail;
        let mut upper = _mm512_srli_epi64::<32>(tail);
        let mut step = |at: usize| {
            // SAFETY: `at` is a multiple of 64 below `last`, so there are 64 bytes.
            let vector = unsafe { _mm512_loadu_si512(source.add(at).cast()) };
            if COPY {
                // SAFETY: as above.
                unsafe { _mm512_storeu_si512(target.add(at).cast(), vector) };
            }
            words = _mm512_add_epi64(words, vector);
            upper = _mm512_add_epi64(upper, _mm512_srli_epi64::<32>(vector));
        };
        // Small segments take no loop.
        if len > 64 {
            step(0);
            if len > 128 {
                step(64);
                if len > 192 {
                    step(128);
                    if last > 192 {
                        if len > PART_BYTES {
                            // SAFETY: the caller's word is passed on.
                            return unsafe { in_parts(source, target, len, initial, pass::<COPY>) };
                        }
                        for at in (192..last).step_by(64) {
                            step(at);
                        }
                    }
                }
            }
        }
        let lower = _mm512_sub_epi64(words, _mm512_slli_epi64::<32>(upper));
        let total = _mm512_reduce_add_epi64(_mm512_add_epi64(lower, upper));
        add(initial, total.cast_unsigned())
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    #[allow(clippy::wildcard_imports, reason = "a dozen names with their own prefix")]
    use std::arch::x86_64::*;

    use super::{PART_BYTES, add, in_parts};

    /// A pass over the data, as with AVX-512.
    ///
    /// # Safety
    /// There are `len` bytes at `source`, 32 at least; if `COPY`, as many can be written at `target`, and the two do
    /// not overlap. The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn pass<const COPY: bool>(
        source: *const u8,
        target: *mut u8,
        len: usize,
        initial: u64,
    ) -> u64 {
        if len > PART_BYTES {
            // SAFETY: the caller's word is passed on.
            return unsafe { in_parts(source, target, len, initial, pass::<COPY>) };
        }
        let even = len & !1;
        // SAFETY: `even` is 32 at least, so all of this ends where the data and the mask end, or before.
        let (tail, last) = unsafe {
            let mask = _mm256_loadu_si256(MASK.as_ptr().add(even % 32).cast());
            let tail = _mm256_and_si256(_mm256_loadu_si256(source.add(even - 32).cast()), mask);
            if COPY {
                let tail = _mm256_loadu_si256(source.add(len - 32).cast());
                _mm256_storeu_si256(target.add(len - 32).cast(), tail);
            }
            (tail, u64::from(*source.add(len - 1)))
        };
        let odd = last & (len as u64 & 1).wrapping_neg();
        let mut words = tail;
        let mut upper = _mm256_srli_epi64::<32>(tail);
        let mut step = |at: usize| {
            // SAFETY: there are 32 bytes behind `at` in each of the steps below.
            let vector = unsafe { _mm256_loadu_si256(source.add(at).cast()) };
            if COPY {
                // SAFETY: as above.
                unsafe { _mm256_storeu_si256(target.add(at).cast(), vector) };
            }
            words = _mm256_add_epi64(words, vector);
            upper = _mm256_add_epi64(upper, _mm256_srli_epi64::<32>(vector));
        };
        let mut at = 0;
        while at + 128 <= len {
            step(at);
            step(at + 32);
            step(at + 64);
            step(at + 96);
            at += 128;
        }
        if len & 64 != 0 {
            step(at);
            step(at + 32);
            at += 64;
        }
        if len & 32 != 0 {
            step(at);
        }
        let lower = _mm256_sub_epi64(words, _mm256_slli_epi64::<32>(upper));
        let lanes = _mm256_add_epi64(lower, upper);
        let lanes = _mm_add_epi64(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
        let total = _mm_cvtsi128_si64(lanes) + _mm_extract_epi64::<1>(lanes);
        add(initial, total.cast_unsigned() + odd)
    }

    /// The 32 bytes from the n-th on end in n ones.
    static MASK: [u8; 64] = {
        let mut mask = [0; 64];
        let mut at = 32;
        while at < 64 {
            mask[at] = 0xff;
            at += 1;
        }
        mask
    };
}

/// A number of 256 bits and its carries: an add with carry for eight bytes, and no chain through all of them.
fn plain(bytes: &[u8], initial: u64) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let ([mut a, mut b, mut c, mut d], mut carries) = ([0u64; 4], 0);
    for block in blocks {
        let words = block.as_chunks::<8>().0;
        let [e, f, g, h] = std::array::from_fn(|i| u64::from_le_bytes(words[i]));
        let mut carry = false;
        (a, carry) = a.carrying_add(e, carry);
        (b, carry) = b.carrying_add(f, carry);
        (c, carry) = c.carrying_add(g, carry);
        (d, carry) = d.carrying_add(h, carry);
        carries += u64::from(carry);
    }
    let sum = [a, b, c, d, carries].into_iter().fold(initial, add);
    let (words, rest) = rest.as_chunks::<8>();
    let sum = words.iter().fold(sum, |sum, eight| add(sum, u64::from_le_bytes(*eight)));
    let last = match bytes.last_chunk() {
        // The last eight bytes overlap bytes that were summed already; those are shifted out. Two shifts: if the length is
        // a multiple of eight, all 64 bits must go, which is too many for one shift.
        Some(eight) => u64::from_le_bytes(*eight) >> 1 >> (63 - 8 * rest.len()),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    add(sum, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sum = fn(&[u8], u64) -> u64;
    type Copy = fn(&[u8], &mut [u8]) -> u64;

    /// Every way that this processor knows: its name, the length it starts at, how it sums, how it copies.
    fn ways() -> Vec<(&'static str, usize, Sum, Copy)> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "only x86-64 has more"))]
        let mut ways: Vec<(_, _, Sum, Copy)> = vec![
            ("the best", 0, ones_complement_sum, copy_and_sum),
            ("the best the long way", 1, other_sum, other_copy),
            ("plain", 0, plain, |source, target| {
                target.copy_from_slice(source);
                plain(source, 0)
            }),
        ];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2; who calls these keeps to 32 bytes, and to one length for both.
            ways.push((
                "AVX2",
                32,
                |bytes, initial| unsafe {
                    avx2::pass::<false>(bytes.as_ptr(), std::ptr::null_mut(), bytes.len(), initial)
                },
                |source, target| unsafe {
                    avx2::pass::<true>(source.as_ptr(), target.as_mut_ptr(), source.len(), 0)
                },
            ));
        }
        ways
    }

    /// Bytes as an xorshift makes them.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    /// RFC 1071 section 4.1, except for the order of the bytes, modulo 2^16 - 1.
    fn by_the_rfc(bytes: &[u8]) -> u64 {
        let words =
            bytes.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 8);
        words.sum::<u64>() % 0xffff
    }

    #[test]
    fn all_ways_agree_for_every_length_and_alignment() {
        const LEN_MAX: usize = 3000;
        let bytes = noise(LEN_MAX + 64);
        let mut target = vec![0; LEN_MAX + 66];
        for len in 0..=LEN_MAX {
            // Each length at every alignment in 64 would take minutes; neighbours differ by a step that meets all.
            for align in [0, len * 7 % 64, len * 11 % 64] {
                let source = &bytes[align..align + len];
                let expected = by_the_rfc(source);
                assert_eq!(ones_complement_sum(source, 0) % 0xffff, expected, "{len} at {align}");
                for (name, _, sum, copy) in ways().into_iter().filter(|(_, from, ..)| len >= *from) {
                    let initial = u64::MAX - len as u64;
                    let with_initial = (expected + initial % 0xffff) % 0xffff;
                    assert_eq!(sum(source, initial) % 0xffff, with_initial, "{name} sums {len} at {align}");
                    let at = 1 + (align + len) % 64;
                    target.fill(0xa5);
                    let copied = copy(source, &mut target[at..at + len]);
                    assert_eq!(copied % 0xffff, expected, "{name} copies {len} at {align}");
                    assert!(target[at..at + len] == *source, "{name} copies {len} from {align} to {at}");
                    let mut around = target[..at].iter().chain(&target[at + len..]);
                    assert!(around.all(|&byte| byte == 0xa5), "{name} writes beyond {len} at {at}");
                }
            }
        }
    }

    #[test]
    fn every_alignment_is_fine_for_small_segments() {
        let bytes = noise(300 + 64);
        let mut target = vec![0; 300 + 64];
        for len in 0..=300 {
            for align in 0..64 {
                let source = &bytes[align..align + len];
                let expected = by_the_rfc(source);
                assert_eq!(ones_complement_sum(source, 0) % 0xffff, expected);
                let target = &mut target[63 - align..][..len];
                assert_eq!(copy_and_sum(source, target) % 0xffff, expected);
                assert_eq!(source, target);
            }
        }
    }

    /// The greatest sums there are, and what tells 0 from 2^16 - 1: data is zero only if all of it is.
    #[test]
    fn ones_run_over_nowhere_and_zeros_stay_zero() {
        let (ones, zeros) = (vec![0xff; 1 << 20], vec![0; 1 << 20]);
        for len in (1..200).chain([65_535, 65_536, 1 << 20]) {
            for (name, _, sum, _) in ways().into_iter().filter(|(_, from, ..)| len >= *from) {
                let expected = if len % 2 == 0 { 0 } else { 0xff };
                assert_eq!(sum(&ones[..len], u64::MAX) % 0xffff, expected, "{name}, {len}");
                assert_ne!(sum(&ones[..len], 0), 0, "{name}, {len}");
                assert_eq!(sum(&zeros[..len], 0), 0, "{name}, {len}");
                assert_ne!(sum(&zeros[..len], u64::MAX), 0, "{name}, {len}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a copy is as long as what is copied")]
    fn a_copy_of_another_length_is_refused() {
        copy_and_sum(&[1, 2, 3], &mut [0; 4]);
    }
}
