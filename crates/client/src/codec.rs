//! Formats of bodies: an ordered list of what writes the bodies of requests and reads those of responses, and code around it.
//!
//! The words are those of the server: a [`Codec`] reads and writes a media type, a [`CodecAdvice`] sees bytes and values before and behind it.
//! A client without [`Codecs`] of its own has JSON, text, forms and bytes, and sends no `accept` because of them.
//!
//! ```no_run
//! use anywire_client::Client;
//! use anywire_client::codec::Codecs;
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Order { item: String }
//!
//! # async fn example() -> Result<(), anywire_client::Error> {
//! let client = Client::builder().codecs(Codecs::new().json().text()).build();
//! let order = Order { item: "tea".to_owned() };
//! let stored: Order = client.post("http://shop/orders").encode(order).send().await?.decode().await?;
//! # drop(stored); Ok(()) }
//! ```

mod builtin;
mod charset;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, LazyLock};

use anywire_http::accept::MediaType;
use anywire_http::{Bytes, ResponseHead};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::Call;
use crate::call::request::CallRequest;
use crate::{ClientBuilder, Error, Response};

#[cfg(feature = "protobuf")]
pub use anywire_http::codec::ProtobufCodec;
pub use anywire_http::codec::{Codec, CodecError, Source, Target};
pub use builtin::{BytesCodec, FormCodec, JsonCodec, TextCodec};
pub(crate) use charset::to_utf8;

/// Code around codecs: it sees the bytes and the value of a body, changes them, or refuses.
///
/// Of several, the first one is the outermost: the methods `before_..` run in the order in which they were added, and `after_..` in the
/// reverse order.
///
/// ```
/// use std::any::Any;
///
/// use anywire_client::codec::{CodecAdvice, CodecError, Codecs};
/// use anywire_http::ResponseHead;
///
/// #[derive(serde::Deserialize)]
/// struct Order { item: String }
///
/// /// What has no item is no order.
/// struct House;
///
/// impl CodecAdvice for House {
///     fn after_decode(&self, _: &ResponseHead, value: &mut dyn Any) -> Result<(), CodecError> {
///         match value.downcast_ref::<Order>() {
///             Some(order) if order.item.is_empty() => Err("an order names an item".into()),
///             _ => Ok(()),
///         }
///     }
/// }
/// # drop(Codecs::new().json().advice(House));
/// ```
pub trait CodecAdvice: Send + Sync + 'static {
    /// The value that the caller has given.
    fn before_encode(&self, _media_type: &MediaType, _value: &mut dyn Any) -> Result<(), CodecError> {
        Ok(())
    }

    /// The body of the request.
    fn after_encode(&self, _media_type: &MediaType, bytes: Bytes) -> Result<Bytes, CodecError> {
        Ok(bytes)
    }

    /// The body of a response as it came.
    fn before_decode(&self, _head: &ResponseHead, bytes: Bytes) -> Result<Bytes, CodecError> {
        Ok(bytes)
    }

    /// The value that the caller will get.
    fn after_decode(&self, _head: &ResponseHead, _value: &mut dyn Any) -> Result<(), CodecError> {
        Ok(())
    }
}

/// Codecs in order, and advice around all of them.
#[derive(Clone, Default)]
#[must_use]
pub struct Codecs {
    list: Vec<Arc<dyn Codec>>,
    advice: Vec<Arc<dyn CodecAdvice>>,
}

impl Codecs {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// [`JsonCodec`].
    pub fn json(self) -> Self {
        self.with(JsonCodec)
    }

    /// [`TextCodec`].
    pub fn text(self) -> Self {
        self.with(TextCodec)
    }

    /// [`FormCodec`].
    pub fn form(self) -> Self {
        self.with(FormCodec)
    }

    /// [`BytesCodec`].
    pub fn bytes(self) -> Self {
        self.with(BytesCodec)
    }

    /// A codec of your own, behind those that were added before.
    pub fn with(mut self, codec: impl Codec) -> Self {
        self.list.push(Arc::new(codec));
        self
    }

    /// Code around all codecs, within that which was added before.
    pub fn advice(mut self, advice: impl CodecAdvice) -> Self {
        self.advice.push(Arc::new(advice));
        self
    }

