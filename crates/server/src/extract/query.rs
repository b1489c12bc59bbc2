//! The query string as a value.

use serde::de::DeserializeOwned;

use super::{FromRequestParts, OptionalFromRequestParts, Rejection, fields};
use crate::request::Parts;

/// The query, decoded by serde: `?page=2&tag=a&tag=b` into a struct, a map or a vector of pairs.
///
/// A missing query reads as an empty one; as an `Option` it is `None`. What does not fit answers 400 and names its field: one
/// that is missing or of another type, or is not UTF-8. Fields of one name are a list, such as a `Vec` or a set; for another
/// type a second field is refused. Numbers are those of a [`Path`](crate::Path). An `Option` is `None` without its field and with an empty one. Defaults are those of serde.
/// A query of more than [`Limits::form_fields`](crate::Limits::form_fields) is a 414.
///
/// ```
/// use anywire_server::{Query, Router};
///
/// #[derive(serde::Deserialize)]
/// struct Search {
///     #[serde(default)]
///     page: u32,
///     #[serde(default)]
///     tag: Vec<String>,
/// }
///
/// let router = Router::new().get("/orders", async |Query(search): Query<Search>| search.tag.join(" and "));
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/orders?tag=new&tag=paid")).await;
/// assert_eq!(response.body.text(100).await?, "new and paid");
/// let mut response = router.call(anywire_http::Request::get("/orders?page=two")).await;
/// assert_eq!(response.body.text(100).await?, r#"the query does not fit: page: "two" is no u32"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts for Query<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let query = parts.query().unwrap_or_default();
        fields::from_urlencoded(query, parts.form_fields_max()).map(Self).map_err(Rejection::Query)
    }
}

impl<T: DeserializeOwned> OptionalFromRequestParts for Query<T> {
    fn is_absent(parts: &Parts) -> bool {
        parts.query().is_none()
    }
}
