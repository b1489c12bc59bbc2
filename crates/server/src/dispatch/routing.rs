//! The look-up of a route within the layers of the server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Weak;
use std::task::Context as TaskContext;
use std::thread;

use anywire_http::{IntoResponse, Response, StatusCode};

use super::Dispatch;
use crate::contained::{Payload, dispose, text};
use crate::context::RunReport;
use crate::request::Request;
use crate::router::EndpointId;
use crate::run::{Run, Slot};

/// A run that finds the route of its request, or chooses among handlers of a path, and runs the endpoint of that.
pub(crate) struct Routing {
    dispatch: Weak<Dispatch>,
    /// The number of a choice, and its endpoint. `None` to find the route.
    among: Option<(usize, EndpointId)>,
    running: Option<(EndpointId, Slot)>,
}

impl Routing {
    pub(crate) fn new(dispatch: Weak<Dispatch>) -> Self {
        Self { dispatch, among: None, running: None }
    }

    pub(super) fn among(dispatch: Weak<Dispatch>, choice: usize, endpoint: EndpointId) -> Self {
        Self { dispatch, among: Some((choice, endpoint)), running: None }
    }

    /// What runs there was polled.
    fn polled(
        &mut self,
        dispatch: &Dispatch,
        endpoint: EndpointId,
        slot: Slot,
        polled: thread::Result<()>,
        response: &mut Option<Response>,
    ) {
        match polled {
            Ok(()) => match response {
                None => self.running = Some((endpoint, slot)),
                Some(response) => {
                    dispatch.put_slot(endpoint, slot);
                    if let Some((choice, _)) = self.among {
                        dispatch.table.mark(choice, response);
                    }
                }
            },
            Err(panic) => {
                dispatch.drop_slot(endpoint, slot);
                *response = Some(answer(dispatch, endpoint, panic));
            }
        }
    }
}

impl Run for Routing {
    fn start(
        mut self: Pin<&mut Self>,
        mut request: Request,
        response: &mut Option<Response>,
        cx: &mut TaskContext<'_>,
    ) -> thread::Result<()> {
        let Some(dispatch) = self.dispatch.upgrade() else {
            *response = Some(ended());
            return Ok(());
        };
        let endpoint = match self.among {
            None => {
                request.find_route(|head, params| dispatch.table.route(head, &dispatch.param_names, params))
            }
            Some((choice, endpoint)) => choose(&dispatch, choice, &mut request).unwrap_or_else(|panic| {
                let text = format!("a guard of {}: {}", dispatch.table.name(endpoint), text(&*panic));
                dispose(panic);
                dispatch.table.fail(choice, &mut request, text)
            }),
        };
        if let Some(number) = request.number_in(&dispatch.loop_context) {
            dispatch
                .loop_context
                .runs
                .tell(number, RunReport { route: Some(endpoint), ..RunReport::default() });
        }
        let kept = dispatch.slots[endpoint.index()].take();
        match kept.map_or_else(|| dispatch.new_slot(endpoint), Ok) {
            Ok(mut slot) => {
                let polled = within(&dispatch, endpoint, || slot.as_mut().start(request, response, cx));
                self.polled(&dispatch, endpoint, slot, polled, response);
            }
            Err(panic) => *response = Some(answer(&dispatch, endpoint, panic)),
        }
        Ok(())
    }

    fn poll(
        mut self: Pin<&mut Self>,
        response: &mut Option<Response>,
        cx: &mut TaskContext<'_>,
    ) -> thread::Result<()> {
        let Some(dispatch) = self.dispatch.upgrade() else {
            *response = Some(ended());
            return Ok(());
        };
        if let Some((endpoint, mut slot)) = self.running.take() {
            let polled = within(&dispatch, endpoint, || slot.as_mut().poll(response, cx));
            self.polled(&dispatch, endpoint, slot, polled, response);
        }
        Ok(())
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        match (self.running.take(), self.dispatch.upgrade()) {
            (Some((endpoint, slot)), Some(dispatch)) => dispatch.drop_slot(endpoint, slot),
            (Some((_, mut slot)), None) => return slot.as_mut().cancel(),
            (None, _) => {}
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

/// Runs code of an endpoint, under its name.
fn within<T>(dispatch: &Dispatch, endpoint: EndpointId, run: impl FnOnce() -> T) -> T {
    let outer = dispatch.work.label();
    dispatch.work.begins(dispatch.slots[endpoint.index()].label());
    let ran = run();
    dispatch.work.begins(outer);
    ran
}

/// Sends a request to the handler that takes it. A guard of the program may panic.
fn choose(dispatch: &Dispatch, choice: usize, request: &mut Request) -> thread::Result<EndpointId> {
    catch_unwind(AssertUnwindSafe(|| dispatch.table.choose(choice, request, &dispatch.param_names)))
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
