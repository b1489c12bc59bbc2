//! The one way from a protocol to the routes: a request goes in, a response comes out.
//!
//! The driver of a connection knows nothing else of routes, states and handlers, and nothing here knows a protocol. A
//! driver may start any number of requests of one connection. Each is an [`Invocation`] of its handler that wakes the task, or
//! the part of a task, that polled it last, and that times out or is cancelled alone. A path that no route has, a panic
//! and a response that cannot be sent come back as responses with their status.

mod faults;
mod gated;
mod older;
mod routing;
mod stamped;

use std::cell::{Cell, OnceCell};
use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::thread;

use anywire_http::{Body, Headers, Method, RequestHead, Response, StatusCode};
use anywire_loops::{Label, Pool, Work};

use crate::contained::drop_each;
use crate::context::{ContextId, Contexts, FreeContext, Peer, Watch};
use crate::counters::Live;
use crate::extract::StatesId;
use crate::handler::{FreeSlots, Slot};
use crate::interim::Open;
use crate::layer::chain::{self, Centre, Link, OnLoop, Owner};
use crate::limits::Limits;
use crate::observe::{Observers, Tracked};
use crate::pooled::QueueDeadline;
use crate::refusal::{Refusal, Refusals};
use crate::request::{Params, Request};
use crate::router::{EndpointId, Generation, Served, Serves, Table, UsedLayer};

use self::gated::Gated;
use self::older::Older;
pub(crate) use self::routing::Routing;
use self::stamped::Stamped;

/// The routes of a server as one loop runs them.
pub(crate) struct Dispatch {
    table: Arc<Table>,
    param_names: Vec<Rc<[Box<str>]>>,
    /// By endpoint: memory in which its handler has run before.
    slots: Vec<FreeSlots>,
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
    /// Routes before these, which may still answer requests.
    older: Vec<Rc<Older>>,
    /// Exchanges are observed.
    is_observed: bool,
    /// Where the loop is told whose handler it runs, in case that blocks it.
    work: Work,
}

impl Dispatch {
    /// Routes with a state of each type, on a server with these limits.
    pub(crate) fn new(table: Arc<Table>, limits: &Limits, counters: Arc<Live>) -> Self {
        Self::hooked(table, limits, counters, Rc::default(), Refusals::default(), None)
    }

