//! Memory that idle connections have left for others: up to so many bytes, however large the requests before were.

use anywire_wire::Output;

use crate::driver::h1::Session;

/// What idle connections have left. The last one comes first: it is still in the cache.
pub(super) struct Free<T> {
    kept: Vec<T>,
    /// Of all that are kept.
    bytes: usize,
}

/// What has buffers.
pub(super) trait Buffers {
    /// How much memory they have, in bytes.
    fn buffer_bytes(&self) -> usize;
}

impl Buffers for Box<Session> {
    fn buffer_bytes(&self) -> usize {
        Session::buffer_bytes(self)
    }
}

impl Buffers for Output {
    fn buffer_bytes(&self) -> usize {
        self.capacity()
    }
}

impl<T: Buffers> Free<T> {
    pub(super) fn take(&mut self) -> Option<T> {
        let taken = self.kept.pop()?;
        self.bytes -= taken.buffer_bytes();
        Some(taken)
    }

    /// Keeps it. Returns it if it is large, or if enough is kept.
    #[must_use]
    pub(super) fn put(&mut self, left: T) -> Option<T> {
        let bytes = left.buffer_bytes();
        if bytes > EACH_BYTES_MAX || self.bytes + bytes > BYTES_MAX || self.kept.len() == COUNT_MAX {
            return Some(left);
        }
        self.bytes += bytes;
        self.kept.push(left);
        None
    }
}

impl<T> Default for Free<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), bytes: 0 }
    }
}

/// At most so many are kept on each loop.
const COUNT_MAX: usize = 256;

/// Their buffers have so much memory together. A session that has met nothing large has 16 KiB, and some more for its output: all of
/// them are half of this.
const BYTES_MAX: usize = 8 << 20;

/// One that has more than this is not kept. With the default limits a session has at most 64 KiB for its input, as much for an output
/// that is empty, and its slices. A larger one would take the place of many.
const EACH_BYTES_MAX: usize = 160 << 10;

#[cfg(test)]
mod tests {
    use anywire_http::HeadLimits;

    use super::*;
    use crate::limits::Limits;

    /// A session whose connection has had a head of this size.
    fn session(head_bytes: usize) -> Box<Session> {
        let head = HeadLimits { bytes: 1 << 20, ..HeadLimits::default() };
        let mut session = Box::new(Session::new(&Limits { head, ..Limits::default() }));
        session.meet(head_bytes);
        session
    }

    #[test]
    fn a_burst_of_large_heads_does_not_stay() {
        let mut free = Free::default();
        assert!((0..256).all(|_| free.put(session(900 << 10)).is_some()), "each of them is freed");
        assert!(free.take().is_none());
    }

    #[test]
    fn what_is_kept_has_a_bound_in_bytes_and_one_in_number() {
        for (head_bytes, kept) in [(60 << 10, BYTES_MAX / (64 << 10)), (100, COUNT_MAX)] {
            let mut free = Free::default();
            let put = (0..300).filter(|_| free.put(session(head_bytes)).is_none()).count();
            assert_eq!(put, kept, "after heads of {head_bytes} bytes");
            assert!(free.bytes <= BYTES_MAX && free.bytes >= kept * head_bytes);
            while free.take().is_some() {}
            assert_eq!(free.bytes, 0);
            assert!(free.put(session(head_bytes)).is_none(), "there is room again");
        }
    }

    #[test]
    fn outputs_have_the_same_bounds() {
        let mut free = Free::default();
        let output = |bytes| {
            let mut output = Output::new();
            output.buffer().reserve_exact(bytes);
            output
        };
        assert!(free.put(output(1 << 20)).is_some());
        let put = (0..300).filter(|_| free.put(output(64 << 10)).is_none()).count();
        assert_eq!(put, BYTES_MAX / (64 << 10));
    }
}
