//! Messages of Protocol Buffers beside other formats.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use prost::Message;

use super::{Codec, CodecError, Source, Target};

/// The codec of Protocol Buffers for those that read `In` and write `Out`, by the crate `prost`. Serde does not know tags of fields, so
/// the codec takes the messages themselves. Both types have the traits of serde as well, for the other codecs.
///
/// ```
/// use anywire_http::codec::{Codec, CodecError, ProtobufCodec, Source, Target};
///
/// #[derive(Clone, PartialEq, prost::Message, serde::Serialize, serde::Deserialize)]
/// struct Order {
///     #[prost(string, tag = "1")]
///     item: String,
/// }
///
/// let codec = ProtobufCodec::<Order, Order>::new();
/// let bytes = codec.encode(Source::new(&Order { item: "tea".to_owned() }))?;
/// let mut order: Option<Order> = None;
/// codec.decode(&bytes, Target::new(&mut order))?;
/// assert_eq!(order.map(|order| order.item).as_deref(), Some("tea"));
/// # Ok::<(), CodecError>(())
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
