//! What a loop shares with other threads.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anywire_sys::cpu;

use crate::counters::{Counts, LoopCounters, LoopState};
use crate::handle::Job;
use crate::handle::LoopId;
use crate::inbox::Inbox;
use crate::limits::Limits;

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
            state: AtomicU8::new(LoopState::Running as u8),
            started: Instant::now(),
            ended: Mutex::new(None),
            has_ended: Condvar::new(),
        }
    }

    pub(crate) fn counters(&self) -> LoopCounters {
        let ended = *self.lock_ended();
        let (busy, up) = match ended {
            Some(ended) => (ended.busy, ended.up),
            // The thread may be gone between the two questions; then there is nothing to read.
            None => (cpu::thread_run_time(self.thread_id).unwrap_or_default(), self.started.elapsed()),
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
            busy,
            up,
        }
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
        let busy = cpu::current_thread_cpu().unwrap_or_default().total();
        *self.lock_ended() = Some(Ended { tasks_cut, busy, up: self.started.elapsed() });
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
    busy: Duration,
    up: Duration,
}
