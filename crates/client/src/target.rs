//! Where a call goes: an absolute `http` URL, checked and normalised, in one piece of text.
//!
//! Most URLs are already in normal form. Those are recognised in one pass without the general parser, because this
//! runs for each call; all others (upper case, user-info, dot segments, non-ASCII, IPv6 ...) go through the `url`
//! crate, and both ways give the same text.

use std::net::Ipv4Addr;

use url::Url;

use crate::Error;

/// A normalised URL without fragment and user-info: `http://host[:port]/path[?query]`.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    text: String,
    /// Where the path starts, which is where the origin ends.
    path: usize,
}

impl Target {
    /// Reads a URL. `https` and every other scheme, user-info and a missing host are errors of the caller.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        match Self::parse_normal(url) {
            Some(target) => Ok(target),
            None => Self::parse_general(url),
        }
    }

    /// `http://host[:port]`: with the wire address, the key of a pool.
    pub(crate) fn origin(&self) -> &str {
        &self.text[..self.path]
    }

    /// Path and query, as the request line has it (origin-form, RFC 9112 section 3.2.1).
    pub(crate) fn path_and_query(&self) -> &str {
        &self.text[self.path..]
    }

    /// Adds ready-encoded pairs to the query.
    pub(crate) fn push_query(&mut self, pairs: &str) {
        if pairs.is_empty() {
            return;
        }
        let path_and_query = self.path_and_query();
        match path_and_query.find('?') {
            None => self.text.push('?'),
            Some(at) if at + 1 < path_and_query.len() => self.text.push('&'),
            Some(_) => {}
        }
        self.text.push_str(pairs);
    }

    fn parse_normal(url: &str) -> Option<Self> {
        let rest = url.strip_prefix(SCHEME)?;
        let authority_length = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_length);
        let host = match authority.split_once(':') {
            Some((host, port)) if is_normal_port(port) => host,
            Some(_) => return None,
            None => authority,
        };
        if !is_normal_host(host) || !is_normal_path(path.as_bytes()) {
            return None;
        }
        let mut text = String::with_capacity(url.len() + 1);
        text.push_str(url);
        if path.is_empty() {
            text.push('/');
        }
        Some(Self { path: SCHEME.len() + authority_length, text })
    }

    fn parse_general(text: &str) -> Result<Self, Error> {
        let refused = |source| Error::Url { url: without_user(text), source };
        let url = Url::parse(text).map_err(|source| refused(UrlError::Syntax(source)))?;
        match url.scheme() {
            "http" => {}
            "https" => return Err(Error::Tls { url: without_user(text) }),
            _ => return Err(refused(UrlError::Scheme)),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused(UrlError::UserInfo));
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| refused(UrlError::Host))?;
        let mut text = format!("{SCHEME}{host}");
        if let Some(port) = url.port() {
            text.push_str(&format!(":{port}"));
        }
        let path = text.len();
        text.push_str(url.path());
        if let Some(query) = url.query() {
            text.push('?');
            text.push_str(query);
        }
        Ok(Self { text, path })
    }
}

/// Splits an origin into host (IPv6 without brackets), port and the text of the `Host` field.
pub(crate) fn split_origin(origin: &str) -> (&str, u16, &str) {
    let authority = origin.strip_prefix(SCHEME).unwrap_or(origin);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().unwrap_or(HTTP_PORT)),
        _ => (authority, HTTP_PORT),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port, authority)
}

/// A URL as an error shows it: a password does not belong in a log.
fn without_user(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let length = url[begin..].find(['/', '\\', '?', '#']).unwrap_or(url.len() - begin);
    match url[begin..begin + length].rfind('@') {
        Some(at) => format!("{}...{}", &url[..begin], &url[begin + at..]),
        None => url.to_owned(),
    }
}

/// What is wrong with a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It does not parse; the reason names the part.
    #[error("{0}; an absolute URL like http://host:port/path is wanted")]
    Syntax(url::ParseError),
    /// The scheme is not one that this client speaks.
    #[error("the scheme is not http; say the wire beside the URL, with via(\"unix:/path\")")]
    Scheme,
    /// `user:password@` is not taken from a URL, where it would end up in logs.
    #[error("it holds user-info; send an `authorization` header instead")]
    UserInfo,
    /// There is no host.
    #[error("it names no host; http://host/path is wanted")]
    Host,
}

/// A port as the URL standard prints it: no leading zero, not the default one.
fn is_normal_port(port: &str) -> bool {
    let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    digits && !port.starts_with('0') && port != "80" && port.parse::<u16>().is_ok()
}

