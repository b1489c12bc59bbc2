//! Other routes for a server, before it runs or while it does.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use anywire_advice::Advice;
use anywire_loops::{self as loops, Loops, Task, TaskError};

use super::services::Services;
use crate::router::{RouteError, Router};

/// The routes of a server, to be replaced: what [`ServerHandle::router`](super::ServerHandle::router) and
/// [`Server::router`](super::Server::router) return. It keeps nothing running.
#[derive(Clone)]
pub struct RouterHandle {
    server: Arc<Mutex<ServerState>>,
}

/// Whose routes they are.
enum ServerState {
    /// Those of a server that does not run yet, and will have these if there are any.
    Waiting(Option<Arc<Router>>),
    Running {
        services: Weak<Services>,
        loops: Loops,
    },
}

impl Default for RouterHandle {
    fn default() -> Self {
        Self { server: Arc::new(Mutex::new(ServerState::Waiting(None))) }
    }
}

impl RouterHandle {
    /// The routes that were replaced before the start.
    pub(super) fn take(&self) -> Option<Arc<Router>> {
        match &mut *self.lock() {
            ServerState::Waiting(router) => router.take(),
            ServerState::Running { .. } => None,
        }
    }

    /// The same, which stay.
    pub(super) fn waiting(&self) -> Option<Arc<Router>> {
        match &*self.lock() {
            ServerState::Waiting(router) => router.clone(),
            ServerState::Running { .. } => None,
        }
    }

    /// Ties the handle to this server, which serves nobody yet. Routes that were given meanwhile are put in place first, so that an earlier
    /// call never wins over a later one.
    pub(super) fn run(&self, services: &Arc<Services>, loops: &Loops) -> Result<(), RouteError> {
        loop {
            let mut server = self.lock();
            let ServerState::Waiting(next) = &mut *server else { return Ok(()) };
            let Some(next) = next.take() else {
                let (services, loops) = (Arc::downgrade(services), loops.clone());
                *server = ServerState::Running { services, loops };
                return Ok(());
            };
            // Without the lock: building calls code of layers.
            drop(server);
            let exchanged = services.exchange(&next);
            // Unless right ones have come meanwhile.
            if exchanged.is_err() && self.waiting().is_none() {
                return exchanged;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another router in the place of the one that serves, within the same layers of the server.
    ///
    /// Each loop changes over at one of its turns, so for a moment loops differ; the result is ready once all have. A request that is
    /// under way keeps the routes that it was found by, and their limits. On each loop the states of the old router, and what its layers
    /// have there, are dropped when its last handler has answered. Connections stay open, and those that have left HTTP, too.
    ///
    /// With `Router::openapi` the document is made anew, here: a type that is inlined within itself, by `#[schemars(inline)]` or
    /// `#[serde(flatten)]`, overflows a stack and so ends the process. A test of `Router::openapi_document` finds it before.
    ///
    /// Of several calls at once the last one holds. Before the start of the server, it starts with these routes. After its end this does
    /// nothing.
    ///
    /// ```
    /// use anywire_server::{Router, Server};
    ///
    /// let server = Server::new(Router::new().get("/", async || "closed")).loops(1).listen("tcp:127.0.0.1:0").start()?;
    /// let routes = server.router();
    /// routes.replace(Router::new().get("/", async || "open"))?.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Mistakes of the new routes, as from [`Server::start`](super::Server::start). The old ones go on then.
    pub fn replace(&self, router: Router) -> Result<Replacing, RouteError> {
        // Building, and the destructors of former routers, run code of users: without the lock.
        if matches!(&*self.lock(), ServerState::Waiting(_)) {
            router.build()?;
        }
        let router = Arc::new(router);
        let mut server = self.lock();
        let (services, loops) = match &mut *server {
            ServerState::Running { services, loops } => (services.upgrade(), loops.clone()),
            ServerState::Waiting(next) => {
                let before = next.replace(router);
                drop(server);
                drop(before);
                return Ok(Replacing::new(Vec::new()));
            }
        };
        drop(server);
        let tasks = services.map(|services| services.replace(&router, &loops)).transpose()?;
        Ok(Replacing::new(tasks.unwrap_or_default()))
    }
}

impl std::fmt::Debug for RouterHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouterHandle").finish_non_exhaustive()
    }
}

/// Routes on their way to all loops: await it on any runtime, or [wait](Self::wait) for it. Dropped, it goes on alone.
#[must_use = "loops change over in the background; `.await` or `.wait()` for the last one"]
pub struct Replacing {
    tasks: Vec<Task<()>>,
    failed: Option<ReplaceError>,
}

/// Loops that go on with the old routes, because they could not take the new ones over. The others have them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "replacing routes: {loops} of the loops keep the old ones, because a state of the new ones panicked as it was cloned \
     there: {panic}{help}",
    help = Advice("replace them again by routes whose states can be cloned")
)]
pub struct ReplaceError {
    /// How many there are.
    pub loops: usize,
    /// What the last panic said.
    pub panic: String,
}

impl Replacing {
    pub(crate) fn new(tasks: Vec<Task<()>>) -> Self {
        Self { tasks, failed: None }
    }

    /// Blocks until each loop has changed over. Not to be called on a loop.
    ///
    /// # Errors
    /// [`ReplaceError`] if some could not.
    pub fn wait(self) -> Result<(), ReplaceError> {
        loops::block_on(self)
    }
}

impl Future for Replacing {
    type Output = Result<(), ReplaceError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(task) = self.tasks.last_mut() {
            let changed = ready!(Pin::new(task).poll(cx));
            self.tasks.pop();
            // A loop that has ended serves nothing.
            if let Err(TaskError::Panicked(panic)) = changed {
                let loops = self.failed.as_ref().map_or(1, |failed| failed.loops + 1);
                self.failed = Some(ReplaceError { loops, panic });
            }
        }
        Poll::Ready(self.failed.take().map_or(Ok(()), Err))
    }
}
