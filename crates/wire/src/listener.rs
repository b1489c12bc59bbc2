//! Listening: connections arrive on the loops that will serve them.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anywire_loops::{LoopHandle, Loops, Task, clock};
use anywire_sys::descriptors;

use crate::address::Address;
use crate::connection::{Connection, Credentials, cooperate};
use crate::error::{ListenError, out_of_descriptors};
use crate::seats::{Seat, Seats};
use crate::wires::{Acceptor, Arrival, Bound};

/// How to listen.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Connections that the system holds until they are accepted (1024; the system may have a lower limit).
    pub backlog: u32,
    /// Mode of a socket file, such as `0o660`; set before anybody can connect (`None`: by the umask).
    pub unix_mode: Option<u32>,
    /// Connections open at once; at the limit accepting pauses (`None`: 90 % of the process's descriptor limit). One
    /// more a loop may have been accepted by then; it is served in its turn.
    pub max_connections: Option<usize>,
    /// Whose connections are taken (`None`: everybody's). An abstract Unix name has no file permissions, so there this
    /// is the only lock on the door.
    pub allowed_peers: Option<AllowedPeers>,
}

/// Users and groups that may connect, judged by [`Credentials`]; one match is enough. A wire that does not know its
/// peers lets nobody in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedPeers {
    /// Effective users.
    pub uids: Vec<u32>,
    /// Effective groups; those that a peer has beside its own are not looked at.
    pub gids: Vec<u32>,
}

impl AllowedPeers {
    fn permit(&self, peer: Option<Credentials>) -> bool {
        peer.is_some_and(|peer| self.uids.contains(&peer.uid) || self.gids.contains(&peer.gid))
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 1024, unix_mode: None, max_connections: None, allowed_peers: None }
    }
}

/// An address that is listened on, and not yet served: peers wait in the system's backlog.
pub struct Listener {
    bound: Bound,
    loops: Loops,
    common: Arc<Common>,
}

impl Listener {
    /// Starts to listen, for these loops. Blocks while a name resolves; an IP address needs no such wait.
    ///
    /// # Errors
    /// [`ListenError`] says which address and what would help.
    pub fn bind(address: &Address, options: &ListenOptions, loops: &Loops) -> Result<Self, ListenError> {
        let bound = address.wire().bind(address, options, loops.len())?;
        let max = options.max_connections.unwrap_or_else(connections_by_descriptors);
        let common = Common {
            address: bound.local.clone(),
            allowed_peers: options.allowed_peers.clone(),
            seats: Seats::new(max),
            accepted: AtomicU64::new(0),
            refused_peers: AtomicU64::new(0),
            descriptor_exhaustions: AtomicU64::new(0),
        };
        Ok(Self { bound, loops: loops.clone(), common: Arc::new(common) })
    }

    /// Where it listens, with the port that the system chose.
    pub fn local(&self) -> &Address {
        &self.bound.local
    }

    /// Accepts from now on, and calls `serve` with each connection on the loop that it will live on. Ends when the
    /// handle is stopped or dropped, or when the loops are told to stop.
    ///
    /// A wire with one socket a loop (TCP) leaves the spread to the system; arrivals at a single socket (Unix) are
    /// handed to the loops in turn. Should `serve` panic, that one connection is closed.
    pub fn serve(self, serve: impl Fn(Connection) + Clone + Send + 'static) -> ListenerHandle {
        let Bound { local: _, guard, acceptors } = self.bound;
        let spread = acceptors.len() < self.loops.len();
        let tasks = acceptors.into_iter().zip(self.loops.iter()).map(|(acceptor, handle)| {
            let others = if spread { self.loops.iter().collect() } else { Vec::new() };
            let (serve, common) = (serve.clone(), Arc::clone(&self.common));
            handle.spawn(move || Accepting { acceptor, others, serve, common }.run())
        });
        let tasks = Mutex::new(tasks.collect());
        ListenerHandle { common: self.common, tasks, guard: Mutex::new(guard) }
    }
}

