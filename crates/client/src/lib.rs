//! The HTTP client of anywire: child pools on loops, over any wire.
//!
//! Each loop keeps its own connections to each origin, a *child pool*. A call made on a loop finds a connection
//! there, is encoded and is written in one poll, without a lock and without another thread. A call from any other
//! thread or runtime goes to the next loop in turn.
//!
//! | to | use |
//! | --- | --- |
//! | call | [`Client::get`] and its like, then [`Call::send`] |
//! | send a request that was made elsewhere | [`Client::send`] |
//! | pass a request on, as a proxy | [`Client::forward`] |
//! | speak another protocol | [`Call::upgrade`], then [`Response::upgrade`] |
//! | follow redirects, or not | [`Redirects`], by [`ClientBuilder::redirects`] or [`Call::redirects`] |
//! | repeat what has failed, or not | [`Retries`], by [`ClientBuilder::retries`] or [`Call::retries`] |
//! | look at each call, or change it | [`Interceptor`] |
//! | go by another wire than the URL's | [`Call::via`] |
//! | go through a proxy, or make connections in a way of your own | [`proxy`], [`Connector`] |
//! | say who calls | [`Call::basic`], [`Call::bearer`], `Call::sign` (feature `signatures`) |
//! | keep cookies | `ClientBuilder::cookies` (feature `cookies`) |
//! | send and read values in other formats than JSON | [`codec`] |
//! | call without `async` | [`blocking`] |
//! | send some calls elsewhere, by a file that may change | `rules` (feature `rules`) |
//! | record calls, and test without a server | [`har`], [`CallRequest::respond`] |
//! | refuse an error status | [`Response::error_for_status`] |
//! | read the response | [`bytes`](Response::bytes), [`text`](Response::text), [`json`](Response::json), [`chunk`](Response::chunk) |
//! | say where names are resolved, and give some addresses | [`ClientBuilder::resolver`], [`ClientBuilder::hosts`] |
//! | connect before the first call | [`Client::connect_ahead`] |
//! | spread calls over several addresses | [`ClientBuilder::balance`] |
//! | bound connections, queues, bodies | [`Limits`] |
//! | bound time | [`Timeouts`] |
//! | have spans of `tracing` | [`ClientBuilder::spans`] |
//! | be told of interim responses (1xx) | [`Call::on_interim`] |
//! | see where the time of a call goes | [`Trace`] |
//! | count calls, connections and errors | [`Client::counters`], [`Client::origins`] |
//! | measure how long each phase takes | [`ClientBuilder::latencies`] |
//! | have all that scraped by Prometheus | [`Client::prometheus`] |
//! | see each attempt and each connection | [`Observer`], by [`ClientBuilder::observe`] |
//! | know whether to try again | [`Error::may_have_been_processed`], [`Error::is_connect`], [`Error::is_timeout`] |
//!
//! ```
//! use std::time::Duration;
//! use anywire_client::Client;
//! # use anywire_client::Error;
//!
//! # async fn example() -> Result<(), Error> {
//! let client = Client::builder().read_timeout(Duration::from_secs(2)).build();
//! let response = client.get("http://localhost/containers").via("unix:/run/app.sock").send().await?;
//! println!("{} {}", response.status(), response.text().await?);
//! # Ok(()) }
//! ```
//!
//! A connection speaks HTTP/2 if the handshake of its wire agrees on that, or if the client was
//! [built so](ClientBuilder::http2_prior_knowledge); else HTTP/1. That handshake is the one of TLS, which `https` URLs go
//! over (feature `tls`, [`ClientBuilder::tls`]). Over HTTP/2 many calls share a connection, and what ends
//! one of them does not touch the others. Nothing else is different. Over HTTP/1 calls share one if
//! [told to](ClientBuilder::pipelining).
//!
//! Redirects are followed ([`Redirects`]), and attempts are repeated where that does no harm ([`Retries`]). Besides, a request
//! is sent once more at once if its connection died while it was idle, and the peer has not seen the request or repeating it
//! does no harm; or if an HTTP/2 peer says that it has not processed it. For the latter up to [`Limits::replay_bytes`] of a
//! streamed body are kept.

mod auth;
mod balancer;
pub mod blocking;
mod call;
mod chain;
mod client;
pub mod codec;
mod connection;
pub mod connector;
mod contained;
#[cfg(feature = "cookies")]
pub mod cookies;
mod error;
pub mod har;
mod metrics;
mod observe;
mod pool;
pub mod proxy;
#[cfg(feature = "rules")]
pub mod rules;
#[cfg(feature = "tower")]
mod tower;
mod trace;
#[cfg(feature = "udp")]
pub mod udp;

pub use anywire_http::Fault;
pub use anywire_http::url::UrlError;
pub use anywire_loops::metrics::Durations;
pub use anywire_mux::Upgraded;
#[cfg(feature = "signatures")]
pub use auth::SignatureFault;
pub use balancer::balance::Balance;
pub use call::Call;
pub use call::request::CallRequest;
pub use call::response::Response;
pub use call::sending::Sending;
pub use chain::{
    Calling, Failure, FollowHook, Hop, Interceptor, Next, RedirectFault, RedirectTarget, Redirects, Retries,
    RetryHook,
};
pub use client::Client;
pub use client::builder::ClientBuilder;
pub use client::handle::Shutdown;
pub use client::limits::{Limits, Timeouts};
pub use client::origin_options::OriginOptions;
pub use connection::pipeline::Pipelining;
pub use connector::Connector;
pub use error::Error;
pub use error::phase::Phase;
pub use metrics::address_counters::AddressCounters;
pub use metrics::counters::{ClientCounters, Counters};
pub use metrics::origin_counters::OriginCounters;
pub use observe::{Acquired, AttemptEnd, Begun, Closed, Connected, Dialed, Ended, Observer};
pub use trace::{
    InvalidTraceContext, PhaseSpan, Timeline, Trace, TraceContext, TracedAttempt, TracedConnection,
    TracedDial,
};
