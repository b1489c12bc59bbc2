//! What a request sees of its connection. A connection reuses one context for request after request.
//!
//! A reference count would be simpler, but counting touches the shared value at every request. With 10,000 connections
//! that value has left the cache by then, and the miss was an eighth of the server's own time. So the pointer moves into
//! the request and comes back when the request is dropped, without a look at the value.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{self, Arc};

use anywire_http::Body;
use anywire_wire::{Address, Connection, Credentials, Negotiated};
use tokio::sync::Notify;

use crate::contained::drop_each;
use crate::counters::Live;
use crate::extract::{States, StatesId};
use crate::interim::{Interim, Opened};
use crate::limits::Limits;
use crate::request::Params;
use crate::router::EndpointId;

/// Who sends the requests of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) negotiated: Option<Arc<Negotiated>>,
}

impl Peer {
    /// A peer of which nothing else is known.
    pub(crate) fn at(address: Address) -> Self {
        Self { address, credentials: None, negotiated: None }
    }

    /// No connection: the request was made by a program, or came by a server that does not say whose it is.
    #[cold]
    pub(crate) fn unknown() -> Self {
        Self::at("memory:unknown".parse().expect("an address"))
    }

    /// The peer of a connection.
    #[cold]
    pub(crate) fn of(connection: &Connection) -> Self {
        Self {
            address: connection.peer(),
            credentials: connection.credentials(),
            negotiated: connection.negotiated().cloned(),
        }
    }
}

/// A context that no request uses: the driver of a connection keeps it for the next one.
#[derive(Debug)]
pub(crate) struct FreeContext {
    /// Unlike an address, never used twice on a loop.
    id: ContextId,
    /// Shared only with the key of a request that was taken apart.
    peer: Arc<Peer>,
}

/// Tells the contexts of one loop apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ContextId(u64);

impl FreeContext {
    pub(crate) fn id(&self) -> ContextId {
        self.id
    }

    pub(crate) fn peer(&self) -> &Address {
        &self.peer.address
    }
}

/// The contexts of one loop: where requests get theirs, and where they return it.
pub(crate) struct Contexts {
    /// Tells these from the contexts of all other loops and servers.
    id: u64,
    pub(crate) states: States,
    /// By endpoint: the path of its route.
    pub(crate) paths: Vec<Option<Rc<str>>>,
    /// An extractor collects at most so much of a body.
    body_limit_bytes: usize,
    /// By endpoint: the same, of routes that have limits of their own. Empty if none has.
    own_body_limits: Vec<usize>,
    /// An extractor takes at most so many fields of a query or a form, and cookies.
    pub(crate) form_fields_max: usize,
    /// From so many arrays and objects in each other on, JSON is refused.
    pub(crate) json_depth: usize,
    pub(crate) counters: Arc<Live>,
    /// How many interim responses a handler sends at most.
    interim_responses: usize,
    /// A handle for them that a handler has just asked for.
    pub(crate) opened: Opened,
    /// What handlers keep on this loop, by a number of their own.
    kept: RefCell<Vec<(u64, Rc<dyn Any>)>>,
    returned: Cell<Option<FreeContext>>,
    /// Memory for the next request.
    memory: Cell<Option<Box<Fields>>>,
    made: Cell<u64>,
    /// By context: whether its peer has gone, for requests that asked or whose peer did. Other requests do not touch this.
    gone: RefCell<HashMap<ContextId, Weak<Watch>>>,
    /// The same for threads of pools: for requests whose handler gave them a way to ask.
    gone_flags: RefCell<HashMap<ContextId, sync::Weak<AtomicBool>>>,
    /// Whether the server has begun to shut down.
    pub(crate) stopping: Rc<Watch>,
    /// Whether it is too late to wait for a thread of a pool.
    pub(crate) waits_no_more: Rc<Watch>,
}

