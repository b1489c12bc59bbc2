//! What a decoder reads from: a buffer that is filled again and again, or bytes where they lie.

use crate::Buffer;

/// Bytes that arrived and have not been taken yet.
///
/// A [`Buffer`] keeps what is left for the next call. A `&[u8]` is decoded where it lies, without a copy; it gets
/// shorter by what was taken, and who gave it keeps what is left and gives it again, in front of what follows. That is
/// never more than the decoder's [`super::Limits`] let wait: a slice is never full.
///
/// ```
/// use anywire_http::h1::{Limits, RequestDecoder};
///
/// let mut input = &b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET "[..];
/// let mut decoder = RequestDecoder::new(Limits::default());
/// assert!(decoder.decode(&mut input)?.is_some());
/// assert!(decoder.decode(&mut input)?.is_none());
/// assert_eq!(input, b"GET ");
/// # Ok::<(), anywire_http::h1::DecodeError>(())
/// ```
pub trait Input {
    /// All of them.
    fn data(&self) -> &[u8];

    /// Takes the first `count` bytes (fewer if there are fewer).
    fn take(&mut self, count: usize) -> &[u8];

    /// Drops the first `count` bytes (fewer if there are fewer).
    fn consume(&mut self, count: usize);

    /// Whether no more can be added: a message that needs more is refused.
    fn is_full(&self) -> bool;
}

impl Input for Buffer {
    #[inline(always)]
    fn data(&self) -> &[u8] {
        self.data()
    }

    #[inline(always)]
    fn take(&mut self, count: usize) -> &[u8] {
        self.take(count)
    }

    #[inline(always)]
    fn consume(&mut self, count: usize) {
        self.consume(count);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.is_full()
    }
}

impl Input for &[u8] {
    #[inline(always)]
    fn data(&self) -> &[u8] {
        self
    }

    #[inline(always)]
    fn take(&mut self, count: usize) -> &[u8] {
        let (taken, rest) = self.split_at(count.min(self.len()));
        *self = rest;
        taken
    }

    #[inline(always)]
    fn consume(&mut self, count: usize) {
        self.take(count);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        false
    }
}
