//! The parts of a request target: scheme, authority, path and query (RFC 9110 section 7.1, RFC 9112 section 3.2).

use http::Method;

/// What a target says. Path and query alone, unless it is a URL or the method is CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'t> {
    /// Empty if there is none.
    pub(crate) scheme: &'t str,
    /// Empty if there is none.
    pub(crate) authority: &'t str,
    /// As it stands: the path of a URL may be missing.
    pub(crate) path: &'t str,
}

impl<'t> Target<'t> {
    /// Whether the target is path and query alone, as nearly all are.
    #[inline]
    pub(crate) fn is_origin_form(method: &Method, target: &str) -> bool {
        target.starts_with('/') && *method != Method::CONNECT
    }

    /// Takes a target of one of the four forms apart: origin-form, absolute-form, authority-form (CONNECT) and
    /// asterisk-form (OPTIONS). `None` if it has another form.
    pub(crate) fn parse(method: &Method, target: &'t str) -> Option<Self> {
        match *method {
            _ if Self::is_origin_form(method, target) => {
                (!has_fragment(target)).then_some(Self { scheme: "", authority: "", path: target })
            }
            Method::CONNECT => {
                is_host_and_port(target).then_some(Self { scheme: "", authority: target, path: "" })
            }
            Method::OPTIONS if target == "*" => Some(Self { scheme: "", authority: "", path: target }),
            _ => {
                let (scheme, rest) = target.split_once("://")?;
                let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
                let fits = is_origin(scheme, authority) && !has_fragment(path);
                fits.then_some(Self { scheme, authority, path })
            }
        }
    }
}

/// Whether these are the scheme and the authority of a URL. The authority must not be empty, nor hold a user.
pub(crate) fn is_origin(scheme: &str, authority: &str) -> bool {
    is_scheme(scheme) && !authority.is_empty() && is_host(authority.as_bytes())
}

