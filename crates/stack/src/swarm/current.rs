//! The context of a thread: which task runs, the swarm that it belongs to, and its requests to the executor.
//!
//! The executor writes the number of the task and the time. The leaf futures write the task's requests: another poll, wakes of
//! other tasks, a time to sleep. The executor reads them after each poll. The context has a fixed place and no
//! destructor, so a future reaches it without a check and without a pointer.
//!
//! Limits: 256 wakes wait here (more go to a list), and a task sleeps in up to 8 futures a poll (more ask again).

use std::cell::{Cell, RefCell};

use anywire_sys::lent::Lent;
use anywire_tcp::Instant;

use super::context::SwarmState;

/// The context of one thread.
pub(super) struct Current {
    /// The index of the task that runs, [`NOBODY`] or [`LEAVING`].
    pub(super) current: Cell<u32>,
    /// The state of the swarm whose tasks run; none for [`Tasks`](super::Tasks) without an engine.
    pub(super) state: Lent<SwarmState>,
    /// The number of that swarm, to be read without borrowing the state; 0 for none.
    pub(super) swarm: Cell<u32>,
    pub(super) now_micros: Cell<u64>,
    /// [`AGAIN`], [`SLEEPS`] and [`WAKES_OTHERS`]: one read tells whether there is any request.
    requests: Cell<u8>,
    /// Positions in `wakes`, which only grow: wakes from `taken` up to `woken` wait, and the last poll made those from `seen` on.
    taken: Cell<usize>,
    seen: Cell<usize>,
    woken: Cell<usize>,
    wakes: [Cell<u32>; WAKES],
    slept: Cell<usize>,
    sleeps: [Cell<u64>; SLEEPS_A_POLL],
    /// Swarms of this thread, now and ever.
    pub(super) swarms: Cell<usize>,
    pub(super) swarms_ever: Cell<u32>,
    /// How many connections were ever dropped where their swarm did not run.
    pub(super) dropped_elsewhere: Cell<u64>,
}

impl Current {
    #[inline(always)]
    pub(super) fn request(&self, what: u8) {
        self.requests.set(self.requests.get() | what);
    }

    #[inline(always)]
    pub(super) fn wake(&self, index: u32) {
        let woken = self.woken.get();
        if woken - self.taken.get() == WAKES {
            return spill(index);
        }
        self.wakes[woken % WAKES].set(index);
        self.woken.set(woken + 1);
        self.request(WAKES_OTHERS);
    }

    /// `false` if this poll has had as many as it may.
    #[inline(always)]
    pub(super) fn sleep(&self, micros: u64) -> bool {
        let slept = self.slept.get();
        let Some(place) = self.sleeps.get(slept) else { return false };
        place.set(micros);
        self.slept.set(slept + 1);
        self.request(SLEEPS);
        true
    }

    /// Whether the last poll asked for anything.
    #[inline(always)]
    pub(super) fn has_requests(&self) -> bool {
        self.requests.get() != 0
    }

    /// What the last poll asked for, once.
    #[inline(always)]
    pub(super) fn take_requests(&self) -> u8 {
        self.requests.replace(0)
    }

    /// The position behind the last wake.
    #[inline(always)]
    pub(super) fn woken(&self) -> usize {
        self.woken.get()
    }

    /// Whether wakes wait here.
    #[inline(always)]
    pub(super) fn has_wakes(&self) -> bool {
        self.taken.get() != self.woken.get()
    }

    /// Shows the tasks that the last poll woke, once. The wakes stay here.
    #[inline(always)]
    pub(super) fn see_wakes(&self, mut see: impl FnMut(u32)) {
        for position in self.seen.replace(self.woken.get())..self.woken.get() {
            see(self.wakes[position % WAKES].get());
        }
    }

    /// Takes the first wakes, up to the position `end`, or all if there were more than fit here.
    #[inline(always)]
    pub(super) fn take_wakes(&self, end: usize, mut take: impl FnMut(u32)) {
        let spilled = self.woken.get() - self.taken.get() == WAKES;
        let end = if spilled { self.woken.get() } else { end };
        for position in self.taken.get()..end {
            take(self.wakes[position % WAKES].get());
        }
        self.taken.set(end);
        self.seen.set(self.seen.get().max(end));
        if spilled {
            SPILLED.take().into_iter().for_each(take);
        }
    }

    /// Takes the times that the last poll asked to sleep for.
    #[inline(always)]
    pub(super) fn take_sleeps(&self, mut take: impl FnMut(u64)) {
        let slept = self.slept.replace(0);
        for place in &self.sleeps[..slept] {
            take(place.get());
        }
    }

    /// No task runs. An executor begins with this, and leaves it behind even if it panics.
    fn clear(&self) {
        self.current.set(NOBODY);
        self.requests.set(0);
        self.slept.set(0);
        self.take_wakes(self.woken(), |_| ());
    }
}

#[cold]
fn spill(index: u32) {
    SPILLED.with_borrow_mut(|spilled| spilled.push(index));
}

/// Requests another poll of the running task: what its waker does.
pub(super) fn wake_current() {
    CURRENT.with(|cells| cells.request(AGAIN));
}

/// The tasks of one executor run on this thread until this is dropped.
pub(super) struct Running<'t> {
    pub(super) cells: &'t Current,
}

impl<'t> Running<'t> {
    /// # Panics
    ///
    /// If a task runs on this thread: two executors cannot share its cells.
    pub(super) fn begin(cells: &'t Current, now: Instant) -> Self {
        assert!(
            cells.current.get() == NOBODY,
            "a swarm was run inside of a task of a swarm: run it outside, or on another thread"
        );
        cells.clear();
        cells.now_micros.set(now.as_micros());
        Self { cells }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.cells.clear();
    }
}

/// An executor drops its tasks on this thread until this is dropped. The executor may itself be dropped inside of a task.
pub(super) struct Leaving<'t> {
    cells: &'t Current,
    outer: u32,
}

impl<'t> Leaving<'t> {
    pub(super) fn begin(cells: &'t Current) -> Self {
        Self { cells, outer: cells.current.replace(LEAVING) }
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.cells.current.set(self.outer);
        if self.outer == NOBODY {
            self.cells.clear();
        }
    }
}

thread_local! {
    pub(super) static CURRENT: Current = const {
        Current {
            current: Cell::new(NOBODY),
            state: Lent::new(),
            swarm: Cell::new(0),
            now_micros: Cell::new(0),
            requests: Cell::new(0),
            taken: Cell::new(0),
            seen: Cell::new(0),
            woken: Cell::new(0),
            wakes: [const { Cell::new(0) }; WAKES],
            slept: Cell::new(0),
            sleeps: [const { Cell::new(0) }; SLEEPS_A_POLL],
            swarms: Cell::new(0),
            swarms_ever: Cell::new(0),
            dropped_elsewhere: Cell::new(0),
        }
    };
    /// Wakes that did not fit into the cells.
    static SPILLED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Not an index: no task runs.
pub(super) const NOBODY: u32 = u32::MAX;
/// Not an index either: tasks are being dropped.
pub(super) const LEAVING: u32 = u32::MAX - 1;
/// The running task wants another poll.
pub(super) const AGAIN: u8 = 1;
/// The running task wants to be woken at a time.
pub(super) const SLEEPS: u8 = 2;
/// The running task has woken others.
pub(super) const WAKES_OTHERS: u8 = 4;
/// Wakes that wait here until their slots have come: enough for some dozen polls that wake several others each.
const WAKES: usize = 256;
/// A task that joins futures may sleep in several at once.
const SLEEPS_A_POLL: usize = 8;
