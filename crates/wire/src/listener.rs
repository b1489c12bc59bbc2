//! Listening: connections arrive on the loops that will serve them.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anywire_loops::{LoopHandle, Loops, Task, clock};

use crate::address::Address;
use crate::connection::Connection;
use crate::error::{ListenError, out_of_descriptors};
use crate::seats::Seats;
use crate::wires::{Acceptor, Arrival, Bound};

/// How to listen.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Connections that the system holds until they are accepted (1024; the system may have a lower limit).
    pub backlog: u32,
    /// Mode of a socket file, such as `0o660`; set before anybody can connect (`None`: by the umask).
    pub unix_mode: Option<u32>,
    /// Connections open at once; at the limit accepting pauses (`None`: 90 % of the process's descriptor limit).
    pub max_connections: Option<usize>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 1024, unix_mode: None, max_connections: None }
    }
}

/// An address that is listened on, and not yet served: peers wait in the system's backlog.
pub struct Listener {
    bound: Bound,
    loops: Loops,
    seats: Arc<Seats>,
}

impl Listener {
    /// Starts to listen, for these loops.
    ///
    /// # Errors
    /// [`ListenError`] says which address and what would help.
    pub fn bind(address: &Address, options: &ListenOptions, loops: &Loops) -> Result<Self, ListenError> {
        let bound = address.wire().bind(address, options, loops.len())?;
        let max = options.max_connections.unwrap_or_else(connections_by_descriptors);
        Ok(Self { bound, loops: loops.clone(), seats: Seats::new(max.max(1)) })
    }

    /// Where it listens, with the port that the system chose.
    pub fn local(&self) -> &Address {
        &self.bound.local
    }

    /// Accepts from now on, and calls `serve` with each connection on the loop that it will live on.
    ///
    /// A wire with one socket a loop (TCP) leaves the spread to the system; arrivals at a single socket (Unix) are
    /// handed to the loops in turn.
    pub fn serve(self, serve: impl Fn(Connection) + Clone + Send + 'static) -> ListenerHandle {
        let Bound { local, acceptors, guard } = self.bound;
        let spread = acceptors.len() < self.loops.len();
        let stats = Arc::new(Stats::default());
        let tasks = acceptors.into_iter().zip(self.loops.iter()).map(|(acceptor, handle)| {
            let others = if spread { self.loops.iter().collect() } else { Vec::new() };
            let (serve, seats, stats) = (serve.clone(), Arc::clone(&self.seats), Arc::clone(&stats));
            let address = local.clone();
            handle.spawn(move || Accepting { acceptor, others, serve, seats, stats, address }.run())
        });
        let tasks = Mutex::new(tasks.collect());
        ListenerHandle { local, seats: self.seats, stats, tasks, guard: Mutex::new(guard) }
    }
}

/// A listener that serves; dropping it stops it.
pub struct ListenerHandle {
    local: Address,
    seats: Arc<Seats>,
    stats: Arc<Stats>,
    tasks: Mutex<Vec<Task<()>>>,
    guard: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// What a listener has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerCounters {
    /// Connections open now.
    pub open: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// How often accepting paused because [`ListenOptions::max_connections`] were open.
    pub pauses: u64,
    /// How often accepting failed because descriptors or kernel memory had run out.
    pub descriptor_exhaustions: u64,
}

impl ListenerHandle {
    /// Where it listens, with the port that the system chose.
    pub fn local(&self) -> &Address {
        &self.local
    }

    /// What has been counted so far.
    pub fn counters(&self) -> ListenerCounters {
        ListenerCounters {
            open: self.seats.taken() as u64,
            accepted: self.stats.accepted.load(Ordering::Relaxed),
            pauses: self.seats.pauses(),
            descriptor_exhaustions: self.stats.descriptor_exhaustions.load(Ordering::Relaxed),
        }
    }

    /// Stops listening: the address is free again when this returns (on a loop: soon after). Connections go on.
    pub fn stop(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(Task::abort);
        if anywire_loops::current().is_none() {
            for task in tasks {
                // Aborted or ended: either way its socket is closed.
                let _ = task.wait();
            }
        }
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Default)]
struct Stats {
    accepted: AtomicU64,
    descriptor_exhaustions: AtomicU64,
}

/// The task that accepts from one socket.
struct Accepting<F> {
    acceptor: Box<dyn Acceptor>,
    /// The loops to spread over; none if everything that arrives here stays here.
    others: Vec<LoopHandle>,
    serve: F,
    seats: Arc<Seats>,
    stats: Arc<Stats>,
    address: Address,
}

impl<F: Fn(Connection) + Clone + Send + 'static> Accepting<F> {
    async fn run(mut self) {
        let mut next = 0;
        let mut pause = PAUSE_MIN;
        let mut logged: Option<Instant> = None;
        loop {
            let failed = match poll_fn(|cx| self.acceptor.poll_accept(cx)).await {
                Ok(arrival) => {
                    pause = PAUSE_MIN;
                    self.stats.accepted.fetch_add(1, Ordering::Relaxed);
                    self.deliver(arrival, next).await;
                    next += 1;
                    continue;
                }
                Err(failed) => failed,
            };
            if is_of_the_peer(&failed) {
                continue;
            }
            if out_of_descriptors(&failed) {
                self.stats.descriptor_exhaustions.fetch_add(1, Ordering::Relaxed);
            }
            let now = clock::now();
            if logged.is_none_or(|last| now.duration_since(last) >= LOG_EVERY) {
                logged = Some(now);
                tracing::warn!(address = %self.address, error = %failed, "accepting failed; trying again soon");
            }
            // The socket stays readable, so without a pause this would spin; connections in hand are served meanwhile.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn deliver(&self, arrival: Box<dyn Arrival>, next: usize) {
        let seat = self.seats.take().await;
        let address = self.address.clone();
        let serve = self.serve.clone();
        let settle = move || match arrival.settle() {
            Ok(transport) => serve(Connection::seated(transport, seat)),
            Err(error) => tracing::warn!(%address, %error, "a connection could not be taken"),
        };
        match self.others.get(next % self.others.len().max(1)) {
            Some(other) if !other.is_current() => drop(other.spawn(move || async move { settle() })),
            _ => settle(),
        }
    }
}

/// Errors that belong to one connection which ended before it was accepted, and say nothing of the listener.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Most of the descriptors, but not all: files, dials and the log need some, too.
fn connections_by_descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX) / 10 * 9)
}

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const LOG_EVERY: Duration = Duration::from_secs(1);
