//! What the connections of one loop share: the routes, limits and counters, free sessions, the clock's date line, and
//! the switch that ends them all.

mod free;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use anywire_http::{DateLine, h2};
use anywire_loops::clock;
use anywire_wire::Output;
use slab::Slab;
use tokio::sync::Notify;

use crate::counters::Live;
use crate::dispatch::Dispatch;
use crate::driver::h1::Session;
use crate::limits::Limits;
use crate::observe::{MakeObserver, Observers};
use crate::refusal::Refusals;
use crate::router::{EndpointId, Generation, Table};

use self::free::Free;

/// A server on one loop, with these routes.
pub(crate) struct Service {
    pub(crate) dispatch: Rc<Dispatch>,
    pub(crate) limits: Limits,
    /// Those of the engine, which all connections share.
    pub(crate) http2: Arc<h2::EngineLimits>,
    pub(crate) counters: Arc<Live>,
    shared: Rc<Shared>,
    /// The same with the routes that have replaced these. A connection goes on to it when it is polled.
    next: OnceCell<Rc<Self>>,
}

/// What stays when routes are replaced.
struct Shared {
    date: RefCell<DateLine>,
    /// Buffers and decoders that idle connections have left. A connection that wakes takes the one that came last, which
    /// is still in the cache.
    free_sessions: RefCell<Free<Box<Session>>>,
    /// The same of HTTP/2, where the rest of a session stays with its connection.
    free_outputs: RefCell<Free<Output>>,
    /// One waker a connection.
    wakers: RefCell<Slab<Waker>>,
    ending: Cell<Ending>,
    /// Connections that were cut with a request.
    cut: Cell<usize>,
    empty: Notify,
}

/// A `Date` line.
pub(crate) type Date = [u8; DateLine::BYTES];

/// How far a shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// Not begun.
    No,
    /// A request that is under way, has arrived or soon does is answered, by `Connection: close`.
    Draining,
    /// The deadline has passed: connections are aborted.
    Cut,
}

impl Service {
    pub(crate) fn new(
        table: Arc<Table>,
        limits: Limits,
        counters: Arc<Live>,
        observers: &[MakeObserver],
        refusals: Refusals,
    ) -> Self {
        let observers = Observers::new(observers, Arc::clone(&counters));
        let dispatch = Dispatch::with_hooks(table, &limits, Arc::clone(&counters), observers, refusals, None);
        let shared = Shared {
            date: RefCell::new(DateLine::new()),
            free_sessions: RefCell::default(),
            free_outputs: RefCell::default(),
            wakers: RefCell::default(),
            ending: Cell::new(Ending::No),
            cut: Cell::new(0),
            empty: Notify::new(),
        };
        let http2 = Arc::new(h2::EngineLimits { head: limits.head, connection: limits.http2 });
        let (dispatch, shared) = (Rc::new(dispatch), Rc::new(shared));
        Self { dispatch, limits, http2, counters, shared, next: OnceCell::new() }
    }

    /// Other routes for this server. Its connections are woken to go on to them.
    pub(crate) fn replace(&self, table: Arc<Table>) -> Rc<Self> {
        let dispatch = Rc::new(self.dispatch.replaced_by(table, &self.limits));
        let (limits, http2) = (self.limits.clone(), Arc::clone(&self.http2));
        let (counters, shared) = (Arc::clone(&self.counters), Rc::clone(&self.shared));
        let next = Rc::new(Self { dispatch, limits, http2, counters, shared, next: OnceCell::new() });
        let set = self.next.set(Rc::clone(&next));
        debug_assert!(set.is_ok(), "the newest service is replaced");
        self.wake_all();
        next
    }

    /// Whether other routes have replaced these.
    #[inline]
    pub(crate) fn is_replaced(&self) -> bool {
        self.next.get().is_some()
    }

    /// With the routes of now.
    #[cold]
    pub(crate) fn newest(self: &Rc<Self>) -> Rc<Self> {
        let mut newest = self;
        while let Some(next) = newest.next.get() {
            newest = next;
        }
        Rc::clone(newest)
    }

    /// Of which generation its routes are.
    pub(crate) fn generation(&self) -> Generation {
        self.dispatch.generation()
    }

    /// The `Date` line of now. A session asks once a poll, not once a response.
    pub(crate) fn date(&self) -> Date {
        let mut date = self.shared.date.borrow_mut();
        let line = date.line(clock::unix_time());
        line.try_into().expect("all date lines have the same length")
    }

    /// The limits of a request that this handler answers; those of the server if there is none.
    #[inline]
    pub(crate) fn limits_of(&self, endpoint: Option<EndpointId>) -> &Limits {
        self.dispatch.own_limits(endpoint).unwrap_or(&self.limits)
    }

    pub(crate) fn take_session(&self) -> Box<Session> {
        let free = self.shared.free_sessions.borrow_mut().take();
        free.unwrap_or_else(|| Box::new(Session::new(&self.limits)))
    }

    pub(crate) fn put_session(&self, session: Box<Session>) {
        let surplus = self.shared.free_sessions.borrow_mut().put(session);
        drop(surplus);
    }

    /// An empty output, with memory if one has left some.
    pub(crate) fn take_output(&self) -> Output {
        self.shared.free_outputs.borrow_mut().take().unwrap_or_default()
    }

    /// Takes an empty output for the next connection that sends.
    pub(crate) fn put_output(&self, output: Output) {
        let surplus = self.shared.free_outputs.borrow_mut().put(output);
        drop(surplus);
    }

    /// Registers a connection, to be woken when the server ends.
    pub(crate) fn register(&self, waker: Waker) -> usize {
        self.counters.connections.increment();
        self.shared.wakers.borrow_mut().insert(waker)
    }

    /// Removes a connection that has ended.
    pub(crate) fn deregister(&self, key: usize) {
        let mut wakers = self.shared.wakers.borrow_mut();
        wakers.remove(key);
        if wakers.is_empty() {
            self.shared.empty.notify_waiters();
        }
    }

    pub(crate) fn ending(&self) -> Ending {
        self.shared.ending.get()
    }

    /// Sets the switch, and wakes every connection to look at it.
    pub(crate) fn end(&self, ending: Ending) {
        self.shared.ending.set(ending);
        if ending == Ending::Cut {
            self.dispatch.observers().cut();
        }
        self.dispatch.notify_stopping();
        self.wake_all();
    }

    fn wake_all(&self) {
        let wakers: Vec<Waker> = self.shared.wakers.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ready once no connection is left.
    pub(crate) async fn emptied(&self) {
        loop {
            let empty = self.shared.empty.notified();
            if self.shared.wakers.borrow().is_empty() {
                return;
            }
            empty.await;
        }
    }

    /// Counts a connection that is cut with a request.
    pub(crate) fn count_cut(&self) {
        self.shared.cut.update(|cut| cut + 1);
    }

    /// How many were.
    pub(crate) fn cut(&self) -> usize {
        self.shared.cut.get()
    }
}
