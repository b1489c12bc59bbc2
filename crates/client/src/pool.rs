//! A child pool: the connections of one loop to one origin, and the calls that wait for one.
//!
//! Connections with a free slot are used last in, first out, so that a small load keeps few of them warm. Waiting calls
//! are served first in, first out. The first of them, as many as there are dials under way, are allowed to dial and are
//! held by the connect deadline; those behind them by the acquire deadline. A connection that comes free or is newly
//! dialled goes to the oldest call, whichever dial was started for it.

mod ahead;
mod balanced;
mod counted;
mod lending;
mod shared;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use anywire_loops::TaskError;
use anywire_loops::clock::{self, precise};
use anywire_wire::{Address, Connection, DialLog};
use slab::Slab;

use crate::Error;
use crate::balancer::Member;
use crate::chain::Budget;
use crate::connection::Conn;
use crate::connector::{ConnectError, Route, Way};
use crate::context::LoopContext;
use crate::inner::Versions;
use crate::job::{Event, Job, Outcome};
use crate::learnt::{Learnt, learns};
use crate::pipeline::Pipelining;
use crate::queue::Queue;
use crate::quota::{Permit, Quota};
use crate::request::CallRequest;

/// The connections of one loop to one origin by one route.
pub(crate) struct Pool {
    origin: Box<str>,
    /// The value of the `host` field of every request (RFC 9112 section 3.2).
    host: Box<str>,
    route: Route,
    context: Rc<LoopContext>,
    connections: RefCell<Connections>,
    waiting: Queue,
    /// Shared with the pools of other loops to the same place.
    quota: Arc<Quota>,
    /// It has asked for a connection in vain.
    wants: Cell<bool>,
    /// Dials under way.
    dialing: Cell<usize>,
    /// Calls that a new connection is likely to take. None: that depends on its protocol, which is not known yet.
    calls_per_connection: Cell<Option<usize>>,
    /// What the handshake agrees on is told to the client's other loops.
    teaches: bool,
    /// Whether calls share connections of HTTP/1.
    pipelining: Option<Pipelining>,
    /// Set if its address is one of several.
    member: OnceCell<Rc<Member>>,
    retired: Cell<bool>,
    last_used: Cell<Instant>,
    budget: Budget,
}

#[derive(Default)]
struct Connections {
    all: Slab<Rc<Conn>>,
    /// Those with a free slot, the one used last at the end.
    free: Vec<Rc<Conn>>,
    /// Busy ones of HTTP/1 that calls share, with a free slot.
    shared: Vec<Rc<Conn>>,
}

impl Connections {
    /// Takes a connection out of the list that it is in.
    fn unlist(&mut self, conn: &Conn) {
        let list = if conn.is_among_shared.take() { &mut self.shared } else { &mut self.free };
        if let Some(at) = list.iter().position(|other| std::ptr::eq(&**other, conn)) {
            list.remove(at);
        }
    }
}

impl Pool {
    /// The pool of the calls that go this way.
    pub(crate) fn new(way: Way<'_>, context: &Rc<LoopContext>) -> Result<Self, Error> {
        let context = &context.of_origin(way.url.origin());
        let config = context.config();
        let route = Route::of(way, config)?;
        let teaches = learns(way.url, way.via, config);
        let pipelining = config.pipelines.of(way.url.origin())?;
        let of_http1 = pipelining.map_or(1, |pipelining| pipelining.depth);
        let calls_per_connection = match config.versions {
            // Clear text agrees on nothing.
            Versions::Negotiated if teaches => match context.inner().learnt().version_of(way.url.origin()) {
                Some(Learnt::Http1) => Some(of_http1),
                Some(Learnt::Http2) => Some(config.limits.http2.streams),
                None => None,
            },
            Versions::Negotiated if route.agrees_on_version() => None,
            Versions::Negotiated | Versions::Http1 => Some(of_http1),
            Versions::Http2 => Some(config.limits.http2.streams),
        };
        Ok(Self {
            origin: way.url.origin().into(),
            host: way.url.authority().into(),
            quota: context.quota_of(route.place(way.url.origin())),
            wants: Cell::new(false),
            route,
            context: Rc::clone(context),
            connections: RefCell::default(),
            waiting: Queue::new(context),
            dialing: Cell::new(0),
            calls_per_connection: Cell::new(calls_per_connection),
            teaches,
            pipelining,
            member: OnceCell::new(),
            retired: Cell::new(false),
            last_used: Cell::new(precise()),
            budget: Budget::default(),
        })
    }

    pub(crate) fn serves(&self, request: &CallRequest) -> bool {
        self.is_at(Way::of(request))
    }

