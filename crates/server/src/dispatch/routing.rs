//! The look-up of a route within the layers of the server.

use std::pin::Pin;
use std::rc::Weak;
use std::task::{Context as TaskContext, Poll};
use std::thread;

use anywire_http::{IntoResponse, Response, StatusCode};

use super::Dispatch;
use crate::contained::{Payload, dispose};
use crate::extract::StatesId;
use crate::handler::{Run, Slot};
use crate::request::Request;
use crate::router::{EndpointId, Matched};

/// A run that finds the route of its request, and runs the endpoint of that.
pub(crate) struct Routing {
    dispatch: Weak<Dispatch>,
    inner: Inner,
}

/// What runs there.
enum Inner {
    None,
    Running(EndpointId, Slot),
    /// It has, before its first poll.
    Panicked(EndpointId, Payload),
}

impl Routing {
    pub(crate) fn new(dispatch: Weak<Dispatch>) -> Self {
        Self { dispatch, inner: Inner::None }
    }
}

impl Run for Routing {
    fn begin(
        mut self: Pin<&mut Self>,
        request: &mut Option<Request>,
        _: Option<StatesId>,
    ) -> thread::Result<()> {
        let (Some(dispatch), Some(asked)) = (self.dispatch.upgrade(), request.as_mut()) else {
            return Ok(());
        };
        let Matched { endpoint, params } = dispatch.table.route(asked.head(), &dispatch.param_names);
        asked.set_route(endpoint, params);
        if let Some(id) = asked.context_in(&dispatch.contexts) {
            dispatch.routed.set(Some((id, endpoint)));
        }
        let kept = dispatch.slots[endpoint.index()].take();
        self.inner = match kept.map_or_else(|| dispatch.new_slot(endpoint), Ok) {
            Ok(mut slot) => match slot.as_mut().begin(request, None) {
                Ok(()) => Inner::Running(endpoint, slot),
                Err(panic) => {
                    dispatch.drop_slot(endpoint, slot);
                    Inner::Panicked(endpoint, panic)
                }
            },
            Err(panic) => Inner::Panicked(endpoint, panic),
        };
        Ok(())
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> thread::Result<Poll<Response>> {
        let Some(dispatch) = self.dispatch.upgrade() else { return Ok(Poll::Ready(ended())) };
        let (endpoint, mut slot) = match std::mem::replace(&mut self.inner, Inner::None) {
            Inner::None => return Ok(Poll::Pending),
            Inner::Running(endpoint, slot) => (endpoint, slot),
            Inner::Panicked(endpoint, panic) => return Ok(Poll::Ready(answer(&dispatch, endpoint, panic))),
        };
        let outer = dispatch.work.label();
        dispatch.work.begins(dispatch.slots[endpoint.index()].label());
        let polled = slot.as_mut().poll(cx);
        dispatch.work.begins(outer);
        Ok(match polled {
            Ok(Poll::Pending) => {
                self.inner = Inner::Running(endpoint, slot);
                Poll::Pending
            }
            Ok(ready) => {
                dispatch.put_slot(endpoint, slot);
                ready
            }
            Err(panic) => {
                dispatch.drop_slot(endpoint, slot);
                Poll::Ready(answer(&dispatch, endpoint, panic))
            }
        })
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        match (std::mem::replace(&mut self.inner, Inner::None), self.dispatch.upgrade()) {
            (Inner::Running(endpoint, slot), Some(dispatch)) => dispatch.drop_slot(endpoint, slot),
            (Inner::Running(_, mut slot), None) => return slot.as_mut().cancel(),
            (Inner::Panicked(_, panic), _) => dispose(panic),
            (Inner::None, _) => {}
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

/// The response of an endpoint that has panicked.
#[cold]
fn answer(dispatch: &Dispatch, endpoint: EndpointId, panic: Payload) -> Response {
    dispatch.panicked(Some(endpoint), dispatch.table.outermost_layer(endpoint), panic, None)
}

/// The response to a request that a layer has kept beyond the end of the server.
#[cold]
fn ended() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the server has ended").into_response()
}
