//! A cookie that a client keeps: what of a field `set-cookie` becomes one, and to which requests it goes (RFC 6265bis sections 5.7
//! and 5.8.3).
//!
//! Where cookies are kept, and how many, is the client's. A list of public suffixes is not here either: who has one asks it.

use std::fmt;
use std::time::SystemTime;

use super::matching::{default_path, domain_matches, is_address, path_matches, path_of};
use super::{COOKIE_BYTES_MAX, CookieRefused, ReceivedCookie};
use crate::{SameSite, Url};

/// A cookie that a client keeps. `Debug` does not show its value.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cookie {
    /// The name. It may be empty.
    pub name: String,
    /// The value.
    pub value: String,
    /// The host that gets it, in lower case and without a leading dot.
    pub domain: String,
    /// Whether that host alone gets it, and not those below it.
    pub is_host_only: bool,
    /// It is for this path and those below it.
    pub path: String,
    /// When it ends. `None`: with the session.
    pub expires: Option<SystemTime>,
    /// Sent over `https` only.
    pub is_secure: bool,
    /// Out of reach of scripts, which this client has none of.
    pub is_http_only: bool,
    /// With which requests of other sites a browser would send it.
    pub same_site: Option<SameSite>,
}

impl Cookie {
    /// A cookie of the session for this host alone, and all paths of it.
    ///
    /// ```
    /// use anywire_http::cookie::Cookie;
    ///
    /// let mut cookie = Cookie::new("shop.example", "id", "7");
    /// cookie.is_secure = true;
    /// ```
    pub fn new(host: impl Into<String>, name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            domain: host.into(),
            is_host_only: true,
            path: "/".to_owned(),
            expires: None,
            is_secure: false,
            is_http_only: false,
            same_site: None,
        }
    }

    /// The cookie that a response to `request` sets (RFC 6265bis section 5.7). It may have [ended](CookieRefused::Ended) already, which removes
    /// the one that it [replaces](Self::replaces). Its [promises](Self::check_promises) are not checked yet.
    ///
    /// ```
    /// use std::time::SystemTime;
    ///
    /// use anywire_http::cookie::{Cookie, ReceivedCookie, RequestUri};
    ///
    /// let (now, login) = (SystemTime::now(), RequestUri { is_https: true, host: "shop.example", path: "/login" });
    /// let received = ReceivedCookie::parse(b"id=7; Path=/; Secure").expect("a cookie");
    /// let cookie = Cookie::received(login, &received, |domain| !domain.contains('.'), now)?;
    /// cookie.check_promises()?;
    /// assert!(cookie.goes_to(RequestUri { path: "/cart", ..login }, now));
    /// assert!(!cookie.goes_to(RequestUri { is_https: false, ..login }, now));
    /// # Ok::<(), anywire_http::cookie::CookieRefused>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Why it is not to be kept.
    pub fn received(
        request: RequestUri<'_>,
        received: &ReceivedCookie<'_>,
        is_public_suffix: impl Fn(&str) -> bool,
        now: SystemTime,
    ) -> Result<Self, CookieRefused> {
        let RequestUri { is_https, host, path } = request;
        let domain = match received.domain.map(str::to_ascii_lowercase) {
            Some(domain) if !domain.is_ascii() => return Err(CookieRefused::OtherDomain),
            // Such a cookie is for this host alone.
            Some(domain) if domain == host && (is_public_suffix(host) || is_address(host)) => None,
            Some(domain) if is_public_suffix(&domain) => return Err(CookieRefused::PublicSuffix),
            Some(domain) if !domain_matches(host, &domain) => return Err(CookieRefused::OtherDomain),
            domain => domain,
        };
        let cookie = Self {
            name: received.name.to_owned(),
            value: received.value.to_owned(),
            is_host_only: domain.is_none(),
            domain: domain.unwrap_or_else(|| host.to_owned()),
            path: received.path.unwrap_or_else(|| default_path(path)).to_owned(),
            expires: received.lifetime.end(now),
            is_secure: received.is_secure,
            is_http_only: received.is_http_only,
            same_site: received.same_site,
        };
        if cookie.is_secure && !is_https {
            return Err(CookieRefused::ClearText);
        }
        Ok(cookie)
    }

    /// Whether it goes with a request at this time.
    pub fn goes_to(&self, request: RequestUri<'_>, now: SystemTime) -> bool {
        let RequestUri { is_https, host, path } = request;
        let is_for_host =
            if self.is_host_only { host == self.domain } else { domain_matches(host, &self.domain) };
        is_for_host && (is_https || !self.is_secure) && path_matches(path, &self.path) && !self.has_ended(now)
    }

    /// Whether it has ended by this time.
    pub fn has_ended(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// Whether it takes the place of another one: that has its name, domain and path.
    pub fn replaces(&self, other: &Self) -> bool {
        self.name == other.name
            && self.is_host_only == other.is_host_only
            && self.domain == other.domain
            && self.path == other.path
    }

    /// How it stands in the field `cookie`, in parts: `name=value`, or the value alone.
    pub fn pair(&self) -> [&str; 3] {
        let between = if self.name.is_empty() { "" } else { "=" };
        [&self.name, between, &self.value]
    }

    /// Bytes of its name, value, domain and path.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }

    /// Whether it may be kept, if a program or a file says so: as for one that came from its domain over TLS.
    ///
    /// # Errors
    ///
    /// Why it may not.
    pub fn check(&self, is_public_suffix: impl Fn(&str) -> bool) -> Result<(), CookieRefused> {
        let Self { name, value, domain, path, .. } = self;
        if name.is_empty() && value.is_empty() || name.len() + value.len() > COOKIE_BYTES_MAX {
            return Err(CookieRefused::Malformed);
        }
        let is_text =
            |text: &str| !text.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t' || byte == b';');
        let is_trimmed = |text: &str| text.trim_matches([' ', '\t']).len() == text.len();
        if ![name, value, path].into_iter().all(|text| is_text(text)) || !path.starts_with('/') {
            return Err(CookieRefused::Malformed);
        }
        if name.contains('=')
            || (name.is_empty() && value.contains('='))
            || !is_trimmed(name)
            || !is_trimmed(value)
        {
            return Err(CookieRefused::Malformed);
        }
        let is_host =
            |byte: u8| matches!(byte, b'!'..=b'~') && !byte.is_ascii_uppercase() && !b"/;,\"".contains(&byte);
        if domain.is_empty() || domain.starts_with('.') || !domain.bytes().all(is_host) {
            return Err(CookieRefused::Malformed);
        }
        if !self.is_host_only && (is_address(domain) || is_public_suffix(domain)) {
            return Err(CookieRefused::PublicSuffix);
        }
        self.check_promises()
    }

    /// Whether it is what its name and `SameSite` promise (RFC 6265bis sections 4.1.3 and 5.7).
    ///
    /// # Errors
    ///
    /// [`Prefix`](CookieRefused::Prefix).
    pub fn check_promises(&self) -> Result<(), CookieRefused> {
        let Self { name, value, path, .. } = self;
        if self.same_site == Some(SameSite::None) && !self.is_secure {
            return Err(CookieRefused::Prefix);
        }
        // A server that reads only values would take a cookie without a name for one with a prefix.
        let named = if name.is_empty() { value } else { name };
        let begins =
            |prefix: &str| named.get(..prefix.len()).is_some_and(|found| found.eq_ignore_ascii_case(prefix));
        let (of_tls, of_host) = (begins("__Secure-"), begins("__Host-"));
        let is_kept =
            (!of_tls || self.is_secure) && (!of_host || (self.is_secure && self.is_host_only && path == "/"));
        match is_kept && !(name.is_empty() && (of_tls || of_host)) {
            true => Ok(()),
            false => Err(CookieRefused::Prefix),
        }
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cookie")
            .field("name", &self.name)
            .field("domain", &self.domain)
            .field("is_host_only", &self.is_host_only)
            .field("path", &self.path)
            .field("expires", &self.expires)
            .field("is_secure", &self.is_secure)
            .finish_non_exhaustive()
    }
}

/// The URI of a request, as far as cookies look at it.
///
/// ```
/// use anywire_http::Url;
/// use anywire_http::cookie::RequestUri;
///
/// let url: Url = "https://shop.example:8443/cart?id=7".parse()?;
/// let uri = RequestUri::from(&url);
/// assert_eq!((uri.is_https, uri.host, uri.path), (true, "shop.example", "/cart"));
/// # Ok::<(), anywire_http::url::UrlError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestUri<'a> {
    /// Whether its scheme is `https`.
    pub is_https: bool,
    /// The host in lower case, without a port.
    pub host: &'a str,
    /// The path, without a query.
    pub path: &'a str,
}

impl<'a> RequestUri<'a> {
    /// That of a request with this target, which may have a query.
    pub fn new(is_https: bool, host: &'a str, target: &'a str) -> Self {
        Self { is_https, host, path: path_of(target) }
    }
}

impl<'a> From<&'a Url> for RequestUri<'a> {
    fn from(url: &'a Url) -> Self {
        Self::new(url.is_https(), url.host(), url.path_and_query())
    }
}
