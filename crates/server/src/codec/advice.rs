//! Code around codecs.

use std::any::Any;

use anywire_http::Bytes;
use anywire_http::accept::MediaType;

use crate::request::Parts;
use crate::respond::Error;

/// Code around the codecs of a route: it sees the bytes and the value of a body, changes them, or refuses by an [`Error`]. Routes get
/// it by [`Codecs::advice`](crate::layers::Codecs::advice).
///
/// Of several, the first one is the outermost: the methods `before_..` run in the order in which they were added, and `after_..` in the
/// reverse order. A panic is a 500 of that request.
///
/// ```
/// use std::any::Any;
///
/// use anywire_http::{Bytes, StatusCode};
/// use anywire_http::accept::MediaType;
/// use anywire_server::codec::CodecAdvice;
/// use anywire_server::{Error, Parts};
///
/// struct Order { item: String, seen_by: String }
///
/// /// Orders carry who has read them, and responses end with a line break.
/// struct House;
///
/// impl CodecAdvice for House {
///     fn after_decode(&self, parts: &Parts, value: &mut dyn Any) -> Result<(), Error> {
///         if let Some(order) = value.downcast_mut::<Order>() {
///             if order.item.is_empty() {
///                 return Err(Error::new(StatusCode::UNPROCESSABLE_ENTITY, "an order names an item"));
///             }
///             order.seen_by = parts.peer().to_string();
///         }
///         Ok(())
///     }
///
///     fn after_encode(&self, _: &MediaType, bytes: Bytes) -> Result<Bytes, Error> {
///         Ok([&bytes[..], b"\n"].concat().into())
///     }
/// }
/// # drop(anywire_server::layers::Codecs::new().json().advice(House));
/// ```
pub trait CodecAdvice: Send + Sync + 'static {
    /// The body of a request as it came.
    fn before_decode(&self, _parts: &Parts, bytes: Bytes) -> Result<Bytes, Error> {
        Ok(bytes)
    }

    /// The value that the handler will get: a `T` for [`Decoded<T>`](super::Decoded).
    fn after_decode(&self, _parts: &Parts, _value: &mut dyn Any) -> Result<(), Error> {
        Ok(())
    }

    /// The value that the handler has given: a `T` for [`Negotiated<T>`](super::Negotiated).
    fn before_encode(&self, _media_type: &MediaType, _value: &mut dyn Any) -> Result<(), Error> {
        Ok(())
    }

    /// The body of the response.
    fn after_encode(&self, _media_type: &MediaType, bytes: Bytes) -> Result<Bytes, Error> {
        Ok(bytes)
    }
}
