//! A layer of the tower crates around routes.
//!
//! The service that it makes is kept by each loop, and what is inside of it changes with each request. So the request carries
//! it among its extensions, and the innermost service goes on with what it finds there. It finds the request there, too, so that
//! only what a layer has changed is converted back.

use std::any::type_name;
use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::rc::{self, Rc};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use anywire_http::body::BoxError;
use anywire_http::{Body, ConvertError, IntoResponse, Response};
use anywire_sys::thread_bound::ThreadBound;
use tower_service::Service;

use super::service::WAITING_MAX;
use super::{Instance, ResponseBody, ViaService, converted};
use crate::convert::{lend, refused};
use crate::layer::{InnerFuture, Layer, Next};
use crate::request::{Request, Ticket};
use crate::respond;
use crate::run::chain::Inner;

/// A layer of the tower crates as a layer of a route, a router or a server, such as one of tower-http.
///
/// Each loop makes one service of it, whose futures need not be `Send`. It is inside of the layers that were added before it, as any
/// other. While its service is not ready, up to [`waiting`](TowerLayer::waiting) requests of a loop wait, and more are
/// answered 503; an error becomes a response as that of a [`service`](super::service). After a panic in `poll_ready` or `call`, or an error of `poll_ready`, the service
/// is made anew.
///
/// The extensions of a request have to stay with it, on its loop. A layer that drops them, or that sends the request to another thread,
/// gets a 500 from inside.
///
/// ```
/// use std::task::{Context, Poll};
///
/// use anywire_http::Body;
/// use anywire_server::{Router, tower};
///
/// #[derive(Clone)]
/// struct Counted<S>(S, u32);
///
/// impl<S: tower_service::Service<http::Request<Body>>> tower_service::Service<http::Request<Body>> for Counted<S> {
///     type Response = S::Response;
///     type Error = S::Error;
///     type Future = S::Future;
///
///     fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
///         self.0.poll_ready(cx)
///     }
///
///     fn call(&mut self, mut request: http::Request<Body>) -> S::Future {
///         self.1 += 1;
///         request.headers_mut().insert("x-count", self.1.into());
///         self.0.call(request)
///     }
/// }
///
/// struct Count;
///
/// impl<S> tower_layer::Layer<S> for Count {
///     type Service = Counted<S>;
///
///     fn layer(&self, inner: S) -> Counted<S> {
///         Counted(inner, 0)
///     }
/// }
///
/// let count = async |request: anywire_server::Request| request.headers().get("x-count").unwrap_or("?").to_owned();
/// # anywire_loops::block_on(async {
/// let router = Router::new().get("/", count).layer(tower::layer(Count));
/// let mut response = router.call(anywire_http::Request::get("/")).await;
/// assert_eq!(response.body.text(100).await?, "1");
/// # Ok::<(), anywire_http::BodyError>(())
/// # })?;
/// # Ok::<(), anywire_http::BodyError>(())
/// ```
pub fn layer<L, B>(layer: L) -> TowerLayer<L>
where
    L: tower_layer::Layer<NextService> + Send + Sync + 'static,
    L::Service: Service<http::Request<Body>, Response = http::Response<B>, Error: Into<BoxError>> + 'static,
    B: ResponseBody,
{
    TowerLayer { layer: Arc::new(layer), waiting_max: WAITING_MAX }
}

/// A layer of the tower crates: what [`layer`] makes.
pub struct TowerLayer<L> {
    layer: Arc<L>,
    waiting_max: usize,
}

impl<L> TowerLayer<L> {
    /// How many requests of a loop may wait while the layer's service is not ready (1024). At least one may.
    #[must_use]
    pub fn waiting(mut self, requests: usize) -> Self {
        self.waiting_max = requests.max(1);
        self
    }
}

