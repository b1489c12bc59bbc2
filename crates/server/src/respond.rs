//! Results of handlers beyond the types of `anywire_http`: JSON, HTML, and an error type for `?`.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::iter::successors;
use std::{fmt, io};

use anywire_advice::Chain;
use anywire_http::gateway::status_of_call;
use anywire_http::{Body, BodyError, IntoResponse, Response, StaticHeader, StatusCode};
use anywire_loops::PoolError;
use serde::Serialize;

use crate::codec::CodecRejection;
use crate::extract::{Json, Rejection, status_of};

/// Text that is HTML.
#[derive(Debug, Clone)]
pub struct Html<T>(pub T);

/// An error that a handler returns: a status, what the peer may read, and the causes, which only the log shows.
///
/// `?` converts any `std::error::Error` into a 500, and so it does `Box<dyn Error>`, `anyhow::Error` and a text. Its text goes to the log and
/// not to the peer. A `Box<dyn Error + Send + Sync>` is made one by `.map_err(|error| error as Box<dyn Error>)`. The log names the route
/// and each cause once: at error level for a status of 500 or more, else at debug level.
///
/// Three errors have a status of their own. A [`Rejection`], and a [`BodyError`] of a request's body (413, 408 or 400), have
/// that of a peer's fault. An error of a call by `anywire_client`, or one that it caused, has the status that it would be as
/// a response itself: 502 if the other server is at fault, 504 if it is too slow (RFC 9110 sections 15.6.3 and 15.6.5). So have errors of
/// your own that one of these has caused: their `source()` is it, or what an `io::Error` wraps. If
/// you take an upstream's body out of its response and read it, give its `BodyError` a status yourself:
/// `Error::new(..).caused_by(error)`.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::Error;
///
/// async fn order(id: u64) -> Result<String, Error> {
///     if id == 0 {
///         return Err(Error::new(StatusCode::NOT_FOUND, "there is no order 0; orders count from 1"));
///     }
///     let text = std::fs::read_to_string("/orders/1")?; // an io::Error is a 500
///     Ok(text)
/// }
/// # drop(order(0));
/// ```
pub struct Error {
    status: StatusCode,
    message: Cow<'static, str>,
    cause: Option<Box<dyn StdError>>,
}

impl Error {
    /// An error with this status whose message the peer reads.
    pub fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into(), cause: None }
    }

    /// Adds what the log shows, with its own causes, and the peer does not see.
    ///
    /// ```
    /// use anywire_http::StatusCode;
    /// use anywire_server::Error;
    ///
    /// fn stock() -> Result<String, Error> {
    ///     std::fs::read_to_string("/stock/7").map_err(|error| {
    ///         Error::new(StatusCode::SERVICE_UNAVAILABLE, "the stock is not known now").caused_by(error)
    ///     })
    /// }
    /// # drop(stock());
    /// ```
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn StdError>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The cause. Its `source()` is the next cause.
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref()
    }

    /// The status that the peer gets.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What the peer reads.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("status", &self.status)
            .field("message", &self.message)
            .field("cause", &self.cause)
            .finish()
    }
}

impl<E: Into<Box<dyn StdError>>> From<E> for Error {
    fn from(cause: E) -> Self {
        Self::of(cause.into())
    }
}

impl Error {
    pub(crate) fn with_cause(status: StatusCode, message: String, cause: Box<dyn StdError>) -> Self {
        Self { status, message: message.into(), cause: Some(cause) }
    }

    /// The error of this cause, with the status that follows from it.
    pub(crate) fn of(cause: Box<dyn StdError>) -> Self {
        let known = causes(&*cause).find_map(|cause| Some((status_of_cause(cause)?, cause)));
        let (status, message) = match known {
            // What is around the peer's fault is not for the peer.
            Some((status, known)) if !status.is_server_error() => {
                (status, Chain(known).for_peer().to_string().into())
            }
            known => {
                let status = known.map_or(StatusCode::INTERNAL_SERVER_ERROR, |(status, _)| status);
                (status, Cow::Borrowed(FAILED))
            }
        };
        Self { status, message, cause: Some(cause) }
    }
}

/// An error, and what has caused it.
pub(crate) fn causes<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    successors(Some(error), |&error| {
        // Its `source` is that of what it wraps.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map(|wrapped| wrapped as _).or_else(|| error.source())
    })
}

/// The status that follows from this error, if it is one of those of which the status is known.
fn status_of_cause(cause: &(dyn StdError + 'static)) -> Option<StatusCode> {
    if let Some(broken) = cause.downcast_ref::<BodyError>() {
        return Some(status_of(broken));
    }
    let of_rejection = cause.downcast_ref().map(Rejection::status);
    let rejected = of_rejection.or_else(|| cause.downcast_ref().map(CodecRejection::status));
    let not_run = || is_not_run(cause).then_some(StatusCode::SERVICE_UNAVAILABLE);
    // A body that was passed on, and that a layer of the tower crates has cut: a call does not know of those.
    #[cfg(feature = "tower")]
    let not_run = || {
        let is_cut = crate::tower::is_length_limit(cause);
        not_run().or_else(|| is_cut.then_some(StatusCode::PAYLOAD_TOO_LARGE))
    };
    rejected.or_else(not_run).or_else(|| status_of_call(cause))
}

/// Whether it is that of a pool which has not run a function, and might later.
fn is_not_run(cause: &(dyn StdError + 'static)) -> bool {
    matches!(cause.downcast_ref(), Some(PoolError::Full | PoolError::Late | PoolError::Stopped))
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.message).into_response();
        let is_not_run = self.cause.as_ref().is_some_and(|cause| causes(&**cause).any(is_not_run));
        if is_not_run && self.status == StatusCode::SERVICE_UNAVAILABLE {
            // As to a request whose function the pool has refused.
            response = response.header("retry-after", "1");
        }
        match &self.cause {
            Some(cause) => response.caused_by(&**cause),
            None => response,
        }
    }
}

impl<T: Into<Body>> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        Response::typed(&HTML, self.0)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => Response::typed(&JSON, text),
            // A map whose keys are not strings, or a `Serialize` that fails: the handler's fault.
            Err(cause) => Error::from(cause).into_response(),
        }
    }
}

/// The response of a handler or a layer that panicked.
pub(crate) fn failed() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response()
}

/// The text for the peer if the reason is for the log alone.
pub(crate) const FAILED: &str = "the server failed to answer this request";

static HTML: StaticHeader = StaticHeader::new("content-type: text/html; charset=utf-8");
static JSON: StaticHeader = StaticHeader::new("content-type: application/json");
