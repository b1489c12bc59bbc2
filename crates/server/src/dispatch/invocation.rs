//! A handler that waits, as the driver of its connection holds it.

use std::hint::cold_path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use anywire_http::{Headers, Response, StatusCode};

use super::{Answer, Dispatch};
use crate::context::{Peer, RequestNumber, RunReport, Watch};
use crate::interim::InterimReceiver;
use crate::observe::Tracked;
use crate::request::RequestKind;
use crate::router::EndpointId;
use crate::run::Slot;

/// A handler that works on a request. Dropping it cancels it.
pub(crate) struct Invocation {
    /// `None` once it has ended.
    pub(super) slot: Option<Slot>,
    pub(super) dispatch: Rc<Dispatch>,
    /// Whose slot it is.
    pub(super) runs: EndpointId,
    /// Whose answer it is.
    pub(super) endpoint: EndpointId,
    pub(super) number: RequestNumber,
    pub(super) kind: RequestKind,
    /// Layers have yet to go on to a route. They may do so in a task of their own.
    pub(super) seeks_route: bool,
    /// Where its interim responses come from, if it may send any.
    pub(super) interim: Option<InterimReceiver>,
}

impl Invocation {
    /// Whose run it is.
    pub(crate) fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// Whose run it is by now: layers of the server may have waited before they went on to a route.
    #[inline]
    pub(crate) fn follow(&self, endpoint: &mut Option<EndpointId>, exchange: &mut Tracked) {
        if *endpoint != Some(self.endpoint) {
            cold_path();
            *endpoint = Some(self.endpoint);
            self.dispatch.note_route(*endpoint, exchange);
        }
    }

    /// Goes on with the handler. Ready once; the request's peer is in `peer` then, unless the request lives on. It is
    /// there earlier if the handler no longer needs it.
    pub(crate) fn poll(&mut self, peer: &mut Option<Arc<Peer>>, cx: &mut TaskContext<'_>) -> Poll<Answer> {
        let Some(mut slot) = self.slot.take() else { return Poll::Pending };
        let (runs, number) = (self.runs, self.number);
        if self.seeks_route {
            let report = self.dispatch.loop_context.runs.resume(number);
            self.note(report);
        }
        self.dispatch.begins(Some(self.endpoint));
        let mut response = None;
        let (polled, report) =
            self.dispatch.loop_context.runs.poll(number, || slot.as_mut().poll(&mut response, cx));
        self.dispatch.ends();
        match (polled, response) {
            (Ok(()), None) => {
                self.wait(slot, report, cx);
                self.dispatch.loop_context.give_back(number, peer);
                Poll::Pending
            }
            (Ok(()), Some(mut response)) => {
                self.note(report);
                let (dispatch, endpoint) = (&self.dispatch, self.endpoint);
                dispatch.put_slot(runs, slot);
                dispatch.loop_context.give_back(number, peer);
                let continuation = dispatch.vet(endpoint, &mut response, self.kind, peer.as_ref());
                Poll::Ready(Answer { response, endpoint: Some(endpoint), continuation })
            }
            (Err(panic), _) => {
                self.note(report);
                let endpoint = self.endpoint;
                let response = self.dispatch.fail(runs, slot, panic, number, peer, endpoint);
                Poll::Ready(Answer::message(response, Some(endpoint)))
            }
        }
    }

    /// It waits, and was told this.
    pub(super) fn wait(&mut self, slot: Slot, report: RunReport, cx: &TaskContext<'_>) {
        self.slot = Some(slot);
        self.note(report);
        self.seeks_route = self.seeks_route && self.dispatch.leads_on(self.endpoint);
        if self.seeks_route {
            self.dispatch.loop_context.runs.wait(self.number, cx.waker().clone());
        }
    }

    fn note(&mut self, RunReport { route, interim }: RunReport) {
        self.endpoint = route.unwrap_or(self.endpoint);
        if interim.is_some() {
            self.interim = interim;
        }
    }

    /// The next interim response that the handler sends. If it has none, this task is woken when it has.
    #[inline]
    pub(crate) fn interim(&self, cx: &TaskContext<'_>) -> Option<(StatusCode, Headers)> {
        let next = self.interim.as_ref()?.next(cx)?;
        self.dispatch.counters.interim_responses.increment();
        Some(next)
    }

    /// Tells the handler that its peer has ended its direction. The handler may ask as long as the returned value is kept.
    #[cold]
    pub(crate) fn peer_gone(&self) -> Rc<Watch> {
        self.dispatch.loop_context.peer_gone(self.number)
    }

    /// Cancels a handler whose deadline has passed. Returns the response for its peer, which is in `peer` then, unless the
    /// request lives on.
    #[cold]
    pub(crate) fn time_out(self, peer: &mut Option<Arc<Peer>>) -> Response {
        let (dispatch, endpoint, number) = (Rc::clone(&self.dispatch), self.endpoint, self.number);
        drop(self);
        dispatch.loop_context.give_back(number, peer);
        dispatch.timed_out(endpoint, peer.as_ref().map(|peer| &peer.address))
    }
}

impl Drop for Invocation {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            if self.seeks_route {
                drop(self.dispatch.loop_context.runs.resume(self.number));
            }
            self.dispatch.loop_context.leave(self.number);
            self.dispatch.drop_slot(self.endpoint, slot);
        }
    }
}
