//! The look-up of a route within the layers of the server.

use std::pin::Pin;
use std::rc::Weak;
use std::task::{Context as TaskContext, Poll};
use std::thread;

use anywire_http::{IntoResponse, Response, StatusCode};

use super::Dispatch;
use crate::handler::{Run, Slot};
use crate::request::Request;
use crate::route_limits::Permit;
use crate::router::{EndpointId, Matched};

/// A run that finds the route of its request, and runs the endpoint of that.
pub(crate) struct Routing {
    dispatch: Weak<Dispatch>,
    inner: Option<(EndpointId, Slot)>,
    /// One of those that the route has.
    permit: Option<Permit>,
}

impl Routing {
    pub(crate) fn new(dispatch: Weak<Dispatch>) -> Self {
        Self { dispatch, inner: None, permit: None }
    }

    /// Passes on what a run of the endpoint has come to.
    fn settle(
        &mut self,
        dispatch: &Dispatch,
        (endpoint, slot): (EndpointId, Slot),
        polled: thread::Result<Poll<Response>>,
    ) -> Poll<Response> {
        match polled {
            Ok(Poll::Pending) => {
                self.inner = Some((endpoint, slot));
                Poll::Pending
            }
            Ok(ready) => {
                self.permit = None;
                dispatch.put_slot(endpoint, slot);
                ready
            }
            Err(panic) => {
                self.permit = None;
                dispatch.drop_slot(endpoint, slot);
                let layer = dispatch.table.outermost_layer(endpoint);
                Poll::Ready(dispatch.panicked(Some(endpoint), layer, panic, None))
            }
        }
    }
}

impl Run for Routing {
    fn start(
        mut self: Pin<&mut Self>,
        mut request: Request,
        cx: &mut TaskContext<'_>,
    ) -> thread::Result<Poll<Response>> {
        let Some(dispatch) = self.dispatch.upgrade() else { return Ok(Poll::Ready(ended())) };
        let Matched { endpoint, params } = dispatch.table.route(request.head(), &dispatch.param_names);
        request.set_route(endpoint, params);
        dispatch.routed.set(Some(endpoint));
        match dispatch.admit(endpoint, Some(request.peer())) {
            Ok(permit) => self.permit = permit,
            Err(refusal) => return Ok(Poll::Ready(refusal)),
        }
        let slots = &dispatch.slots[endpoint.index()];
        let mut slot = match slots.take().map_or_else(|| dispatch.new_slot(endpoint), Ok) {
            Ok(slot) => slot,
            Err(panic) => return Ok(Poll::Ready(dispatch.panicked(Some(endpoint), None, panic, None))),
        };
        let outer = dispatch.work.label();
        dispatch.work.begins(slots.label());
        let started = slot.as_mut().start(request, cx);
        dispatch.work.begins(outer);
        Ok(self.settle(&dispatch, (endpoint, slot), started))
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> thread::Result<Poll<Response>> {
        let Some((endpoint, mut slot)) = self.inner.take() else { return Ok(Poll::Pending) };
        let Some(dispatch) = self.dispatch.upgrade() else { return Ok(Poll::Ready(ended())) };
        let outer = dispatch.work.label();
        dispatch.work.begins(dispatch.slots[endpoint.index()].label());
        let polled = slot.as_mut().poll(cx);
        dispatch.work.begins(outer);
        Ok(self.settle(&dispatch, (endpoint, slot), polled))
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        self.permit = None;
        if let Some((endpoint, mut slot)) = self.inner.take() {
            match self.dispatch.upgrade() {
                Some(dispatch) => dispatch.drop_slot(endpoint, slot),
                None => return slot.as_mut().cancel(),
            }
        }
        Ok(())
    }
}

impl Drop for Routing {
    fn drop(&mut self) {
        let cancelled = Pin::new(self).cancel();
        debug_assert!(cancelled.is_ok(), "the dispatch contains it");
    }
}

/// The response to a request that a layer has kept beyond the end of the server.
#[cold]
fn ended() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the server has ended").into_response()
}
