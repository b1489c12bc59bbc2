//! How a connection hears that callers have left, without asking for each call in each turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

/// Woken from any thread, once for all of them.
#[derive(Debug, Default)]
pub(super) struct Left {
    has_left: AtomicBool,
    task: OnceLock<Waker>,
}

impl Left {
    /// Sets the connection's task, which is always the same.
    pub(super) fn set_task(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
    }

    /// Whether a caller has left since it was last asked.
    pub(super) fn take(&self) -> bool {
        // A load alone in most turns.
        self.has_left.load(Ordering::Acquire) && self.has_left.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Left {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_left.store(true, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}
