//! HTTP/1.0, HTTP/1.1 and HTTP/2 as bytes in, bytes out: messages, headers, bodies, and the engines that decode and
//! encode them: [`h1`], and [`h2`] for both roles.
//!
//! This crate is sans-IO: it owns no socket, reads no clock and starts no task. Bytes that arrived are put into a
//! [`Buffer`], a decoder takes events out of it, and the functions of [`h1::encode`] append the bytes to send
//! to a `Vec<u8>`. Its driver (the server, the client, the load generator, a test) brings the wire.
//!
//! The drain rule: after each filling of the buffer, call `decode` until it returns `None`. Only then read again.
//! Decoding can also work without a buffer and without copying heads: see [`h1::Input`] and
//! [`h1::RequestDecoder::decode_with`].
//!
//! ```
//! use anywire_http::{Buffer, Headers, StatusCode, h1};
//!
//! let mut input = Buffer::new();
//! let request = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
//! input.spare()[..request.len()].copy_from_slice(request);
//! input.filled(request.len());
//!
//! let mut decoder = h1::RequestDecoder::new(h1::Limits::default());
//! let Some(h1::RequestEvent::Head(head, info)) = decoder.decode(&mut input)? else { panic!("a whole head was given") };
//! assert_eq!(head.path(), "/hello");
//!
//! let mut output = Vec::new();
//! h1::encode::response_head(
//!     &mut output,
//!     &h1::encode::FramedHead {
//!         status: StatusCode::OK,
//!         headers: &Headers::new(),
//!         framing: h1::Framing::Length(2),
//!         stated_length: None,
//!         version: head.version(),
//!         keep_alive: info.keep_alive,
//!         answers_head: false,
//!         date: None,
//!     },
//! );
//! output.extend_from_slice(b"hi");
//! assert_eq!(output, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
//! # Ok::<(), h1::DecodeError>(())
//! ```

pub mod accept;
pub mod body;
pub mod buffer;
pub mod codec;
pub mod convert;
pub mod cookie;
pub mod date;
pub mod gateway;
pub mod h1;
pub mod h2;
pub mod headers;
pub mod message;
pub mod multipart;
#[cfg(feature = "signatures")]
pub mod signatures;
pub mod url;

mod fault;
mod free_list;
mod into_response;
mod limits;

pub use body::{Body, BodyError};
pub use buffer::Buffer;
pub use bytes::Bytes;
pub use convert::ConvertError;
pub use date::DateLine;
pub use fault::Fault;
pub use headers::{Headers, InvalidHeader, StaticHeader};
pub use http::{Extensions, Method, StatusCode, Version};
pub use into_response::{Created, IntoResponse, IntoResponseParts, NoContent, Redirect, SameSite, SetCookie};
pub use limits::HeadLimits;
pub use message::{InvalidRequest, InvalidTarget, Request, RequestHead, Response, ResponseHead};
pub use url::Url;
