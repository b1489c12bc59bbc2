//! Fields that make browsers careful.

use std::rc::Rc;
use std::time::Duration;

use anywire_http::{Headers, Response};

use super::headers::check;
use crate::layer::LayerFault;
use crate::request::Request;
use crate::run::sync_layer::{SyncLayer, sync_layer};

/// Sets fields that make browsers careful, unless the handler has set them.
///
/// | field | default |
/// | --- | --- |
/// | `x-content-type-options` | `nosniff`: no guessing of types |
/// | `x-frame-options` | `DENY`: no page shows this one in a frame |
/// | `referrer-policy` | `no-referrer`: links do not tell where they were |
/// | `strict-transport-security` | none; see [`hsts`](Self::hsts) |
/// | `content-security-policy` | none; see [`content_security_policy`](Self::content_security_policy) |
///
/// ```
/// use std::time::Duration;
///
/// use anywire_server::Router;
/// use anywire_server::layers::SecurityHeaders;
///
/// let headers = SecurityHeaders::new().hsts(Duration::from_secs(365 * 24 * 3600)).frame("SAMEORIGIN");
/// let router = Router::new().get("/", async || "Hello, World!").layer(headers);
/// # anywire_loops::block_on(async {
/// let response = router.call(anywire_http::Request::get("/")).await;
/// assert_eq!(response.headers.get("x-content-type-options"), Some("nosniff"));
/// assert_eq!(response.headers.get("strict-transport-security"), None, "in clear text");
/// # });
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct SecurityHeaders {
    /// In each response.
    fields: Vec<(&'static str, String)>,
    hsts: Hsts,
}

#[derive(Debug, Clone, Copy, Default)]
struct Hsts {
    max_age: Option<Duration>,
    in_clear_text: bool,
    subdomains: bool,
}

impl Hsts {
    /// The field, if it is sent on a connection with TLS, or without.
    fn value(self, has_tls: bool) -> Option<String> {
        let seconds = self.max_age.filter(|_| has_tls || self.in_clear_text)?.as_secs();
        let subdomains = if self.subdomains { "; includeSubDomains" } else { "" };
        Some(format!("max-age={seconds}{subdomains}"))
    }
}

impl SecurityHeaders {
    /// Fields for a service whose pages no other site embeds: `nosniff`, `DENY` and `no-referrer`.
    pub fn new() -> Self {
        let fields = [(NOSNIFF, "nosniff"), (FRAME, "DENY"), (REFERRER, "no-referrer")];
        Self { fields: fields.map(|(name, value)| (name, value.to_owned())).into(), hsts: Hsts::default() }
    }

    /// Who may show a page in a frame: `DENY` or `SAMEORIGIN`.
    pub fn frame(self, value: &str) -> Self {
        self.with(FRAME, value)
    }

    /// What links tell of where they were, such as `same-origin`.
    pub fn referrer(self, policy: &str) -> Self {
        self.with(REFERRER, policy)
    }

    /// What a page may load, such as `default-src 'self'`. It is sent as it is given.
    pub fn content_security_policy(self, policy: &str) -> Self {
        self.with(POLICY, policy)
    }

    /// Browsers use TLS alone for so long (RFC 6797). It is sent over TLS and not in clear text, where it would have no
    /// meaning.
    pub fn hsts(mut self, max_age: Duration) -> Self {
        self.hsts = Hsts { max_age: Some(max_age), in_clear_text: false, ..self.hsts };
        self
    }

    /// The same on all connections, for a server behind a proxy that speaks TLS for it.
    pub fn hsts_behind_proxy(mut self, max_age: Duration) -> Self {
        self.hsts = Hsts { max_age: Some(max_age), in_clear_text: true, ..self.hsts };
        self
    }

    /// HSTS holds for all names below this one, too.
    pub fn include_subdomains(mut self) -> Self {
        self.hsts.subdomains = true;
        self
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.retain(|(other, _)| *other != name);
        self.fields.push((name, value.to_owned()));
        self
    }
}

impl Default for SecurityHeaders {
    fn default() -> Self {
        Self::new()
    }
}

impl SyncLayer for SecurityHeaders {
    /// The fields without TLS, and with it.
    type Local = [Vec<(&'static str, Headers)>; 2];
    type Kept = bool;

    fn local(&self) -> Self::Local {
        [false, true].map(|has_tls| {
            let hsts = self.hsts.value(has_tls).map(|value| (HSTS, value));
            self.fields.iter().cloned().chain(hsts).map(|(name, value)| (name, field(name, &value))).collect()
        })
    }

    fn before(_: &Rc<Self::Local>, request: &mut Request) -> Result<bool, Response> {
        Ok(request.negotiated().is_some())
    }

    fn after(local: &Rc<Self::Local>, has_tls: bool, response: &mut Response) {
        for (name, field) in &local[usize::from(has_tls)] {
            if !response.headers.contains(name) {
                response.headers.append_all(field);
            }
        }
    }

    fn fault(&self) -> Option<LayerFault> {
        let fault = self.fields.iter().find_map(|(name, value)| check(name, value).err())?;
        Some(LayerFault::new(fault.to_string(), "write it otherwise"))
    }
}

sync_layer!(SecurityHeaders, [Vec<(&'static str, Headers)>; 2]);

/// A field that was checked at start.
fn field(name: &str, value: &str) -> Headers {
    let mut field = Headers::new();
    let added = field.append(name, value);
    debug_assert!(added.is_ok(), "checked at start");
    field
}

const NOSNIFF: &str = "x-content-type-options";
const FRAME: &str = "x-frame-options";
const REFERRER: &str = "referrer-policy";
const POLICY: &str = "content-security-policy";
const HSTS: &str = "strict-transport-security";
