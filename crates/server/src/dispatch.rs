//! The one way from a protocol to the routes: a request goes in, a response comes out.
//!
//! The driver of a connection knows nothing else of routes, states and handlers, and nothing here knows a protocol. A
//! driver may start any number of requests of one connection. Each is an [`Invocation`] of its handler that wakes the task, or
//! the part of a task, that polled it last, and that times out or is cancelled alone. A path that no route has, a panic
//! and a response that cannot be sent come back as responses with their status.

mod answer;
mod faults;
mod invocation;
mod replaced;
mod routing;

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context as TaskContext;
use std::thread;

use anywire_http::{Body, Method, RequestHead, Response};
use anywire_loops::{Label, Pool, Work};

use crate::contained::{Payload, drop_each};
use crate::context::{Arrival, LoopContext, Peer, RequestNumber};
use crate::counters::Live;
use crate::extract::StatesId;
use crate::layers::RequestIds;
use crate::limits::Limits;
use crate::observe::{Observers, Tracked};
use crate::pool::QueueDeadline;
use crate::refusal::{Refusal, Refusals};
use crate::request::{Params, Request, RequestKind};
use crate::router::{EndpointId, EndpointKind, EndpointRecord, Generation, Table, UsedLayer};
use crate::run::chain::{self, Innermost, Link, OnLoop, Owner};
use crate::run::{FreeSlots, Gated, Slot, Stamped};

pub(crate) use self::answer::Answer;
pub(crate) use self::invocation::Invocation;
use self::replaced::Replaced;
pub(crate) use self::routing::Routing;

/// The routes of a server as one loop runs them.
pub(crate) struct Dispatch {
    table: Arc<Table>,
    param_names: Vec<Rc<[Box<str>]>>,
    /// By endpoint: memory in which its handler has run before.
    slots: Vec<FreeSlots>,
    /// By the number of a layer: what this loop has of it, once a request has gone through it.
    layers: Vec<OnceCell<Rc<dyn OnLoop>>>,
    /// By endpoint: the limits of routes that have other ones than the server. Empty if none has.
    own_limits: Vec<Option<Limits>>,
    loop_context: Rc<LoopContext>,
    counters: Arc<Live>,
    observers: Rc<Observers>,
    refusals: Refusals,
    /// Routes before these, which may still answer requests.
    replaced: Vec<Rc<Replaced>>,
    /// Exchanges are observed.
    is_observed: bool,
    /// A layer names requests.
    layers_name: bool,
    /// Where the loop is told whose handler it runs, in case that blocks it.
    work: Work,
}

impl Dispatch {
    /// Routes with a state of each type, on a server with these limits.
    pub(crate) fn new(table: Arc<Table>, limits: &Limits, counters: Arc<Live>) -> Self {
        Self::with_hooks(table, limits, counters, Rc::default(), Refusals::default(), None)
    }

    /// The same, with what a program has hooked up, in the place of the routes before these.
    pub(crate) fn with_hooks(
        table: Arc<Table>,
        limits: &Limits,
        counters: Arc<Live>,
        observers: Rc<Observers>,
        refusals: Refusals,
        before: Option<&Rc<Self>>,
    ) -> Self {
        let all = table.records();
        let mut own_limits: Vec<_> = all.iter().map(|record| record.limits.of_server(limits)).collect();
        if own_limits.iter().all(Option::is_none) {
            own_limits.clear();
        }
        let body_bytes = |own: &Option<Limits>| own.as_ref().unwrap_or(limits).body_bytes;
        let own_body_limits = own_limits.iter().map(body_bytes).collect();
        let (states, paths) = (table.states(), table.paths());
        let layers_name = table.layers().iter().any(|layer| layer.of_type::<RequestIds>().is_some());
        Self {
            own_limits,
            param_names: table.param_names(),
            slots: table
                .names()
                .map(|name| FreeSlots::new(Label::new(&format!("{} {}", name.method, name.path))))
                .collect(),
            layers: Self::kept_layers(&table, before),
            loop_context: LoopContext::new(
                states,
                paths,
                limits,
                own_body_limits,
                Arc::clone(&counters),
                before.map(|before| &*before.loop_context),
            ),
            table,
            counters,
            replaced: Self::all_replaced(before),
            is_observed: !observers.is_empty(),
            layers_name,
            observers,
            refusals,
            work: Work::here(),
        }
    }

