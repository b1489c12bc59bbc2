//! A child pool: the connections of one loop to one origin, and the calls that wait for one.
//!
//! Connections with a free slot are used last in, first out, so that a small load keeps few of them warm. Waiting calls
//! are served first in, first out. The first of them, as many as there are dials under way, are allowed to dial and are
//! held by the connect deadline; those behind them by the acquire deadline. A connection that comes free or is newly
//! dialled goes to the oldest call, whichever dial was started for it.

mod connections;
pub(crate) mod context;
mod counted;
mod dialing;
mod drive;
mod ends;
pub(crate) mod learnt;
mod lending;
pub(crate) mod loop_pools;
mod member;
pub(crate) mod origin_pools;
mod pipelined;
pub(crate) mod queue;
pub(crate) mod quota;
mod sharing_the_cap;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use anywire_loops::clock::{self, precise};
use anywire_wire::Address;

use self::connections::Connections;
pub(crate) use self::connections::Listed;
pub(crate) use self::sharing_the_cap::share_out;
use crate::Error;
use crate::balancer::Member;
use crate::call::job::{Job, Outcome};
use crate::call::request::CallRequest;
use crate::chain::Budget;
use crate::client::config::Versions;
use crate::connection::Conn;
use crate::connection::pipeline::Pipelining;
use crate::connector::{Route, RouteKey};
use crate::pool::context::LoopContext;
use crate::pool::learnt::{Learnt, learns};
use crate::pool::loop_pools::LoopPools;
use crate::pool::origin_pools::OriginPools;
use crate::pool::queue::{Offer, Queue};
use crate::pool::quota::Quota;

/// The connections of one loop to one origin by one route.
pub(crate) struct Pool {
    origin: Box<str>,
    /// The value of the `host` field of every request (RFC 9112 section 3.2).
    host: Box<str>,
    route: Route,
    context: Rc<LoopContext>,
    connections: RefCell<Connections>,
    waiting: Queue,
    /// All pools of the origin on this loop.
    origin_pools: Weak<OriginPools>,
    /// Shared with the pools of other loops, and of other routes to the origin.
    quota: Arc<Quota>,
    /// The pool has asked the quota for a connection in vain.
    wants: Cell<bool>,
    /// Calls of another pool under the cap wait for a connection that is idle here.
    is_asked: Cell<bool>,
    /// Dials under way.
    dialing: Cell<usize>,
    /// Calls that a new connection is likely to take. None: the protocol of the origin is not known yet.
    calls_per_connection: Cell<Option<usize>>,
    /// What the handshake agrees on is told to the client's other loops.
    teaches: bool,
    /// Whether calls share connections of HTTP/1.
    pipelining: Option<Pipelining>,
    /// Set if the pool's address is one of several of the origin.
    member: OnceCell<Rc<Member>>,
    retired: Cell<bool>,
    last_used: Cell<Instant>,
    /// Of the origin, for retries.
    budget: Rc<Budget>,
    /// Calls that have come, those that have gone elsewhere left out.
    attempts: Cell<u64>,
    retries: Cell<u64>,
}

impl Pool {
    /// The pool of the calls that have this key.
    pub(crate) fn new(
        key: RouteKey<'_>,
        context: &Rc<LoopContext>,
        among: &Rc<OriginPools>,
    ) -> Result<Self, Error> {
        let context = &context.of_pool(key.url.origin());
        let config = context.config();
        let route = Route::of(key, config)?;
        let teaches = learns(key.url, key.via, config);
        let pipelining = config.pipelines.of(key.url.origin())?;
        let of_http1 = pipelining.map_or(1, |pipelining| pipelining.depth);
        let calls_per_connection = match config.versions {
            // Clear text agrees on nothing.
            Versions::Negotiated if teaches => match context.inner().learnt().version_of(key.url.origin()) {
                Some(Learnt::Http1) => Some(of_http1),
                Some(Learnt::Http2) => Some(config.limits.http2.streams),
                None => None,
            },
            Versions::Negotiated if route.agrees_on_version() => None,
            Versions::Negotiated | Versions::Http1 => Some(of_http1),
            Versions::Http2 => Some(config.limits.http2.streams),
        };
        Ok(Self {
            origin: key.url.origin().into(),
            host: key.url.authority().into(),
            origin_pools: Rc::downgrade(among),
            quota: context.quota_of(key.cap_key(config)),
            wants: Cell::new(false),
            is_asked: Cell::new(false),
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
            budget: Rc::clone(among.budget()),
            attempts: Cell::new(0),
            retries: Cell::new(0),
        })
    }

