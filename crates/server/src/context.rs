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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anywire_http::Body;
use anywire_wire::{Address, Connection, Credentials, Negotiated};
use tokio::sync::Notify;

use crate::contained::drop_each;
use crate::counters::Live;
use crate::extract::{States, StatesId};
use crate::limits::Limits;
use crate::request::Params;
use crate::router::EndpointId;

/// Where requests come from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) peer: Address,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) negotiated: Option<Arc<Negotiated>>,
}

impl Origin {
    /// A peer of which nothing else is known.
    pub(crate) fn at(peer: Address) -> Self {
        Self { peer, credentials: None, negotiated: None }
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
            peer: connection.peer(),
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
    origin: Arc<Origin>,
}

/// Tells the contexts of one loop apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ContextId(u64);

impl FreeContext {
    pub(crate) fn id(&self) -> ContextId {
        self.id
    }

    pub(crate) fn peer(&self) -> &Address {
        &self.origin.peer
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
    pub(crate) counters: Arc<Live>,
    /// What handlers keep on this loop, by a number of their own.
    kept: RefCell<Vec<(u64, Rc<dyn Any>)>>,
    returned: Cell<Option<FreeContext>>,
    /// Memory for the next request.
    memory: Cell<Option<Box<Fields>>>,
    made: Cell<u64>,
    /// By context: whether its peer has gone, for requests that asked or whose peer did. Other requests do not touch this.
    gone: RefCell<HashMap<ContextId, Weak<Told>>>,
    /// Whether the server has begun to shut down.
    pub(crate) stopping: Rc<Told>,
}

impl Contexts {
    pub(crate) fn new(
        states: States,
        paths: Vec<Option<Rc<str>>>,
        body_limit_bytes: usize,
        own_body_limits: Vec<usize>,
        counters: Arc<Live>,
    ) -> Rc<Self> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut contexts = Self::empty(id);
        contexts.states = states;
        contexts.paths = paths;
        contexts.body_limit_bytes = body_limit_bytes;
        contexts.own_body_limits = own_body_limits;
        contexts.counters = counters;
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
            counters: Arc::default(),
            kept: RefCell::default(),
            returned: Cell::default(),
            memory: Cell::default(),
            made: Cell::default(),
            gone: RefCell::default(),
            stopping: Rc::default(),
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
    pub(crate) fn make(&self, origin: Origin) -> FreeContext {
        self.make_shared(Arc::new(origin))
    }

    fn make_shared(&self, origin: Arc<Origin>) -> FreeContext {
        self.made.set(self.made.get() + 1);
        FreeContext { id: ContextId(self.made.get()), origin }
    }

    /// The context of this id, if its request was the last one to be dropped. A request that lives on in a task of its
    /// own keeps its context, and the connection makes another one.
    pub(crate) fn take_back(&self, id: ContextId) -> Option<FreeContext> {
        self.returned.take().filter(|free| free.id == id)
    }

    /// Whether the peer of this request has gone. All callers share one value, as long as one of them keeps it.
    pub(crate) fn gone(&self, id: ContextId) -> Rc<Told> {
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
pub(crate) struct Told {
    told: Cell<bool>,
    waiting: Notify,
}

impl Told {
    pub(crate) fn tell(&self) {
        self.told.set(true);
        self.waiting.notify_waiters();
    }

    pub(crate) async fn told(&self) {
        while !self.told.get() {
            self.waiting.notified().await;
        }
    }
}

/// Which context a request has, and of which server on which loop. Unlike the context itself it may go anywhere.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    contexts: u64,
    context: ContextId,
    pub(crate) origin: Arc<Origin>,
}

impl Place {
    /// The context of a request that was taken apart. On another thread it still knows its peer, and nothing else.
    ///
    /// Its connection may use the same context for the next request meanwhile. Both are the same, so it does not matter which of them
    /// comes back.
    pub(crate) fn context(&self) -> (FreeContext, Rc<Contexts>) {
        let origin = Arc::clone(&self.origin);
        if let Some(contexts) = Contexts::find(self.contexts) {
            return (FreeContext { id: self.context, origin }, contexts);
        }
        let contexts = Contexts::of_no_server();
        (contexts.make_shared(origin), contexts)
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
        if !fields.params.is_empty() {
            fields.params = Params::default();
        }
        contexts.memory.set(Some(fields));
    }

    /// Where the request is from, to find it again.
    pub(crate) fn place(&self) -> Place {
        let FreeContext { id, origin } = &self.held().free;
        Place { contexts: self.contexts().id, context: *id, origin: Arc::clone(origin) }
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.held().free.origin
    }

    /// Which of these contexts it is, if it is one of them.
    pub(crate) fn id_in(&self, contexts: &Contexts) -> Option<ContextId> {
        (self.contexts().id == contexts.id).then(|| self.held().free.id)
    }

    /// Whether the peer has gone.
    pub(crate) fn gone(&self) -> Rc<Told> {
        self.contexts().gone(self.held().free.id)
    }

    /// Whether the server has begun to shut down.
    pub(crate) fn stopping(&self) -> Rc<Told> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin::at("memory:test".parse().expect("an address"))
    }

    #[test]
    fn a_gone_peer_is_remembered_as_long_as_a_request_asks() {
        let contexts = Contexts::of_no_server();
        let (one, other) = (contexts.make(origin()).id(), contexts.make(origin()).id());
        let told = contexts.gone(one);
        told.tell();
        assert!(contexts.gone(one).told.get());
        assert!(!contexts.gone(other).told.get());
        drop(told);
        assert!(!contexts.gone(one).told.get(), "no request has kept it");
        (0..10_000).for_each(|_| drop(contexts.gone(contexts.make(origin()).id())));
        assert!(contexts.gone.borrow().len() < 100, "entries that no request keeps are removed");
    }

    #[test]
    fn a_context_comes_back_to_its_own_connection_only() {
        let contexts = Contexts::of_no_server();
        let (one, other) = (contexts.make(origin()), contexts.make(origin()));
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
        let contexts = Contexts::new(States::default(), Vec::new(), 0, Vec::new(), Arc::default());
        let request =
            || RequestContext::new(EndpointId::NONE, contexts.make(origin()), &contexts);
        let mut first = request();
        first.body = Some(Body::from("first"));
        first.params = Params::new(Rc::new(["id".into()]), vec![1..2]);
        first.give_back();
        assert!(contexts.memory.take().is_some_and(|fields| fields.body.is_none() && fields.params.is_empty()));
        let (mut one, mut other) = (request(), request());
        one.give_back();
        other.give_back();
        assert!(contexts.memory.take().is_some(), "one of two is kept");
    }
}
