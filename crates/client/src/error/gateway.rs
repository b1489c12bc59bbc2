//! What an error of this crate is worth as the response of a gateway: the one place that decides.

use anywire_http::gateway::status_of_call;
use anywire_http::{Fault, IntoResponse, Response, StatusCode};
use anywire_loops::TaskError;
use anywire_wire::DialError;

use crate::Error;
#[cfg(feature = "udp")]
use crate::udp::UdpCallError;

/// The error as a gateway's response. Only the log shows the cause. A handler's `anywire_server::Error` has the same status.
///
/// A timeout is 504. A full queue, too many origins and a loop that takes no more are 503. A request's body that could not
/// be read is 413, 408 or 400. Another fault of the caller, or of its system, is 500. The rest is 502.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        Response::new(self.gateway_status()).caused_by(&self)
    }
}

impl Error {
    fn gateway_status(&self) -> StatusCode {
        match self.last() {
            _ if self.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::QueueFull { .. }
            | Self::TooManyOrigins { .. }
            | Self::Loop { source: TaskError::Full, .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::RequestBody { source, .. } if source.is_too_large() => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RequestBody { source, .. } if source.is_timeout() => StatusCode::REQUEST_TIMEOUT,
            Self::RequestBody { source, .. } if source.fault() != Fault::Caller => StatusCode::BAD_REQUEST,
            // The body may be an upstream's own.
            Self::RequestBody { source, .. } => {
                status_of_call(source).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            // What this process lacks.
            Self::Start(_) | Self::Connect { source: DialError::Descriptors { .. }, .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            _ if self.fault() == Fault::Caller => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// What an error of this crate is worth as a gateway's response.
    pub(crate) fn status_of(error: &(dyn std::error::Error + 'static)) -> Option<StatusCode> {
        let call = error.downcast_ref::<Self>().map(Self::gateway_status);
        #[cfg(feature = "udp")]
        let call = call.or_else(|| error.downcast_ref().map(UdpCallError::gateway_status));
        call
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use anywire_http::h1::DecodeError;
    use anywire_http::h2::Code;
    use anywire_http::{BodyError, Url, gateway};
    use anywire_wire::{Address, AddressError};

    use super::*;
    use crate::Phase;

    fn origin() -> String {
        "http://h".to_owned()
    }

    fn address() -> Address {
        "tcp:127.0.0.1:1".parse().expect("an address")
    }

    fn no_address() -> AddressError {
        "pigeon:coop".parse::<Address>().expect_err("no wire")
    }

    fn broken() -> io::Error {
        io::ErrorKind::ConnectionReset.into()
    }

    fn no_json() -> serde_json::Error {
        serde_json::from_str::<u8>("{").expect_err("no number")
    }

    /// Each kind of error and its status.
    fn table() -> Vec<(u16, Error)> {
        let after = Duration::from_secs(1);
        let body = |source| Error::RequestBody { origin: origin(), source, sent: true };
        let connect = |source| Error::Connect { origin: origin(), source, sent: false };
        let late = |phase| Error::Timeout { origin: origin(), phase, limit: after, sent: false };
        let dial_late = || DialError::Timeout { address: address(), after };
        let no_query = serde_urlencoded::to_string("no pairs").expect_err("no pairs");
        let no_name = anywire_http::Headers::new().append("a b", "c").expect_err("no name");
        let status =
            |code| Error::Status { url: origin(), status: StatusCode::from_u16(code).expect("a status") };
        let handshake = |cause| connect(DialError::Handshake { address: address(), cause });
        vec![
            // Our own mistakes.
            (500, Error::of_url("ftp://h", Url::parse("ftp://h").expect_err("no HTTP"))),
            (500, Error::Via { source: no_address() }),
            (500, Error::Host { origin: origin(), source: no_address() }),
            (500, Error::NoTls { address: address() }),
            (500, Error::Header(no_name)),
            (500, Error::ReservedHeader { name: "content-length" }),
            (500, Error::JsonBody(no_json())),
            (500, Error::Query(no_query)),
            (500, Error::Tunnel),
            (500, Error::SpeaksTls { origin: origin() }),
            (500, Error::NoUpgrade { origin: origin() }),
            (500, Error::Shutdown { sent: false }),
            (500, Error::Loop { source: TaskError::Stopped, sent: false }),
            (500, connect(DialError::Address(no_address()))),
            (500, connect(DialError::Descriptors { address: address() })),
            (500, body(BodyError::failed("a layer of ours gave up"))),
            // We asked for something wrong.
            (500, status(404)),
            // Limits of ours.
            (503, Error::QueueFull { origin: origin(), connections: 1, queue: 1 }),
            (503, Error::TooManyOrigins { origin: origin(), origins: 1 }),
            (503, Error::Loop { source: TaskError::Full, sent: false }),
            // The body of our own caller.
            (413, body(BodyError::TooLarge { limit_bytes: 1 })),
            (408, body(BodyError::Timeout)),
            (400, body(BodyError::Incomplete)),
            (400, body(BodyError::Wire(broken()))),
            // The other server is too slow.
            (504, late(Phase::Acquire)),
            (504, late(Phase::Connect)),
            (504, late(Phase::Handshake)),
            (504, late(Phase::Write)),
            (504, late(Phase::Read)),
            (504, late(Phase::Body)),
            (504, late(Phase::Total)),
            (504, connect(dial_late())),
            // The other server, or the way to it, fails.
            (502, connect(DialError::Refused { address: address() })),
            (502, connect(DialError::Reset { address: address() })),
            (502, connect(DialError::Resolve { address: address(), cause: broken() })),
            (502, connect(DialError::Unreachable { address: address(), cause: broken() })),
            (502, connect(DialError::NoSuchFile { address: address() })),
            (502, handshake(broken())),
            (502, Error::ClosedByPeer { origin: origin(), phase: Phase::Read, sent: true }),
            (502, Error::Io { origin: origin(), phase: Phase::Body, source: broken(), sent: true }),
            (502, Error::Response { origin: origin(), source: DecodeError::StartLine }),
            (
                502,
                Error::Stream {
                    origin: origin(),
                    code: Code::REFUSED_STREAM,
                    phase: Phase::Read,
                    sent: false,
                    why: None,
                },
            ),
            (502, Error::Interim { origin: origin(), count: 9 }),
            (502, Error::Switched { origin: origin() }),
            (502, status(500)),
            (502, status(200)),
            (502, Error::Body(BodyError::Incomplete)),
            (502, Error::BodyTooLarge { limit_bytes: 1 }),
            (502, Error::Coded { url: origin(), coding: "gzip".to_owned() }),
            (
                502,
                Error::JsonResponse {
                    url: origin(),
                    status: StatusCode::OK,
                    source: no_json(),
                    start: String::new(),
                },
            ),
        ]
    }

    #[test]
    fn as_a_response_it_says_whose_fault_it_was() {
        // As any client does.
        gateway::know_calls(Error::status_of);
        for (status, error) in table() {
            assert_eq!(status_of_call(&error).map(|status| status.as_u16()), Some(status), "{error}");
            let response = error.into_response();
            assert_eq!(response.status.as_u16(), status, "{:?}", response.cause());
            assert!(response.cause().is_some());
        }
    }

    #[test]
    fn a_body_that_an_upstream_breaks_off_is_the_upstreams_fault_on_its_way_to_another() {
        gateway::know_calls(Error::status_of);
        for (status, error) in table() {
            let forwarded = BodyError::failed(error);
            let error = Error::RequestBody { origin: origin(), source: forwarded, sent: true };
            assert_eq!(error.gateway_status().as_u16(), status, "{error:?}");
        }
    }
}
