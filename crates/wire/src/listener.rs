//! Listening: connections arrive on the loops that will serve them.

use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anywire_loops::{LoopHandle, LoopState, Loops, Task, clock};
use tokio::sync::watch;
use tokio::task::coop;

use crate::address::{Address, ToAddress};
use crate::connection::{Connection, Credentials, cooperate};
use crate::error::{ListenError, out_of_descriptors};
use crate::handshakes::Handshakes;
use crate::limit::{ConnectionLimit, Permit};
use crate::socket_options::SocketOptions;
use crate::wires::{Acceptor, Arrival, Bound, Ended};

/// How to listen. What concerns one wire only, such as the mode of a socket file, is an option of the [`Address`].
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Connections that the system holds until they are accepted (1024; the system may have a lower limit).
    pub backlog: u32,
    /// Whose connections are taken (`None`: everybody's). An abstract Unix name has no file permissions, so this is its
    /// only protection.
    pub allowed_peers: Option<AllowedPeers>,
    /// For the handshake of a connection, on wires that have one (10 s). Handshakes run side by side, and a connection
    /// counts as open meanwhile.
    pub handshake_timeout: Duration,
    /// Handshakes under way on each loop (1024). At the limit the oldest one is ended, so that silent peers cannot lock
    /// others out. A message of TLS's handshake takes 96 KiB at most, so those of a loop hold 96 MiB at worst. A handshake that
    /// takes 200 ms is done in time, unless 5000 newer ones a second come to its loop, which is more than a core makes.
    pub handshakes_max: usize,
    /// What is set on TCP sockets before they listen, and so on each connection (nothing).
    pub socket: SocketOptions,
    /// Application protocols to agree on in the handshake (ALPN), the preferred one first; none by default.
    pub protocols: Vec<String>,
    /// Makes what a peer is sent that speaks clear text where TLS is spoken, in its own language, before it is refused
    /// (`None`: it is sent nothing). It is given the peer's first bytes.
    #[cfg(feature = "tls")]
    pub answer_to_clear_text: Option<crate::tls::AnswerToClearText>,
    /// Certificates and more for wires that speak TLS, which do not listen without.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::ServerTls>,
}

/// Users and groups that may connect, judged by [`Credentials`]; one match is enough. A wire that does not know its
/// peers admits none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedPeers {
    /// Effective users.
    pub uids: Vec<u32>,
    /// Effective groups; supplementary groups are not looked at.
    pub gids: Vec<u32>,
}

