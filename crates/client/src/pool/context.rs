//! What the pools of one client on one loop have in common, and their connections need.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use anywire_loops::clock::precise;
use anywire_loops::deadline::Deadline;
use anywire_wire::Output;

use crate::Limits;
use crate::client::config::Config;
use crate::client::inner::Inner;
use crate::connection::h1::{Exchange, Slot};
use crate::connector::CapKey;
use crate::metrics::counters::Cells;
use crate::metrics::latencies::PhaseCells;
use crate::pool::quota::Quota;

/// One client's settings for an origin, shares of its limits, counters and free outputs on one loop.
pub(crate) struct LoopContext {
    client: Arc<LoopRef>,
    config: Arc<Config>,
    /// Which of the client's loops this is.
    pub(crate) index: usize,
    /// How many it has.
    loops: usize,
    pub(crate) cells: Arc<Cells>,
    /// Waiting calls per origin on this loop.
    pub(crate) queue: usize,
    /// Dials at a time per origin on this loop.
    pub(crate) dials: usize,
    /// Of the pool that has this context.
    traffic: Traffic,
    /// The latencies of its origin, if the client measures.
    phases: Option<Arc<PhaseCells>>,
    shared: Rc<Shared>,
}

/// Bytes that the connections of a pool have carried.
#[derive(Debug, Default)]
struct Traffic {
    received: Cell<u64>,
    sent: Cell<u64>,
}

/// What all pools of a client on one loop have in common, whatever options their origins have.
struct Shared {
    /// For the sweeping task, which holds it armed to the earliest deadline of all pools.
    timer: Deadline,
    next_sweep: Cell<Option<Instant>>,
    sweeper: RefCell<Option<Waker>>,
    /// What the caller of a waiting call wakes when it leaves.
    caller_left: Arc<CallerLeft>,
    caller_left_waker: Waker,
    /// A sweep is to happen now.
    kicked: Cell<bool>,
    free_outputs: RefCell<Vec<Output>>,
    free_slots: RefCell<Vec<Slot>>,
}

/// A loop's own reference to what the loops share. Futures of calls that are made on the loop clone this one, so that
/// loops which share a client do not pass one reference count to and fro.
#[derive(Debug)]
pub(crate) struct LoopRef {
    inner: Arc<Inner>,
}

impl LoopRef {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl LoopContext {
    /// For the loop `index` of the client.
    pub(crate) fn new(inner: &Arc<Inner>, index: usize) -> Self {
        let (loops, cells) = match inner.loops() {
            Ok(loops) => {
                // If it is shut down, the call is told when it is submitted.
                loops.list[index].take_calls();
                (loops.list.len(), Arc::clone(&loops.list[index].cells))
            }
            // A call can be on a loop only if there are loops.
            Err(_) => (1, Arc::default()),
        };
        let caller_left = Arc::<CallerLeft>::default();
        let shared = Shared {
            timer: Deadline::new(),
            next_sweep: Cell::new(None),
            sweeper: RefCell::new(None),
            caller_left_waker: Arc::clone(&caller_left).into(),
            caller_left,
            kicked: Cell::new(false),
            free_outputs: RefCell::default(),
            free_slots: RefCell::default(),
        };
        let client = Arc::new(LoopRef { inner: Arc::clone(inner) });
        Self::with(Arc::clone(inner.config()), client, index, loops, cells, Rc::new(shared))
    }

    fn with(
        config: Arc<Config>,
        client: Arc<LoopRef>,
        index: usize,
        loops: usize,
        cells: Arc<Cells>,
        shared: Rc<Shared>,
    ) -> Self {
        let limits = &config.limits;
        let owners = limits.connections_per_origin.min(loops);
        Self {
            // Only owners of connections get calls, so only they have a queue.
            queue: Limits::share(limits.queue_per_origin, index, owners),
            dials: Limits::share(limits.dials_per_origin, index, owners).max(1),
            client,
            config,
            index,
            loops,
            cells,
            traffic: Traffic::default(),
            phases: None,
            shared,
        }
    }

    /// The context of a pool, with the options of its origin.
    pub(crate) fn of_pool(&self, origin: &str) -> Rc<Self> {
        let config = self.inner().config_of(origin);
        let (client, cells) = (Arc::clone(&self.client), Arc::clone(&self.cells));
        let phases = config.measures.then(|| self.inner().latencies().of(origin, self.index));
        let context = Self::with(config, client, self.index, self.loops, cells, Rc::clone(&self.shared));
        Rc::new(Self { phases, ..context })
    }

