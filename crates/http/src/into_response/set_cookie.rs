//! A cookie that a response sets, by RFC 6265bis.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use super::IntoResponseParts;
use crate::cookie::{ATTRIBUTE_BYTES_MAX, COOKIE_BYTES_MAX};
use crate::headers::is_token;
use crate::{InvalidHeader, Response};

/// A cookie to be set, as a part of a response. Unless it is told otherwise it is for all paths of this host, over TLS alone, out of
/// reach of scripts, not sent by other sites except when they link here, and forgotten when the browser is closed.
///
/// What a browser would not take, or take for something else, is a [fault](Response::fault): a server logs it and answers 500. Such
/// are a name that is no token, a value with white space, `"`, `,`, `;` or `\`, more than 4,096 bytes of both, `SameSite=None` without
/// `Secure`, and a name that begins with `__Host-` or `__Secure-` without what that promises.
///
/// ```
/// use std::time::Duration;
/// use anywire_http::{IntoResponse, SameSite, SetCookie};
///
/// let cookie = SetCookie::new("session", "dGVh").max_age(Duration::from_secs(3600)).same_site(SameSite::Strict);
/// let response = (cookie, "welcome").into_response();
/// let line = "session=dGVh; Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Strict";
/// assert_eq!(response.headers.get("set-cookie"), Some(line));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct SetCookie {
    name: Cow<'static, str>,
    value: Cow<'static, str>,
    path: Cow<'static, str>,
    domain: Option<Cow<'static, str>>,
    max_age: Option<Duration>,
    same_site: SameSite,
    is_secure: bool,
    is_http_only: bool,
    is_partitioned: bool,
}

/// With which requests of other sites a browser sends a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SameSite {
    /// With none.
    Strict,
    /// When a link leads here.
    #[default]
    Lax,
    /// With all. Only over TLS.
    None,
}

impl SetCookie {
    /// A cookie with the defaults above.
    pub fn new(name: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            path: "/".into(),
            domain: None,
            max_age: None,
            same_site: SameSite::default(),
            is_secure: true,
            is_http_only: true,
            is_partitioned: false,
        }
    }

    /// Removes a cookie. Path and domain have to be those with which it was set.
    pub fn removal(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, "").max_age(Duration::ZERO)
    }

    /// For this path and those below it. It begins with `/`.
    pub fn path(mut self, path: impl Into<Cow<'static, str>>) -> Self {
        self.path = path.into();
        self
    }

    /// For this host and those below it, instead of the one that sets it.
    pub fn domain(mut self, host: impl Into<Cow<'static, str>>) -> Self {
        self.domain = Some(host.into());
        self
    }

    /// Kept for so long, in whole seconds, rounded up. Browsers keep none for longer than 400 days.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// With which requests of other sites it is sent.
    pub fn same_site(mut self, same_site: SameSite) -> Self {
        self.same_site = same_site;
        self
    }

    /// Sent in clear text, too.
    pub fn in_clear_text(mut self) -> Self {
        self.is_secure = false;
        self
    }

    /// Read by scripts, too.
    pub fn for_scripts(mut self) -> Self {
        self.is_http_only = false;
        self
    }

    /// Kept apart for each site that embeds this one (`Partitioned`).
    pub fn partitioned(mut self) -> Self {
        self.is_partitioned = true;
        self
    }

    /// The value of the field, if a browser would take it.
    fn to_value(&self) -> Result<String, InvalidHeader> {
        self.check()?;
        let mut line = format!("{}={}; Path={}", self.name, self.value, self.path);
        if let Some(domain) = &self.domain {
            let _ = write!(line, "; Domain={domain}");
        }
        if let Some(age) = self.max_age {
            // 0 would remove it at once.
            let seconds = age.as_secs().saturating_add(u64::from(age.subsec_nanos() > 0));
            let _ = write!(line, "; Max-Age={seconds}");
        }
        if self.is_secure {
            line.push_str("; Secure");
        }
        if self.is_http_only {
            line.push_str("; HttpOnly");
        }
        line.push_str(match self.same_site {
            SameSite::Strict => "; SameSite=Strict",
            SameSite::Lax => "; SameSite=Lax",
            SameSite::None => "; SameSite=None",
        });
        if self.is_partitioned {
            line.push_str("; Partitioned");
        }
        Ok(line)
    }

    fn check(&self) -> Result<(), InvalidHeader> {
        let Self { name, value, path, domain, .. } = self;
        let shown: String = name.chars().take(64).flat_map(char::escape_default).collect();
        let refused =
            |found: String, remedy| Err(InvalidHeader::Meaning { name: "set-cookie", found, remedy });
        if !is_token(name.as_bytes()) {
            return refused(
                format!("`{shown}` is not the name of a cookie"),
                "use letters, digits and any of !#$%&'*+-.^_`|~",
            );
        }
        // The value may be a secret, and is not shown.
        let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        if let Some(byte) = bare.bytes().find(|byte| !is_cookie_byte(*byte)) {
            return refused(
                format!("the value of the cookie `{shown}` holds byte {byte:#04x}"),
                "encode it, such as by base64url or percent-encoding",
            );
        }
        if name.len() + value.len() > COOKIE_BYTES_MAX {
            return refused(
                format!("the cookie `{shown}` has more than {COOKIE_BYTES_MAX} bytes, which browsers ignore"),
                "keep the data on the server, and its key in the cookie",
            );
        }
        let is_path =
            path.starts_with('/') && path.bytes().all(|byte| matches!(byte, b' '..=b'~' if byte != b';'));
        if !is_path || path.len() > ATTRIBUTE_BYTES_MAX {
            return refused(
                format!("the path of the cookie `{shown}` is none"),
                "begin with `/`, and percent-encode `;` and what is not ASCII",
            );
        }
        let is_host = |host: &str| {
            let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.bytes().all(is_host_byte)
        };
        if domain.as_deref().is_some_and(|host| !is_host(host)) {
            return refused(
                format!("the domain of the cookie `{shown}` is no host"),
                "give a name without port",
            );
        }
        let needs_secure = self.same_site == SameSite::None || self.is_partitioned;
        let begins =
            |prefix: &str| name.get(..prefix.len()).is_some_and(|found| found.eq_ignore_ascii_case(prefix));
        if !self.is_secure && (needs_secure || begins("__Secure-")) {
            return refused(
                format!(
                    "the cookie `{shown}` is for TLS alone by its name, `SameSite=None` or `Partitioned`"
                ),
                "leave out in_clear_text()",
            );
        }
        if begins("__Host-") && (!self.is_secure || &**path != "/" || domain.is_some()) {
            return refused(
                format!("the cookie `{shown}` promises by its name to be of one host, all paths and TLS"),
                "leave out domain(), path() and in_clear_text()",
            );
        }
        Ok(())
    }
}

