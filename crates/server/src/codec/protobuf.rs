//! Messages of Protocol Buffers beside other formats.

use std::fmt;
use std::marker::PhantomData;

use anywire_http::Bytes;
use prost::Message;

use super::{Codec, CodecError, Source, Target};

/// The codec of Protocol Buffers for routes that read `In` and write `Out`, by the crate `prost`. Serde does not know tags of fields, so
/// the codec takes the messages themselves. Both types have the traits of serde as well, for the other codecs.
///
/// A route that speaks nothing else takes [`Protobuf`](crate::Protobuf).
///
/// ```
/// use anywire_server::Router;
/// use anywire_server::codec::{Decoded, Format, Negotiated, ProtobufCodec};
/// use anywire_server::layers::Codecs;
///
/// #[derive(Clone, PartialEq, prost::Message, serde::Serialize, serde::Deserialize)]
/// struct Order {
///     #[prost(string, tag = "1")]
///     item: String,
/// }
///
/// let echo = async |format: Format, Decoded(order): Decoded<Order>| Negotiated(order, format);
/// let codecs = Codecs::new().json().with(ProtobufCodec::<Order, Order>::new());
/// let router = Router::new().post("/orders", echo).layer(codecs);
/// # drop(router);
/// ```
pub struct ProtobufCodec<In, Out> {
    types: PhantomData<fn(In) -> Out>,
}

impl<In, Out> ProtobufCodec<In, Out> {
    /// Of these types.
    pub fn new() -> Self {
        Self { types: PhantomData }
    }
}

impl<In, Out> Codec for ProtobufCodec<In, Out>
where
    In: Message + Default + 'static,
    Out: Message + 'static,
{
    fn media_types(&self) -> &[&str] {
        &["application/protobuf", "application/x-protobuf", "application/vnd.google.protobuf"]
    }

    fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
        target.put(In::decode(body.clone())?)
    }

    fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
        Ok(value.value::<Out>()?.encode_to_vec().into())
    }
}

impl<In, Out> Default for ProtobufCodec<In, Out> {
    fn default() -> Self {
        Self::new()
    }
}

impl<In, Out> fmt::Debug for ProtobufCodec<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtobufCodec").finish_non_exhaustive()
    }
}
