//! A pooled connection: it owns the wire, and says what happened on it to the pool's task that polls it.
//!
//! It is *idle*, *busy* with as many calls as its protocol allows, or *closed*. An idle connection has no buffer and
//! is registered for reading: the peer's FIN, its RST or unexpected bytes end it at once.
//!
//! HTTP/1: a call on an idle connection is encoded and written in the poll of its caller, with the waker of the
//! connection's task. So this task runs for the first time when the response is there.
//!
//! HTTP/2: calls go into an inbox, which the connection's task takes with its next turn, so that the requests of many
//! callers leave in one write. A caller's body may make a call while that task polls it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use anywire_loops::clock::{self, precise};
use anywire_loops::deadline::Deadline;
use anywire_wire::{Connection, Negotiated};

use crate::budget::poll_truly;
use crate::context::LoopContext;
use crate::job::{Event, Job, drop_caught};
use crate::tunnel::Tunnel;
use crate::{h1, h2};

/// A connection of a pool.
pub(crate) struct Conn {
    key: usize,
    context: Rc<LoopContext>,
    core: RefCell<Core>,
    /// The waker of the connection's task, once it ran.
    waker: OnceCell<Waker>,
    /// The result of its handshake, if it has made one.
    negotiated: Option<Arc<Negotiated>>,
    /// Calls on it.
    calls: Cell<usize>,
    /// None for HTTP/1.
    inbox: Option<Inbox>,
    /// Whether it is among those that the pool finds a slot on.
    pub(crate) listed: Cell<bool>,
    /// Whether it is counted as idle.
    counted_idle: Cell<bool>,
    /// Its calls are to be ended, because the client is.
    cut: Cell<bool>,
    /// When its task was last polled: the end of the latest call.
    polled_at: Cell<Instant>,
}

/// The way of calls to an HTTP/2 connection.
#[derive(Default)]
struct Inbox {
    jobs: RefCell<VecDeque<Job>>,
    /// How many more there may be.
    room: Cell<usize>,
    /// Calls that the connection can have at a time.
    capacity: Cell<usize>,
    /// The task will look at it without being woken.
    is_seen: Cell<bool>,
}

impl Inbox {
    /// Whether there is a call that can start. One that asks for another protocol waits until the server has said whether it
    /// takes an extended CONNECT (RFC 8441 section 3).
    fn has_next(&self, is_greeted: bool) -> bool {
        self.jobs.borrow().front().is_some_and(|job| is_greeted || !job.request.upgrade)
    }

    fn next(&self, is_greeted: bool) -> Option<Job> {
        if self.has_next(is_greeted) { self.jobs.borrow_mut().pop_front() } else { None }
    }
}

struct Core {
    /// None once it is closed, or left HTTP.
    wire: Option<Connection>,
    session: Session,
    /// Owns the wire of a connection that has left HTTP for another protocol.
    tunnel: Option<Tunnel>,
    /// Holds what the connection waits for: the peer while busy, the next call while idle.
    timer: Deadline,
    /// The end of its lifetime.
    until: Instant,
}

/// The protocol that the connection speaks. Chosen once, when the connection is made; another one is another variant.
#[expect(clippy::large_enum_variant, reason = "one a connection, which is boxed as a whole")]
enum Session {
    H1(h1::Session),
    H2(Box<h2::Session>),
}

impl Conn {
    pub(crate) fn new(key: usize, wire: Connection, context: &Rc<LoopContext>) -> Self {
        let config = context.config();
        let (timer, now) = (Deadline::new(), precise());
        timer.set_from(now, config.timeouts.idle.min(config.timeouts.lifetime));
        let (session, inbox) = if config.speaks_http2(&wire) {
            let session = h2::Session::new(context);
            let inbox = Inbox::default();
            inbox.room.set(session.slots(context));
            (Session::H2(Box::new(session)), Some(inbox))
        } else {
            (Session::H1(h1::Session::new(config.limits.head.into())), None)
        };
        let negotiated = wire.negotiated().cloned();
        let core = Core {
            wire: Some(wire),
            session,
            tunnel: None,
            timer,
            until: clock::after(now, jittered(config.timeouts.lifetime)),
        };
        Self {
            key,
            context: Rc::clone(context),
            core: RefCell::new(core),
            waker: OnceCell::new(),
            negotiated,
            calls: Cell::new(0),
            inbox,
            listed: Cell::new(false),
            counted_idle: Cell::new(false),
            cut: Cell::new(false),
            polled_at: Cell::new(now),
        }
    }

    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// When its task was last polled.
    pub(crate) fn polled_at(&self) -> Instant {
        self.polled_at.get()
    }

    /// How many more calls it can take now.
    pub(crate) fn slots(&self) -> usize {
        if let Some(inbox) = &self.inbox {
            return inbox.room.get();
        }
        let core = self.core.borrow();
        match &core.session {
            Session::H1(session) if core.wire.is_some() => session.slots(),
            _ => 0,
        }
    }

