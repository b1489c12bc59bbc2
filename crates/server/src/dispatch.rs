//! The one way from a protocol to the routes: a request goes in, a response comes out.
//!
//! The driver of a connection knows nothing else of routes, states and handlers, and nothing here knows a protocol. A
//! driver may start any number of requests of one connection. Each is a [`Run`] of its handler that wakes the task, or
//! the part of a task, that polled it last, and that times out or is cancelled alone. A path that no route has, a panic
//! and a response that cannot be sent come back as responses with their status.

mod faults;
mod gated;
mod routing;

use std::cell::{Cell, OnceCell};
use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::thread;

use anywire_http::{Body, Method, RequestHead, Response};
use anywire_loops::{Label, Work};

use crate::contained::drop_each;
use crate::context::{ContextId, Contexts, FreeContext, Origin, Told};
use crate::counters::Live;
use crate::extract::StatesId;
use crate::handler::{Slot, Slots};
use crate::layer::chain::{self, Centre, Link, OnLoop, Owner};
use crate::limits::Limits;
use crate::observe::{Observers, Tracked};
use crate::refusal::{Refusal, Refusals};
use crate::request::{Params, Request};
use crate::router::{EndpointId, Matched, Served, Serves, Table, UsedLayer};

use self::gated::Gated;
pub(crate) use self::routing::Routing;

/// The routes of a server as one loop runs them.
pub(crate) struct Dispatch {
    table: Arc<Table>,
    param_names: Vec<Rc<[Box<str>]>>,
    /// By endpoint: memory in which its handler has run before.
    slots: Vec<Slots>,
    /// By the number of a layer: what this loop has of it, once a request has gone through it.
    layers: Vec<OnceCell<Rc<dyn OnLoop>>>,
    /// The route that the layers of the server have gone on to last, and the context of its request.
    routed: Cell<Option<(ContextId, EndpointId)>>,
    /// By endpoint: the limits of routes that have other ones than the server. Empty if none has.
    own_limits: Vec<Option<Limits>>,
    contexts: Rc<Contexts>,
    counters: Arc<Live>,
    observers: Rc<Observers>,
    refusals: Refusals,
    /// Exchanges are observed.
    is_observed: bool,
    /// Where the loop is told whose handler it runs, in case that blocks it.
    work: Work,
}

impl Dispatch {
    /// Routes with a state of each type, on a server with these limits.
    pub(crate) fn new(table: Arc<Table>, limits: &Limits, counters: Arc<Live>) -> Self {
        Self::hooked(table, limits, counters, Rc::default(), Refusals::default())
    }

    /// The same, with what a program has hooked up.
    pub(crate) fn hooked(
        table: Arc<Table>,
        limits: &Limits,
        counters: Arc<Live>,
        observers: Rc<Observers>,
        refusals: Refusals,
    ) -> Self {
        let all = table.all_served();
        let mut own_limits: Vec<_> = all.iter().map(|served| served.limits.of_server(limits)).collect();
        if own_limits.iter().all(Option::is_none) {
            own_limits.clear();
        }
        let body_bytes = |own: &Option<Limits>| own.as_ref().unwrap_or(limits).body_bytes;
        let own_body_limits = own_limits.iter().map(body_bytes).collect();
        let (states, paths) = (table.states(), table.paths());
        Self {
            own_limits,
            param_names: table.param_names(),
            slots: table
                .names()
                .map(|name| Slots::new(Label::new(&format!("{} {}", name.method, name.path))))
                .collect(),
            layers: table.layers().iter().map(|_| OnceCell::new()).collect(),
            routed: Cell::default(),
            contexts: Contexts::new(states, paths, limits.body_bytes, own_body_limits, Arc::clone(&counters)),
            table,
            counters,
            is_observed: !observers.is_empty(),
            observers,
            refusals,
            work: Work::here(),
        }
    }

