//! The server: addresses, loops and limits around a router; start, signals, shutdown with a deadline.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anywire_loops::{self as loops, Loops, Task};
use anywire_wire::{
    Address, AddressError, Connection, ConnectionLimit, ListenError, ListenOptions, Listener, ListenerHandle,
    ToAddress,
};

use crate::connection::ConnectionTask;
use crate::counters::{Counters, Live};
use crate::limits::Limits;
use crate::router::{RouteError, Router, Table};
use crate::service::{Ending, Service};

/// A server: what it answers, where, and on how many loops.
///
/// ```no_run
/// use anywire_server::{Path, Router, Server};
///
/// fn main() -> Result<(), anywire_server::ServerError> {
///     Server::new(Router::new().get("/hello/{name}", async |Path(name): Path<String>| format!("Hello, {name}!")))
///         .listen("tcp:0.0.0.0:8080")
///         .listen("unix:/run/app.sock")
///         .run()?;
///     Ok(())
/// }
/// ```
pub struct Server {
    router: Router,
    addresses: Vec<Result<Address, AddressError>>,
    listen: ListenOptions,
    limits: Limits,
    loops: LoopChoice,
    shutdown_deadline: Duration,
}

enum LoopChoice {
    PerCore,
    Count(usize),
    Given(Loops),
}

/// Why a server cannot start, or could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The routes are not right; their author's fault.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// An address is malformed; the caller's fault.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// An address cannot be listened on: in use, not permitted, not there.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// No address was given.
    #[error("the server has nowhere to listen; add .listen(\"tcp:127.0.0.1:8080\")")]
    NoAddress,
    /// The loops did not start: the system gave no thread or no descriptor.
    #[error(transparent)]
    Loops(#[from] loops::StartError),
    /// The signals that end a server cannot be watched.
    #[error("watching for SIGTERM and SIGINT failed")]
    Signals(#[source] io::Error),
}

impl Server {
    /// A server for these routes, with one loop a core.
    #[must_use]
    pub fn new(router: Router) -> Self {
        Self {
            router,
            addresses: Vec::new(),
            listen: ListenOptions::default(),
            limits: Limits::default(),
            loops: LoopChoice::PerCore,
            shutdown_deadline: Duration::from_secs(60),
        }
    }

    /// Listens here, too: an [`Address`] or its text, such as `tcp:0.0.0.0:8080` or `unix:/run/app.sock`. [`start`](Self::start)
    /// reports what is wrong with it.
    #[must_use]
    pub fn listen(mut self, address: impl ToAddress) -> Self {
        self.addresses.push(address.to_address());
        self
    }

    /// How to listen: backlog, file mode and the like.
    #[must_use]
    pub fn listen_options(mut self, options: ListenOptions) -> Self {
        self.listen = options;
        self
    }

    /// The limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs on so many loops of its own instead of one a core.
    #[must_use]
    pub fn loops(mut self, count: usize) -> Self {
        self.loops = LoopChoice::Count(count);
        self
    }

    /// Runs on these loops, which may serve others as well and outlive the server.
    #[must_use]
    pub fn on(mut self, loops: &Loops) -> Self {
        self.loops = LoopChoice::Given(loops.clone());
        self
    }

    /// How long [`run`](Self::run) waits after a signal for requests to finish (60 s).
    #[must_use]
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.shutdown_deadline = deadline;
        self
    }

    /// Starts and returns once every address is listened on. Raises the process's soft limit of file descriptors to
    /// the hard one: each connection takes one.
    ///
    /// # Errors
    /// Routes, addresses and listening are checked in this order; the first mistake is returned, and nothing runs.
    pub fn start(self) -> Result<Running, ServerError> {
        let table = Arc::new(self.router.build()?);
        let addresses = self.addresses.into_iter().collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(ServerError::NoAddress);
        }
        let (loops, owns_loops) = match self.loops {
            LoopChoice::PerCore => (Loops::start(anywire_sys::cpu::available_cores().len())?, true),
            LoopChoice::Count(count) => (Loops::start(count)?, true),
            LoopChoice::Given(loops) => (loops, false),
        };
        // The default limit of connections follows from it, so it comes first.
        if let Err(cause) = anywire_sys::descriptors::raise_limit() {
            tracing::warn!(%cause, "the limit of file descriptors stays as it is");
        }
        let limit = self.limits.connections.map_or_else(ConnectionLimit::default, ConnectionLimit::new);
        // All addresses are bound before the first connection is taken: a server starts whole or not at all.
        let listeners: Result<Vec<Listener>, ListenError> =
            addresses.iter().map(|address| Listener::bind(address, &self.listen, &loops)).collect();
        let live: Arc<[Arc<Live>]> = (0..loops.len()).map(|_| Arc::default()).collect();
        let blueprint = Arc::new(Blueprint {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            table,
            limits: self.limits,
            live: Arc::clone(&live),
        });
        let listeners = listeners?.into_iter().map(|listener| {
            let blueprint = Arc::clone(&blueprint);
            listener.limited_by(&limit).serve(move |connection| blueprint.serve(connection))
        });
        let listeners = listeners.collect();
        let shutdown_deadline = self.shutdown_deadline;
        Ok(Running {
            blueprint,
            loops,
            owns_loops,
            listeners,
            limit,
            shutdown_deadline,
            signals: None,
            signal_task: None,
        })
    }

    /// Starts, and serves until SIGTERM or SIGINT; then stops accepting, lets requests finish until the shutdown
    /// deadline, and returns. A second signal ends it at once. Blocks the calling thread.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn run(self) -> Result<Shutdown, ServerError> {
        let mut running = self.start()?;
        running.heed_signals()?;
        for address in running.addresses() {
            tracing::info!(%address, "listening");
        }
        running.wait_for_signal()
    }
}

