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

mod auth;
mod body_limit;
mod cache_control;
mod concurrency_limit;
mod cors;
mod csrf;
mod headers;
mod origin;
mod request_id;
mod security_headers;
mod timeout;

pub use self::auth::{BasicAuth, BearerAuth, same_secret};
pub use self::body_limit::BodyLimit;
pub use self::cache_control::CacheControl;
pub use self::concurrency_limit::ConcurrencyLimit;
pub use self::cors::Cors;
pub use self::csrf::Csrf;
pub use self::headers::{RequestHeaders, ResponseHeaders};
pub use self::request_id::{RequestId, RequestIds};
pub use self::security_headers::SecurityHeaders;
pub use self::timeout::Timeout;
