//! A service as one loop has it: its requests take turns until it is ready for them.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll};

use anywire_http::body::BoxError;
use anywire_http::{IntoResponse, Response, StatusCode};
use tokio::sync::Semaphore;
use tower_service::Service;

use crate::contained::drop_each;
use crate::counters::Live;
use crate::respond::Error;

/// One instance of a service.
pub struct Instance<S> {
    /// `None` before the first request, and after a panic of the service or an error while it got ready.
    service: RefCell<Option<S>>,
    make: Box<dyn Fn() -> S>,
    /// A service tells only one task that it is ready.
    turn: Semaphore,
    /// Requests for which the service is not ready yet.
    waiting: Cell<usize>,
    waiting_max: usize,
}

impl<S> Instance<S> {
    pub(super) fn new(waiting_max: usize, make: impl Fn() -> S + 'static) -> Self {
        Self {
            service: RefCell::new(None),
            make: Box::new(make),
            turn: Semaphore::new(1),
            waiting: Cell::new(0),
            waiting_max,
        }
    }

    /// Calls the service once it is ready. If too many wait for that, responds 503.
    pub(super) async fn call<R, B>(&self, request: R, counters: &Live) -> Response
    where
        S: Service<R, Response = http::Response<B>, Error: Into<BoxError>>,
        B: super::ResponseBody,
    {
        let responding = {
            let Some(_waits) = self.wait() else {
                counters.not_ready.increment();
                return (StatusCode::SERVICE_UNAVAILABLE, "too many requests wait for this service")
                    .into_response();
            };
            // Never closed. Most find it free, and need not take a place in its queue.
            let _turn = match self.turn.try_acquire() {
                Ok(turn) => Ok(turn),
                Err(_) => self.turn.acquire().await,
            };
            match poll_fn(|cx| self.poll_ready(cx)).await {
                Ok(()) => self.with(|service| service.call(request)),
                Err(error) => {
                    // Such a service is to be discarded; the next request gets a new one.
                    let broken = self.service.borrow_mut().take();
                    drop_each(broken);
                    return failed(error);
                }
            }
        };
        responding.await.map_or_else(failed, Response::from)
    }

    fn poll_ready<R>(&self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>>
    where
        S: Service<R>,
    {
        self.with(|service| service.poll_ready(cx))
    }

    /// Runs code of the service. If that panics, the next request gets a new service.
    fn with<T>(&self, run: impl FnOnce(&mut S) -> T) -> T {
        let mut place = self.service.borrow_mut();
        let service = place.get_or_insert_with(&self.make);
        catch_unwind(AssertUnwindSafe(|| run(service))).unwrap_or_else(|panic| {
            let broken = place.take();
            drop(place);
            drop_each(broken);
            resume_unwind(panic)
        })
    }

    fn wait(&self) -> Option<WaitingRequest<'_>> {
        let waiting = self.waiting.get() + 1;
        (waiting <= self.waiting_max).then(|| {
            self.waiting.set(waiting);
            WaitingRequest(&self.waiting)
        })
    }
}

/// A request that waits until the service is ready.
struct WaitingRequest<'i>(&'i Cell<usize>);

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.update(|waiting| waiting - 1);
    }
}

/// The response for an error of a service.
fn failed(error: impl Into<BoxError>) -> Response {
    Error::of(error.into()).into_response()
}

impl<S> fmt::Debug for Instance<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}