impl<L, B> Layer<ViaService<B>> for TowerLayer<L>
where
    L: tower_layer::Layer<NextService> + Send + Sync + 'static,
    L::Service: Service<http::Request<Body>, Response = http::Response<B>, Error: Into<BoxError>> + 'static,
    B: ResponseBody,
{
    type Local = Instance<L::Service>;

    fn local(&self) -> Instance<L::Service> {
        let layer = Arc::clone(&self.layer);
        Instance::new(self.waiting_max, move || layer.layer(NextService(())))
    }

    async fn call(local: Rc<Instance<L::Service>>, mut request: Request, next: Next) -> Response {
        let counters = Arc::clone(&request.server().counters);
        match lend(&mut request) {
            Ok(mut lent) => {
                // Owned here and by the loop: what a layer drops on another thread is leaked.
                let own = Arc::new(ThreadBound::new(RefCell::new(Some(request))));
                let next = Arc::new(ThreadBound::new(next.downgrade()));
                lent.extensions_mut().insert(Held { next, request: Arc::downgrade(&own) });
                local.call(lent, &counters).await
            }
            Err(cause) => refused(cause).into_response(),
        }
    }

    fn name(&self) -> &'static str {
        let path = type_name::<L>();
        let path = path.split('<').next().unwrap_or(path);
        path.rsplit("::").next().unwrap_or(path)
    }
}

impl<L> fmt::Debug for TowerLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerLayer").field("waiting_max", &self.waiting_max).finish_non_exhaustive()
    }
}

/// What is inside of a layer, on its way through the layer's service. A clone of the request runs it once more.
#[derive(Clone)]
struct Held {
    next: Arc<ThreadBound<rc::Weak<Inner>>>,
    /// What the service has as an `http::Request`, until the layer has responded. The first to come in takes it; for another clone it
    /// is made anew.
    request: Weak<ThreadBound<RefCell<Option<Request>>>>,
}

impl Held {
    /// Runs what is inside; nothing on another thread, or after the end of the server.
    fn run<B: ResponseBody>(self, lent: http::Request<B>) -> Option<Result<InnerFuture, ConvertError>> {
        let next = Next::into(self.next.get()?.upgrade()?);
        let own = self.request.upgrade();
        let request = match own.as_ref().and_then(|own| own.get()).and_then(RefCell::take) {
            Some(request) => take_back(request, lent),
            None => lent.try_into(),
        };
        Some(request.map(|request| next.future(request)))
    }
}

/// The request that `lent` was made of, with the body and the extensions that it has now. If its head has been changed, it is made anew:
/// path parameters lie in the target as it was.
fn take_back<B>(mut request: Request, lent: http::Request<B>) -> Result<Request, ConvertError>
where
    B: ResponseBody,
{
    let (mut parts, body) = lent.into_parts();
    if *request.head_mut() != parts {
        return http::Request::from_parts(parts, body).try_into();
    }
    parts.extensions.remove::<Ticket>();
    *request.head_mut().extensions_mut() = parts.extensions;
    *request.body_mut() = Body::wrap(body);
    Ok(request)
}

/// All that is inside of a layer, as a service: what [`layer`] gives to a layer of the tower crates. It is always ready.
#[derive(Debug, Clone, Copy)]
pub struct NextService(());

impl<B: ResponseBody> Service<http::Request<B>> for NextService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = NextFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<B>) -> NextFuture {
        let held = request.extensions_mut().remove::<Held>();
        NextFuture(match held.and_then(|held| held.run(request)) {
            Some(Ok(running)) => Run::InnerFuture(ThreadBound::new(RefCell::new(running))),
            Some(Err(cause)) => Run::Refused(Some(refused(cause).into_response())),
            None => {
                tracing::error!(
                    "a layer of tower has lost the extensions of a request, or moved it to another thread"
                );
                Run::Refused(Some(respond::failed()))
            }
        })
    }
}

/// The response from inside of a layer on its way. It may be sent to another thread, as many layers ask for, but has to stay on
/// this one.
pub struct NextFuture(Run);

enum Run {
    InnerFuture(ThreadBound<RefCell<InnerFuture>>),
    /// `None` once it is given.
    Refused(Option<Response>),
}

impl Future for NextFuture {
    type Output = Result<http::Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match &mut self.0 {
            Run::InnerFuture(running) => match running.get() {
                Some(running) => ready!(Pin::new(&mut *running.borrow_mut()).poll(cx)),
                None => respond::failed(),
            },
            Run::Refused(response) => match response.take() {
                Some(response) => response,
                None => return Poll::Pending,
            },
        };
        Poll::Ready(Ok(converted(response)))
    }
}

impl fmt::Debug for NextFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextFuture").finish_non_exhaustive()
    }
}
