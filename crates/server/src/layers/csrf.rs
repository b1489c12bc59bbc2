//! Requests that pages of other origins make a browser send.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use anywire_http::{IntoResponse, Method, Response, StatusCode};

use super::origin::Origins;
use crate::extract::OptionalFromRequestParts;
use crate::layer::LayerFault;
use crate::request::{Parts, Request};
use crate::run::sync_layer::{SyncLayer, sync_layer};
use crate::upgrade::Upgrade;

/// Answers 403 to what a page of another origin makes a browser send, with the cookies of its reader (cross-site request forgery).
/// No token is needed: browsers say where a request comes from, by `sec-fetch-site` or `origin`. The rules are those of
/// `CrossOriginProtection` in Go's `net/http`:
///
/// 1. `GET`, `HEAD` and `OPTIONS` pass: they must not change anything. One that asks for an [`Upgrade`](crate::Upgrade), such as
///    for a WebSocket, is none of them: it opens a way for all that follows.
/// 2. `sec-fetch-site: same-origin` or `none` (typed by the user) passes; another value is refused.
/// 3. Without that field, a request with an `origin` passes if its host and port are those that are asked. Without either, it comes
///    from no browser, or an old one, and passes.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::Router;
/// use anywire_server::layers::Csrf;
///
/// let router = Router::new().post("/orders", async || "ordered").layer(Csrf::new().trust("https://shop.example"));
/// # anywire_loops::block_on(async {
/// let forged = anywire_http::Request::post("/orders").header("sec-fetch-site", "cross-site");
/// assert_eq!(router.call(forged).await.status, StatusCode::FORBIDDEN);
/// # });
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Csrf {
    trusted: Origins,
    exempt: Option<Arc<Passes>>,
}

type Passes = dyn Fn(&Parts) -> bool + Send + Sync;

impl Csrf {
    /// Trusts no other origin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets pages of this origin send what they like, such as `https://shop.example`. One that no browser sends is an error at start.
    #[track_caller]
    pub fn trust(mut self, origin: &str) -> Self {
        self.trusted.add(origin);
        self
    }

    /// Lets requests pass of which this says so, such as those of a hook that other sites are to call. It has to prove by itself who
    /// sends them.
    pub fn exempt(mut self, passes: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.exempt = Some(Arc::new(passes));
        self
    }

    /// Whether requests with this method pass, unless they ask for an upgrade.
    fn passes(method: &Method) -> bool {
        matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    fn allows(&self, request: &Parts) -> bool {
        if Self::passes(request.method()) && Upgrade::is_absent(request) {
            return true;
        }
        let origin = request.headers().get_bytes("origin");
        let passes = match (request.headers().get_bytes("sec-fetch-site"), origin) {
            (Some(b"same-origin" | b"none"), _) | (None, None) => true,
            (Some(_), _) => false,
            // The scheme is not known behind a proxy. Browsers that are newer than 2023 say `sec-fetch-site` anyway.
            (None, Some(origin)) => {
                let host = str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://"));
                host.is_some_and(|(_, host)| request.host().is_some_and(|own| own.eq_ignore_ascii_case(host)))
            }
        };
        let is_trusted = || origin.and_then(|origin| str::from_utf8(origin).ok());
        passes
            || is_trusted().is_some_and(|origin| self.trusted.contains(origin))
            || self.exempt.as_ref().is_some_and(|passes| passes(request))
    }
}

impl fmt::Debug for Csrf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Csrf").field("trusted", &self.trusted).finish_non_exhaustive()
    }
}

impl SyncLayer for Csrf {
    type Local = Self;
    type Kept = ();

    fn local(&self) -> Self::Local {
        self.clone()
    }

    fn before(local: &Rc<Self>, request: &mut Request) -> Result<(), Response> {
        let refused = "this request comes from a page of another origin";
        match local.allows(request) {
            true => Ok(()),
            false => Err((StatusCode::FORBIDDEN, refused).into_response()),
        }
    }

    fn after(_: &Rc<Self>, (): (), _: &mut Response) {}

    fn fault(&self) -> Option<LayerFault> {
        self.trusted.fault()
    }

    #[cfg(feature = "openapi")]
    fn describe(&self, method: Option<&Method>) -> crate::openapi::LayerDoc {
        let doc = crate::openapi::LayerDoc::new();
        match method.is_some_and(Self::passes) {
            true => doc,
            false => doc.refuses(StatusCode::FORBIDDEN, "The request comes from a page of another origin."),
        }
    }
}

sync_layer!(Csrf, Self);
