//! Formats of bodies beside JSON: what reads and writes them, which of them a request is in, and which its response is to be in.
//!
//! A codec knows no types and a handler knows no codecs: [`Source`] and [`Target`] stand between them. The layer
//! [`Codecs`](crate::layers::Codecs) leaves those of a route among the extensions of a request, where [`Decoded`] and [`Format`]
//! find them. A route without that layer has JSON, and a route that takes neither pays nothing.
//!
//! ```
//! use anywire_server::Router;
//! use anywire_server::codec::{Codec, CodecError, Decoded, Format, Negotiated, Source, Target};
//! use anywire_server::layers::Codecs;
//! use anywire_http::Bytes;
//! use serde::de::DeserializeSeed;
//!
//! struct Pretty;
//!
//! impl Codec for Pretty {
//!     fn media_types(&self) -> &[&str] {
//!         &["application/vnd.shop.pretty"]
//!     }
//!
//!     fn decode(&self, body: &Bytes, target: Target<'_>) -> Result<(), CodecError> {
//!         Ok(target.deserialize(&mut serde_json::Deserializer::from_slice(body))?)
//!     }
//!
//!     fn encode(&self, value: Source<'_>) -> Result<Bytes, CodecError> {
//!         Ok(serde_json::to_vec_pretty(&value)?.into())
//!     }
//! }
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Order { item: String }
//!
//! let echo = async |format: Format, Decoded(order): Decoded<Order>| Negotiated(order, format);
//! let router = Router::new().post("/orders", echo).layer(Codecs::new().json().with(Pretty));
//! # anywire_loops::block_on(async {
//! let request = anywire_http::Request::post("/orders").header("content-type", "application/vnd.shop.pretty");
//! let request = request.header("accept", "application/json").body("{\n  \"item\": \"tea\"\n}");
//! let mut response = router.call(request).await;
//! assert_eq!(response.headers.get("content-type"), Some("application/json"));
//! assert_eq!(response.body.text(100).await?, r#"{"item":"tea"}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod decoded;
mod negotiated;
mod rejection;
mod set;

use anywire_http::StatusCode;
pub use anywire_http::codec::{Codec, CodecError, Source, Target};

#[cfg(feature = "protobuf")]
pub use anywire_http::codec::ProtobufCodec;

use crate::respond::{Error, FAILED};

pub use self::advice::CodecAdvice;
pub use self::decoded::Decoded;
pub use self::negotiated::{Format, Negotiated};
pub use self::rejection::CodecRejection;
pub(crate) use self::set::{CodecSet, CodecSettings};

/// The error of a codec that cannot write a value.
fn of_writer(error: CodecError) -> Error {
    let (status, cause) = error.into_parts();
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let message = match status.is_server_error() {
        true => FAILED.to_owned(),
        false => cause.to_string(),
    };
    Error::with_cause(status, message, cause)
}
