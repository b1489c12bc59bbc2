//! Faults of handlers: counted, and logged with the method and the path of their route.

use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anywire_advice::Chain;
use anywire_http::gateway::status_of_call;
use anywire_http::{BodyError, Fault, Response, StatusCode};
use anywire_wire::Address;

use super::Dispatch;
use crate::contained::{Payload, dispose, drop_caught, text};
use crate::refusal::{Refusal, RefusalKind};
use crate::respond::FAILED;
use crate::router::EndpointId;

impl Dispatch {
    /// Drops what a response still has once it was written: a body that was not sent, and extensions.
    #[inline]
    pub(crate) fn release(&self, endpoint: Option<EndpointId>, response: &mut Response) {
        if !response.is_plain() {
            cold_path();
            self.replace(endpoint, response, StatusCode::OK.into());
        }
    }

    /// Puts another response in the place of a handler's.
    #[cold]
    pub(crate) fn replace(&self, endpoint: Option<EndpointId>, response: &mut Response, by: Response) {
        // Each by itself: two panics in one go would abort the process.
        self.drop_contained(endpoint, std::mem::take(&mut response.body));
        self.drop_contained(endpoint, std::mem::replace(response, by));
    }

    /// The response instead of one that would break its connection.
    #[cold]
    pub(crate) fn refuse(
        &self,
        endpoint: Option<EndpointId>,
        status: u16,
        cause: &str,
        peer: Option<&Address>,
    ) -> Response {
        let (method, route) = self.name(endpoint);
        self.counters.failures.increment();
        tracing::error!(method, route, status, cause, "a handler's response cannot be sent");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        self.word(endpoint, &Refusal::new(RefusalKind::Unsendable, status, FAILED).of(peer))
    }

    /// The response for a handler that panicked, or for this layer around it. Other requests go on.
    #[cold]
    pub(crate) fn panicked(
        &self,
        endpoint: Option<EndpointId>,
        layer: Option<&str>,
        panic: Payload,
        peer: Option<&Address>,
    ) -> Response {
        match layer {
            None => self.note_panic(endpoint, panic),
            Some(layer) => {
                let (method, route) = self.name(endpoint);
                self.counters.panics.increment();
                tracing::error!(
                    method,
                    route,
                    layer,
                    status = 500,
                    panic = text(&*panic),
                    "a layer panicked"
                );
                dispose(panic);
            }
        }
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        self.word(endpoint, &Refusal::new(RefusalKind::Panic, status, FAILED).of(peer))
    }

    /// The response for a handler whose deadline has passed.
    pub(super) fn timed_out(&self, endpoint: EndpointId, peer: Option<&Address>) -> Response {
        let (method, route) = self.name(Some(endpoint));
        self.counters.handler_timeouts.increment();
        tracing::error!(method, route, status = 503, "a handler took too long and was cancelled");
        let (status, text) = (StatusCode::SERVICE_UNAVAILABLE, "the answer took too long");
        self.word(Some(endpoint), &Refusal::new(RefusalKind::HandlerTimeout, status, text).of(peer))
    }

    /// The response to a request that is one too many of its route.
    pub(crate) fn too_many(&self, endpoint: EndpointId, peer: Option<&Address>) -> Response {
        let (method, route) = self.name(Some(endpoint));
        self.counters.concurrency_refusals.increment();
        tracing::debug!(method, route, status = 503, "a request was refused: too many are in work");
        let (status, text) = (StatusCode::SERVICE_UNAVAILABLE, "too many requests of this kind are in work");
        self.try_again(endpoint, &Refusal::new(RefusalKind::Concurrency, status, text).of(peer))
    }

    /// The response to a request whose function no thread of its pool has taken, for this reason.
    #[cold]
    pub(crate) fn not_run(
        &self,
        endpoint: EndpointId,
        kind: RefusalKind,
        cause: &str,
        peer: Option<&Address>,
    ) -> Response {
        let (method, route) = self.name(Some(endpoint));
        let is_late = kind == RefusalKind::QueueDeadline;
        if is_late { &self.counters.queue_deadlines } else { &self.counters.pool_refusals }.increment();
        tracing::debug!(method, route, status = 503, cause, "a request was not given to its pool");
        let status = StatusCode::SERVICE_UNAVAILABLE;
        self.try_again(endpoint, &Refusal::new(kind, status, cause).of(peer))
    }

    /// The response to a request that may come again.
    fn try_again(&self, endpoint: EndpointId, refusal: &Refusal<'_>) -> Response {
        let mut response = self.word(Some(endpoint), refusal);
        if !response.headers.contains("retry-after") {
            let set = response.headers.append("retry-after", "1");
            debug_assert!(set.is_ok(), "a number is a value");
        }
        response
    }

    /// Drops a handler that has not ended, or a value of it. A panic of the destructor is counted.
    #[cold]
    pub(crate) fn drop_contained<T>(&self, endpoint: Option<EndpointId>, value: T) {
        if let Some(panic) = drop_caught(value) {
            self.note_panic(endpoint, panic);
        }
    }

    /// Counts and logs a panic of a handler, or of the body of its response.
    #[cold]
    pub(crate) fn note_panic(&self, endpoint: Option<EndpointId>, panic: Payload) {
        let (method, route) = self.name(endpoint);
        self.counters.panics.increment();
        tracing::error!(method, route, status = 500, panic = text(&*panic), "a handler panicked");
        dispose(panic);
    }

    /// Logs why the body of a response broke off. The fault is the handler's, unless the body was the peer's own or came
    /// over another wire.
    #[cold]
    pub(crate) fn body_failed(&self, endpoint: Option<EndpointId>, error: BodyError) {
        let (method, route) = self.name(endpoint);
        // The maker's error may panic while it says what it is.
        let cause = catch_unwind(AssertUnwindSafe(|| Chain(&error).to_string())).unwrap_or_else(|panic| {
            self.note_panic(endpoint, panic);
            "(its error panicked)".to_owned()
        });
        let is_own = |status: StatusCode| status == StatusCode::INTERNAL_SERVER_ERROR;
        if error.fault() == Fault::Caller && status_of_call(&error).is_none_or(is_own) {
            self.counters.failures.increment();
            tracing::error!(method, route, cause, "a handler's body failed");
        } else {
            self.counters.refused.increment();
            tracing::debug!(method, route, cause, "the body of an answer broke off");
        }
        self.drop_contained(endpoint, error);
    }

    pub(super) fn name(&self, endpoint: Option<EndpointId>) -> (&str, &str) {
        let name = endpoint.and_then(|endpoint| self.name_of(endpoint));
        name.map_or(("*", "(the router)"), |name| (&name.method, &name.path))
    }
}
