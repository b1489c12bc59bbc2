//! What a request sees of its connection. A connection reuses one context for request after request.
//!
//! A reference count would be simpler, but counting touches the shared value at every request. With 10,000 connections
//! that value has left the cache by then, and the miss was an eighth of the server's own time. So the pointer moves into
//! the request and comes back when the request is dropped, without a look at the value.

mod loop_context;
mod peer;
mod runs;
mod watch;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anywire_http::Body;
use anywire_wire::Address;

use crate::extract::StatesId;
use crate::interim::{Interim, Open};
use crate::request::Params;
use crate::router::EndpointId;

pub(crate) use self::loop_context::LoopContext;
pub(crate) use self::peer::Peer;
pub(crate) use self::runs::{Runs, Told};
pub(crate) use self::watch::Watch;

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

/// Which context a request has, and of which server on which loop. Unlike the context itself it may go anywhere.
#[derive(Debug, Clone)]
pub(crate) struct ContextKey {
    loop_context: u64,
    context: ContextId,
    pub(crate) peer: Arc<Peer>,
}

impl ContextKey {
    /// The context of a request that was taken apart. On another thread it still knows its peer, and nothing else.
    ///
    /// Its connection may use the same context for the next request meanwhile. Both are the same, so it does not matter which of them
    /// comes back.
    pub(crate) fn context(&self) -> (FreeContext, Rc<LoopContext>) {
        let peer = Arc::clone(&self.peer);
        if let Some(loop_context) = LoopContext::find(self.loop_context) {
            return (FreeContext { id: self.context, peer }, loop_context);
        }
        let loop_context = LoopContext::of_no_server();
        (loop_context.make_shared(peer), loop_context)
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
    loop_context: Rc<LoopContext>,
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
    pub(crate) fn new(endpoint: EndpointId, free: FreeContext, loop_context: &Rc<LoopContext>) -> Self {
        let mut fields = loop_context.memory.take().unwrap_or_else(Fields::empty);
        fields.endpoint = endpoint;
        fields.states = StatesId::of_endpoint(endpoint);
        fields.held = Some(Held { free, loop_context: Rc::clone(loop_context) });
        Self { fields: Some(fields) }
    }

    /// What all requests of this loop share.
    #[inline]
    pub(crate) fn loop_context(&self) -> &LoopContext {
        &self.held().loop_context
    }

    #[inline]
    fn held(&self) -> &Held {
        self.held.as_ref().expect(HELD)
    }

    /// Returns the context to its connection and the memory to the loop: the request is dropped.
    #[inline(always)]
    pub(crate) fn give_back(&mut self) {
        let Some(mut fields) = self.fields.take() else { return };
        let Some(Held { free, loop_context }) = fields.held.take() else { return };
        loop_context.returned.set(Some(free));
        if fields.body.is_some() {
            fields.body = None;
        }
        fields.params.clear();
        loop_context.memory.set(Some(fields));
    }

    /// Where the request is from, to find it again.
    pub(crate) fn context_key(&self) -> ContextKey {
        let FreeContext { id, peer } = &self.held().free;
        ContextKey { loop_context: self.loop_context().id, context: *id, peer: Arc::clone(peer) }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.held().free.peer
    }

    /// Which context of this loop it is, if it is one of them.
    pub(crate) fn id_in(&self, loop_context: &LoopContext) -> Option<ContextId> {
        (self.loop_context().id == loop_context.id).then(|| self.held().free.id)
    }

    /// Whether the peer has gone.
    pub(crate) fn gone(&self) -> Rc<Watch> {
        self.loop_context().gone(self.held().free.id)
    }

    /// The same, for other threads.
    pub(crate) fn gone_flag(&self) -> Arc<AtomicBool> {
        self.loop_context().gone_flag(self.held().free.id)
    }

    /// Tells its threads, once it is dropped, that nobody waits for them.
    pub(crate) fn leaving(&self) -> Leaving {
        Leaving { loop_context: Rc::clone(&self.held().loop_context), id: Some(self.held().free.id) }
    }

    /// Whether it is too late to wait for a thread of a pool.
    pub(crate) fn waits_no_more(&self) -> Rc<Watch> {
        Rc::clone(&self.loop_context().waits_no_more)
    }

    /// Begins to take interim responses of this request. Nobody hears them if its run does not listen, such as without a server.
    pub(crate) fn open_interim(&self) -> Rc<Interim> {
        let Held { free, loop_context } = self.held();
        let is_heard = loop_context.runs.listens(free.id);
        let interim = Rc::new(Interim::new(loop_context.interim_responses, is_heard));
        if is_heard {
            loop_context.runs.tell(free.id, Told { interim: Some(Open::of(&interim)), ..Told::default() });
        }
        interim
    }

    /// Whether the server has begun to shut down.
    pub(crate) fn stopping(&self) -> Rc<Watch> {
        Rc::clone(&self.loop_context().stopping)
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
    loop_context: Rc<LoopContext>,
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
            self.loop_context.leave(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::States;
    use crate::limits::Limits;

    fn peer() -> Peer {
        Peer::at("memory:test".parse().expect("an address"))
    }

    #[test]
    fn a_gone_peer_is_remembered_as_long_as_a_request_asks() {
        let loop_context = LoopContext::of_no_server();
        let (one, other) = (loop_context.make(peer()).id(), loop_context.make(peer()).id());
        let watch = loop_context.gone(one);
        watch.notify();
        assert!(loop_context.gone(one).has_happened.get());
        assert!(!loop_context.gone(other).has_happened.get());
        drop(watch);
        assert!(!loop_context.gone(one).has_happened.get(), "no request has kept it");
        (0..10_000).for_each(|_| drop(loop_context.gone(loop_context.make(peer()).id())));
        assert!(loop_context.gone.borrow().len() < 100, "entries that no request keeps are removed");
    }

    #[test]
    fn a_context_comes_back_to_its_own_connection_only() {
        let loop_context = LoopContext::of_no_server();
        let (one, other) = (loop_context.make(peer()), loop_context.make(peer()));
        let (one_id, other_id) = (one.id(), other.id());
        assert_ne!(one_id, other_id);
        let request = |free| RequestContext::new(EndpointId::NONE, free, &loop_context);
        let (mut first, mut lives_on) = (request(one), request(other));
        let take_back = |id| {
            let mut free = None;
            loop_context.give_back(id, &mut free);
            free.map(|free: FreeContext| free.id())
        };
        first.give_back();
        assert!(take_back(other_id).is_none());
        assert!(take_back(one_id).is_none(), "the wrong caller has dropped it: a new one is made");
        lives_on.give_back();
        assert_eq!(take_back(other_id), Some(other_id));
    }

    #[test]
    fn the_memory_of_a_request_holds_nothing_of_the_one_before() {
        let loop_context = LoopContext::new(
            States::default(),
            Vec::new(),
            &Limits::default(),
            Vec::new(),
            Arc::default(),
            None,
        );
        let request = || RequestContext::new(EndpointId::NONE, loop_context.make(peer()), &loop_context);
        let mut first = request();
        first.body = Some(Body::from("first"));
        let names: Rc<[Box<str>]> = Rc::new(["a".into(), "b".into()]);
        first.params.set(&names, [0..1, 1..2].into_iter());
        first.give_back();
        assert!(
            loop_context
                .memory
                .take()
                .is_some_and(|fields| fields.body.is_none() && fields.params.is_empty())
        );
        let (mut one, mut other) = (request(), request());
        one.give_back();
        other.give_back();
        assert!(loop_context.memory.take().is_some(), "one of two is kept");
    }
}
