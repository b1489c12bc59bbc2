//! What the requests of one server share on a loop.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{self, Arc};

use super::{Fields, Peer, RequestNumber, Runs, Watch};
use crate::contained::drop_each;
use crate::counters::Live;
use crate::extract::States;
use crate::limits::Limits;
use crate::router::EndpointId;

/// What the requests of one server share on a loop, and where they return their peers and their memory.
pub(crate) struct LoopContext {
    /// Tells it from that of all other loops and servers.
    pub(super) id: u64,
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
    pub(super) interim_responses: usize,
    /// What requests tell the runs of their handlers.
    pub(crate) runs: Runs,
    /// What handlers keep on this loop, by a number of their own.
    kept: RefCell<Vec<(u64, Rc<dyn Any>)>>,
    /// The peer of the request that was dropped last. A cell, because counting references costs a miss of the cache a request
    /// ([`context`](super)). A request is dropped anywhere in code of users, and mostly just before its run asks for the peer.
    pub(super) returned: Cell<Option<(RequestNumber, Arc<Peer>)>>,
    /// Memory for the next request.
    pub(super) memory: Cell<Option<Box<Fields>>>,
    /// How many requests have had a number.
    numbered: Cell<u64>,
    /// By request: whether its peer has gone, for requests that asked or whose peer did. Other requests do not touch this.
    pub(super) gone: RefCell<HashMap<RequestNumber, Weak<Watch>>>,
    /// The same for threads of pools: for requests whose handler gave them a way to ask.
    gone_flags: RefCell<HashMap<RequestNumber, sync::Weak<AtomicBool>>>,
    /// Whether the server has begun to shut down.
    pub(crate) stopping: Rc<Watch>,
    /// Whether it is too late to wait for a thread of a pool.
    pub(crate) waits_no_more: Rc<Watch>,
}

impl LoopContext {
    /// That of a loop. It goes on where that of the routes before these is, if there are any.
    pub(crate) fn new(
        states: States,
        paths: Vec<Option<Rc<str>>>,
        limits: &Limits,
        own_body_limits: Vec<usize>,
        counters: Arc<Live>,
        before: Option<&Self>,
    ) -> Rc<Self> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut loop_context = Self::empty(id);
        loop_context.states = states;
        loop_context.paths = paths;
        loop_context.body_limit_bytes = limits.body_bytes;
        loop_context.form_fields_max = limits.form_fields;
        loop_context.json_depth = limits.json_depth;
        loop_context.interim_responses = limits.interim_responses;
        loop_context.own_body_limits = own_body_limits;
        loop_context.counters = counters;
        // Handlers of the routes before these are told once of the end of the server, too.
        if let Some(before) = before {
            loop_context.stopping = Rc::clone(&before.stopping);
            loop_context.waits_no_more = Rc::clone(&before.waits_no_more);
        }
        let loop_context = Rc::new(loop_context);
        // Not if the thread is ending: then no request is put together on it either.
        let _ = HERE.try_with(|here| here.borrow_mut().insert(loop_context.id, Rc::downgrade(&loop_context)));
        loop_context
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
            runs: Runs::default(),
            kept: RefCell::default(),
            returned: Cell::default(),
            memory: Cell::default(),
            numbered: Cell::default(),
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

    /// That of this number, if it is on this thread.
    pub(super) fn find(id: u64) -> Option<Rc<Self>> {
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

    #[inline(always)]
    pub(super) fn next_number(&self) -> RequestNumber {
        let number = self.numbered.get() + 1;
        self.numbered.set(number);
        RequestNumber(number)
    }

    /// Gives the peer of this request to its connection, unless that has it back already. Only if the request was the last one to be
    /// dropped: one that lives on in a task of its own keeps its peer, and the connection makes another one.
    #[inline]
    pub(crate) fn give_back(&self, number: RequestNumber, to: &mut Option<Arc<Peer>>) {
        if to.is_none() {
            *to = self.returned.take().filter(|(of, _)| *of == number).map(|(_, peer)| peer);
        }
    }

    /// Whether the peer of this request has gone. All callers share one value, as long as one of them keeps it.
    pub(crate) fn gone(&self, number: RequestNumber) -> Rc<Watch> {
        let mut gone = self.gone.borrow_mut();
        if let Some(known) = gone.get(&number).and_then(Weak::upgrade) {
            return known;
        }
        if gone.len() == gone.capacity() {
            // Before the map grows.
            gone.retain(|_, kept| kept.strong_count() > 0);
        }
        let new = Rc::default();
        gone.insert(number, Rc::downgrade(&new));
        new
    }

    /// Tells a request that its peer has gone. It may ask as long as the returned value is kept.
    pub(crate) fn peer_gone(&self, number: RequestNumber) -> Rc<Watch> {
        let gone = self.gone(number);
        gone.notify();
        self.leave(number);
        gone
    }

    /// The same as [`gone`](Self::gone), for other threads.
    pub(super) fn gone_flag(&self, number: RequestNumber) -> Arc<AtomicBool> {
        let mut flags = self.gone_flags.borrow_mut();
        if let Some(known) = flags.get(&number).and_then(sync::Weak::upgrade) {
            return known;
        }
        if flags.len() == flags.capacity() {
            flags.retain(|_, kept| kept.strong_count() > 0);
        }
        let new = Arc::default();
        flags.insert(number, Arc::downgrade(&new));
        new
    }

    /// Tells the threads that work for a request that nobody waits for them. The next request of its connection is another one.
    #[cold]
    pub(crate) fn leave(&self, number: RequestNumber) {
        let flag = self.gone_flags.borrow_mut().remove(&number);
        if let Some(flag) = flag.and_then(|flag| flag.upgrade()) {
            flag.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for LoopContext {
    fn drop(&mut self) {
        let _ = HERE.try_with(|here| here.borrow_mut().remove(&self.id));
        drop_each(self.kept.take());
    }
}

thread_local! {
    /// That of each server on this thread, where a request that was taken apart finds its own again.
    static HERE: RefCell<HashMap<u64, Weak<LoopContext>>> = RefCell::default();
    static NO_SERVER: OnceCell<Rc<LoopContext>> = const { OnceCell::new() };
}

/// That of requests without a server.
const OF_NO_SERVER: u64 = 0;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);
