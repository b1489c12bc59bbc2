//! The pools of one client on one loop, and the one task that looks after their deadlines.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anywire_http::Url;
use anywire_loops::TaskError;
use anywire_loops::clock::precise;
use tokio::sync::Notify;

use crate::balancer::{Backend, Balancer};
use crate::call::callers;
use crate::call::job::Job;
use crate::call::request::CallRequest;
use crate::client::inner::Inner;
use crate::connector::RouteKey;
use crate::metrics::address_counters::AddressCounters;
use crate::observe::Seen;
use crate::pool::Pool;
use crate::pool::context::{LoopContext, LoopRef};
use crate::pool::origin_pools::OriginPools;
use crate::{Error, Phase};

/// One client on one loop. It never leaves the loop, so its fields need no lock.
pub(crate) struct LoopPools {
    context: Rc<LoopContext>,
    origins: RefCell<HashMap<Box<str>, Rc<OriginPools>>>,
    /// The pool of the latest call: most programs call one origin many times in a row.
    recent: RefCell<Option<Rc<Pool>>>,
    retired: Cell<bool>,
    /// Its task has ended: a late call gets pools of its own.
    over: Cell<bool>,
    /// Notified when the last pool of a retired client is gone.
    empty: Notify,
}

/// The clients with pools on a loop. It lies in the loop's storage, so it ends with the loop.
#[derive(Default)]
struct Registry {
    locals: RefCell<Vec<Rc<LoopPools>>>,
}

thread_local! {
    /// Per-thread cache of the registry: saves a map lookup in loop-local storage on each call.
    static HERE: RefCell<Vec<(u64, Weak<LoopPools>)>> = const { RefCell::new(Vec::new()) };
}

impl LoopPools {
    /// The pools of client `id` on the current loop, if it has any.
    pub(crate) fn find(id: u64) -> Option<Rc<Self>> {
        HERE.try_with(|here| {
            let here = here.borrow();
            let mut locals =
                here.iter().filter(|(other, _)| *other == id).filter_map(|(_, local)| local.upgrade());
            locals.find(|local| !local.over.get())
        })
        .ok()
        .flatten()
    }

    /// As [`find`](Self::find), and made now if the current loop is one of the client's.
    pub(crate) fn here(inner: &Arc<Inner>) -> Option<Rc<Self>> {
        if let Some(local) = Self::find(inner.id()) {
            return Some(local);
        }
        let index = inner.current_loop()?;
        Some(Self::on_this_loop(inner, index))
    }

    /// The pools of a client on the current loop, which is its loop `index`.
    pub(crate) fn on_this_loop(inner: &Arc<Inner>, index: usize) -> Rc<Self> {
        Self::find(inner.id()).unwrap_or_else(|| Self::start(inner, index))
    }

    fn start(inner: &Arc<Inner>, index: usize) -> Rc<Self> {
        let local = Rc::new(Self {
            context: Rc::new(LoopContext::new(inner, index)),
            origins: RefCell::default(),
            recent: RefCell::default(),
            retired: Cell::new(inner.is_retired()),
            over: Cell::new(false),
            empty: Notify::new(),
        });
        drop(anywire_loops::spawn(Rc::clone(&local).run()));
        callers::begin();
        // If the client is closed already, the pools serve this one call: they are not registered.
        if !local.retired.get() {
            let registry = anywire_loops::local(Registry::default);
            registry.locals.borrow_mut().push(Rc::clone(&local));
            HERE.with_borrow_mut(|here| {
                here.retain(|(_, local)| local.strong_count() > 0);
                here.push((inner.id(), Rc::downgrade(&local)));
            });
        }
        local
    }

    /// Has its pools swept soon.
    pub(crate) fn look_at_pools(&self) {
        self.context.kick();
    }

    pub(crate) fn index(&self) -> usize {
        self.context.index
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        self.context.client_ref().inner()
    }

    pub(crate) fn client_ref(&self) -> Arc<LoopRef> {
        Arc::clone(self.context.client_ref())
    }

    /// What sees an attempt that begins here, if anything does.
    #[inline]
    pub(crate) fn see(&self, request: &CallRequest, now: Instant) -> Option<Box<Seen>> {
        Seen::of(request, &self.context, now)
    }