impl Contexts {
    /// Those of a loop. They go on where those of the routes before these are, if there are any.
    pub(crate) fn new(
        states: States,
        paths: Vec<Option<Rc<str>>>,
        limits: &Limits,
        own_body_limits: Vec<usize>,
        counters: Arc<Live>,
        before: Option<&Self>,
    ) -> Rc<Self> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut contexts = Self::empty(id);
        contexts.states = states;
        contexts.paths = paths;
        contexts.body_limit_bytes = limits.body_bytes;
        contexts.form_fields_max = limits.form_fields;
        contexts.json_depth = limits.json_depth;
        contexts.interim_responses = limits.interim_responses;
        contexts.own_body_limits = own_body_limits;
        contexts.counters = counters;
        // Connections keep those that they have, and are told once of the end of the server.
        if let Some(before) = before {
            contexts.stopping = Rc::clone(&before.stopping);
            contexts.waits_no_more = Rc::clone(&before.waits_no_more);
            // Requests of the routes before these may make some more.
            contexts.made.set(before.made.get() + (1 << 32));
        }
        let contexts = Rc::new(contexts);
        // Not if the thread is ending: then no request is put together on it either.
        let _ = HERE.try_with(|here| here.borrow_mut().insert(contexts.id, Rc::downgrade(&contexts)));
        contexts
    }

    fn empty(id: u64) -> Self {
        Self {
            id,
            states: States::default(),
            paths: Vec::new(),
            body_limit_bytes: Limits::default().body_bytes,
            own_body_limits: Vec::new(),
            form_fields_max: Limits::default().form_fields,
            json_depth: Limits::default().json_depth,
            counters: Arc::default(),
            interim_responses: Limits::default().interim_responses,
            opened: Opened::default(),
            kept: RefCell::default(),
            returned: Cell::default(),
            memory: Cell::default(),
            made: Cell::default(),
            gone: RefCell::default(),
            gone_flags: RefCell::default(),
            stopping: Rc::default(),
            waits_no_more: Rc::default(),
        }
    }

    /// How much of a body an extractor of this route collects at most.
    pub(crate) fn body_limit_bytes(&self, endpoint: EndpointId) -> usize {
        self.own_body_limits.get(endpoint.index()).copied().unwrap_or(self.body_limit_bytes)
    }

    /// Those of this number, if they are on this thread.
    fn find(id: u64) -> Option<Rc<Self>> {
        HERE.try_with(|here| here.borrow().get(&id).and_then(Weak::upgrade)).ok().flatten()
    }

    /// For requests that no server of this thread has taken: without states and routes.
    pub(crate) fn of_no_server() -> Rc<Self> {
        let make = || Rc::new(Self::empty(OF_NO_SERVER));
        NO_SERVER.try_with(|none| Rc::clone(none.get_or_init(make))).unwrap_or_else(|_| make())
    }

    /// What the handler of this number keeps on this loop, until the server ends. Without a server nothing is kept.
    #[cfg(feature = "tower")]
    pub(crate) fn keep<T: 'static>(&self, number: u64, make: impl FnOnce() -> T) -> Rc<T> {
        let find = || {
            let kept = self.kept.borrow();
            let found = kept.iter().find(|(of, _)| *of == number)?;
            Rc::clone(&found.1).downcast().ok()
        };
        find().unwrap_or_else(|| {
            // Not within the borrow: this is the code of others.
            let made = Rc::new(make());
            if self.id != OF_NO_SERVER {
                self.kept.borrow_mut().push((number, Rc::clone(&made) as Rc<dyn Any>));
            }
            made
        })
    }

    /// A new one.
    #[cold]
    pub(crate) fn make(&self, peer: Peer) -> FreeContext {
        self.make_shared(Arc::new(peer))
    }

    fn make_shared(&self, peer: Arc<Peer>) -> FreeContext {
        self.made.set(self.made.get() + 1);
        FreeContext { id: ContextId(self.made.get()), peer }
    }

    /// The context of this id, if its request was the last one to be dropped. A request that lives on in a task of its
    /// own keeps its context, and the connection makes another one.
    pub(crate) fn take_back(&self, id: ContextId) -> Option<FreeContext> {
        self.returned.take().filter(|free| free.id == id)
    }

    /// Whether the peer of this request has gone. All callers share one value, as long as one of them keeps it.
    pub(crate) fn gone(&self, id: ContextId) -> Rc<Watch> {
        let mut gone = self.gone.borrow_mut();
        if let Some(known) = gone.get(&id).and_then(Weak::upgrade) {
            return known;
        }
        if gone.len() == gone.capacity() {
            // Before the map grows.
            gone.retain(|_, kept| kept.strong_count() > 0);
        }
        let new = Rc::default();
        gone.insert(id, Rc::downgrade(&new));
        new
    }

    /// Tells a request that its peer has gone. It may ask as long as the returned value is kept.
    pub(crate) fn peer_gone(&self, id: ContextId) -> Rc<Watch> {
        let gone = self.gone(id);
        gone.notify();
        self.leave(id);
        gone
    }

    /// The same as [`gone`](Self::gone), for other threads.
    fn gone_flag(&self, id: ContextId) -> Arc<AtomicBool> {
        let mut flags = self.gone_flags.borrow_mut();
        if let Some(known) = flags.get(&id).and_then(sync::Weak::upgrade) {
            return known;
        }
        if flags.len() == flags.capacity() {
            flags.retain(|_, kept| kept.strong_count() > 0);
        }
        let new = Arc::default();
        flags.insert(id, Arc::downgrade(&new));
        new
    }

    /// Tells the threads that work for a request that nobody waits for them. The next request of its connection is another one.
    #[cold]
    pub(crate) fn leave(&self, id: ContextId) {
        let flag = self.gone_flags.borrow_mut().remove(&id);
        if let Some(flag) = flag.and_then(|flag| flag.upgrade()) {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        let _ = HERE.try_with(|here| here.borrow_mut().remove(&self.id));
        drop_each(self.kept.take());
    }
}

