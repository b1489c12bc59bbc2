//! A router as a service of the tower crates, for a server that is not ours.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use anywire_http::body::{BoxError, Sender};
use anywire_http::{Body, IntoResponse, Response, StatusCode};
use anywire_loops::{self as loops, Loops, Pool, Task, TaskError};
use anywire_sys::thread_bound::ThreadBound;
use anywire_wire::Address;
use bytes::Buf;
use tower_service::Service;

use crate::contained::{dispose, text};
use crate::context::Peer;
use crate::convert::refused;
use crate::counters::{Counters, Live};
use crate::dispatch::Dispatch;
use crate::limits::Limits;
use crate::respond::FAILED;
use crate::router::{Generation, RouteError, Router, Table, run};
use crate::server::Replacing;

/// A router as a service of the tower crates: what [`Router::into_service`] makes. All clones are one.
#[derive(Clone)]
pub struct RouterService {
    shared: Arc<Shared>,
}

struct Shared {
    /// Where a loop finds its routes.
    id: u64,
    table: Mutex<Arc<Table>>,
    pools: Vec<Pool>,
    /// One a loop.
    counters: Box<[Arc<Live>]>,
    loops: Loops,
}

impl Router {
    /// Makes a service of these routes, for `axum::serve`, hyper or any other server that takes a service of the tower crates. Handlers
    /// run on the given loops, which the service keeps running.
    ///
    /// A request that comes on another thread is handed to a loop, and the response handed back, with both bodies as streams. On one of
    /// these loops it runs in place. If the caller drops the response's future, the handler is cancelled.
    ///
    /// The timeouts of [`Limits`] are not kept: the server around it has its own. An extractor collects at most the default
    /// [`Limits::body_bytes`]. The peer of a request is the [`Address`] among its extensions, else `memory:unknown`. An
    /// [`Upgrade`](crate::Upgrade) that is accepted becomes a 501, because that connection belongs to the other server.
    ///
    /// ```
    /// use anywire_http::Body;
    /// use anywire_loops::Loops;
    /// use anywire_server::{Path, Router};
    /// use tower_service::Service;
    ///
    /// let router = Router::new().get("/hello/{name}", async |Path(name): Path<String>| format!("Hello, {name}!"));
    /// let mut service = router.into_service(&Loops::start(1)?)?;
    /// let request = http::Request::get("/hello/anyone").body(Body::empty())?;
    /// let response = anywire_loops::block_on(service.call(request))?;
    /// assert_eq!(response.status(), 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Mistakes of the routes, as from [`Server::start`](crate::Server::start).
    pub fn into_service(self, loops: &Loops) -> Result<RouterService, RouteError> {
        self.into_service_with(loops, &[])
    }

    /// The same, with pools for [functions that block](crate::Blocking::on_pool), as [`Server::on_pool`](crate::Server::on_pool) has
    /// them.
    ///
    /// # Errors
    /// Mistakes of the routes, as from [`Server::start`](crate::Server::start).
    pub fn into_service_with(self, loops: &Loops, pools: &[Pool]) -> Result<RouterService, RouteError> {
        let table = table_on(&self, Generation::MIN, pools)?;
        let shared = Shared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            table: Mutex::new(Arc::new(table)),
            pools: pools.to_vec(),
            counters: (0..loops.len()).map(|_| Arc::default()).collect(),
            loops: loops.clone(),
        };
        Ok(RouterService { shared: Arc::new(shared) })
    }
}

/// Checks the routes for these pools.
fn table_on(router: &Router, generation: Generation, pools: &[Pool]) -> Result<Table, RouteError> {
    let mut table = router.build_within(&[], generation)?;
    table.check_pools(&pools.iter().map(Pool::name).collect::<Vec<_>>())?;
    table.set_pools(pools);
    Ok(table)
}

impl RouterService {
    /// Puts another router in the place of this one, as [`RouterHandle::replace`](crate::RouterHandle::replace) does, in all clones.
    ///
    /// # Errors
    /// Mistakes of the new routes, as from [`Router::into_service`]. The old ones go on then.
    // By value as a service takes it: it is used up.
    #[expect(clippy::needless_pass_by_value, reason = "a router serves once")]
    pub fn replace(&self, router: Router) -> Result<Replacing, RouteError> {
        let shared = &self.shared;
        let mut table = shared.lock();
        let next = table_on(&router, table.generation().saturating_add(1), &shared.pools)?;
        let old = std::mem::replace(&mut *table, Arc::new(next));
        drop(table);
        // Without the lock: this may run destructors of handlers.
        drop(old);
        let replace = |shared: Arc<Shared>| move || async move { shared.replace_here() };
        let tasks = shared.loops.iter().map(|handle| handle.spawn_always(replace(Arc::clone(shared))));
        Ok(Replacing::new(tasks.collect()))
    }

    /// What the handlers have counted, summed over the loops. What belongs to connections is with the server around it.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.shared.counters.iter().for_each(|live| live.add_to(&mut sum));
        sum
    }
}

impl<B> Service<http::Request<B>> for RouterService
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Responding;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Responding {
        let shared = Arc::clone(&self.shared);
        Responding(Box::pin(async move {
            let response = match request.try_into() {
                Ok(request) => shared.respond(request).await,
                Err(cause) => refused(cause).into_response(),
            };
            stated(response)
        }))
    }
}

impl fmt::Debug for RouterService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouterService").finish_non_exhaustive()
    }
}

/// The response of a [`RouterService`] on its way. Dropping it cancels the handler.
pub struct Responding(Pin<Box<dyn Future<Output = http::Response<Body>> + Send>>);

