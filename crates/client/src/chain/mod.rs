//! The chain of a call: what stands between [`Call::send`](crate::Call::send) and the pool.
//!
//! | link, outermost first | runs |
//! | --- | --- |
//! | codecs ([`encode`](crate::Call::encode), [`decode`](crate::Response::decode)) | before the call, and behind it |
//! | interceptors of calls ([`intercept`](crate::ClientBuilder::intercept)), in the order of adding | once a call |
//! | [`Redirects`] | follows from one URL to the next, each a *hop* |
//! | traffic rules ([`rules`](crate::ClientBuilder::rules)) | for each hop, for the URL that comes next |
//! | credentials ([`basic`](crate::ClientBuilder::basic), [`bearer`](crate::ClientBuilder::bearer)) | for each hop |
//! | [`Retries`] | repeats an attempt within one hop |
//! | cookies ([`cookies`](crate::ClientBuilder::cookies)) | for each attempt |
//! | interceptors of attempts ([`intercept_attempts`](crate::ClientBuilder::intercept_attempts)) | for each attempt |
//! | signatures ([`sign`](crate::ClientBuilder::sign)) | for each attempt |
//! | the pool | queue, connection, request, response |
//!
//! A call of a client without interceptors goes straight to the pool. Redirects and retries are looked at when there is a
//! response with such a status, or an error.

mod interceptor;
mod redirect;
mod retry;
mod run;
#[cfg(feature = "signatures")]
mod sign;

pub use interceptor::{Interceptor, Next};
pub use redirect::{FollowHook, Hop, RedirectFault, RedirectTarget, Redirects};
pub use retry::{Failure, Retries, RetryHook};
pub use run::Calling;

pub(crate) use interceptor::Links;
#[cfg(feature = "rules")]
pub(crate) use redirect::leave_origin;
pub(crate) use retry::Budget;
pub(crate) use run::{call, carry_on};
