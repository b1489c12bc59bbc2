//! An absolute `http` or `https` URL, checked and normalised, in one piece of text.
//!
//! Most URLs are already in normal form. Those are recognised in one pass without the general parser, because this
//! runs for each call of a client. All others (upper case, user-info, dot segments, non-ASCII, IPv6 ...) go through
//! the `url` crate, and both ways give the same text.

use core::net::Ipv4Addr;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use anywire_advice::Advice;

use crate::message::{is_host, is_visible};

/// An absolute URL without fragment and user-info, in normal form: `http://host[:port]/path[?query]`, or the same with
/// `https`.
///
/// ```
/// use anywire_http::url::{Url, UrlError};
///
/// let url: Url = "HTTP://Example.test:8080/a/../b?c=d#e".parse()?;
/// assert_eq!(url.as_str(), "http://example.test:8080/b?c=d");
/// assert_eq!((url.authority(), url.host(), url.port()), ("example.test:8080", "example.test", 8080));
/// assert_eq!((url.origin(), url.path_and_query()), ("http://example.test:8080", "/b?c=d"));
/// assert_eq!(Url::parse("https://example.test")?.port(), 443);
/// // It is a text where one is asked for.
/// assert!(url == "http://example.test:8080/b?c=d" && url.as_ref() == url.as_str());
/// // The interface of an address of a link (RFC 6874), which is for this machine alone.
/// let url = Url::parse("http://[fe80::1%25eth0]/")?;
/// assert_eq!((url.authority(), url.host(), url.host_with_zone()), ("[fe80::1]", "fe80::1", "fe80::1%25eth0"));
/// # Ok::<(), UrlError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// If the host has a zone, the authority without it stands before the URL.
    text: String,
    /// Where the URL starts.
    begin: usize,
    /// Where the host starts, behind the scheme.
    host: usize,
    /// Where the path starts, which is where the origin ends.
    path: usize,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// See [`UrlError`]. It does not repeat the URL, which may hold a password: show that by [`redact`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        match Self::parse_normal(text) {
            Some(url) => Ok(url),
            None => Self::parse_general(text),
        }
    }

    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.text[self.begin..]
    }

    /// Whether the scheme is `https`, so that TLS is to be spoken.
    #[inline]
    pub fn is_https(&self) -> bool {
        self.host - self.begin == HTTPS.len()
    }

    /// `http` or `https`.
    #[inline]
    pub fn scheme(&self) -> &str {
        &self.text[self.begin..self.host - "://".len()]
    }

    /// Scheme and authority: `http://host[:port]`. The host has its zone, if it has one, since each link has hosts of its own.
    #[inline]
    pub fn origin(&self) -> &str {
        &self.text[self.begin..self.path]
    }

    /// Host and port as the `Host` field has them: the port only if it is not the scheme's, IPv6 in brackets and without a zone.
    #[inline]
    pub fn authority(&self) -> &str {
        if self.begin > 0 { &self.text[..self.begin] } else { &self.text[self.host..self.path] }
    }

    /// The host as [`host`](Self::host) gives it, with the zone behind it if it is an IPv6 address with one: `fe80::1%25eth0`. It
    /// is what is to be dialled.
    pub fn host_with_zone(&self) -> &str {
        match &self.text[self.host..self.path] {
            zoned if self.begin > 0 => zoned[1..].split(']').next().unwrap_or_default(),
            _ => self.host(),
        }
    }

    /// The host: a name, an IPv4 address, or an IPv6 address without its brackets and its zone.
    pub fn host(&self) -> &str {
        self.split_authority().0
    }

    /// The port; if the URL names none 80, or 443 with `https`.
    pub fn port(&self) -> u16 {
        self.split_authority().1
    }

    /// Path and query, as the request line has them (origin-form, RFC 9112 section 3.2.1).
    #[inline]
    pub fn path_and_query(&self) -> &str {
        &self.text[self.path..]
    }

    /// This origin with another path and query, as a proxy sends them on; for a link in a page or a `location` there is
    /// [`resolve`](Self::resolve). They stay as they are: nothing but `#` is escaped, and no dot segment is removed. The path of this URL, unless it is `/`, stands before them. `None` if the text does not begin with `/`, or
    /// cannot stand in a request line.
    ///
    /// ```
    /// let base = anywire_http::Url::parse("http://host/base/")?;
    /// let url = base.join("/a/../b#c?d").expect("a path");
    /// assert_eq!(url.as_str(), "http://host/base/a/../b%23c?d");
    /// # Ok::<(), anywire_http::url::UrlError>(())
    /// ```
    pub fn join(&self, path_and_query: &str) -> Option<Self> {
        if !path_and_query.starts_with('/') || !is_visible(path_and_query) {
            return None;
        }
        let base = self.text.split_once('?').map_or(&*self.text, |(base, _)| base).trim_end_matches('/');
        // A peer that takes it for a fragment would see another path than its sender.
        let text = [base, &*path_and_query.replace('#', "%23")].concat();
        Some(Self { text, ..*self })
    }

    /// The URL that a reference leads to from this one (RFC 3986 section 5), such as the one of a `location`: a whole URL,
    /// `//host/path`, `/path`, `path`, `?query`. Its fragment is dropped.
    ///
    /// ```
    /// let base = anywire_http::Url::parse("http://host/a/b?c")?;
    /// assert_eq!(base.resolve("../d#e")?.as_str(), "http://host/d");
    /// assert_eq!(base.resolve("//other:8080")?.as_str(), "http://other:8080/");
    /// # Ok::<(), anywire_http::url::UrlError>(())
    /// ```
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn resolve(&self, reference: &str) -> Result<Self, UrlError> {
        // The general parser knows no zones.
        let plain = format!("{}://{}{}", self.scheme(), self.authority(), self.path_and_query());
        let base = url::Url::parse(&plain).map_err(UrlError::Syntax)?;
        let joined = base.join(reference).map_err(UrlError::Syntax)?;
        let found = Self::parse(joined.as_str())?;
        if self.begin == 0 || (found.scheme(), found.authority()) != (self.scheme(), self.authority()) {
            return Ok(found);
        }
        let text = [&self.text[..self.path], found.path_and_query()].concat();
        Ok(Self { text, ..*self })
    }

    /// Adds pairs to the query; they must be percent-encoded already.
    pub fn push_query(&mut self, pairs: &str) {
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

    fn split_authority(&self) -> (&str, u16) {
        let authority = self.authority();
        let default = if self.is_https() { HTTPS_PORT } else { HTTP_PORT };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().unwrap_or(default)),
            _ => (authority, default),
        };
        (host.trim_start_matches('[').trim_end_matches(']'), port)
    }

    fn parse_normal(url: &str) -> Option<Self> {
        let (rest, default_port) = match url.strip_prefix(HTTP) {
            Some(rest) => (rest, "80"),
            None => (url.strip_prefix(HTTPS)?, "443"),
        };
        let authority_length = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_length);
        let host = match authority.split_once(':') {
            Some((host, port)) if is_normal_port(port, default_port) => host,
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
        let begin = url.len() - rest.len();
        Some(Self { begin: 0, host: begin, path: begin + authority_length, text })
    }

    fn parse_general(text: &str) -> Result<Self, UrlError> {
        // The general parser knows no zones.
        let (text, zone) = match split_zone(text)? {
            Some((text, zone)) => (Cow::Owned(text), Some(zone)),
            None => (Cow::Borrowed(text), None),
        };
        let url = url::Url::parse(&text).map_err(UrlError::Syntax)?;
        let scheme = match url.scheme() {
            "http" => HTTP,
            "https" => HTTPS,
            _ => return Err(UrlError::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::UserInfo);
        }
        // The `url` crate lets signs into a host, such as quotes, that the field `host` cannot hold.
        let host = url.host_str().filter(|host| is_host(host.as_bytes())).ok_or(UrlError::Host)?;
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let (without_zone, zoned) = match zone {
            Some(zone) => (format!("{host}{port}"), format!("{}%25{zone}]", host.trim_end_matches(']'))),
            None => (String::new(), host.to_owned()),
        };
        let begin = without_zone.len();
        let mut text = format!("{without_zone}{scheme}{zoned}{port}");
        let path = text.len();
        text.push_str(url.path());
        if let Some(query) = url.query() {
            text.push('?');
            text.push_str(query);
        }
        Ok(Self { text, begin, host: begin + scheme.len(), path })
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl AsRef<str> for Url {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// As the text of its normal form.
impl PartialEq<str> for Url {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Url {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A text that should be a URL, without the user-info that it may hold: a password does not belong in a log.
///
/// ```
/// assert_eq!(anywire_http::url::redact("http://me:secret@host/"), "http://...@host/");
/// ```
pub fn redact(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let length = url[begin..].find(['/', '\\', '?', '#']).unwrap_or(url.len() - begin);
    match url[begin..begin + length].rfind('@') {
        Some(at) => format!("{}...{}", &url[..begin], &url[begin + at..]),
        None => url.to_owned(),
    }
}

/// Whether the text of a URL ends with its authority: `http://host`. As the target of OPTIONS that is the server as a whole,
/// and not its path `/` (RFC 9110 section 4.2.3).
///
/// ```
/// use anywire_http::url::is_bare;
///
/// assert!(is_bare("http://host:80") && !is_bare("http://host/") && !is_bare("http://host?a"));
/// ```
pub fn is_bare(url: &str) -> bool {
    url.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '\\', '?', '#']))
}

/// What is wrong with a URL (the caller's fault).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It does not parse; the reason names the part.
    #[error("{0}{help}", help = Advice("an absolute URL like http://host:port/path is wanted"))]
    Syntax(url::ParseError),
    /// The scheme is `https`, and this build speaks no TLS.
    #[error(
        "the scheme is https, and this build speaks no TLS{help}",
        help = Advice("build it with the feature `tls`")
    )]
    Tls,
    /// The scheme is neither `http` nor `https`.
    #[error(
        "the scheme is neither http nor https{help}",
        help = Advice("name a wire beside the URL, with `via`")
    )]
    Scheme,
    /// `user:password@` is not taken from a URL, where it would end up in logs.
    #[error("it holds user-info{help}", help = Advice("send an `authorization` header instead"))]
    UserInfo,
    /// The zone behind its IPv6 address is no name or number of an interface.
    #[error("the zone of its host names no interface{help}", help = Advice("http://[fe80::1%25eth0]/ is wanted"))]
    Zone,
    /// Its host is none that a request can name (RFC 9112 3.2).
    #[error("its host is no name or IP address{help}", help = Advice("http://host/path is wanted"))]
    Host,
}

