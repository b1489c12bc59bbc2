//! Handlers that block: plain functions, run on the threads of a [`Pool`] while their loop goes on.

mod deadline;
mod function;
mod registry;

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anywire_http::{IntoResponse, Response, StatusCode};
use anywire_loops::{Pool, PoolError, PoolTask};

pub use self::deadline::QueueDeadline;
pub use self::function::{BlockingFunction, PoolArgument, PoolArguments, PoolResult};
pub(crate) use self::registry::PoolRegistry;
use crate::extract::Needs;
use crate::handler::{Arguments, Endpoint, Handler, HandlerParts};
use crate::refusal::RefusalKind;
use crate::request::Request;
use crate::route_limits::Permit;
use crate::run::chain::Owner;
use crate::run::{Running, Slot};

/// Makes a handler of a function that blocks or computes for long.
///
/// A handler runs on its connection's loop, and holds up all other connections there while it does not await. Such work belongs on
/// threads of their own, a [`Pool`]:
///
/// ```no_run
/// use anywire_loops::PoolLimits;
/// use anywire_server::{Blocking, Path, Router, Server};
///
/// fn thumbnail(Path(name): Path<String>) -> Result<Vec<u8>, anywire_server::Error> {
///     Ok(std::fs::read(format!("/pictures/{name}"))?)
/// }
///
/// let router = Router::new().get("/thumbnails/{name}", thumbnail.on_pool("cpu"));
/// Server::new(router).pool("cpu", PoolLimits::default()).listen("tcp:0.0.0.0:8080").run()?;
/// # Ok::<(), anywire_server::ServerError>(())
/// ```
pub trait Blocking: Sized {
    /// This function as a handler that runs on the [pool of this name](crate::Server::pool). An unknown name is an error at start.
    ///
    /// It is a `fn` or a closure `|..| ..`, not an `async` one, with the arguments that a [`Handler`] may have. They are taken out of the
    /// request on its loop, the body as well, and go to the thread, so they are `Send`: take a value that handlers share as `Arc<T>`
    /// and not as `State<T>`. The result becomes a response on the thread. A panic is a 500 of this request alone.
    ///
    /// A request for which the pool's queue has no room is answered 503 with `Retry-After`. Once a thread has taken the function, nothing
    /// ends it. If its peer leaves or its [deadline](crate::Limits::handler_timeout) passes, its result is dropped; it may ask by
    /// [`PeerGone`](crate::PeerGone).
    ///
    /// Without a server ([`Router::call`](crate::Router::call)) there are no pools: the function runs where it is called.
    fn on_pool<Via, Args>(self, pool: &str) -> OnPool<Self, (Via, Args)>
    where
        Self: BlockingFunction<Args> + Clone + Send + Sync + 'static,
        Self::Output: PoolResult,
        Args: Arguments<Via> + PoolArguments + 'static,
    {
        OnPool { function: self, pool: pool.into(), queue_deadline: None, args: PhantomData }
    }
}

impl<F> Blocking for F {}

/// A function on a pool: what [`Blocking::on_pool`] returns.
pub struct OnPool<F, Args> {
    function: F,
    pool: Arc<str>,
    queue_deadline: Option<QueueDeadline>,
    args: PhantomData<fn() -> Args>,
}

impl<F, Args> OnPool<F, Args> {
    /// Answers 503 with `Retry-After`, and never runs the function, if no thread has taken it for so long: whoever asked has given up,
    /// or will. A `Duration` counts from when the function is queued, with all its arguments there; [`QueueDeadline::from_arrival`] counts
    /// from the request's head. The 503 comes when the time has passed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use anywire_server::{Blocking, QueueDeadline, Router};
    ///
    /// let report = || "a long report";
    /// let router = Router::new()
    ///     .get("/report", report.on_pool("cpu").queue_deadline(Duration::from_millis(200)))
    ///     .get("/all", report.on_pool("cpu").queue_deadline(QueueDeadline::from_arrival(Duration::from_secs(1))));
    /// # drop(router);
    /// ```
    #[must_use]
    pub fn queue_deadline(mut self, longest: impl Into<QueueDeadline>) -> Self {
        self.queue_deadline = Some(longest.into());
        self
    }
}

impl<F: Clone, Args> Clone for OnPool<F, Args> {
    fn clone(&self) -> Self {
        let Self { function, pool, queue_deadline, args } = self;
        Self {
            function: function.clone(),
            pool: Arc::clone(pool),
            queue_deadline: *queue_deadline,
            args: *args,
        }
    }
}

impl<F, Args> fmt::Debug for OnPool<F, Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, queue_deadline, .. } = self;
        f.debug_struct("OnPool")
            .field("pool", pool)
            .field("queue_deadline", queue_deadline)
            .finish_non_exhaustive()
    }
}

/// Tells the functions on a pool from other handlers.
#[derive(Debug)]
pub struct Pooled<Args>(PhantomData<Args>);

/// When the head of a request was complete, among its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived(pub(crate) Instant);

/// How long a function waited for its thread, among the extensions of its response, if exchanges are observed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueTime(pub(crate) Duration);

