//! Limits of a route, or of all routes of a router, where they are others than those of the server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::limits::Limits;
use crate::pool::QueueDeadline;

/// Limits of a route ([`Handler::limits`](crate::Handler::limits)), or of all routes of a router ([`Router::limits`](crate::Router::limits)).
///
/// A server keeps them. A router that is [called](crate::Router::call) or a service of tower keeps
/// `body_bytes` and `concurrency`, and no timeout: that is for what calls it.
///
/// What is `None` is inherited: a route has the limits of its router, that of the router around it, and the outermost one those
/// of the server ([`Limits`]). As there, `Duration::MAX` is none, and a duration of zero has passed when it begins.
///
/// ```
/// use std::time::Duration;
/// use anywire_server::{Handler, RouteLimits, Router};
///
/// let seconds = |count| Some(Duration::from_secs(count));
/// let upload = async |bytes: anywire_http::Bytes| bytes.len().to_string();
/// let upload = upload.limits(RouteLimits { body_bytes: Some(64 << 20), concurrency: Some(4), ..Default::default() });
/// let router = Router::new()
///     .post("/upload", upload)
///     .get("/quick", async || "quick")
///     .limits(RouteLimits { handler_timeout: seconds(5), ..Default::default() });
/// # drop(router);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteLimits {
    /// From the request's head to the head of the response, as [`Limits::handler_timeout`]: else 503, and the handler is dropped.
    pub handler_timeout: Option<Duration>,
    /// Largest body that an extractor collects into memory, as [`Limits::body_bytes`]: else 413.
    pub body_bytes: Option<usize>,
    /// Longest silence of a peer whose body the handler waits for, as [`Limits::body_timeout`].
    pub body_timeout: Option<Duration>,
    /// How many requests of this route handlers work on at once, on all loops of the server together, each until it has
    /// answered, and on a pool until its function has ended. A request above that is a 503 with `Retry-After`, and neither the handler nor its layers run. Each route counts for
    /// itself, also if its router has the limit, and so does each of routes that [replace](crate::RouterHandle::replace) others:
    /// requests that the old ones still work on are not counted. The server has none; 0 is an error at start.
    pub concurrency: Option<usize>,
    /// How long a request may wait for a thread if the handler runs on a pool, as [`OnPool::queue_deadline`](crate::OnPool::queue_deadline):
    /// else 503 with `Retry-After`, and the function is never run. The server has none.
    pub queue_deadline: Option<QueueDeadline>,
}

impl RouteLimits {
    /// These, and where they say nothing, the outer ones.
    pub(crate) fn within(self, outer: Self) -> Self {
        Self {
            handler_timeout: self.handler_timeout.or(outer.handler_timeout),
            body_bytes: self.body_bytes.or(outer.body_bytes),
            body_timeout: self.body_timeout.or(outer.body_timeout),
            concurrency: self.concurrency.or(outer.concurrency),
            queue_deadline: self.queue_deadline.or(outer.queue_deadline),
        }
    }

    /// The limits of a server with these in their place. `None` if they are the same.
    pub(crate) fn of_server(&self, server: &Limits) -> Option<Limits> {
        let Self { handler_timeout, body_bytes, body_timeout, concurrency: _, queue_deadline: _ } = *self;
        if (handler_timeout, body_bytes, body_timeout) == (None, None, None) {
            return None;
        }
        Some(Limits {
            handler_timeout: handler_timeout.unwrap_or(server.handler_timeout),
            body_bytes: body_bytes.unwrap_or(server.body_bytes),
            body_timeout: body_timeout.unwrap_or(server.body_timeout),
            ..server.clone()
        })
    }
}

/// For the table of routes: empty if there are none.
impl fmt::Display for RouteLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { handler_timeout, body_bytes, body_timeout, concurrency, queue_deadline } = self;
        let parts = [
            handler_timeout.map(|timeout| format!("handler_timeout {timeout:?}")),
            body_bytes.map(|bytes| format!("body_bytes {bytes}")),
            body_timeout.map(|timeout| format!("body_timeout {timeout:?}")),
            concurrency.map(|count| format!("concurrency {count}")),
            queue_deadline.map(|deadline| format!("queue_deadline {deadline}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { Ok(()) } else { write!(f, "limited to {}", parts.join(", ")) }
    }
}

/// Counts the requests of a route that handlers work on, over all loops.
#[derive(Debug)]
pub(crate) struct Gate {
    max: usize,
    in_work: AtomicUsize,
}

/// A request that a handler works on.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Gate>);

impl Gate {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, in_work: AtomicUsize::new(0) })
    }

    /// A permit, unless as many are out as may be.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Permit> {
        // Nothing else depends on the count, so its order to other memory does not matter.
        let more = |in_work| (in_work < self.max).then_some(in_work + 1);
        self.in_work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Permit(Arc::clone(self)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_work.fetch_sub(1, Ordering::Relaxed);
    }
}
