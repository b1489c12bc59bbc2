//! A request as an `http::Request`, and back: what the rest of the ecosystem speaks.

use anywire_http::body::BoxError;
use anywire_http::{Body, ConvertError, StatusCode};
use bytes::Buf;

use crate::extract::FromRequest;
use crate::request::{Request, Ticket};
use crate::respond::Error;

/// Head and body move. Path parameters, states and peer are found again when the request is converted back on its loop.
impl TryFrom<Request> for http::Request<Body> {
    type Error = ConvertError;

    fn try_from(request: Request) -> Result<Self, ConvertError> {
        let ticket = request.ticket();
        let (head, body) = request.into_head_and_body();
        let mut converted = Self::try_from(anywire_http::Request::from_parts(head, body))?;
        converted.extensions_mut().insert(ticket);
        Ok(converted)
    }
}

/// What a request of a server's handler became keeps its path parameters and its peer, and on its loop its states. Any other has no
/// path parameters, and its peer is `memory:unknown`.
impl<B> TryFrom<http::Request<B>> for Request
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    type Error = ConvertError;

    fn try_from(mut request: http::Request<B>) -> Result<Self, ConvertError> {
        let ticket = request.extensions_mut().remove::<Ticket>();
        let anywire_http::Request { head, body, .. } = request.try_into()?;
        Ok(match ticket {
            Some(ticket) => Self::of_ticket(&ticket, head, body),
            None => Self::of_no_server(head, body),
        })
    }
}

/// For a handler that gives the request to code of another library. One whose target is no URI of the `http` crate is a 400.
impl FromRequest for http::Request<Body> {
    type Rejection = Error;

    async fn from_request(request: Request) -> Result<Self, Error> {
        request.try_into().map_err(|cause: ConvertError| refused(cause))
    }
}

/// The response to a request that the types of the `http` crate cannot hold.
pub(crate) fn refused(cause: ConvertError) -> Error {
    let message = format!("this request cannot be passed on: {}", anywire_advice::Chain(&cause).for_peer());
    Error::new(StatusCode::BAD_REQUEST, message).caused_by(cause)
}
