//! Faults of handlers: counted, and logged with the method and the path of their route.

use std::any::Any;
use std::hint::cold_path;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anywire_http::h1::encode;
use anywire_http::{BodyError, Chain, Fault, IntoResponse, Response, StatusCode};

use super::Dispatch;
use crate::respond::FAILED;
use crate::router::EndpointId;

impl Dispatch {
    /// Looks at a response before it is sent.
    #[inline]
    pub(super) fn vet(&self, endpoint: EndpointId, response: &mut Response, answers_head: bool) {
        if !is_plain(response) {
            cold_path();
            self.vet_other(endpoint, response, answers_head);
        }
    }

    /// Replaces a response that would break its connection by a 500, and logs one with a cause.
    #[cold]
    fn vet_other(&self, endpoint: EndpointId, response: &mut Response, answers_head: bool) {
        let (method, route) = self.name(Some(endpoint));
        let status = response.status.as_u16();
        if let Some(cause) = self.unsendable(response, answers_head) {
            *response = self.refuse(Some(endpoint), status, &cause);
        } else if let Some(cause) = response.cause() {
            if status >= 500 {
                self.counters.failures.increment();
                tracing::error!(method, route, status, cause, "a handler failed");
            } else {
                self.counters.refused.increment();
                tracing::debug!(method, route, status, cause, "a request was refused");
            }
        }
    }

    /// The response instead of one that would break its connection.
    #[cold]
    pub(crate) fn refuse(&self, endpoint: Option<EndpointId>, status: u16, cause: &str) -> Response {
        let (method, route) = self.name(endpoint);
        self.counters.failures.increment();
        tracing::error!(method, route, status, cause, "a handler's response cannot be sent");
        (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response()
    }

    /// Why a response would break its connection, if it would.
    fn unsendable(&self, response: &Response, answers_head: bool) -> Option<String> {
        let status = response.status;
        if let Some(fault) = response.fault() {
            return Some(fault.to_string());
        }
        if status.is_informational() {
            let upgrade = self.upgrade.take();
            let switches = upgrade.is_some() && status == StatusCode::SWITCHING_PROTOCOLS;
            self.upgrade.set(upgrade);
            let code = status.as_u16();
            return (!switches).then(|| {
                format!(
                    "the status {code} ends no request; send 2xx to 5xx, or 101 by accepting an `Upgrade`"
                )
            });
        }
        let follows = !answers_head && !encode::forbids_body(status);
        (follows && response.body.is_withheld()).then(|| {
            "the body is withheld; that is for answers to HEAD and for 304, so send the body".to_owned()
        })
    }

    /// The response for a handler that panicked. Other requests go on.
    #[cold]
    pub(super) fn panicked(&self, endpoint: EndpointId, panic: Box<dyn Any + Send>) -> Response {
        self.note_panic(Some(endpoint), panic);
        (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response()
    }

    /// The response for a handler whose deadline has passed.
    pub(super) fn timed_out(&self) -> Response {
        self.counters.handler_timeouts.increment();
        (StatusCode::SERVICE_UNAVAILABLE, "the answer took too long").into_response()
    }

    /// Drops a handler that has not ended, or a value of it. A panic of the destructor is counted.
    #[cold]
    pub(crate) fn drop_contained<T>(&self, endpoint: Option<EndpointId>, value: T) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            self.note_panic(endpoint, panic);
        }
    }

    /// Counts and logs a panic of a handler, or of the body of its response.
    #[cold]
    pub(crate) fn note_panic(&self, endpoint: Option<EndpointId>, panic: Box<dyn Any + Send>) {
        let (method, route) = self.name(endpoint);
        self.counters.panics.increment();
        tracing::error!(method, route, status = 500, panic = panic_text(&*panic), "a handler panicked");
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            // The payload's destructor has panicked. The destructor of the new payload might, too, so it is leaked.
            let _ = ManuallyDrop::new(another);
        }
    }

    /// Logs why the body of a response broke off. The fault is the handler's, unless the body was the peer's own or came
    /// over another wire.
    #[cold]
    pub(crate) fn body_failed(&self, endpoint: Option<EndpointId>, error: &BodyError) {
        let (method, route) = self.name(endpoint);
        let cause = Chain(error).to_string();
        if error.fault() == Fault::Caller {
            self.counters.failures.increment();
            tracing::error!(method, route, cause, "a handler's body failed");
        } else {
            self.counters.refused.increment();
            tracing::debug!(method, route, cause, "the body of an answer broke off");
        }
    }

    fn name(&self, endpoint: Option<EndpointId>) -> (&str, &str) {
        let name = endpoint.map(|endpoint| self.table.name(endpoint));
        name.map_or(("*", "(the router)"), |name| (&name.method, &name.path))
    }
}

/// Whether a response can be sent as it is, as nearly all can: a final status, a body or none, nothing to log.
#[inline]
fn is_plain(response: &Response) -> bool {
    response.fault().is_none()
        && response.cause().is_none()
        && response.status.as_u16() >= 200
        && !response.body.is_withheld()
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
