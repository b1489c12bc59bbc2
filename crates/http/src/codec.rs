//! Formats of bodies: what reads and writes a media type, on the side of the server and of the client alike.
//!
//! A codec knows no types and its caller knows no codecs: [`Source`] and [`Target`] stand between them.

#[cfg(feature = "protobuf")]
mod protobuf;

use std::any::{Any, type_name};
use std::error::Error as StdError;
use std::fmt;

use bytes::Bytes;
use http::StatusCode;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _};
use serde::{Serialize, Serializer};

#[cfg(feature = "protobuf")]
pub use self::protobuf::ProtobufCodec;

/// Reads and writes bodies of a media type.
///
/// A format that serde knows takes a few lines, here with `serde_json` in the place of a crate for the format:
///
/// ```
/// use anywire_http::Bytes;
/// use anywire_http::codec::{Codec, CodecError, Source, Target};
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
/// let mut order: Option<Vec<u8>> = None;
/// Pretty.decode(&Bytes::from("[1,\n2]"), Target::new(&mut order))?;
/// assert_eq!(order, Some(vec![1, 2]));
/// # Ok::<(), CodecError>(())
/// ```
///
/// One for a single type takes the value itself: `value.value::<Order>()?` and `target.put(order)`.
pub trait Codec: Send + Sync + 'static {
    /// The media types that it reads. It writes those that are no ranges, such as `application/*+json`; the first one is the best. One that is
    /// none is an error when the codec is used.
    fn media_types(&self) -> &[&str];

    /// Reads a value.
    ///
    /// # Errors
    /// The fault of who wrote the body, at a server 400, unless the [`CodecError`] has another status.
    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError>;

    /// Writes a value.
    ///
    /// # Errors
    /// The fault of who writes, at a server 500, unless the [`CodecError`] has another status.
    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError>;
}

/// A value to be written. It serializes as the value does.
#[derive(Clone, Copy)]
pub struct Source<'v> {
    value: &'v dyn erased_serde::Serialize,
    any: &'v dyn Any,
}

impl<'v> Source<'v> {
    /// Of this value.
    pub fn new<T: Serialize + 'static>(value: &'v T) -> Self {
        Self { value, any: value }
    }

    /// The value itself, if it is of this type: for a codec with bounds of its own.
    ///
    /// # Errors
    /// It is of another type: 500, because the codec does not fit its caller.
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
    /// Leaves the value there.
    pub fn new<T: DeserializeOwned + 'static>(place: &'t mut Option<T>) -> Self {
        Self { place }
    }

    /// Puts the value itself there, if it is of the type that is wanted: for a codec with bounds of its own.
    ///
    /// # Errors
    /// Another type is wanted: 500, because the codec does not fit its caller.
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
    is_of_another_type: bool,
}

impl CodecError {
    /// With a status of its own, such as 422 for a value of another shape.
    pub fn new(status: StatusCode, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { status: Some(status), cause: cause.into(), is_of_another_type: false }
    }

    /// That of a codec for this type, which has met another one.
    fn of_another_type<T>() -> Self {
        let cause = format!("this codec is for {} alone", type_name::<T>());
        let error = Self::new(StatusCode::INTERNAL_SERVER_ERROR, cause);
        Self { is_of_another_type: true, ..error }
    }

    /// Whether the codec is not for the type of this value, by [`Source::value`] or [`Target::put`]: another one may be.
    pub fn is_of_another_type(&self) -> bool {
        self.is_of_another_type
    }

    /// The status that a server is to answer with, and the cause. `None`: that of the party at fault.
    pub fn into_parts(self) -> (Option<StatusCode>, Box<dyn StdError + Send + Sync>) {
        (self.status, self.cause)
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for CodecError {
    fn from(cause: E) -> Self {
        Self { status: None, cause: cause.into(), is_of_another_type: false }
    }
}

impl fmt::Debug for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodecError").field("status", &self.status).field("cause", &self.cause).finish()
    }
}
