//! A pooled connection: one task on one loop, which owns the wire and lives as long as it.
//!
//! It is in one of three states. *Idle*: armed for reading and without a buffer, so that the peer's FIN, its RST or
//! bytes that nobody asked for end it at once. *Busy*: it carries one [`Exchange`]. *Over*: the wire is closed.
//!
//! A call that is put on an idle connection is encoded and written in the poll of its caller, with the connection's
//! own waker, so that the connection's task runs for the first time when the answer is there.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use anywire_http::h1::ResponseDecoder;
use anywire_loops::clock;
use anywire_loops::deadline::Deadline;
use anywire_wire::Connection;

use crate::Error;
use crate::budget::poll_truly;
use crate::exchange::Exchange;
use crate::job::Pending;
use crate::outcome::Outcome;
use crate::pool::Pool;

/// A connection of a pool.
pub(crate) struct Conn {
    key: usize,
    pool: Rc<Pool>,
    core: RefCell<Core>,
    /// That of the connection's task, once it ran.
    waker: OnceCell<Waker>,
    /// Its call is to be ended, because the client is.
    cut: Cell<bool>,
}

struct Core {
    /// None once it is over.
    wire: Option<Connection>,
    exchange: Option<Exchange>,
    decoder: ResponseDecoder,
    /// Holds whatever the connection waits for: the peer while busy, the next call while idle.
    timer: Deadline,
    /// Whether it has carried a call to its end.
    used: bool,
    /// The end of its lifetime.
    until: Instant,
}

impl Conn {
    pub(crate) fn new(key: usize, wire: Connection, pool: &Rc<Pool>) -> Self {
        let config = pool.shared().config();
        let core = Core {
            wire: Some(wire),
            exchange: None,
            decoder: ResponseDecoder::new(config.limits.answer.into()),
            timer: Deadline::new(),
            used: false,
            until: clock::now() + jittered(config.timeouts.lifetime),
        };
        core.timer.set(config.timeouts.idle.min(config.timeouts.lifetime));
        Self {
            key,
            pool: Rc::clone(pool),
            core: RefCell::new(core),
            waker: OnceCell::new(),
            cut: Cell::new(false),
        }
    }

    pub(crate) fn key(&self) -> usize {
        self.key
    }

    /// The task.
    pub(crate) fn drive(conn: Rc<Self>) -> Drive {
        Drive { conn }
    }

    /// Whether an idle connection can be given a call: no end, no error and no byte is known to have come.
    pub(crate) fn is_alive(&self) -> bool {
        // A connection whose task never ran is just dialled.
        let Some(waker) = self.waker.get() else { return true };
        // With the task's own waker, so that the readiness it waits for stays its own. Its age is not looked at: the
        // timer of an idle connection ends it when its lifetime does.
        let mut core = self.core.borrow_mut();
        poll_truly(&mut Context::from_waker(waker), |cx| core.poll_broken(cx)).is_pending()
    }

    /// Puts a call on an idle connection, and sends what the wire takes at once.
    pub(crate) fn start(&self, pending: Pending) {
        let core = &mut *self.core.borrow_mut();
        let exchange = core.exchange.insert(Exchange::new(pending, &self.pool, core.used));
        if core.used {
            self.pool.shared().cells.reused.add(1);
        }
        let (Some(waker), Some(wire)) = (self.waker.get(), core.wire.as_mut()) else { return };
        if exchange.streams() {
            // A caller's body is polled by the connection's task only, which is what ends if it panics.
            waker.wake_by_ref();
            return;
        }
        core.decoder.request_method(exchange.method());
        if !exchange.begin(&mut Context::from_waker(waker), wire, &core.timer) {
            waker.wake_by_ref();
        }
    }

    /// Closes the wire, whatever state it is in, and gives back the call that is on it.
    pub(crate) fn end(&self) -> Option<Exchange> {
        let (wire, exchange) = {
            let mut core = self.core.borrow_mut();
            (core.wire.take(), core.exchange.take())
        };
        drop(wire?);
        self.pool.forget(self, exchange.is_some());
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
        exchange
    }

    /// Closes an idle connection that the peer closed, or broke.
    pub(crate) fn evict(&self) {
        drop(self.end());
        // Counted last, so that whoever sees the count finds the connection gone.
        self.pool.shared().cells.evicted.add(1);
    }

