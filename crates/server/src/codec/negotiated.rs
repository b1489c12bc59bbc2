//! A response in the format that its peer likes best.

use std::fmt;
use std::sync::Arc;

use anywire_http::accept::{Accept, MediaType};
use anywire_http::{IntoResponse, Response};
use serde::Serialize;

use super::of_writer;
use super::rejection::CodecRejection;
use super::set::{AnyCodec, CodecSet};
use crate::extract::{FromRequestParts, Produces, Rejection};
use crate::request::Parts;
use crate::respond::Error;

/// In which format a response is to be: that of the [`Codecs`](crate::layers::Codecs) of the route which the peer likes best by its
/// `Accept`, or JSON without that layer. A handler takes it as an argument and gives it to [`Negotiated`].
///
/// If the peer accepts none, it gets a 406 that lists them, and the handler does not run. For a handler that says what it
/// [produces](crate::Handler::produces), it is what the router has chosen of that.
#[derive(Clone)]
pub struct Format {
    set: Arc<CodecSet>,
    codec: AnyCodec,
    media_type: MediaType,
}

impl Format {
    /// The media type that the response will have.
    pub fn media_type(&self) -> &MediaType {
        &self.media_type
    }
}

impl FromRequestParts for Format {
    type Rejection = CodecRejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, CodecRejection> {
        let set = CodecSet::of_request(parts);
        let best = match parts.extensions().get::<Produces>() {
            None => set.best(&Accept::of(parts.headers())),
            // Chosen before, perhaps by the query.
            Some(Produces(chosen)) => Some(set.writer(chosen).ok_or_else(|| cannot_write(chosen))?),
        };
        match best {
            Some((codec, media_type)) => {
                let (codec, media_type) = (codec.clone(), media_type.clone());
                Ok(Self { codec, media_type, set })
            }
            None => Err(CodecRejection::NotAcceptable { writes: set.writes() }),
        }
    }
}

fn cannot_write(chosen: &MediaType) -> Rejection {
    Rejection::Parameters(format!("it produces {}, which no codec of the route writes", chosen.as_str()))
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format").field("media_type", &self.media_type).finish_non_exhaustive()
    }
}

/// A value as the body of a response, in the format that its peer likes best. The response says by `Vary` that it depends on `Accept`.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::codec::{Format, Negotiated};
/// use anywire_server::{Path, Router};
///
/// #[derive(serde::Serialize)]
/// struct Order { id: u64 }
///
/// async fn order(Path(id): Path<u64>, format: Format) -> Result<Negotiated<Order>, StatusCode> {
///     if id == 0 {
///         return Err(StatusCode::NOT_FOUND);
///     }
///     Ok(Negotiated(Order { id }, format))
/// }
/// # drop(Router::new().get("/orders/{id}", order));
/// ```
#[derive(Debug, Clone)]
pub struct Negotiated<T>(pub T, pub Format);

impl<T: Serialize + 'static> IntoResponse for Negotiated<T> {
    fn into_response(self) -> Response {
        let Self(value, format) = self;
        match format.encode(value) {
            Ok(response) => response,
            Err(error) => error.into_response(),
        }
    }
}

impl Format {
    fn encode<T: Serialize + 'static>(&self, mut value: T) -> Result<Response, Error> {
        let Self { set, codec, media_type } = self;
        for advice in &set.advice {
            advice.before_encode(media_type, &mut value)?;
        }
        let mut bytes = codec.encode(&value).map_err(of_writer)?;
        for advice in set.advice.iter().rev() {
            bytes = advice.after_encode(media_type, bytes)?;
        }
        let fields = [("content-type", media_type.as_str()), ("vary", "accept")];
        Ok((fields, bytes).into_response())
    }
}
