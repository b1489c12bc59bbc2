//! Which call goes through which proxy.

use std::env;
use std::net::IpAddr;

use anywire_http::Url;

use super::error::ProxyUrlError;
use super::no_proxy::NoProxy;
use super::{Proxy, ToProxy};

/// The proxies of a client: one for `http` URLs, one for `https` URLs, and the hosts that are reached without.
///
/// ```
/// use anywire_client::Client;
/// use anywire_client::proxy::Proxies;
///
/// let proxies = Proxies::all("http://proxy.example:3128")?.except("localhost, .internal, 10.0.0.0/8, [::1]:8080");
/// let client = Client::builder().proxies(proxies).build();
/// # Ok::<(), anywire_client::proxy::ProxyUrlError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    except: NoProxy,
    /// This machine is reached without a proxy.
    spares_loopback: bool,
}

impl Proxies {
    /// No proxy for any call.
    pub fn none() -> Self {
        Self::default()
    }

    /// This proxy for all calls.
    ///
    /// # Errors
    /// [`ProxyUrlError`] names the part of the URL that is wrong.
    pub fn all(proxy: impl ToProxy) -> Result<Self, ProxyUrlError> {
        let proxy = proxy.to_proxy()?;
        Ok(Self { http: Some(proxy.clone()), https: Some(proxy), ..Self::default() })
    }

    /// The proxies that the environment names, which are the default of a client. It is read once, when the client is built.
    ///
    /// | variable | means |
    /// | --- | --- |
    /// | `http_proxy`, `HTTP_PROXY` | the proxy for `http` URLs |
    /// | `https_proxy`, `HTTPS_PROXY` | the proxy for `https` URLs |
    /// | `all_proxy`, `ALL_PROXY` | the proxy for URLs that have none by the two before |
    /// | `no_proxy`, `NO_PROXY` | the hosts that are reached without, as [`except`](Self::except) takes them |
    ///
    /// The name in lower case counts before the one in upper case; an empty value is none. `HTTP_PROXY` in upper case is not read if there is
    /// a `REQUEST_METHOD`: in a CGI program it would be a header field `Proxy` of the peer (httpoxy, CVE-2016-5385). `localhost` and
    /// loopback addresses are always reached without a proxy of the environment, as in Go: these are other servers of this machine, and the
    /// proxy's own machine is another one.
    ///
    /// # Errors
    /// [`ProxyUrlError::Environment`] names the variable whose value is no proxy.
    pub fn from_environment() -> Result<Self, ProxyUrlError> {
        Self::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(value: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyUrlError> {
        let found = |names: &[&'static str]| {
            names.iter().find_map(|&name| Some((name, value(name).filter(|value| !value.trim().is_empty())?)))
        };
        let proxy = |names: &[&'static str]| {
            let Some((variable, text)) = found(names) else { return Ok(None) };
            let wrong = |source| ProxyUrlError::Environment { variable, source: Box::new(source) };
            text.parse::<Proxy>().map(Some).map_err(wrong)
        };
        let is_cgi = value("REQUEST_METHOD").is_some();
        let http: &[_] = if is_cgi { &["http_proxy"] } else { &["http_proxy", "HTTP_PROXY"] };
        let all = proxy(&["all_proxy", "ALL_PROXY"])?;
        Ok(Self {
            http: proxy(http)?.or_else(|| all.clone()),
            https: proxy(&["https_proxy", "HTTPS_PROXY"])?.or(all),
            except: found(&["no_proxy", "NO_PROXY"])
                .map(|(_, list)| NoProxy::parse(&list))
                .unwrap_or_default(),
            spares_loopback: true,
        })
    }

    /// Has this proxy for `http` URLs.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn http(self, proxy: impl ToProxy) -> Result<Self, ProxyUrlError> {
        Ok(Self { http: Some(proxy.to_proxy()?), ..self })
    }

    /// Has this proxy for `https` URLs.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn https(self, proxy: impl ToProxy) -> Result<Self, ProxyUrlError> {
        Ok(Self { https: Some(proxy.to_proxy()?), ..self })
    }

    /// Has these hosts reached without a proxy: entries with commas or white space between them, instead of those before.
    ///
    /// | entry | covers |
    /// | --- | --- |
    /// | `example.com`, `.example.com` | the host and all below it |
    /// | `10.0.0.1`, `::1` | the address, if the URL has it; names are not resolved for this |
    /// | `10.0.0.0/8`, `fd00::/8` | the addresses of the network |
    /// | `example.com:8080`, `[::1]:8080` | the same at this port alone |
    /// | `*` | all hosts |
    #[must_use]
    pub fn except(self, hosts: &str) -> Self {
        Self { except: NoProxy::parse(hosts), ..self }
    }

