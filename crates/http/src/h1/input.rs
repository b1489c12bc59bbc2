//! The source that a decoder reads from: a buffer that is refilled, or a slice.

use crate::Buffer;

/// Bytes that arrived and have not been taken yet.
///
/// A [`Buffer`] keeps the rest for the next call. A `&[u8]` is decoded in place, without a copy. The decoder shortens
/// the slice by the bytes that it took; the caller passes the rest again, followed by new bytes. The rest never exceeds
/// the decoder's [`super::Limits`], so a slice is never full.
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

    /// Whether no byte can be added. The decoder then refuses a message that needs more.
    fn is_full(&self) -> bool;
}

impl Input for Buffer {
    #[inline]
    fn data(&self) -> &[u8] {
        self.data()
    }

    #[inline]
    fn take(&mut self, count: usize) -> &[u8] {
        self.take(count)
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.consume(count);
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.is_full()
    }
}

impl Input for &[u8] {
    #[inline]
    fn data(&self) -> &[u8] {
        self
    }

    #[inline]
    fn take(&mut self, count: usize) -> &[u8] {
        let (taken, rest) = self.split_at(count.min(self.len()));
        *self = rest;
        taken
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.take(count);
    }

    #[inline]
    fn is_full(&self) -> bool {
        false
    }
}
