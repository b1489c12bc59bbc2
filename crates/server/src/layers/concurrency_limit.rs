//! 503 while too many requests are under way.

use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use anywire_http::{IntoResponse, Response, StatusCode};

use crate::layer::LayerFault;
use crate::request::Request;
use crate::run::sync_layer::{SyncLayer, sync_layer};

/// Answers 503 with `retry-after` while so many requests are under way behind it.
///
/// **Each loop counts for itself**: a server of four loops with a limit of 10 works on up to 40 requests, and a loop refuses the
/// eleventh although others are idle. All routes that one call of `layer` wraps share the count. A request is under way until
/// its handler has returned a response: the body that streams afterwards does not count. Nor does one that is given up, by its
/// peer or by a [`Timeout`](super::Timeout) within. A function on a pool goes on then: for such a route take
/// [`RouteLimits::concurrency`](crate::RouteLimits::concurrency), which counts it until it has ended.
///
/// ```
/// use anywire_server::layers::ConcurrencyLimit;
/// use anywire_server::{Handler, Router};
///
/// let report = async || "a long report";
/// let router = Router::new().get("/report", report.layer(ConcurrencyLimit::new(4)));
/// # drop(router);
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct ConcurrencyLimit {
    count: usize,
    retry_after: Duration,
    place: &'static Location<'static>,
}

impl ConcurrencyLimit {
    /// So many on each loop; 0 is an error at start. A peer that is refused is told to come again after a second.
    #[track_caller]
    pub fn new(count: usize) -> Self {
        Self { count, retry_after: Duration::from_secs(1), place: Location::caller() }
    }

    /// When a peer that is refused may come again, in whole seconds.
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = after;
        self
    }
}

impl SyncLayer for ConcurrencyLimit {
    /// The places that are free, and the settings.
    type Local = (Cell<usize>, Self);
    type Kept = Permit;

    fn local(&self) -> Self::Local {
        (Cell::new(self.count), *self)
    }

    fn before(local: &Rc<Self::Local>, _: &mut Request) -> Result<Permit, Response> {
        let (free, layer) = &**local;
        let Some(left) = free.get().checked_sub(1) else {
            let busy = (StatusCode::SERVICE_UNAVAILABLE, "too many requests are under way").into_response();
            return Err(busy.header("retry-after", layer.retry_after.as_secs().to_string()));
        };
        free.set(left);
        Ok(Permit(Rc::clone(local)))
    }

    fn after(_: &Rc<Self::Local>, permit: Permit, _: &mut Response) {
        drop(permit);
    }

    fn fault(&self) -> Option<LayerFault> {
        let fault = || LayerFault::new("allows no request at once", "allow one or more").at(self.place);
        (self.count == 0).then(fault)
    }

    #[cfg(feature = "openapi")]
    fn describe(&self, _: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        crate::openapi::LayerDoc::new().is_full_at_times()
    }
}

sync_layer!(ConcurrencyLimit, (Cell<usize>, Self));

/// A place that is taken until this is dropped, also by a panic or because the peer has gone.
pub(crate) struct Permit(Rc<(Cell<usize>, ConcurrencyLimit)>);

impl Drop for Permit {
    fn drop(&mut self) {
        let (free, _) = &*self.0;
        free.set(free.get() + 1);
    }
}
