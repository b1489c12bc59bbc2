//! HTTP/1.0 and HTTP/1.1 on the wire (RFC 9112): decoders, encoder, limits.
//!
//! Strict on purpose: input that two implementations could read in two ways is refused, because such differences let
//! requests be smuggled past a proxy. Examples are both lengths, a bare LF, a folded line of a request, a second
//! `Content-Length`, and a sign in a chunk size. After an error a decoder stays in error, because nothing behind it can
//! be trusted.

mod body;
mod chunked;
mod error;
mod framing;
mod head;
mod host;
mod input;
mod limits;
mod plain;
mod repeated;
mod request_decoder;
mod response_decoder;
mod unfold;
mod view;

pub mod encode;

pub use error::DecodeError;
pub use framing::{Framing, HeadInfo};
pub use input::Input;
pub use limits::Limits;
pub use repeated::LastHead;
pub use request_decoder::{RequestDecoder, RequestEvent};
pub use response_decoder::{ResponseDecoder, ResponseEvent};
pub use view::{RequestView, ResponseView};

pub(crate) use framing::decimal;