/// A listener that serves; dropping it stops it.
pub struct ListenerHandle {
    common: Arc<Common>,
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
    /// Connections closed at once because [`ListenOptions::allowed_peers`] does not name their peer.
    pub refused_peers: u64,
    /// How often accepting failed because descriptors or kernel memory had run out.
    pub descriptor_exhaustions: u64,
}

impl ListenerHandle {
    /// Where it listens, with the port that the system chose.
    pub fn local(&self) -> &Address {
        &self.common.address
    }

    /// What has been counted so far.
    pub fn counters(&self) -> ListenerCounters {
        let common = &self.common;
        ListenerCounters {
            open: common.seats.taken() as u64,
            accepted: common.accepted.load(Ordering::Relaxed),
            pauses: common.seats.pauses(),
            refused_peers: common.refused_peers.load(Ordering::Relaxed),
            descriptor_exhaustions: common.descriptor_exhaustions.load(Ordering::Relaxed),
        }
    }

    /// Stops listening: the address is free again when this returns (on a loop: soon after). Connections go on.
    ///
    /// Waits for the loops, so a task that blocks one of them holds this up, too.
    pub fn stop(&self) {
        // Before the sockets close; see `Bound::guard`.
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(Task::abort);
        if anywire_loops::current().is_none() {
            for task in tasks {
                // Aborted or ended: either way its socket is closed.
                let _ = task.wait();
            }
        }
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the tasks of a listener share, and its handle.
struct Common {
    address: Address,
    allowed_peers: Option<AllowedPeers>,
    seats: Arc<Seats>,
    accepted: AtomicU64,
    refused_peers: AtomicU64,
    descriptor_exhaustions: AtomicU64,
}

impl Common {
    /// Binds an arrival to the present loop and has it served.
    fn settle(&self, arrival: Box<dyn Arrival>, seat: Seat, serve: &impl Fn(Connection)) {
        let transport = match arrival.settle() {
            Ok(transport) => transport,
            Err(error) => {
                tracing::warn!(address = %self.address, %error, "a connection could not be taken");
                return;
            }
        };
        let peer = || transport.credentials();
        if self.allowed_peers.as_ref().is_some_and(|allowed| !allowed.permit(peer())) {
            self.refused_peers.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(address = %self.address, peer = ?peer(), "a peer that is not allowed was turned away");
            return;
        }
        serve(Connection::seated(transport, seat));
    }
}

/// The task that accepts from one socket.
struct Accepting<F> {
    acceptor: Box<dyn Acceptor>,
    /// The loops to spread over; none if everything that arrives here stays here.
    others: Vec<LoopHandle>,
    serve: F,
    common: Arc<Common>,
}

impl<F: Fn(Connection) + Clone + Send + 'static> Accepting<F> {
    /// Until the loop is told to stop: its shutdown need not wait for this task.
    async fn run(self) {
        tokio::select! {
            biased;
            () = anywire_loops::stopping() => {}
            () = self.accept() => {}
        }
    }

    async fn accept(mut self) {
        let mut next = 0;
        let mut pause = PAUSE_MIN;
        let mut logged: Option<Instant> = None;
        loop {
            let failed = match poll_fn(|cx| cooperate(cx, |cx| self.acceptor.poll_accept(cx))).await {
                Ok(arrival) => {
                    pause = PAUSE_MIN;
                    self.common.accepted.fetch_add(1, Ordering::Relaxed);
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
                self.common.descriptor_exhaustions.fetch_add(1, Ordering::Relaxed);
            }
            let now = clock::now();
            if logged.is_none_or(|last| now.duration_since(last) >= LOG_EVERY) {
                logged = Some(now);
                tracing::warn!(address = %self.common.address, error = %failed, "accepting failed; trying again soon");
            }
            // The socket stays readable, so without a pause this would spin; connections in hand are served meanwhile.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn deliver(&self, arrival: Box<dyn Arrival>, next: usize) {
        let seat = self.common.seats.take().await;
        match self.others.get(next % self.others.len().max(1)) {
            Some(other) if !other.is_current() => {
                let (common, serve) = (Arc::clone(&self.common), self.serve.clone());
                drop(other.spawn(move || async move { common.settle(arrival, seat, &serve) }));
            }
            _ => {
                let settling = AssertUnwindSafe(|| self.common.settle(arrival, seat, &self.serve));
                if let Err(panic) = catch_unwind(settling) {
                    // In a task of its own, where the loop counts and logs it, and this one goes on accepting.
                    drop(anywire_loops::spawn(async move { resume_unwind(panic) }));
                }
            }
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
    usize::try_from(descriptors::limit().soft).unwrap_or(usize::MAX) / 10 * 9
}

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const LOG_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::{Context, Poll};

    use super::*;

    /// Gives what it was told to, and notes when it is asked.
    struct Scripted {
        outcomes: VecDeque<io::Result<()>>,
        asked: Arc<Mutex<Vec<tokio::time::Instant>>>,
    }

    impl Acceptor for Scripted {
        fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
            self.asked.lock().expect("no panic").push(tokio::time::Instant::now());
            let Some(outcome) = self.outcomes.pop_front() else { return Poll::Pending };
            Poll::Ready(outcome.map(|()| Box::new(crate::memory::pair("scripted").0) as Box<dyn Arrival>))
        }
    }

    /// The milliseconds between each of these outcomes and the next try.
    async fn pauses(outcomes: impl IntoIterator<Item = io::Result<()>>) -> (Vec<u128>, u64) {
        let (asked, outcomes) = (Arc::default(), outcomes.into_iter().collect::<VecDeque<_>>());
        let count = outcomes.len();
        let acceptor = Box::new(Scripted { outcomes, asked: Arc::clone(&asked) });
        let common = Arc::new(Common {
            address: "memory:scripted".parse().expect("an address"),
            allowed_peers: None,
            seats: Seats::new(1),
            accepted: AtomicU64::new(0),
            refused_peers: AtomicU64::new(0),
            descriptor_exhaustions: AtomicU64::new(0),
        });
        let accepting = Accepting { acceptor, others: Vec::new(), serve: drop, common: Arc::clone(&common) };
        // An hour of a clock that moves on by itself: then it waits for what comes next.
        tokio::time::timeout(Duration::from_secs(3600), accepting.accept()).await.expect_err("it goes on");
        let asked = asked.lock().expect("no panic");
        let pauses = asked.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).take(count).collect();
        (pauses, common.descriptor_exhaustions.load(Ordering::Relaxed))
    }

    fn no_descriptor() -> io::Result<()> {
        Err(rustix::io::Errno::MFILE.into())
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_doubles_up_to_a_second_and_a_success_ends_that() {
        let failures = || (0..10).map(|_| no_descriptor());
        let (pauses, exhaustions) = pauses(failures().chain([Ok(())]).chain(failures().take(2))).await;
        let doubling = [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000];
        assert_eq!(pauses, [&doubling[..], &[0, 5, 10]].concat());
        assert_eq!(exhaustions, 12);
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_the_system_has_run_out_of_counts() {
        use rustix::io::Errno;

        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
            assert_eq!(pauses([Err(errno.into())]).await, (vec![5], 1), "{errno}");
        }
        assert_eq!(pauses([Err(Errno::PERM.into())]).await, (vec![5], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_has_left_costs_no_pause() {
        let left = || Err(io::ErrorKind::ConnectionAborted.into());
        let (pauses, exhaustions) = pauses([left(), left(), Ok(()), left()]).await;
        assert_eq!((pauses, exhaustions), (vec![0; 4], 0));
    }
}
