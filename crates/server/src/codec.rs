//! Formats of bodies beside JSON: what reads and writes them, which of them a request is in, and which its response is to be in.
//!
//! A codec knows no types and a handler knows no codecs: [`Source`] and [`Target`] stand between them. The layer
//! [`Codecs`](crate::layers::Codecs) leaves those of a route among the extensions of a request, where [`Decoded`] and [`Format`]
//! find them. A route without that layer has JSON, and a route that takes neither pays nothing.

mod advice;
mod decoded;
mod negotiated;
#[cfg(feature = "protobuf")]
mod protobuf;
mod rejection;
mod set;

use std::any::{Any, type_name};
use std::error::Error as StdError;
use std::fmt;

use anywire_http::{Bytes, StatusCode};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _};
use serde::{Serialize, Serializer};

use crate::respond::{Error, FAILED};

pub use self::advice::CodecAdvice;
pub use self::decoded::Decoded;
pub use self::negotiated::{Format, Negotiated};
#[cfg(feature = "protobuf")]
pub use self::protobuf::ProtobufCodec;
pub use self::rejection::CodecRejection;
pub(crate) use self::set::{Set, Settings};

/// Reads and writes bodies of a media type. Routes get theirs by the layer [`Codecs`](crate::layers::Codecs).
///
/// A format that serde knows takes a few lines, here with `serde_json` in the place of a crate for the format:
///
/// ```
/// use anywire_http::Bytes;
/// use anywire_server::codec::{Codec, CodecError, Decoded, Format, Negotiated, Source, Target};
/// use anywire_server::layers::Codecs;
/// use anywire_server::Router;
/// use serde::de::DeserializeSeed;
///
/// struct Pretty;
///
/// impl Codec for Pretty {
///     fn media_types(&self) -> &[&str] {
///         &["application/vnd.shop.pretty"]
///     }
///
///     fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
///         Ok(target.deserialize(&mut serde_json::Deserializer::from_slice(body))?)
///     }
///
///     fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
///         Ok(serde_json::to_vec_pretty(&value)?.into())
///     }
/// }
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Order { item: String }
///
/// let echo = async |format: Format, Decoded(order): Decoded<Order>| Negotiated(order, format);
/// let router = Router::new().post("/orders", echo).layer(Codecs::new().json().with(Pretty));
/// # anywire_loops::block_on(async {
/// let request = anywire_http::Request::post("/orders").header("content-type", "application/vnd.shop.pretty");
/// let request = request.header("accept", "application/json").body("{\n  \"item\": \"tea\"\n}");
/// let mut response = router.call(request).await;
/// assert_eq!(response.headers.get("content-type"), Some("application/json"));
/// assert_eq!(response.body.text(100).await?, r#"{"item":"tea"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// One for a single type takes the value itself: `value.value::<Order>()?` and `target.put(order)`.
pub trait Codec: Send + Sync + 'static {
    /// The media types that it reads. It writes those that are no ranges, such as `application/*+json`; the first one is the best. One that is
    /// none is an error at start.
    fn media_types(&self) -> &[&str];

    /// Reads a value.
    ///
    /// # Errors
    /// The peer's fault, 400, unless the [`CodecError`] has another status.
    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError>;

    /// Writes a value.
    ///
    /// # Errors
    /// The server's fault, 500, unless the [`CodecError`] has another status.
    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError>;
}

/// A value to be written. It serializes as the value does.
#[derive(Clone, Copy)]
pub struct Source<'v> {
    value: &'v dyn erased_serde::Serialize,
    any: &'v dyn Any,
}

impl<'v> Source<'v> {
    pub(crate) fn new<T: Serialize + 'static>(value: &'v T) -> Self {
        Self { value, any: value }
    }

    /// The value itself, if it is of this type: for a codec with bounds of its own.
    ///
    /// # Errors
    /// It is of another type: 500, because a route has a codec that does not fit its handler.
    pub fn value<T: 'static>(&self) -> Result<&'v T, CodecError> {
        self.any.downcast_ref().ok_or_else(CodecError::of_another_type::<T>)
    }
}

impl Serialize for Source<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        erased_serde::serialize(self.value, serializer)
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// Where a value that is read goes. As a [`DeserializeSeed`] it takes it from a deserializer of serde.
pub struct Target<'t> {
    place: &'t mut dyn Place,
}

impl<'t> Target<'t> {
    pub(crate) fn new<T: DeserializeOwned + 'static>(place: &'t mut Option<T>) -> Self {
        Self { place }
    }

    /// Puts the value itself there, if it is of the type that is wanted: for a codec with bounds of its own.
    ///
    /// # Errors
    /// Another type is wanted: 500, because a route has a codec that does not fit its handler.
    pub fn put<T: 'static>(self, value: T) -> Result<(), CodecError> {
        let mut value = Some(value);
        self.place.put(&mut value);
        match value {
            None => Ok(()),
            Some(_) => Err(CodecError::of_another_type::<T>()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Target<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let mut erased = <dyn erased_serde::Deserializer<'_>>::erase(deserializer);
        self.place.deserialize(&mut erased).map_err(D::Error::custom)
    }
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

/// Room for a value, without its type.
trait Place {
    fn deserialize(
        &mut self,
        deserializer: &mut dyn erased_serde::Deserializer<'_>,
    ) -> Result<(), erased_serde::Error>;

    /// Takes the value out of an `Option` of the same type.
    fn put(&mut self, value: &mut dyn Any);
}

impl<T: DeserializeOwned + 'static> Place for Option<T> {
    fn deserialize(
        &mut self,
        deserializer: &mut dyn erased_serde::Deserializer<'_>,
    ) -> Result<(), erased_serde::Error> {
        *self = Some(erased_serde::deserialize(deserializer)?);
        Ok(())
    }

    fn put(&mut self, value: &mut dyn Any) {
        if let Some(value) = value.downcast_mut::<Self>() {
            *self = value.take();
        }
    }
}

/// Why a codec cannot read or write a value. `?` makes one of any error, and of a text.
pub struct CodecError {
    /// `None` for that of the party at fault.
    status: Option<StatusCode>,
    cause: Box<dyn StdError + Send + Sync>,
}

impl CodecError {
    /// With a status of its own, such as 422 for a value of another shape.
    pub fn new(status: StatusCode, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { status: Some(status), cause: cause.into() }
    }

    /// That of a codec for this type, which has met another one.
    fn of_another_type<T>() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("this codec is for {} alone", type_name::<T>()))
    }

    /// That of a codec which cannot write a value.
    fn of_writer(self) -> Error {
        let status = self.status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let message = match status.is_server_error() {
            true => FAILED.to_owned(),
            false => self.cause.to_string(),
        };
        Error::with_cause(status, message, self.cause)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for CodecError {
    fn from(cause: E) -> Self {
        Self { status: None, cause: cause.into() }
    }
}

impl fmt::Debug for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodecError").field("status", &self.status).field("cause", &self.cause).finish()
    }
}
