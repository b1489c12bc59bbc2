//! The part of a client that all its loops share: settings, the loops themselves, and where the next call goes.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anywire_http::{Method, Url, gateway};
use anywire_loops::{LoopState, Loops};

use crate::Error;
use crate::call::request::CallRequest;
use crate::client::config::Config;
use crate::client::loops::{ClientLoop, ClientLoops};
use crate::client::origin_options::Origins;
use crate::metrics::counters::ClientCounters;
use crate::metrics::latencies::Latencies;
use crate::metrics::origin_counters::Past;
use crate::pool::learnt::LearntOrigins;
use crate::pool::loop_pools::LoopPools;
use crate::pool::quota::Quotas;

/// What the handles, the futures and the loops of one client share. Nothing here is written on the way of a call that
/// is made on a loop.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Tells clients apart in the loop-local list.
    id: u64,
    config: Arc<Config>,
    loops: OnceLock<ClientLoops>,
    /// Held while own loops start, so that they start once.
    starting: Mutex<()>,
    /// Counts calls from outside, which take the loops in turn.
    turn: AtomicUsize,
    /// It keeps no idle connection from now on.
    retired: AtomicBool,
    closed: AtomicBool,
    /// What was counted for each origin.
    past: Past,
    /// How long the phases of its calls take.
    latencies: Latencies,
    /// Which version each origin speaks.
    learnt: LearntOrigins,
    /// How many connections each origin has.
    quotas: Quotas,
    origins: Origins,
    /// Calls that their callers dropped before the response. A full queue looks through its waiters only if this moved.
    abandoned: AtomicU64,
    /// Connections that were made.
    connections: AtomicU64,
}

impl Inner {
    pub(crate) fn new(config: Config, origins: Origins, loops: Option<&Loops>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        gateway::know_calls(Error::status_of);
        let cell = OnceLock::new();
        if let Some(loops) = loops {
            // The cell is new, so this cannot be the second value.
            let _ = cell.set(ClientLoops::of(loops));
        }
        Self {
            past: Past::new(config.limits.origins),
            latencies: Latencies::new(config.limits.origins),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            config: Arc::new(config),
            loops: cell,
            starting: Mutex::new(()),
            turn: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            learnt: LearntOrigins::default(),
            quotas: Quotas::default(),
            origins,
            abandoned: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    pub(crate) fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    pub(crate) fn origins(&self) -> &Origins {
        &self.origins
    }

    /// A request with the options that its origin has.
    pub(crate) fn request(&self, method: Method, url: Url) -> Result<Box<CallRequest>, Error> {
        let own = self.origins.config_of(url.origin())?;
        Ok(Box::new(CallRequest::new(method, url, own.as_ref().unwrap_or(&self.config))))
    }

    /// The settings of an origin. A fault in them is the error of each call.
    pub(crate) fn config_of(&self, origin: &str) -> Arc<Config> {
        let own = self.origins.config_of(origin).unwrap_or_default();
        own.unwrap_or_else(|| Arc::clone(&self.config))
    }

    /// The settings that hold for a request: those of its origin, if that has some.
    pub(crate) fn config_for(&self, request: &CallRequest) -> Arc<Config> {
        self.config_of(request.url.origin())
    }

    /// Has calls to an origin go by its new options.
    pub(crate) fn renew_pools(&self, origin: &str) {
        self.learnt.forget(origin);
        self.quotas.set_cap(origin, || self.config_of(origin).limits.connections_per_origin);
        let (id, origin) = (self.id, Arc::<str>::from(origin));
        for index in 0..self.started().len() {
            let origin = Arc::clone(&origin);
            self.on_loop(index, move || {
                LoopPools::find(id).into_iter().for_each(|local| local.renew(&origin))
            });
        }
    }

    pub(crate) fn learnt(&self) -> &LearntOrigins {
        &self.learnt
    }

    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Has the pools of one of the loops swept, because another loop wants or gives back connections.
    #[cold]
    pub(crate) fn look_at_pools(&self, index: usize) {
        let id = self.id;
        self.on_loop(index, move || LoopPools::find(id).into_iter().for_each(|local| local.look_at_pools()));
    }

    /// Does something on one of the loops, in its next turn.
    pub(crate) fn on_loop(&self, index: usize, act: impl FnOnce() + Send + 'static) {
        if let Some(one) = self.started().get(index) {
            drop(one.handle.spawn_always(move || {
                act();
                std::future::ready(())
            }));
        }
    }

    pub(crate) fn set_retired(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// No new call is taken from now on.
    pub(crate) fn set_closed(&self) {
        self.set_retired();
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    pub(crate) fn count_abandoned(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections were made before this one.
    pub(crate) fn count_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// The index of the current loop, if it is one of the client's.
    pub(crate) fn current_loop(&self) -> Option<usize> {
        let current = anywire_loops::current()?;
        self.loops.get()?.list.iter().position(|one| one.handle.same_as(&current))
    }

    /// The client's loops, started now if it has none yet.
    pub(crate) fn loops(&self) -> Result<&ClientLoops, Error> {
        if let Some(loops) = self.loops.get() {
            return Ok(loops);
        }
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loops) = self.loops.get() {
            return Ok(loops);
        }
        let shared = ClientLoops::shared()?;
        Ok(self.loops.get_or_init(|| shared))
    }

    /// Whether this loop runs, and is not dropping its last tasks.
    pub(crate) fn runs(&self, index: usize) -> bool {
        self.loops.get().is_some_and(|loops| loops.list[index].handle.state() == LoopState::Running)
    }

    /// No call is placed on this loop from here on.
    pub(crate) fn shut_down(&self, index: usize) {
        self.started().get(index).inspect(|one| one.shut_down());
    }

    /// Whether the shutdown of the client has passed this loop.
    pub(crate) fn is_shut_down(&self, index: usize) -> bool {
        self.loops.get().is_some_and(|loops| loops.list[index].is_shut_down())
    }

    /// The loop for a call from outside: each loop that may have connections, in turn. Loops that have ended are
    /// skipped. If all have ended, the call fails on the next one.
    pub(crate) fn next_loop(&self, loops: &ClientLoops, owners: usize) -> usize {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let runs = |&index: &usize| loops.list[index].handle.state() == LoopState::Running;
        (0..owners).map(|skipped| turn.wrapping_add(skipped) % owners).find(runs).unwrap_or(turn % owners)
    }

    /// The loops that have connections to the origin of a URL: the first ones, if the cap is below the number of loops. They serve the
    /// calls that are made on the others.
    #[inline]
    pub(crate) fn owners(&self, loops: &ClientLoops, url: &Url) -> usize {
        // Asked for each call.
        if loops.list.len() == 1 {
            return 1;
        }
        let connections = match self.origins.config_of(url.origin()) {
            Ok(Some(config)) => config.limits.connections_per_origin,
            _ => self.config.limits.connections_per_origin,
        };
        connections.min(loops.list.len())
    }

    pub(crate) fn counters(&self) -> ClientCounters {
        ClientCounters { per_loop: self.started().iter().map(|one| one.cells.read()).collect() }
    }

    /// The loops that calls were placed on.
    pub(crate) fn used_loops(&self) -> impl Iterator<Item = &ClientLoop> {
        self.started().iter().filter(|one| one.is_used())
    }

    /// The loops, if there are any yet.
    pub(crate) fn started(&self) -> &[ClientLoop] {
        self.loops.get().map(|loops| loops.list.as_slice()).unwrap_or_default()
    }
}
