//! One host's part of a service: its backlog, and where cables wait until the host is there.

use std::collections::HashSet;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::cable::End;

/// One host's part of a service; made by [`Mesh::listen`](super::Mesh::listen). Dropping it turns those away
/// who wait.
#[derive(Debug)]
pub struct Entrance {
    desk: Arc<Desk>,
}

impl Entrance {
    pub(super) const fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }

    pub(super) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Connections that may wait to be accepted.
    pub fn backlog(&self) -> usize {
        self.desk.backlog
    }

    /// The connection from there was accepted: its place is free for the next one.
    pub fn note_accepted(&self, from: SocketAddr) {
        self.desk.free(from);
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.desk.close();
    }
}

/// A place in the backlog of an entrance, until the connection is accepted or this is dropped.
#[derive(Debug)]
pub struct Place {
    desk: Arc<Desk>,
    from: SocketAddr,
}

impl Place {
    pub(super) const fn new(desk: Arc<Desk>, from: SocketAddr) -> Self {
        Self { desk, from }
    }

    pub(super) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Whether a host attends the entrance, so that a handshake is answered at once. Before that it waits
    /// there.
    pub fn is_attended(&self) -> bool {
        matches!(self.desk.lock().attended, Attended::By(_))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.desk.free(self.from);
    }
}

/// Nobody listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody listens there; start the service first")]
pub struct Refused;

/// What an entrance and those who come share.
#[derive(Debug)]
pub(super) struct Desk {
    /// Tells entrances apart, those that are no more included.
    pub(super) number: u64,
    backlog: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    attended: Attended,
    /// Who has a place in the backlog.
    waiting: HashSet<SocketAddr>,
    /// Who waits for a place.
    queueing: Vec<Waker>,
}

/// Who looks after an entrance.
#[derive(Debug)]
pub(super) enum Attended {
    /// Nobody yet: cables wait.
    Later(Vec<End>),
    /// The port of this number.
    By(u16),
    /// Nobody any more.
    NoMore,
}

/// How taking a place went.
pub(super) enum Tried {
    Taken,
    Full,
    Closed,
}

impl Desk {
    pub(super) fn new(backlog: usize) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let attended = Attended::Later(Vec::new());
        let state = State { attended, waiting: HashSet::new(), queueing: Vec::new() };
        Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), backlog, state: Mutex::new(state) }
    }

    /// Takes a place, or has `waker` told when there may be one.
    pub(super) fn try_take(&self, from: SocketAddr, waker: &Waker) -> Tried {
        let mut state = self.lock();
        if matches!(state.attended, Attended::NoMore) {
            return Tried::Closed;
        }
        if state.waiting.len() >= self.backlog {
            if !state.queueing.iter().any(|queueing| queueing.will_wake(waker)) {
                state.queueing.push(waker.clone());
            }
            return Tried::Full;
        }
        state.waiting.insert(from);
        Tried::Taken
    }

    fn free(&self, from: SocketAddr) {
        let mut state = self.lock();
        if state.waiting.remove(&from) {
            let queueing = mem::take(&mut state.queueing);
            drop(state);
            queueing.into_iter().for_each(Waker::wake);
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        let ends = mem::replace(&mut state.attended, Attended::NoMore);
        let queueing = mem::take(&mut state.queueing);
        drop(state);
        // Cables that nobody will ever take: who is at their other ends learns of it by that.
        drop(ends);
        queueing.into_iter().for_each(Waker::wake);
    }

    /// A port attends it from now on; gives the cables that have waited.
    pub(super) fn attend(&self, port: u16) -> Vec<End> {
        let mut state = self.lock();
        match mem::replace(&mut state.attended, Attended::By(port)) {
            Attended::Later(ends) => ends,
            Attended::By(_) | Attended::NoMore => Vec::new(),
        }
    }

    /// Leads a new cable there if nobody attends it yet: `make` gives what is to wait. Else who does attend
    /// it.
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
