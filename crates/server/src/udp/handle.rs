//! A service of datagrams that runs: its counters, and its end.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use anywire_loops::{self as loops, LoopId, Loops, Task, clock};
use anywire_wire::udp::DatagramAddress;
use tokio::sync::{oneshot, watch};

use super::counters::{Counts, UdpCounters};
use super::server::UdpServerError;
use crate::signals::Signals;

/// A service of datagrams that runs. Dropping it closes its sockets at once.
#[must_use = "dropping the handle of a service stops it"]
pub struct UdpServerHandle {
    local: Vec<DatagramAddress>,
    loops: Loops,
    owns_loops: bool,
    parts: Parts,
    end: watch::Sender<Option<Instant>>,
    shutdown_deadline: Duration,
    signals: Option<Signals>,
}

/// One socket.
pub(super) struct Part {
    pub(super) home: LoopId,
    pub(super) counts: Arc<Counts>,
    /// `None` once it has ended.
    pub(super) task: Option<Task<()>>,
}

/// All sockets of a service, those included whose loop has died.
#[derive(Clone, Default)]
pub(super) struct Parts(Arc<Mutex<Vec<Part>>>);

impl Parts {
    pub(super) fn add(&self, part: Part) {
        self.lock().push(part);
    }

    fn take_task(&self) -> Option<Task<()>> {
        self.lock().iter_mut().find_map(|part| part.task.take())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Part>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a service of datagrams ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpShutdown {
    /// What it has counted until the end, summed over all loops.
    pub counters: UdpCounters,
    /// The same of each loop.
    pub by_loop: Vec<UdpCounters>,
}

impl UdpServerHandle {
    pub(super) fn new(
        local: Vec<DatagramAddress>,
        loops: Loops,
        owns_loops: bool,
        parts: Parts,
        end: watch::Sender<Option<Instant>>,
        shutdown_deadline: Duration,
    ) -> Self {
        Self { local, loops, owns_loops, parts, end, shutdown_deadline, signals: None }
    }

    /// Where it receives, in the order in which the addresses were given, with the ports that the system chose.
    pub fn addresses(&self) -> &[DatagramAddress] {
        &self.local
    }

    /// The loops that it runs on.
    pub fn loops(&self) -> &Loops {
        &self.loops
    }

    /// Its counters, summed over all loops and addresses.
    pub fn counters(&self) -> UdpCounters {
        self.sum(|_| true)
    }

    /// Its counters on each loop: how evenly datagrams are spread.
    pub fn counters_by_loop(&self) -> Vec<UdpCounters> {
        self.loops.iter().map(|one| self.sum(|part| part.home == one.id())).collect()
    }

    /// Ends in order. Datagrams that arrive from now on are refused, and earlier ones are answered. [Later](super::Later)
    /// replies are waited for. The deadline cuts the rest.
    ///
    /// Begins at once, on a thread of its own. Await the result on any runtime, or [wait](UdpStopping::wait) for it.
    pub fn shutdown(self, deadline: Duration) -> UdpStopping {
        let (sender, ended) = oneshot::channel();
        // Without a thread the handle is dropped here, which ends the service at once. If nobody waits, so be it.
        let stopping = move || drop(sender.send(self.finish(deadline)));
        let thread = thread::Builder::new().name("udp-server".to_owned()).spawn(stopping);
        UdpStopping(thread.is_ok().then_some(ended))
    }

    /// From now on SIGTERM and SIGINT no longer kill the process: [`wait_for_signal`](Self::wait_for_signal), which calls
    /// this itself, ends the service in order instead. Call it before you announce the service, because a signal may follow
    /// at once. Blocks for a moment; not to be called on a loop.
    ///
    /// # Errors
    /// [`UdpServerError::Signals`].
    pub fn register_signals(&mut self) -> Result<(), UdpServerError> {
        if self.signals.is_none() {
            self.signals = Some(Signals::register(&self.loops).map_err(UdpServerError::Signals)?);
        }
        Ok(())
    }

    /// Serves until SIGTERM or SIGINT, and ends as [`UdpServer::run`](super::UdpServer::run) does: for a program that has
    /// something to do between start and end. Blocks; not to be called on a loop.
    ///
    /// # Errors
    /// [`UdpServerError::Signals`], also if its loops end meanwhile; the service has stopped then.
    pub fn wait_for_signal(mut self) -> Result<UdpShutdown, UdpServerError> {
        self.register_signals()?;
        let mut signals = self.signals.take().expect("they were registered above");
        loops::block_on(signals.recv()).map_err(UdpServerError::Signals)?;
        Ok(self.finish(self.shutdown_deadline))
    }

    fn finish(&self, deadline: Duration) -> UdpShutdown {
        let deadline = clock::after(Instant::now(), deadline);
        self.end.send_replace(Some(deadline));
        // A dead loop's task ends behind the start of the one that follows it, so none is missed.
        while let Some(task) = self.parts.take_task() {
            // A loop that has ended meanwhile has closed the socket itself.
            let _ = task.wait();
        }
        let ended = UdpShutdown { counters: self.counters(), by_loop: self.counters_by_loop() };
        if self.owns_loops {
            // Nothing of this service is left on them, and this thread is no loop.
            let _ = self.loops.shutdown(Duration::from_secs(1));
        }
        ended
    }

    fn sum(&self, of: impl Fn(&Part) -> bool) -> UdpCounters {
        let mut sum = UdpCounters::default();
        for part in self.parts.lock().iter().filter(|part| of(part)) {
            sum += part.counts.copy();
        }
        sum
    }
}

/// A service on its way to its end: await it on any runtime, or [wait](Self::wait) for it. Dropped, it goes on alone.
#[must_use = "the service stops in the background; `.await` or `.wait()` for its end"]
pub struct UdpStopping(Option<oneshot::Receiver<UdpShutdown>>);

impl UdpStopping {
    /// Blocks until the service has ended. Not to be called on a loop.
    pub fn wait(self) -> UdpShutdown {
        loops::block_on(self)
    }
}

impl Future for UdpStopping {
    type Output = UdpShutdown;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<UdpShutdown> {
        match &mut self.0 {
            Some(ended) => Pin::new(ended).poll(cx).map(Result::unwrap_or_default),
            None => Poll::Ready(UdpShutdown::default()),
        }
    }
}
