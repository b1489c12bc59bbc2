//! A route with a limit on the requests that handlers work on.

use std::pin::Pin;
use std::rc::Weak;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::thread;

use anywire_http::Response;

use super::Dispatch;
use crate::contained::drop_caught;
use crate::extract::StatesId;
use crate::handler::{Run, Slot};
use crate::request::Request;
use crate::route_limits::{Gate, Permit};
use crate::router::EndpointId;

/// A slot that begins a run only with a permit.
pub(super) struct Gated {
    inner: Slot,
    gate: Arc<Gate>,
    permit: Option<Permit>,
    /// There was none.
    refusal: Option<Response>,
    dispatch: Weak<Dispatch>,
    endpoint: EndpointId,
}

impl Gated {
    pub(super) fn new(inner: Slot, gate: Arc<Gate>, dispatch: Weak<Dispatch>, endpoint: EndpointId) -> Self {
        Self { inner, gate, permit: None, refusal: None, dispatch, endpoint }
    }
}

impl Run for Gated {
    fn begin(
        mut self: Pin<&mut Self>,
        request: &mut Option<Request>,
        states: Option<StatesId>,
    ) -> thread::Result<()> {
        self.permit = self.gate.enter();
        if self.permit.is_some() {
            return self.inner.as_mut().begin(request, states);
        }
        let peer = request.as_ref().map(|request| request.peer());
        self.refusal = self.dispatch.upgrade().map(|dispatch| dispatch.too_many(self.endpoint, peer));
        drop_caught(request.take()).map_or(Ok(()), Err)
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> thread::Result<Poll<Response>> {
        if let Some(refusal) = self.refusal.take() {
            return Ok(Poll::Ready(refusal));
        }
        let polled = self.inner.as_mut().poll(cx);
        if !matches!(polled, Ok(Poll::Pending)) {
            self.permit = None;
        }
        polled
    }

    fn cancel(mut self: Pin<&mut Self>) -> thread::Result<()> {
        self.permit = None;
        let refusal = drop_caught(self.refusal.take());
        self.inner.as_mut().cancel()?;
        refusal.map_or(Ok(()), Err)
    }
}
