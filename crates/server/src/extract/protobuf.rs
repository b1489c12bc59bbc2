//! Messages of Protocol Buffers, in a request and in a response.

use anywire_http::{IntoResponse, Response, StaticHeader};
use prost::Message;

use super::{FromRequest, OptionalFromRequest, Rejection, media};
use crate::request::Request;

/// A message of Protocol Buffers in a request (as an argument) or a response (as a result), by the crate `prost`.
///
/// As an argument it must be the last one. A request gets 415 unless its content type is `application/protobuf`,
/// `application/x-protobuf` or `application/vnd.google.protobuf`; 413 if its body is larger than
/// [`Limits::body_bytes`](crate::Limits::body_bytes); and 400 if the body is no such message.
///
/// ```
/// use anywire_server::{Protobuf, Router};
///
/// #[derive(Clone, PartialEq, prost::Message)]
/// struct Order {
///     #[prost(string, tag = "1")]
///     item: String,
/// }
///
/// let router = Router::new().post("/orders", async |Protobuf(order): Protobuf<Order>| Protobuf(order));
/// # drop(router);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protobuf<T>(pub T);

impl<T: Message + Default> FromRequest for Protobuf<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request) -> Result<Self, Rejection> {
        media::expect(&request, "application/protobuf", is_protobuf)?;
        media::expect_uncoded(&request)?;
        let limit = request.body_limit_bytes();
        let bytes = request.into_body().bytes(limit).await.map_err(Rejection::Body)?;
        T::decode(bytes).map(Self).map_err(Rejection::Protobuf)
    }
}

impl<T: Message + Default> OptionalFromRequest for Protobuf<T> {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

impl<T: Message> IntoResponse for Protobuf<T> {
    fn into_response(self) -> Response {
        Response::typed(&PROTOBUF, self.0.encode_to_vec())
    }
}

fn is_protobuf(essence: &str) -> bool {
    let known = ["application/protobuf", "application/x-protobuf", "application/vnd.google.protobuf"];
    known.iter().any(|known| known.eq_ignore_ascii_case(essence))
}

static PROTOBUF: StaticHeader = StaticHeader::new("content-type: application/protobuf");
