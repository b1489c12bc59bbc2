//! Cookies of clients: the field `set-cookie` as it is read, when a cookie may be kept and to which requests it goes, and the pairs of the
//! field `cookie` (RFC 6265bis).
//!
//! What a server sets is [`SetCookie`](crate::SetCookie). Where cookies are kept, and how many of them, is the client's.

mod date;
mod kept;
mod matching;
mod refused;

use std::time::{Duration, SystemTime};

use crate::SameSite;

pub use date::parse_date;
pub use kept::{Cookie, RequestUri};
pub use matching::{default_path, domain_matches, is_address, path_matches};
pub use refused::CookieRefused;

/// A field `set-cookie` as it came, split into its parts (RFC 6265bis section 5.6). Whether a client may keep the cookie is asked by
/// [`Cookie::received`].
///
/// ```
/// use anywire_http::cookie::ReceivedCookie;
///
/// let cookie = ReceivedCookie::parse(b"id=7; Path=/shop; Max-Age=60; HttpOnly; Other=1").expect("a cookie");
/// assert_eq!((cookie.name, cookie.value, cookie.path), ("id", "7", Some("/shop")));
/// assert!(cookie.is_http_only && !cookie.is_secure);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceivedCookie<'a> {
    /// The name. It may be empty.
    pub name: &'a str,
    /// The value: a secret often, so `Debug` does not show it.
    pub value: &'a str,
    /// The host of `Domain`, as it came, without a leading dot. `None` if there is none, or an empty one.
    pub domain: Option<&'a str>,
    /// The value of `Path`, if that begins with `/`.
    pub path: Option<&'a str>,
    /// Until when it is kept.
    pub lifetime: Lifetime,
    /// `Secure`: for connections that nobody listens in on.
    pub is_secure: bool,
    /// `HttpOnly`: out of reach of scripts.
    pub is_http_only: bool,
    /// `SameSite`, if it has one of the three known values.
    pub same_site: Option<SameSite>,
}

/// Until when a cookie is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifetime {
    /// Until the session of its client ends.
    #[default]
    Session,
    /// `Max-Age`, which counts more than `Expires`: for so long from when it was received. Zero removes it.
    For(Duration),
    /// `Expires`. One that has passed removes it.
    Until(SystemTime),
}

impl Lifetime {
    /// When a cookie ends that was received `now`: in [400 days](Self::LONGEST) at the latest. `None`: with the session.
    pub fn end(self, now: SystemTime) -> Option<SystemTime> {
        let latest = now.checked_add(Self::LONGEST).unwrap_or(now);
        match self {
            Self::Session => None,
            Self::For(age) if age.is_zero() => Some(SystemTime::UNIX_EPOCH),
            Self::For(age) => Some(now.checked_add(age).map_or(latest, |end| end.min(latest))),
            Self::Until(end) => Some(end.min(latest)),
        }
    }

    /// No cookie is kept for longer (RFC 6265bis section 5.5).
    pub const LONGEST: Duration = Duration::from_secs(400 * 24 * 60 * 60);
}