    /// The same, with what a program has hooked up, in the place of the routes before these.
    pub(crate) fn hooked(
        table: Arc<Table>,
        limits: &Limits,
        counters: Arc<Live>,
        observers: Rc<Observers>,
        refusals: Refusals,
        before: Option<&Rc<Self>>,
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
                .map(|name| FreeSlots::new(Label::new(&format!("{} {}", name.method, name.path))))
                .collect(),
            layers: Self::kept_layers(&table, before),
            routed: Cell::default(),
            contexts: Contexts::new(
                states,
                paths,
                limits,
                own_body_limits,
                Arc::clone(&counters),
                before.map(|before| &*before.contexts),
            ),
            table,
            counters,
            older: Self::older_than(before),
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
    /// answered. Without one, `peer` says whose request it is.
    // A response is passed on by reference, because to return it would copy it.
    #[inline]
    pub(crate) fn start(
        self: &Rc<Self>,
        head: RequestHead,
        body: Option<Body>,
        context: &mut Option<FreeContext>,
        peer: impl FnOnce() -> Peer,
        answered: impl FnOnce(&mut Response, EndpointId),
        cx: &mut TaskContext<'_>,
    ) -> Option<Invocation> {
        self.counters.requests.increment();
        let method = MethodKind::of(head.method());
        let literal = self.table.find_literal(&head);
        let free = context.take().unwrap_or_else(|| self.contexts.make(peer()));
        let id = free.id();
        let mut request = Request::new(head, body, literal.unwrap_or(EndpointId::NONE), free, &self.contexts);
        let endpoint = literal.unwrap_or_else(|| self.find(&mut request));
        let slots = &self.slots[endpoint.index()];
        let mut slot = match slots.take() {
            Some(slot) => slot,
            None => match self.new_slot(endpoint) {
                Ok(slot) => slot,
                Err(panic) => {
                    drop(request);
                    *context = self.contexts.take_back(id);
                    let peer = context.as_ref().map(FreeContext::peer);
                    let mut response = self.panicked(Some(endpoint), None, panic, peer);
                    answered(&mut response, endpoint);
                    return None;
                }
            },
        };
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
                drop(self.opened(id));
                self.vet(answers, response, method, context.as_ref());
                answered(response, answers);
                self.release(Some(answers), response);
                None
            }
            (Ok(()), None) => {
                // Extractors may have used the request up. Another one would replace its context in `contexts`.
                *context = self.contexts.take_back(id);
                let (dispatch, interim) = (Rc::clone(self), self.opened(id));
                Some(Invocation {
                    slot: Some(slot),
                    dispatch,
                    runs: endpoint,
                    endpoint: answers,
                    context: id,
                    method,
                    interim,
                })
            }
            (Err(panic), _) => {
                // The request goes with its slot, and its body with it.
                self.drop_slot(endpoint, slot);
                drop(self.opened(id));
                *context = self.contexts.take_back(id);
                let layer = self.table.outermost_layer(endpoint);
                let peer = context.as_ref().map(FreeContext::peer);
                let mut response = self.panicked(Some(answers), layer, panic, peer);
                answered(&mut response, answers);
                None
            }
        }
    }

    /// Finds the handler of a request whose path is none of the literals.
    #[inline(never)]
    fn find(&self, request: &mut Request) -> EndpointId {
        request.find_route(|head, params| self.table.find(head, &self.param_names, params))
    }

    /// The loop is about to run code of this handler, such as its body, until [`ends`](Self::ends) is called.
    #[inline]
    pub(crate) fn begins(&self, endpoint: Option<EndpointId>) {
        if let Some(endpoint) = endpoint {
            match self.is_own(endpoint) {
                true => self.work.begins(self.slots[endpoint.index()].label()),
                false => self.begins_older(endpoint),
            }
        }
    }

    /// Which routes of the server these are.
    pub(crate) fn generation(&self) -> Generation {
        self.table.generation()
    }

    /// Whether it is of these routes, and not of such that they have replaced.
    #[inline]
    fn is_own(&self, endpoint: EndpointId) -> bool {
        endpoint.is_of(self.table.generation())
    }

    /// The loop no longer runs code of a handler.
    #[inline]
    pub(crate) fn ends(&self) {
        self.work.ends();
    }

    /// Tells handlers and continuations that the server shuts down.
    pub(crate) fn notify_stopping(&self) {
        self.contexts.stopping.notify();
    }

    /// Tells the functions that wait for a thread of a pool that there is no time left for them.
    pub(crate) fn end_waits(&self) {
        self.contexts.waits_no_more.notify();
    }

    /// The pool that this handler runs on, if it runs on one, and how long its requests may wait there.
    pub(crate) fn pool(&self, endpoint: EndpointId) -> Option<(Pool, Option<QueueDeadline>)> {
        self.table.pool(endpoint).map(|(pool, deadline)| (pool.clone(), deadline))
    }

    /// The limits of this handler's route, if they are not those of the server.
    #[inline]
    pub(crate) fn own_limits(&self, endpoint: Option<EndpointId>) -> Option<&Limits> {
        let endpoint = endpoint?;
        if !self.is_own(endpoint) {
            return self.older_limits(endpoint);
        }
        self.own_limits.get(endpoint.index())?.as_ref()
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
        peer: impl FnOnce() -> Peer,
    ) -> Tracked {
        // Looked up here, too, so that requests that nobody observes carry nothing of this.
        let found = self.table.find_literal(head);
        let endpoint =
            found.unwrap_or_else(|| self.table.find(head, &self.param_names, &mut Params::default()));
        // A body that streams is counted as it comes.
        let received = body.and_then(Body::as_full).map_or(0, |whole| whole.len());
        let context = context.get_or_insert_with(|| self.contexts.make(peer()));
        self.observers.begin(head, self.route(endpoint), received, context.peer())
    }

    /// Notes whose an exchange is: within layers of the server that is not known when it begins.
    #[inline]
    pub(crate) fn note_route(&self, endpoint: Option<EndpointId>, exchange: &mut Tracked) {
        if exchange.is_some() {
            exchange.set_route(endpoint.and_then(|endpoint| self.route(endpoint)));
        }
    }

    /// The path of the route of this handler.
    fn route(&self, endpoint: EndpointId) -> Option<&Rc<str>> {
        if !self.is_own(endpoint) {
            return self.older(endpoint)?.paths.get(endpoint.index())?.as_ref();
        }
        self.contexts.paths[endpoint.index()].as_ref()
    }

    /// The response to a request that is refused, as the program words it.
    #[cold]
    pub(crate) fn word(&self, endpoint: Option<EndpointId>, refusal: &Refusal<'_>) -> Response {
        if !self.refusals.has_hook() {
            return refusal.response();
        }
        let name = endpoint.and_then(|endpoint| self.name_of(endpoint)).filter(|name| *name.method != *"*");
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
            let mut slot = self.slot_of(served, endpoint);
            if self.table.is_stamped(served) {
                slot = Box::pin(Stamped(slot));
            }
            let Some(gate) = &served.gate else { return slot };
            Box::pin(Gated::new(slot, Arc::clone(gate), Rc::downgrade(self), endpoint))
        }))
    }

    fn slot_of(self: &Rc<Self>, served: &Served, endpoint: EndpointId) -> Slot {
        let owner = Owner { dispatch: Rc::downgrade(self), endpoint: Some(endpoint) };
        let centre = match &served.serves {
            Serves::Handler(handler) if served.layers.is_empty() => return handler.slot(&owner),
            Serves::Handler(handler) => {
                Centre::Handler(Arc::clone(handler), Some(StatesId::of_endpoint(endpoint)))
            }
            Serves::Routes => Centre::Routes,
            Serves::Choice(choice) => {
                return Box::pin(Routing::among(Rc::downgrade(self), *choice, endpoint));
            }
        };
        chain::slot(served.layers.iter().map(|layer| self.link(*layer)), centre, &owner)
    }

    /// What this loop has of a layer, made at its first request.
    fn link(&self, used: UsedLayer) -> Link {
        let given = &self.table.layers()[used.layer];
        let layer = self.layers[used.layer].get_or_init(|| given.on_loop());
        Link { layer: Rc::clone(layer), name: given.name(), states: Some(self.table.states_of(used)) }
    }

    /// Where the interim responses of this context's request come from, if its handler has just asked for a handle.
    #[inline]
    fn opened(&self, id: ContextId) -> Option<Open> {
        if self.contexts.opened.any() { self.contexts.opened.take(id) } else { None }
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
        drop_each(self.slots.drain(..).flat_map(FreeSlots::into_all));
        drop_each(self.layers.drain(..).filter_map(OnceCell::into_inner));
    }
}