thread_local! {
    /// The contexts of each server on this thread, where a request that was taken apart finds its own again.
    static HERE: RefCell<HashMap<u64, Weak<Contexts>>> = RefCell::default();
    static NO_SERVER: OnceCell<Rc<Contexts>> = const { OnceCell::new() };
}

const OF_NO_SERVER: u64 = 0;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Whether something has happened, such as the end of a peer's direction, and the tasks to notify.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    has_happened: Cell<bool>,
    waiting: Notify,
}

impl Watch {
    pub(crate) fn notify(&self) {
        self.has_happened.set(true);
        self.waiting.notify_waiters();
    }

    pub(crate) async fn wait(&self) {
        while !self.has_happened.get() {
            self.waiting.notified().await;
        }
    }
}

/// Which context a request has, and of which server on which loop. Unlike the context itself it may go anywhere.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    contexts: u64,
    context: ContextId,
    pub(crate) peer: Arc<Peer>,
}

impl Place {
    /// The context of a request that was taken apart. On another thread it still knows its peer, and nothing else.
    ///
    /// Its connection may use the same context for the next request meanwhile. Both are the same, so it does not matter which of them
    /// comes back.
    pub(crate) fn context(&self) -> (FreeContext, Rc<Contexts>) {
        let peer = Arc::clone(&self.peer);
        if let Some(contexts) = Contexts::find(self.contexts) {
            return (FreeContext { id: self.context, peer }, contexts);
        }
        let contexts = Contexts::of_no_server();
        (contexts.make_shared(peer), contexts)
    }
}

/// What a request has besides its head: one pointer, to memory that serves one request of a loop after another.
pub(crate) struct RequestContext {
    /// `None` once they are given back.
    fields: Option<Box<Fields>>,
}

/// The fields of a [`RequestContext`].
pub(crate) struct Fields {
    /// `None` for most requests, which is cheaper to drop than an empty body.
    pub(crate) body: Option<Body>,
    pub(crate) params: Params,
    pub(crate) endpoint: EndpointId,
    pub(crate) states: StatesId,
    /// `None` only between two requests.
    held: Option<Held>,
}

/// A context that a request has, and what all requests of its loop share.
struct Held {
    free: FreeContext,
    contexts: Rc<Contexts>,
}

impl Fields {
    #[cold]
    fn empty() -> Box<Self> {
        let (endpoint, params) = (EndpointId::NONE, Params::default());
        Box::new(Self { body: None, params, endpoint, states: StatesId::of_endpoint(endpoint), held: None })
    }
}

impl RequestContext {
    /// Of a request for this endpoint, without body and parameters.
    #[inline(always)]
    pub(crate) fn new(endpoint: EndpointId, free: FreeContext, contexts: &Rc<Contexts>) -> Self {
        let mut fields = contexts.memory.take().unwrap_or_else(Fields::empty);
        fields.endpoint = endpoint;
        fields.states = StatesId::of_endpoint(endpoint);
        fields.held = Some(Held { free, contexts: Rc::clone(contexts) });
        Self { fields: Some(fields) }
    }

