//! A route with a limit on the requests that handlers work on.

use std::pin::Pin;
use std::rc::Weak;
use std::sync::Arc;
use std::task::Context as TaskContext;
use std::thread;

use anywire_http::Response;

use super::{Run, Slot};
use crate::contained::drop_caught;
use crate::dispatch::Dispatch;
use crate::request::Request;
use crate::route_limits::{Gate, Permit};
use crate::router::EndpointId;

/// A slot that begins a run only with a permit.
pub(crate) struct Gated {
    inner: Slot,
    gate: Arc<Gate>,
    permit: Option<Arc<Permit>>,
    /// The function that answers runs on a pool, and has the permit until it has ended: nothing ends it before.
    is_on_pool: bool,
    dispatch: Weak<Dispatch>,
    endpoint: EndpointId,
}

impl Gated {
    pub(crate) fn new(
        inner: Slot,
        gate: Arc<Gate>,
        is_on_pool: bool,
        dispatch: Weak<Dispatch>,
        endpoint: EndpointId,
    ) -> Self {
        Self { inner, gate, permit: None, is_on_pool, dispatch, endpoint }
    }

    /// The permit is free again once the run has ended.
    fn polled(&mut self, polled: thread::Result<()>, response: &Option<Response>) -> thread::Result<()> {
        // After a panic the slot is dropped, and the permit with it.
        if response.is_some() {
            self.permit = None;
        }
        polled
    }
}

impl Run for Gated {
    fn start(
        mut self: Pin<&mut Self>,
        mut request: Request,
        response: &mut Option<Response>,
        cx: &mut TaskContext<'_>,
    ) -> thread::Result<()> {
        self.permit = self.gate.enter().map(Arc::new);
        if let Some(permit) = &self.permit {
            if self.is_on_pool {
                request.extensions_mut().insert(Arc::clone(permit));
            }
            let polled = self.inner.as_mut().start(request, response, cx);
            return self.polled(polled, response);
        }
        let dispatch = self.dispatch.upgrade();
        let refusal = dispatch.map(|dispatch| dispatch.too_many(self.endpoint, Some(request.peer())));
        drop_caught(request).map_or(Ok(()), Err)?;
        *response = refusal;
        Ok(())
    }

    fn poll(
        mut self: Pin<&mut Self>,
        response: &mut Option<Response>,
        cx: &mut TaskContext<'_>,
    ) -> thread::Result<()> {
        let polled = self.inner.as_mut().poll(response, cx);
        self.polled(polled, response)
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        self.permit = None;
        self.inner.as_mut().cancel()
    }
}