impl AllowedPeers {
    fn permit(&self, peer: Option<Credentials>) -> bool {
        peer.is_some_and(|peer| self.uids.contains(&peer.uid) || self.gids.contains(&peer.gid))
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 1024,
            allowed_peers: None,
            handshake_timeout: Duration::from_secs(10),
            handshakes_max: 1024,
            socket: SocketOptions::default(),
            protocols: Vec::new(),
            #[cfg(feature = "tls")]
            answer_to_clear_text: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// An address that is listened on, and not yet served: peers wait in the system's backlog.
pub struct Listener {
    bound: Bound,
    loops: Loops,
    options: ListenOptions,
    limit: ConnectionLimit,
}

impl Listener {
    /// Starts to listen at an [`Address`] or its text, for these loops. Blocks while a name resolves; an IP address needs no such wait.
    ///
    /// # Errors
    /// [`ListenError`] says which address and what would help.
    pub fn bind(
        address: impl ToAddress,
        options: &ListenOptions,
        loops: &Loops,
    ) -> Result<Self, ListenError> {
        let address = address.to_address()?;
        let bound = address.wire().bind(&address, options, loops.len())?;
        Ok(Self { bound, loops: loops.clone(), options: options.clone(), limit: ConnectionLimit::default() })
    }

    /// Shares this limit of open connections instead of one of its own with the default value. At the limit accepting
    /// pauses, and peers wait in the system's backlog. Each loop may have accepted one more, which is served as soon as
    /// a permit is free.
    #[must_use]
    pub fn limited_by(mut self, limit: &ConnectionLimit) -> Self {
        self.limit = limit.clone();
        self
    }

    /// Where it listens, with the port that the system chose.
    pub fn local(&self) -> &Address {
        &self.bound.local
    }

    /// Accepts from now on, and calls `serve` with each connection on the loop that it will live on. Ends when the
    /// handle is stopped or dropped, or when the loops are told to stop.
    ///
    /// A wire with one socket for each loop (TCP) leaves the spread to the system. Connections of a single socket
    /// (Unix) are distributed round-robin. If `serve` panics, that one connection is closed. A loop that has died gets no
    /// more connections, and if it was the one that accepted, another one accepts.
    pub fn serve(self, serve: impl Fn(Connection) + Clone + Send + 'static) -> ListenerHandle {
        let Bound { local, guard, acceptors } = self.bound;
        let common = Arc::new(Common {
            address: local,
            allowed_peers: self.options.allowed_peers,
            handshakes: Handshakes::new(self.options.handshake_timeout, self.options.handshakes_max),
            limit: self.limit,
            stopped: watch::Sender::new(false),
            failed: watch::Sender::new(None),
            tasks: Mutex::default(),
            accepting: AtomicUsize::new(acceptors.len().min(self.loops.len())),
            accepted: AtomicU64::new(0),
            refused_peers: AtomicU64::new(0),
            descriptor_exhaustions: AtomicU64::new(0),
        });
        let spread = acceptors.len() < self.loops.len();
        for (acceptor, home) in acceptors.into_iter().zip(self.loops.iter()) {
            let loops = if spread { self.loops.iter().collect() } else { Vec::new() };
            let (serve, common) = (serve.boxed(), Arc::clone(&common));
            let acceptor = Some(acceptor);
            Accepting { acceptor, arrival: None, home, loops, next: 0, serve, failed: None, common }.start();
        }
        ListenerHandle { common, guard: Mutex::new(guard) }
    }
}

/// A listener that serves; dropping it stops it.
pub struct ListenerHandle {
    common: Arc<Common>,
    guard: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// What a listener has counted since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerCounters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed at once because [`ListenOptions::allowed_peers`] does not name their peer.
    pub refused_peers: u64,
    /// Handshakes under way now.
    pub handshakes_under_way: u64,
    /// Handshakes made, on wires that have one.
    pub handshakes: u64,
    /// Of these, how many resumed an earlier session.
    pub resumed_handshakes: u64,
    /// Connections closed because their handshake failed.
    pub failed_handshakes: u64,
    /// Of these, how many peers spoke clear text where TLS is spoken.
    pub clear_text_peers: u64,
    /// Connections closed because their handshake took longer than [`ListenOptions::handshake_timeout`].
    pub handshake_timeouts: u64,
    /// Connections closed because [`ListenOptions::handshakes_max`] were under way, and theirs was the oldest.
    pub ended_handshakes: u64,
    /// How often accepting failed because descriptors or kernel memory had run out.
    pub descriptor_exhaustions: u64,
}

impl ListenerHandle {
    /// Where it listens, with the port that the system chose.
    pub fn local(&self) -> &Address {
        &self.common.address
    }

    /// The limit of open connections, which tells how many are open.
    pub fn limit(&self) -> &ConnectionLimit {
        &self.common.limit
    }

    /// The counters.
    pub fn counters(&self) -> ListenerCounters {
        let common = &self.common;
        let mut counters = ListenerCounters {
            accepted: common.accepted.load(Ordering::Relaxed),
            refused_peers: common.refused_peers.load(Ordering::Relaxed),
            descriptor_exhaustions: common.descriptor_exhaustions.load(Ordering::Relaxed),
            ..ListenerCounters::default()
        };
        common.handshakes.add_to(&mut counters);
        counters
    }

    /// Waits until the listener has ended by itself, and says why: its device was removed, or its driver has failed on each loop. Its
    /// connections have failed by then. Never ready otherwise.
    pub fn failed(&self) -> impl Future<Output = Arc<io::Error>> + Send + 'static {
        let mut failed = self.common.failed.subscribe();
        async move {
            let reason = failed.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
            match reason {
                Some(reason) => reason,
                // The handle is gone, and nobody can fail any more.
                None => std::future::pending().await,
            }
        }
    }

    /// Stops listening: the address is free again when this returns (on a loop: soon after). Connections go on, unless
    /// they are still in their handshake. Peers that have connected already are accepted before that, as far as the limit of
    /// connections allows: the system would reset them, with requests that they may have sent.
    ///
    /// Waits for the loops, so a task that blocks one of them holds this up, too.
    pub fn stop(&self) {
        // Before the sockets close; see `Bound::guard`.
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.common.stopped.send_replace(true);
        let tasks = std::mem::take(&mut *self.common.tasks());
        if anywire_loops::current().is_none() {
            for task in tasks {
                // However it ended, its socket is closed.
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
    handshakes: Handshakes,
    limit: ConnectionLimit,
    stopped: watch::Sender<bool>,
    /// Why it has ended by itself.
    failed: watch::Sender<Option<Arc<io::Error>>>,
    /// Those that accept, until it has stopped.
    tasks: Mutex<Vec<Task<()>>>,
    /// How many acceptors are left.
    accepting: AtomicUsize,
    accepted: AtomicU64,
    refused_peers: AtomicU64,
    descriptor_exhaustions: AtomicU64,
}

impl Common {
    fn tasks(&self) -> MutexGuard<'_, Vec<Task<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an arrival with the present loop, makes its handshake, and has it served.
    fn admit(self: &Arc<Self>, arrival: Box<dyn Arrival>, permit: Permit, serve: &dyn Serve) {
        let mut connection = match arrival.register() {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(address = %self.address, %error, "a connection could not be registered");
                return;
            }
        };
        let peer = || connection.credentials();
        if self.allowed_peers.as_ref().is_some_and(|allowed| !allowed.permit(peer())) {
            self.refused_peers.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(address = %self.address, peer = ?peer(), "a peer that is not allowed was turned away");
            return;
        }
        connection.hold(permit);
        // Plain wires have no handshake, so that they need no task. The task polls anew with a waker of its own.
        match connection.poll_handshake(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => {
                self.handshakes.count_success(&connection);
                serve.serve(connection);
            }
            Poll::Ready(Err(error)) => {
                self.handshakes.count_failure(&error);
                self.handshake_failed(&connection, &error);
            }
            Poll::Pending => {
                let (common, serve) = (Arc::clone(self), serve.boxed());
                drop(anywire_loops::spawn(async move { common.shake_hands(connection, serve).await }));
            }
        }
    }

    /// Serves the connection after its handshake. A listener or a loop that stops does not wait for it.
    async fn shake_hands(&self, mut connection: Connection, serve: Box<dyn Serve>) {
        let mut stopped = self.stopped.subscribe();
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = anywire_loops::stopping() => {}
            done = self.handshakes.make(&mut connection) => match done {
                Ok(()) => {
                    self.handshakes.count_success(&connection);
                    serve.serve(connection);
                }
                Err(error) => self.handshake_failed(&connection, &error),
            },
        }
    }

    /// Listening has failed for good. All its loops hear of it.
    fn end(&self, why: io::Error) {
        let is_first = self.failed.send_if_modified(|failed| {
            let is_first = failed.is_none();
            failed.get_or_insert_with(|| Arc::new(why));
            is_first
        });
        if is_first {
            let why = self.failed.borrow().clone();
            tracing::error!(address = %self.address, error = why.as_deref().map(tracing::field::display), "listening has ended");
            self.stopped.send_replace(true);
        }
    }

    /// An acceptor has ended, with this error if it has failed for good. The last one that does ends the listener.
    fn one_has_ended(&self, failed: Option<io::Error>) {
        let is_last = self.accepting.fetch_sub(1, Ordering::Relaxed) == 1;
        match failed {
            Some(why) if is_last => self.end(why),
            Some(why) => {
                tracing::error!(address = %self.address, error = %why, "listening has ended on one loop, and others go on");
            }
            None => {}
        }
    }

    fn handshake_failed(&self, connection: &Connection, error: &io::Error) {
        tracing::debug!(address = %self.address, peer = %connection.peer(), %error, "a handshake failed");
    }
}

/// The task that accepts from one socket.
struct Accepting {
    /// `None` once another loop has it.
    acceptor: Option<Box<dyn Acceptor>>,
    /// Accepted, and not yet permitted. It goes over to another loop as well.
    arrival: Option<Box<dyn Arrival>>,
    /// The loop that accepts.
    home: LoopHandle,
    /// The loops to spread over; none if connections stay on the loop that accepts them.
    loops: Vec<LoopHandle>,
    /// Whose turn it is among them.
    next: usize,
    serve: Box<dyn Serve>,
    /// Why this acceptor has ended, and not those of others.
    failed: Option<io::Error>,
    common: Arc<Common>,
}

/// What is called with each connection. One type for all, so that accepting is compiled here and not once more with each service.
trait Serve: Send {
    fn serve(&self, connection: Connection);

    /// A clone.
    fn boxed(&self) -> Box<dyn Serve>;
}

impl<F: Fn(Connection) + Clone + Send + 'static> Serve for F {
    fn serve(&self, connection: Connection) {
        self(connection);
    }

    fn boxed(&self) -> Box<dyn Serve> {
        Box::new(self.clone())
    }
}

impl Accepting {
    fn start(self) {
        let (home, common) = (self.home.clone(), Arc::clone(&self.common));
        // Past the limit of hand-overs: nobody would accept.
        let task = home.spawn_always(move || self.run());
        let mut tasks = common.tasks();
        if *common.stopped.borrow() {
            return task.abort();
        }
        tasks.push(task);
    }

