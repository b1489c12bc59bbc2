//! The tower world, both ways: its services as handlers, its layers around routes, and a router as one of its services.
//!
//! | to | use |
//! | --- | --- |
//! | answer a route or a fallback by a service, such as an `axum::Router` | [`service`] |
//! | answer everything below a prefix by a service | [`Router::nest_service`](crate::Router::nest_service) |
//! | give a router to hyper, `axum::serve` or tonic's server | [`Router::into_service`](crate::Router::into_service) |
//!
//! A service is cloned once for each loop and stays there: its futures need not be `Send`, and run beside the connection.
//!
//! What a service cannot do here: take over the connection. `hyper::upgrade::OnUpgrade` can only be made by hyper, so a
//! WebSocket of an axum router is refused. Give such a route a handler with [`Upgrade`](crate::Upgrade).

mod instance;
mod nest;
mod router_service;
mod service;

pub use self::nest::OriginalUri;
pub use self::router_service::{Responding, RouterService};
pub use self::service::{ServiceHandler, ViaService, service};

use anywire_http::body::BoxError;
use bytes::Buf;

/// A body that a service of the tower crates may respond with, such as that of axum, of tonic or of a layer.
///
/// All bodies that are `Send` and have an error implement it.
pub trait ResponseBody: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static {}

impl<B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static> ResponseBody for B {}