    pub(crate) fn is_at(&self, way: Way<'_>) -> bool {
        *self.origin == *way.url.origin() && self.route.serves(way)
    }

    pub(crate) fn address(&self) -> &Address {
        self.route.address()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.get()
    }

    pub(crate) fn last_used(&self) -> Instant {
        self.last_used.get()
    }

    /// When it will have been without calls for too long.
    pub(crate) fn unused_until(&self) -> Instant {
        clock::after(self.last_used.get(), self.context.config().timeouts.pool_unused)
    }

    /// Whether no call is in it.
    pub(crate) fn is_unused(&self) -> bool {
        let idle = || self.connections.borrow().all.iter().all(|(_, conn)| conn.is_idle());
        self.waiting.len() == 0 && self.dialing.get() == 0 && idle()
    }

    /// Takes a call: onto a connection with a slot, else into the queue.
    pub(crate) fn submit(self: &Rc<Self>, mut job: Job) {
        let relay = self.route.relay();
        // A redirect may have led here from a pool whose requests a proxy reads.
        if relay.is_some() || job.request.relay.is_some() {
            job.request.relay = relay.cloned();
        }
        job.is_alone = self.pipelining.is_some() && job.request.is_alone();
        self.budget.count();
        if let Some(error) = job.request.retry_of.take() {
            let percent = self.context.config().retries_of(&job.request).budget_percent;
            if !self.budget.allows(percent, job.at) {
                self.context.cells.retries_refused.add(1);
                return job.give_up(*error);
            }
            self.context.cells.retried.add(1);
        }
        let Some(job) = self.place(job) else { return };
        if self.is_full() {
            self.waiting.purge();
        }
        if self.is_full() {
            return self.refuse(job);
        }
        let overdue = job.acquire_until.min(job.total_until);
        self.waiting.push(job);
        self.wait_until(overdue);
        // Another loop may have taken the place that it was to have.
        if self.is_overfull()
            && let Some(job) = self.waiting.pop_last()
        {
            self.refuse(job);
            self.want_no_more();
        }
    }

    fn refuse(&self, job: Job) {
        self.context.cells.queue_full.add(1);
        let limits = &self.context.config().limits;
        let (connections, queue) = (limits.connections_per_origin, limits.queue_per_origin);
        job.fail(Error::QueueFull { origin: self.origin.to_string(), connections, queue });
    }

    /// Puts a call on a connection with a slot; gives it back if there is none, or it needs a fresh one.
    #[inline]
    fn place(&self, job: Job) -> Option<Job> {
        if job.resent {
            return Some(job);
        }
        while let Some(conn) = self.pop_for(&job) {
            if conn.slots() == 0 {
                // It has come to take no more calls. Its task ends it.
                continue;
            }
            if conn.is_alive() {
                self.start(&conn, job);
                return None;
            }
            self.evict(&conn);
        }
        Some(job)
    }

    /// Takes a call that has not been processed. It goes first. If its reused connection turned out dead, it goes out on
    /// a fresh connection only.
    fn resubmit(self: &Rc<Self>, mut job: Job) {
        // It had its connection in time. From here it asks for another one.
        job.at = precise();
        job.acquire_until = clock::after(job.at, self.context.config().timeouts.acquire);
        let overdue = job.acquire_until.min(job.total_until);
        self.context.cells.resent.add(1);
        job.trace().inspect(|trace| trace.attempt(&job.request, job.at));
        let Some(job) = self.place(job) else { return };
        self.waiting.push_first(job);
        self.wait_until(overdue);
    }

    fn wait_until(self: &Rc<Self>, overdue: Instant) {
        self.context.sweep_by(overdue);
        self.dial_for_waiters();
    }

    /// Waiting calls that have a connection once `dials` have succeeded.
    fn served_by(&self, dials: usize) -> usize {
        match self.calls_per_connection.get() {
            Some(calls) => dials.saturating_mul(calls),
            None if dials == 0 => 0,
            None => usize::MAX,
        }
    }

    /// Starts dials until there are enough for all waiters, or a cap is reached.
    fn dial_for_waiters(self: &Rc<Self>) {
        loop {
            let dialing = self.dialing.get();
            if self.served_by(dialing) >= self.waiting_weight() {
                return self.want_no_more();
            }
            if dialing >= self.context.dials {
                return;
            }
            let Some(permit) = self.permit() else { return };
            if anywire_loops::spawn(self.dial(permit).run()).is_finished() {
                // A loop that ends drops its new tasks, so no dial will ever end.
                self.waiting.fail(|sent| Error::Loop { source: TaskError::Stopped, sent });
                return;
            }
        }
    }

