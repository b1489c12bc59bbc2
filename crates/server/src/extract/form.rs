//! The fields of an HTML form as a value.

use anywire_http::Method;
use serde::de::DeserializeOwned;

use super::fields::{self, Reason};
use super::{FromRequest, OptionalFromRequest, Rejection, media};
use crate::request::{Parts, Request};

/// The fields of a form, decoded by serde into a struct, a map or a vector of pairs.
///
/// A GET and a HEAD have them in the query, other methods in a body of the type `application/x-www-form-urlencoded`. It takes
/// the body, so it is the last argument.
///
/// A body gets 415 if its type or its character set is another one, 413 if it is larger than
/// [`Limits::body_bytes`](crate::Limits::body_bytes) or has more than [`Limits::form_fields`](crate::Limits::form_fields), 400 if it
/// is not UTF-8, and 422 if the fields have another shape than `T`. What is wrong names its field. Lists, empty fields and
/// defaults are those of [`Query`](crate::Query).
///
/// ```
/// use anywire_server::{Form, Router};
///
/// #[derive(serde::Deserialize)]
/// struct Order {
///     item: String,
///     count: Option<u32>,
///     #[serde(default)]
///     extra: Vec<String>,
/// }
///
/// let order = async |Form(order): Form<Order>| format!("{} {:?}", order.item, order.extra);
/// let router = Router::new().post("/orders", order);
/// # anywire_loops::block_on(async {
/// let form = anywire_http::Request::post("/orders").header("content-type", "application/x-www-form-urlencoded");
/// let mut response = router.call(form.body("item=green+tea&count=&extra=milk&extra=sugar")).await;
/// assert_eq!(response.body.text(100).await?, r#"green tea ["milk", "sugar"]"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Form<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Form<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        let fields_max = request.form_fields_max();
        if is_in_query(&request) {
            let query = request.query().unwrap_or_default();
            return fields::from_urlencoded(query, fields_max).map(Self).map_err(Rejection::Query);
        }
        media::expect(&request, "application/x-www-form-urlencoded", media::is_form)?;
        media::expect_utf8(&request)?;
        media::expect_uncoded(&request)?;
        let limit = request.body_limit_bytes();
        let bytes = request.into_body().bytes(limit).await.map_err(Rejection::Body)?;
        let read = str::from_utf8(&bytes).map_err(|_| Reason::NotText.into());
        let read = read.and_then(|text| fields::from_urlencoded(text, fields_max));
        read.map(Self).map_err(Rejection::Form)
    }
}

impl<T: DeserializeOwned> OptionalFromRequest for Form<T> {
    fn is_absent(request: &Request) -> bool {
        match is_in_query(request) {
            true => request.query().is_none(),
            false => !request.has_body(),
        }
    }
}

fn is_in_query(parts: &Parts) -> bool {
    matches!(*parts.method(), Method::GET | Method::HEAD)
}
