//! What the connections of one loop share: routes, states, spare buffers, the clock's date line, and the switch that
//! ends them all.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Poll, Waker};
use std::thread;

use anywire_http::h1::encode;
use anywire_http::{BodyError, Chain, DateLine, RequestHead, Response, StatusCode};
use anywire_loops::clock;
use anywire_wire::Connection;
use slab::Slab;
use tokio::sync::Notify;

use crate::counters::Live;
use crate::exchange::{Exchange, Link};
use crate::extract::States;
use crate::handler::{Slot, Slots};
use crate::lease::{ContextId, Gone, Kept, Lease, Lender};
use crate::limits::Limits;
use crate::request::{Context, Params, Request};
use crate::respond::FAILED;
use crate::router::{EndpointId, Matched, Table};
use anywire_http::IntoResponse;

/// A server on one loop.
pub(crate) struct Service {
    table: Arc<Table>,
    param_names: Vec<Rc<[Box<str>]>>,
    states: Rc<States>,
    pub(crate) limits: Limits,
    pub(crate) counters: Arc<Live>,
    lender: Rc<Lender>,
    date: RefCell<DateLine>,
    /// Buffers and decoders of connections that are idle now; the next one that wakes takes the last one put here,
    /// which is still in the cache.
    #[expect(clippy::vec_box, reason = "an exchange moves between here and its connection as one pointer")]
    spares: RefCell<Vec<Box<Exchange>>>,
    /// By endpoint: memory in which its handler has run before.
    slots: Vec<Slots>,
    seats: RefCell<Slab<Waker>>,
    ending: Cell<Ending>,
    empty: Notify,
}

