//! How long a response may be kept.

use std::rc::Rc;
use std::time::Duration;

use anywire_http::Response;

use super::headers::check;
use crate::layer::LayerFault;
use crate::request::Request;
use crate::run::sync_layer::{SyncLayer, sync_layer};

/// Sets `cache-control` on responses that do not have one (RFC 9111 section 5.2). Errors (4xx and 5xx) get it only if it forbids
/// to keep them.
///
/// ```
/// use std::time::Duration;
///
/// use anywire_server::Router;
/// use anywire_server::layers::CacheControl;
///
/// let images = Router::new().get("/{name}", async || "pixels").layer(CacheControl::max_age(Duration::from_secs(3600)));
/// let router = Router::new().layer(CacheControl::no_store()).get("/", async || "now").nest("/images", images);
/// # anywire_loops::block_on(async {
/// let response = router.call(anywire_http::Request::get("/images/1")).await;
/// assert_eq!(response.headers.get("cache-control"), Some("max-age=3600"));
/// let response = router.call(anywire_http::Request::get("/")).await;
/// assert_eq!(response.headers.get("cache-control"), Some("no-store"));
/// # });
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct CacheControl {
    value: String,
}

impl CacheControl {
    /// These directives, such as `public, max-age=60, stale-while-revalidate=30`.
    pub fn new(value: impl Into<String>) -> Self {
        Self { value: value.into() }
    }

    /// Nobody keeps a response.
    pub fn no_store() -> Self {
        Self::new("no-store")
    }

    /// A cache asks each time whether what it has is still right.
    pub fn no_cache() -> Self {
        Self::new("no-cache")
    }

    /// Everybody may keep a response for so long, in whole seconds.
    pub fn max_age(age: Duration) -> Self {
        Self::new(format!("max-age={}", age.as_secs()))
    }

    /// Only the browser of one user may keep it, not a cache that several use.
    pub fn private(self) -> Self {
        self.and("private")
    }

    /// It never changes: a reload of the page does not ask for it again (RFC 8246).
    pub fn immutable(self) -> Self {
        self.and("immutable")
    }

    fn and(mut self, directive: &str) -> Self {
        self.value.push_str(", ");
        self.value.push_str(directive);
        self
    }

    fn forbids(&self) -> bool {
        self.value.split(',').any(|directive| directive.trim().eq_ignore_ascii_case("no-store"))
    }
}

impl SyncLayer for CacheControl {
    type Local = (String, bool);
    type Kept = ();

    fn local(&self) -> Self::Local {
        (self.value.clone(), self.forbids())
    }

    fn before(_: &Rc<Self::Local>, _: &mut Request) -> Result<(), Response> {
        Ok(())
    }

    fn after(local: &Rc<Self::Local>, (): (), response: &mut Response) {
        let (value, forbids) = &**local;
        let is_error = response.status.is_client_error() || response.status.is_server_error();
        if (*forbids || !is_error) && !response.headers.contains("cache-control") {
            let set = response.headers.append("cache-control", value);
            debug_assert!(set.is_ok(), "checked at start");
        }
    }

    fn fault(&self) -> Option<LayerFault> {
        let fault = check("cache-control", &self.value).err()?;
        Some(LayerFault::new(fault.to_string(), "write directives such as max-age=60"))
    }
}

sync_layer!(CacheControl, (String, bool));