    /// Finds the handler of a request, and polls it for the first time: most are ready then. Passes the answer to `answered`, or
    /// returns the run of a handler that waits.
    ///
    /// `peer` is whose request it is, as an earlier one of the same connection has left it, and comes back once the request is
    /// dropped. Without one, `make_peer` says it.
    // A response is passed on by reference, because to return it would copy it.
    #[inline]
    pub(crate) fn start(
        self: &Rc<Self>,
        request: Received,
        peer: &mut Option<Arc<Peer>>,
        make_peer: impl FnOnce() -> Peer,
        answered: impl FnOnce(Answer<&mut Response>),
        cx: &mut TaskContext<'_>,
    ) -> Option<Invocation> {
        self.counters.requests.increment();
        let Received { head, kind, body } = request;
        let literal = self.table.find_literal(&head);
        let of_connection = peer.take().unwrap_or_else(|| Arc::new(make_peer()));
        let arrival = Arrival::new(of_connection, &self.loop_context);
        let number = arrival.number;
        let mut request = Request::new(head, body, literal.unwrap_or(EndpointId::NONE), arrival);
        let runs = literal.unwrap_or_else(|| self.find(&mut request));
        let slots = &self.slots[runs.index()];
        let mut slot = match slots.take() {
            Some(slot) => slot,
            None => match self.new_slot(runs) {
                Ok(slot) => slot,
                Err(panic) => {
                    drop(request);
                    self.loop_context.give_back(number, peer);
                    let address = peer.as_ref().map(|peer| &peer.address);
                    let mut response = self.panicked(Some(runs), None, panic, address);
                    answered(Answer::message(&mut response, Some(runs)));
                    return None;
                }
            },
        };
        let mut response = None;
        self.work.begins(slots.label());
        let (started, report) =
            self.loop_context.runs.poll(number, || slot.as_mut().start(request, &mut response, cx));
        self.work.ends();
        // Whose answer it is: that of a route, within the layers of the server.
        let endpoint = report.route.unwrap_or(runs);
        match (started, &mut response) {
            (Ok(()), Some(response)) => {
                self.put_slot(runs, slot);
                self.loop_context.give_back(number, peer);
                let continuation = self.vet(endpoint, response, kind, peer.as_ref());
                answered(Answer { response, endpoint: Some(endpoint), continuation });
                self.release(Some(endpoint), response);
                None
            }
            (Ok(()), None) => {
                // Extractors may have used the request up. Another one would replace its peer in `loop_context`.
                self.loop_context.give_back(number, peer);
                let mut invocation = Invocation {
                    slot: None,
                    dispatch: Rc::clone(self),
                    runs,
                    endpoint,
                    number,
                    kind,
                    seeks_route: true,
                    interim: None,
                };
                invocation.wait(slot, report, cx);
                Some(invocation)
            }
            (Err(panic), _) => {
                let mut response = self.fail(runs, slot, panic, number, peer, endpoint);
                answered(Answer::message(&mut response, Some(endpoint)));
                None
            }
        }
    }

