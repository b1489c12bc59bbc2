//! What a loop shares with other threads.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anywire_sys::cpu;
use tokio::runtime::RuntimeMetrics;

use crate::counters::{Counts, LoopCounters, LoopState};
use crate::handle::Job;
use crate::handle::LoopId;
use crate::inbox::Inbox;
use crate::limits::Limits;
use crate::stalls::{Turn, Watched};
use crate::work::Work;

/// One loop as all threads see it. Handles keep it alive after the loop has ended.
pub(crate) struct Shared {
    pub(crate) id: LoopId,
    /// The number of the [`Loops`](crate::Loops) that it belongs to.
    pub(crate) group: u64,
    /// The core the thread is pinned to.
    pub(crate) core: Option<usize>,
    /// The kernel's number of the thread.
    pub(crate) thread_id: i32,
    pub(crate) inbox: Inbox<Job>,
    pub(crate) counts: Counts,
    pub(crate) work: Work,
    /// From when on a turn is a stall.
    pub(crate) stall_after: Duration,
    watched: Mutex<Watched>,
    /// The most busy time that was told: it never goes back.
    busy_told_ns: AtomicU64,
    /// What the runtime counts, while there is one. It keeps the runtime alive, whose hooks keep this alive.
    runtime: Mutex<Option<RuntimeMetrics>>,
    /// A [`LoopState`] as a number.
    state: AtomicU8,
    started: Instant,
    ended: Mutex<Option<Ended>>,
    has_ended: Condvar,
}

impl Shared {
    /// For the calling thread, which is about to become a loop.
    pub(crate) fn new(id: LoopId, group: u64, core: Option<usize>, limits: Limits) -> Self {
        Self {
            id,
            group,
            core,
            thread_id: cpu::thread_id(),
            inbox: Inbox::new(limits.hand_overs_waiting),
            counts: Counts::default(),
            work: Work::default(),
            stall_after: limits.stall_after,
            watched: Mutex::default(),
            busy_told_ns: AtomicU64::new(0),
            runtime: Mutex::new(None),
            state: AtomicU8::new(LoopState::Running as u8),
            started: Instant::now(),
            ended: Mutex::new(None),
            has_ended: Condvar::new(),
        }
    }

    pub(crate) fn counters(&self) -> LoopCounters {
        let ended = *self.lock_ended();
        let Used { busy, cpu, up } = match ended {
            Some(ended) => ended.used,
            // The thread may be gone between the two questions; then there is nothing to read.
            None => self.used(cpu::thread_run_time(self.thread_id).unwrap_or_default()),
        };
        let (stalls, longest_stall) = {
            let watched = self.watched();
            (watched.stalls, watched.longest_stall)
        };
        LoopCounters {
            id: self.id,
            state: self.state(),
            tasks_live: self.counts.tasks_live.value(),
            tasks_spawned: self.counts.tasks_spawned.value(),
            panics: self.counts.panics.value(),
            hand_overs: self.counts.hand_overs.value(),
            wake_ups: self.inbox.wake_ups(),
            refused: self.inbox.refused(),
            spins: self.counts.spins.value(),
            spins_in_vain: self.counts.spins_in_vain.value(),
            stalls,
            longest_stall,
            busy,
            cpu,
            up,
        }
    }

    /// What the loop has used so far, with so much CPU time.
    fn used(&self, cpu: Duration) -> Used {
        let turn = self.turn().map_or(Duration::ZERO, |turn| {
            turn.before.saturating_add(self.watched().lasts(Instant::now(), turn))
        });
        let up = self.started.elapsed();
        // Looking for work of sources, and at sockets, is no part of a turn.
        let busy = turn.max(cpu).min(up);
        // The runtime counts a turn from a moment later than the one at which it was seen. What was told stays.
        let ns = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
        let busy = Duration::from_nanos(self.busy_told_ns.fetch_max(ns, Relaxed).max(ns));
        Used { busy, cpu, up }
    }

    /// Called when the loop has its runtime.
    pub(crate) fn has_runtime(&self, runtime: RuntimeMetrics) {
        *self.runtime.lock().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
    }

    /// Which turn the loop is in, while it has its runtime.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        runtime.as_ref().map(|runtime| Turn {
            sleeps: runtime.worker_park_unpark_count(0),
            before: runtime.worker_total_busy_duration(0),
        })
    }

    pub(crate) fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> LoopState {
        const STATES: [LoopState; 3] = [LoopState::Running, LoopState::Ended, LoopState::Died];
        STATES[usize::from(self.state.load(Relaxed))]
    }

    /// Says that the loop no longer takes work. Called by its thread.
    pub(crate) fn set_state(&self, state: LoopState) {
        self.state.store(state as u8, Relaxed);
    }

    /// Records the end of the loop; called by its thread as the last thing.
    pub(crate) fn end(&self, tasks_cut: u64) {
        let used = self.used(cpu::current_thread_cpu().unwrap_or_default().total());
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        *self.lock_ended() = Some(Ended { tasks_cut, used });
        self.has_ended.notify_all();
    }

    /// Waits for the loop to end; the number of tasks it cut, or `None` if it has not ended by then.
    pub(crate) fn wait_for_end(&self, until: Instant) -> Option<u64> {
        let patience = until.saturating_duration_since(Instant::now());
        let (ended, _) = self
            .has_ended
            .wait_timeout_while(self.lock_ended(), patience, |ended| ended.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        ended.map(|ended| ended.tasks_cut)
    }

    fn lock_ended(&self) -> MutexGuard<'_, Option<Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last figures of a loop.
#[derive(Clone, Copy)]
struct Ended {
    tasks_cut: u64,
    used: Used,
}

/// Time that a loop has used.
#[derive(Clone, Copy)]
struct Used {
    busy: Duration,
    cpu: Duration,
    up: Duration,
}
