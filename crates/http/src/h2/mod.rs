//! HTTP/2 on the wire (RFC 9113): one engine for both roles.
//!
//! Sans-IO: [`Engine::receive`] takes frames out of a [`Buffer`](crate::Buffer) and gives events; all methods append what
//! is to be sent to a `Vec<u8>`, so that everything that is ready leaves in one write. Time is a parameter.
//!
//! The engine counts windows, orders the streams that send, checks what the peer sends, and holds no byte of a body: the
//! driver keeps those, and asks [`Engine::next_to_send`] whose turn it is.
//!
//! ```
//! use std::time::Instant;
//!
//! use anywire_http::h2::{Engine, Event, Limits, ResponseParts};
//! use anywire_http::{Buffer, Headers, Method, RequestHead, StatusCode};
//!
//! let now = Instant::now();
//! let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
//! let mut client = Engine::client(Limits::default(), now, &mut to_server);
//! let mut server = Engine::server(Limits::default(), now, &mut to_client);
//!
//! let mut head = RequestHead::new(Method::GET, "/hello")?;
//! head.set_origin("http", "localhost")?;
//! let asked = client.open(&head, None, true, &mut to_server)?;
//!
//! let mut input = Buffer::new();
//! input.fill_from(&to_server);
//! let Some(Event::Request { id, head, end: true, .. }) = server.receive(now, &mut input, &mut to_client)? else {
//!     panic!("a whole request was given")
//! };
//! assert_eq!(head.path(), "/hello");
//! let fields = Headers::new();
//! let parts = ResponseParts { length: Some(2), ..ResponseParts::new(StatusCode::OK, &fields) };
//! server.respond(id, &parts, false, &mut to_client)?;
//! server.data_head(id, 2, true, &mut to_client);
//! to_client.extend_from_slice(b"hi");
//!
//! input.fill_from(&to_client);
//! let Some(Event::Response { id, head, .. }) = client.receive(now, &mut input, &mut to_server)? else {
//!     panic!("a head was given")
//! };
//! assert_eq!((id, head.status()), (asked, StatusCode::OK));
//! let Some(Event::Data { data: b"hi", end: true, .. }) = client.receive(now, &mut input, &mut to_server)? else {
//!     panic!("a body was given")
//! };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod engine;
mod error;
mod fault;
mod fields;
mod frame;
mod head;
mod hpack;
mod limits;
mod priority;
mod receive;
mod send;
mod settings;
mod stream;
mod window;

pub use self::engine::{Engine, Event, PeerSettings, Protocol};
pub use self::error::{Abuse, Code, Error, GoAway, MessageError, Unacknowledged};
pub use self::fault::{FrameFault, MessageFault};
pub use self::hpack::HpackError;
#[cfg(fuzzing)]
pub use self::hpack::{Hpack, Pair};
pub use self::limits::{EngineLimits, Limits, Rate};
pub use self::send::{Refused, RequestParts, ResponseParts, Unsent};
pub use self::stream::{IdHasher, StreamId, StreamMap};