    /// Drops a run that has panicked. Returns the response in its place.
    #[cold]
    fn fail(
        &self,
        runs: EndpointId,
        slot: Slot,
        panic: Payload,
        number: RequestNumber,
        peer: &mut Option<Arc<Peer>>,
        endpoint: EndpointId,
    ) -> Response {
        // The request goes with its slot, and its body with it; then its peer is free.
        self.drop_slot(runs, slot);
        self.loop_context.give_back(number, peer);
        let layer = self.table.outermost_layer(runs);
        self.panicked(Some(endpoint), layer, panic, peer.as_ref().map(|peer| &peer.address))
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
                false => self.begins_replaced(endpoint),
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
        self.loop_context.stopping.notify();
    }

    /// Tells the functions that wait for a thread of a pool that there is no time left for them.
    pub(crate) fn end_waits(&self) {
        self.loop_context.waits_no_more.notify();
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
            return self.replaced_limits(endpoint);
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
        head: &mut RequestHead,
        body: Option<&Body>,
        peer: &mut Option<Arc<Peer>>,
        make_peer: impl FnOnce() -> Peer,
    ) -> Tracked {
        // Looked up here, too, so that requests that nobody observes carry nothing of this.
        let found = self.table.find_literal(head);
        let endpoint =
            found.unwrap_or_else(|| self.table.find(head, &self.param_names, &mut Params::default()));
        // A body that streams is counted as it comes.
        let received = body.and_then(Body::as_full).map_or(0, |whole| whole.len());
        let peer = peer.get_or_insert_with(|| Arc::new(make_peer()));
        self.observers.begin(head, self.layers_name, self.route(endpoint), received, &peer.address)
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
            return self.replaced(endpoint)?.paths.get(endpoint.index())?.as_ref();
        }
        self.loop_context.paths[endpoint.index()].as_ref()
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
            let record = self.table.record(endpoint);
            let mut slot = self.slot_of(record, endpoint);
            if self.table.is_stamped(record) {
                slot = Box::pin(Stamped(slot));
            }
            let Some(gate) = &record.gate else { return slot };
            let is_on_pool = self.table.pool(endpoint).is_some();
            Box::pin(Gated::new(slot, Arc::clone(gate), is_on_pool, Rc::downgrade(self), endpoint))
        }))
    }

    fn slot_of(self: &Rc<Self>, record: &EndpointRecord, endpoint: EndpointId) -> Slot {
        let owner = Owner { dispatch: Rc::downgrade(self), endpoint: Some(endpoint) };
        let innermost = match &record.kind {
            EndpointKind::Handler(handler) if record.layers.is_empty() => return handler.slot(&owner),
            EndpointKind::Handler(handler) => {
                Innermost::Handler(Arc::clone(handler), Some(StatesId::of_endpoint(endpoint)))
            }
            EndpointKind::Routes => Innermost::Routes,
            EndpointKind::Choice(choice) => {
                return Box::pin(Routing::among(Rc::downgrade(self), *choice, endpoint));
            }
        };
        chain::slot(record.layers.iter().map(|layer| self.link(*layer)), innermost, &owner)
    }

    /// What this loop has of a layer, made at its first request.
    fn link(&self, used: UsedLayer) -> Link {
        let given = &self.table.layers()[used.layer];
        let layer = self.layers[used.layer].get_or_init(|| given.on_loop());
        Link { layer: Rc::clone(layer), name: given.name(), states: Some(self.table.states_of(used)) }
    }

    /// Whether what answers there is yet to be found: it is the layers of the server, or a choice among handlers.
    #[inline]
    fn leads_on(&self, endpoint: EndpointId) -> bool {
        !matches!(self.table.record(endpoint).kind, EndpointKind::Handler(_))
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        drop_each(self.slots.drain(..).flat_map(FreeSlots::into_all));
        drop_each(self.layers.drain(..).filter_map(OnceCell::into_inner));
    }
}

/// A request as the driver of its connection has received it.
pub(crate) struct Received {
    pub(crate) head: RequestHead,
    /// What its method was on the wire, which for an extended CONNECT is not that of `head`.
    pub(crate) kind: RequestKind,
    pub(crate) body: Option<Body>,
}

#[cfg(test)]
mod tests;