impl<'a> ReceivedCookie<'a> {
    /// Reads the value of a field `set-cookie`. `None` if it is to be ignored: it holds a control character, is larger than 4,096 bytes in
    /// name and value, has neither, or no name and a value with `=`, or its name, value or domain is not UTF-8.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        if line.iter().any(|byte| is_control(*byte)) {
            return None;
        }
        let mut parts = line.split(|byte| *byte == b';');
        let (name, value) = split_pair(parts.next()?).unwrap_or_else(|value| (&[][..], value));
        // Without a name a value with `=` would be sent as a cookie of another name.
        let is_ambiguous = name.is_empty() && (value.is_empty() || value.contains(&b'='));
        if name.len() + value.len() > COOKIE_BYTES_MAX || is_ambiguous {
            return None;
        }
        let mut cookie = Self {
            name: str::from_utf8(name).ok()?,
            value: str::from_utf8(value).ok()?,
            domain: None,
            path: None,
            lifetime: Lifetime::Session,
            is_secure: false,
            is_http_only: false,
            same_site: None,
        };
        let (mut max_age, mut expires) = (None, None);
        for part in parts {
            let (name, value) = split_pair(part).unwrap_or_else(|name| (name, &[]));
            if value.len() > ATTRIBUTE_BYTES_MAX {
                continue;
            }
            let is = |attribute: &str| name.eq_ignore_ascii_case(attribute.as_bytes());
            // The last one of a kind counts.
            if is("expires") {
                expires = parse_date(value).or(expires);
            } else if is("max-age") {
                max_age = parse_max_age(value).or(max_age);
            } else if is("domain") {
                let domain = value.strip_prefix(b".").unwrap_or(value);
                cookie.domain = Some(str::from_utf8(domain).ok()?).filter(|domain| !domain.is_empty());
            } else if is("path") {
                let path = str::from_utf8(value).ok();
                cookie.path = path.filter(|path| path.starts_with('/'));
            } else if is("secure") {
                cookie.is_secure = true;
            } else if is("httponly") {
                cookie.is_http_only = true;
            } else if is("samesite") {
                cookie.same_site = parse_same_site(value);
            }
        }
        cookie.lifetime = match (max_age, expires) {
            (Some(age), _) => Lifetime::For(age),
            (None, Some(date)) => Lifetime::Until(date),
            (None, None) => Lifetime::Session,
        };
        Some(cookie)
    }
}

impl std::fmt::Debug for ReceivedCookie<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceivedCookie")
            .field("name", &self.name)
            .field("domain", &self.domain)
            .field("path", &self.path)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}

/// The pairs of a field `cookie` in order: quotes around a value are a part of it, and nothing is decoded. A part without a name or
/// without `=` is skipped.
///
/// ```
/// let pairs: Vec<_> = anywire_http::cookie::pairs("a=1; alone; b=\"x y\"").collect();
/// assert_eq!(pairs, [("a", "1"), ("b", "\"x y\"")]);
/// ```
pub fn pairs(field: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = field;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (pair, behind) = split(rest, b';').unwrap_or((rest, ""));
            rest = behind;
            let Some((name, value)) = split(pair, b'=') else { continue };
            let name = name.trim_ascii();
            if !name.is_empty() {
                return Some((name, value.trim_ascii()));
            }
        }
        None
    })
}

/// What stands before and behind a byte. Cookies are short: a search by `str::split` costs more than a look at each byte.
fn split(text: &str, byte: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|found| found == byte)?;
    Some((&text[..at], &text[at + 1..]))
}

/// What stands before and behind the first `=`, or all of it if there is none. Without white space around.
fn split_pair(part: &[u8]) -> Result<(&[u8], &[u8]), &[u8]> {
    match part.iter().position(|byte| *byte == b'=') {
        Some(at) => Ok((trim(&part[..at]), trim(&part[at + 1..]))),
        None => Err(trim(part)),
    }
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// A control character other than a tab, which ends what is done with a cookie (RFC 6265bis section 5.6, step 1).
pub(crate) fn is_control(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0a..=0x1f | 0x7f)
}

/// RFC 6265bis section 5.6.2. A number that is larger than any is the largest.
fn parse_max_age(value: &[u8]) -> Option<Duration> {
    let (is_negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) || value.is_empty() {
        return None;
    }
    let add = |seconds: u64, digit: &u8| seconds.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    let seconds = digits.iter().fold(0, add);
    Some(Duration::from_secs(if is_negative { 0 } else { seconds }))
}