    /// Calls that an HTTP/2 connection can have at a time, once it has had one.
    pub(crate) fn capacity(&self) -> Option<usize> {
        self.inbox.as_ref().map(|inbox| inbox.capacity.get()).filter(|&capacity| capacity > 0)
    }

    /// Calls on it.
    pub(crate) fn calls(&self) -> usize {
        self.calls.get()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.calls.get() == 0
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
        // With the task's own waker, so that the readiness it waits for stays its own. Its age is not looked at: the
        // timer of an idle connection ends it when its lifetime does.
        let cx = &mut Context::from_waker(waker);
        let Some(inbox) = &self.inbox else {
            let mut core = self.core.borrow_mut();
            return poll_truly(cx, |cx| core.poll_broken(cx)).is_pending();
        };
        // The end of a busy one is for its task.
        if !self.is_idle() {
            return true;
        }
        let core = &mut *self.core.borrow_mut();
        let (Session::H2(session), Some(wire)) = (&mut core.session, core.wire.as_mut()) else {
            return false;
        };
        let is_alive = session.is_alive(cx, wire, &self.context);
        inbox.room.set(session.slots(&self.context));
        is_alive && inbox.room.get() > 0
    }

    /// Puts a call on a connection that has a slot, and sends what the wire takes at once.
    pub(crate) fn start(&self, mut job: Job, host: &str) {
        // TLS with a proxy that reads the request is none with the origin.
        if self.negotiated.is_some() && job.request.relay.is_none() {
            job.negotiated.clone_from(&self.negotiated);
        }
        self.calls.update(|calls| calls + 1);
        if self.calls.get() == 1 {
            self.context.cells.active.add(1);
        }
        if let Some(inbox) = &self.inbox {
            inbox.room.update(|room| room.saturating_sub(1));
            inbox.jobs.borrow_mut().push_back(job);
            if !inbox.is_seen.replace(true)
                && let Some(waker) = self.waker.get()
            {
                waker.wake_by_ref();
            }
            return;
        }
        let core = &mut *self.core.borrow_mut();
        let Session::H1(session) = &mut core.session else { return };
        job.trace().zip(core.wire.as_ref()).inspect(|(trace, wire)| trace.acquired(wire, false));
        session.start(job, host, &self.context);
        let (Some(waker), Some(wire)) = (self.waker.get(), core.wire.as_mut()) else { return };
        if !session.begin(&mut Context::from_waker(waker), wire, &core.timer, &self.context) {
            waker.wake_by_ref();
        }
    }

    /// A call is over.
    fn end_call(&self) {
        self.calls.update(|calls| calls - 1);
        if self.calls.get() == 0 {
            self.context.cells.active.subtract(1);
        }
    }

    /// Tells the peer of an idle connection that it ends, where the protocol has words for that.
    pub(crate) fn go_away(&self) {
        let core = &mut *self.core.borrow_mut();
        if let (Session::H2(session), Some(wire)) = (&mut core.session, core.wire.as_mut()) {
            session.go_away(&mut Context::from_waker(Waker::noop()), wire);
        }
    }

    /// Closes the wire, whatever is on it. Whether it was open.
    pub(crate) fn close(&self) -> bool {
        let (wire, tunnel, calls) = {
            let mut core = self.core.borrow_mut();
            let calls = match &mut core.session {
                Session::H1(session) => (session.take(), None),
                Session::H2(session) => (None, Some(session.take())),
            };
            (core.wire.take(), core.tunnel.take(), calls)
        };
        let waiting = self.inbox.as_ref().map(|inbox| {
            inbox.room.set(0);
            inbox.jobs.take()
        });
        if self.calls.take() > 0 {
            self.context.cells.active.subtract(1);
        }
        let was_open = wire.is_some() || tunnel.is_some();
        drop((wire, tunnel, waiting));
        // Outside the borrow, and contained: a caller's body, or its error, may be dropped.
        let (of_http1, of_http2) = calls;
        of_http1.into_iter().for_each(drop_caught);
        of_http2.into_iter().flatten().for_each(drop_caught);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
        was_open
    }

    /// Ends its calls with [`Error::Shutdown`](crate::Error::Shutdown), from its own task.
    pub(crate) fn cut(&self) {
        self.cut.set(true);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Carries its calls on. Polled by one task, which does what the event asks for, and polls again until it is pending.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, host: &str) -> Poll<Event> {
        let is_first = self.waker.get().is_none();
        self.waker.get_or_init(|| cx.waker().clone());
        if let Some(inbox) = &self.inbox {
            return self.poll_http2(cx, inbox, is_first, host);
        }
        let outcome = {
            let core = &mut *self.core.borrow_mut();
            if let Some(tunnel) = core.tunnel.as_mut().filter(|_| !self.cut.get()) {
                return tunnel.as_mut().poll(cx).map(|()| Event::Closed);
            }
            let Some(wire) = core.wire.as_mut() else { return Poll::Ready(Event::Closed) };
            let Session::H1(session) = &mut core.session else { return Poll::Ready(Event::Closed) };
            if self.is_idle() {
                if core.timer.poll_expired(cx).is_ready() {
                    self.context.count_end(core.until);
                    return Poll::Ready(Event::Closed);
                }
                return core.poll_broken(cx).map(|()| Event::Evicted);
            }
            ready!(session.poll(cx, wire, &core.timer, &self.context, self.cut.get()))
        };
        Poll::Ready(match outcome {
            h1::Outcome::Complete { reuse } => self.complete(reuse),
            h1::Outcome::Upgrade => self.upgrade(),
            h1::Outcome::Over(delivery) => Event::Over(delivery),
            h1::Outcome::Resend => self.take().map_or(Event::Closed, |it| Event::Resend(it.into_job())),
        })
    }

