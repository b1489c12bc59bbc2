//! What a request has besides its head. A connection keeps its [`Peer`], and lends it to request after request.
//!
//! To clone the `Arc` would be simpler, but counting touches the shared value at every request. With 10,000 connections
//! that value has left the cache by then, and the miss was an eighth of the server's own time. So the pointer moves into
//! the request and comes back when the request is dropped, without a look at the value.
//!
//! A number tells the requests of a loop apart. Each request has its own, because one may live on in a task while its connection
//! goes on with the next: neither is told what concerns the other.

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

use crate::extract::StatesId;
use crate::interim::{Interim, InterimReceiver};
use crate::request::Params;
use crate::router::EndpointId;

pub(crate) use self::loop_context::LoopContext;
pub(crate) use self::peer::Peer;
pub(crate) use self::runs::{RunReport, Runs};
pub(crate) use self::watch::Watch;

/// Tells the requests of one loop apart. Unlike an address, never used twice there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RequestNumber(u64);

/// A request as it has arrived: its number on its loop, and its peer.
pub(crate) struct Arrival {
    pub(crate) number: RequestNumber,
    /// Shared only with the key of a request that was taken apart.
    peer: Arc<Peer>,
    /// What all requests of its loop share.
    loop_context: Rc<LoopContext>,
}

impl Arrival {
    /// The next request of a loop.
    #[inline(always)]
    pub(crate) fn new(peer: Arc<Peer>, loop_context: &Rc<LoopContext>) -> Self {
        Self { number: loop_context.next_number(), peer, loop_context: Rc::clone(loop_context) }
    }
}

/// Which request it is, of which server on which loop. Unlike the [`Arrival`] it may go anywhere.
#[derive(Debug, Clone)]
pub(crate) struct RequestKey {
    loop_context: u64,
    number: RequestNumber,
    pub(crate) peer: Arc<Peer>,
}

impl RequestKey {
    /// That of a request that was taken apart. On another thread it still knows its peer, and nothing else.
    pub(crate) fn arrival(&self) -> Arrival {
        let peer = Arc::clone(&self.peer);
        match LoopContext::find(self.loop_context) {
            Some(loop_context) => Arrival { number: self.number, peer, loop_context },
            None => Arrival::new(peer, &LoopContext::of_no_server()),
        }
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
    arrival: Option<Arrival>,
}

impl Fields {
    #[cold]
    fn empty() -> Box<Self> {
        let (endpoint, params) = (EndpointId::NONE, Params::default());
        Box::new(Self {
            body: None,
            params,
            endpoint,
            states: StatesId::of_endpoint(endpoint),
            arrival: None,
        })
    }
}

impl RequestContext {
    /// Of a request for this endpoint, without body and parameters.
    #[inline(always)]
    pub(crate) fn new(endpoint: EndpointId, arrival: Arrival) -> Self {
        let mut fields = arrival.loop_context.memory.take().unwrap_or_else(Fields::empty);
        fields.endpoint = endpoint;
        fields.states = StatesId::of_endpoint(endpoint);
        fields.arrival = Some(arrival);
        Self { fields: Some(fields) }
    }

    /// What all requests of this loop share.
    #[inline]
    pub(crate) fn loop_context(&self) -> &LoopContext {
        &self.arrival().loop_context
    }

    #[inline]
    fn arrival(&self) -> &Arrival {
        self.arrival.as_ref().expect(ARRIVED)
    }

    /// Returns the peer to its connection and the memory to the loop: the request is dropped.
    #[inline(always)]
    pub(crate) fn give_back(&mut self) {
        let Some(mut fields) = self.fields.take() else { return };
        let Some(Arrival { number, peer, loop_context }) = fields.arrival.take() else { return };
        loop_context.returned.set(Some((number, peer)));
        if fields.body.is_some() {
            fields.body = None;
        }
        fields.params.clear();
        loop_context.memory.set(Some(fields));
    }

    /// Where the request is from, to find it again.
    pub(crate) fn key(&self) -> RequestKey {
        let Arrival { number, peer, loop_context } = self.arrival();
        RequestKey { loop_context: loop_context.id, number: *number, peer: Arc::clone(peer) }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.arrival().peer
    }

    /// Its number, if it is of this loop.
    pub(crate) fn number_in(&self, loop_context: &LoopContext) -> Option<RequestNumber> {
        (self.loop_context().id == loop_context.id).then(|| self.arrival().number)
    }

    /// Whether the peer has gone.
    pub(crate) fn gone(&self) -> Rc<Watch> {
        self.loop_context().gone(self.arrival().number)
    }

