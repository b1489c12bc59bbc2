//! A failed call of a proxy as its answer.

use anywire_http::{Fault, IntoResponse, Response, StatusCode};

use crate::Error;

/// The error as a proxy's response. Only the log shows the cause.
///
/// A timeout is 504. A full queue or too many origins are 503. A request's body that could not be read is 413, 408 or
/// 400. Another fault of the caller is 500. The rest is 502.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = match &self {
            _ if self.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::QueueFull { .. } | Self::TooManyOrigins { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::RequestBody { source, .. } if source.is_too_large() => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RequestBody { source, .. } if source.is_timeout() => StatusCode::REQUEST_TIMEOUT,
            Self::RequestBody { source, .. } if source.fault() != Fault::Caller => StatusCode::BAD_REQUEST,
            _ if self.fault() == Fault::Caller => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_GATEWAY,
        };
        Response::new(status).caused_by(&self)
    }
}

#[cfg(test)]
mod tests {
    use anywire_http::BodyError;

    use super::*;

    #[test]
    fn as_a_response_it_says_whose_fault_it_was() {
        let origin = || "http://h".to_owned();
        let body = |source| Error::RequestBody { origin: origin(), source, sent: true };
        for (status, error) in [
            (503, Error::QueueFull { origin: origin(), connections: 1, queue: 1 }),
            (503, Error::TooManyOrigins { origin: origin(), origins: 1 }),
            (413, body(BodyError::TooLarge { limit_bytes: 1 })),
            (408, body(BodyError::Timeout)),
            (400, body(BodyError::Incomplete)),
            (500, body(BodyError::failed("a layer of ours gave up"))),
            (502, Error::Switched { origin: origin() }),
        ] {
            let response = error.into_response();
            assert_eq!(response.status.as_u16(), status, "{:?}", response.cause());
            assert!(response.cause().is_some());
        }
    }
}
