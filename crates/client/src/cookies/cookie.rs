//! A cookie that is kept.

use std::fmt;
use std::time::SystemTime;

use anywire_http::SameSite;
use anywire_http::cookie::COOKIE_BYTES_MAX;

use super::CookieRefused;
use super::matching::{is_address, is_public_suffix};

/// A cookie of a [`CookieJar`](super::CookieJar). `Debug` does not show its value.
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
    /// use anywire_client::cookies::Cookie;
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

    /// Bytes that count against [`CookieLimits::bytes`](super::CookieLimits::bytes).
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }

    /// Whether it may be kept, if a program or a file says so: as for one that came from its domain over TLS.
    pub(super) fn check(&self) -> Result<(), CookieRefused> {
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
    pub(super) fn check_promises(&self) -> Result<(), CookieRefused> {
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
