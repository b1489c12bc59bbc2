//! The part of a client that all its loops share: settings, the loops themselves, and where the next call goes.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anywire_loops::{LoopHandle, LoopState, Loops};

use crate::client::Closing;
use crate::counters::{Cells, ClientCounters};
use crate::local::Local;
use crate::{Error, Limits, Timeouts};

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
}

/// What the handles, the futures and the loops of one client share. Nothing here is written on the way of a call that
/// is made on a loop.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Tells clients apart in the loop-local list.
    id: u64,
    config: Config,
    sites: OnceLock<Sites>,
    /// Held while own loops start, so that they start once.
    starting: Mutex<()>,
    /// The turn of calls from outside.
    turn: AtomicUsize,
    closed: AtomicBool,
    /// Calls that their callers dropped before the answer. A full queue looks through its waiters only if this moved.
    abandoned: AtomicU64,
}

impl Inner {
    pub(crate) fn new(config: Config, loops: Option<&Loops>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let sites = OnceLock::new();
        if let Some(loops) = loops {
            // The cell is new, so this cannot be the second value.
            let _ = sites.set(Sites::of(loops));
        }
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            config,
            sites,
            starting: Mutex::new(()),
            turn: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            abandoned: AtomicU64::new(0),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
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

    /// The place of the current loop among the client's, if it is one of them.
    pub(crate) fn current_site(&self) -> Option<usize> {
        let current = anywire_loops::current()?;
        self.sites.get()?.list.iter().position(|site| site.handle.same_as(&current))
    }

    /// The client's loops, started now if it has none yet.
    pub(crate) fn sites(&self) -> Result<&Sites, Error> {
        if let Some(sites) = self.sites.get() {
            return Ok(sites);
        }
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sites) = self.sites.get() {
            return Ok(sites);
        }
        let loops = Loops::builder().name("anywire-client").start()?;
        Ok(self.sites.get_or_init(|| Sites { own: Some(loops.clone()), ..Sites::of(&loops) }))
    }

    /// The loop for a call from outside: the owners of connections in turn. Loops that have ended are passed over, unless
    /// all have: then the call fails on the one whose turn it is.
    pub(crate) fn next_site(&self, sites: &Sites) -> usize {
        let owners = self.owners(sites.list.len());
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let runs = |&index: &usize| sites.list[index].handle.state() == LoopState::Running;
        (0..owners).map(|skipped| turn.wrapping_add(skipped) % owners).find(runs).unwrap_or(turn % owners)
    }

    /// The loop that serves calls made on loop `index`: itself, or an owner if the cap is below the number of loops.
    pub(crate) fn owner_of(&self, index: usize, loops: usize) -> usize {
        index % self.owners(loops)
    }

    fn owners(&self, loops: usize) -> usize {
        self.config.limits.connections_per_origin.min(loops)
    }

    pub(crate) fn counters(&self) -> ClientCounters {
        let sites = self.sites.get().map(|sites| sites.list.as_slice()).unwrap_or_default();
        ClientCounters { per_loop: sites.iter().map(|site| site.cells.read()).collect() }
    }

    /// The last handle is gone: idle connections close, calls under way finish.
    pub(crate) fn retire(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let id = self.id;
        for site in self.used_sites() {
            drop(site.handle.spawn(move || async move {
                if let Some(local) = Local::find(id) {
                    local.retire();
                }
            }));
        }
    }

    /// As [`retire`](Self::retire), and what is still under way at the deadline is cut.
    pub(crate) async fn close(&self, deadline: Duration) -> Closing {
        self.closed.store(true, Ordering::Relaxed);
        let id = self.id;
        let tasks: Vec<_> = self
            .used_sites()
            .map(|site| {
                site.handle.spawn(move || async move {
                    match Local::find(id) {
                        Some(local) => local.close(deadline).await,
                        None => 0,
                    }
                })
            })
            .collect();
        let mut closing = Closing::default();
        for task in tasks {
            // A loop that has stopped has no call left to cut.
            closing.calls_cut += task.await.unwrap_or(0);
        }
        closing
    }

    fn used_sites(&self) -> impl Iterator<Item = &Site> {
        let sites = self.sites.get().map(|sites| sites.list.as_slice()).unwrap_or_default();
        sites.iter().filter(|site| site.used.load(Ordering::Acquire))
    }
}

/// The loops of a client.
#[derive(Debug)]
pub(crate) struct Sites {
    pub(crate) list: Vec<Site>,
    /// Keeps loops that the client started for itself. Loops that were given belong to the giver, who may end them.
    #[expect(dead_code, reason = "it is there to be dropped")]
    own: Option<Loops>,
}

impl Sites {
    fn of(loops: &Loops) -> Self {
        let site = |handle| Site { handle, cells: Arc::default(), used: AtomicBool::new(false) };
        Self { list: loops.iter().map(site).collect(), own: None }
    }
}

/// One loop of a client.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) handle: LoopHandle,
    pub(crate) cells: Arc<Cells>,
    /// Whether a call was ever placed there, so that only those loops are visited at the end.
    pub(crate) used: AtomicBool,
}
