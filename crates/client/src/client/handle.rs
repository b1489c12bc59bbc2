//! What keeps a client alive, and how it ends.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::client::inner::Inner;
use crate::client::loops::ClientLoop;
use crate::pool::context::LoopRef;
use crate::pool::loop_pools::LoopPools;

/// How a client ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// Calls that were under way at the deadline, and cut. Those count whose callers had left, too, if their connections were still reading
    /// their responses or they were still in a queue.
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
        let inner = &self.0;
        let visit = |(index, one): (usize, &ClientLoop)| {
            let inner = Arc::clone(inner);
            one.handle.spawn_always(move || async move {
                inner.shut_down(index);
                match LoopPools::find(inner.id()) {
                    Some(local) => local.shutdown(deadline).await,
                    None => 0,
                }
            })
        };
        let used = self.started().iter().enumerate().filter(|(_, one)| !one.shut_down_if_new());
        let tasks: Vec<_> = used.map(visit).collect();
        let mut shutdown = Shutdown::default();
        for task in tasks {
            // A loop that has stopped has no call left to cut.
            shutdown.calls_cut += task.await.unwrap_or(0);
        }
        shutdown
    }
}

impl Drop for Handle {
    /// The last handle is gone: idle connections close, the calls that still hold the client finish.
    fn drop(&mut self) {
        self.set_retired();
        let id = self.id();
        for one in self.used_loops() {
            drop(one.handle.spawn_always(move || async move {
                if let Some(local) = LoopPools::find(id) {
                    local.retire();
                }
            }));
        }
    }
}

/// What keeps a client for as long as one of its calls is made or waits. On a loop that has served the client it is the
/// loop's own reference, so that loops which share a client do not pass one reference count to and fro.
#[derive(Debug, Clone)]
pub(crate) enum ClientRef {
    Client(Arc<Handle>),
    Loop(Arc<LoopRef>),
}

impl ClientRef {
    pub(crate) fn new(client: &Arc<Handle>) -> Self {
        match LoopPools::find(client.id()) {
            Some(local) => Self::Loop(local.client_ref()),
            None => Self::Client(Arc::clone(client)),
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        match self {
            Self::Client(client) => client,
            Self::Loop(client) => client.inner(),
        }
    }
}
