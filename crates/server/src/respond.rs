//! What a handler may return: everything that can become a response, and the error that `?` turns into one.

use std::borrow::Cow;
use std::fmt;

use anywire_http::{Body, Response, StaticHeader, StatusCode};
use bytes::Bytes;
use serde::Serialize;

use crate::extract::Json;

/// Something that becomes a [`Response`].
///
/// Text is `text/plain; charset=utf-8`, bytes are `application/octet-stream`, [`Json`] is `application/json`,
/// [`Html`] is `text/html; charset=utf-8`; a status code alone has no body; a pair of status and anything else sets
/// the status; a triple adds fields in the middle. `Err` of a `Result` answers like its value.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::IntoResponse;
///
/// let response = (StatusCode::CREATED, [("location", "/orders/7")], "made").into_response();
/// assert_eq!(response.status, StatusCode::CREATED);
/// assert_eq!(response.headers.get("location"), Some("/orders/7"));
/// ```
pub trait IntoResponse {
    /// Makes the response.
    fn into_response(self) -> Response;
}

/// Text that is HTML.
#[derive(Debug, Clone)]
pub struct Html<T>(pub T);

/// An error that a handler returns: a status, what the peer may read, and what only the log may.
///
/// Any `std::error::Error` converts by `?` into a 500 whose text goes to the log and not to the peer.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::Error;
///
/// async fn order(id: u64) -> Result<String, Error> {
///     if id == 0 {
///         return Err(Error::new(StatusCode::NOT_FOUND, "there is no order 0; orders count from 1"));
///     }
///     let text = std::fs::read_to_string("/orders/1")?; // an io::Error is a 500
///     Ok(text)
/// }
/// # drop(order(0));
/// ```
pub struct Error {
    status: StatusCode,
    message: Cow<'static, str>,
    cause: Option<Box<dyn std::error::Error>>,
}

impl Error {
    /// An error with this status whose message the peer reads.
    pub fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into(), cause: None }
    }

    /// The status that the peer gets.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What the peer reads.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("status", &self.status)
            .field("message", &self.message)
            .field("cause", &self.cause)
            .finish()
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(cause: E) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: "the server failed to answer this request".into(),
            cause: Some(Box::new(cause)),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        if let Some(cause) = &self.cause {
            tracing::error!(status = self.status.as_u16(), cause = %cause, "a handler failed");
        }
        (self.status, self.message).into_response()
    }
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

impl IntoResponse for () {
    fn into_response(self) -> Response {
        Response::new(StatusCode::OK)
    }
}

impl IntoResponse for std::convert::Infallible {
    fn into_response(self) -> Response {
        match self {}
    }
}

impl IntoResponse for &'static str {
    fn into_response(self) -> Response {
        typed(&TEXT, self)
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Response {
        typed(&TEXT, self)
    }
}

impl IntoResponse for Cow<'static, str> {
    fn into_response(self) -> Response {
        match self {
            Cow::Borrowed(text) => text.into_response(),
            Cow::Owned(text) => text.into_response(),
        }
    }
}

impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        typed(&OCTETS, self)
    }
}

impl IntoResponse for Vec<u8> {
    fn into_response(self) -> Response {
        typed(&OCTETS, self)
    }
}

impl IntoResponse for Body {
    fn into_response(self) -> Response {
        typed(&OCTETS, self)
    }
}

impl<T: Into<Body>> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        typed(&HTML, self.0)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => typed(&JSON, text),
            // A map with keys that are no strings, or a `Serialize` that fails: the handler's fault.
            Err(cause) => Error::from(cause).into_response(),
        }
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

impl<R: IntoResponse> IntoResponse for (StatusCode, R) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        response.status = self.0;
        response
    }
}

impl<const N: usize, R: IntoResponse> IntoResponse for (StatusCode, [(&str, &str); N], R) {
    fn into_response(self) -> Response {
        let mut response = (self.0, self.2).into_response();
        for (name, value) in self.1 {
            if let Err(invalid) = response.headers.insert(name, value) {
                return Error::from(invalid).into_response();
            }
        }
        response
    }
}

/// A 200 with a content type and a body.
fn typed(content_type: &'static StaticHeader, body: impl Into<Body>) -> Response {
    let mut response = Response::new(StatusCode::OK).body(body);
    response.headers.append_static(content_type);
    response
}

static TEXT: StaticHeader = StaticHeader::new("content-type: text/plain; charset=utf-8");
static HTML: StaticHeader = StaticHeader::new("content-type: text/html; charset=utf-8");
static JSON: StaticHeader = StaticHeader::new("content-type: application/json");
static OCTETS: StaticHeader = StaticHeader::new("content-type: application/octet-stream");