    fn dial(self: &Rc<Self>, permit: Permit) -> Dial {
        self.dialing.update(|dialing| dialing + 1);
        Dial { pool: Rc::clone(self), permit: Some(permit) }
    }

    fn dialed(
        self: &Rc<Self>,
        dialed: Result<Connection, ConnectError>,
        log: &DialLog,
        permit: Option<Permit>,
    ) {
        let cells = &self.context.cells;
        match dialed {
            Ok(connection) => {
                cells.dialed.add(1);
                self.adopt(connection, log, permit);
                // It may have been asked for while there was the dial alone.
                self.return_owed();
            }
            Err(source) => {
                drop(permit);
                cells.dial_failures.add(1);
                if source.is_handshake() {
                    cells.handshake_failures.add(1);
                }
                if source.is_resolve() {
                    cells.resolve_failures.add(1);
                }
                if let ConnectError::Proxy(_) = source {
                    cells.proxy_failures.add(1);
                }
                if self.teaches {
                    self.context.inner().learnt().forget(&self.origin);
                }
                let is_out = self.member.get().is_some_and(|member| self.count_failure(member));
                let job = self.waiting.pop(true).and_then(|job| self.move_on(job.dialed(log), is_out));
                if let Some(job) = job {
                    if let Some(phase) = source.overdue() {
                        cells.count_timeout(phase);
                    }
                    let sent = job.sent;
                    job.fail(source.into_error(self.origin.to_string(), sent));
                }
                // Of the calls that would have shared the connection only one knows why. The others try on their own.
                self.calls_per_connection.set(Some(1));
            }
        }
        self.dial_for_waiters();
        if self.retired.get() {
            self.context.kick();
        }
    }

    fn adopt(self: &Rc<Self>, connection: Connection, log: &DialLog, permit: Option<Permit>) {
        if self.teaches {
            let is_http2 = self.context.config().speaks_http2(&connection);
            let learnt = if is_http2 { Learnt::Http2 } else { Learnt::Http1 };
            self.context.inner().learnt().learn(&self.origin, learnt);
        }
        let conn = {
            let mut connections = self.connections.borrow_mut();
            let entry = connections.all.vacant_entry();
            let conn = Rc::new(Conn::new(entry.key(), connection, permit, self.pipelining, &self.context));
            entry.insert(Rc::clone(&conn));
            conn
        };
        // Not more than others turned out to take, which this one has yet to say.
        let room = conn.slots().min(self.calls_per_connection.get().unwrap_or(usize::MAX));
        let of_next = self.pipelining.filter(|_| conn.shares()).map_or(room, |pipelining| pipelining.depth);
        self.calls_per_connection.set(Some(of_next));
        while conn.calls() < room
            && let Some(job) = self.next_for(&conn, true)
        {
            conn.start(job.dialed(log), &self.host);
        }
        // It was dialled for calls that have gone elsewhere.
        if self.ends_if_idle(&conn).is_break() {
            self.close(&conn);
            return;
        }
        self.push_free(&conn);
        drop(anywire_loops::spawn(Drive { pool: Rc::clone(self), conn }));
    }

    fn start(&self, conn: &Rc<Conn>, job: Job) {
        conn.start(job, &self.host);
        self.push_free(conn);
    }

    /// A call is over: its slot goes to the oldest waiting call. `Break` if the connection is over instead.
    fn refill(&self, conn: &Rc<Conn>) -> ControlFlow<()> {
        self.last_used.set(conn.polled_at());
        self.learn_capacity(conn);
        // Without a waiting call the connection turns idle, and an idle one is registered for reading anyway.
        if self.waiting.len() > 0 && conn.slots() > 0 {
            if !conn.is_alive() {
                self.evict(conn);
                return ControlFlow::Break(());
            }
            while conn.slots() > 0
                && let Some(job) = self.next_for(conn, false)
            {
                conn.start(job, &self.host);
            }
        }
        self.want_no_more();
        self.ends_if_idle(conn)?;
        self.push_free(conn);
        ControlFlow::Continue(())
    }

    /// Tells the caller of a call that has ended, or sends it once more.
    #[inline]
    fn deliver(self: &Rc<Self>, outcome: Outcome) {
        if let Some(job) = outcome.deliver() {
            self.resubmit(job);
        }
    }

    /// Lists a connection if it has a slot, and counts it if it is idle.
    fn push_free(&self, conn: &Rc<Conn>) {
        if conn.slots() == 0 {
            return;
        }
        if conn.is_idle() {
            conn.count_idle(true);
        }
        if conn.shares() {
            return self.list_shared(conn);
        }
        if !conn.listed.replace(true) {
            self.connections.borrow_mut().free.push(Rc::clone(conn));
        }
    }