    /// Takes a call: it is on a connection, in a queue, or failed when this returns.
    pub(crate) fn submit(self: &Rc<Self>, job: Job) {
        self.context.cells.requests.add(1);
        self.accept(job);
    }

    /// Takes a call that was counted before, perhaps by another loop.
    fn accept(self: &Rc<Self>, job: Job) {
        let sent = job.sent;
        if !self.inner().runs(self.index()) {
            // From the destructor of a task: a connection that is idle still would never get to it.
            return job.fail(Error::Loop { source: TaskError::Stopped, sent });
        }
        if self.inner().is_shut_down(self.index()) {
            // It was on its way here meanwhile.
            return job.fail(Error::Shutdown { sent });
        }
        // As another attempt, or a loop of the caller's, asks whose time is over: nothing is sent whose response cannot be awaited.
        if job.total_until <= job.at {
            self.context.cells.count_timeout(Phase::Total);
            let (origin, limit) = (job.request.origin(), job.request.options.total_timeout);
            return job.fail(Error::Timeout { origin, phase: Phase::Total, limit, sent });
        }
        self.place(job);
    }

    /// Gives a call to its pool.
    #[inline]
    fn place(self: &Rc<Self>, job: Job) {
        let recent = self.recent.borrow().as_ref().filter(|pool| pool.serves(&job.request)).cloned();
        let pool = match recent {
            Some(pool) => Ok(pool),
            None => self.pool_for(&job.request),
        };
        match pool {
            Ok(pool) => pool.submit(job),
            Err(error) => job.fail(error),
        }
    }

    /// Whether it has a pool for this call.
    pub(crate) fn has_pool(&self, request: &CallRequest) -> bool {
        let is_recent = || self.recent.borrow().as_ref().is_some_and(|pool| pool.serves(request));
        is_recent() || self.find_pool(RouteKey::of(request)).is_some()
    }

    fn pool_for(self: &Rc<Self>, request: &CallRequest) -> Result<Rc<Pool>, Error> {
        let key = RouteKey::of(request);
        if let Some(balancer) = self.balancer_for(key, &request.url)? {
            // It is not the recent one: the next call may go to another address.
            return match balancer.choose(precise()) {
                Some(backend) => {
                    backend.member().count_call();
                    self.pool_of(&backend, &request.url)
                }
                None => self.pool_at(key),
            };
        }
        let pool = self.pool_at(key)?;
        self.recent.replace(Some(Rc::clone(&pool)));
        Ok(pool)
    }

    /// Waits until the addresses of an origin are known.
    pub(crate) async fn first_addresses(self: &Rc<Self>, url: &Url) -> Result<(), Error> {
        if let Some(balancer) = self.balancer_for(RouteKey::to(url, None), url)? {
            balancer.first_addresses(precise()).await;
        }
        Ok(())
    }

    /// The pools of an origin that a call may get now: one for each of its addresses.
    pub(crate) fn pools_of(self: &Rc<Self>, url: &Url) -> Result<Vec<Rc<Pool>>, Error> {
        let key = RouteKey::to(url, None);
        let backends = match self.balancer_for(key, url)? {
            Some(balancer) => balancer.candidates(precise()),
            None => Vec::new(),
        };
        if backends.is_empty() {
            return Ok(vec![self.pool_at(key)?]);
        }
        backends.iter().map(|backend| self.pool_of(backend, url)).collect()
    }

    /// What was counted of addresses that are some of several.
    pub(crate) fn address_counters(&self) -> Vec<AddressCounters> {
        let now = precise();
        let balancers = self.all_origins().into_iter().filter_map(|origin| origin.balancer());
        balancers.flat_map(|balancer| balancer.counters(now)).collect()
    }

    /// What chooses an address for connections to this origin, unless they are led there by something else.
    fn balancer_for(self: &Rc<Self>, key: RouteKey<'_>, url: &Url) -> Result<Option<Rc<Balancer>>, Error> {
        let balancer = self.balancer_of(url)?;
        Ok(balancer.filter(|_| key.is_direct(&self.inner().config_of(url.origin()))))
    }

