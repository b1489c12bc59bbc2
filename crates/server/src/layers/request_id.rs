//! A name for each request.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Deref;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use anywire_http::{Response, StatusCode};
use pin_project_lite::pin_project;
use tracing::Span;

use super::headers::check;
use crate::extract::FromRequestParts;
use crate::layer::{Layer, LayerFault, Next};
use crate::observe::GivenName;
use crate::request::{Parts, Request};
use crate::respond::Error;

/// Gives each request a name: in the field `x-request-id` of its response, as [`RequestId`] for handlers and layers, and on all
/// lines of the log that are written within (the span `request`, with the field `id`). Observers get it as
/// [`Ended::request_id`](crate::Ended::request_id), also of a request whose handler timed out or whose peer left.
///
/// A name that the peer sends is ignored, unless [`trust`](Self::trust) says otherwise. It goes into logs as it is, so even then it
/// has at most 128 characters: letters, digits, and `-._:+/=@`.
///
/// ```
/// use anywire_server::Router;
/// use anywire_server::layers::{RequestId, RequestIds};
///
/// let router = Router::new().get("/", async |id: RequestId| id.to_string()).layer(RequestIds::new());
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/")).await;
/// let id = response.headers.get("x-request-id").unwrap_or_default().to_owned();
/// assert_eq!(response.body.text(100).await?, id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct RequestIds {
    field: String,
    place: Option<&'static Location<'static>>,
    trusts: Arc<dyn Fn(&Parts) -> bool + Send + Sync>,
}

impl RequestIds {
    /// In the field `x-request-id`, and no peer is trusted.
    pub fn new() -> Self {
        Self { field: "x-request-id".to_owned(), place: None, trusts: Arc::new(|_| false) }
    }

    /// In another field.
    #[track_caller]
    pub fn field(mut self, name: &str) -> Self {
        name.clone_into(&mut self.field);
        self.place = Some(Location::caller());
        self
    }

    /// Whether the peer of a request may name it, such as a proxy:
    ///
    /// ```
    /// use anywire_server::layers::RequestIds;
    ///
    /// let ids = RequestIds::new().trust(|request| request.peer().ip().is_some_and(|ip| ip.is_loopback()));
    /// # drop(ids);
    /// ```
    pub fn trust(mut self, trusts: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.trusts = Arc::new(trusts);
        self
    }
}

impl Default for RequestIds {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RequestIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestIds").field("field", &self.field).finish_non_exhaustive()
    }
}

/// The name of a request, as [`RequestIds`] gives it: an extractor, and among the extensions of the request. Without that layer it
/// is a 500.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(pub Arc<str>);

impl Deref for RequestId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromRequestParts for RequestId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Error> {
        let missing = || Error::new(StatusCode::INTERNAL_SERVER_ERROR, "this request has no name");
        parts.extensions().get().cloned().ok_or_else(missing)
    }
}

impl Layer for RequestIds {
    /// The settings, what tells loops and processes apart, and how many were made.
    type Local = (Self, u64, Cell<u64>);

    fn local(&self) -> Self::Local {
        // The system's randomness, as far as std has it.
        (self.clone(), RandomState::new().build_hasher().finish(), Cell::new(0))
    }

    async fn call(local: Rc<Self::Local>, mut request: Request, next: Next) -> Response {
        let (Self { field, trusts, .. }, seed, made) = &*local;
        let sent = request.headers().get(field).filter(|id| is_id(id) && trusts(&request));
        let id: Arc<str> = sent.map_or_else(|| make(*seed, made).into(), Arc::from);
        if let Some(name) = request.extensions().get::<GivenName>() {
            name.give(&id);
        }
        request.extensions_mut().insert(RequestId(Arc::clone(&id)));
        let span = tracing::error_span!("request", %id);
        let mut response = Within { span, running: next.run(request) }.await;
        let set = response.headers.insert(field, &*id);
        debug_assert!(set.is_ok(), "both were checked");
        response
    }

    fn fault(&self) -> Option<LayerFault> {
        let fault = LayerFault::new(check(&self.field, "").err()?.to_string(), "name it x-request-id");
        Some(self.place.into_iter().fold(fault, LayerFault::at))
    }
}

/// A name that no other request has.
fn make(seed: u64, made: &Cell<u64>) -> String {
    let number = made.get();
    made.set(number.wrapping_add(1));
    format!("{seed:016x}{number:08x}")
}

/// Whether a peer may name a request so.
pub(crate) fn is_id(id: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:+/=@".contains(&byte);
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_fine)
}

const ID_BYTES_MAX: usize = 128;

pin_project! {
    /// A future, each poll of which is within a span.
    struct Within<F> {
        span: Span,
        #[pin]
        running: F,
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = this.span.enter();
        this.running.poll(cx)
    }
}