    /// Until the listener is stopped, or the loop: its shutdown need not wait for this task.
    async fn run(mut self) {
        let mut stopped = self.common.stopped.subscribe();
        tokio::select! {
            biased;
            () = anywire_loops::stopping() => {}
            _ = stopped.wait_for(|stopped| *stopped) => self.accept_rest().await,
            () = self.accept() => {}
        }
    }

    /// Accepts those that wait now.
    async fn accept_rest(&mut self) {
        // The runtime asks the system meanwhile who does.
        tokio::task::yield_now().await;
        let mut cx = Context::from_waker(Waker::noop());
        if self.arrival.is_some() {
            let Some(permit) = self.common.limit.try_acquire() else { return };
            self.deliver(permit);
        }
        for _ in 0..REST_MAX {
            let accepted = coop::unconstrained(poll_fn(|_| Poll::Ready(self.poll_accept(&mut cx)))).await;
            let Poll::Ready(Ok(arrival)) = accepted else { return };
            let Some(permit) = self.common.limit.try_acquire() else { return };
            self.common.accepted.fetch_add(1, Ordering::Relaxed);
            self.arrival = Some(arrival);
            self.deliver(permit);
        }
    }

    async fn accept(&mut self) {
        let mut pause = PAUSE_MIN;
        let (mut failures, mut limits) = (Throttle::default(), Throttle::default());
        loop {
            if self.arrival.is_some() {
                let permit = self.permit(&mut limits).await;
                self.deliver(permit);
            }
            let failed = match poll_fn(|cx| cooperate(cx, |cx| self.poll_accept(cx))).await {
                Ok(arrival) => {
                    pause = PAUSE_MIN;
                    self.common.accepted.fetch_add(1, Ordering::Relaxed);
                    self.arrival = Some(arrival);
                    continue;
                }
                Err(failed) => failed,
            };
            if is_of_the_peer(&failed) {
                continue;
            }
            match self.acceptor.as_ref().and_then(|acceptor| acceptor.ended()) {
                Some(Ended::All) => return self.common.end(failed),
                Some(Ended::One) => {
                    self.failed = Some(failed);
                    return;
                }
                None => {}
            }
            if out_of_descriptors(&failed) {
                self.common.descriptor_exhaustions.fetch_add(1, Ordering::Relaxed);
            }
            if failures.is_due(LOG_FAILURE_EVERY) {
                tracing::warn!(address = %self.common.address, error = %failed, "accepting failed; trying again soon");
            }
            // The socket stays readable, so without a pause this would spin; connections in hand are served meanwhile.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn permit(&self, limits: &mut Throttle) -> Permit {
        let Common { address, limit, .. } = &*self.common;
        if let Some(permit) = limit.try_acquire() {
            return permit;
        }
        if limits.is_due(LOG_LIMIT_EVERY) {
            let limit = limit.max();
            tracing::warn!(%address, limit, "as many connections are open as the limit allows; accepting pauses");
        }
        limit.acquire().await
    }

    /// A panic of the wire costs one attempt.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Arrival>>> {
        let Some(acceptor) = &mut self.acceptor else { return Poll::Pending };
        let accepting = AssertUnwindSafe(|| acceptor.poll_accept(cx));
        catch_unwind(accepting).unwrap_or_else(|panic| {
            report(panic);
            Poll::Ready(Err(io::Error::other("the wire panicked")))
        })
    }

