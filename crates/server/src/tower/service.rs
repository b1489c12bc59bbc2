//! A service of the tower crates as a handler.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anywire_http::body::BoxError;
use anywire_http::{Body, IntoResponse, Response};
use tower_service::Service;

use super::ResponseBody;
use super::instance::Instance;
use super::nest;
use crate::convert::refused;
use crate::extract::Needs;
use crate::handler::Handler;
use crate::request::Request;

/// A service of the tower crates as a handler: of a route, of all methods of a path, or as a fallback.
///
/// It gets the request as it is, with the whole path; [`Router::nest_service`](crate::Router::nest_service) strips a prefix. Each loop has a
/// clone of its own, whose futures need not be `Send`. After a panic in `poll_ready` or `call`, or an error of
/// `poll_ready`, it is cloned anew.
///
/// While it is not ready, up to [`waiting`](ServiceHandler::waiting) requests of a loop wait, at most for
/// [`Limits::handler_timeout`](crate::Limits::handler_timeout). More are answered 503. An error of the service is a 500 whose
/// cause is logged, unless a status follows from it as with [`Error`](crate::Error). `map_result` of `tower::ServiceBuilder` makes
/// another response of it.
///
/// ```
/// use std::convert::Infallible;
/// use std::future::{Ready, ready};
/// use std::task::{Context, Poll};
///
/// use anywire_http::Body;
/// use anywire_server::{Router, tower};
///
/// #[derive(Clone)]
/// struct Hello;
///
/// impl tower_service::Service<http::Request<Body>> for Hello {
///     type Response = http::Response<Body>;
///     type Error = Infallible;
///     type Future = Ready<Result<Self::Response, Infallible>>;
///
///     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
///         Poll::Ready(Ok(()))
///     }
///
///     fn call(&mut self, request: http::Request<Body>) -> Self::Future {
///         ready(Ok(http::Response::new(format!("{} is here", request.uri()).into())))
///     }
/// }
///
/// # anywire_loops::block_on(async {
/// let router = Router::new().any("/hello", tower::service(Hello));
/// let mut response = router.call(anywire_http::Request::get("/hello")).await;
/// assert_eq!(response.body.text(100).await?, "/hello is here");
/// # Ok::<(), anywire_http::BodyError>(())
/// # })?;
/// # Ok::<(), anywire_http::BodyError>(())
/// ```
pub fn service<S, B>(service: S) -> ServiceHandler<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
    B: ResponseBody,
{
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    ServiceHandler {
        first: Arc::new(Mutex::new(service)),
        number,
        waiting_max: WAITING_MAX,
        is_nested: false,
    }
}

/// A service as a handler: what [`service`] makes.
pub struct ServiceHandler<S> {
    /// The one that all others are clones of. The lock is taken once a loop.
    first: Arc<Mutex<S>>,
    /// Where a loop finds its clone.
    number: u64,
    waiting_max: usize,
    /// Whether the service does not see the prefix of its route.
    pub(super) is_nested: bool,
}

impl<S> ServiceHandler<S> {
    /// How many requests of a loop may wait while the service is not ready (1024). At least one may.
    #[must_use]
    pub fn waiting(mut self, requests: usize) -> Self {
        self.waiting_max = requests.max(1);
        self
    }
}

/// Tells services from functions.
#[derive(Debug)]
pub struct ViaService<B>(PhantomData<B>);

impl<S, B> Handler<ViaService<B>> for ServiceHandler<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>, Error: Into<BoxError>>
        + Clone
        + Send
        + 'static,
    B: ResponseBody,
{
    async fn call(self, request: Request) -> Response {
        let counters = Arc::clone(&request.server().counters);
        let instance = request.server().keep(self.number, || {
            let first = self.first;
            // A panic of a clone leaves nothing half changed here.
            let make = move || first.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Instance::new(self.waiting_max, make)
        });
        let prefix = request.matched_path().filter(|_| self.is_nested).map(|route| nest::segments(route));
        match http::Request::try_from(request) {
            Ok(request) => instance.call(nest::strip(request, prefix), &counters).await,
            Err(cause) => refused(cause).into_response(),
        }
    }

    fn needs(_: &mut Needs) {}
}

impl<S> Clone for ServiceHandler<S> {
    fn clone(&self) -> Self {
        Self { first: Arc::clone(&self.first), ..*self }
    }
}

impl<S> fmt::Debug for ServiceHandler<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceHandler").field("waiting_max", &self.waiting_max).finish_non_exhaustive()
    }
}

/// Enough for a burst, and little memory: a request that waits holds its head.
pub(super) const WAITING_MAX: usize = 1024;

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
