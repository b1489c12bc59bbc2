//! The host that a request asks for.

use std::fmt;
use std::net::Ipv6Addr;

use crate::request::Parts;

/// A pattern of hosts.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// In lower case, without the `*.`. An address of IPv6 as RFC 5952 writes it.
    name: Box<str>,
    is_wildcard: bool,
    port: Option<u16>,
}

impl Host {
    pub(super) fn parse(pattern: &str) -> Option<Self> {
        let (name, port) = split(pattern);
        let port = match port {
            Some(port) => Some(number(port)?),
            None => None,
        };
        let (name, is_wildcard) = name.strip_prefix("*.").map_or((name, false), |name| (name, true));
        let name = name.strip_suffix('.').unwrap_or(name);
        if let Some(address) = address(name) {
            return (!is_wildcard).then(|| Self { name: format!("[{address}]").into(), is_wildcard, port });
        }
        let is_label = |label: &str| {
            let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.bytes().all(is_fine)
        };
        let is_right = name.split('.').all(is_label);
        is_right.then(|| Self { name: name.to_ascii_lowercase().into(), is_wildcard, port })
    }

    pub(super) fn takes(&self, parts: &Parts) -> bool {
        let Some((name, port)) = parts.host().map(split) else { return false };
        if !self.takes_name(name.strip_suffix('.').unwrap_or(name)) {
            return false;
        }
        let Some(expected) = self.port else { return true };
        match port.filter(|port| !port.is_empty()) {
            Some(port) => number(port) == Some(expected),
            None => {
                let is_secure = parts.negotiated().is_some() || parts.head().scheme() == Some("https");
                expected == if is_secure { 443 } else { 80 }
            }
        }
    }

    fn takes_name(&self, name: &str) -> bool {
        if !self.is_wildcard {
            // One address of IPv6 has many spellings.
            return name.eq_ignore_ascii_case(&self.name)
                || address(name).is_some_and(|own| address(&self.name) == Some(own));
        }
        let Some(at) = name.len().checked_sub(self.name.len() + 1).filter(|at| *at > 0) else { return false };
        match (name.get(..at), name.get(at..)) {
            (Some(labels), Some(end)) => {
                !labels.starts_with('[') && end.starts_with('.') && end[1..].eq_ignore_ascii_case(&self.name)
            }
            _ => false,
        }
    }

    /// Whether each request for this host is one for the other.
    pub(super) fn implies(&self, other: &Self) -> bool {
        let is_name = match (self.is_wildcard, other.is_wildcard) {
            (false, true) => other.takes_name(&self.name),
            (true, true) => self.name == other.name || other.takes_name(&self.name),
            (true, false) => false,
            (false, false) => self.name == other.name,
        };
        is_name && (other.port.is_none() || self.port == other.port)
    }

    pub(super) fn contradicts(&self, other: &Self) -> bool {
        let takes_one = match (self.is_wildcard, other.is_wildcard) {
            (true, true) => {
                let is_below =
                    |one: &Self, other: &Self| one.name == other.name || other.takes_name(&one.name);
                is_below(self, other) || is_below(other, self)
            }
            (true, false) => self.takes_name(&other.name),
            (false, _) => other.takes_name(&self.name),
        };
        !takes_one || matches!((self.port, other.port), (Some(one), Some(other)) if one != other)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, is_wildcard, port } = self;
        f.write_str(if *is_wildcard { "*." } else { "" })?;
        f.write_str(name)?;
        port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// An address of IPv6 in its brackets.
fn address(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// The name and the port of a host. An address of IPv6 has its brackets.
fn split(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

/// A port: digits alone, without the sign that a number may have.
fn number(port: &str) -> Option<u16> {
    port.parse().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_hosts() {
        for (pattern, shown) in [
            ("API.example.com", "api.example.com"),
            ("example.com.:8080", "example.com:8080"),
            ("*.example.com", "*.example.com"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]", "[::1]"),
            ("[::1]:443", "[::1]:443"),
            ("[2001:DB8:0:0::1]", "[2001:db8::1]"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(
                Host::parse(pattern).map(|host| host.to_string()).as_deref(),
                Some(shown),
                "{pattern}"
            );
        }
        for pattern in [
            "",
            "*",
            "*.",
            "a..b",
            "a b",
            "http://a",
            "a/b",
            "b\u{fc}cher.de",
            "a:",
            "a:70000",
            "a:+1",
            "[::1",
            "*.[::1]",
            "a.*.b",
        ] {
            assert!(Host::parse(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn a_wildcard_stands_for_labels() {
        let host = Host::parse("*.example.com").expect("a pattern");
        assert!(host.takes_name("a.example.com") && host.takes_name("A.b.EXAMPLE.com"));
        for other in [
            "example.com",
            ".example.com",
            "aexample.com",
            "a.example.org",
            "",
            "com",
            "\u{e4}\u{e4}xample.com",
        ] {
            assert!(!host.takes_name(other), "{other}");
        }
    }

    #[test]
    fn contradictions_are_seen() {
        let parse = |pattern| Host::parse(pattern).expect("a pattern");
        for (one, other, contradict) in [
            ("a.com", "a.com:80", false),
            ("a.com", "b.com", true),
            ("a.com:80", "a.com:81", true),
            ("*.com", "a.com", false),
            ("*.a.com", "a.com", true),
            ("*.a.com", "*.com", false),
            ("*.a.com", "*.a.com:8", false),
            ("*.a.com", "*.b.com", true),
            ("[::1]", "[0:0::1]", false),
            ("[::1]", "[::2]", true),
        ] {
            assert_eq!(parse(one).contradicts(&parse(other)), contradict, "{one} and {other}");
            assert_eq!(parse(other).contradicts(&parse(one)), contradict, "{other} and {one}");
        }
    }

    #[test]
    fn narrower_ones_imply_wider_ones() {
        let parse = |pattern| Host::parse(pattern).expect("a pattern");
        for (narrow, wide) in [
            ("a.com", "*.com"),
            ("a.com:80", "a.com"),
            ("a.com:80", "*.com:80"),
            ("*.a.com", "*.com"),
            ("[0:0::1]:80", "[::1]"),
        ] {
            assert!(parse(narrow).implies(&parse(wide)), "{narrow} and {wide}");
            assert!(!parse(wide).implies(&parse(narrow)), "{wide} and {narrow}");
        }
        for (one, other) in
            [("a.com", "b.com"), ("a.com:80", "*.com:81"), ("*.a.com", "a.com"), ("a.com", "*.com:80")]
        {
            assert!(!parse(one).implies(&parse(other)), "{one} and {other}");
        }
    }
}
