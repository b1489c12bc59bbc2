//! Something new, and where it is.

use super::IntoResponse;
use super::redirect::encoded;
use crate::{Response, StatusCode};

/// A 201: something was made, which has a place of its own, with a body that shows it.
///
/// What a URL cannot hold is percent-encoded, as for a [`Redirect`](crate::Redirect). A line break or another control character is a
/// [fault](Response::fault): a server logs it and answers 500.
///
/// ```
/// use anywire_http::{Created, IntoResponse};
///
/// let response = Created::at("/orders/7", "one tea").into_response();
/// assert_eq!(response.status.as_u16(), 201);
/// assert_eq!(response.headers.get("location"), Some("/orders/7"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Created<R> {
    location: String,
    body: R,
}

impl<R> Created<R> {
    /// What was made is at this place: a URL, or a path as seen from the request.
    pub fn at(place: impl AsRef<str>, body: R) -> Self {
        Self { location: encoded(place.as_ref()).into_owned(), body }
    }
}

impl<R: IntoResponse> IntoResponse for Created<R> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, [("location", self.location)], self.body).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_place_is_encoded_and_its_body_kept() {
        let response = Created::at("/orders/grüner tee", "tea").into_response();
        assert_eq!(response.headers.get("location"), Some("/orders/gr%C3%BCner%20tee"));
        assert_eq!(response.headers.get("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(response.body.as_full().map(|text| &text[..]), Some(&b"tea"[..]));
        // A status that the body brings along is not that of what was made.
        let nested =
            Created::at("/", (StatusCode::ACCEPTED, [("location", "/elsewhere")], "tea")).into_response();
        assert_eq!((nested.status, nested.headers.get("location")), (StatusCode::CREATED, Some("/")));
    }

    #[test]
    fn a_line_break_is_a_fault() {
        let response = Created::at("/\r\nset-cookie: a=b", "tea").into_response();
        assert!(response.fault().is_some() && !response.headers.contains("location"));
    }
}
