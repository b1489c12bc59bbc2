//! Layers that come with the server, each a few lines around [`Next`](crate::Next). All are off unless they are added.
//!
//! | layer | does |
//! | --- | --- |
//! | [`RequestHeaders`], [`ResponseHeaders`] | set, append and remove fields |
//! | [`CacheControl`] | says how long a response may be kept |
//! | [`SecurityHeaders`] | fields that make browsers careful: HSTS, `nosniff`, frames, referrer, content security policy |
//! | [`RequestIds`] | gives each request a name, for logs and for the peer |
//! | [`Timeout`] | 503 for what takes too long |
//! | [`BodyLimit`] | 413 for bodies that are too large, streamed ones as well |
//! | [`ConcurrencyLimit`] | 503 while too many requests are under way |
//! | [`Cors`] | lets pages of other origins call |
//! | [`BasicAuth`], [`BearerAuth`] | 401 without a password or a token |
//! | [`Csrf`] | 403 for what pages of other origins make a browser send |
//! | [`Codecs`] | formats of bodies beside JSON, and code around them |
//! | [`Problems`] | words all errors as problem documents (RFC 9457) |
//! | [`map_request`], [`map_response`], [`map_errors`] | a function of your own, on one of the two ways |
//!
//! ```
//! use std::time::Duration;
//!
//! use anywire_server::Router;
//! use anywire_server::layers::{Cors, Problems, RequestIds, SecurityHeaders, Timeout};
//!
//! let api = Router::new().get("/orders", async || "all orders").layer(Timeout::new(Duration::from_secs(5)));
//! let router = Router::new()
//!     .layer(RequestIds::new())
//!     .layer(Cors::new().origins(["https://shop.example"]))
//!     .layer(SecurityHeaders::new())
//!     .layer(Problems::new())
//!     .nest("/api", api);
//! assert!(router.describe().is_ok());
//! ```

mod auth;
mod body_limit;
mod cache_control;
mod codecs;
mod concurrency_limit;
mod cors;
mod csrf;
mod headers;
mod map;
mod origin;
pub(crate) mod problem;
pub(crate) mod request_id;
mod security_headers;
mod timeout;

pub use self::auth::{BasicAuth, BearerAuth, same_secret};
pub use self::body_limit::BodyLimit;
pub use self::cache_control::CacheControl;
pub use self::codecs::Codecs;
pub use self::concurrency_limit::ConcurrencyLimit;
pub use self::cors::Cors;
pub use self::csrf::Csrf;
pub use self::headers::{RequestHeaders, ResponseHeaders};
#[doc(hidden)]
pub use self::map::{IntoRequest, ResponseArguments};
pub use self::map::{MapRequest, MapResponse, map_errors, map_request, map_response};
pub use self::problem::{Problem, Problems};
pub use self::request_id::{RequestId, RequestIds};
pub use self::security_headers::SecurityHeaders;
pub use self::timeout::Timeout;