fn parse_same_site(value: &[u8]) -> Option<SameSite> {
    let all = [("strict", SameSite::Strict), ("lax", SameSite::Lax), ("none", SameSite::None)];
    let found = all.into_iter().find(|(name, _)| value.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(found.1)
}

/// Of name and value together; a client ignores a larger cookie (RFC 6265bis section 5.6).
pub const COOKIE_BYTES_MAX: usize = 4096;

/// Of an attribute's value; a client ignores a longer one (RFC 6265bis section 5.6).
pub(crate) const ATTRIBUTE_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    fn parse(line: &str) -> ReceivedCookie<'_> {
        ReceivedCookie::parse(line.as_bytes()).expect(line)
    }

    #[test]
    fn parts_are_trimmed_and_the_last_of_a_kind_counts() {
        let line = " a\t=\t1 2 ; DOMAIN=.X.example;domain=y.example; Path=/a; path=b ; secure=no;HttpOnly; SameSite=LAX";
        let cookie = parse(line);
        assert_eq!((cookie.name, cookie.value), ("a", "1 2"));
        assert_eq!((cookie.domain, cookie.path), (Some("y.example"), None));
        assert!(cookie.is_secure && cookie.is_http_only);
        assert_eq!(cookie.same_site, Some(SameSite::Lax));
        assert_eq!(parse("a=1; Domain=x.example; Domain=").domain, None);
        assert_eq!(parse("a=1; SameSite=Lax; SameSite=odd").same_site, None);
        assert_eq!(parse("a=b=\"c\"").value, "b=\"c\"");
    }

    #[test]
    fn a_cookie_may_lack_a_name_or_a_value_but_not_both() {
        assert_eq!((parse("alone").name, parse("alone").value), ("", "alone"));
        assert_eq!((parse("=x; Secure").name, parse("=x").value), ("", "x"));
        assert_eq!((parse("x=").name, parse("x=").value), ("x", ""));
        for wrong in ["", "=", " ; Secure", " = ; Path=/", "=__Host-x=1", "= = x"] {
            assert_eq!(ReceivedCookie::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_is_too_large_or_no_text_is_ignored() {
        let large = |length: usize| format!("a={}; Path=/x", "b".repeat(length));
        assert!(ReceivedCookie::parse(large(4095).as_bytes()).is_some());
        assert!(ReceivedCookie::parse(large(4096).as_bytes()).is_none());
        let long = format!("a=1; Path=/x; Path=/{}; Domain={}", "y".repeat(1024), "z".repeat(1025));
        assert_eq!((parse(&long).path, parse(&long).domain), (Some("/x"), None));
        for wrong in [&b"a=1\x00"[..], b"a=1; x\x1f", b"a=\x7f", b"a=\xff", b"a=1; Domain=\xff"] {
            assert_eq!(ReceivedCookie::parse(wrong), None, "{wrong:?}");
        }
        assert!(ReceivedCookie::parse(b"a=1\t2; Other=\xff").is_some());
    }

    #[test]
    fn max_age_counts_more_than_expires_and_neither_more_than_400_days() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let end = |line: &str| {
            let end = parse(line).lifetime.end(now);
            end.map(|end| end.duration_since(UNIX_EPOCH).expect("after 1970").as_secs())
        };
        assert_eq!(end("a=1"), None);
        assert_eq!(end("a=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:01:00 GMT"), Some(1_000_060));
        assert_eq!(end("a=1; Expires=Thu, 01 Jan 1970 00:01:00 GMT"), Some(60));
        assert_eq!(end("a=1; Max-Age=0"), Some(0));
        assert_eq!(end("a=1; Max-Age=-1"), Some(0));
        let longest = Some(1_000_000 + Lifetime::LONGEST.as_secs());
        assert_eq!(end("a=1; Max-Age=99999999999999999999999"), longest);
        assert_eq!(end("a=1; Expires=Thu, 01 Jan 9999 00:00:00 GMT"), longest);
        for none in ["Max-Age=", "Max-Age=1.5", "Max-Age=+1", "Max-Age=1 0", "Max-Age=\"1\"", "Expires=soon"]
        {
            assert_eq!(end(&format!("a=1; {none}")), None, "{none}");
        }
        // One that is none does not undo the one before it.
        assert_eq!(end("a=1; Max-Age=60; Max-Age=x"), Some(1_000_060));
    }

    #[test]
    fn no_value_is_shown() {
        assert!(!format!("{:?}", parse("id=secret")).contains("secret"));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_ignored(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(cookie) = ReceivedCookie::parse(&line) {
                let all = [cookie.name, cookie.value, cookie.path.unwrap_or_default()];
                prop_assert!(all.iter().all(|part| !part.contains(';') && !part.bytes().any(is_control)));
                prop_assert!(!cookie.name.contains('='));
            }
        }
    }
}
