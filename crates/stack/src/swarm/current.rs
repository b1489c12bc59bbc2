//! The cells through which the running task and its executor talk: one set for each thread.
//!
//! The executor writes down the number of the task and the time; the leaf futures write down the requests of the task: another
//! poll, the wake of others, a time to sleep. After each poll the executor looks here. The cells have a fixed place and
//! no destructor, so they are reached without a check, and an executor needs no pointer to be passed to a future.
//!
//! Limits: 256 wakes wait here (more go to a list), and a task sleeps in up to 8 futures a poll (more ask again).

use std::cell::{Cell, RefCell};

use anywire_tcp::Instant;

/// The cells of one thread.
pub(super) struct Current {
    pub(super) current: Cell<u32>,
    pub(super) now_micros: Cell<u64>,
    /// [`AGAIN`], [`SLEEPS`] and [`WAKES_OTHERS`]: one look tells whether there was anything.
    requests: Cell<u8>,
    /// Positions in `wakes`, which count on: those between wait here, and those from `seen` on are of the last poll.
    taken: Cell<usize>,
    seen: Cell<usize>,
    woken: Cell<usize>,
    wakes: [Cell<u32>; WAKES],
    slept: Cell<usize>,
    sleeps: [Cell<u64>; SLEEPS_A_TURN],
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

    /// Shows those whom the last poll woke, once; they stay here.
    #[inline(always)]
    pub(super) fn see_wakes(&self, mut see: impl FnMut(u32)) {
        for position in self.seen.replace(self.woken.get())..self.woken.get() {
            see(self.wakes[position % WAKES].get());
        }
    }

    /// Takes the first wakes, up to the position `end`; all, if there were more than fit here.
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

/// Says to the executor that the running task wants another poll: what its waker does.
pub(super) fn wake_current() {
    CURRENT.with(|cells| cells.request(AGAIN));
}

/// Whether tasks are being dropped on this thread, with their executor or one of them alone.
pub(super) fn is_leaving() -> bool {
    CURRENT.with(|cells| cells.current.get() == LEAVING)
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

/// Tasks are dropped on this thread until this is: of an executor that is dropped itself, perhaps inside of a task.
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
            now_micros: Cell::new(0),
            requests: Cell::new(0),
            taken: Cell::new(0),
            seen: Cell::new(0),
            woken: Cell::new(0),
            wakes: [const { Cell::new(0) }; WAKES],
            slept: Cell::new(0),
            sleeps: [const { Cell::new(0) }; SLEEPS_A_TURN],
        }
    };
    /// Wakes that did not fit into the cells.
    static SPILLED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// No task has this index: none runs.
pub(super) const NOBODY: u32 = u32::MAX;
/// No task has this index either: one is being dropped.
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
const SLEEPS_A_TURN: usize = 8;
