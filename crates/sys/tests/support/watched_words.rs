//! The memory of a ring, in which loom fails if one thread writes a word while another one may touch it.

use loom::cell::UnsafeCell;

pub(crate) struct Words(Vec<UnsafeCell<[u8; WORD_BYTES]>>);

#[allow(unsafe_code, clippy::missing_safety_doc)]
impl Words {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| UnsafeCell::new([0; WORD_BYTES])).collect())
    }

    pub(crate) unsafe fn write_word(&self, at: usize, word: u32) {
        // SAFETY: loom checks what the caller promises.
        self.0[at].with_mut(|place| unsafe { *place = word.to_ne_bytes() });
    }

    pub(crate) unsafe fn write_bytes(&self, at: usize, bytes: &[u8]) {
        for (cell, part) in self.0[at..].iter().zip(bytes.chunks(WORD_BYTES)) {
            // SAFETY: loom checks what the caller promises.
            cell.with_mut(|place| unsafe { (&mut *place)[..part.len()].copy_from_slice(part) });
        }
    }

    pub(crate) unsafe fn word(&self, at: usize) -> u32 {
        // SAFETY: loom checks what the caller promises.
        self.0[at].with(|place| u32::from_ne_bytes(unsafe { *place }))
    }

    pub(crate) unsafe fn bytes(&self, at: usize, length: usize) -> &[u8] {
        let mut bytes = Vec::new();
        for cell in &self.0[at..at + length.div_ceil(WORD_BYTES)] {
            // SAFETY: loom checks what the caller promises.
            cell.with(|place| bytes.extend(unsafe { *place }));
        }
        bytes.truncate(length);
        // A few bytes for each order of steps, in a process that ends with this test.
        bytes.leak()
    }
}

pub(crate) const WORD_BYTES: usize = 4;