    /// Finds the handler of a request, and polls it for the first time: most are ready then. Passes the response and whose it
    /// is to `answered`, or returns the run of a handler that waits.
    ///
    /// `context` is one that an earlier request of the same connection has left, and gets that of this request once it is
    /// answered. Without one, `origin` says where the request comes from.
    // A response is passed on by reference, because to return it would copy it.
    #[inline]
    pub(crate) fn start(
        self: &Rc<Self>,
        head: RequestHead,
        body: Option<Body>,
        context: &mut Option<FreeContext>,
        origin: impl FnOnce() -> Origin,
        answered: impl FnOnce(&mut Response, EndpointId),
        cx: &mut TaskContext<'_>,
    ) -> Option<Run> {
        self.counters.requests.increment();
        let asks = Asks::of(head.method());
        let Matched { endpoint, params } = match self.table.find_literal(&head) {
            Some(endpoint) => Matched { endpoint, params: Params::default() },
            None => self.table.find(&head, &self.param_names),
        };
        let free = context.take().unwrap_or_else(|| self.contexts.make(origin()));
        let slots = &self.slots[endpoint.index()];
        let mut slot = match slots.take() {
            Some(slot) => slot,
            None => match self.new_slot(endpoint) {
                Ok(slot) => slot,
                Err(panic) => {
                    let mut response = self.panicked(Some(endpoint), None, panic, Some(free.peer()));
                    *context = Some(free);
                    answered(&mut response, endpoint);
                    return None;
                }
            },
        };
        let id = free.id();
        let request = Request::new(head, body, endpoint, params, free, &self.contexts);
        self.work.begins(slots.label());
        let mut response = None;
        let started = slot.as_mut().start(request, &mut response, cx);
        self.work.ends();
        // Whose answer it is: that of a route, within the layers of the server.
        let answers = self.answers(endpoint, id);
        match (started, &mut response) {
            (Ok(()), Some(response)) => {
                self.put_slot(endpoint, slot);
                *context = self.contexts.take_back(id);
                self.vet(answers, response, asks, context.as_ref());
                answered(response, answers);
                self.release(Some(answers), response);
                None
            }
            (Ok(()), None) => {
                // Extractors may have used the request up. Another one would replace its context in `contexts`.
                *context = self.contexts.take_back(id);
                let dispatch = Rc::clone(self);
                Some(Run { slot: Some(slot), dispatch, runs: endpoint, endpoint: answers, context: id, asks })
            }
            (Err(panic), _) => {
                // The request goes with its slot, and its body with it.
                self.drop_slot(endpoint, slot);
                *context = self.contexts.take_back(id);
                let layer = self.table.outermost_layer(endpoint);
                let peer = context.as_ref().map(FreeContext::peer);
                let mut response = self.panicked(Some(answers), layer, panic, peer);
                answered(&mut response, answers);
                None
            }
        }
    }

    /// The loop is about to run code of this handler, such as its body, until [`ends`](Self::ends) is called.
    #[inline]
    pub(crate) fn begins(&self, endpoint: Option<EndpointId>) {
        if let Some(endpoint) = endpoint {
            self.work.begins(self.slots[endpoint.index()].label());
        }
    }

    /// The loop no longer runs code of a handler.
    #[inline]
    pub(crate) fn ends(&self) {
        self.work.ends();
    }

    /// Tells handlers and continuations that the server shuts down.
    pub(crate) fn tell_stopping(&self) {
        self.contexts.stopping.tell();
    }

    /// The limits of this handler's route, if they are not those of the server.
    #[inline]
    pub(crate) fn own_limits(&self, endpoint: Option<EndpointId>) -> Option<&Limits> {
        self.own_limits.get(endpoint?.index())?.as_ref()
    }