    pub(crate) fn serves(&self, request: &CallRequest) -> bool {
        self.is_at(RouteKey::of(request))
    }

    pub(crate) fn is_at(&self, key: RouteKey<'_>) -> bool {
        *self.origin == *key.url.origin() && self.route.serves(key)
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
        if let Some(seen) = job.seen() {
            seen.is_with(&self.context);
        }
        job.needs_own_connection = self.pipelining.is_some() && job.request.needs_own_connection();
        self.budget.count();
        self.attempts.update(|attempts| attempts + 1);
        if let Some(error) = job.request.retry_of.take() {
            let percent = self.context.config().retries_of(&job.request).budget_percent;
            if !self.budget.allows(percent, job.at) {
                self.context.cells.retries_refused.add(1);
                return job.give_up(*error);
            }
            self.context.cells.retried.add(1);
            self.retries.update(|retries| retries + 1);
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

    fn refuse(&self, mut job: Job) {
        if job.loops_left > 0 {
            // Each other loop has a share of the queue, too.
            job.loops_left -= 1;
            match LoopPools::pass_on(self.context.client_ref().inner(), self.context.index, job) {
                None => return self.forget(1),
                Some(refused) => job = refused,
            }
        }
        self.context.cells.queue_full.add(1);
        let limits = &self.context.config().limits;
        let (connections, queue) = (limits.connections_per_origin, limits.queue_per_origin);
        job.fail(Error::QueueFull { origin: self.origin.to_string(), connections, queue });
    }

    /// Puts a call on a connection with a slot; gives it back if there is none, or it needs a fresh one.
    #[inline]
    fn place(&self, job: Job) -> Option<Job> {
        if job.needs_fresh_connection {
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
        job.begin_anew(&self.context);
        let Some(job) = self.place(job) else { return };
        self.waiting.push_first(job);
        self.wait_until(overdue);
    }

    fn wait_until(self: &Rc<Self>, overdue: Instant) {
        self.context.sweep_by(overdue);
        self.dial_in_turn();
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
                && let Some(job) = self.next_for(conn, Offer::Used)
            {
                conn.start(job, &self.host);
            }
        }
        self.want_no_more();
        self.ends_if_idle(conn)?;
        self.push_free(conn);
        if self.is_asked.get() && conn.is_idle() {
            self.context.kick();
        }
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
        let is_pipelined = conn.shares() && !conn.is_idle();
        let listed = if is_pipelined { Listed::Pipelined } else { Listed::Free };
        self.connections.borrow_mut().enlist(conn, listed);
    }

    fn pop_free(&self) -> Option<Rc<Conn>> {
        let conn = self.connections.borrow_mut().pop(Listed::Free)?;
        conn.count_idle(false);
        Some(conn)
    }

    /// The calls that wait, to be given to another pool.
    pub(crate) fn take_waiting(&self) -> VecDeque<Job> {
        let jobs = self.waiting.take();
        self.forget(jobs.len() as u64);
        self.want_no_more();
        jobs
    }

    /// So many calls go to another pool, which counts them.
    fn forget(&self, calls: u64) {
        self.budget.forget(calls);
        self.attempts.update(|attempts| attempts.saturating_sub(calls));
    }

    /// Drops waiting calls whose callers have left.
    pub(crate) fn purge(&self) {
        self.waiting.purge();
        self.want_no_more();
    }
}

/// The address with TLS, for a URL whose scheme is `https`.
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
