//! The query string as a value.

use serde::de::DeserializeOwned;

use super::{FromRequest, OptionalFromRequest, Rejection};
use crate::request::Request;

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

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Rejection = Rejection;

    async fn from_request(request: &mut Request) -> Result<Self, Rejection> {
        let query = request.query().unwrap_or_default();
        serde_urlencoded::from_str(query).map(Self).map_err(Rejection::Query)
    }
}

impl<T: DeserializeOwned> OptionalFromRequest for Query<T> {
    fn is_absent(request: &Request) -> bool {
        request.query().is_none()
    }
}
