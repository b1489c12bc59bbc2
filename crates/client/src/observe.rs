//! What a program sees of each attempt of a call, and of each connection, as it happens.
//!
//! An attempt is one request that is given to a pool: a call makes more than one by [`Retries`](crate::Retries), by
//! [`Redirects`](crate::Redirects), and if a connection turns out dead. It ends with the last byte of its response. A client without
//! an [`Observer`] reads no clock and allocates nothing for one. For the timeline of one call see [`Trace`](crate::Trace).

mod erased;
mod seen;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use anywire_http::{Method, StatusCode, Url};
use anywire_wire::{Address, DialLog, DialStep, Negotiated};

use self::erased::Typed;
pub(crate) use self::erased::{DialOf, Observers};
pub(crate) use self::seen::Seen;
use crate::{ClientBuilder, Error};

/// Sees the attempts and the connections of a client, by [`ClientBuilder::observe`].
///
/// A closure that takes an [`Ended`] is an observer, too. It runs on the loop of the connection, so it must not block. If it panics,
/// that is counted ([`Counters::hook_panics`](crate::Counters::hook_panics)) and logged, and the attempt goes on. Times are counted from
/// when the attempt was given to a pool.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicI64, Ordering};
/// use anywire_client::{Begun, Client, Ended, Observer};
///
/// /// How many attempts are under way.
/// #[derive(Clone, Default)]
/// struct InFlight(Arc<AtomicI64>);
///
/// impl Observer for InFlight {
///     type Attempt = ();
///
///     fn begin(&self, _: &Begun<'_>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
///
///     fn end(&self, (): (), _: &Ended<'_>) {
///         self.0.fetch_sub(1, Ordering::Relaxed);
///     }
/// }
///
/// let client = Client::builder()
///     .observe(InFlight::default())
///     .observe(|ended: &Ended<'_>| println!("{} took {:?}", ended.url.as_str(), ended.duration))
///     .build();
/// # drop(client);
/// ```
pub trait Observer: Send + Sync + 'static {
    /// What it keeps of an attempt from its begin to its end, such as a span.
    type Attempt: Send + 'static;

    /// An attempt is given to a pool, and waits for a connection.
    fn begin(&self, begun: &Begun<'_>) -> Self::Attempt;

    /// It has a connection.
    fn acquired(&self, attempt: &mut Self::Attempt, acquired: &Acquired<'_>) {
        let _ = (attempt, acquired);
    }

    /// The wire has taken the last byte of its request, `after` it had begun.
    fn written(&self, attempt: &mut Self::Attempt, after: Duration) {
        let _ = (attempt, after);
    }

    /// The first byte of a response has come, which may be an interim one.
    fn first_byte(&self, attempt: &mut Self::Attempt, after: Duration) {
        let _ = (attempt, after);
    }

    /// The head of its response has come.
    fn head(&self, attempt: &mut Self::Attempt, status: StatusCode, after: Duration) {
        let _ = (attempt, status, after);
    }

    /// The attempt has ended. Called once for each call of [`begin`](Self::begin), unless that panicked.
    fn end(&self, attempt: Self::Attempt, ended: &Ended<'_>);

    /// A dial has made a connection, or failed.
    fn dialed(&self, dialed: &Dialed<'_>) {
        let _ = dialed;
    }

    /// A connection that was made is closed. If it has left HTTP, that is when the other protocol has ended.
    fn closed(&self, closed: &Closed<'_>) {
        let _ = closed;
    }
}

impl<F: Fn(&Ended<'_>) + Send + Sync + 'static> Observer for F {
    type Attempt = ();

    fn begin(&self, _: &Begun<'_>) {}

    fn end(&self, (): (), ended: &Ended<'_>) {
        self(ended);
    }
}

/// An attempt that begins.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Begun<'e> {
    /// The method.
    pub method: &'e Method,
    /// The URL.
    pub url: &'e Url,
    /// It repeats an attempt before it: by [`Retries`](crate::Retries), or because the connection of that one turned out dead.
    pub is_retry: bool,
}

/// An attempt that has a connection.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Acquired<'e> {
    /// Which of the client's connections it is: 0 is the first one that was made.
    pub connection: u64,
    /// The address at the other end, which is that of the proxy if there is one.
    pub peer: &'e Address,
    /// It was there before.
    pub is_reused: bool,
    /// It speaks HTTP/2.
    pub is_http2: bool,
    /// How long the attempt has waited for it.
    pub after: Duration,
}

/// An attempt that has ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Ended<'e> {
    /// The method.
    pub method: &'e Method,
    /// The URL.
    pub url: &'e Url,
    /// Which of the client's connections it was on. `None` if it got none.
    pub connection: Option<u64>,
    /// The status of the response. `None` if no head came.
    pub status: Option<StatusCode>,
    /// Bytes of the response's body that have come, without their framing.
    pub received_bytes: u64,
    /// How long it waited for a connection.
    pub acquired_after: Option<Duration>,
    /// When the wire had taken the last byte of the request.
    pub written_after: Option<Duration>,
    /// When the first byte of a response came.
    pub first_byte_after: Option<Duration>,
    /// When the head of the response was here.
    pub head_after: Option<Duration>,
    /// The time from its begin to its end.
    pub duration: Duration,
    /// How it ended.
    pub end: AttemptEnd<'e>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum AttemptEnd<'e> {
    /// All of the response has come, whatever its status.
    Complete,
    /// The connection, or the stream, speaks another protocol from here.
    Upgraded,
    /// There is no response, or not all of it.
    Failed(&'e Error),
    /// The peer has not processed the request, and it goes out once more: another attempt begins.
    SentAgain,
    /// The caller has dropped the call, or the response before all of it had come.
    Abandoned,
}

/// A dial that is over.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Dialed<'e> {
    /// The origin whose calls want the connection, such as `https://shop.example`.
    pub origin: &'e str,
    /// The address of the origin. Behind a proxy that is not where the connection leads.
    pub address: &'e Address,
    /// How long it took in all.
    pub duration: Duration,
    /// What came of it.
    pub outcome: Result<Connected<'e>, &'e (dyn StdError + 'static)>,
    log: &'e DialLog,
}

impl Dialed<'_> {
    /// How long after the begin of the dial a step was done, the last one of its kind: a name resolved, a connection made, a tunnel
    /// through a proxy, a handshake.
    pub fn done_after(&self, step: DialStep) -> Option<Duration> {
        let (_, at) = self.log.steps().iter().rev().find(|(done, _)| *done == step)?;
        Some(at.saturating_duration_since(self.log.begun()))
    }
}

/// A connection that was made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Connected<'e> {
    /// Which of the client's connections it is.
    pub connection: u64,
    /// The address at the other end, which is that of the proxy if there is one.
    pub peer: &'e Address,
    /// It speaks HTTP/2.
    pub is_http2: bool,
    /// The result of its handshake (TLS), if it has made one.
    pub tls: Option<&'e Negotiated>,
}

/// A connection that is closed.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Closed<'e> {
    /// The origin, such as `https://shop.example`.
    pub origin: &'e str,
    /// Which of the client's connections it was.
    pub connection: u64,
    /// How long it was there.
    pub age: Duration,
    /// Calls that were put on it.
    pub calls: u64,
}

impl ClientBuilder {
    /// Has an observer told of each attempt and each connection. Several are told one after the other. Default: none.
    pub fn observe(mut self, observer: impl Observer) -> Self {
        self.observers.add(Arc::new(Typed(observer)));
        self
    }
}
