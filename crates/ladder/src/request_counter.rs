//! Counting requests without reading them: the length of the first is the length of all.

/// How many whole requests have arrived on one connection.
///
/// Until the first empty line has been seen, bytes are looked at, once each; from then on arithmetic is enough.
#[derive(Debug, Default)]
pub(crate) struct RequestCounter {
    /// Bytes of one request, with its empty line; 0 until the first request has ended.
    length: u32,
    /// Bytes of the request that has begun and not ended.
    begun: u32,
    /// How much of `CR LF CR LF` the last bytes of the first request match: 0 to 3.
    matched: u8,
}

impl RequestCounter {
    /// Takes the next bytes of the connection and says how many requests they complete.
    ///
    /// `None` if the first request exceeds [`REQUEST_BYTES_MAX`].
    #[inline]
    pub(crate) fn count(&mut self, bytes: &[u8]) -> Option<usize> {
        // A read is never as large as 4 GiB, so the length fits.
        let arrived = bytes.len() as u32;
        if self.length == 0 {
            return self.count_from_start(bytes);
        }
        let total = self.begun + arrived;
        // The common case of one whole request saves a division.
        if total == self.length {
            self.begun = 0;
            return Some(1);
        }
        self.begun = total % self.length;
        Some((total / self.length) as usize)
    }

    #[cold]
    fn count_from_start(&mut self, bytes: &[u8]) -> Option<usize> {
        let Some(end) = bytes.iter().position(|&byte| self.ends_with(byte)) else {
            self.begun += bytes.len() as u32;
            return (self.begun <= REQUEST_BYTES_MAX).then_some(0);
        };
        let in_this_read = end + 1;
        self.length = self.begun + in_this_read as u32;
        self.begun = 0;
        if self.length > REQUEST_BYTES_MAX {
            return None;
        }
        self.count(&bytes[in_this_read..]).map(|more| 1 + more)
    }

    /// Follows the end mark through one more byte; true at its last.
    fn ends_with(&mut self, byte: u8) -> bool {
        if byte == END[usize::from(self.matched)] {
            self.matched += 1;
        } else {
            // Whatever was matched before, a CR can only be the mark's first byte now.
            self.matched = u8::from(byte == END[0]);
        }
        usize::from(self.matched) == END.len()
    }
}

/// The largest request: 64 KiB, four times what servers take. It also keeps the sums above far from overflow.
pub(crate) const REQUEST_BYTES_MAX: u32 = 64 << 10;
const END: &[u8; 4] = b"\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    fn stream_of(requests: usize) -> Vec<u8> {
        REQUEST.repeat(requests)
    }

    #[test]
    fn any_split_in_three_gives_the_same_count() {
        let stream = stream_of(3);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let mut counter = RequestCounter::default();
                let mut seen = 0;
                for (part, so_far) in [
                    (&stream[..first], first),
                    (&stream[first..second], second),
                    (&stream[second..], stream.len()),
                ] {
                    seen += counter.count(part).expect("short enough");
                    assert_eq!(seen, so_far / REQUEST.len(), "split at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn byte_by_byte_gives_one_at_each_end() {
        let mut counter = RequestCounter::default();
        for (index, &byte) in stream_of(50).iter().enumerate() {
            let ends = usize::from((index + 1) % REQUEST.len() == 0);
            assert_eq!(counter.count(&[byte]), Some(ends));
        }
    }

    #[test]
    fn a_mark_that_begins_anew_is_found() {
        for request in [&b"a\r\r\n\r\n"[..], b"a\r\n\r\r\n\r\n", b"\r\n\n\r\n\r\n", b"a\n\r\n\r\n"] {
            let mut counter = RequestCounter::default();
            assert_eq!(counter.count(request), Some(1), "{request:?}");
            assert_eq!(counter.count(&request.repeat(3)), Some(3), "{request:?}");
        }
    }

    #[test]
    fn a_first_request_without_end_is_refused_at_the_limit() {
        let mut counter = RequestCounter::default();
        assert_eq!(counter.count(&vec![b'a'; REQUEST_BYTES_MAX as usize]), Some(0));
        assert_eq!(counter.count(b"a"), None);
        let mut counter = RequestCounter::default();
        assert_eq!(counter.count(&[vec![b'a'; REQUEST_BYTES_MAX as usize], END.to_vec()].concat()), None);
    }
}
