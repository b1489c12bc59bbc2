//! A body in whichever format it came.

use anywire_http::{Bytes, StatusCode};
use serde::de::DeserializeOwned;

use super::rejection::CodecRejection;
use super::set::{AnyCodec, CodecSet};
use super::{CodecError, Target};
use crate::extract::{FromRequest, Json, OptionalFromRequest, Rejection, media};
use crate::request::{Parts, Request};

/// A body that is read by the codec of its `Content-Type`: one of the [`Codecs`](crate::layers::Codecs) of the route, or JSON without
/// that layer.
///
/// As [`Json`], it must be the last argument. A type that no codec reads is a 415 that lists those which are read.
///
/// ```
/// use anywire_server::Router;
/// use anywire_server::codec::Decoded;
///
/// #[derive(serde::Deserialize)]
/// struct Order { item: String }
///
/// let router = Router::new().post("/orders", async |Decoded(order): Decoded<Order>| order.item);
/// # drop(router);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded<T>(pub T);

impl<T: DeserializeOwned + 'static> FromRequest for Decoded<T> {
    type Rejection = CodecRejection;

    async fn from_request(request: Request) -> Result<Self, CodecRejection> {
        let set = CodecSet::of_request(&request);
        let found = media::content_type(request.headers()).unwrap_or_default();
        let Some(codec) = set.reader(found) else {
            let (found, method) = (found.to_owned(), request.method().clone());
            return Err(CodecRejection::ContentType { found, reads: set.reads(), method });
        };
        let limit = request.body_limit_bytes();
        let (parts, mut body) = request.into_parts();
        let mut bytes = body.bytes(limit).await.map_err(Rejection::Body)?;
        for advice in &set.advice {
            bytes = advice.before_decode(&parts, bytes).map_err(CodecRejection::Advice)?;
        }
        let mut value: T = read(codec, &parts, &bytes)?;
        for advice in set.advice.iter().rev() {
            advice.after_decode(&parts, &mut value).map_err(CodecRejection::Advice)?;
        }
        Ok(Self(value))
    }
}

impl<T: DeserializeOwned + 'static> OptionalFromRequest for Decoded<T> {
    fn is_absent(request: &Request) -> bool {
        !request.has_body()
    }
}

fn read<T: DeserializeOwned + 'static>(
    codec: &AnyCodec,
    parts: &Parts,
    bytes: &Bytes,
) -> Result<T, CodecRejection> {
    let AnyCodec::Of(codec) = codec else { return Ok(Json::of_bytes(parts, bytes)?.0) };
    let mut value = None;
    let error = match codec.decode(bytes, Target::new(&mut value)) {
        Ok(()) => match value {
            Some(value) => return Ok(value),
            None => CodecError::new(StatusCode::INTERNAL_SERVER_ERROR, "the codec has left no value"),
        },
        Err(error) => error,
    };
    // What is coded is in no format.
    Err(match parts.headers().content_coding() {
        Some(coding) => Rejection::Coded { coding }.into(),
        None => {
            let (status, cause) = error.into_parts();
            CodecRejection::Decode { status: status.unwrap_or(StatusCode::BAD_REQUEST), cause }
        }
    })
}
