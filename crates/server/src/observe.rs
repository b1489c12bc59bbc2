//! What a program sees of each exchange: a request, and how its response ended.
//!
//! An exchange ends once the wire has taken the last byte of its response, not when the handler has returned. So access logs,
//! metrics and traces see what a peer got, how long that took, and who broke it off. A server without an [`Observer`] pays one
//! branch a request.

mod log;
mod tracked;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anywire_http::{Method, RequestHead, StatusCode, Version};
use anywire_wire::Address;

pub(crate) use self::log::RequestLog;
use self::tracked::{ErasedObserver, TypedObserver};
pub(crate) use self::tracked::{GivenName, Observers, Tracked, Written};

/// Sees the exchanges of one loop, by [`Server::observe`](crate::Server::observe).
///
/// A closure that takes an [`Ended`] is an observer, too. It runs on the loop that the connection lives on, so it must not
/// block. If it panics, that is counted ([`Counters::hook_panics`](crate::Counters::hook_panics)) and logged, and the exchange
/// goes on.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use anywire_server::{Begun, Ended, Observer, Router, Server};
///
/// /// How many requests are under way.
/// #[derive(Clone, Default)]
/// struct InFlight(Arc<AtomicI64>);
///
/// impl Observer for InFlight {
///     type Exchange = ();
///
///     fn begin(&mut self, _: &Begun<'_>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
///
///     fn end(&mut self, (): (), _: &Ended<'_>) {
///         self.0.fetch_sub(1, Ordering::Relaxed);
///     }
/// }
///
/// let server = Server::new(Router::new())
///     .observe(InFlight::default())
///     .observe(|ended: &Ended<'_>| println!("{:?} took {:?}", ended.route, ended.duration));
/// # drop(server);
/// ```
pub trait Observer: 'static {
    /// What it keeps of an exchange from its begin to its end, such as a span.
    type Exchange: 'static;

    /// A request has come: its head is complete, and neither a layer nor a handler has run. Also called for what the protocol
    /// itself refuses.
    fn begin(&mut self, begun: &Begun<'_>) -> Self::Exchange;

    /// The exchange has ended. Called once for each call of [`begin`](Self::begin), unless that panicked.
    fn end(&mut self, exchange: Self::Exchange, ended: &Ended<'_>);
}

impl<F: FnMut(&Ended<'_>) + 'static> Observer for F {
    type Exchange = ();

    fn begin(&mut self, _: &Begun<'_>) {}

    fn end(&mut self, (): (), ended: &Ended<'_>) {
        self(ended);
    }
}

/// A request that has come.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Begun<'e> {
    /// Its head. `None` if it could not be read.
    pub head: Option<&'e RequestHead>,
    /// The path of its route as it was given, such as `/orders/{id}`. `None` in a fallback, for unknown paths, for what the
    /// protocol itself refuses, and within [layers of the server](crate::Server::layer), which come before the route.
    pub route: Option<&'e str>,
    /// The address of the peer.
    pub peer: &'e Address,
}

/// An exchange that has ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Ended<'e> {
    /// The method. `None` if the head of the request could not be read.
    pub method: Option<&'e Method>,
    /// The path of its route as it was given, such as `/orders/{id}`. `None` in a fallback, for unknown paths, and for what the protocol
    /// itself refuses. A request that no handler of a path takes (405, 415, 406 and `OPTIONS`) has that path.
    pub route: Option<&'e str>,
    /// The version of HTTP.
    pub version: Version,
    /// The address of the peer.
    pub peer: &'e Address,
    /// The name that [`RequestIds`](crate::layers::RequestIds) has given, by whatever field it goes, and however the exchange ended; the
    /// outermost one if there are several. Else the field `x-request-id` of the response. On a server without that layer, else the same
    /// field of the request, if its characters are those of a name.
    pub request_id: Option<&'e str>,
    /// The status of the response. `None` if none was begun.
    pub status: Option<StatusCode>,
    /// Bytes of the request's body that have come, without their framing. Bytes that were discarded unread may be
    /// missing.
    pub received_bytes: u64,
    /// Bytes of the response's body that were sent, without their framing. After an end that is not
    /// [`Complete`](ExchangeEnd::Complete), the last of them may not have left.
    pub sent_bytes: u64,
    /// The time from the head of the request to the head of the response.
    pub time_to_head: Option<Duration>,
    /// How long its function waited for a thread of its [pool](crate::Blocking::on_pool). `None` if it was on none, or was not run.
    pub queue_time: Option<Duration>,
    /// The time from the head of the request to the end.
    pub duration: Duration,
    /// How it ended.
    pub end: ExchangeEnd,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExchangeEnd {
    /// The wire has taken the last byte of the response, whatever its status.
    Complete,
    /// The response was 101, and the connection has left HTTP.
    Upgraded,
    /// The response broke off by our fault: its body failed, panicked, or was not as long as it stated.
    Failed,
    /// The peer reset the stream (HTTP/2).
    PeerReset,
    /// The peer has left, or the connection broke.
    PeerLeft,
    /// The peer took the response too slowly: [`Limits::write_timeout`](crate::Limits::write_timeout) or
    /// [`Limits::min_bytes_per_second`](crate::Limits::min_bytes_per_second).
    PeerSlow,
    /// The peer ended its direction and the response was not ready at
    /// [`Limits::half_close_timeout`](crate::Limits::half_close_timeout).
    HalfCloseTimeout,
    /// The request was refused without a response (HTTP/2): it was malformed, or one stream too many.
    Refused,
    /// The peer broke the rules of HTTP/2, and its stream or its connection was ended.
    PeerFault,
    /// The server shut down, and its deadline had passed.
    Cut,
}

impl ExchangeEnd {
    /// Its name in the log, such as `complete`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Upgraded => "upgraded",
            Self::Failed => "failed",
            Self::PeerReset => "peer_reset",
            Self::PeerLeft => "peer_left",
            Self::PeerSlow => "peer_slow",
            Self::HalfCloseTimeout => "half_close_timeout",
            Self::Refused => "refused",
            Self::PeerFault => "peer_fault",
            Self::Cut => "cut",
        }
    }
}

/// Makes an observer for each loop.
pub(crate) type MakeObserver = Box<dyn Fn() -> Box<dyn ErasedObserver> + Send + Sync>;

/// Makes clones of an observer, which need not be `Sync`.
pub(crate) fn cloned<O: Observer + Clone + Send>(observer: O) -> MakeObserver {
    let observer = Mutex::new(observer);
    Box::new(move || Box::new(TypedObserver(observer.lock().unwrap_or_else(PoisonError::into_inner).clone())))
}