/// A server that serves; dropping it stops it at once.
#[must_use = "dropping a running server stops it"]
pub struct Running {
    blueprint: Arc<Blueprint>,
    loops: Loops,
    owns_loops: bool,
    listeners: Vec<ListenerHandle>,
    limit: ConnectionLimit,
    shutdown_deadline: Duration,
    /// Where signals are told, once they are heeded; and how to tell more.
    signals: Option<(mpsc::Sender<Event>, mpsc::Receiver<Event>)>,
    /// Who tells them.
    signal_task: Option<SignalTask>,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// Connections that were aborted because their request had not ended at the deadline.
    pub connections_cut: usize,
}

impl Running {
    /// Where it listens, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.listeners.iter().map(ListenerHandle::local)
    }

    /// The loops that it runs on.
    pub fn loops(&self) -> &Loops {
        &self.loops
    }

    /// What it has counted so far, summed over all loops.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters { accept_pauses: self.limit.pauses(), ..Counters::default() };
        self.blueprint.live.iter().for_each(|live| live.add_to(&mut sum));
        sum
    }

    /// Stops accepting, closes idle connections, lets the others finish their request (its answer says
    /// `Connection: close`), and aborts what is left at the deadline. Blocks; not to be called on a loop.
    pub fn shutdown(mut self, deadline: Duration) -> Shutdown {
        self.listeners.iter().for_each(ListenerHandle::stop);
        let (report, reports) = mpsc::channel();
        for handle in self.loops.iter() {
            let (blueprint, report) = (Arc::clone(&self.blueprint), report.clone());
            drop(handle.spawn(move || async move {
                let cut = blueprint.end(deadline).await;
                // The receiver is gone only if the thread that waited for it is.
                let _ = report.send(cut);
            }));
        }
        drop(report);
        let connections_cut = reports.iter().sum();
        self.listeners.clear();
        drop(self.signal_task.take());
        if self.owns_loops {
            // Nothing of this server is left on them; on a loop, where this may not be called, they end by themselves.
            let _ = self.loops.shutdown(Duration::from_secs(1));
        }
        Shutdown { connections_cut }
    }

    /// From now on SIGTERM and SIGINT no longer kill the process: [`wait_for_signal`](Self::wait_for_signal), which does
    /// this itself, ends the server in order instead. To be called before somebody is told that the server is there, who
    /// might send one at once. Blocks for a moment; not to be called on a loop.
    ///
    /// ```no_run
    /// # use anywire_server::{Router, Server};
    /// let mut running = Server::new(Router::new()).listen("tcp:127.0.0.1:0").start()?;
    /// running.heed_signals()?;
    /// running.addresses().for_each(|address| println!("listening on {address}"));
    /// running.wait_for_signal()?;
    /// # Ok::<(), anywire_server::ServerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Signals`].
    pub fn heed_signals(&mut self) -> Result<(), ServerError> {
        if self.signals.is_some() {
            return Ok(());
        }
        let (sender, events) = mpsc::channel();
        let (registered, registration) = mpsc::channel();
        let signals = Signals(sender.clone());
        let task = self.loops.get(0).spawn(move || async move {
            let mut received = match loops::Signals::register() {
                Ok(signals) => signals,
                Err(cause) => return drop(registered.send(Err(cause))),
            };
            drop(registered.send(Ok(())));
            loop {
                received.recv().await;
                // The receiver is gone only if the server has ended already.
                if signals.0.send(Event::Signal).is_err() {
                    return;
                }
            }
        });
        registration.recv().unwrap_or_else(|_| Err(loops_have_ended())).map_err(ServerError::Signals)?;
        (self.signals, self.signal_task) = (Some((sender, events)), Some(SignalTask(task)));
        Ok(())
    }

    /// Serves until SIGTERM or SIGINT, and ends as [`Server::run`] does: for those who have something to say between
    /// start and end. Blocks; not to be called on a loop.
    ///
    /// # Errors
    /// [`ServerError::Signals`], also if its loops end meanwhile; the server has stopped then.
    pub fn wait_for_signal(mut self) -> Result<Shutdown, ServerError> {
        self.heed_signals()?;
        let (sender, events) = self.signals.take().expect("signals are heeded");
        // Nobody else is left to end it: the process no longer dies of the signal.
        if let Ok(Event::Deaf) = events.recv() {
            return Err(ServerError::Signals(loops_have_ended()));
        }
        let deadline = self.shutdown_deadline;
        tracing::info!(?deadline, "shutting down; a second signal ends it at once");
        let (blueprint, loops) = (Arc::clone(&self.blueprint), self.loops.clone());
        std::thread::spawn(move || sender.send(Event::Ended(self.shutdown(deadline))));
        loop {
            match events.recv() {
                Ok(Event::Ended(shutdown)) => return Ok(shutdown),
                Ok(Event::Signal) => blueprint.cut(&loops),
                // The end has begun, and comes to its own.
                Ok(Event::Deaf) => {}
                Err(mpsc::RecvError) => return Ok(Shutdown { connections_cut: 0 }),
            }
        }
    }
}

