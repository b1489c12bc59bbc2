//! The pools of one client on one loop, and the one task that looks after their deadlines.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anywire_loops::clock;
use anywire_loops::deadline::Deadline;
use anywire_wire::{Address, DialOptions, Dialer, Output};
use tokio::sync::Notify;

use crate::counters::Cells;
use crate::inner::{Config, Inner};
use crate::job::Pending;
use crate::pool::Pool;
use crate::{Error, Limits};

/// One client on one loop. It never leaves the loop, so its fields need no lock.
pub(crate) struct Local {
    shared: Rc<Shared>,
    pools: RefCell<HashMap<Box<str>, Vec<Rc<Pool>>>>,
    /// The pool of the latest call: most programs call one origin many times in a row.
    recent: RefCell<Option<Rc<Pool>>>,
    retired: Cell<bool>,
    /// Nobody sweeps it any more: a late call gets pools of its own.
    over: Cell<bool>,
    /// Rung when the last pool of a retired client is gone.
    empty: Notify,
}

/// What the pools of a loop have in common, and their connections need.
pub(crate) struct Shared {
    anchor: Arc<Anchor>,
    pub(crate) index: usize,
    pub(crate) cells: Arc<Cells>,
    pub(crate) dialer: Dialer,
    /// Connections per origin on this loop.
    pub(crate) connections: usize,
    /// Waiting calls per origin on this loop.
    pub(crate) queue: usize,
    /// Dials at a time per origin on this loop.
    pub(crate) dials: usize,
    /// For the sweeping task, which holds it armed to the earliest deadline of all pools.
    timer: Deadline,
    next_sweep: Cell<Option<Instant>>,
    sweeper: RefCell<Option<Waker>>,
    wanted: Cell<bool>,
    spares: RefCell<Vec<Output>>,
}

/// A loop's own reference to the client's common part. Futures of calls made on the loop clone this one.
#[derive(Debug)]
pub(crate) struct Anchor {
    inner: Arc<Inner>,
}

/// The clients that have pools on a loop; kept in the loop's storage, so that it ends with the loop.
#[derive(Default)]
struct Registry {
    locals: RefCell<Vec<Rc<Local>>>,
}

thread_local! {
    /// The registry once more, to be looked through for each call without the way through the loop's storage.
    static HERE: RefCell<Vec<(u64, Weak<Local>)>> = const { RefCell::new(Vec::new()) };
}

impl Local {
    /// The pools of client `id` on the current loop, if it has any.
    pub(crate) fn find(id: u64) -> Option<Rc<Self>> {
        HERE.try_with(|here| {
            let here = here.borrow();
            let locals =
                here.iter().filter(|(other, _)| *other == id).filter_map(|(_, local)| local.upgrade());
            locals.into_iter().find(|local| !local.over.get())
        })
        .ok()
        .flatten()
    }

    /// As [`find`](Self::find), and made now if the current loop is one of the client's.
    pub(crate) fn here(inner: &Arc<Inner>) -> Option<Rc<Self>> {
        if let Some(local) = Self::find(inner.id()) {
            return Some(local);
        }
        let index = inner.current_site()?;
        Some(Self::on_this_loop(inner, index))
    }

    /// The pools of a client on the current loop, which is its loop `index`.
    pub(crate) fn on_this_loop(inner: &Arc<Inner>, index: usize) -> Rc<Self> {
        Self::find(inner.id()).unwrap_or_else(|| Self::start(inner, index))
    }