    /// Ends its call with [`Error::Closed`], from its own task.
    pub(crate) fn cut(&self) {
        self.cut.set(true);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    fn poll(self: &Rc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.waker.get().is_none() {
            // Never set before, as just seen.
            let _ = self.waker.set(cx.waker().clone());
        }
        loop {
            let outcome = match ready!(self.poll_state(cx)) {
                After::Call(outcome) => outcome,
                After::Eviction => {
                    self.evict();
                    return Poll::Ready(());
                }
                After::Over => return Poll::Ready(()),
                After::Idled => {
                    let cells = &self.pool.shared().cells;
                    let ended_by =
                        if self.is_young() { &cells.idle_timeouts } else { &cells.lifetimes_ended };
                    ended_by.add(1);
                    return Poll::Ready(());
                }
            };
            match outcome {
                Outcome::Done { reuse: Some(idle), last } if self.is_young() => {
                    if !self.is_quiet(cx) {
                        self.evict();
                        last.deliver();
                        return Poll::Ready(());
                    }
                    self.go_on(idle, cx);
                    last.deliver();
                }
                Outcome::Done { reuse, last } => {
                    if reuse.is_some() {
                        self.pool.shared().cells.lifetimes_ended.add(1);
                    }
                    drop(self.end());
                    last.deliver();
                    return Poll::Ready(());
                }
                Outcome::Resend => {
                    // First the place, then the call that needs one.
                    if let Some(pending) = self.end().and_then(Exchange::into_pending) {
                        self.pool.resubmit(pending);
                    }
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Runs the state it is in to its end.
    fn poll_state(&self, cx: &mut Context<'_>) -> Poll<After> {
        let core = &mut *self.core.borrow_mut();
        let Some(wire) = core.wire.as_mut() else { return Poll::Ready(After::Over) };
        let Some(exchange) = core.exchange.as_mut() else {
            if self.pool.is_retired() {
                return Poll::Ready(After::Over);
            }
            if core.timer.poll_expired(cx).is_ready() {
                return Poll::Ready(After::Idled);
            }
            return core.poll_broken(cx).map(|()| After::Eviction);
        };
        if !exchange.has_begun() {
            core.decoder.request_method(exchange.method());
            exchange.begin(cx, wire, &core.timer);
        }
        if self.cut.get() {
            let sent = exchange.was_sent();
            return Poll::Ready(After::Call(exchange.fail(Error::Closed { sent })));
        }
        let cells = &self.pool.shared().cells;
        exchange.poll(cx, wire, &mut core.decoder, &core.timer, cells).map(After::Call)
    }

    /// Takes the oldest waiting call, or turns idle.
    fn go_on(self: &Rc<Self>, idle: Duration, cx: &mut Context<'_>) {
        let exchange = {
            let mut core = self.core.borrow_mut();
            core.used = true;
            core.timer.set(idle.min(core.until.saturating_duration_since(clock::now())));
            core.exchange.take()
        };
        if let Some(exchange) = exchange {
            exchange.recycle(self.pool.shared());
        }
        let Some(pending) = self.pool.next_call(self) else { return };
        let core = &mut *self.core.borrow_mut();
        let Some(wire) = core.wire.as_mut() else { return };
        let exchange = core.exchange.insert(Exchange::new(pending, &self.pool, true));
        core.decoder.request_method(exchange.method());
        exchange.begin(cx, wire, &core.timer);
    }

    /// Whether the connection may take a waiting call: no byte came behind the last answer. Such bytes would be taken
    /// for the answer of that call. If no call waits, the connection turns idle, and an idle one reads all the time.
    fn is_quiet(&self, cx: &mut Context<'_>) -> bool {
        if !self.pool.has_waiters() {
            return true;
        }
        let mut core = self.core.borrow_mut();
        poll_truly(cx, |cx| core.poll_broken(cx)).is_pending()
    }

    fn is_young(&self) -> bool {
        clock::now() < self.core.borrow().until
    }
}

/// What ended a state of a connection.
enum After {
    Call(Outcome),
    /// The peer closed it while it was idle, or broke the peace.
    Eviction,
    /// Idle for too long, or too old.
    Idled,
    /// Closed already, or its client is over.
    Over,
}

impl Core {
    /// Ready if the peer closed an idle connection, or sent what nobody asked for.
    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wire) = self.wire.as_mut() else { return Poll::Ready(()) };
        if ready!(wire.poll_readable(cx)).is_err() {
            return Poll::Ready(());
        }
        // What is ready may be a leftover of the last answer's read. Only a read tells, and one byte is enough.
        wire.poll_read(cx, &mut [0]).map(|_| ())
    }
}

/// The future of a connection's task. However it ends, the pool is told.
pub(crate) struct Drive {
    conn: Rc<Conn>,
}

impl Future for Drive {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.conn.poll(cx)
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        drop(self.conn.end());
    }
}

/// `lifetime` give or take 10 %, so that connections which were made together do not all end together.
fn jittered(lifetime: Duration) -> Duration {
    // Keys of a hasher are the standard library's randomness, and good enough for this.
    let thousandth = (RandomState::new().hash_one(()) % 200) as u32;
    lifetime * (900 + thousandth) / 1000
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
