//! The look-up of a route within the layers of the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
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
use crate::router::{Chosen, EndpointId, Matched};

/// A run that finds the route of its request, or chooses among handlers of a path, and runs the endpoint of that.
pub(crate) struct Routing {
    dispatch: Weak<Dispatch>,
    /// The number of a choice, and its endpoint. `None` to find the route.
    among: Option<(usize, EndpointId)>,
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
        Self { dispatch, among: None, inner: Inner::None }
    }

    pub(super) fn among(dispatch: Weak<Dispatch>, choice: usize, endpoint: EndpointId) -> Self {
        Self { dispatch, among: Some((choice, endpoint)), inner: Inner::None }
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
        let endpoint = match self.among {
            None => {
                let Matched { endpoint, params } = dispatch.table.route(asked.head(), &dispatch.param_names);
                asked.set_route(endpoint, params);
                endpoint
            }
            Some((choice, endpoint)) => match choose(&dispatch, choice, asked) {
                Ok(endpoint) => endpoint,
                Err(panic) => {
                    self.inner = Inner::Panicked(endpoint, panic);
                    return Ok(());
                }
            },
        };
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
            Ok(Poll::Ready(mut response)) => {
                dispatch.put_slot(endpoint, slot);
                if let Some((choice, _)) = self.among {
                    dispatch.table.mark(choice, &mut response);
                }
                Poll::Ready(response)
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

/// Sends a request to the handler that takes it. A guard of the program may panic.
fn choose(dispatch: &Dispatch, choice: usize, request: &mut Request) -> thread::Result<EndpointId> {
    catch_unwind(AssertUnwindSafe(|| match dispatch.table.choose(choice, request, &dispatch.param_names) {
        Chosen::Same(endpoint) => {
            request.set_endpoint(endpoint);
            endpoint
        }
        Chosen::Other(Matched { endpoint, params }) => {
            request.set_route(endpoint, params);
            endpoint
        }
    }))
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