    fn pop_free(&self) -> Option<Rc<Conn>> {
        let conn = self.connections.borrow_mut().free.pop()?;
        conn.listed.set(false);
        conn.count_idle(false);
        Some(conn)
    }

    /// Closes a connection that the peer closed, or broke.
    fn evict(&self, conn: &Conn) {
        self.close(conn);
        // Counted last: when the count is visible, the connection is gone.
        self.context.cells.evicted.add(1);
    }

    /// Closes a connection. Its place is free for a dial.
    fn close(&self, conn: &Conn) {
        if !conn.is_idle() {
            self.last_used.set(precise());
        }
        // First: with the place that it leaves another loop may have a connection at once, and no more are counted than there are.
        conn.count_idle(false);
        if !conn.close() {
            return;
        }
        {
            let mut connections = self.connections.borrow_mut();
            if conn.listed.take() {
                connections.unlist(conn);
            }
            connections.all.try_remove(conn.key());
        }
        // Not dialled right here: a connection also goes when its loop stops, where nothing can be started.
        if self.retired.get() || self.dialing.get() < self.waiting.len() {
            self.context.kick();
        }
    }

    /// Closes idle connections now, and the others after their calls.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        while let Some(conn) = self.pop_free() {
            if conn.is_idle() {
                conn.go_away();
                self.close(&conn);
            }
        }
    }

    /// The calls that wait, to be given to another pool.
    pub(crate) fn take_waiting(&self) -> VecDeque<Job> {
        let jobs = self.waiting.take();
        // The other one counts them.
        self.budget.forget(jobs.len() as u64);
        self.want_no_more();
        jobs
    }

    /// Ends every call in the pool: how many there were.
    pub(crate) fn cut(&self) -> usize {
        self.retire();
        let busy: Vec<_> = self.connections.borrow().all.iter().map(|(_, conn)| Rc::clone(conn)).collect();
        let calls = busy.iter().map(|conn| conn.calls()).sum::<usize>();
        let calls = calls + self.waiting.fail(|sent| Error::Shutdown { sent });
        for conn in busy {
            conn.cut();
        }
        calls
    }

    /// Drops waiting calls whose callers have left.
    pub(crate) fn purge(&self) {
        self.waiting.purge();
        self.want_no_more();
    }

    /// Ends overdue waits and starts the dials that are due. Says when to look again, or nothing if the pool is over.
    pub(crate) fn sweep(self: &Rc<Self>, now: Instant) -> Option<Instant> {
        let next = self.waiting.sweep(now, self.served_by(self.dialing.get()));
        self.return_owed();
        self.dial_for_waiters();
        if !self.is_unused() {
            // A pool in use is looked at again when its calls may be over.
            let unused = self.context.config().timeouts.pool_unused;
            return Some(next.unwrap_or_else(|| clock::after(now, unused)));
        }
        if self.retired.get() {
            return None;
        }
        let unused_until = self.unused_until();
        if unused_until <= now {
            self.context.cells.pools_unused.add(1);
            return None;
        }
        Some(unused_until)
    }
}

/// The same place with TLS, for a URL whose scheme is `https`.
pub(crate) fn over_tls(address: &Address) -> Result<Address, Error> {
    address.with_tls().ok_or_else(|| Error::NoTls { address: address.clone() })
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.wants.get() {
            self.quota.is_satisfied(&self.context);
        }
    }
}

/// A dial under way. Its drop gives the place back, however it ends.
struct Dial {
    pool: Rc<Pool>,
    permit: Option<Permit>,
}

impl Dial {
    async fn run(mut self) {
        let (dialed, log) = DialLog::of(self.pool.route.connect(self.pool.context.config())).await;
        let (pool, permit) = (Rc::clone(&self.pool), self.permit.take());
        drop(self);
        pool.dialed(dialed, &log, permit);
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        self.pool.dialing.update(|dialing| dialing - 1);
    }
}

/// The task of a connection. However it ends, the connection is closed.
struct Drive {
    pool: Rc<Pool>,
    conn: Rc<Conn>,
}

impl Future for Drive {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { pool, conn } = &*self;
        loop {
            match ready!(conn.poll(cx, &pool.host)) {
                Event::Open(outcome) => {
                    pool.note(&outcome);
                    let refilled = pool.refill(conn);
                    pool.deliver(outcome);
                    if refilled.is_break() {
                        break;
                    }
                }
                Event::Over(outcome) => {
                    pool.note(&outcome);
                    pool.learn_end(conn);
                    // First the place, then the caller or the call that may need one.
                    pool.close(conn);
                    pool.deliver(outcome);
                    break;
                }
                Event::Evicted => {
                    pool.evict(conn);
                    break;
                }
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.pool.close(&self.conn);
    }
}