    /// The histograms of the pool's origin, if the client measures.
    pub(crate) fn phases(&self) -> Option<&Arc<PhaseCells>> {
        self.phases.as_ref()
    }

    /// Bytes have come from a peer.
    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        self.cells.received_bytes.add(bytes as u64);
        self.traffic.received.update(|before| before + bytes as u64);
    }

    /// A peer was sent bytes.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        self.cells.sent_bytes.add(bytes as u64);
        self.traffic.sent.update(|before| before + bytes as u64);
    }

    /// Bytes that came to the pool, and those that it has sent.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        (self.traffic.received.get(), self.traffic.sent.get())
    }

    /// Whether the options of an origin are still these.
    pub(crate) fn is_current(&self, origin: &str) -> bool {
        Arc::ptr_eq(&self.inner().config_of(origin), &self.config)
    }

    /// The quota of a key, which the loops of the client share.
    pub(crate) fn quota_of(&self, key: CapKey) -> Arc<Quota> {
        let cap = |origin: &str| self.inner().config_of(origin).limits.connections_per_origin;
        self.inner().quotas().of(key, self.loops, cap)
    }

    pub(crate) fn client_ref(&self) -> &Arc<LoopRef> {
        &self.client
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.client.inner
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Counts the end of an idle connection whose lifetime lasts until then.
    pub(crate) fn count_end(&self, until: Instant) {
        let ended_by =
            if precise() < until { &self.cells.idle_timeouts } else { &self.cells.lifetimes_ended };
        ended_by.add(1);
    }

    /// The client's count of calls that their callers dropped.
    pub(crate) fn abandoned(&self) -> u64 {
        self.client.inner.abandoned()
    }

    /// Has the pools swept at `instant`, or before.
    pub(crate) fn sweep_by(&self, instant: Instant) {
        if self.shared.next_sweep.get().is_none_or(|next| instant < next) {
            self.shared.next_sweep.set(Some(instant));
            self.shared.timer.set_at(instant);
        }
    }

    /// Has the pools swept by the sweeping task as soon as it runs.
    pub(crate) fn kick(&self) {
        self.shared.kicked.set(true);
        if let Some(sweeper) = self.shared.sweeper.borrow().as_ref() {
            sweeper.wake_by_ref();
        }
    }

    /// Wakes the sweeping task, on whose next poll the queues drop calls whose callers have left.
    pub(crate) fn caller_left(&self) -> &Waker {
        &self.shared.caller_left_waker
    }

    /// Ready if a sweep is due. It has to set the next one by [`sweep_by`](Self::sweep_by).
    pub(crate) fn poll_sweep_due(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.caller_left.set_task(cx.waker());
        self.shared.sweeper.replace(Some(cx.waker().clone()));
        let expired = self.shared.timer.poll_expired(cx).is_ready();
        if !self.shared.kicked.take() && !expired {
            return Poll::Pending;
        }
        self.shared.next_sweep.set(None);
        self.shared.timer.clear();
        Poll::Ready(())
    }

    /// An output that another request on this loop has used, or a new one.
    pub(crate) fn take_output(&self) -> Output {
        self.shared.free_outputs.borrow_mut().pop().unwrap_or_default()
    }

    /// Gives an output back, empty or not.
    pub(crate) fn keep_output(&self, output: Output) {
        let mut free = self.shared.free_outputs.borrow_mut();
        if output.is_empty() && free.len() < FREE_OUTPUTS_MAX {
            free.push(output);
        }
    }

    /// A slot that another call on this loop has used, or a new one, with this exchange.
    pub(crate) fn take_slot(&self, exchange: Exchange) -> Slot {
        match self.shared.free_slots.borrow_mut().pop() {
            Some(mut slot) => {
                *slot = Some(exchange);
                slot
            }
            None => Box::new(Some(exchange)),
        }
    }

    /// Gives an empty slot back.
    pub(crate) fn keep_slot(&self, slot: Slot) {
        let mut free = self.shared.free_slots.borrow_mut();
        if free.len() < FREE_SLOTS_MAX {
            free.push(slot);
        }
    }
}

/// Wakes the sweeping task from any thread.
#[derive(Debug, Default)]
struct CallerLeft(Mutex<Option<Waker>>);

impl CallerLeft {
    fn set_task(&self, task: &Waker) {
        let replaced = self.lock().replace(task.clone());
        drop(replaced);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for CallerLeft {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = self.lock().clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Outputs are in use only from a request's encoding to its last byte, which is mostly one poll.
const FREE_OUTPUTS_MAX: usize = 16;

/// Slots of half a KiB each, in use from a request to the end of its response.
const FREE_SLOTS_MAX: usize = 128;