    fn poll_http2(&self, cx: &mut Context<'_>, inbox: &Inbox, is_first: bool, host: &str) -> Poll<Event> {
        loop {
            inbox.is_seen.set(true);
            let (polled, is_left_over) = {
                let core = &mut *self.core.borrow_mut();
                let (Session::H2(session), Some(wire)) = (&mut core.session, core.wire.as_mut()) else {
                    return Poll::Ready(Event::Closed);
                };
                if is_first {
                    session.set_task(cx.waker());
                }
                // One at a time: nothing is borrowed while a call starts.
                while let Some(job) = { inbox.next(session.is_greeted()) } {
                    job.trace().inspect(|trace| trace.acquired(wire, true));
                    session.start(job, host, &self.context);
                }
                if self.cut.get() {
                    session.cut(&self.context);
                }
                let polled = session.poll(cx, wire, &core.timer, &self.context, core.until);
                self.polled_at.set(session.polled_at());
                let waiting = inbox.jobs.borrow().len();
                inbox.room.set(session.slots(&self.context).saturating_sub(waiting));
                inbox.capacity.set(session.capacity(&self.context));
                (polled, inbox.has_next(session.is_greeted()))
            };
            match &polled {
                Poll::Pending | Poll::Ready(Event::Closed | Event::Evicted) if is_left_over => continue,
                Poll::Pending => inbox.is_seen.set(false),
                Poll::Ready(Event::SlotFree(_) | Event::Again(_)) => self.end_call(),
                Poll::Ready(_) => {}
            }
            return polled;
        }
    }

    /// A response is complete, and the connection may be idle for `reuse`.
    fn complete(&self, reuse: Option<Duration>) -> Event {
        let Some(exchange) = self.take() else { return Event::Closed };
        let now = exchange.polled_at();
        self.polled_at.set(now);
        let delivery = exchange.into_delivery(&self.context);
        let core = self.core.borrow();
        let rest = core.until.saturating_duration_since(now);
        match reuse {
            None => Event::Over(delivery),
            Some(_) if rest.is_zero() => {
                self.context.count_end(core.until);
                Event::Over(delivery)
            }
            Some(idle) => {
                core.timer.set_from(now, idle.min(rest));
                self.end_call();
                Event::SlotFree(delivery)
            }
        }
    }

    /// The connection leaves HTTP, and stays one of the pool's with a call on it.
    fn upgrade(&self) -> Event {
        let wire = self.core.borrow_mut().wire.take();
        let Some((wire, exchange)) = wire.zip(self.take()) else { return Event::Closed };
        let (delivery, tunnel) = exchange.into_upgrade(wire, &self.context);
        let mut core = self.core.borrow_mut();
        core.timer.clear();
        core.tunnel = Some(tunnel);
        Event::Upgraded(delivery)
    }

    fn take(&self) -> Option<h1::Exchange> {
        match &mut self.core.borrow_mut().session {
            Session::H1(session) => session.take(),
            Session::H2(_) => None,
        }
    }
}

impl Core {
    /// Ready if the peer closed an idle connection, or sent bytes that no request asked for.
    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wire) = self.wire.as_mut() else { return Poll::Ready(()) };
        if ready!(wire.poll_readable(cx)).is_err() {
            return Poll::Ready(());
        }
        // The readiness may date from before the last read. Only a read tells, and one byte is enough.
        wire.poll_read(cx, &mut [0]).map(|_| ())
    }
}

/// `lifetime` give or take 10 %, so that connections which were made together do not all end together.
fn jittered(lifetime: Duration) -> Duration {
    let thousandth = (random() * 200.0) as u32;
    lifetime.saturating_mul(900 + thousandth) / 1000
}

/// A number from 0 to below 1.
pub(crate) fn random() -> f64 {
    // Keys of a hasher are the standard library's randomness, and good enough for this.
    (RandomState::new().hash_one(()) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn lifetimes_differ_by_a_tenth_at_most() {
        let lifetimes: HashSet<_> = (0..100).map(|_| jittered(Duration::from_secs(600))).collect();
        assert!(lifetimes.iter().all(|lifetime| (540..=660).contains(&lifetime.as_secs())), "{lifetimes:?}");
        // Of 100 draws from 200 values some 79 differ.
        assert!(lifetimes.len() > 20, "{} different ones", lifetimes.len());
    }
}
