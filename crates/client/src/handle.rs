//! What keeps a client alive, and how it ends.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::inner::Inner;
use crate::local::Local;

/// How a client ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// Calls that were cut at the deadline.
    pub calls_cut: usize,
}

/// Counts the user's handles apart from the client's own references, so that the last user's drop ends the pools.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) Arc<Inner>);

impl Deref for Handle {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Handle {
    /// Takes no new call, and cuts the calls that are still under way at the deadline.
    pub(crate) async fn shutdown(&self, deadline: Duration) -> Shutdown {
        self.set_closed();
        let id = self.id();
        let close = move || async move {
            match Local::find(id) {
                Some(local) => local.shutdown(deadline).await,
                None => 0,
            }
        };
        let tasks: Vec<_> = self.used_loops().map(|one| one.handle.spawn(close)).collect();
        let mut shutdown = Shutdown::default();
        for task in tasks {
            // A loop that has stopped has no call left to cut.
            shutdown.calls_cut += task.await.unwrap_or(0);
        }
        shutdown
    }
}

impl Drop for Handle {
    /// The last handle is gone: idle connections close, calls under way finish.
    fn drop(&mut self) {
        self.set_closed();
        let id = self.id();
        for one in self.used_loops() {
            drop(one.handle.spawn(move || async move {
                if let Some(local) = Local::find(id) {
                    local.retire();
                }
            }));
        }
    }
}