fn is_normal_host(host: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_');
    if host.is_empty() || !host.bytes().all(plain) {
        return false;
    }
    // A last label that starts with a digit makes the host an IPv4 address in some spelling (WHATWG URL, host
    // parser), and `xn--` is checked by IDNA: both are for the general parser unless plainly normal.
    let last = host.strip_suffix('.').unwrap_or(host).rsplit('.').next().unwrap_or(host);
    if last.as_bytes().first().is_some_and(u8::is_ascii_digit) {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    !last.is_empty() && !host.contains("xn--")
}

/// Whether path and query are what the URL standard would print: nothing to escape, no dot segment, no fragment.
fn is_normal_path(path: &[u8]) -> bool {
    let mut previous = b'/';
    for (at, &byte) in path.iter().enumerate() {
        if !NORMAL[usize::from(byte)] || (byte == b'.' && previous == b'/') {
            return false;
        }
        if byte == b'%' && path.get(at + 1) == Some(&b'2') {
            return false;
        }
        previous = byte;
    }
    true
}

const SCHEME: &str = "http://";
const HTTP_PORT: u16 = 80;

/// Bytes that stand unescaped in a path and in a query alike. `%2...` is looked at apart: it may spell a dot.
const NORMAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = !matches!(
            byte as u8,
            b'"' | b'#' | b'<' | b'>' | b'\'' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
        );
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(url: &str) -> (String, String) {
        let target = Target::parse(url).expect("a good URL");
        (target.origin().to_owned(), target.path_and_query().to_owned())
    }

    #[test]
    fn normal_and_odd_urls_give_origin_and_path() {
        let both = |origin: &str, path: &str| (origin.to_owned(), path.to_owned());
        assert_eq!(parts("http://a.example:8080/x?y=1"), both("http://a.example:8080", "/x?y=1"));
        assert_eq!(parts("http://a.example"), both("http://a.example", "/"));
        assert_eq!(parts("http://a.example?y"), both("http://a.example", "/?y"));
        assert_eq!(parts("HTTP://A.Example:80/x/../y#z"), both("http://a.example", "/y"));
        assert_eq!(parts("http://[::1]:81/"), both("http://[::1]:81", "/"));
        assert_eq!(parts("http://127.1/a b"), both("http://127.0.0.1", "/a%20b"));
    }

    #[test]
    fn origins_split_into_host_port_and_host_field() {
        assert_eq!(split_origin("http://[::1]:81"), ("::1", 81, "[::1]:81"));
        assert_eq!(split_origin("http://[::1]"), ("::1", 80, "[::1]"));
        assert_eq!(split_origin("http://a.example"), ("a.example", 80, "a.example"));
        assert_eq!(split_origin("http://10.0.0.1:8080"), ("10.0.0.1", 8080, "10.0.0.1:8080"));
    }

    #[test]
    fn the_query_grows_at_its_end() {
        let grown = |url: &str| {
            let mut target = Target::parse(url).expect("a good URL");
            target.push_query("b=2");
            target.push_query("");
            target.path_and_query().to_owned()
        };
        assert_eq!(grown("http://h/x"), "/x?b=2");
        assert_eq!(grown("http://h/x?"), "/x?b=2");
        assert_eq!(grown("http://h/x?a=1"), "/x?a=1&b=2");
    }

    #[test]
    fn bad_urls_name_what_is_wrong() {
        let source = |url: &str| match Target::parse(url) {
            Err(Error::Url { source, .. }) => source,
            other => panic!("{url} gave {other:?}"),
        };
        assert!(matches!(source("/path"), UrlError::Syntax(_)));
        assert!(matches!(source("http://h:99999/"), UrlError::Syntax(_)));
        assert_eq!(source("ftp://h/"), UrlError::Scheme);
        assert_eq!(source("http://user:secret@h/"), UrlError::UserInfo);
        assert!(matches!(Target::parse("https://h/"), Err(Error::Tls { .. })));
    }

    #[test]
    fn no_error_shows_a_password() {
        for url in [
            "http://user:se@cret@h/@",
            "https://user:se@cret@h/@",
            "ftp://user:se@cret@h/@",
            "http://user:se@cret@h:x/@",
        ] {
            let said = Target::parse(url).expect_err(url).to_string();
            assert!(!said.contains("user") && !said.contains("cret"), "{said}");
            assert!(said.contains("://...@h") && said.contains("/@"), "{said}");
        }
    }

    proptest! {
        #[test]
        fn the_short_way_agrees_with_the_general_one(
            host in "[a-z0-9._-]{1,12}",
            port in prop_oneof![Just(String::new()), ":[0-9]{1,5}"],
            path in prop_oneof![Just(String::new()), "/[a-z0-9./?%&=+~:@!$,;'|^-]{0,20}"],
        ) {
            let url = format!("http://{host}{port}{path}");
            if let Some(short) = Target::parse_normal(&url) {
                let general = Target::parse_general(&url).expect("what the short way takes is a URL");
                prop_assert_eq!(short.text, general.text);
                prop_assert_eq!(short.path, general.path);
            }
        }
    }
}
