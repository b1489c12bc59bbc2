//! Compares ten tags with one at once: the first step of a lookup in a bucket of a hash table.
//!
//! Ten, because ten tags of 16 bits, ten values of 32 and four bytes more fill a cache line. All are compared at once
//! with SSE2, which every x86-64 has; for other processors the compiler chooses.

#![allow(unsafe_code)]

/// A bit for each of the tags that is `tag`: bit `i` for `tags[i]`.
///
/// ```
/// use anywire_sys::tags::equal;
///
/// assert_eq!(equal(&[7, 1, 7, 2, 3, 4, 5, 6, 8, 7], 7), 0b10_0000_0101);
/// ```
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn equal(tags: &[u16; 10], tag: u16) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_set1_epi16,
    };

    let last = i32::from(tags[8]) | i32::from(tags[9]) << 16;
    // SAFETY: SSE2 is part of every x86-64, and the 16 bytes loaded are the first eight of the ten tags; that load
    // takes any alignment.
    let bits = unsafe {
        let wanted = _mm_set1_epi16(tag.cast_signed());
        let first = _mm_cmpeq_epi16(_mm_loadu_si128(tags.as_ptr().cast()), wanted);
        let last = _mm_cmpeq_epi16(_mm_cvtsi32_si128(last), wanted);
        _mm_movemask_epi8(_mm_packs_epi16(first, last))
    };
    // The places behind the tenth hold zeros, which a tag may be.
    bits.cast_unsigned() & 0x3ff
}

/// A bit for each of the tags that is `tag`: bit `i` for `tags[i]`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn equal(tags: &[u16; 10], tag: u16) -> u32 {
    tags.iter().enumerate().fold(0, |bits, (place, &other)| bits | u32::from(other == tag) << place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_equal_tags_is_found_for_tags_of_every_kind() {
        for tag in [0, 1, 0x7fff, 0x8000, 0x00ff, 0xff00, 0xffff] {
            // Others that differ in one bit, the sign's and the lowest byte's among them, or in all.
            for difference in [1, 0x80, 0x100, 0x8000, 0xffff] {
                for pattern in 0..1 << 10 {
                    let tags =
                        std::array::from_fn(|i| if pattern >> i & 1 == 1 { tag } else { tag ^ difference });
                    assert_eq!(equal(&tags, tag), pattern, "{tag:#x} among {tags:x?}");
                }
            }
        }
    }
}
