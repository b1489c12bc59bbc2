//! The handle that ends a run early, from any thread: Ctrl-C of a command, a test, another task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Ends each run and comparison that holds a clone. The result so far is kept and flagged `interrupted`.
#[derive(Debug, Clone)]
pub struct Stop {
    /// One load, so that a loop of nanoseconds may look at it in each turn.
    is_stopped: Arc<AtomicBool>,
    said: Arc<watch::Sender<bool>>,
}

impl Stop {
    /// A handle that has not been used.
    pub fn new() -> Self {
        Self { is_stopped: Arc::default(), said: Arc::new(watch::Sender::new(false)) }
    }

    /// Ends them; saying it again changes nothing.
    pub fn stop(&self) {
        // Before the tasks that wait are told: they ask.
        self.is_stopped.store(true, Ordering::Release);
        self.said.send_replace(true);
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Waits until [`Stop::stop`] is called.
    pub async fn stopped(&self) {
        // Cannot fail: the sender lives in `self`.
        let _ = self.said.subscribe().wait_for(|said| *said).await;
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}
