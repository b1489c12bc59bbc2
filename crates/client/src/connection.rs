//! A pooled connection: it owns the wire, and says what happened on it to the pool's task that polls it.
//!
//! | it is | calls | capacity | the pool's list |
//! | --- | --- | --- | --- |
//! | idle | 0 | 1, or what its protocol allows | `Free` |
//! | busy, with a slot | fewer than the capacity | the same | `Free`; `Pipelined` for HTTP/1 |
//! | busy, without one | as many as the capacity | the same | `Nowhere` |
//! | leaving: it ends after its calls | any | 0 | any: who finds it there passes it over |
//! | closed | 0 | 0 | `Nowhere` |
//!
//! An idle connection has no buffer and is registered for reading: the peer's FIN, its RST or unexpected bytes end it at once.
//!
//! HTTP/1: a call on an idle connection is encoded and written in the poll of its caller, with the waker of the
//! connection's task. So this task runs for the first time when the response is there.
//!
//! HTTP/2, and HTTP/1 that calls share: calls go into an inbox, which the connection's task takes with its next turn, so that the requests of many
//! callers leave in one write. A caller's body may make a call while that task polls it.

pub(crate) mod budget;
pub(crate) mod download;
pub(crate) mod event;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod io;
pub(crate) mod pipeline;
pub(crate) mod session;
pub(crate) mod tunnel;
pub(crate) mod turn;
pub(crate) mod watchdog;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use anywire_loops::clock::precise;
use anywire_wire::{Connection, Negotiated};

use crate::call::job::{Job, Outcome};
use crate::connection::event::Event;
use crate::connection::io::Io;
use crate::connection::pipeline::Pipelining;
use crate::connection::session::Session;
use crate::contained::drop_caught;
use crate::observe::{Closed, Connected};
use crate::pool::Listed;
use crate::pool::context::LoopContext;
use crate::pool::quota::Permit;

/// A connection of a pool.
pub(crate) struct Conn {
    key: usize,
    context: Rc<LoopContext>,
    core: RefCell<Core>,
    /// Calls that wait for the next turn of the connection's task.
    inbox: RefCell<VecDeque<Job>>,
    /// The task will look at them without being woken.
    is_seen: Cell<bool>,
    /// What wakes the connection's task, once it ran.
    waker: OnceCell<TaskWaker>,
    /// It was idle when its task was last polled, so that its wire wakes the task if anything comes.
    rests: Cell<bool>,
    /// The result of its handshake, if it has made one.
    negotiated: Option<Arc<Negotiated>>,
    /// Calls on it.
    calls: Cell<usize>,
    /// Calls that it can have at a time.
    capacity: Cell<usize>,
    pub(crate) listed: Cell<Listed>,
    /// Whether calls share it, if it is of HTTP/1.
    shares: bool,
    is_http2: bool,
    /// Whether it is counted as idle.
    counted_idle: Cell<bool>,
    /// The right to be there, which ends when it is closed.
    permit: Cell<Option<Permit>>,
    /// It takes no more calls, and ends after those that it has.
    leaving: Cell<bool>,
    /// Its calls are to be ended, because the client is.
    cut: Cell<bool>,
}

/// Borrowed while the connection's task runs, which may run callers' code. That may make calls, and so start one here.
struct Core {
    session: Session,
    io: Io,
}

impl Conn {
    pub(crate) fn new(
        key: usize,
        wire: Connection,
        permit: Option<Permit>,
        pipelining: Option<Pipelining>,
        context: &Rc<LoopContext>,
    ) -> Self {
        let negotiated = wire.negotiated().cloned();
        let session = Session::new(&wire, pipelining, context);
        Self {
            key,
            context: Rc::clone(context),
            capacity: Cell::new(session.capacity(context)),
            shares: matches!(session, Session::Piped(_)),
            is_http2: matches!(session, Session::H2(_)),
            core: RefCell::new(Core { session, io: Io::new(wire, context) }),
            inbox: RefCell::default(),
            is_seen: Cell::new(false),
            waker: OnceCell::new(),
            rests: Cell::new(false),
            negotiated,
            calls: Cell::new(0),
            listed: Cell::new(Listed::Nowhere),
            counted_idle: Cell::new(false),
            permit: Cell::new(permit),
            leaving: Cell::new(false),
            cut: Cell::new(false),
        }
    }

    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// When its latest call was polled last.
    pub(crate) fn polled_at(&self) -> Instant {
        self.core.borrow().io.polled_at
    }