impl IntoResponseParts for SetCookie {
    fn set_on(self, response: &mut Response) {
        let added = self.to_value().and_then(|value| response.headers.append("set-cookie", value));
        response.note(added);
    }
}

/// `cookie-octet` (RFC 6265bis section 4.1.1).
fn is_cookie_byte(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

/// Of a name in the DNS (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IntoResponse;

    fn line(cookie: SetCookie) -> String {
        let response = cookie.into_response();
        assert!(response.fault().is_none(), "{:?}", response.fault());
        response.headers.get("set-cookie").expect("a cookie").to_owned()
    }

    #[test]
    fn a_part_of_a_second_is_no_removal() {
        for (age, seconds) in [(0, "0"), (1, "1"), (1000, "1"), (1001, "2")] {
            let line = line(SetCookie::new("a", "b").max_age(Duration::from_millis(age)));
            assert!(line.contains(&format!("; Max-Age={seconds};")), "{line}");
        }
        assert!(
            line(SetCookie::new("a", "b").max_age(Duration::MAX)).contains("; Max-Age=18446744073709551615;")
        );
    }

    #[test]
    fn cookies_are_safe_unless_told_otherwise() {
        assert_eq!(line(SetCookie::new("a", "1")), "a=1; Path=/; Secure; HttpOnly; SameSite=Lax");
        let open = SetCookie::new("a", "\"1\"")
            .path("/shop")
            .domain("shop.example")
            .max_age(Duration::from_millis(1999))
            .in_clear_text()
            .for_scripts();
        assert_eq!(line(open), "a=\"1\"; Path=/shop; Domain=shop.example; Max-Age=2; SameSite=Lax");
        let embedded = SetCookie::new("__Host-a", "1").same_site(SameSite::None).partitioned();
        assert_eq!(line(embedded), "__Host-a=1; Path=/; Secure; HttpOnly; SameSite=None; Partitioned");
        let removal = SetCookie::removal("a").path("/shop");
        assert_eq!(line(removal), "a=; Path=/shop; Max-Age=0; Secure; HttpOnly; SameSite=Lax");
        assert_eq!(line(SetCookie::new("a", "b".repeat(4095))).len(), 4096 + 41);
    }

    #[test]
    fn several_cookies_are_several_fields() {
        let response = (SetCookie::new("a", "1"), SetCookie::new("b", "2"), "text").into_response();
        assert_eq!(response.headers.get_all("set-cookie").count(), 2);
    }

    #[test]
    fn what_a_browser_would_not_take_is_a_fault() {
        let ok = || SetCookie::new("a", "1");
        let bad = [
            SetCookie::new("", "1"),
            SetCookie::new("a b", "1"),
            SetCookie::new("a=b", "1"),
            SetCookie::new("a\r\nx", "1"),
            SetCookie::new("ä", "1"),
            SetCookie::new("a", "1; Domain=evil.example"),
            SetCookie::new("a", "1\r\nx: y"),
            SetCookie::new("a", "1,2"),
            SetCookie::new("a", "\"1"),
            SetCookie::new("a", "1 2"),
            SetCookie::new("a", "ä"),
            SetCookie::new("a", "b".repeat(4096)),
            ok().path("shop"),
            ok().path("/; Domain=evil.example"),
            ok().path("/\n"),
            ok().path(format!("/{}", "a".repeat(1024))),
            ok().domain(""),
            ok().domain("a;b"),
            ok().domain("a:80"),
            ok().domain("a".repeat(254)),
            ok().same_site(SameSite::None).in_clear_text(),
            ok().partitioned().in_clear_text(),
            SetCookie::new("__Secure-a", "1").in_clear_text(),
            SetCookie::new("__host-a", "1").path("/shop"),
            SetCookie::new("__Host-a", "1").domain("shop.example"),
            SetCookie::new("__Host-a", "1").in_clear_text(),
        ];
        for cookie in bad {
            let response = cookie.clone().into_response();
            assert!(matches!(response.fault(), Some(InvalidHeader::Meaning { .. })), "{cookie:?}");
            assert!(response.headers.is_empty(), "{cookie:?}");
        }
    }
}
