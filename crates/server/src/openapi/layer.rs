//! What layers add to the operations within them.

use anywire_http::StatusCode;

/// What a layer adds to the description of each operation within it: [`Layer::describe`](crate::Layer::describe).
///
/// ```
/// use std::rc::Rc;
///
/// use anywire_http::{Method, StatusCode};
/// use anywire_server::openapi::LayerDoc;
/// use anywire_server::{IntoResponse, Layer, Next, Request, Response};
///
/// /// Lets those in who have a key.
/// struct Keys;
///
/// impl Layer for Keys {
///     type Local = ();
///
///     fn local(&self) {}
///
///     async fn call(_: Rc<()>, request: Request, next: Next) -> Response {
///         match request.headers().get("x-key") {
///             Some("open sesame") => next.run(request).await,
///             _ => StatusCode::FORBIDDEN.into_response(),
///         }
///     }
///
///     fn describe(&self, _: Option<&Method>) -> LayerDoc {
///         LayerDoc::new().security("key").refuses(StatusCode::FORBIDDEN, "The key does not fit.")
///     }
/// }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct LayerDoc {
    pub(super) refusals: Vec<(StatusCode, String)>,
    pub(super) security: Vec<String>,
    pub(super) is_full_at_times: bool,
}

impl LayerDoc {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it refuses with this status, as text or as a problem document.
    pub fn refuses(mut self, status: StatusCode, why: &str) -> Self {
        self.refusals.push((status, why.to_owned()));
        self
    }

    /// It lets in who calls by this scheme of the [`Info`](super::Info), and answers others 401. With several it asks for all of them.
    pub fn security(mut self, scheme: &str) -> Self {
        self.security.push(scheme.to_owned());
        self
    }

    /// It answers 503 with `Retry-After` while too many requests are under way.
    pub fn is_full_at_times(mut self) -> Self {
        self.is_full_at_times = true;
        self
    }
}
