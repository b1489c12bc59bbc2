//! What may stand in `Host`, and in the authority of a target (RFC 9110 section 7.2).

/// The host that was found to be one last.
///
/// A client names the same host in each of its requests, and comparing costs 25 instructions where checking
/// costs 140. What is a host stays one, whoever names it: nobody gains anything by what somebody else said.
#[derive(Debug)]
pub(super) struct KnownHost {
    bytes: [u8; KNOWN_BYTES_MAX],
    /// How many of them; all beyond are left over.
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

    /// Whether this is a host; if so, it is the known one from now on.
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

/// `uri-host [ ":" port ]` (RFC 9110 section 7.2), which may be empty.
#[inline]
pub(super) fn is_host(host: &[u8]) -> bool {
    // The usual form first: letters, digits, dots, dashes, and then at most one colon with digits.
    let mut name = host;
    while let [rest @ .., b'0'..=b'9'] = name {
        name = rest;
    }
    // Without a colon the digits are the name's end, and plain.
    if let [rest @ .., b':'] = name {
        name = rest;
    }
    is_plain(name) || is_unusual_host(host)
}

/// Whether all bytes are letters, digits, dots, dashes.
#[inline]
fn is_plain(name: &[u8]) -> bool {
    let odd = |odd: bool, &byte: &u8| odd | !PLAIN_HOST[usize::from(byte)];
    // Four at once and no early exit: half the instructions of a look at each.
    let (words, rest) = name.as_chunks::<4>();
    !words.iter().fold(rest.iter().fold(false, odd), |so_far, word| word.iter().fold(so_far, odd))
}

/// IPv6 in brackets, percent-encoded and other registered names (RFC 3986 section 3.2.2).
fn is_unusual_host(host: &[u8]) -> bool {
    let after_name = if let [b'[', rest @ ..] = host {
        let Some(close) = memchr::memchr(b']', rest) else { return false };
        let literal = &rest[..close];
        if literal.is_empty() || !literal.iter().all(|&byte| byte == b':' || is_name_byte(byte)) {
            return false;
        }
        &rest[close + 1..]
    } else {
        let colon = memchr::memchr(b':', host).unwrap_or(host.len());
        if !host[..colon].iter().all(|&byte| is_name_byte(byte)) {
            return false;
        }
        &host[colon..]
    };
    match after_name {
        [] => true,
        [b':', port @ ..] => port.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// unreserved / sub-delims / the percent sign.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte)
}

static PLAIN_HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'-' | b'.' | b'_');
        byte += 1;
    }
    table
};

/// Room for most hosts with their port; longer ones are checked each time.
const KNOWN_BYTES_MAX: usize = 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_with_ports() {
        for host in
            ["", "a", "a:80", "127.0.0.1:8080", "[::1]", "[::1]:80", "a_b.example", "%41", "a:", "x~y"]
        {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in
            ["a b", "a/b", "user@a", "a:80:80", "a:b", "[::1", "[]", "[::1]x", "a?b", "a#b", "a\\b", "\u{e4}"]
        {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

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
