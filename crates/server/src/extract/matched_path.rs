//! The path of the route that matched, as an argument of a handler.

use std::ops::Deref;
use std::rc::Rc;

use super::{FromRequestParts, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// The path of the route as it was given, with the prefixes of nested routers: `/orders/{id}`. For logs and metrics, whose
/// number of names must not grow with the requests.
///
/// A fallback has no such path: there it is a 500, and the log explains it. A handler that takes `Option<MatchedPath>`
/// serves as a fallback, too.
///
/// ```
/// use anywire_server::{MatchedPath, Router};
///
/// let orders = Router::new().get("/{id}", async |path: MatchedPath| path.to_string());
/// let router = Router::new().nest("/orders", orders);
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/orders/7")).await;
/// assert_eq!(response.body.text(1024).await?, "/orders/{id}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MatchedPath(pub Rc<str>);

impl Deref for MatchedPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl FromRequestParts for MatchedPath {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let path = parts.matched_path().cloned().map(Self);
        path.ok_or_else(|| Rejection::Parameters("a fallback has no path that matches".to_owned()))
    }
}

impl OptionalFromRequestParts for MatchedPath {
    fn is_absent(parts: &Parts) -> bool {
        parts.matched_path().is_none()
    }
}
