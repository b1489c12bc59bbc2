//! One proxy: where it is, what it speaks, and who we are to it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use anywire_http::Url;
use anywire_http::url::redact;
use anywire_wire::{Address, ToAddress};

use super::error::ProxyUrlError;
use crate::pool::over_tls;

/// A proxy, by its URL: `http://host:3128`, `https://user:password@host`, `socks5h://host`. All of its clones are one.
///
/// | scheme | speaks | port, if none is given | who resolves the name of the origin |
/// | --- | --- | --- | --- |
/// | `http`, or none | HTTP/1.1 | 80 | the proxy |
/// | `https` | HTTP/1.1 over TLS; the proxy has to prove its host | 443 | the proxy |
/// | `socks5` | SOCKS5 | 1080 | this machine |
/// | `socks5h`, `socks` | SOCKS5 | 1080 | the proxy |
///
/// User and password in the URL are percent-encoded. They go to the proxy alone: to an HTTP proxy as `proxy-authorization`, to one of
/// SOCKS5 by RFC 1929. What is shown of a proxy does not have them.
///
/// ```
/// use anywire_client::proxy::Proxy;
///
/// let proxy: Proxy = "http://me:s%20cret@proxy.example:3128".parse()?;
/// assert_eq!(proxy.to_string(), "http://proxy.example:3128");
/// assert_eq!(format!("{proxy:?}"), "Proxy(http://...@proxy.example:3128)");
/// # Ok::<(), anywire_client::proxy::ProxyUrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Proxy {
    shared: Arc<Shared>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Shared {
    kind: Kind,
    /// A name or an IP address, without brackets.
    host: String,
    port: u16,
    /// Where to connect, with TLS if the scheme is `https`.
    address: Address,
    login: Option<Login>,
}

/// What a proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Http,
    Https,
    /// Names are resolved here.
    Socks5,
    /// Names are resolved by the proxy.
    Socks5h,
}

impl Kind {
    fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks5 => "socks5",
            Self::Socks5h => "socks5h",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Socks5 | Self::Socks5h => 1080,
        }
    }
}

/// Who we are to a proxy. It has no `Debug`, so that nothing prints it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Login {
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

impl Proxy {
    /// The proxy for this user, instead of the one in its URL.
    #[must_use]
    pub fn basic_auth(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        let login = Login { user: user.into().into(), password: password.into().into() };
        Self::of(Shared { login: Some(login), ..self.into_shared() })
    }

    /// The proxy, connected to over another wire than TCP, or at another place than its host: `unix:/run/proxy.sock`. If its scheme is
    /// `https`, TLS is spoken there, and its host has to be proved.
    ///
    /// # Errors
    /// [`ProxyUrlError::Via`] names the part of the address that is wrong.
    pub fn via(self, address: impl ToAddress) -> Result<Self, ProxyUrlError> {
        let mut address = address.to_address().map_err(|source| ProxyUrlError::Via { source })?;
        if self.is_https() {
            address = over_tls(&address).map_err(|_| ProxyUrlError::Tls)?;
        }
        Ok(Self::of(Shared { address, ..self.into_shared() }))
    }

    /// The host: a name, or an IP address without brackets.
    pub fn host(&self) -> &str {
        &self.shared.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.shared.port
    }

    /// `http`, `https`, `socks5` or `socks5h`.
    pub fn scheme(&self) -> &'static str {
        self.kind().scheme()
    }

    /// Whether it is spoken to over TLS.
    pub fn is_https(&self) -> bool {
        self.kind() == Kind::Https
    }

    /// Whether it speaks SOCKS5, not HTTP.
    pub fn is_socks(&self) -> bool {
        matches!(self.kind(), Kind::Socks5 | Kind::Socks5h)
    }

    /// Where to connect.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    pub(crate) fn kind(&self) -> Kind {
        self.shared.kind
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.shared.login.as_ref()
    }

    fn of(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    fn into_shared(self) -> Shared {
        Arc::unwrap_or_clone(self.shared)
    }
}

impl FromStr for Proxy {
    type Err = ProxyUrlError;

    fn from_str(text: &str) -> Result<Self, ProxyUrlError> {
        let shown = || redact(text);
        let (scheme, rest) = text.trim().split_once("://").unwrap_or(("http", text.trim()));
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "http" => Kind::Http,
            "https" => Kind::Https,
            "socks5" => Kind::Socks5,
            "socks5h" | "socks" => Kind::Socks5h,
            _ => return Err(ProxyUrlError::Scheme { url: shown() }),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let login = match login {
            Some(login) => Some(Login::parse(login).ok_or_else(|| ProxyUrlError::UserInfo { url: shown() })?),
            None => None,
        };
        // As a URL it has one spelling, and names beyond ASCII become what DNS knows.
        let url = Url::parse(&format!("http://{place}"))
            .ok()
            .filter(|_| !place.contains(['/', '\\', '?', '#']))
            .ok_or_else(|| ProxyUrlError::Place { url: shown() })?;
        // What is behind the host: the URL drops port 80, which is another one's default.
        let has_port =
            place.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && !port.ends_with(']'));
        let port = if has_port { url.port() } else { kind.default_port() };
        let plain = Address::from_host(url.host_with_zone(), port)
            .map_err(|_| ProxyUrlError::Place { url: shown() })?;
        let address = match kind {
            Kind::Https => over_tls(&plain).map_err(|_| ProxyUrlError::Tls)?,
            _ => plain,
        };
        Ok(Self::of(Shared { kind, host: url.host().to_owned(), port, address, login }))
    }
}

