//! What becomes a response: the result of a handler, an upstream's response that is passed on, an error.

use std::borrow::Cow;
use std::convert::Infallible;

use bytes::Bytes;
use http::HeaderMap;

use crate::{Body, Headers, Response, StaticHeader, StatusCode};

/// Something that becomes a [`Response`].
///
/// Text is `text/plain; charset=utf-8`, bytes are `application/octet-stream`. A status code alone has no body. A pair of
/// status and anything else sets the status; fields ([`IntoResponseParts`]) may stand before the last part, or alone if there is no
/// body. `Err` of a `Result` answers like its value.
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

/// Fields of a response, which stand before its body in a tuple: pairs of name and value in an array, [`Headers`], or the
/// `http` crate's `HeaderMap`.
///
/// They replace the fields of these names that the body brings. Two fields of one name are both sent. A field that
/// cannot be sent is remembered as the response's [`Response::fault`], and a server answers 500 instead.
///
/// ```
/// use anywire_http::IntoResponse;
///
/// let cookies = [("set-cookie", "a=1"), ("set-cookie", "b=2")];
/// assert_eq!((cookies, "hello").into_response().headers.get_all("set-cookie").count(), 2);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot become the fields of a response",
    label = "this stands where the fields of a response belong",
    note = "give an array of pairs such as `[(\"location\", \"/orders/7\")]`, `Headers`, or an `http::HeaderMap`"
)]
pub trait IntoResponseParts {
    /// Sets the fields.
    fn set_on(self, response: &mut Response);
}

impl<K: AsRef<str>, V: AsRef<[u8]>, const N: usize> IntoResponseParts for [(K, V); N] {
    fn set_on(self, response: &mut Response) {
        set(response, self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())));
    }
}

impl IntoResponseParts for Headers {
    fn set_on(self, response: &mut Response) {
        set(response, self.iter());
    }
}

impl IntoResponseParts for HeaderMap {
    fn set_on(self, response: &mut Response) {
        Headers::from(&self).set_on(response);
    }
}

/// Replaces the fields of these names. Repeated names in `fields` all stay.
fn set<'f>(response: &mut Response, fields: impl Iterator<Item = (&'f str, &'f [u8])> + Clone) {
    for (name, _) in fields.clone() {
        response.headers.remove(name);
    }
    for (name, value) in fields {
        let added = response.headers.append(name, value);
        response.note(added);
    }
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

impl<K: AsRef<str>, V: AsRef<[u8]>, const N: usize> IntoResponse for [(K, V); N] {
    #[inline]
    fn into_response(self) -> Response {
        (self, ()).into_response()
    }
}

impl IntoResponse for Headers {
    #[inline]
    fn into_response(self) -> Response {
        (self, ()).into_response()
    }
}

impl IntoResponse for HeaderMap {
    #[inline]
    fn into_response(self) -> Response {
        (self, ()).into_response()
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

impl<P: IntoResponseParts, R: IntoResponse> IntoResponse for (P, R) {
    #[inline]
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        self.0.set_on(&mut response);
        response
    }
}

impl<P: IntoResponseParts, R: IntoResponse> IntoResponse for (StatusCode, P, R) {
    #[inline]
    fn into_response(self) -> Response {
        (self.0, (self.1, self.2)).into_response()
    }
}

static TEXT: StaticHeader = StaticHeader::new("content-type: text/plain; charset=utf-8");
static OCTETS: StaticHeader = StaticHeader::new("content-type: application/octet-stream");

#[cfg(test)]
mod tests {
    use super::*;

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
