//! What each loop counts.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::handle::LoopId;

/// The counters of one loop since it started, taken at one moment.
///
/// ```
/// let loops = anywire_loops::Loops::start(1)?;
/// loops.get(0).spawn(|| async {}).wait()?;
/// let counters = loops.get(0).counters();
/// assert_eq!((counters.tasks_spawned, counters.tasks_live, counters.panics), (1, 0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopCounters {
    /// Whose counters these are.
    pub id: LoopId,
    /// Whether the loop runs, and how it ended if it does not.
    pub state: LoopState,
    /// Tasks that run or wait now. Tasks given straight to tokio, past this crate, are not seen.
    pub tasks_live: u64,
    /// Tasks ever started, live ones included.
    pub tasks_spawned: u64,
    /// Panics that were caught and logged: of tasks, and of closures, destructors and wakers that ran on the loop.
    pub panics: u64,
    /// Closures that were taken out of the inbox, wherever they came from, and results of a [`Pool`](crate::Pool).
    pub hand_overs: u64,
    /// How often the loop slept and had to be woken for a hand-over: one write to an eventfd each.
    pub wake_ups: u64,
    /// Hand-overs refused because [`Limits::hand_overs_waiting`](crate::Limits::hand_overs_waiting) waited already.
    pub refused: u64,
    /// How often the loop looked for work of its [sources](crate::Source) in place of sleeping, in turns of some looks each.
    pub spins: u64,
    /// How often it did so for as long as it may and found nothing, so that it slept.
    pub spins_in_vain: u64,
    /// Turns that lasted longer than [`Limits::stall_after`](crate::Limits::stall_after): a task computed for long or blocked
    /// the loop, and all others waited. Counted while they last, as far as they were seen.
    pub stalls: u64,
    /// The longest of them, too short by 50 ms at most.
    pub longest_stall: Duration,
    /// Time in which the loop did not sleep: it computed, or a task blocked it. The present turn counts once it was seen, 25 ms
    /// after it began; if [`Limits::stall_after`](crate::Limits::stall_after) is `Duration::MAX`, when it is over.
    pub busy: Duration,
    /// CPU time that the loop's thread has used, user and system together.
    pub cpu: Duration,
    /// Time since the loop started; once it has ended, how long it ran.
    pub up: Duration,
}

impl LoopCounters {
    /// The part of its time that the loop did not sleep, whether it computed or a task blocked it: 0 to 1.
    pub fn busy_share(&self) -> f64 {
        if self.up.is_zero() {
            return 0.0;
        }
        (self.busy.as_secs_f64() / self.up.as_secs_f64()).min(1.0)
    }
}

/// Whether a loop runs, and how it ended if it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoopState {
    /// It takes hand-overs and runs tasks.
    Running,
    /// It was told to stop and has ended, or is dropping its last tasks. Later hand-overs end with
    /// [`TaskError::Stopped`](crate::TaskError::Stopped).
    Ended,
    /// Its runtime panicked, so it ended, and its tasks with it. Later hand-overs end with
    /// [`TaskError::Stopped`](crate::TaskError::Stopped), and [`Loops::pick`](crate::Loops::pick) skips the loop.
    ///
    /// A panic of a task never leads here. A panic of a waker that you wrote does, if the runtime's timers or sockets
    /// call that waker.
    Died,
}

/// The counters that only the loop itself writes.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) tasks_live: Counter,
    pub(crate) tasks_spawned: Counter,
    pub(crate) panics: Counter,
    pub(crate) hand_overs: Counter,
    pub(crate) spins: Counter,
    pub(crate) spins_in_vain: Counter,
}

/// A number with one writer and any number of readers, which need not be on the same thread.
///
/// Counting is a relaxed load and a store, not an atomic read-modify-write. So two threads must never write the same
/// counter: one of two counts would be lost.
///
/// ```
/// let requests = anywire_loops::Counter::default();
/// requests.increment();
/// requests.add(2);
/// assert_eq!(requests.value(), 3);
/// ```
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one. Only for the one writer, like all that change the number.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Takes one off.
    #[inline]
    pub fn decrement(&self) {
        self.subtract(1);
    }

    /// Adds `more`; wraps around at 2^64.
    #[inline]
    pub fn add(&self, more: u64) {
        self.set(self.value().wrapping_add(more));
    }

    /// Takes `less` off, which must not be more than there is.
    #[inline]
    pub fn subtract(&self, less: u64) {
        debug_assert!(self.value() >= less, "a counter went below zero");
        self.set(self.value().wrapping_sub(less));
    }

    /// Sets the number.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The number, as its writer left it a moment ago. For any thread.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