/// Its URL, without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "")
    }
}

/// Its URL, with `...` for user and password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proxy(")?;
        self.write(f, if self.login().is_some() { "...@" } else { "" })?;
        f.write_str(")")
    }
}

impl Proxy {
    fn write(&self, f: &mut fmt::Formatter<'_>, login: &str) -> fmt::Result {
        let (scheme, host, port) = (self.scheme(), self.host(), self.port());
        match host.contains(':') {
            true => write!(f, "{scheme}://{login}[{host}]:{port}"),
            false => write!(f, "{scheme}://{login}{host}:{port}"),
        }
    }
}

impl Login {
    /// From `user:password` of a URL, percent-encoded. A user alone has an empty password.
    fn parse(text: &str) -> Option<Self> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Some(Self { user: decoded(user)?, password: decoded(password)? })
    }
}

/// The bytes of a percent-encoded text.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.as_bytes().split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(code[0])? << 4 | digit(code[1])?) as u8);
        bytes.extend_from_slice(rest);
    }
    Some(bytes)
}

/// What functions accept as a proxy: a [`Proxy`], or its URL.
pub trait ToProxy {
    /// The proxy.
    ///
    /// # Errors
    /// [`ProxyUrlError`] names the part of the URL that is wrong.
    fn to_proxy(self) -> Result<Proxy, ProxyUrlError>;
}

impl ToProxy for Proxy {
    fn to_proxy(self) -> Result<Proxy, ProxyUrlError> {
        Ok(self)
    }
}

impl ToProxy for &Proxy {
    fn to_proxy(self) -> Result<Proxy, ProxyUrlError> {
        Ok(self.clone())
    }
}

impl ToProxy for &str {
    fn to_proxy(self) -> Result<Proxy, ProxyUrlError> {
        self.parse()
    }
}

impl ToProxy for &String {
    fn to_proxy(self) -> Result<Proxy, ProxyUrlError> {
        self.parse()
    }
}

impl ToProxy for String {
    fn to_proxy(self) -> Result<Proxy, ProxyUrlError> {
        self.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_one_spelling_and_a_default_port() {
        for (text, shown) in [
            ("proxy", "http://proxy:80"),
            ("proxy:3128", "http://proxy:3128"),
            ("HTTP://Proxy:80/", "http://proxy:80"),
            ("https://proxy", "https://proxy:443"),
            ("https://proxy:80", "https://proxy:80"),
            ("socks5://proxy", "socks5://proxy:1080"),
            ("socks5://proxy:80", "socks5://proxy:80"),
            ("SOCKS5H://127.1:9", "socks5h://127.0.0.1:9"),
            ("socks://[::1]", "socks5h://[::1]:1080"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("http://b\u{fc}cher.example", "http://xn--bcher-kva.example:80"),
        ] {
            let Ok(proxy) = text.parse::<Proxy>() else {
                assert!(text.starts_with("https") && cfg!(not(feature = "tls")), "{text}");
                continue;
            };
            assert_eq!(proxy.to_string(), shown);
            assert_eq!(shown.parse::<Proxy>().as_ref(), Ok(&proxy), "its text is its URL");
            assert_eq!(proxy.address().port(), Some(proxy.port()));
        }
    }

    #[test]
    fn a_login_is_decoded_and_never_shown() {
        let proxy: Proxy = "http://m%65:p%40s%3As@h".parse().expect("a proxy");
        let login = proxy.login().expect("a login");
        assert_eq!((&*login.user, &*login.password), (&b"me"[..], &b"p@s:s"[..]));
        let alone: Proxy = "socks5://me@h".parse().expect("a proxy");
        assert_eq!(alone.login().map(|login| login.password.len()), Some(0));
        assert_ne!(alone, "socks5://h".parse().expect("a proxy"), "another login is another proxy");
        assert_eq!(alone.clone().basic_auth("a", "b"), "socks5://a:b@h".parse().expect("a proxy"));
        for proxy in [proxy, alone] {
            let shown = format!("{proxy} {proxy:?}");
            assert!(!shown.contains("me") && !shown.contains("p@s"), "{shown}");
        }
        for wrong in
            ["http://secret%2@h", "http://secret%zz@h", "ftp://secret:secret@h", "http://secret@h/path"]
        {
            let error = wrong.parse::<Proxy>().expect_err(wrong).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_said() {
        for wrong in
            ["", "http://", "http://h/x", "http://h?x", "http://h:99999", "http://a b", "socks5://h#x"]
        {
            let error = wrong.parse::<Proxy>().expect_err(wrong);
            assert!(matches!(error, ProxyUrlError::Place { .. }), "{wrong}: {error:?}");
        }
        for wrong in ["ftp://h", "socks4://h", "://h"] {
            let error = wrong.parse::<Proxy>().expect_err(wrong);
            assert!(matches!(error, ProxyUrlError::Scheme { .. }), "{wrong}: {error:?}");
        }
    }

    #[test]
    fn it_may_be_on_another_wire() {
        let proxy = "http://proxy.example:3128"
            .parse::<Proxy>()
            .expect("a proxy")
            .via("unix:@proxy")
            .expect("an address");
        assert_eq!((proxy.address().to_string(), proxy.host()), ("unix:@proxy".to_owned(), "proxy.example"));
        assert!(matches!(proxy.via("nowhere"), Err(ProxyUrlError::Via { .. })));
    }
}
