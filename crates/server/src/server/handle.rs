//! A server that runs: its counters, the signals that end it, and its shutdown.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use anywire_loops::{self as loops, Loops, Pool};
use anywire_wire::{Address, ListenerHandle};
use tokio::sync::oneshot;

use super::ServerError;
use super::routes::RouterHandle;
use super::services::Services;
use crate::counters::Counters;
use crate::signals::Signals;

/// A server that runs. Dropping it closes its addresses and cuts its connections at once.
#[must_use = "dropping the handle of a server stops it"]
pub struct ServerHandle {
    services: Arc<Services>,
    loops: Loops,
    owns_loops: bool,
    listeners: Vec<ListenerHandle>,
    shutdown_deadline: Duration,
    routes: RouterHandle,
    signals: Option<Signals>,
    has_ended: bool,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// Connections that were aborted because their request had not ended at the deadline, or at a second signal. Over HTTP/2 also
    /// those whose peer had not acknowledged the end, because it may have sent one more.
    pub connections_cut: usize,
}

impl ServerHandle {
    pub(super) fn new(
        services: Arc<Services>,
        loops: Loops,
        owns_loops: bool,
        listeners: Vec<ListenerHandle>,
        shutdown_deadline: Duration,
        routes: RouterHandle,
    ) -> Self {
        let (signals, has_ended) = (None, false);
        Self { services, loops, owns_loops, listeners, shutdown_deadline, routes, signals, has_ended }
    }

    /// Where it listens, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.listeners.iter().map(ListenerHandle::local)
    }

    /// The loops that it runs on.
    pub fn loops(&self) -> &Loops {
        &self.loops
    }

    /// The pool of this name that it was given, to read its counters and to change its size.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools().find(|pool| pool.name() == name)
    }

    /// All its pools.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.services.pools().iter()
    }

    /// Its routes, to be replaced while it runs.
    pub fn router(&self) -> RouterHandle {
        self.routes.clone()
    }

    /// Its counters, summed over all loops and addresses.
    pub fn counters(&self) -> Counters {
        let mut counters = self.services.counters();
        for listener in &self.listeners {
            counters.add_listener(&listener.counters());
        }
        counters
    }

    /// Stops accepting, lets requests finish that are under way or arrive within
    /// [`Limits::shutdown_grace`](crate::Limits::shutdown_grace) (the response says `Connection: close`), ends connections in
    /// order, and aborts what is left at the deadline. Handlers are told by [`Parts::stopping`](crate::Parts::stopping).
    ///
    /// Begins at once, on a thread of its own. Await the result on any runtime, or [wait](Stopping::wait) for it.
    pub fn shutdown(mut self, deadline: Duration) -> Stopping {
        // Without a thread the handle is dropped here, which ends the server at once.
        Stopping(on_own_thread(move || self.end(deadline)).ok())
    }

    fn end(&mut self, deadline: Duration) -> Shutdown {
        self.has_ended = true;
        self.listeners.iter().for_each(ListenerHandle::stop);
        let ending = self.services.end(&self.loops, deadline);
        // A loop that has ended meanwhile has cut its connections itself.
        let connections_cut = ending.into_iter().filter_map(|task| task.wait().ok()).sum();
        self.listeners.clear();
        self.signals = None;
        if self.owns_loops {
            // Nothing of this server is left on them, and this thread is no loop.
            let _ = self.loops.shutdown(Duration::from_secs(1));
        }
        Shutdown { connections_cut }
    }

    /// From now on SIGTERM and SIGINT no longer kill the process: [`wait_for_signal`](Self::wait_for_signal), which calls
    /// this itself, ends the server in order instead. Call it before you announce the server, because a signal may follow
    /// at once. Blocks for a moment; not to be called on a loop.
    ///
    /// ```no_run
    /// # use anywire_server::{Router, Server};
    /// let mut server = Server::new(Router::new()).listen("tcp:127.0.0.1:0").start()?;
    /// server.register_signals()?;
    /// server.addresses().for_each(|address| println!("listening on {address}"));
    /// server.wait_for_signal()?;
    /// # Ok::<(), anywire_server::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Signals`].
    pub fn register_signals(&mut self) -> Result<(), ServerError> {
        if self.signals.is_none() {
            self.signals = Some(Signals::register(&self.loops).map_err(ServerError::Signals)?);
        }
        Ok(())
    }

    /// Serves until SIGTERM or SIGINT, and ends as [`Server::run`](super::Server::run) does: for a program that has
    /// something to do between start and end. Blocks; not to be called on a loop.
    ///
    /// # Errors
    /// [`ServerError::Signals`], also if its loops end meanwhile; [`ServerError::ListenersEnded`] if no listener is left. The server has
    /// stopped then.
    pub fn wait_for_signal(mut self) -> Result<Shutdown, ServerError> {
        self.register_signals()?;
        loops::block_on(async move {
            let mut signals = self.signals.take().expect("they were registered above");
            let ended = {
                let ended = pin!(listeners_ended(&self.listeners));
                tokio::select! {
                    signal = signals.recv() => signal.map(|()| None).map_err(ServerError::Signals)?,
                    ended = ended => Some(ended),
                }
            };
            let deadline = self.shutdown_deadline;
            if let Some(ended) = ended {
                let _ = self.shutdown(deadline).await;
                return Err(ended);
            }
            tracing::info!(?deadline, "shutting down; a second signal ends it at once");
            let (services, loops) = (Arc::clone(&self.services), self.loops.clone());
            let mut stopping = self.shutdown(deadline);
            loop {
                tokio::select! {
                    shutdown = &mut stopping => return Ok(shutdown),
                    Ok(()) = signals.recv() => services.cut(&loops),
                }
            }
        })
    }
}

/// Waits until all of these have ended by themselves.
async fn listeners_ended(listeners: &[ListenerHandle]) -> ServerError {
    let mut last = None;
    for listener in listeners {
        let source = listener.failed().await;
        last = Some((listener.local().clone(), source));
    }
    match last {
        Some((address, source)) => ServerError::ListenersEnded { address, source },
        None => std::future::pending().await,
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        if !self.has_ended {
            self.listeners.clear();
            self.services.close(&self.loops);
        }
    }
}

/// A server on its way to its end: await it on any runtime, or [wait](Self::wait) for it. Dropped, it goes on alone.
#[must_use = "the server stops in the background; `.await` or `.wait()` for its end"]
pub struct Stopping(Option<oneshot::Receiver<Shutdown>>);

impl Stopping {
    /// Blocks until the server has ended. Not to be called on a loop.
    pub fn wait(self) -> Shutdown {
        loops::block_on(self)
    }
}

impl Future for Stopping {
    type Output = Shutdown;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Shutdown> {
        match &mut self.0 {
            Some(stopped) => Pin::new(stopped).poll(cx).map(Result::unwrap_or_default),
            None => Poll::Ready(Shutdown::default()),
        }
    }
}

/// Runs a blocking call on its own thread, so that any runtime can await it.
///
/// # Errors
/// The system gave no thread.
pub(super) fn on_own_thread<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (sender, receiver) = oneshot::channel();
    // A caller that no longer waits has dropped the receiver.
    thread::Builder::new().name("server".to_owned()).spawn(move || drop(sender.send(run())))?;
    Ok(receiver)
}