    fn balancer_of(self: &Rc<Self>, url: &Url) -> Result<Option<Rc<Balancer>>, Error> {
        let Some(balance) = self.inner().config().balances.of(url.origin())? else { return Ok(None) };
        let origin = self.origin(url.origin());
        if let Some(balancer) = origin.balancer() {
            return Ok(Some(balancer));
        }
        let balancer = Balancer::new(balance, url, Rc::downgrade(self), precise())?;
        origin.set_balancer(&balancer);
        self.keep(url.origin(), &origin);
        Ok(Some(balancer))
    }

    /// The pool of one of several addresses.
    pub(crate) fn pool_of(&self, backend: &Backend, url: &Url) -> Result<Rc<Pool>, Error> {
        if let Some(pool) = backend.pool() {
            return Ok(pool);
        }
        let pool = self.pool_at(RouteKey::to(url, Some(backend.address())))?;
        pool.join(backend.member());
        backend.set_pool(&pool);
        Ok(pool)
    }

    pub(crate) fn find_pool(&self, key: RouteKey<'_>) -> Option<Rc<Pool>> {
        let origins = self.origins.borrow();
        origins.get(key.url.origin())?.find(|pool| self.is_in_use(pool) && pool.is_at(key))
    }

    /// What there is of an origin, or something new, which [`keep`](Self::keep) makes known.
    fn origin(&self, origin: &str) -> Rc<OriginPools> {
        self.origins.borrow().get(origin).cloned().unwrap_or_default()
    }

    fn keep(&self, origin: &str, pools: &Rc<OriginPools>) {
        self.origins.borrow_mut().entry(origin.into()).or_insert_with(|| Rc::clone(pools));
    }

    fn all_origins(&self) -> Vec<Rc<OriginPools>> {
        self.origins.borrow().values().cloned().collect()
    }

    /// Whether a pool takes calls. A pool that was retired, while the loop was not, has been replaced.
    fn is_in_use(&self, pool: &Pool) -> bool {
        self.retired.get() || !pool.is_retired()
    }

    fn pool_at(&self, key: RouteKey<'_>) -> Result<Rc<Pool>, Error> {
        let origin = key.url.origin();
        let pool = match self.find_pool(key) {
            Some(pool) => pool,
            None => {
                self.make_room(origin)?;
                let pools = self.origin(origin);
                let pool = Rc::new(Pool::new(key, &self.context, &pools)?);
                if self.retired.get() {
                    pool.retire();
                }
                pools.add(&pool);
                self.keep(origin, &pools);
                self.context.sweep_by(pool.unused_until());
                pool
            }
        };
        Ok(pool)
    }

    /// Drops the longest unused pool if there are as many as there may be.
    fn make_room(&self, origin: &str) -> Result<(), Error> {
        let origins = self.inner().config().limits.origins;
        // Pools that only end their last calls have been replaced, and do not count.
        let pools = || self.all_pools().into_iter().filter(|pool| self.is_in_use(pool));
        if pools().count() < origins {
            return Ok(());
        }
        let unused = pools().filter(|pool| pool.is_unused()).min_by_key(|pool| pool.last_used());
        let Some(pool) = unused else {
            self.context.cells.too_many_origins.add(1);
            return Err(Error::TooManyOrigins { origin: origin.to_owned(), origins });
        };
        self.remove(&pool);
        Ok(())
    }

    /// Forgets a pool without calls.
    fn remove(&self, pool: &Rc<Pool>) {
        pool.retire();
        self.inner().past().keep(pool.origin(), &pool.counters());
        self.recent.borrow_mut().take_if(|recent| Rc::ptr_eq(recent, pool));
        let mut origins = self.origins.borrow_mut();
        if let Some(origin) = origins.get(pool.origin())
            && origin.remove(pool)
        {
            origins.remove(pool.origin());
        }
    }

    /// Gives an origin new pools, whose options have changed.
    pub(crate) fn renew(self: &Rc<Self>, origin: &str) {
        let pools = self.origins.borrow().get(origin).map(|origin| origin.pools());
        self.replace(&pools.unwrap_or_default());
    }

