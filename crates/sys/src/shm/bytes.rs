//! Copies into and out of memory that another process may write at any time.
//!
//! They are made of relaxed atomic words. So a peer that breaks the protocol gives garbled bytes and no undefined behaviour,
//! which plain copies that race would be.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// Copies `from` to shared memory.
///
/// # Safety
/// `to` points to as many bytes that stay mapped for the call, and that this process accesses through atomics alone.
#[inline]
#[allow(unsafe_code)]
pub(super) unsafe fn copy_in(to: *mut u8, from: &[u8]) {
    let (first, rest) = from.split_at(unaligned(to).min(from.len()));
    let words = rest.chunks_exact(WORD_BYTES);
    let last = words.remainder();
    // SAFETY: all three parts lie within the bytes that the caller vouches for. The words begin after the unaligned first
    // bytes, so they are aligned. An atomic may be accessed through any valid, aligned pointer.
    unsafe {
        copy_bytes_in(to, first);
        let mut to = to.add(first.len());
        for word in words {
            let word = u64::from_ne_bytes(word.try_into().expect("the chunks are words"));
            AtomicU64::from_ptr(to.cast()).store(word, Relaxed);
            to = to.add(WORD_BYTES);
        }
        copy_bytes_in(to, last);
    }
}

/// Copies out of shared memory.
///
/// # Safety
/// As for [`copy_in`]: `from` points to as many bytes as `to` has.
#[inline]
#[allow(unsafe_code)]
pub(super) unsafe fn copy_out(from: *mut u8, to: &mut [u8]) {
    let first = unaligned(from).min(to.len());
    let (first, rest) = to.split_at_mut(first);
    let first_bytes = first.len();
    let mut words = rest.chunks_exact_mut(WORD_BYTES);
    // SAFETY: as in `copy_in`.
    unsafe {
        copy_bytes_out(from, first);
        let mut from = from.add(first_bytes);
        for word in &mut words {
            word.copy_from_slice(&AtomicU64::from_ptr(from.cast()).load(Relaxed).to_ne_bytes());
            from = from.add(WORD_BYTES);
        }
        copy_bytes_out(from, words.into_remainder());
    }
}

/// # Safety
/// As for [`copy_in`].
#[inline]
#[allow(unsafe_code)]
unsafe fn copy_bytes_in(to: *mut u8, from: &[u8]) {
    for (at, byte) in from.iter().enumerate() {
        // SAFETY: `at` is within the bytes that the caller vouches for.
        unsafe { AtomicU8::from_ptr(to.add(at)).store(*byte, Relaxed) };
    }
}

/// # Safety
/// As for [`copy_out`].
#[inline]
#[allow(unsafe_code)]
unsafe fn copy_bytes_out(from: *mut u8, to: &mut [u8]) {
    for (at, byte) in to.iter_mut().enumerate() {
        // SAFETY: `at` is within the bytes that the caller vouches for.
        *byte = unsafe { AtomicU8::from_ptr(from.add(at)).load(Relaxed) };
    }
}

/// Bytes before the next aligned word.
#[inline]
fn unaligned(pointer: *mut u8) -> usize {
    pointer.addr().wrapping_neg() % WORD_BYTES
}

const WORD_BYTES: usize = size_of::<u64>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn every_offset_and_length_is_copied() {
        let memory: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let base = memory.as_ptr().cast_mut().cast::<u8>();
        for offset in 0..16 {
            for length in 0..40 {
                memory.iter().for_each(|word| word.store(0, Relaxed));
                let bytes: Vec<u8> = (1..=length).collect();
                let mut back = vec![0; bytes.len()];
                let mut all = [0; 64];
                // SAFETY: there are 64 bytes of atomics, and at most 56 are used.
                unsafe {
                    copy_in(base.add(offset), &bytes);
                    copy_out(base.add(offset), &mut back);
                    copy_out(base, &mut all);
                }
                assert_eq!(back, bytes);
                let outside = all[..offset].iter().chain(&all[offset + bytes.len()..]);
                assert!(outside.into_iter().all(|byte| *byte == 0), "{offset} {length}");
            }
        }
    }
}
