//! The tower world, both ways: its services as handlers, its layers around routes, and a router as one of its services.
//!
//! | to | use |
//! | --- | --- |
//! | answer a route or a fallback by a service, such as an `axum::Router` | [`service`] |
//! | answer everything below a prefix by a service | [`Router::nest_service`](crate::Router::nest_service) |
//! | put a layer around routes, such as one of tower-http | [`layer`] |
//! | give a router to hyper, `axum::serve` or tonic's server | [`Router::into_service`](crate::Router::into_service) |
//!
//! A service is cloned once for each loop, and a layer makes one there. It stays on its loop: its futures need not be `Send`, and
//! run beside the connection.
//!
//! What a service cannot do here: take over the connection. `hyper::upgrade::OnUpgrade` can only be made by hyper, so a
//! WebSocket of an axum router is refused. Give such a route a handler with [`Upgrade`](crate::Upgrade).

mod instance;
mod layer;
mod nest;
mod router_service;
mod service;

#[doc(hidden)]
pub use self::instance::Instance;
pub use self::layer::{NextFuture, NextService, TowerLayer, layer};
pub use self::nest::OriginalUri;
pub use self::router_service::{Responding, RouterService};
pub use self::service::{ServiceHandler, ViaService, service};

use std::error::Error as StdError;

use anywire_http::body::BoxError;
use anywire_http::{Body, ConvertError, IntoResponse, Response, StatusCode};
use bytes::Buf;
use http_body_util::LengthLimitError;

use crate::respond::{Error, FAILED, causes};

/// A body that a service of the tower crates may respond with, such as that of axum, of tonic or of a layer.
///
/// All bodies that are `Send` and have an error implement it.
pub trait ResponseBody: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static {}

impl<B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static> ResponseBody for B {}

/// Whether a layer of the tower crates has cut a body at its limit, as `RequestBodyLimitLayer` of tower-http and `Limited` of
/// http-body-util do.
pub(crate) fn is_length_limit(reason: &(dyn StdError + 'static)) -> bool {
    causes(reason).any(<dyn StdError>::is::<LengthLimitError>)
}

/// A response as the types of the `http` crate have it. One that they cannot hold is a 500 with the cause.
fn converted(response: Response) -> http::Response<Body> {
    let converted = response.try_into();
    // What is made of the error has no field of others.
    let converted = converted.or_else(|cause: ConvertError| Error::from(cause).into_response().try_into());
    converted.unwrap_or_else(|_| {
        let mut failed = http::Response::new(FAILED.into());
        *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        failed
    })
}
