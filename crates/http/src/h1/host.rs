//! A cache of one host for the `Host` field of requests (RFC 9110 section 7.2).

use crate::message::is_host;

/// The last host that passed the check.
///
/// A client names the same host in each of its requests, and comparing costs 25 instructions where checking costs 140.
/// Whether a text is a host depends on nothing else, so one client gains nothing by the cache entry of another.
#[derive(Debug)]
pub(super) struct KnownHost {
    bytes: [u8; KNOWN_BYTES_MAX],
    /// How many of the bytes are the host.
    len: usize,
}

impl KnownHost {
    /// The empty host, which is one.
    pub(super) const NONE: Self = Self { bytes: [0; KNOWN_BYTES_MAX], len: 0 };

    /// Whether this is the known host.
    #[inline]
    pub(super) fn is(&self, host: &[u8]) -> bool {
        self.bytes.get(..self.len) == Some(host)
    }

    /// Whether this is a host. If so, it becomes the known one.
    #[inline(never)]
    pub(super) fn checked(&mut self, host: &[u8]) -> bool {
        let valid = is_host(host);
        if valid && let Some(known) = self.bytes.get_mut(..host.len()) {
            known.copy_from_slice(host);
            self.len = host.len();
        }
        valid
    }
}

/// Room for most hosts with their port; longer ones are checked each time.
const KNOWN_BYTES_MAX: usize = 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_checked_is_known() {
        let mut known = KnownHost::NONE;
        assert!(known.is(b""));
        assert!(known.checked(b"a.example:80") && known.is(b"a.example:80"));
        for other in [&b""[..], b"a", b"a.example:8", b"a.example:800", b"a.example/80"] {
            assert!(!known.is(other), "{}", other.escape_ascii());
        }
        assert!(!known.checked(b"a b") && !known.is(b"a b"), "no host");
        assert!(known.checked(b"b") && known.is(b"b") && !known.is(b"a.example:80"));
        let long = [b'a'; KNOWN_BYTES_MAX + 1];
        assert!(known.checked(&long) && !known.is(&long), "a host, and too long to be kept");
        assert!(known.is(b"b"));
    }
}
