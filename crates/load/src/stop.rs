//! The handle that ends a run early, from any thread: Ctrl-C of a command, a test, another task.

use std::sync::Arc;

use tokio::sync::watch;

/// Ends each run and comparison that holds a clone. The result so far is kept and flagged `interrupted`.
#[derive(Debug, Clone)]
pub struct Stop {
    said: Arc<watch::Sender<bool>>,
}

impl Stop {
    /// A handle that has not been used.
    pub fn new() -> Self {
        Self { said: Arc::new(watch::Sender::new(false)) }
    }

    /// Ends them; saying it again changes nothing.
    pub fn stop(&self) {
        self.said.send_replace(true);
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        *self.said.borrow()
    }

    /// Waits until [`Stop::stop`] is called.
    pub(crate) async fn stopped(&self) {
        // Cannot fail: the sender lives in `self`.
        let _ = self.said.subscribe().wait_for(|said| *said).await;
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}