    fn deliver(&mut self, permit: Permit) {
        let Some(arrival) = self.arrival.take() else { return };
        match self.next_loop() {
            Some(other) if !other.is_current() => {
                let (common, serve) = (Arc::clone(&self.common), self.serve.boxed());
                // A loop with so much to do that it takes no hand-over counts that, and the connection is closed.
                drop(other.spawn(move || async move { common.admit(arrival, permit, &*serve) }));
            }
            _ => {
                let admitting = AssertUnwindSafe(|| self.common.admit(arrival, permit, &*self.serve));
                if let Err(panic) = catch_unwind(admitting) {
                    report(panic);
                }
            }
        }
    }

    /// The next one in turn of those that run.
    fn next_loop(&mut self) -> Option<LoopHandle> {
        let (before, from_turn) = self.loops.split_at(self.next % self.loops.len().max(1));
        let found = from_turn.iter().chain(before).find(|one| one.state() == LoopState::Running)?;
        self.next = found.id().index() + 1;
        Some(found.clone())
    }
}

impl Drop for Accepting {
    /// If its loop has died, another one accepts.
    fn drop(&mut self) {
        let Some(mut acceptor) = self.acceptor.take() else { return };
        let has_died = self.home.state() == LoopState::Died && !*self.common.stopped.borrow();
        let Some(home) = has_died.then(|| self.next_loop()).flatten() else {
            return self.common.one_has_ended(self.failed.take());
        };
        tracing::warn!(
            address = %self.common.address, died = %self.home.id(), accepts = %home.id(),
            "the loop that accepted has died; another one accepts"
        );
        acceptor.leave_loop();
        let (loops, serve) = (std::mem::take(&mut self.loops), self.serve.boxed());
        let (arrival, next, common) = (self.arrival.take(), self.next, Arc::clone(&self.common));
        Self { acceptor: Some(acceptor), arrival, home, loops, next, serve, failed: None, common }.start();
    }
}

/// Has a panic counted and logged by the loop, as that of a task of its own, so that the present task goes on.
fn report(panic: Box<dyn Any + Send>) {
    drop(anywire_loops::spawn(async move { resume_unwind(panic) }));
}

/// Keeps a message that could come with each connection out of the log for a while.
#[derive(Default)]
pub(crate) struct Throttle(Option<Instant>);

impl Throttle {
    pub(crate) fn is_due(&mut self, every: Duration) -> bool {
        let now = clock::now();
        let is_due = self.0.is_none_or(|last| now.duration_since(last) >= every);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// Errors of one connection that ended before it was accepted. They say nothing of the listener.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Connections that a listener accepts after it was told to stop. More come only from a peer that connects without end.
const REST_MAX: usize = 4096;
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const LOG_FAILURE_EVERY: Duration = Duration::from_secs(1);
const LOG_LIMIT_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
