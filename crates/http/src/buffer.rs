//! A buffer of received bytes: filled at its end, consumed from its start, recycled by the thread.
//!
//! Its memory is zeroed once, when it is first allocated, so that a socket can be read into [`Buffer::spare`] without
//! `unsafe`. A dropped buffer returns its memory to a bounded free list of the thread, and [`Buffer::new`] takes it
//! from there. So it costs almost nothing to hold a buffer only while there is something to read.

use std::cell::RefCell;
use std::fmt;

/// Bytes that arrived and have not been taken yet.
///
/// Default size 16 KiB ([`Buffer::DEFAULT_BYTES`]). A full buffer grows by doubling, up to 64 KiB
/// ([`Buffer::DEFAULT_LIMIT_BYTES`]) or the limit of [`Buffer::with_limit`].
pub struct Buffer {
    /// Always fully initialised: the length is the size of the buffer, not how much is filled.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    limit: usize,
}

impl Buffer {
    /// The size of a new buffer: a whole request head of the default limit fits.
    pub const DEFAULT_BYTES: usize = 16 * 1024;

    /// How far a buffer grows by default.
    pub const DEFAULT_LIMIT_BYTES: usize = 64 * 1024;

    /// Takes a buffer from the thread's free list, or allocates one of 16 KiB.
    pub fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT_BYTES)
    }

    /// Like [`Buffer::new`], but grows up to `limit_bytes` (at least 16 KiB).
    ///
    /// The limit must be larger than `HeadLimits::bytes` of the decoder that it feeds, or a head may never
    /// fit; the decoder then refuses the head as too large.
    pub fn with_limit(limit_bytes: usize) -> Self {
        let bytes = SPARE
            .try_with(|spare| spare.borrow_mut().pop())
            .ok()
            .flatten()
            .unwrap_or_else(|| vec![0; Self::DEFAULT_BYTES]);
        Self { bytes, start: 0, end: 0, limit: limit_bytes.max(Self::DEFAULT_BYTES) }
    }

    /// The room to read into; empty only when the buffer is full and at its limit ([`Buffer::is_full`]).
    ///
    /// Moves the bytes to the front, or grows, when the room at the end is small.
    #[inline]
    pub fn spare(&mut self) -> &mut [u8] {
        let room = self.bytes.len() - self.end;
        if room == 0 || self.start > 0 && room < self.bytes.len() / 2 {
            self.make_room();
        }
        &mut self.bytes[self.end..]
    }

    #[cold]
    fn make_room(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() {
            let grown = self.bytes.len().saturating_mul(2).min(self.limit);
            if grown > self.end {
                let full = std::mem::replace(&mut self.bytes, vec![0; grown]);
                self.bytes[..self.end].copy_from_slice(&full);
            }
        }
    }

    /// Says that `count` bytes were written to the front of [`Buffer::spare`].
    ///
    /// # Panics
    ///
    /// If `count` is more than the room that `spare` gave, which is a mistake of the caller.
    pub fn filled(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.end, "filled({count}) is more than Buffer::spare gave");
        self.end += count;
    }

    /// Appends `bytes`, as far as there is room, and returns how many fitted.
    pub fn fill_from(&mut self, bytes: &[u8]) -> usize {
        let mut copied = 0;
        loop {
            let room = self.spare();
            let count = room.len().min(bytes.len() - copied);
            if count == 0 {
                return copied;
            }
            room[..count].copy_from_slice(&bytes[copied..copied + count]);
            self.filled(count);
            copied += count;
        }
    }

    /// The bytes that arrived and have not been taken.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How many bytes [`Buffer::data`] holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether nothing is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether there is no room left and no growing either.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Takes the first `count` bytes (fewer if fewer are held).
    #[inline]
    pub fn take(&mut self, count: usize) -> &[u8] {
        let start = self.start;
        let count = count.min(self.end - start);
        self.consume(count);
        &self.bytes[start..start + count]
    }

    /// Drops the first `count` bytes (fewer if fewer are held).
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.start += count.min(self.end - self.start);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// How much memory it has, in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Drops all bytes.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A grown buffer is freed: one large head must not make the free list large for ever.
        if self.bytes.len() != Self::DEFAULT_BYTES {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        // Fails only while the thread ends; the memory is then simply freed.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_BUFFERS_MAX {
                spare.push(bytes);
            }
        });
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("limit", &self.limit)
            .finish()
    }
}

/// 64 buffers of 16 KiB: at most 1 MiB a thread stays allocated for the next burst.
const SPARE_BUFFERS_MAX: usize = 64;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_across_compaction() {
        let mut buffer = Buffer::new();
        let mut next_in = 0u8;
        let mut next_out = 0u8;
        for round in 0..200 {
            let room = buffer.spare();
            let count = room.len().min(700 + round);
            for byte in &mut room[..count] {
                *byte = next_in;
                next_in = next_in.wrapping_add(1);
            }
            buffer.filled(count);
            for &byte in buffer.take(650 + round) {
                assert_eq!(byte, next_out);
                next_out = next_out.wrapping_add(1);
            }
        }
    }

    #[test]
    fn grows_to_its_limit_and_no_further() {
        let mut buffer = Buffer::with_limit(40_000);
        assert_eq!(buffer.fill_from(&[7; 50_000]), 40_000);
        assert!(buffer.is_full());
        assert!(buffer.spare().is_empty());
        assert_eq!(buffer.take(usize::MAX).len(), 40_000);
        assert!(buffer.is_empty() && !buffer.is_full());
    }

    #[test]
    fn dropped_memory_is_used_again() {
        let buffer = Buffer::new();
        let address = buffer.bytes.as_ptr();
        drop(buffer);
        assert_eq!(Buffer::new().bytes.as_ptr(), address);
    }

    #[test]
    #[should_panic(expected = "more than Buffer::spare gave")]
    fn filling_more_than_the_room_is_a_mistake_of_the_caller() {
        Buffer::new().filled(Buffer::DEFAULT_BYTES + 1);
    }
}
