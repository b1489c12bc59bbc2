//! What an HTTP proxy reads besides a request that it relays: absolute-form (RFC 9112 section 3.2.2).

use std::fmt;

use anywire_http::{Headers, Url};

use super::Proxy;
use super::http::basic;

/// An HTTP proxy that reads requests of `http` URLs.
pub(crate) struct Relay {
    /// With `proxy-authorization` alone, or empty.
    headers: Headers,
}

impl Relay {
    pub(crate) fn of(proxy: &Proxy) -> Self {
        let mut headers = Headers::new();
        if let Some(login) = proxy.login() {
            // Base64 has no byte that a field may not hold.
            let _ = headers.append("proxy-authorization", basic(login));
        }
        Self { headers }
    }

    /// The target of a request to the proxy. `OPTIONS *` is a URL without a path then (RFC 9112 section 3.2.4).
    pub(crate) fn target(&self, url: &Url, of_server: bool) -> String {
        let path = if of_server { "" } else { url.path_and_query() };
        // Without the zone of an address, which is for this machine alone.
        format!("{}://{}{path}", url.scheme(), url.authority())
    }

    /// The fields of a request, and those for the proxy, unless the caller has set these.
    pub(crate) fn headers(&self, of_request: &Headers) -> Headers {
        let mut headers = of_request.clone();
        if !headers.contains("proxy-authorization") {
            headers.append_all(&self.headers);
        }
        headers
    }
}

impl fmt::Debug for Relay {
    /// Without its fields, which say who we are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}
