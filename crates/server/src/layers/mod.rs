//! Layers that come with the server, each a few lines around [`Next`](crate::Next). All are off unless they are added.
//!
//! | layer | does |
//! | --- | --- |
//! | [`RequestHeaders`], [`ResponseHeaders`] | set, append and remove fields |
//! | [`CacheControl`] | says how long a response may be kept |
//! | [`SecurityHeaders`] | fields that make browsers careful: HSTS, `nosniff`, frames, referrer, content security policy |

mod cache_control;
mod headers;
mod security_headers;

pub use self::cache_control::CacheControl;
pub use self::headers::{RequestHeaders, ResponseHeaders};
pub use self::security_headers::SecurityHeaders;
