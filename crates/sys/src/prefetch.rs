//! Asking the processor to fetch memory ahead of its use, so that many cache misses are in flight at once.
//!
//! A miss that a program waits for costs about 100 ns; a dozen that were asked for in advance cost 10 ns each. So code
//! that walks over much memory in a known order (the frames of a batch, the entries of a ready ring) prefetches the
//! places some steps ahead. Prefetching reads nothing, changes nothing and never faults; on processors other than
//! x86-64 and AArch64 it does nothing.
//!
//! Prefetch 8 to 32 places ahead, and only from addresses that are in the cache: the program would wait for an address
//! that was itself only just prefetched.

#![allow(unsafe_code)]

/// Bytes that the cache moves at once.
pub const LINE_BYTES: usize = 64;

/// The most lines of one value that are prefetched. Of a larger value the caller may need any part.
const LINES_MAX: usize = 4;

/// Asks for a value's cache lines, the first four at most.
///
/// ```
/// use anywire_sys::prefetch::prefetch;
///
/// let values: Vec<u64> = (0..1000).collect();
/// let order = [700, 3, 512, 9];
/// for index in order {
///     prefetch(&values[index]);
/// }
/// let sum: u64 = order.iter().map(|&index| values[index]).sum();
/// # assert_eq!(sum, 1224);
/// ```
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_at(value);
}

/// The same for a value that need not be there.
#[inline(always)]
pub(crate) fn prefetch_at<T>(value: *const T) {
    let start = value.cast::<u8>();
    line(start);
    let bytes = size_of::<T>();
    for next in 1..LINES_MAX {
        if next * LINE_BYTES < bytes {
            line(start.wrapping_add(next * LINE_BYTES));
        }
    }
    // A value that is aligned to its own size, up to a line, lies in one line. Any other may reach into a second one.
    if bytes <= LINE_BYTES && bytes > align_of::<T>() {
        line(start.wrapping_add(bytes - 1));
    }
}

/// The line that holds this address, into the first-level cache.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is a hint. It accesses nothing, takes any address, and is part of every x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

/// The line that holds this address, into the first-level cache.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn line(address: *const u8) {
    // SAFETY: the instruction is a hint. It accesses nothing, takes any address, and changes no flag.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn line(_address: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_size_may_be_asked_for_and_stay_as_they_are() {
        let (empty, byte, odd, large) = ((), 7_u8, [1_u8; 65], [9_u64; 100]);
        prefetch(&empty);
        prefetch(&byte);
        prefetch(&odd);
        prefetch(&large);
        assert!(byte == 7 && odd == [1; 65] && large == [9; 100]);
    }
}