impl<F, Via, Args> Handler<Pooled<(Via, Args)>> for OnPool<F, (Via, Args)>
where
    Via: 'static,
    F: BlockingFunction<Args> + Clone + Send + Sync + 'static,
    F::Output: PoolResult,
    Args: Arguments<Via> + PoolArguments + 'static,
{
    /// Outside of a router there are no pools.
    async fn call(self, request: Request) -> Response {
        match Args::extract(request).await {
            Ok(args) => self.function.run(args).into_response(),
            Err(rejected) => rejected,
        }
    }

    fn needs(needs: &mut Needs) {
        Args::needs(needs);
    }

    fn into_parts(self) -> HandlerParts {
        let (pool, queue_deadline) = (Arc::clone(&self.pool), self.queue_deadline);
        let mut needs = Needs::default();
        Self::needs(&mut needs);
        let mut parts = HandlerParts::on_pool(Arc::new(self), needs, pool);
        parts.limits.queue_deadline = queue_deadline;
        parts
    }
}

impl<F, Via, Args> Endpoint for OnPool<F, (Via, Args)>
where
    Via: 'static,
    F: BlockingFunction<Args> + Clone + Send + Sync + 'static,
    F::Output: PoolResult,
    Args: Arguments<Via> + PoolArguments + 'static,
{
    fn slot(&self, owner: &Owner) -> Slot {
        let dispatch = owner.dispatch.upgrade();
        let found = dispatch.zip(owner.endpoint).and_then(|(dispatch, endpoint)| dispatch.pool(endpoint));
        match found {
            None => {
                let handler = self.clone();
                Box::pin(Running::new(move |request| handler.clone().call(request)))
            }
            Some((pool, queue_deadline)) => {
                let (function, owner) = (self.function.clone(), owner.clone());
                Box::pin(Running::new(move |request| {
                    let (function, owner) = (function.clone(), owner.clone());
                    run::<F, Via, Args>(function, queue_deadline, pool.clone(), owner, request)
                }))
            }
        }
    }
}

/// Takes the arguments here, and runs the function on the pool.
async fn run<F, Via, Args>(
    function: F,
    queue_deadline: Option<QueueDeadline>,
    pool: Pool,
    owner: Owner,
    mut request: Request,
) -> Response
where
    F: BlockingFunction<Args> + Send + 'static,
    F::Output: PoolResult,
    Args: Arguments<Via> + PoolArguments + 'static,
{
    let arrived = request.extensions().get::<Arrived>().copied();
    let permit = request.extensions_mut().remove::<Arc<Permit>>();
    let key = request.key();
    let waits_no_more = request.waits_no_more();
    let mut guard = request.cancel_guard();
    let args = match Args::extract(request).await {
        Ok(args) => args,
        Err(rejected) => return rejected,
    };
    let queued_at = is_observed(&owner).then(Instant::now);
    let mut task = pool.run(move || {
        // Also if its peer has gone meanwhile.
        let _until_it_has_ended = permit;
        let waited = queued_at.map(|queued_at| queued_at.elapsed());
        let mut response = function.run(args).into_response();
        if let Some(waited) = waited {
            response.extensions_mut().insert(QueueTime(waited));
        }
        response
    });
    if let Some(deadline) = queue_deadline {
        task = deadline.apply(task, arrived);
    }
    let outcome = wait(task, waits_no_more).await;
    guard.disarm();
    let (kind, text) = match outcome {
        Some(Ok(response)) => return response,
        // Counted and logged with the route, as that of any handler.
        Some(Err(PoolError::Panicked(text))) => resume_unwind(Box::new(text)),
        Some(Err(PoolError::Late)) => {
            (RefusalKind::QueueDeadline, "the server is too busy to answer in time")
        }
        // The server goes on with its other routes.
        Some(Err(PoolError::Stopped)) => {
            (RefusalKind::PoolStopped, "requests of this kind are not run any more")
        }
        None => (RefusalKind::PoolStopped, "the server is shutting down"),
        Some(Err(_)) => (RefusalKind::PoolFull, "too many requests of this kind wait"),
    };
    match owner.dispatch.upgrade().zip(owner.endpoint) {
        Some((dispatch, endpoint)) => dispatch.not_run(endpoint, kind, text, Some(&key.peer.address)),
        None => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
    }
}

fn is_observed(owner: &Owner) -> bool {
    owner.dispatch.upgrade().is_some_and(|dispatch| dispatch.is_observed())
}

/// Waits for a function. `None` if the server has no time left: one that no thread has taken is given up.
async fn wait(
    mut task: PoolTask<Response>,
    waits_no_more: impl Future<Output = ()>,
) -> Option<Result<Response, PoolError>> {
    let mut waits_no_more = pin!(Some(waits_no_more));
    poll_fn(|cx| {
        if let Some(told) = waits_no_more.as_mut().as_pin_mut()
            && told.poll(cx).is_ready()
        {
            waits_no_more.set(None);
            if task.give_up() {
                return Poll::Ready(None);
            }
        }
        Pin::new(&mut task).poll(cx).map(Some)
    })
    .await
}
