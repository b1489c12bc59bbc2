//! How a connection hears that callers have left, without asking for each call in each turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

/// Woken from any thread, once for all of them.
#[derive(Debug, Default)]
pub(super) struct Departures {
    is_any: AtomicBool,
    task: OnceLock<Waker>,
}

impl Departures {
    /// Sets the connection's task, which is always the same.
    pub(super) fn set_task(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
    }

    /// Whether a caller has left since it was last asked.
    pub(super) fn take(&self) -> bool {
        // A load alone in most turns.
        self.is_any.load(Ordering::Acquire) && self.is_any.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Departures {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_any.store(true, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}