    /// The same, for other threads.
    pub(crate) fn gone_flag(&self) -> Arc<AtomicBool> {
        self.loop_context().gone_flag(self.arrival().number)
    }

    /// Tells its threads, once it is dropped, that nobody waits for them.
    pub(crate) fn cancel_guard(&self) -> CancelGuard {
        CancelGuard {
            loop_context: Rc::clone(&self.arrival().loop_context),
            number: Some(self.arrival().number),
        }
    }

    /// Whether it is too late to wait for a thread of a pool.
    pub(crate) fn waits_no_more(&self) -> Rc<Watch> {
        Rc::clone(&self.loop_context().waits_no_more)
    }

    /// Begins to take interim responses of this request. Nobody hears them if its run does not listen, such as without a server.
    pub(crate) fn open_interim(&self) -> Rc<Interim> {
        let Arrival { number, loop_context, .. } = self.arrival();
        let has_run = loop_context.runs.listens(*number);
        let interim = Rc::new(Interim::new(loop_context.interim_responses, has_run));
        if has_run {
            loop_context.runs.tell(
                *number,
                RunReport { interim: Some(InterimReceiver::of(&interim)), ..RunReport::default() },
            );
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
        self.fields.as_deref().expect(ARRIVED)
    }
}

impl DerefMut for RequestContext {
    #[inline]
    fn deref_mut(&mut self) -> &mut Fields {
        self.fields.as_deref_mut().expect(ARRIVED)
    }
}

const ARRIVED: &str = "a request has arrived somehow until it is dropped";

impl fmt::Debug for RequestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arrival { number, peer, .. } = self.arrival();
        f.debug_struct("RequestContext").field("number", number).field("peer", peer).finish_non_exhaustive()
    }
}

/// A handler whose threads are to know if it is dropped before it has ended.
pub(crate) struct CancelGuard {
    loop_context: Rc<LoopContext>,
    number: Option<RequestNumber>,
}

impl CancelGuard {
    /// It has ended.
    pub(crate) fn disarm(&mut self) {
        self.number = None;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.loop_context.leave(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::States;
    use crate::limits::Limits;

    fn arrival(loop_context: &Rc<LoopContext>) -> Arrival {
        Arrival::new(Arc::new(Peer::at("memory:test".parse().expect("an address"))), loop_context)
    }

    #[test]
    fn a_gone_peer_is_remembered_as_long_as_a_request_asks() {
        let loop_context = LoopContext::of_no_server();
        let (one, other) = (loop_context.next_number(), loop_context.next_number());
        let watch = loop_context.gone(one);
        watch.notify();
        assert!(loop_context.gone(one).has_happened.get());
        assert!(!loop_context.gone(other).has_happened.get());
        drop(watch);
        assert!(!loop_context.gone(one).has_happened.get(), "no request has kept it");
        (0..10_000).for_each(|_| drop(loop_context.gone(loop_context.next_number())));
        assert!(loop_context.gone.borrow().len() < 100, "entries that no request keeps are removed");
    }

    #[test]
    fn a_peer_comes_back_to_its_own_connection_only() {
        let loop_context = LoopContext::of_no_server();
        let (one, other) = (arrival(&loop_context), arrival(&loop_context));
        let (one_number, other_number) = (one.number, other.number);
        assert_ne!(one_number, other_number);
        let other_peer = Arc::clone(&other.peer);
        let request = |arrival| RequestContext::new(EndpointId::NONE, arrival);
        let (mut first, mut lives_on) = (request(one), request(other));
        let take_back = |number| {
            let mut peer = None;
            loop_context.give_back(number, &mut peer);
            peer
        };
        first.give_back();
        assert!(take_back(other_number).is_none());
        assert!(take_back(one_number).is_none(), "the wrong caller has dropped it: a new one is made");
        lives_on.give_back();
        assert!(take_back(other_number).is_some_and(|peer| Arc::ptr_eq(&peer, &other_peer)));
    }

    #[test]
    fn a_request_that_was_taken_apart_is_not_the_next_one_of_its_peer() {
        let loop_context = LoopContext::of_no_server();
        let mut request = RequestContext::new(EndpointId::NONE, arrival(&loop_context));
        let (key, number) = (request.key(), request.arrival().number);
        request.give_back();
        let mut peer = None;
        loop_context.give_back(number, &mut peer);
        let next = Arrival::new(peer.expect("it was given back"), &loop_context);
        assert_ne!(key.number, next.number);
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
        let request = || RequestContext::new(EndpointId::NONE, arrival(&loop_context));
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
