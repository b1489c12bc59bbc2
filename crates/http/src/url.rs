//! An absolute `http` or `https` URL, checked and normalised, in one piece of text.
//!
//! Most URLs are already in normal form. Those are recognised in one pass without the general parser, because this
//! runs for each call of a client. All others (upper case, user-info, dot segments, non-ASCII, IPv6 ...) go through
//! the `url` crate, and both ways give the same text.

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

    /// Adds pairs to the query as they are, if they are percent-encoded already.
    ///
    /// # Errors
    ///
    /// [`UrlError::Query`] if they hold anything that no query has: a blank, a control character, `#`, what is no ASCII, or a `%` without
    /// two digits.
    pub fn push_encoded(&mut self, pairs: &str) -> Result<(), UrlError> {
        let is_of_query = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte);
        let mut escapes = pairs.split('%').skip(1).map(|rest| rest.as_bytes());
        let is_escaped = escapes.all(|rest| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit));
        if !is_escaped || !pairs.bytes().all(is_of_query) {
            return Err(UrlError::Query);
        }
        self.push_query(pairs);
        Ok(())
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
            Some(rest) => (rest, HTTP_PORT),
            None => (url.strip_prefix(HTTPS)?, HTTPS_PORT),
        };
        let bytes = rest.as_bytes();
        let host_length = normal_host_length(bytes)?;
        let authority_length = match bytes.get(host_length) {
            Some(b':') => host_length + 1 + normal_port_length(&bytes[host_length + 1..], default_port)?,
            _ => host_length,
        };
        let path = &bytes[authority_length..];
        if !matches!(path, [] | [b'/', ..]) || !is_normal_path(path) {
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
    /// The pairs that were to be added to its query are not percent-encoded (RFC 3986 section 3.4).
    #[error("the pairs hold what a query may not have{help}", help = Advice("percent-encode all but letters, digits, -._~"))]
    Query,
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

/// The length of the port at the start of `text`, if it is as the URL standard prints it: no leading zero, not the default one.
fn normal_port_length(text: &[u8], default: u16) -> Option<usize> {
    let (mut port, mut length) = (0_u32, 0);
    while let Some(digit @ b'0'..=b'9') = text.get(length) {
        port = port * 10 + u32::from(digit - b'0');
        length += 1;
        if port == 0 || port > u32::from(u16::MAX) {
            return None;
        }
    }
    (length > 0 && port != u32::from(default)).then_some(length)
}

/// The length of the host at the start of `text`, if the URL standard prints it as it is.
///
/// By bytes and in one pass: the searches of text for characters took 300 instructions more.
fn normal_host_length(text: &[u8]) -> Option<usize> {
    let (mut length, mut label, mut dashes) = (0, 0, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if PLAIN_IN_HOST[usize::from(byte)] => {}
            b'-' => dashes |= at > 0 && text[at - 1] == b'-',
            // The dot at the end of a name begins no label.
            b'.' if matches!(text.get(at + 1), None | Some(b':' | b'/')) => {}
            b'.' => label = at + 1,
            _ => break,
        }
        length = at + 1;
    }
    // A last label that starts with a digit makes the host an IPv4 address in some spelling (WHATWG URL, host
    // parser), and `xn--` is checked by IDNA: both are for the general parser unless plainly normal.
    let is_normal = match text[..length].get(label)? {
        b'0'..=b'9' => is_normal_ipv4(&text[..length]),
        b'.' => false,
        _ => !dashes || !text[..length].windows(4).any(|window| window == b"xn--"),
    };
    is_normal.then_some(length)
}

/// Whether these are four numbers of a byte each, without leading zeros.
fn is_normal_ipv4(host: &[u8]) -> bool {
    let (mut numbers, mut at) = (0, 0);
    loop {
        let (begin, mut number) = (at, 0_u32);
        while let Some(digit @ b'0'..=b'9') = host.get(at).filter(|_| at - begin < 3) {
            number = number * 10 + u32::from(digit - b'0');
            at += 1;
        }
        let has_leading_zero = host.get(begin) == Some(&b'0') && at - begin > 1;
        if at == begin || number > 255 || has_leading_zero {
            return false;
        }
        numbers += 1;
        match host.get(at) {
            None => return numbers == 4,
            Some(b'.') if numbers < 4 => at += 1,
            Some(_) => return false,
        }
    }
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

/// Letters in lower case, digits and `_`.
const PLAIN_IN_HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8, b'a'..=b'z' | b'0'..=b'9' | b'_');
        byte += 1;
    }
    table
};

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
mod tests;
