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

mod body_limit;
mod cache_control;
mod concurrency_limit;
mod headers;
mod request_id;
mod security_headers;
mod timeout;

pub use self::body_limit::BodyLimit;
pub use self::cache_control::CacheControl;
pub use self::concurrency_limit::ConcurrencyLimit;
pub use self::headers::{RequestHeaders, ResponseHeaders};
pub use self::request_id::{RequestId, RequestIds};
pub use self::security_headers::SecurityHeaders;
pub use self::timeout::Timeout;