/// A `Date` line.
pub(crate) type Date = [u8; DateLine::BYTES];

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
            slots: (0..table.endpoints()).map(|_| Slots::default()).collect(),
            table,
            limits,
            counters,
            lender: Rc::default(),
            date: RefCell::new(DateLine::new()),
            spares: RefCell::default(),
            seats: RefCell::default(),
            ending: Cell::new(Ending::No),
            empty: Notify::new(),
        }
    }

    /// What requests of one connection share.
    #[cold]
    pub(crate) fn context(&self, connection: &Connection) -> Kept {
        self.lender.keep(Context {
            peer: connection.peer(),
            credentials: connection.credentials(),
            states: Rc::clone(&self.states),
            body_limit_bytes: self.limits.body_bytes,
        })
    }

    /// The `Date` line of now: asked for once a turn, not once an answer.
    pub(crate) fn date(&self) -> Date {
        let mut date = self.date.borrow_mut();
        let line = date.line(clock::unix_time());
        line.try_into().expect("all date lines have the same length")
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

/// A handler that runs in a slot of its endpoint's.
pub(crate) struct Answer {
    slot: Slot,
    endpoint: EndpointId,
    lent: ContextId,
}

/// What comes of a request's head.
pub(crate) enum Routed {
    /// A handler is to be started.
    Handler(Answer, Params, Lease),
    /// The router itself answers, or its handler panicked before it began.
    Response(Box<Response>),
}

impl Service {
    /// Finds the handler of a request, and what it needs to run: a slot, and the connection's context meanwhile.
    #[inline]
    pub(crate) fn route(&self, head: &RequestHead, link: &mut Link<'_>) -> Routed {
        let (endpoint, params) = match self.table.find_literal(head) {
            Some(endpoint) => (endpoint, Params::default()),
            None => match self.table.find(head, &self.param_names) {
                Matched::Endpoint(endpoint, params) => (endpoint, params),
                Matched::Response(response) => return Routed::Response(response),
            },
        };
        let slot = match self.slots[endpoint.index()].take() {
            Some(slot) => slot,
            None => match self.new_slot(endpoint) {
                Ok(slot) => slot,
                Err(panic) => return Routed::Response(Box::new(self.panicked(endpoint, panic))),
            },
        };
        let kept = link.context.take().unwrap_or_else(|| self.context(link.connection));
        let answer = Answer { slot, endpoint, lent: kept.id() };
        Routed::Handler(answer, params, self.lender.lend(kept))
    }

    /// Memory for a run of a handler, which is cloned for it: that may panic.
    #[cold]
    fn new_slot(&self, endpoint: EndpointId) -> thread::Result<Slot> {
        catch_unwind(AssertUnwindSafe(|| self.table.slot(endpoint)))
    }

    /// Tells a handler that its peer has ended its direction, for as long as what comes back is kept.
    #[cold]
    pub(crate) fn peer_gone(&self, answer: &Answer) -> Rc<Gone> {
        let gone = self.lender.gone(answer.lent);
        gone.tell();
        gone
    }

    /// Takes back the slot of a handler that has ended in order, and gives the context that it had.
    #[inline]
    pub(crate) fn ended(&self, answer: Answer) -> Option<Kept> {
        self.slots[answer.endpoint.index()].put(answer.slot);
        self.lender.take_back(answer.lent)
    }
}

/// What goes wrong in handlers: counted, and logged with the method and the path of their route.
impl Service {
    /// Looks at an answer that is not plain before it is sent. One that would break its own connection becomes a 500;
    /// one with a cause is logged.
    #[cold]
    pub(crate) fn vet(&self, endpoint: Option<EndpointId>, response: &mut Response, answers_head: bool) {
        let (method, route) = self.name(endpoint);
        let status = response.status.as_u16();
        if let Some(cause) = unsendable(response, answers_head) {
            self.counters.failures.increment();
            tracing::error!(method, route, status, cause, "a handler's response cannot be sent");
            *response = (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response();
        } else if let Some(cause) = response.cause() {
            if status >= 500 {
                self.counters.failures.increment();
                tracing::error!(method, route, status, cause, "a handler failed");
            } else {
                self.counters.refused.increment();
                tracing::debug!(method, route, status, cause, "a request was refused");
            }
        }
    }

    /// What answers for a handler that panicked; everything else goes on.
    #[cold]
    pub(crate) fn panicked(&self, endpoint: EndpointId, panic: Box<dyn Any + Send>) -> Response {
        self.note_panic(Some(endpoint), panic);
        (StatusCode::INTERNAL_SERVER_ERROR, FAILED).into_response()
    }

    /// Drops a handler that has not ended.
    #[cold]
    pub(crate) fn give_up(&self, answer: Answer) {
        let endpoint = answer.endpoint();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(answer))) {
            self.note_panic(Some(endpoint), panic);
        }
    }

    /// Counts and logs a panic of a handler, or of the body that it answered with.
    #[cold]
    pub(crate) fn note_panic(&self, endpoint: Option<EndpointId>, panic: Box<dyn Any + Send>) {
        let (method, route) = self.name(endpoint);
        self.counters.panics.increment();
        tracing::error!(method, route, status = 500, panic = panic_text(&*panic), "a handler panicked");
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            // A payload whose destructor panics is given up: the next destructor might panic, too.
            let _ = ManuallyDrop::new(another);
        }
    }

    /// Says why the body of an answer broke off. The fault is the handler's, unless the body was the peer's own or came
    /// over another wire.
    #[cold]
    pub(crate) fn body_failed(&self, endpoint: Option<EndpointId>, error: &BodyError) {
        let (method, route) = self.name(endpoint);
        let cause = Chain(error).to_string();
        if error.fault() == anywire_http::Fault::Caller {
            self.counters.failures.increment();
            tracing::error!(method, route, cause, "a handler's body failed");
        } else {
            self.counters.refused.increment();
            tracing::debug!(method, route, cause, "the body of an answer broke off");
        }
    }

    fn name(&self, endpoint: Option<EndpointId>) -> (&str, &str) {
        let name = endpoint.map(|endpoint| self.table.name(endpoint));
        name.map_or(("*", "(the router)"), |name| (&name.method, &name.path))
    }
}

/// Why a response would break its connection, if it would.
fn unsendable(response: &Response, answers_head: bool) -> Option<String> {
    let status = response.status;
    if let Some(fault) = response.fault() {
        return Some(fault.to_string());
    }
    if status.is_informational() {
        let code = status.as_u16();
        return Some(format!(
            "the status {code} ends no request, and upgrades are not supported; send 2xx to 5xx"
        ));
    }
    let length = response.body.stated_length()?;
    let follows = !answers_head && !encode::forbids_body(status);
    follows.then(|| {
        format!("the body of {length} bytes is withheld; that is for answers to HEAD and for 304, so send the body")
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}

impl Answer {
    /// Whose run it is.
    pub(crate) fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    #[inline]
    pub(crate) fn start(
        &mut self,
        request: Request,
        cx: &mut task::Context<'_>,
    ) -> thread::Result<Poll<Response>> {
        self.slot.as_mut().start(request, cx)
    }

    pub(crate) fn poll(&mut self, cx: &mut task::Context<'_>) -> thread::Result<Poll<Response>> {
        self.slot.as_mut().poll(cx)
    }
}

/// Spare buffers kept a loop: 16 KiB each, so 4 MiB at most.
const SPARES_MAX: usize = 256;