/// What the method of a request forbids its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MethodKind {
    Other,
    /// The body stays behind.
    Head,
    /// A 2xx promises a tunnel (RFC 9110 section 9.3.6).
    Connect,
}

impl MethodKind {
    #[inline]
    fn of(method: &Method) -> Self {
        if !matches!(*method, Method::HEAD | Method::CONNECT) {
            return Self::Other;
        }
        cold_path();
        if matches!(*method, Method::HEAD) { Self::Head } else { Self::Connect }
    }
}

/// A handler that works on a request. Dropping it cancels it.
pub(crate) struct Invocation {
    /// `None` once it has ended.
    slot: Option<Slot>,
    dispatch: Rc<Dispatch>,
    /// Whose slot it is.
    runs: EndpointId,
    /// Whose answer it is.
    endpoint: EndpointId,
    context: ContextId,
    method: MethodKind,
    /// Where its interim responses come from, if it may send any.
    interim: Option<Open>,
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
        if let Some(opened) = dispatch.opened(self.context) {
            self.interim = Some(opened);
        }
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
                dispatch.vet(self.endpoint, &mut response, self.method, context.as_ref());
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
        self.dispatch.contexts.peer_gone(self.context)
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

impl Drop for Invocation {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.dispatch.contexts.leave(self.context);
            self.dispatch.drop_slot(self.endpoint, slot);
        }
    }
}

#[cfg(test)]
mod tests;