    /// How many more calls it can take now.
    pub(crate) fn slots(&self) -> usize {
        self.capacity.get().saturating_sub(self.calls.get())
    }

    /// Calls that the connection can have at a time, the present ones included. 0 if it takes no more.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.get()
    }

    fn set_capacity(&self, session: &Session) {
        self.capacity.set(if self.leaving.get() { 0 } else { session.capacity(&self.context) });
    }

    /// It takes no more calls.
    pub(crate) fn leave(&self) {
        self.leaving.set(true);
        self.capacity.set(0);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// Whether calls share it though it is of HTTP/1.
    pub(crate) fn shares(&self) -> bool {
        self.shares
    }

    /// Whether its peer has answered in a way that lets calls share it.
    pub(crate) fn is_proven(&self) -> bool {
        matches!(&self.core.borrow().session, Session::Piped(session) if session.is_proven())
    }

    /// Calls on it.
    pub(crate) fn calls(&self) -> usize {
        self.calls.get()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.calls.get() == 0
    }

    fn set_calls(&self, calls: usize) {
        let before = self.calls.replace(calls);
        let active = &self.context.cells.active;
        match (before, calls) {
            (0, 1..) => active.add(1),
            (1.., 0) => active.subtract(1),
            _ => {}
        }
    }

    /// Counts it among the idle ones, or not any more.
    pub(crate) fn count_idle(&self, is_idle: bool) {
        if self.counted_idle.replace(is_idle) != is_idle {
            let idle = &self.context.cells.idle;
            if is_idle { idle.add(1) } else { idle.subtract(1) }
        }
    }

    /// Whether a connection with a slot can be given a call: no end, no error and no byte is known to have come. Such
    /// a byte would be taken for the response of that call.
    pub(crate) fn is_alive(&self) -> bool {
        // A connection whose task never ran is just dialled.
        let Some(waker) = self.waker.get() else { return true };
        // The end of a busy one is for its task.
        if !self.is_idle() {
            return true;
        }
        // Nothing has come since then.
        if self.rests.get() && !waker.was_woken() {
            return true;
        }
        // With the task's own waker, so that the readiness it waits for stays its own. Its age is not looked at: the
        // timer of an idle connection ends it when its lifetime does.
        let Core { session, io } = &mut *self.core.borrow_mut();
        let is_alive = session.is_alive(&mut Context::from_waker(&waker.waker), io, &self.context);
        self.set_capacity(session);
        is_alive && self.slots() > 0
    }

    /// Puts a call on a connection that has a slot, and sends what the wire takes at once.
    pub(crate) fn start(&self, mut job: Job, host: &str) {
        // TLS with a proxy that reads the request is none with the origin.
        if self.negotiated.is_some() && job.request.relay.is_none() {
            job.negotiated.clone_from(&self.negotiated);
        }
        self.rests.set(false);
        self.set_calls(self.calls.get() + 1);
        if job.needs_own_connection && self.shares {
            self.capacity.set(1);
        }
        let core = self.core.try_borrow_mut().ok();
        let Some(mut core) = core.filter(|core| core.session.begins_at_once()) else {
            self.inbox.borrow_mut().push_back(job);
            if !self.is_seen.replace(true) {
                self.wake();
            }
            return;
        };
        let Core { session, io } = &mut *core;
        session.start(job, host, io, &self.context);
        let Some(waker) = self.waker.get() else { return };
        if !session.begin(&mut Context::from_waker(&waker.waker), io, &self.context) {
            waker.waker.wake_by_ref();
        }
    }

    /// Has its task polled.
    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.waker.wake_by_ref();
        }
    }

    /// Tells the peer of an idle connection that it ends, where the protocol has words for that.
    pub(crate) fn go_away(&self) {
        let Core { session, io } = &mut *self.core.borrow_mut();
        session.go_away(&mut Context::from_waker(Waker::noop()), io, &self.context);
    }

    /// Says what it is, for observers.
    pub(crate) fn is_connected(&self, tell: impl FnOnce(Connected<'_>)) {
        let (connection, peer) = {
            let io = &self.core.borrow().io;
            (io.id, io.wire.as_ref().map(Connection::peer))
        };
        let Some(peer) = &peer else { return };
        let (is_http2, tls) = (self.is_http2, self.negotiated.as_deref());
        tell(Connected { connection, peer, is_http2, tls });
    }

    /// Closes the wire, whatever is on it. Whether it was open.
    pub(crate) fn close(&self, origin: &str) -> bool {
        let (session, wire, connection, age, calls) = {
            let Core { session, io } = &mut *self.core.borrow_mut();
            let age = precise().saturating_duration_since(io.made);
            (mem::replace(session, Session::Closed), io.wire.take(), io.id, age, io.calls)
        };
        self.capacity.set(0);
        self.set_calls(0);
        let was_open = !matches!(session, Session::Closed);
        drop(wire);
        drop(self.permit.take());
        // Outside the borrow, and contained: a caller's body, or its error, may be dropped.
        self.inbox.take().into_iter().for_each(drop_caught);
        session.drop_calls();
        let observers = &self.context.config().observers;
        if was_open && !observers.is_empty() {
            observers.closed(&Closed { origin, connection, age, calls }, &self.context.cells);
        }
        self.wake();
        was_open
    }

    /// Ends its calls with [`Error::Shutdown`](crate::Error::Shutdown), from its own task.
    pub(crate) fn cut(&self) {
        self.cut.set(true);
        self.wake();
    }

    /// Carries its calls on. Polled by one task, which does what the event asks for, and polls again until it is pending.
    pub(crate) fn poll(&self, cx: &Context<'_>, host: &str) -> Poll<Event> {
        let is_first = self.waker.get().is_none();
        let waker = self.waker.get_or_init(|| TaskWaker::new(cx.waker()));
        waker.begin();
        self.rests.set(false);
        let cx = &mut Context::from_waker(&waker.waker);
        loop {
            self.is_seen.set(true);
            let Core { session, io } = &mut *self.core.borrow_mut();
            if is_first {
                session.set_task(cx.waker());
            }
            // One at a time: nothing is borrowed while a call starts.
            while let Some(job) = self.next(session) {
                session.start(job, host, io, &self.context);
            }
            let polled = session.poll(cx, io, &self.context, self.cut.get());
            match &polled {
                // Callers' code has made calls meanwhile.
                Poll::Pending | Poll::Ready(Event::Over(Outcome::Nothing) | Event::Evicted)
                    if self.has_next(session) =>
                {
                    continue;
                }
                Poll::Ready(Event::Over(_)) if self.has_next(session) => {
                    let Poll::Ready(Event::Over(outcome)) = polled else { continue };
                    // They were never on it, and go elsewhere with its next turn.
                    return Poll::Ready(Event::Open(outcome));
                }
                // The calls of one that is over end when it is closed.
                Poll::Ready(Event::Over(_) | Event::Evicted) => return polled,
                Poll::Pending => {
                    self.is_seen.set(false);
                    self.rests.set(session.calls() == 0);
                }
                Poll::Ready(Event::Open(_)) => {}
            }
            self.set_calls(session.calls() + self.inbox.borrow().len());
            self.set_capacity(session);
            return polled;
        }
    }

    /// Whether a call waits that can start.
    fn has_next(&self, session: &Session) -> bool {
        self.inbox.borrow().front().is_some_and(|job| session.may_start(job))
    }

    fn next(&self, session: &Session) -> Option<Job> {
        if self.has_next(session) { self.inbox.borrow_mut().pop_front() } else { None }
    }
}

/// Wakes the task of a connection, and knows whether anything has woken it since it was last polled: if not, an idle connection is as it
/// was, which saves each call a look at it.
struct TaskWaker {
    waker: Waker,
    shared: Arc<Woken>,
}

struct Woken {
    task: Waker,
    was_woken: AtomicBool,
}

impl TaskWaker {
    /// One task polls a connection, with one waker.
    fn new(task: &Waker) -> Self {
        let shared = Arc::new(Woken { task: task.clone(), was_woken: AtomicBool::new(true) });
        Self { waker: Arc::clone(&shared).into(), shared }
    }

    /// The task is being polled.
    fn begin(&self) {
        self.shared.was_woken.store(false, Ordering::Relaxed);
    }

    fn was_woken(&self) -> bool {
        self.shared.was_woken.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.was_woken.store(true, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::Conn;

    #[test]
    fn an_idle_connection_is_small() {
        // With the task, the registration and the transport, some 570 bytes more, below 1 KiB.
        assert!(size_of::<Conn>() <= 440, "{}", size_of::<Conn>());
    }
}
