//! A value that travels with a request, as an argument of a handler.

use std::any::type_name;
use std::ops::Deref;

use super::{FromRequestParts, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// A copy of a value among the [extensions](Parts::extensions) of the request, where a layer or another extractor has left it.
///
/// A layer leaves it for each request anew, so that a missing one shows only when a request comes: it is a 500, and the log
/// names the type. What is the same for all requests is a [`State`](crate::State), which is checked at start.
///
/// ```
/// use anywire_server::{Extension, Next, Request, Response, Router};
///
/// #[derive(Clone)]
/// struct Tenant(String);
///
/// async fn by_host(mut request: Request, next: Next) -> Response {
///     let tenant = Tenant(request.host().unwrap_or("nobody").to_owned());
///     request.extensions_mut().insert(tenant);
///     next.run(request).await
/// }
///
/// async fn hello(Extension(Tenant(name)): Extension<Tenant>) -> String {
///     format!("Hello, {name}!")
/// }
/// # drop(Router::new().get("/", hello).layer(by_host));
/// ```
#[derive(Debug, Clone)]
pub struct Extension<T>(pub T);

impl<T> Deref for Extension<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone + Send + Sync + 'static> FromRequestParts for Extension<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let found = parts.extensions().get().cloned();
        found.map(Self).ok_or(Rejection::NoExtension { type_name: type_name::<T>() })
    }
}

impl<T: Clone + Send + Sync + 'static> OptionalFromRequestParts for Extension<T> {
    fn is_absent(parts: &Parts) -> bool {
        parts.extensions().get::<T>().is_none()
    }
}
