//! A request as an `http::Request`, and back: what the rest of the ecosystem speaks.

use anywire_http::body::BoxError;
use anywire_http::{Body, ConvertError, StatusCode};
use bytes::Buf;

use crate::extract::FromRequest;
use crate::request::{Request, Ticket};
use crate::respond::Error;

/// The body moves, and the head is copied without the fields that the peer's `connection` names. Path parameters, states and peer are
/// found again when the request is converted back on its loop.
impl TryFrom<Request> for http::Request<Body> {
    type Error = ConvertError;

    fn try_from(mut request: Request) -> Result<Self, ConvertError> {
        lend(&mut request)
    }
}

/// A request as an `http::Request`: its body, and a copy of its head.
///
/// The fields that the peer's `connection` names are left out, as by [`Parts::headers_mut`](crate::Parts::headers_mut): a holder of the
/// copy may set fields, and a peer must not take them out of what is sent on.
pub(crate) fn lend(request: &mut Request) -> Result<http::Request<Body>, ConvertError> {
    let ticket = request.ticket();
    let head = request.head_mut();
    head.headers_mut().remove_connection_options();
    let lent = http::Request::try_from(head)?;
    let mut lent = lent.map(|()| std::mem::take(request.body_mut()));
    lent.extensions_mut().insert(ticket);
    Ok(lent)
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
