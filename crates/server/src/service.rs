//! What the connections of one loop share: routes, states, spare buffers, the clock's date line, and the switch that
//! ends them all.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use anywire_http::date::DateLine;
use anywire_http::{Body, Method, RequestHead};
use anywire_loops::clock;
use anywire_wire::Connection;
use slab::Slab;
use tokio::sync::Notify;

use crate::counters::Live;
use crate::exchange::Exchange;
use crate::extract::States;
use crate::handler::Answer;
use crate::limits::Limits;
use crate::request::{Context, Request};
use crate::router::{Matched, Table};

/// A server on one loop.
pub(crate) struct Service {
    table: Arc<Table>,
    param_names: Vec<Rc<[Box<str>]>>,
    states: Rc<States>,
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Live>,
    date: RefCell<DateLine>,
    /// Buffers and decoders of connections that are idle now; the next one that wakes takes the last one put here,
    /// which is still in the cache.
    spares: RefCell<Vec<Box<Exchange>>>,
    seats: RefCell<Slab<Waker>>,
    ending: Cell<Ending>,
    empty: Notify,
}

/// How far a shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// Not begun.
    No,
    /// Idle connections close, the others finish their request and say `Connection: close`.
    Draining,
    /// The deadline has passed: connections are aborted.
    Cut,
}

impl Service {
    pub(crate) fn new(table: Arc<Table>, limits: Limits, counters: Arc<Live>) -> Self {
        Self {
            param_names: table.param_names(),
            states: Rc::new(table.states()),
            table,
            limits,
            counters,
            date: RefCell::new(DateLine::new()),
            spares: RefCell::default(),
            seats: RefCell::default(),
            ending: Cell::new(Ending::No),
            empty: Notify::new(),
        }
    }

    /// What requests of one connection share.
    pub(crate) fn context(&self, connection: &Connection) -> Rc<Context> {
        Rc::new(Context {
            peer: connection.peer(),
            credentials: connection.credentials(),
            states: Rc::clone(&self.states),
            body_limit_bytes: self.limits.body_bytes,
        })
    }

    /// Who answers this method and path.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Matched<'_> {
        self.table.find(method, path, &self.param_names)
    }

    /// The `Date` field line of this second.
    pub(crate) fn with_date<R>(&self, write: impl FnOnce(&[u8]) -> R) -> R {
        write(self.date.borrow_mut().line(clock::unix_time()))
    }

    pub(crate) fn take_spare(&self) -> Box<Exchange> {
        let spare = self.spares.borrow_mut().pop();
        spare.unwrap_or_else(|| Box::new(Exchange::new(&self.limits)))
    }

    pub(crate) fn put_spare(&self, exchange: Box<Exchange>) {
        let mut spares = self.spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(exchange);
        }
    }

    /// Enters a connection, to be woken when the server ends.
    pub(crate) fn sit(&self, waker: Waker) -> usize {
        self.counters.connections.increment();
        self.counters.connections_open.increment();
        self.seats.borrow_mut().insert(waker)
    }

    /// Takes a connection out again.
    pub(crate) fn stand(&self, seat: usize) {
        self.counters.connections_open.decrement();
        let mut seats = self.seats.borrow_mut();
        seats.remove(seat);
        if seats.is_empty() {
            self.empty.notify_waiters();
        }
    }

    pub(crate) fn ending(&self) -> Ending {
        self.ending.get()
    }

    /// Sets the switch and wakes every connection, so that it looks.
    pub(crate) fn end(&self, ending: Ending) {
        self.ending.set(ending);
        let wakers: Vec<Waker> = self.seats.borrow().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ready once no connection is left.
    pub(crate) async fn emptied(&self) {
        loop {
            let empty = self.empty.notified();
            if self.seats.borrow().is_empty() {
                return;
            }
            empty.await;
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.seats.borrow().len()
    }
}

/// Starts the handler of a request, or has the answer already.
pub(crate) enum Begun {
    Handler(Answer),
    Response(Box<anywire_http::Response>),
}

impl Service {
    /// Routes a request and calls its handler.
    pub(crate) fn begin(&self, head: RequestHead, body: Body, context: &Rc<Context>) -> Begun {
        match self.find(head.method(), head.path()) {
            Matched::Endpoint(endpoint, params) => {
                Begun::Handler(endpoint.call(Request::new(head, body, params, Rc::clone(context))))
            }
            Matched::Response(response) => Begun::Response(response),
        }
    }
}

/// Spare buffers kept a loop: 16 KiB each, so 4 MiB at most.
const SPARES_MAX: usize = 256;