/// What the thread that runs a server waits for.
enum Event {
    Signal,
    /// No signal will be told any more.
    Deaf,
    Ended(Shutdown),
}

/// Where signals are told; says so when that is over, be it because the loop has ended.
struct Signals(mpsc::Sender<Event>);

impl Drop for Signals {
    fn drop(&mut self) {
        // Nobody waits for them once the server has ended.
        let _ = self.0.send(Event::Deaf);
    }
}

/// A task that waits for signals no longer than the server is there.
struct SignalTask(Task<()>);

impl Drop for SignalTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn loops_have_ended() -> io::Error {
    io::Error::other("the server's loops have ended")
}

/// What every loop needs to make its [`Service`].
struct Blueprint {
    /// Tells servers on the same loops apart.
    id: u64,
    table: Arc<Table>,
    limits: Limits,
    live: Arc<[Arc<Live>]>,
}

impl Blueprint {
    /// Serves a connection on the loop that it arrived on.
    fn serve(&self, connection: Connection) {
        let service = self.service();
        if service.ending() == Ending::No {
            drop(loops::spawn(ConnectionTask::new(connection, service)));
        }
    }

    /// This loop's service, made at its first connection.
    fn service(&self) -> Rc<Service> {
        let services: Rc<RefCell<HashMap<u64, Rc<Service>>>> = loops::local(RefCell::default);
        let mut services = services.borrow_mut();
        let service = services.entry(self.id).or_insert_with(|| {
            let index = loops::current().map_or(0, |handle| handle.id().index());
            Rc::new(Service::new(Arc::clone(&self.table), self.limits.clone(), Arc::clone(&self.live[index])))
        });
        Rc::clone(service)
    }

    /// Aborts every connection now.
    fn cut(self: &Arc<Self>, loops: &Loops) {
        for handle in loops.iter() {
            let blueprint = Arc::clone(self);
            drop(handle.spawn(move || async move { blueprint.service().end(Ending::Cut) }));
        }
    }

    /// Ends this loop's part of the server; how many connections had to be cut.
    async fn end(&self, deadline: Duration) -> usize {
        let service = self.service();
        service.end(Ending::Draining);
        let finished = tokio::time::timeout(deadline, service.emptied()).await;
        let cut = if finished.is_ok() { 0 } else { service.open() };
        service.end(Ending::Cut);
        service.emptied().await;
        let services: Rc<RefCell<HashMap<u64, Rc<Service>>>> = loops::local(RefCell::default);
        services.borrow_mut().remove(&self.id);
        cut
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);