    /// The proxy for a URL.
    ///
    /// ```
    /// use anywire_client::proxy::Proxies;
    /// use anywire_http::Url;
    ///
    /// let proxies = Proxies::none().https("socks5h://proxy")?.except("internal");
    /// let chosen = |url: &str| Url::parse(url).map(|url| proxies.of(&url).map(|proxy| proxy.scheme()));
    /// assert_eq!(chosen("https://example.com/"), Ok(Some("socks5h")));
    /// assert_eq!(chosen("http://example.com/"), Ok(None));
    /// assert_eq!(chosen("https://a.internal/"), Ok(None));
    /// # Ok::<(), anywire_client::proxy::ProxyUrlError>(())
    /// ```
    pub fn of(&self, url: &Url) -> Option<&Proxy> {
        let chosen = if url.is_https() { &self.https } else { &self.http };
        let proxy = chosen.as_ref()?;
        let is_spared = self.spares_loopback && is_loopback(url.host());
        (!is_spared && !self.except.covers(url.host(), url.port())).then_some(proxy)
    }
}

fn is_loopback(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    match name.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        // RFC 6761 section 6.3.
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// What a call says of proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ProxyOfCall {
    /// The proxies of its client.
    #[default]
    OfClient,
    None,
    This(Proxy),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Proxies, ProxyUrlError> {
        let value = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        Proxies::from_variables(value)
    }

    #[track_caller]
    fn chosen(variables: &[(&str, &str)], url: &str) -> Option<String> {
        let proxies = of(variables).expect("good variables");
        proxies.of(&url.parse().expect("a URL")).map(Proxy::to_string)
    }

    #[test]
    fn the_environment_is_read_as_curl_does() {
        let http = |variables: &[_]| chosen(variables, "http://example.com/");
        let https = |variables: &[_]| chosen(variables, "https://example.com/");
        let at = |host: &str| Some(format!("http://{host}:80"));
        assert_eq!(http(&[]), None);
        assert_eq!(http(&[("http_proxy", "a"), ("HTTP_PROXY", "b")]), at("a"));
        assert_eq!(http(&[("HTTP_PROXY", "b"), ("https_proxy", "c")]), at("b"));
        assert_eq!(http(&[("http_proxy", ""), ("HTTP_PROXY", "b")]), at("b"));
        assert_eq!(http(&[("all_proxy", "c")]), at("c"));
        assert_eq!(http(&[("ALL_PROXY", "d"), ("http_proxy", "a")]), at("a"));
        assert_eq!(https(&[("HTTPS_PROXY", "a"), ("http_proxy", "b")]), at("a"));
        assert_eq!(https(&[("http_proxy", "b")]), None);
        assert_eq!(https(&[("ALL_PROXY", "d")]), at("d"));
        assert_eq!(https(&[("ALL_PROXY", "d"), ("NO_PROXY", "example.com")]), None);
        assert_eq!(https(&[("ALL_PROXY", "d"), ("no_proxy", "other"), ("NO_PROXY", "*")]), at("d"));
    }

    #[test]
    fn a_header_of_a_peer_is_no_proxy() {
        let cgi = ("REQUEST_METHOD", "GET");
        assert_eq!(chosen(&[("HTTP_PROXY", "evil"), cgi], "http://example.com/"), None);
        assert_eq!(
            chosen(&[("http_proxy", "a"), cgi], "http://example.com/").as_deref(),
            Some("http://a:80")
        );
        assert!(chosen(&[("HTTPS_PROXY", "a"), cgi], "https://example.com/").is_some());
    }

    #[test]
    fn this_machine_is_reached_without_a_proxy_of_the_environment() {
        let environment = &[("ALL_PROXY", "proxy")];
        let explicit = Proxies::all("proxy").expect("a proxy");
        for url in [
            "http://localhost/",
            "https://a.localhost./",
            "http://127.9.8.7:81/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert_eq!(chosen(environment, url), None, "{url}");
            assert!(explicit.of(&url.parse().expect("a URL")).is_some(), "{url}");
        }
        assert!(chosen(environment, "http://localhost.example/").is_some());
        assert!(chosen(environment, "http://128.0.0.1/").is_some());
    }

    #[test]
    fn a_variable_that_is_no_proxy_is_named() {
        let error = of(&[("https_proxy", "ftp://me:secret@h")]).expect_err("no proxy");
        assert!(matches!(error, ProxyUrlError::Environment { variable: "https_proxy", .. }));
        let text = anywire_advice::Chain(&error).to_string();
        assert!(
            text.contains("https_proxy") && text.contains("scheme") && !text.contains("secret"),
            "{text}"
        );
    }
}
