//! Memory that two threads pass to and fro, in words: the one place where a [`ring`](crate::ring) touches it.
//!
//! Apart from the ring's positions, so that the ring's model test can put memory in its place that watches who touches what.

use std::cell::UnsafeCell;

/// Words of zeros, whose owners agree on who may touch which.
pub(crate) struct Words(Box<[UnsafeCell<u32>]>);

// SAFETY: all access is `unsafe`, and callers promise that no other thread touches the same words meanwhile.
#[allow(unsafe_code)]
unsafe impl Sync for Words {}

impl Words {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    /// # Safety
    /// No other thread touches this word, unless it happens before or after this call.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn write_word(&self, at: usize, word: u32) {
        // SAFETY: as the caller promises.
        unsafe { *self.0[at].get() = word }
    }

    /// Copies bytes to the words from `at` on.
    ///
    /// # Safety
    /// As for [`write_word`](Self::write_word), for all words that the bytes begin; and the bytes are none of these words.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn write_bytes(&self, at: usize, bytes: &[u8]) {
        let words = &self.0[at..at + bytes.len().div_ceil(WORD_BYTES)];
        // SAFETY: the slice has room for `bytes`, and the rest is as the caller promises. `UnsafeCell` allows the writing
        // through a shared reference, and a `u32` may have any bytes.
        unsafe {
            let room = UnsafeCell::raw_get(words.as_ptr()).cast::<u8>();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
        }
    }

    /// # Safety
    /// No other thread writes this word, unless that happens before or after this call.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn word(&self, at: usize) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { *self.0[at].get() }
    }

    /// The first `length` bytes of the words from `at` on.
    ///
    /// # Safety
    /// As for [`word`](Self::word), for all these words and as long as the slice is used.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn bytes(&self, at: usize, length: usize) -> &[u8] {
        let words = &self.0[at..at + length.div_ceil(WORD_BYTES)];
        // SAFETY: the words hold `length` bytes, and the rest is as the caller promises.
        unsafe { std::slice::from_raw_parts(UnsafeCell::raw_get(words.as_ptr()).cast::<u8>(), length) }
    }
}

pub(crate) const WORD_BYTES: usize = size_of::<u32>();