    /// Has other pools take the calls that wait in these, and all that come later. These end with the calls that they have, and are
    /// looked after until then.
    pub(crate) fn replace(self: &Rc<Self>, pools: &[Rc<Pool>]) {
        self.recent.take();
        let mut waiting = Vec::new();
        for pool in pools {
            pool.retire();
            waiting.extend(pool.take_waiting());
        }
        for mut job in waiting {
            // It is here already, though other loops may have got connections.
            job.may_borrow = true;
            if let Err(error) = job.come_under(self.inner()) {
                job.fail(error);
                continue;
            }
            let owner = self.owner_of(&job);
            if owner == self.index() {
                self.place(job);
                continue;
            }
            // It has had a place in the queue of this loop, and is owed one.
            let shared = Arc::clone(self.inner());
            self.inner().on_loop(owner, move || Self::on_this_loop(&shared, owner).accept(job));
        }
        self.context.kick();
    }

    /// Gives a call that loop `from` has no room for to the next one that owns connections to its origin, and runs. Gives it back if
    /// that one takes no more.
    pub(crate) fn pass_on(inner: &Arc<Inner>, from: usize, job: Job) -> Option<Job> {
        let owners = inner.loops().map_or(1, |loops| inner.owners(loops, &job.request.url));
        let mut next = (1..owners).map(|further| (from + further) % owners);
        let index = next.find(|&index| inner.runs(index)).unwrap_or(from);
        let Some(target) = inner.started().get(index) else { return Some(job) };
        // Shared, because a loop drops what it refuses.
        let job = Arc::new(Mutex::new(Some(job)));
        let take = |job: &Mutex<Option<Job>>| job.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (shared, passed) = (Arc::clone(inner), Arc::clone(&job));
        let posted = target.handle.post(move || {
            if let Some(job) = take(&passed) {
                Self::on_this_loop(&shared, index).accept(job);
            }
        });
        posted.err().and_then(|_| take(&job))
    }

    fn owner_of(&self, job: &Job) -> usize {
        let loops = self.inner().loops().ok();
        loops.map_or(self.index(), |loops| {
            loops.owner(self.index(), self.inner().owners(loops, &job.request.url))
        })
    }

    pub(crate) fn all_pools(&self) -> Vec<Rc<Pool>> {
        self.origins.borrow().values().flat_map(|origin| origin.pools()).collect()
    }

    /// No call comes any more: idle connections close, the others after their call.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        let id = self.inner().id();
        let registry = anywire_loops::local(Registry::default);
        registry.locals.borrow_mut().retain(|local| local.inner().id() != id);
        for pool in self.all_pools() {
            pool.retire();
        }
        self.context.kick();
    }

    /// Retires, waits for the calls under way until `deadline` has passed, and cuts the rest: how many.
    pub(crate) async fn shutdown(&self, deadline: Duration) -> usize {
        let empty = self.empty.notified();
        self.retire();
        if tokio::time::timeout(deadline, empty).await.is_ok() {
            return 0;
        }
        self.all_pools().iter().map(|pool| pool.cut()).sum()
    }

    /// The sweeping task: until the client is retired or the loop is to stop, and no call is left.
    async fn run(self: Rc<Self>) {
        let mut stopping = pin!(anywire_loops::stopping());
        poll_fn(|cx| {
            if !self.retired.get() && stopping.as_mut().poll(cx).is_ready() {
                self.retire();
            }
            self.poll_sweep(cx)
        })
        .await;
    }

    fn poll_sweep(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Only this task is woken when a caller leaves.
        for pool in self.all_pools() {
            pool.purge();
        }
        while self.context.poll_sweep_due(cx).is_ready() {
            self.sweep();
            if self.retired.get() && self.all_pools().is_empty() {
                self.over.set(true);
                self.empty.notify_waiters();
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Ends overdue calls in each pool, drops pools that are over, and sets the time of the next sweep.
    fn sweep(&self) {
        let now = precise();
        for origin in self.all_origins() {
            for (pool, next) in origin.sweep(now) {
                match next {
                    Some(next) => self.context.sweep_by(next),
                    None => self.remove(&pool),
                }
            }
        }
    }
}