/// Whether this can be the scheme of a URL (RFC 3986 section 3.1).
#[inline]
pub(crate) fn is_scheme(scheme: &str) -> bool {
    // The usual ones first.
    matches!(scheme, "http" | "https")
        || scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Whether `text` can be a target, or a part of one: not empty, no white space, no control character, no fragment.
pub(crate) fn is_target(text: &str) -> bool {
    is_visible(text) && !has_fragment(text)
}

/// Whether `text` has no white space and no control character, and is not empty.
pub(crate) fn is_visible(text: &str) -> bool {
    // No early exit, so that the compiler tests many bytes at once.
    !text.is_empty() && text.bytes().fold(true, |so_far, byte| so_far & (byte > b' ') & (byte != 0x7f))
}

/// Whether a `#` stands in it. A client keeps what follows that to itself (RFC 3986 section 3.5), and one reader would take it for
/// a part of the path where another one cuts it off.
#[inline]
pub(crate) fn has_fragment(target: &str) -> bool {
    target.bytes().fold(false, |so_far, byte| so_far | (byte == b'#'))
}

/// `uri-host ":" port`, the target of CONNECT (RFC 9112 section 3.2.3, RFC 9113 section 8.5): the host is not empty, and the port is
/// one that can be connected to (RFC 9110 section 9.3.6). Port 0 is reserved (RFC 6335 section 6).
pub(crate) fn is_host_and_port(authority: &str) -> bool {
    let Some((_, port)) = authority.rsplit_once(':') else { return false };
    // What stands behind the last colon of a bare IPv6 address ends with its bracket, and is no number.
    is_host(authority.as_bytes()) && port.parse().is_ok_and(|port: u16| port != 0)
}

/// `uri-host [ ":" port ]` (RFC 9110 section 7.2), which may be empty as a whole: then there is no authority. A port without a host is
/// refused: no URL of HTTP has such an authority (RFC 9110 section 4.2.1).
#[inline]
pub(crate) fn is_host(host: &[u8]) -> bool {
    // The usual form first: letters, digits, dots, dashes, and then at most one colon with digits.
    let mut name = host;
    while let [rest @ .., b'0'..=b'9'] = name {
        name = rest;
    }
    // Without a colon the digits are the name's end, and plain.
    if let [rest @ .., b':'] = name {
        if rest.is_empty() {
            return false;
        }
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
        if !is_address(&rest[..close]) {
            return false;
        }
        &rest[close + 1..]
    } else {
        let colon = memchr::memchr(b':', host).unwrap_or(host.len());
        if !is_registered_name(&host[..colon]) {
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

/// What stands in brackets: an IPv6 address, maybe with a zone (RFC 6874), or one of a version to come.
fn is_address(literal: &[u8]) -> bool {
    if let [b'v' | b'V', rest @ ..] = literal {
        let Some(dot) = memchr::memchr(b'.', rest) else { return false };
        let (version, address) = (&rest[..dot], &rest[dot + 1..]);
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !address.is_empty()
            && address.iter().all(|&byte| byte == b':' || byte != b'%' && is_name_byte(byte));
    }
    let (address, zone) = match memchr::memchr(b'%', literal) {
        Some(percent) => (&literal[..percent], Some(&literal[percent + 1..])),
        None => (literal, None),
    };
    std::str::from_utf8(address).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
        && zone.is_none_or(|zone| !zone.is_empty() && zone.iter().all(|&byte| is_name_byte(byte)))
}

/// Name bytes, and two digits behind each percent sign.
fn is_registered_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let [byte, behind @ ..] = rest {
        rest = match behind {
            [high, low, behind @ ..]
                if *byte == b'%' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                behind
            }
            _ if *byte != b'%' && is_name_byte(*byte) => behind,
            _ => return false,
        };
    }
    true
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
        for host in ["[::ffff:1.2.3.4]:80", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[v1f.a:b]", "a%2fb:80"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in ["[zz]", "[1]", "[1.2.3.4]", "[::1%]", "[v.a]", "[v1.]", "[v1]", "[vg.a]", "[:::]"] {
            assert!(!is_host(host.as_bytes()), "{host}: no address");
        }
        for host in ["%", "a%4", "a%zz", "a%zz:80", "%%41"] {
            assert!(!is_host(host.as_bytes()), "{host}: no byte");
        }
        for host in [":", ":80", ":0"] {
            assert!(!is_host(host.as_bytes()), "{host}: a port alone");
        }
        for host in
            ["a b", "a/b", "user@a", "a:80:80", "a:b", "[::1", "[]", "[::1]x", "a?b", "a#b", "a\\b", "\u{e4}"]
        {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn targets_have_one_of_four_forms() {
        let parse = |method: &Method, target| {
            Target::parse(method, target).map(|target| (target.scheme, target.authority, target.path))
        };
        assert_eq!(parse(&Method::GET, "/"), Some(("", "", "/")));
        assert_eq!(parse(&Method::GET, "http://a:80/b?c"), Some(("http", "a:80", "/b?c")));
        assert_eq!(parse(&Method::GET, "http://a?c"), Some(("http", "a", "?c")));
        assert_eq!(parse(&Method::OPTIONS, "*"), Some(("", "", "*")));
        assert_eq!(parse(&Method::CONNECT, "a:443"), Some(("", "a:443", "")));
        for target in ["*", "a:443", "a/b", "http:///b", "http://u@a/b", "1http://a", "", "://a"] {
            assert_eq!(parse(&Method::GET, target), None, "{target}");
        }
        for target in ["/a#b", "/#", "/a?b#c", "http://a#d", "http://a/#", "http://a?b#c"] {
            assert_eq!(parse(&Method::GET, target), None, "{target}: a fragment is not sent");
        }
        assert!(is_target("/~") && !is_target("/\x7f") && !is_target("/ ") && !is_target(""));
        assert!(!is_target("/#") && is_visible("/#"));
        assert_eq!((parse(&Method::CONNECT, "/"), parse(&Method::CONNECT, "a")), (None, None));
    }
}
