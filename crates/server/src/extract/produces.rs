//! The media type that a handler is to produce.

use std::ops::Deref;
use std::sync::Arc;

use anywire_http::accept::MediaType;

use super::{FromRequestParts, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// The media type of those that the handler [produces](crate::Handler::produces) which the peer likes best. Also among the extensions of
/// the request.
///
/// A handler that does not say what it produces has none: there it is a 500, and the log explains it, unless the handler takes
/// an `Option`.
///
/// ```
/// use anywire_server::{Handler, Html, IntoResponse, Json, Produces, Response, Router};
///
/// async fn count(produces: Produces) -> Response {
///     match produces.subtype() {
///         "html" => Html("<b>42</b>").into_response(),
///         _ => Json(42).into_response(),
///     }
/// }
///
/// let router = Router::new().get("/count", count.produces(["application/json", "text/html"]));
/// # drop(router);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produces(pub Arc<MediaType>);

impl Deref for Produces {
    type Target = MediaType;

    fn deref(&self) -> &MediaType {
        &self.0
    }
}

impl FromRequestParts for Produces {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let missing = || Rejection::Parameters("this handler does not say what it produces".to_owned());
        parts.extensions().get::<Self>().cloned().ok_or_else(missing)
    }
}

impl OptionalFromRequestParts for Produces {
    fn is_absent(parts: &Parts) -> bool {
        parts.extensions().get::<Self>().is_none()
    }
}
