//! Why an extractor refused a request, and what the peer is told.

use anywire_http::body::BodyError;
use anywire_http::{Chain, Fault, Response, StatusCode};

use crate::respond::told_to_peer;
use anywire_http::IntoResponse;

/// Why one of the extractors of this crate refused; each variant says who is at fault by its status.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// 400, the peer's fault: a path parameter does not have the type that the handler takes.
    #[error("the path parameter does not fit: {0}")]
    Path(String),
    /// 500, the handler's fault: it takes other path parameters than the route has.
    #[error("the handler does not fit its route: {0}")]
    Parameters(String),
    /// 400, the peer's fault: the query does not have the fields or types that the handler takes.
    #[error("the query does not fit")]
    Query(#[source] serde_urlencoded::de::Error),
    /// 415, the peer's fault: a JSON body must say so.
    #[error("the content type is {found:?}, expected application/json")]
    ContentType {
        /// What the request said.
        found: String,
    },
    /// 400 (not JSON) or 422 (JSON of another shape), the peer's fault.
    #[error("the JSON body does not fit")]
    Json(#[source] serde_json::Error),
    /// 400, the peer's fault: a text body must be UTF-8.
    #[error("the body is not UTF-8")]
    Text(#[source] std::str::Utf8Error),
    /// 413 if it was too large for [`Limits::body_bytes`](crate::Limits::body_bytes), 408 or 400 if it did not come
    /// whole.
    #[error(transparent)]
    Body(BodyError),
    /// 500, the server's fault: the state was never given. An extractor that names its needs makes this an error at
    /// start.
    #[error("no state of type {type_name} was given to the router; add .state(..)")]
    NoState {
        /// The type that was asked for.
        type_name: &'static str,
    },
}

impl Rejection {
    /// The status that the peer gets.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Path(_) | Self::Query(_) | Self::Text(_) => StatusCode::BAD_REQUEST,
            Self::ContentType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Json(cause) if cause.is_data() => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Json(_) => StatusCode::BAD_REQUEST,
            Self::Body(cause) => status_of(cause),
            Self::Parameters(_) | Self::NoState { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = self.status();
        let response = match status.is_server_error() {
            true => (status, "this route is not set up right; its owner finds the reason in the log")
                .into_response(),
            false => (status, told_to_peer(Chain(&self).to_string())).into_response(),
        };
        response.caused_by(&self)
    }
}

/// The status that says whose fault it is that a request's body cannot be read.
pub(crate) fn status_of(cause: &BodyError) -> StatusCode {
    match cause {
        BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::Timeout => StatusCode::REQUEST_TIMEOUT,
        _ if cause.fault() == Fault::Caller => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}
