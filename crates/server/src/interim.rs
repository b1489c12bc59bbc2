//! Interim responses (1xx) of a handler's own, before the final one.
//!
//! A request that nobody asks for them pays nothing: the handle is made by its extractor, which tells the run of the request of the
//! other end ([`Runs`](crate::context::Runs)). From there the driver of the connection takes what is to be sent.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use anywire_advice::{Advice, OrRaise};
use anywire_http::{Headers, IntoResponseParts, InvalidHeader, Response, StatusCode};
use anywire_sys::thread_bound::ThreadBound;
use tokio::sync::Notify;

use crate::extract::FromRequestParts;
use crate::request::Parts;

/// Sends interim responses (1xx) while a handler works, such as `103 Early Hints` (RFC 8297), which lets a browser load what a page
/// will need. A handler or a layer takes it as an argument.
///
/// A peer of HTTP/1.0 gets none (RFC 9110 section 15.2), and neither does a server of another kind around
/// `Router::into_service`. Nothing fails then, as interim responses are hints. Layers do not see them.
///
/// ```
/// use anywire_http::StatusCode;
/// use anywire_server::{Error, Html, Informational, Router};
///
/// async fn page(mut hints: Informational) -> Result<Html<String>, Error> {
///     hints.send(StatusCode::EARLY_HINTS, [("link", "</style.css>; rel=preload; as=style")]).await?;
///     let rows = std::future::ready(3).await; // the slow part
///     Ok(Html(format!("<p>{rows} rows</p>")))
/// }
/// # drop(Router::new().get("/", page));
/// ```
pub struct Informational {
    interim: Rc<Interim>,
}

/// An interim response that cannot be sent. The handler is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InformError {
    /// The status is none of 102 to 199. 100 is sent when the handler reads the body, 101 by [`Upgrade`](crate::Upgrade).
    #[error("sending an interim response: {0} is not the status of one{help}", help = Advice("send 102 to 199"))]
    Status(StatusCode),
    /// A field cannot be sent.
    #[error(transparent)]
    Header(#[from] InvalidHeader),
    /// As many as [`Limits::interim_responses`](crate::Limits::interim_responses) were sent for this request.
    #[error(
        "sending an interim response: {limit} were sent{help}",
        help = Advice(format_args!("send fewer{}", OrRaise("Limits::interim_responses")))
    )]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The handler has ended, and the final response follows.
    #[error("sending an interim response: the handler has ended{help}", help = Advice("send before it returns"))]
    TooLate,
}

impl Informational {
    /// Sends an interim response with these fields. Ready once the connection has taken it, which waits while the peer reads nothing.
    /// It leaves at once, and before the final response.
    ///
    /// # Errors
    /// [`InformError`]. Nothing is sent then.
    pub async fn send(
        &mut self,
        status: StatusCode,
        fields: impl IntoResponseParts,
    ) -> Result<(), InformError> {
        if !status.is_informational()
            || matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS)
        {
            return Err(InformError::Status(status));
        }
        let mut response = Response::new(status);
        fields.set_on(&mut response);
        if let Some(fault) = response.fault() {
            return Err(fault.clone().into());
        }
        self.interim.send(status, response.headers).await
    }
}

impl FromRequestParts for Informational {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Infallible> {
        let known = parts.extensions().get::<SharedInterim>().and_then(|known| known.0.get().cloned());
        if let Some(interim) = known {
            return Ok(Self { interim });
        }
        let interim = parts.open_interim();
        parts.extensions_mut().insert(SharedInterim(Arc::new(ThreadBound::new(Rc::clone(&interim)))));
        Ok(Self { interim })
    }
}

impl fmt::Debug for Informational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informational").field("sent", &self.interim.given.get()).finish()
    }
}

/// The handle that the same request has already: a layer and its handler share one.
#[derive(Clone)]
struct SharedInterim(Arc<ThreadBound<Rc<Interim>>>);

/// What one request has to send before its final response.
pub(crate) struct Interim {
    waiting: RefCell<VecDeque<(StatusCode, Headers)>>,
    /// How many there were.
    given: Cell<usize>,
    /// How many of them the connection has taken.
    taken: Cell<usize>,
    limit: usize,
    /// The run of the request takes them.
    has_run: bool,
    has_ended: Cell<bool>,
    /// The connection has taken one, or takes none any more.
    changed: Notify,
    /// The task that the connection wants to be woken for the next one.
    driver: RefCell<Option<Waker>>,
}

impl Interim {
    /// Of at most so many.
    pub(crate) fn new(limit: usize, has_run: bool) -> Self {
        Self {
            waiting: RefCell::default(),
            given: Cell::default(),
            taken: Cell::default(),
            limit,
            has_run,
            has_ended: Cell::default(),
            changed: Notify::new(),
            driver: RefCell::default(),
        }
    }

    async fn send(&self, status: StatusCode, headers: Headers) -> Result<(), InformError> {
        if self.has_ended.get() {
            return Err(InformError::TooLate);
        }
        let number = self.given.get();
        if number >= self.limit {
            return Err(InformError::TooMany { limit: self.limit });
        }
        self.given.set(number + 1);
        if !self.has_run {
            return Ok(());
        }
        self.waiting.borrow_mut().push_back((status, headers));
        let driver = self.driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
        while self.taken.get() <= number {
            if self.has_ended.get() {
                return Err(InformError::TooLate);
            }
            self.changed.notified().await;
        }
        Ok(())
    }
}

/// The connection's end of a handle. Dropping it ends the handle.
pub(crate) struct InterimReceiver(Rc<Interim>);

impl InterimReceiver {
    pub(crate) fn of(interim: &Rc<Interim>) -> Self {
        Self(Rc::clone(interim))
    }

    /// The next interim response. If there is none, this task is woken when there is.
    pub(crate) fn next(&self, cx: &Context<'_>) -> Option<(StatusCode, Headers)> {
        let next = self.0.waiting.borrow_mut().pop_front();
        if next.is_some() {
            self.0.taken.set(self.0.taken.get() + 1);
            self.0.changed.notify_waiters();
        } else {
            self.0.driver.replace(Some(cx.waker().clone()));
        }
        next
    }
}

impl Drop for InterimReceiver {
    fn drop(&mut self) {
        self.0.has_ended.set(true);
        self.0.changed.notify_waiters();
    }
}