    /// Whether each request has an exchange to begin.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.is_observed
    }

    /// Tells the observers that a request has come. The driver does so before it [starts](Self::start) it.
    #[cold]
    pub(crate) fn begin_exchange(
        &self,
        head: &RequestHead,
        body: Option<&Body>,
        context: &mut Option<FreeContext>,
        origin: impl FnOnce() -> Origin,
    ) -> Tracked {
        // Looked up here, too, so that requests that nobody observes carry nothing of this.
        let found = self.table.find_literal(head);
        let endpoint = found.unwrap_or_else(|| self.table.find(head, &self.param_names).endpoint);
        // A body that streams is counted as it comes.
        let received = body.and_then(Body::as_full).map_or(0, |whole| whole.len());
        let context = context.get_or_insert_with(|| self.contexts.make(origin()));
        self.observers.begin(head, self.route(endpoint), received, context.peer())
    }

    /// Notes whose an exchange is: within layers of the server that is not known when it begins.
    #[cold]
    pub(crate) fn note_route(&self, endpoint: Option<EndpointId>, exchange: &mut Tracked) {
        exchange.set_route(endpoint.and_then(|endpoint| self.route(endpoint)));
    }

    /// The path of the route of this handler.
    fn route(&self, endpoint: EndpointId) -> Option<&Rc<str>> {
        self.contexts.paths[endpoint.index()].as_ref()
    }

    /// The response to a request that is refused, as the program words it.
    #[cold]
    pub(crate) fn word(&self, endpoint: Option<EndpointId>, refusal: &Refusal<'_>) -> Response {
        if !self.refusals.has_hook() {
            return refusal.response();
        }
        let name = endpoint.map(|endpoint| self.table.name(endpoint)).filter(|name| *name.method != *"*");
        let method = name.and_then(|name| Method::from_bytes(name.method.as_bytes()).ok());
        let route = endpoint.and_then(|endpoint| self.route(endpoint)).map(AsRef::as_ref);
        let refusal = Refusal { method: method.as_ref(), route, ..*refusal };
        self.refusals.word(&refusal, &self.counters)
    }

    /// The observers of this loop.
    pub(crate) fn observers(&self) -> &Rc<Observers> {
        &self.observers
    }

    /// Keeps the memory of a run that has ended, unless there is enough.
    #[inline]
    fn put_slot(&self, endpoint: EndpointId, slot: Slot) {
        if let Some(surplus) = self.slots[endpoint.index()].put(slot) {
            self.drop_slot(endpoint, surplus);
        }
    }

    /// Drops a run that has not ended well, and its memory.
    #[cold]
    fn drop_slot(&self, endpoint: EndpointId, mut slot: Slot) {
        if let Err(panic) = slot.as_mut().cancel() {
            self.note_panic(Some(endpoint), panic);
        }
        self.drop_contained(Some(endpoint), slot);
    }

    /// Memory for a run of a handler within its layers. It holds a clone of the handler, which may panic.
    #[cold]
    fn new_slot(self: &Rc<Self>, endpoint: EndpointId) -> thread::Result<Slot> {
        catch_unwind(AssertUnwindSafe(|| {
            let served = self.table.served(endpoint);
            let slot = self.slot_of(served, endpoint);
            let Some(gate) = &served.gate else { return slot };
            Box::pin(Gated::new(slot, Arc::clone(gate), Rc::downgrade(self), endpoint))
        }))
    }

    fn slot_of(self: &Rc<Self>, served: &Served, endpoint: EndpointId) -> Slot {
        let centre = match &served.serves {
            Serves::Handler(handler) if served.layers.is_empty() => return handler.slot(),
            Serves::Handler(handler) => {
                Centre::Handler(Arc::clone(handler), Some(StatesId::of_endpoint(endpoint)))
            }
            Serves::Routes => Centre::Routes,
        };
        let owner = Owner { dispatch: Rc::downgrade(self), endpoint: Some(endpoint) };
        chain::slot(served.layers.iter().map(|layer| self.link(*layer)), centre, &owner)
    }

    /// What this loop has of a layer, made at its first request.
    fn link(&self, used: UsedLayer) -> Link {
        let given = &self.table.layers()[used.layer];
        let layer = self.layers[used.layer].get_or_init(|| given.on_loop());
        Link { layer: Rc::clone(layer), name: given.name(), states: Some(self.table.states_of(used)) }
    }

    /// Whose answer it is: that of the route which the request of this context has gone on to, if layers of the server were run.
    #[inline]
    fn answers(&self, so_far: EndpointId, id: ContextId) -> EndpointId {
        let Some((of, endpoint)) = self.routed.get() else { return so_far };
        cold_path();
        if of != id {
            return so_far;
        }
        self.routed.set(None);
        endpoint
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        drop_each(self.slots.drain(..).flat_map(Slots::into_all));
        drop_each(self.layers.drain(..).filter_map(OnceCell::into_inner));
    }
}

