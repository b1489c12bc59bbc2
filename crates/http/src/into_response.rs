//! What becomes a response: the result of a handler, an upstream's response that is passed on, an error.

mod created;
mod parts;
mod redirect;
mod set_cookie;

use std::borrow::Cow;
use std::convert::Infallible;

use bytes::Bytes;

use crate::{Body, Response, StaticHeader, StatusCode};

pub use self::created::Created;
pub use self::parts::IntoResponseParts;
pub use self::redirect::Redirect;
pub use self::set_cookie::{SameSite, SetCookie};

/// Something that becomes a [`Response`].
///
/// Text is `text/plain; charset=utf-8`, bytes are `application/octet-stream`, and so is a [`Body`], such as of a stream. A status
/// code alone has no body. In a tuple, the status comes first if there is one, then up to four [parts](IntoResponseParts) such as
/// fields and cookies, then the body; without a body, one part may stand alone. `None` of an `Option` is a 404. `Err` of a `Result`
/// answers like its value.
///
/// ```
/// use anywire_http::{IntoResponse, StatusCode};
///
/// let response = (StatusCode::CREATED, [("location", format!("/orders/{}", 7))], "made").into_response();
/// assert_eq!(response.status, StatusCode::CREATED);
/// assert_eq!(response.headers.get("location"), Some("/orders/7"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become a response",
    label = "a handler gives a `{Self}`, be it as its result or as its error",
    note = "return text, bytes, a `StatusCode`, `Json(..)`, a `Response`, a pair of status and one of them, or a `Result` of two of them",
    note = "for a type of your own, implement `IntoResponse`; as an error that `?` makes of any other, take `anywire_server::Error`"
)]
pub trait IntoResponse {
    /// Makes the response.
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    #[inline]
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for StatusCode {
    #[inline]
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

impl IntoResponse for () {
    #[inline]
    fn into_response(self) -> Response {
        Response::new(StatusCode::OK)
    }
}

impl IntoResponse for Infallible {
    #[inline]
    fn into_response(self) -> Response {
        match self {}
    }
}

impl IntoResponse for &'static str {
    #[inline]
    fn into_response(self) -> Response {
        Response::typed(&TEXT, self)
    }
}

impl IntoResponse for String {
    #[inline]
    fn into_response(self) -> Response {
        Response::typed(&TEXT, self)
    }
}

impl IntoResponse for Cow<'static, str> {
    #[inline]
    fn into_response(self) -> Response {
        match self {
            Cow::Borrowed(text) => text.into_response(),
            Cow::Owned(text) => text.into_response(),
        }
    }
}

impl IntoResponse for Bytes {
    #[inline]
    fn into_response(self) -> Response {
        Response::typed(&OCTETS, self)
    }
}

impl IntoResponse for Vec<u8> {
    #[inline]
    fn into_response(self) -> Response {
        Response::typed(&OCTETS, self)
    }
}

impl IntoResponse for &'static [u8] {
    #[inline]
    fn into_response(self) -> Response {
        Response::typed(&OCTETS, self)
    }
}

impl IntoResponse for Body {
    #[inline]
    fn into_response(self) -> Response {
        Response::typed(&OCTETS, self)
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    #[inline]
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

/// `None` is a 404.
impl<T: IntoResponse> IntoResponse for Option<T> {
    #[inline]
    fn into_response(self) -> Response {
        match self {
            Some(value) => value.into_response(),
            None => (StatusCode::NOT_FOUND, "nothing is here").into_response(),
        }
    }
}

/// A 204: all went well, and there is nothing to say.
///
/// ```
/// use anywire_http::{IntoResponse, NoContent};
///
/// assert_eq!(NoContent.into_response().status.as_u16(), 204);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoContent;

impl IntoResponse for NoContent {
    #[inline]
    fn into_response(self) -> Response {
        Response::new(StatusCode::NO_CONTENT)
    }
}

impl<R: IntoResponse> IntoResponse for (StatusCode, R) {
    #[inline]
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        response.status = self.0;
        response
    }
}

static TEXT: StaticHeader = StaticHeader::new("content-type: text/plain; charset=utf-8");
static OCTETS: StaticHeader = StaticHeader::new("content-type: application/octet-stream");

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::Headers;

    #[test]
    fn fields_may_be_owned_and_of_any_kind() {
        let location = format!("/orders/{}", 7);
        let mut headers = Headers::new();
        headers.append("location", &location).expect("valid");
        let mut map = HeaderMap::new();
        map.insert("location", location.parse().expect("valid"));
        for response in [
            ([("location", location.clone())], "made").into_response(),
            ([(String::from("location"), "/orders/7")], "made").into_response(),
            (headers, "made").into_response(),
            (map, "made").into_response(),
        ] {
            assert_eq!(response.status, StatusCode::OK);
            assert_eq!(response.headers.get("location"), Some("/orders/7"));
            assert_eq!(response.headers.get("content-type"), Some("text/plain; charset=utf-8"));
        }
    }

    #[test]
    fn fields_may_stand_without_a_body() {
        let mut headers = Headers::new();
        headers.append("retry-after", "1").expect("valid");
        for response in [
            (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")]).into_response(),
            (StatusCode::SERVICE_UNAVAILABLE, headers.clone()).into_response(),
            (StatusCode::SERVICE_UNAVAILABLE, HeaderMap::try_from(&headers).expect("valid")).into_response(),
        ] {
            assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers.wire_bytes(), b"retry-after: 1\r\n");
            assert_eq!(response.body.length(), Some(0));
        }
        assert_eq!([("retry-after", "1")].into_response().status, StatusCode::OK);
    }

    #[test]
    fn a_field_replaces_the_one_of_the_body() {
        let response = (StatusCode::CREATED, [("Content-Type", "text/csv")], "a,b").into_response();
        assert_eq!(response.status, StatusCode::CREATED);
        assert_eq!(response.headers.wire_bytes(), b"Content-Type: text/csv\r\n");
    }

    #[test]
    fn a_field_that_cannot_be_sent_is_a_fault() {
        let response = ([("location", String::from("/a\r\nx: y"))], "made").into_response();
        assert!(response.fault().is_some());
    }
}