/// The text of a URL without the zone of its host, and the zone. It stands behind `%25` (RFC 6874), or as people write it behind
/// a plain `%`.
fn split_zone(text: &str) -> Result<Option<(String, &str)>, UrlError> {
    let begin = text.find("://").map_or(0, |at| at + "://".len());
    let end = text[begin..].find(['/', '\\', '?', '#']).map_or(text.len(), |at| begin + at);
    let host = text[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    let Some(close) = text[host..end].find(']').filter(|_| text[host..].starts_with('[')) else {
        return Ok(None);
    };
    let close = host + close;
    let Some(percent) = text[host..close].find('%') else { return Ok(None) };
    let percent = host + percent;
    let zone = &text[percent + 1..close];
    let zone = zone.strip_prefix("25").filter(|name| !name.is_empty()).unwrap_or(zone);
    // What URLs hold without escapes (RFC 3986 section 2.3).
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if zone.is_empty() || !zone.bytes().all(is_plain) {
        return Err(UrlError::Zone);
    }
    Ok(Some(([&text[..percent], &text[close..]].concat(), zone)))
}

/// A port as the URL standard prints it: no leading zero, not the default one.
fn is_normal_port(port: &str, default: &str) -> bool {
    let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    digits && !port.starts_with('0') && port != default && port.parse::<u16>().is_ok()
}

fn is_normal_host(host: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_');
    if host.is_empty() || !host.bytes().all(plain) {
        return false;
    }
    // A last label that starts with a digit makes the host an IPv4 address in some spelling (WHATWG URL, host
    // parser), and `xn--` is checked by IDNA: both are for the general parser unless plainly normal.
    // By bytes: the search of text for a character took 130 instructions more.
    let labels = host.strip_suffix('.').unwrap_or(host).as_bytes();
    let last = labels.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
    if last.first().is_some_and(u8::is_ascii_digit) {
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

const HTTP: &str = "http://";
const HTTPS: &str = "https://";
const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

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
        let url = Url::parse(url).expect("a good URL");
        (url.origin().to_owned(), url.path_and_query().to_owned())
    }

    #[test]
    fn normal_and_odd_urls_give_origin_and_path() {
        let both = |origin: &str, path: &str| (origin.to_owned(), path.to_owned());
        assert_eq!(parts("http://a.example:8080/x?y=1"), both("http://a.example:8080", "/x?y=1"));
        assert_eq!(parts("http://a.example"), both("http://a.example", "/"));
        assert_eq!(parts("http://a.example?y"), both("http://a.example", "/?y"));
        assert_eq!(parts("HTTP://A.Example:80/x/../y#z"), both("http://a.example", "/y"));
        assert_eq!(parts("http://[::1]:81/"), both("http://[::1]:81", "/"));
        assert_eq!(parts("http://a.example:80/"), both("http://a.example", "/"));
        assert_eq!(parts("http://h/x/%2e%2E/y"), both("http://h", "/y"));
        assert_eq!(parts("http://127.1/a b"), both("http://127.0.0.1", "/a%20b"));
        assert_eq!(parts("https://a.example"), both("https://a.example", "/"));
        assert_eq!(parts("HTTPS://A.Example:443/x"), both("https://a.example", "/x"));
        assert_eq!(parts("https://a.example:443/x"), both("https://a.example", "/x"));
        assert_eq!(parts("https://a.example:80/x"), both("https://a.example:80", "/x"));
        assert_eq!(parts("http://a.example:443/x"), both("http://a.example:443", "/x"));
    }

    #[test]
    fn authorities_split_into_host_and_port() {
        let split = |url: &str| {
            let url = Url::parse(url).expect("a good URL");
            (url.host().to_owned(), url.port(), url.authority().to_owned())
        };
        let parts = |host: &str, port, authority: &str| (host.to_owned(), port, authority.to_owned());
        assert_eq!(split("http://[::1]:81"), parts("::1", 81, "[::1]:81"));
        assert_eq!(split("http://[::1]"), parts("::1", 80, "[::1]"));
        assert_eq!(split("http://a.example"), parts("a.example", 80, "a.example"));
        assert_eq!(split("http://10.0.0.1:8080"), parts("10.0.0.1", 8080, "10.0.0.1:8080"));
        assert_eq!(split("https://[::1]"), parts("::1", 443, "[::1]"));
        assert_eq!(split("https://a.example"), parts("a.example", 443, "a.example"));
        assert_eq!(split("https://a.example:80"), parts("a.example", 80, "a.example:80"));
    }

    #[test]
    fn a_zone_is_of_the_origin_and_not_of_the_authority() {
        for text in [
            "http://[fe80::1%25eth0]:81/a?b",
            "http://[fe80::1%eth0]:81/a?b",
            "HTTP://[FE80:0::1%25eth0]:81/x/../a?b#c",
        ] {
            let url = Url::parse(text).expect("a good URL");
            assert_eq!(url.as_str(), "http://[fe80::1%25eth0]:81/a?b");
            assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(&url));
            assert_eq!((url.scheme(), url.origin()), ("http", "http://[fe80::1%25eth0]:81"));
            assert_eq!((url.authority(), url.host(), url.port()), ("[fe80::1]:81", "fe80::1", 81));
            assert_eq!((url.host_with_zone(), url.path_and_query()), ("fe80::1%25eth0", "/a?b"));
            let mut joined = url.join("/c").expect("a path");
            joined.push_query("d=e");
            assert_eq!(joined.to_string(), "http://[fe80::1%25eth0]:81/a/c?d=e");
            assert_eq!((joined.authority(), joined.is_https()), ("[fe80::1]:81", false));
        }
        let plain = |text| Url::parse(text).expect("a good URL");
        assert!(plain("https://[fe80::1%2]").is_https());
        assert_eq!(plain("https://[fe80::1%2]:443").authority(), "[fe80::1]");
        // A number may look like an escape.
        assert_eq!(plain("http://[fe80::1%25]").host_with_zone(), "fe80::1%2525");
        assert_eq!(plain("http://[fe80::1%2525]").host_with_zone(), "fe80::1%2525");
        for other in ["http://[::1]", "http://h/[%25a]", "http://h?[::1%25a]"] {
            let url = plain(other);
            assert_eq!(url.host_with_zone(), url.host());
        }
        for wrong in ["http://[fe80::1%]/", "http://[fe80::1%25a%20b]/", "http://[fe80::1%a:b]/"] {
            assert_eq!(Url::parse(wrong), Err(UrlError::Zone), "{wrong}");
        }
        assert!(Url::parse("http://h%25eth0/").is_err() && Url::parse("http://[h%25eth0]/").is_err());
        assert_eq!(Url::parse("http://u:p@[fe80::1%25eth0]/"), Err(UrlError::UserInfo));
    }

    #[test]
    fn the_scheme_stays_with_what_is_joined() {
        let schemes = ["http", "https"].map(|scheme| {
            let url = Url::parse(&format!("{scheme}://h/base")).expect("a good URL");
            let joined = url.join("/x").expect("a path");
            assert_eq!((joined.scheme(), joined.is_https()), (scheme, scheme == "https"));
            joined.to_string()
        });
        assert_eq!(schemes, ["http://h/base/x", "https://h/base/x"]);
    }

    #[test]
    fn the_query_grows_at_its_end() {
        let grown = |url: &str| {
            let mut url = Url::parse(url).expect("a good URL");
            url.push_query("b=2");
            url.push_query("");
            url.path_and_query().to_owned()
        };
        assert_eq!(grown("http://h/x"), "/x?b=2");
        assert_eq!(grown("http://h/x?"), "/x?b=2");
        assert_eq!(grown("http://h/x?a=1"), "/x?a=1&b=2");
    }

    #[test]
    fn a_path_is_joined_to_the_path_of_its_base() {
        let base = Url::parse("http://h:81/base/?a=1").expect("a good URL");
        let joined = |path| base.join(path).map(|url| url.to_string());
        assert_eq!(joined("/x?b=2").as_deref(), Some("http://h:81/base/x?b=2"));
        for wrong in ["x", "", "http://other/", "/x y", "/x\n"] {
            assert_eq!(joined(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn hosts_beyond_ascii_become_what_dns_knows() {
        for (url, host) in [
            ("http://bücher.example/", "xn--bcher-kva.example"),
            ("http://B\u{dc}CHER.example/", "xn--bcher-kva.example"),
            ("http://faß.example/", "xn--fa-hia.example"),
            ("http://例え.テスト/", "xn--r8jz45g.xn--zckzah"),
            ("http://ｅxample\u{3002}com/", "example.com"),
        ] {
            assert_eq!(Url::parse(url).expect(url).host(), host);
        }
        // Right to left and left to right in one label (RFC 5893).
        assert!(Url::parse("http://\u{5d0}a.example/").is_err());
    }

    #[test]
    fn bad_urls_name_what_is_wrong() {
        let fault = |url: &str| Url::parse(url).expect_err(url);
        assert!(matches!(fault("/path"), UrlError::Syntax(_)));
        assert!(matches!(fault("http://h:99999/"), UrlError::Syntax(_)));
        assert!(matches!(fault("http://xn--a/"), UrlError::Syntax(_)));
        assert_eq!(fault("ftp://h/"), UrlError::Scheme);
        assert_eq!(fault("https://user@h/"), UrlError::UserInfo);
        assert_eq!(fault("http://user:secret@h/"), UrlError::UserInfo);
        assert_eq!(fault("http://user@h/"), UrlError::UserInfo);
        assert_eq!(fault("http://:secret@h/"), UrlError::UserInfo);
        assert_eq!(fault("http://a\"b/"), UrlError::Host);
    }

    #[test]
    fn no_password_is_shown() {
        for url in ["http://user:se@cret@h/@", "ftp://user:se@cret@h/@", "http://user:se@cret@h:x/@"] {
            let shown = redact(url);
            assert!(!shown.contains("user") && !shown.contains("cret"), "{shown}");
            assert!(shown.contains("://...@h") && shown.contains("/@"), "{shown}");
        }
        for url in ["http://h/@", "http://h\\@", "http://h?@", "http://h#@"] {
            assert_eq!(redact(url), url);
        }
    }

    proptest! {
        #[test]
        fn the_short_way_agrees_with_the_general_one(
            scheme in prop_oneof![Just("http"), Just("https")],
            host in "[a-z0-9._-]{1,12}",
            port in prop_oneof![Just(String::new()), ":[0-9]{1,5}"],
            path in prop_oneof![Just(String::new()), "/[a-z0-9./?%&=+~:@!$,;'|^-]{0,20}"],
        ) {
            let url = format!("{scheme}://{host}{port}{path}");
            if let Some(short) = Url::parse_normal(&url) {
                let general = Url::parse_general(&url).expect("what the short way takes is a URL");
                prop_assert_eq!(short, general);
            }
        }
    }
}