    /// What all requests of this loop share.
    #[inline]
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.held().contexts
    }

    #[inline]
    fn held(&self) -> &Held {
        self.held.as_ref().expect(HELD)
    }

    /// Returns the context to its connection and the memory to the loop: the request is dropped.
    #[inline(always)]
    pub(crate) fn give_back(&mut self) {
        let Some(mut fields) = self.fields.take() else { return };
        let Some(Held { free, contexts }) = fields.held.take() else { return };
        contexts.returned.set(Some(free));
        if fields.body.is_some() {
            fields.body = None;
        }
        fields.params.clear();
        contexts.memory.set(Some(fields));
    }

    /// Where the request is from, to find it again.
    pub(crate) fn place(&self) -> Place {
        let FreeContext { id, peer } = &self.held().free;
        Place { contexts: self.contexts().id, context: *id, peer: Arc::clone(peer) }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.held().free.peer
    }

    /// Which of these contexts it is, if it is one of them.
    pub(crate) fn id_in(&self, contexts: &Contexts) -> Option<ContextId> {
        (self.contexts().id == contexts.id).then(|| self.held().free.id)
    }

    /// Whether the peer has gone.
    pub(crate) fn gone(&self) -> Rc<Watch> {
        self.contexts().gone(self.held().free.id)
    }

    /// The same, for other threads.
    pub(crate) fn gone_flag(&self) -> Arc<AtomicBool> {
        self.contexts().gone_flag(self.held().free.id)
    }

    /// Tells its threads, once it is dropped, that nobody waits for them.
    pub(crate) fn leaving(&self) -> Leaving {
        Leaving { contexts: Rc::clone(&self.held().contexts), id: Some(self.held().free.id) }
    }

    /// Whether it is too late to wait for a thread of a pool.
    pub(crate) fn waits_no_more(&self) -> Rc<Watch> {
        Rc::clone(&self.contexts().waits_no_more)
    }

    /// Begins to take interim responses of this request. Without a server nobody hears them.
    pub(crate) fn open_interim(&self) -> Rc<Interim> {
        let contexts = self.contexts();
        let interim = Rc::new(Interim::new(contexts.interim_responses, contexts.id != OF_NO_SERVER));
        contexts.opened.put(self.held().free.id, &interim);
        interim
    }

    /// Whether the server has begun to shut down.
    pub(crate) fn stopping(&self) -> Rc<Watch> {
        Rc::clone(&self.contexts().stopping)
    }
}

impl Deref for RequestContext {
    type Target = Fields;

    #[inline]
    fn deref(&self) -> &Fields {
        self.fields.as_deref().expect(HELD)
    }
}

impl DerefMut for RequestContext {
    #[inline]
    fn deref_mut(&mut self) -> &mut Fields {
        self.fields.as_deref_mut().expect(HELD)
    }
}

const HELD: &str = "a request has its context until it is dropped";

impl fmt::Debug for RequestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.held().free, f)
    }
}

/// A handler whose threads are to know if it is dropped before it has ended.
pub(crate) struct Leaving {
    contexts: Rc<Contexts>,
    id: Option<ContextId>,
}

impl Leaving {
    /// It has ended.
    pub(crate) fn has_ended(&mut self) {
        self.id = None;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.contexts.leave(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Peer {
        Peer::at("memory:test".parse().expect("an address"))
    }

    #[test]
    fn a_gone_peer_is_remembered_as_long_as_a_request_asks() {
        let contexts = Contexts::of_no_server();
        let (one, other) = (contexts.make(peer()).id(), contexts.make(peer()).id());
        let watch = contexts.gone(one);
        watch.notify();
        assert!(contexts.gone(one).has_happened.get());
        assert!(!contexts.gone(other).has_happened.get());
        drop(watch);
        assert!(!contexts.gone(one).has_happened.get(), "no request has kept it");
        (0..10_000).for_each(|_| drop(contexts.gone(contexts.make(peer()).id())));
        assert!(contexts.gone.borrow().len() < 100, "entries that no request keeps are removed");
    }

    #[test]
    fn a_context_comes_back_to_its_own_connection_only() {
        let contexts = Contexts::of_no_server();
        let (one, other) = (contexts.make(peer()), contexts.make(peer()));
        let (one_id, other_id) = (one.id(), other.id());
        assert_ne!(one_id, other_id);
        let request = |free| RequestContext::new(EndpointId::NONE, free, &contexts);
        let (mut first, mut lives_on) = (request(one), request(other));
        first.give_back();
        assert!(contexts.take_back(other_id).is_none());
        assert!(contexts.take_back(one_id).is_none(), "the wrong caller has dropped it: a new one is made");
        lives_on.give_back();
        assert_eq!(contexts.take_back(other_id).map(|free| free.id()), Some(other_id));
    }

    #[test]
    fn the_memory_of_a_request_holds_nothing_of_the_one_before() {
        let contexts = Contexts::new(
            States::default(),
            Vec::new(),
            &Limits::default(),
            Vec::new(),
            Arc::default(),
            None,
        );
        let request = || RequestContext::new(EndpointId::NONE, contexts.make(peer()), &contexts);
        let mut first = request();
        first.body = Some(Body::from("first"));
        let names: Rc<[Box<str>]> = Rc::new(["a".into(), "b".into()]);
        first.params.set(&names, [0..1, 1..2].into_iter());
        first.give_back();
        assert!(
            contexts.memory.take().is_some_and(|fields| fields.body.is_none() && fields.params.is_empty())
        );
        let (mut one, mut other) = (request(), request());
        one.give_back();
        other.give_back();
        assert!(contexts.memory.take().is_some(), "one of two is kept");
    }
}
