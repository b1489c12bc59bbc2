//! Extractors of the body: as JSON, bytes, text or a stream.

use std::convert::Infallible;

use anywire_http::Body;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::{FromRequest, OptionalFromRequest, Rejection};
use crate::request::{Parts, Request};

/// A JSON body in a request (as an argument) or a response (as a result).
///
/// As an argument it must be the last one. A request gets 415 unless its content type is `application/json` or
/// `application/*+json`, 413 if its body is larger than [`Limits::body_bytes`](crate::Limits::body_bytes), 400 if the text
/// is not JSON, and 422 if the JSON has another shape than `T`. A body that is coded, such as by gzip, is a 415, too.
///
/// ```
/// use anywire_server::{Json, Router};
///
/// #[derive(serde::Deserialize, serde::Serialize)]
/// struct Order { item: String }
///
/// let router = Router::new().post("/orders", async |Json(order): Json<Order>| Json(order));
/// # drop(router);
/// ```
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Json<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        let found = request.headers().get("content-type").unwrap_or_default();
        if !is_json(found) {
            return Err(Rejection::ContentType { found: found.to_owned() });
        }
        let limit = request.body_limit_bytes();
        let (parts, mut body) = request.into_parts();
        let bytes = body.bytes(limit).await.map_err(Rejection::Body)?;
        Self::of_bytes(&parts, &bytes)
    }
}

impl<T: DeserializeOwned> Json<T> {
    /// Reads the body of this request.
    pub(crate) fn of_bytes(parts: &Parts, bytes: &[u8]) -> Result<Self, Rejection> {
        serde_json::from_slice(bytes).map(Self).map_err(|cause| {
            // What is coded is no JSON.
            parts
                .headers()
                .content_coding()
                .map_or(Rejection::Json(cause), |coding| Rejection::Coded { coding })
        })
    }
}

impl<T: DeserializeOwned> OptionalFromRequest for Json<T> {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

impl FromRequest for Bytes {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        collect(request).await
    }
}

impl OptionalFromRequest for Bytes {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

impl FromRequest for String {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        if let Some(coding) = request.headers().content_coding()
            && request.has_body()
        {
            return Err(Rejection::Coded { coding });
        }
        let limit = request.body_limit_bytes();
        request.into_body().text(limit).await.map_err(Rejection::Body)
    }
}

impl OptionalFromRequest for String {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

/// The body as a stream: nothing is read from the wire before the handler asks for it.
impl FromRequest for Body {
    type Rejection = Infallible;

    async fn from_request(request: Request) -> Result<Self, Infallible> {
        Ok(request.into_body())
    }
}

impl OptionalFromRequest for Body {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

async fn collect(request: Request) -> Result<Bytes, Rejection> {
    let limit = request.body_limit_bytes();
    request.into_body().bytes(limit).await.map_err(Rejection::Body)
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    let suffix = subtype.len().checked_sub("+json".len()).and_then(|at| subtype.get(at..));
    kind.eq_ignore_ascii_case("application")
        && (subtype.eq_ignore_ascii_case("json")
            || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case("+json")))
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn content_types_of_json() {
        for yes in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"] {
            assert!(is_json(yes), "{yes}");
        }
        for no in ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "json"] {
            assert!(!is_json(no), "{no}");
        }
    }
}