    fn start(inner: &Arc<Inner>, index: usize) -> Rc<Self> {
        let Config { limits, timeouts } = inner.config();
        let (loops, cells) = match inner.sites() {
            Ok(sites) => {
                sites.list[index].used.store(true, Ordering::Release);
                (sites.list.len(), Arc::clone(&sites.list[index].cells))
            }
            // A call can be on a loop only if there are loops.
            Err(_) => (1, Arc::default()),
        };
        let owners = limits.connections_per_origin.min(loops);
        let options = DialOptions { connect_timeout: timeouts.connect, ..DialOptions::default() };
        let local = Rc::new(Self {
            shared: Rc::new(Shared {
                anchor: Arc::new(Anchor { inner: Arc::clone(inner) }),
                index,
                cells,
                dialer: Dialer::new(options),
                connections: Limits::share(limits.connections_per_origin, index, loops),
                // Only owners of connections get calls, so only they have a queue.
                queue: Limits::share(limits.queue_per_origin, index, owners),
                dials: Limits::share(limits.dials_per_origin, index, owners).max(1),
                timer: Deadline::new(),
                next_sweep: Cell::new(None),
                sweeper: RefCell::new(None),
                wanted: Cell::new(false),
                spares: RefCell::default(),
            }),
            pools: RefCell::default(),
            recent: RefCell::default(),
            retired: Cell::new(inner.is_closed()),
            over: Cell::new(false),
            empty: Notify::new(),
        });
        drop(anywire_loops::spawn(Rc::clone(&local).run()));
        // A client that is closed already gets pools for this one call, and nobody finds them again.
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

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    pub(crate) fn index(&self) -> usize {
        self.shared.index
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        self.shared.inner()
    }

    pub(crate) fn anchor(&self) -> Arc<Anchor> {
        Arc::clone(&self.shared.anchor)
    }

    /// Takes a call: it is on a connection, in a queue, or failed when this returns.
    pub(crate) fn submit(&self, pending: Pending) {
        self.shared.cells.requests.add(1);
        let recent = self.recent.borrow().as_ref().filter(|pool| pool.serves(&pending.job)).cloned();
        let pool = match recent {
            Some(pool) => Ok(pool),
            None => self.pool_for(&pending),
        };
        match pool {
            Ok(pool) => pool.submit(pending),
            Err(error) => pending.fail(error),
        }
    }

    fn pool_for(&self, pending: &Pending) -> Result<Rc<Pool>, Error> {
        let job = &pending.job;
        let origin = job.target.origin();
        let known = self
            .pools
            .borrow()
            .get(origin)
            .and_then(|pools| pools.iter().find(|pool| pool.serves(job)).cloned());
        let pool = match known {
            Some(pool) => pool,
            None => {
                self.make_room(origin)?;
                let pool = Rc::new(Pool::new(origin, job.via.clone(), &self.shared)?);
                if self.retired.get() {
                    pool.retire();
                }
                self.pools.borrow_mut().entry(origin.into()).or_default().push(Rc::clone(&pool));
                self.shared.sweep_by(clock::now() + self.inner().config().timeouts.pool_unused);
                pool
            }
        };
        self.recent.replace(Some(Rc::clone(&pool)));
        Ok(pool)
    }

    /// Drops the longest unused pool if there are as many as there may be.
    fn make_room(&self, origin: &str) -> Result<(), Error> {
        let origins = self.inner().config().limits.origins;
        if self.all_pools().len() < origins {
            return Ok(());
        }
        let unused =
            self.all_pools().into_iter().filter(|pool| pool.is_unused()).min_by_key(|pool| pool.last_used());
        let Some(pool) = unused else {
            self.shared.cells.too_many_origins.add(1);
            return Err(Error::TooManyOrigins { origin: origin.to_owned(), origins });
        };
        self.remove(&pool);
        Ok(())
    }

    fn remove(&self, pool: &Rc<Pool>) {
        pool.retire();
        self.recent.borrow_mut().take_if(|recent| Rc::ptr_eq(recent, pool));
        self.pools.borrow_mut().retain(|_, pools| {
            pools.retain(|other| !Rc::ptr_eq(other, pool));
            !pools.is_empty()
        });
    }

    fn all_pools(&self) -> Vec<Rc<Pool>> {
        self.pools.borrow().values().flatten().cloned().collect()
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
        self.shared.kick();
    }

    /// Retires, waits for the calls under way until `deadline` has passed, and cuts the rest: how many.
    pub(crate) async fn close(&self, deadline: Duration) -> usize {
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
        self.shared.sweeper.replace(Some(cx.waker().clone()));
        loop {
            let due = self.shared.timer.poll_expired(cx).is_ready();
            if !due && !self.shared.wanted.take() {
                return Poll::Pending;
            }
            self.sweep();
            if self.retired.get() && self.pools.borrow().is_empty() {
                self.over.set(true);
                self.empty.notify_waiters();
                return Poll::Ready(());
            }
        }
    }

    /// Ends what is overdue in each pool, drops pools that are over, and sets the timer for the next time.
    fn sweep(&self) {
        self.shared.next_sweep.set(None);
        self.shared.timer.clear();
        let now = clock::now();
        for pool in self.all_pools() {
            match pool.sweep(now) {
                Some(next) => self.shared.sweep_by(next),
                None => self.remove(&pool),
            }
        }
    }
}

impl Shared {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.anchor.inner
    }

    pub(crate) fn config(&self) -> &Config {
        self.anchor.inner.config()
    }

    /// Has the pools swept at `instant`, or before.
    pub(crate) fn sweep_by(&self, instant: Instant) {
        if self.next_sweep.get().is_none_or(|next| instant < next) {
            self.next_sweep.set(Some(instant));
            self.timer.set(instant.saturating_duration_since(clock::now()));
        }
    }

    /// Has the pools swept by the sweeping task as soon as it runs.
    pub(crate) fn kick(&self) {
        self.wanted.set(true);
        if let Some(sweeper) = self.sweeper.borrow().as_ref() {
            sweeper.wake_by_ref();
        }
    }

    /// An output that another request on this loop has used, or a new one.
    pub(crate) fn take_output(&self) -> Output {
        self.spares.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives an output back, empty or not.
    pub(crate) fn keep_output(&self, output: Output) {
        let mut spares = self.spares.borrow_mut();
        if output.is_empty() && spares.len() < SPARE_OUTPUTS {
            spares.push(output);
        }
    }
}

impl Anchor {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

/// Outputs are in use only from a request's encoding to its last byte, which is mostly one poll.
const SPARE_OUTPUTS: usize = 16;

/// The address of an origin, unless another one is said.
pub(crate) fn address_of(origin: &str, host: &str, port: u16) -> Result<Address, Error> {
    Address::from_host(host, port).map_err(|source| Error::Host { origin: origin.to_owned(), source })
}
