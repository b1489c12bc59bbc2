//! Other routes for a server that runs.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use anywire_loops::{self as loops, Loops, Task};

use super::services::Services;
use crate::router::{RouteError, Router};

/// The routes of a server that runs, to be replaced: what [`ServerHandle::router`](super::ServerHandle::router) returns. It keeps
/// nothing running.
#[derive(Clone)]
pub struct RouterHandle {
    services: Weak<Services>,
    loops: Loops,
}

impl RouterHandle {
    pub(super) fn new(services: &Arc<Services>, loops: &Loops) -> Self {
        Self { services: Arc::downgrade(services), loops: loops.clone() }
    }

    /// Puts another router in the place of the one that serves, within the same layers of the server.
    ///
    /// Each loop changes over at one of its turns, so for a moment loops differ; the result is ready once all have. A request that is
    /// under way keeps the routes that it was found by, and their limits. On each loop the states of the old router, and what its layers
    /// have there, are dropped when its last handler has answered. Connections stay open, and those that have left HTTP, too.
    ///
    /// Of several calls at once the last one holds. After the end of the server it does nothing.
    ///
    /// ```
    /// use anywire_server::{Router, Server};
    ///
    /// let server = Server::new(Router::new().get("/", async || "closed")).loops(1).listen("tcp:127.0.0.1:0").start()?;
    /// let routes = server.router();
    /// routes.replace(Router::new().get("/", async || "open"))?.wait();
    /// # Ok::<(), anywire_server::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// Mistakes of the new routes, as from [`Server::start`](super::Server::start). The old ones go on then.
    // By value as a server takes it: it is used up.
    #[expect(clippy::needless_pass_by_value, reason = "a router serves once")]
    pub fn replace(&self, router: Router) -> Result<Replacing, RouteError> {
        let tasks = match self.services.upgrade() {
            Some(services) => services.replace(&router, &self.loops)?,
            None => Vec::new(),
        };
        Ok(Replacing(tasks))
    }
}

impl std::fmt::Debug for RouterHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterHandle").finish_non_exhaustive()
    }
}

/// Routes on their way to all loops: await it on any runtime, or [wait](Self::wait) for it. Dropped, it goes on alone.
#[must_use = "loops change over in the background; `.await` or `.wait()` for the last one"]
pub struct Replacing(Vec<Task<()>>);

impl Replacing {
    /// Blocks until each loop has changed over. Not to be called on a loop.
    pub fn wait(self) {
        loops::block_on(self);
    }
}

impl Future for Replacing {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(task) = self.0.last_mut() {
            // A loop that has ended serves nothing.
            let _ = ready!(Pin::new(task).poll(cx));
            self.0.pop();
        }
        Poll::Ready(())
    }
}
