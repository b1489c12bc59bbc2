//! A listen queue: one host's part of a service, its backlog, and where cables wait until the host is there.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use anywire_advice::Advice;

use super::cable::End;

/// One host's part of a service; made by [`Mesh::listen`](super::Mesh::listen). Dropping it refuses the waiting
/// clients.
#[derive(Debug)]
pub struct ListenQueue {
    pub(super) queue: Arc<Queue>,
}

impl ListenQueue {
    /// Connections that may wait to be accepted.
    pub fn backlog(&self) -> usize {
        self.queue.backlog
    }

    /// The connection from there was accepted: its place is free for the next one.
    pub fn note_accepted(&self, from: SocketAddr) {
        self.queue.free(from);
    }
}

impl Drop for ListenQueue {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// A connection in a listen queue, until the connection is accepted or this is dropped.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) queue: Arc<Queue>,
    pub(super) from: SocketAddr,
}

impl Queued {
    /// Whether a host attends the queue, so that a handshake is answered at once. Before that it waits
    /// there.
    pub(super) fn is_attended(&self) -> bool {
        matches!(self.queue.lock().attended, Attended::By(_))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.queue.free(self.from);
    }
}

/// No service listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no service listens there{help}", help = Advice("start the service first"))]
pub struct Refused;

/// The state that a queue shares with its clients.
#[derive(Debug)]
pub(super) struct Queue {
    /// Tells queues apart, including dropped ones.
    pub(super) number: u64,
    backlog: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    attended: Attended,
    /// The clients that have a place in the backlog.
    waiting: HashSet<SocketAddr>,
    /// The tasks that wait for a place, by the address that they connect from.
    want_place: HashMap<SocketAddr, Waker>,
}

/// Who looks after a queue.
#[derive(Debug)]
pub(super) enum Attended {
    /// No host yet: cables wait.
    Later(Vec<End>),
    /// The port of this number.
    By(u16),
    /// The queue was dropped.
    NoMore,
}

impl Queue {
    pub(super) fn new(backlog: usize) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let attended = Attended::Later(Vec::new());
        let state = State { attended, waiting: HashSet::new(), want_place: HashMap::new() };
        Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), backlog, state: Mutex::new(state) }
    }

    /// Takes a place, or has the task told when there may be one.
    pub(super) fn poll_join(&self, from: SocketAddr, cx: &Context<'_>) -> Poll<Result<(), Refused>> {
        let mut state = self.lock();
        if matches!(state.attended, Attended::NoMore) {
            return Poll::Ready(Err(Refused));
        }
        if state.waiting.len() >= self.backlog {
            let waits = state.want_place.get(&from).is_some_and(|waker| waker.will_wake(cx.waker()));
            let replaced = if waits { None } else { state.want_place.insert(from, cx.waker().clone()) };
            drop(state);
            // Its destructor may come back here.
            drop(replaced);
            return Poll::Pending;
        }
        state.waiting.insert(from);
        Poll::Ready(Ok(()))
    }

    /// Nobody waits for a place there any more.
    pub(super) fn give_up(&self, from: SocketAddr) {
        let waker = self.lock().want_place.remove(&from);
        drop(waker);
    }

    fn free(&self, from: SocketAddr) {
        let mut state = self.lock();
        if state.waiting.remove(&from) {
            let waiting = mem::take(&mut state.want_place);
            drop(state);
            wake(waiting);
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        let ends = mem::replace(&mut state.attended, Attended::NoMore);
        let waiting = mem::take(&mut state.want_place);
        drop(state);
        // Dropping these unserved cables tells the clients at their other ends.
        drop(ends);
        wake(waiting);
    }

    /// A port attends it from now on; gives the cables that have waited.
    pub(super) fn attend(&self, port: u16) -> Vec<End> {
        let mut state = self.lock();
        match mem::replace(&mut state.attended, Attended::By(port)) {
            Attended::Later(ends) => ends,
            Attended::By(_) | Attended::NoMore => Vec::new(),
        }
    }

    /// If no host serves the queue yet, stores the end of a new cable that `make` gives, and returns `None`.
    /// Otherwise returns the port that serves it.
    pub(super) fn leave_cable(&self, make: impl FnOnce() -> End) -> Result<Option<u16>, Refused> {
        match &mut self.lock().attended {
            Attended::Later(ends) => {
                ends.push(make());
                Ok(None)
            }
            Attended::By(port) => Ok(Some(*port)),
            Attended::NoMore => Err(Refused),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes clients. They belong to other threads, so a panic of their wakers is none of this one, and keeps no other from being woken.
fn wake(waiting: HashMap<SocketAddr, Waker>) {
    for waker in waiting.into_values() {
        // The panic was reported when it began.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}
