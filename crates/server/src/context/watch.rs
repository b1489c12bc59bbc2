//! Something that happens once, and whom it wakes.

use std::cell::Cell;

use tokio::sync::Notify;

/// Whether something has happened, such as the end of a peer's direction, and the tasks to notify.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(super) has_happened: Cell<bool>,
    waiting: Notify,
}

impl Watch {
    pub(crate) fn notify(&self) {
        self.has_happened.set(true);
        self.waiting.notify_waiters();
    }

    pub(crate) async fn wait(&self) {
        while !self.has_happened.get() {
            self.waiting.notified().await;
        }
    }
}