impl Future for Responding {
    type Output = Result<http::Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

impl fmt::Debug for Responding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responding").finish_non_exhaustive()
    }
}

impl Shared {
    /// Runs the handler here, if this is one of the loops, or on one of them.
    async fn respond(self: Arc<Self>, request: anywire_http::Request) -> Response {
        let place = self.loops.pick();
        if place.is_current() {
            return Here::new(self.run(request)).await.unwrap_or_else(moved);
        }
        let task = place.spawn(move || async move {
            let mut response = self.run(request).await;
            response.body = handed_over(response.body);
            response
        });
        AbortOnDrop(task).await.unwrap_or_else(|error| match error {
            TaskError::Panicked(_) => (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response(),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "this server is too busy, or ends").into_response(),
        })
    }

    /// Runs the handler on this loop.
    async fn run(self: Arc<Self>, request: anywire_http::Request) -> Response {
        // The first request of a loop clones the states of the router.
        let dispatch = match catch_unwind(AssertUnwindSafe(|| self.here())) {
            Ok(dispatch) => dispatch,
            Err(panic) => {
                tracing::error!(panic = text(&*panic), "the state of a router cannot be cloned");
                dispose(panic);
                return (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response();
            }
        };
        let peer = request.head.extensions().get::<Address>().cloned();
        let answer = run(&dispatch, request, || peer.map_or_else(Peer::unknown, Peer::at)).await;
        if answer.continuation.is_some() {
            // A function of the handler's, whose destructor may panic.
            dispatch.drop_contained(answer.endpoint, answer.continuation);
            return (StatusCode::NOT_IMPLEMENTED, "this server hands no connection over").into_response();
        }
        answer.response
    }

    /// The routes of this loop.
    fn here(&self) -> Rc<Dispatch> {
        let all = loops::local(LoopDispatches::default);
        if let Some(dispatch) = all.0.borrow().get(&self.id) {
            return Rc::clone(dispatch);
        }
        // Not within the borrow: states are the code of others.
        let index = loops::current().map_or(0, |handle| handle.id().index());
        let counters = Arc::clone(&self.counters[index]);
        let table = Arc::clone(&self.lock());
        let dispatch = Dispatch::new(table, &Limits::default(), counters);
        Rc::clone(all.0.borrow_mut().entry(self.id).or_insert_with(|| Rc::new(dispatch)))
    }

    /// Puts the routes of now in the place of those of this loop, if it has some.
    fn replace_here(&self) {
        let all = loops::local(LoopDispatches::default);
        let Some(old) = all.0.borrow().get(&self.id).cloned() else { return };
        let table = Arc::clone(&self.lock());
        // Another call may have been first.
        if old.generation() != table.generation() {
            let next = Rc::new(old.replaced_by(table, &Limits::default()));
            all.0.borrow_mut().insert(self.id, next);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Table>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let id = self.id;
        for handle in self.loops.iter() {
            drop(handle.spawn_always(move || async move {
                let gone = loops::local(LoopDispatches::default).0.borrow_mut().remove(&id);
                // Without the borrow: this runs the destructors of handlers.
                gone.inspect(|dispatch| dispatch.notify_stopping());
            }));
        }
    }
}

/// The routes of each service on one loop.
#[derive(Default)]
struct LoopDispatches(RefCell<HashMap<u64, Rc<Dispatch>>>);

/// A future that stays on this thread within one that need not. Elsewhere it has no output.
struct Here<F>(ThreadBound<RefCell<Pin<Box<F>>>>);

impl<F: Future> Here<F> {
    fn new(future: F) -> Self {
        Self(ThreadBound::new(RefCell::new(Box::pin(future))))
    }
}

impl<F: Future> Future for Here<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.get() {
            Some(future) => future.borrow_mut().as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        }
    }
}

/// The response of a future that was moved to another thread under way.
#[cold]
fn moved() -> Response {
    tracing::error!("the future of a router's response was moved off its loop");
    (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response()
}

/// A task that ends with its caller.
struct AbortOnDrop<T>(Task<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A body whose code runs on this loop, for a reader on another thread.
fn handed_over(body: Body) -> Body {
    if body.as_full().is_some() || body.is_withheld() {
        return body;
    }
    let length = body.length();
    let (sender, handed) = Body::channel(IN_FLIGHT_BYTES);
    drop(loops::spawn(hand_over(body, sender)));
    match length {
        Some(length) => handed.with_length(length),
        None => handed,
    }
}

async fn hand_over(mut body: Body, mut sender: Sender) {
    loop {
        // The reader may leave at any time, also while the body has nothing.
        let chunk = poll_fn(|cx| {
            if ready!(sender.poll_ready(cx)).is_err() {
                return Poll::Ready(None);
            }
            body.poll_chunk(cx).map(Some)
        });
        match chunk.await {
            None => return,
            Some(Ok(Some(chunk))) => drop(sender.try_send(chunk)),
            Some(Ok(None)) => break,
            Some(Err(error)) => return sender.abort(error),
        }
    }
    if let Some(trailers) = body.trailers() {
        sender.trailers(trailers.clone());
    }
    sender.finish();
}

/// The response as another server sends it.
fn stated(mut response: Response) -> http::Response<Body> {
    if let Some(length) = response.body.stated_length()
        && !response.headers.contains("content-length")
    {
        let set = response.headers.append("content-length", length.to_string());
        debug_assert!(set.is_ok(), "digits are a value");
    }
    super::converted(response)
}

/// Bytes of a body on their way to a reader on another thread.
const IN_FLIGHT_BYTES: usize = 64 * 1024;

static NEXT_ID: AtomicU64 = AtomicU64::new(0);
