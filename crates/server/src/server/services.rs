//! The [`Service`] of each loop: made where it is used first, ended on all loops together.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anywire_loops::{self as loops, Loops, Pool, Task};
use anywire_wire::{Connection, ConnectionLimit};

use crate::contained::{dispose, text};
use crate::counters::{Counters, Live};
use crate::driver::connection::ConnectionTask;
use crate::layer::GivenLayer;
use crate::limits::Limits;
use crate::observe::MakeObserver;
use crate::refusal::Refusals;
use crate::router::{RouteError, Router, Table};
use crate::service::{Ending, Service};

/// What a program has hooked up to a server.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) observers: Vec<MakeObserver>,
    pub(super) refusals: Refusals,
}

/// What every loop needs to make its [`Service`].
pub(super) struct Services {
    /// Tells servers on the same loops apart.
    id: u64,
    /// Around all routes, whichever they are.
    layers: Vec<GivenLayer>,
    /// The routes of now.
    table: Mutex<Arc<Table>>,
    limits: Limits,
    hooks: Hooks,
    pools: Vec<Pool>,
    connections: ConnectionLimit,
    live: Box<[Arc<Live>]>,
    /// No connection is served any more: what was accepted meanwhile is closed.
    is_closed: AtomicBool,
}

impl Services {
    pub(super) fn new(
        table: Table,
        layers: Vec<GivenLayer>,
        limits: Limits,
        hooks: Hooks,
        pools: Vec<Pool>,
        loops: usize,
    ) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            layers,
            table: Mutex::new(Arc::new(table)),
            connections: limits.connections.map_or_else(ConnectionLimit::default, ConnectionLimit::new),
            limits,
            hooks,
            pools,
            live: (0..loops).map(|_| Arc::default()).collect(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The limit of connections, which all addresses share.
    pub(super) fn limit(&self) -> &ConnectionLimit {
        &self.connections
    }

    /// The pools that routes may run on.
    pub(super) fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Serves a connection on the loop that it arrived on.
    pub(super) fn serve(&self, connection: Connection) {
        if self.is_closed.load(Ordering::Relaxed) {
            // It would begin the server anew on a loop where that has ended.
            return;
        }
        // The first connection of a loop clones the states of the router.
        match catch_unwind(AssertUnwindSafe(|| self.here())) {
            Ok(service) => drop(loops::spawn(ConnectionTask::new(connection, service))),
            Err(panic) => {
                self.live_here().panics.increment();
                tracing::error!(panic = text(&*panic), "the state of a router cannot be cloned");
                dispose(panic);
            }
        }
    }

    /// What all loops have counted so far.
    pub(super) fn counters(&self) -> Counters {
        let (connections_open, accept_pauses) = (self.connections.open() as u64, self.connections.pauses());
        let mut sum = Counters { connections_open, accept_pauses, ..Counters::default() };
        self.live.iter().for_each(|live| live.add_to(&mut sum));
        sum
    }

    /// Puts other routes in the place of these, on each loop at one of its turns.
    pub(super) fn replace(
        self: &Arc<Self>,
        router: &Router,
        loops: &Loops,
    ) -> Result<Vec<Task<()>>, RouteError> {
        self.exchange(router)?;
        let replace = |services: Arc<Self>| move || async move { services.replace_here() };
        Ok(loops.iter().map(|handle| handle.spawn_always(replace(Arc::clone(self)))).collect())
    }

    /// Puts other routes in the place of these, for loops that have no service yet.
    pub(super) fn exchange(&self, router: &Router) -> Result<(), RouteError> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = table.generation().saturating_add(1);
        let mut next = router.build_within(&self.layers, generation)?;
        next.check_pools(&self.pools.iter().map(Pool::name).collect::<Vec<_>>())?;
        next.set_pools(&self.pools);
        let old = std::mem::replace(&mut *table, Arc::new(next));
        drop(table);
        // Without the lock: this may run destructors of handlers.
        drop(old);
        Ok(())
    }

    /// Puts the routes of now in the place of those of this loop. A loop without a service makes it with them.
    fn replace_here(&self) {
        let Some(old) = self.made_here() else { return };
        let table = self.table();
        // Another call may have been first.
        if old.generation() != table.generation() {
            let next = old.replace(table);
            all_here().borrow_mut().insert(self.id, next);
        }
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the server on every loop at once. The tasks that accept may still hand over connections, and nobody waits for them.
    pub(super) fn close(self: &Arc<Self>, loops: &Loops) {
        self.is_closed.store(true, Ordering::Relaxed);
        drop(self.end(loops, Duration::ZERO));
    }

    /// Ends the server on every loop. Each task says how many connections were cut at the deadline, or before it by a second signal.
    pub(super) fn end(self: &Arc<Self>, loops: &Loops, deadline: Duration) -> Vec<Task<usize>> {
        let end = |services: Arc<Self>| move || async move { services.end_here(deadline).await };
        loops.iter().map(|handle| handle.spawn_always(end(Arc::clone(self)))).collect()
    }

    /// Aborts every connection now.
    pub(super) fn cut(self: &Arc<Self>, loops: &Loops) {
        for handle in loops.iter() {
            let services = Arc::clone(self);
            let cut = move || async move { services.made_here().map(|service| service.end(Ending::Cut)) };
            drop(handle.spawn_always(cut));
        }
    }

    /// This loop's service, made by its first connection.
    fn here(&self) -> Rc<Service> {
        if let Some(service) = self.made_here() {
            return service;
        }
        // Not within the borrow: states are the code of others.
        let Hooks { observers, refusals } = &self.hooks;
        let (table, live) = (self.table(), Arc::clone(self.live_here()));
        let service = Rc::new(Service::new(table, self.limits.clone(), live, observers, refusals.clone()));
        all_here().borrow_mut().insert(self.id, Rc::clone(&service));
        service
    }

    /// This loop's service, if it has one.
    fn made_here(&self) -> Option<Rc<Service>> {
        all_here().borrow().get(&self.id).cloned()
    }

    fn live_here(&self) -> &Arc<Live> {
        &self.live[loops::current().map_or(0, |handle| handle.id().index())]
    }

    async fn end_here(&self, deadline: Duration) -> usize {
        let Some(service) = self.made_here() else { return 0 };
        service.end(Ending::Draining);
        let grace = (deadline / 10).min(QUEUE_GRACE_MAX);
        if tokio::time::timeout(deadline - grace, service.emptied()).await.is_err() {
            // What waits for a thread will not be run in time. Its peers have a while to read that.
            service.dispatch.end_waits();
            let _ = tokio::time::timeout(grace, service.emptied()).await;
        }
        service.end(Ending::Cut);
        service.emptied().await;
        let gone = all_here().borrow_mut().remove(&self.id);
        // Without the borrow: this runs the destructors of handlers.
        drop(gone);
        service.cut()
    }
}

/// The services of this loop, one a server.
fn all_here() -> Rc<RefCell<HashMap<u64, Rc<Service>>>> {
    loops::local(RefCell::default)
}

/// How long before the deadline of a shutdown requests are refused that wait for a thread of a pool: a tenth of it, and at most this.
const QUEUE_GRACE_MAX: Duration = Duration::from_secs(1);

static NEXT_ID: AtomicU64 = AtomicU64::new(0);
