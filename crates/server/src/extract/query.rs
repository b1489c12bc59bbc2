//! The query string as a value.

use serde::de::DeserializeOwned;

use super::{FromRequestParts, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// The query, decoded by serde: `?page=2&tag=a` into a struct, a map or a vector of pairs.
///
/// A missing query reads as an empty one; as an `Option` it is `None`. A field that is missing or of another type
/// answers 400.
///
/// ```
/// use anywire_server::{Query, Router};
///
/// #[derive(serde::Deserialize)]
/// struct Paging {
///     #[serde(default)]
///     page: u32,
/// }
///
/// let router = Router::new().get("/orders", async |Query(paging): Query<Paging>| paging.page.to_string());
/// # drop(router);
/// ```
#[derive(Debug, Clone)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts for Query<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let query = parts.query().unwrap_or_default();
        serde_urlencoded::from_str(query).map(Self).map_err(Rejection::Query)
    }
}

impl<T: DeserializeOwned> OptionalFromRequestParts for Query<T> {
    fn is_absent(parts: &Parts) -> bool {
        parts.query().is_none()
    }
}
