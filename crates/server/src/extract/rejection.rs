//! Why an extractor refused a request, and the response to the peer.

use anywire_advice::{Advice, Chain};
use anywire_http::body::BodyError;
use anywire_http::gateway::status_of_call;
use anywire_http::{Fault, IntoResponse, Response, StatusCode};

/// Why an extractor of this crate refused a request. The status of each variant says who is at fault.
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
    /// 400, the peer's fault: the matrix parameters do not have the fields or types that the handler takes.
    #[error("the matrix parameters do not fit")]
    Matrix(#[source] serde_urlencoded::de::Error),
    /// 415, the peer's fault: the content type of a JSON body is not JSON.
    #[error("the content type is {found:?}, expected application/json")]
    ContentType {
        /// What the request said.
        found: String,
    },
    /// 415, the peer's fault: the body was to be text or JSON, and is coded, such as by gzip, which a server does not undo.
    #[error("the body is coded ({coding}){help}", help = Advice("send it as it is"))]
    Coded {
        /// The codings, in the order in which they were applied.
        coding: String,
    },
    /// 400 (not JSON) or 422 (JSON of another shape), the peer's fault.
    #[error("the JSON body does not fit")]
    Json(#[source] serde_json::Error),
    /// 413 if it was too large for [`Limits::body_bytes`](crate::Limits::body_bytes), 408 or 400 if it did not come
    /// whole, 400 if it was to be text and is not UTF-8.
    #[error(transparent)]
    Body(BodyError),
    /// 403, the peer's fault: the request came in clear text, and the handler takes what only TLS has.
    #[error("this is served over TLS alone{help}", help = Advice("use https://"))]
    ClearText,
    /// 500, the server's fault: the state was not given. This is an error at start if the extractor names its needs.
    #[error("no state of type {type_name} was given to the router{help}", help = Advice("add .state(..)"))]
    NoState {
        /// The type that was asked for.
        type_name: &'static str,
    },
}

impl Rejection {
    /// The status that the peer gets.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Path(_) | Self::Query(_) | Self::Matrix(_) => StatusCode::BAD_REQUEST,
            Self::ClearText => StatusCode::FORBIDDEN,
            Self::ContentType { .. } | Self::Coded { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
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
            false => (status, Chain(&self).for_peer().to_string()).into_response(),
        };
        let response = match self {
            // What would have been taken (RFC 9110 section 15.5.16).
            Self::Coded { .. } => response.header("accept-encoding", "identity"),
            _ => response,
        };
        response.caused_by(&self)
    }
}

/// The status of a request whose body cannot be read.
pub(crate) fn status_of(cause: &BodyError) -> StatusCode {
    match cause {
        BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::Timeout => StatusCode::REQUEST_TIMEOUT,
        _ if cause.fault() == Fault::Caller => {
            status_of_call(cause).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
        _ => StatusCode::BAD_REQUEST,
    }
}