/// What the method of a request forbids its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    Anything,
    /// HEAD: the body stays behind.
    Head,
    /// CONNECT: a 2xx would promise a tunnel (RFC 9110 section 9.3.6), and there is none.
    Tunnel,
}

impl Asks {
    #[inline]
    fn of(method: &Method) -> Self {
        if !matches!(*method, Method::HEAD | Method::CONNECT) {
            return Self::Anything;
        }
        cold_path();
        if matches!(*method, Method::HEAD) { Self::Head } else { Self::Tunnel }
    }
}

/// A handler that works on a request. Dropping it cancels it.
pub(crate) struct Run {
    /// `None` once it has ended.
    slot: Option<Slot>,
    dispatch: Rc<Dispatch>,
    /// Whose slot it is.
    runs: EndpointId,
    /// Whose answer it is.
    endpoint: EndpointId,
    context: ContextId,
    asks: Asks,
}

impl Run {
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

    /// Goes on with the handler. Ready once; the request's context is in `context` then, unless the request lives on. It is
    /// there earlier if the handler no longer needs it.
    pub(crate) fn poll(
        &mut self,
        context: &mut Option<FreeContext>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Response> {
        let Some(mut slot) = self.slot.take() else { return Poll::Pending };
        let dispatch = &self.dispatch;
        dispatch.begins(Some(self.endpoint));
        let mut response = None;
        let polled = slot.as_mut().poll(&mut response, cx);
        dispatch.ends();
        self.endpoint = dispatch.answers(self.endpoint, self.context);
        match (polled, response) {
            (Ok(()), None) => {
                self.slot = Some(slot);
                if context.is_none() {
                    *context = dispatch.contexts.take_back(self.context);
                }
                Poll::Pending
            }
            (Ok(()), Some(mut response)) => {
                dispatch.put_slot(self.runs, slot);
                if context.is_none() {
                    *context = dispatch.contexts.take_back(self.context);
                }
                dispatch.vet(self.endpoint, &mut response, self.asks, context.as_ref());
                Poll::Ready(response)
            }
            (Err(panic), _) => {
                dispatch.drop_slot(self.runs, slot);
                if context.is_none() {
                    *context = dispatch.contexts.take_back(self.context);
                }
                let layer = dispatch.table.outermost_layer(self.runs);
                let peer = context.as_ref().map(FreeContext::peer);
                Poll::Ready(dispatch.panicked(Some(self.endpoint), layer, panic, peer))
            }
        }
    }

    /// Tells the handler that its peer has ended its direction. The handler may ask as long as the returned value is kept.
    #[cold]
    pub(crate) fn peer_gone(&self) -> Rc<Told> {
        let gone = self.dispatch.contexts.gone(self.context);
        gone.tell();
        gone
    }

    /// Cancels a handler whose deadline has passed. Returns the response for its peer, whose context is this one, unless the
    /// request still had that.
    #[cold]
    pub(crate) fn time_out(self, context: &mut Option<FreeContext>) -> Response {
        let (dispatch, endpoint, id) = (Rc::clone(&self.dispatch), self.endpoint, self.context);
        drop(self);
        if context.is_none() {
            *context = dispatch.contexts.take_back(id);
        }
        dispatch.timed_out(endpoint, context.as_ref().map(FreeContext::peer))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.dispatch.drop_slot(self.endpoint, slot);
        }
    }
}

#[cfg(test)]
mod tests;