    /// The codecs of a client that was given none.
    fn usual() -> &'static Self {
        static USUAL: LazyLock<Codecs> = LazyLock::new(|| Codecs::new().json().text().form().bytes());
        &USUAL
    }

    /// What they read, for the field `accept`.
    fn reads(&self) -> String {
        let all: Vec<_> = self.list.iter().flat_map(|codec| codec.media_types().iter().copied()).collect();
        all.join(", ")
    }

    /// The body of a value, and its media type.
    fn encode<T: Serialize + 'static>(
        &self,
        wanted: Option<&str>,
        mut value: T,
    ) -> Result<(MediaType, Bytes), CodecError> {
        let mut refused = None;
        for codec in &self.list {
            let types = codec.media_types().iter().filter_map(|text| MediaType::parse(text).ok());
            let fits = |of_codec: &MediaType| match wanted {
                Some(wanted) => of_codec.includes_text(wanted),
                None => !of_codec.is_range(),
            };
            let mut types = types.filter(fits);
            let Some(media_type) = types.next() else { continue };
            for advice in &self.advice {
                advice.before_encode(&media_type, &mut value)?;
            }
            match codec.encode(Source::new(&value)) {
                Ok(bytes) => {
                    let around = self.advice.iter().rev();
                    let bytes = around
                        .into_iter()
                        .try_fold(bytes, |bytes, advice| advice.after_encode(&media_type, bytes))?;
                    return Ok((media_type, bytes));
                }
                // The next one may be for it.
                Err(error) if error.is_of_another_type() => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.unwrap_or_else(|| "no codec of this call writes that".into()))
    }

    fn decode<T: DeserializeOwned + 'static>(
        &self,
        head: &ResponseHead,
        bytes: Bytes,
    ) -> Result<T, CodecError> {
        let content_type = head.headers().get("content-type").unwrap_or_default();
        let bytes = self.advice.iter().try_fold(bytes, |bytes, advice| advice.before_decode(head, bytes))?;
        let bytes = to_utf8(content_type, bytes)?;
        let mut refused = None;
        for codec in &self.list {
            let types = codec.media_types().iter().filter_map(|text| MediaType::parse(text).ok());
            // Without a type it is what its reader takes it for (RFC 9110 section 8.3).
            let is_its =
                |of_codec: MediaType| content_type.is_empty() || of_codec.includes_text(content_type);
            if !types.into_iter().any(is_its) {
                continue;
            }
            let mut place: Option<T> = None;
            match (codec.decode(&bytes, Target::new(&mut place)), place) {
                (Ok(()), Some(mut value)) => {
                    for advice in self.advice.iter().rev() {
                        advice.after_decode(head, &mut value)?;
                    }
                    return Ok(value);
                }
                (Ok(()), None) => return Err("the codec has left no value".into()),
                (Err(error), _) if error.is_of_another_type() => refused = Some(error),
                (Err(error), _) => return Err(error),
            }
        }
        Err(refused.unwrap_or_else(|| format!("what is read is {}", self.reads()).into()))
    }
}

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codecs({})", self.reads())
    }
}

impl ClientBuilder {
    /// The formats of bodies, for [`Call::encode`] and [`Response::decode`]. A call without an `accept` gets one that lists them.
    pub fn codecs(mut self, codecs: Codecs) -> Self {
        self.codecs = Some(Arc::new(codecs));
        self
    }
}

impl Call {
    /// Puts a codec before those of the client, for this call. It counts for an [`encode`](Self::encode) that follows.
    pub fn codec(self, codec: impl Codec) -> Self {
        self.edit(|request| {
            let Codecs { list, advice } = request.codecs().clone();
            let list = std::iter::once(Arc::new(codec) as Arc<dyn Codec>).chain(list).collect();
            request.options.codecs = Some(Arc::new(Codecs { list, advice }));
            Ok(())
        })
    }

    /// Puts a codec in the place of all those of the client, for this call. The advice of the client stays.
    pub fn only_codec(self, codec: impl Codec) -> Self {
        self.edit(|request| {
            let advice = request.codecs().advice.clone();
            request.options.codecs = Some(Arc::new(Codecs { list: vec![Arc::new(codec)], advice }));
            Ok(())
        })
    }

    /// Sets the body to a value, by the first codec that can write it, and `content-type` if it is not set. If it is set, by the first
    /// codec of that type. [`send`](Self::send) reports [`Unwritable`](Error::Unwritable) if there is none.
    pub fn encode<T: Serialize + 'static>(self, value: T) -> Self {
        self.edit(|request| {
            let wanted = request.headers.get("content-type").map(str::to_owned);
            let encoded = request.codecs().encode(wanted.as_deref(), value);
            let (media_type, bytes) = encoded.map_err(|error| Error::Unwritable(error.into_parts().1))?;
            if wanted.is_none() {
                request.headers.append("content-type", media_type.as_str())?;
            }
            request.set_body(bytes);
            Ok(())
        })
    }
}

impl CallRequest {
    fn codecs(&self) -> &Codecs {
        self.options.codecs.as_deref().unwrap_or_else(|| Codecs::usual())
    }

    /// Says which formats are read, if the caller has named codecs and no `accept`.
    pub(crate) fn accept_by_codecs(&mut self) -> Result<(), Error> {
        let Some(codecs) = self.options.codecs.as_ref().filter(|codecs| !codecs.list.is_empty()) else {
            return Ok(());
        };
        if !self.headers.contains("accept") {
            self.headers.append("accept", codecs.reads())?;
        }
        Ok(())
    }
}

impl Response {
    /// The rest of the body as a value, by the codec of its `content-type`: the first one of the call that reads that type and knows the
    /// type of the value. Without a `content-type` each codec may be the one. Text in the charsets UTF-8, ISO-8859-1 and Windows-1252 is read.
    ///
    /// # Errors
    /// [`Unreadable`](Error::Unreadable), which names URL, status and type and shows the first bytes; and the errors of
    /// [`bytes`](Self::bytes).
    pub async fn decode<T: DeserializeOwned + 'static>(mut self) -> Result<T, Error> {
        let bytes = self.collect().await?;
        self.check_coding(&bytes)?;
        let codecs = self.codecs();
        let codecs = codecs.as_deref().unwrap_or_else(|| Codecs::usual());
        codecs.decode(self.head(), bytes.clone()).map_err(|error| self.unreadable(&bytes, error))
    }
}
