//! A listen queue: one host's part of a service, and where links wait until the host is there.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anywire_advice::Advice;

use crate::ring_link::{End, Mailbox};

/// One host's part of a service; made by [`Mesh::listen`](super::Mesh::listen). Dropping it refuses the waiting
/// clients.
#[derive(Debug)]
pub struct ListenQueue {
    pub(super) queue: Arc<Queue>,
}

impl ListenQueue {
    /// Connections that may wait to be accepted, in the engine of the host: see
    /// [`Engine::set_backlog`](anywire_tcp::Engine::set_backlog).
    pub fn backlog(&self) -> usize {
        self.queue.backlog
    }
}

impl Drop for ListenQueue {
    fn drop(&mut self) {
        let listening = mem::replace(&mut *self.queue.lock(), Listening::NoMore);
        // Links that nobody has served: dropping them tells the clients at their other ends.
        drop(listening);
    }
}

/// No service listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no service listens there{help}", help = Advice("start the service first"))]
pub struct Refused;

/// What a queue shares with its clients.
#[derive(Debug)]
pub(super) struct Queue {
    /// Tells queues apart, including dropped ones.
    pub(super) number: u64,
    backlog: usize,
    listening: Mutex<Listening>,
}

/// Who listens at a queue.
#[derive(Debug)]
enum Listening {
    /// No host yet: links wait, and so many connections by them whose clients take them for open.
    Later { links: Vec<End>, early: usize },
    /// The endpoint of this mailbox, which may have gone.
    By(Arc<Mailbox>),
    /// The queue was dropped.
    NoMore,
}

impl Queue {
    pub(super) fn new(backlog: usize) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self { number, backlog, listening: Mutex::new(Listening::Later { links: Vec::new(), early: 0 }) }
    }

    /// Whether a host listens there, or may begin to.
    pub(super) fn is_open(&self) -> bool {
        match &*self.lock() {
            Listening::Later { .. } => true,
            Listening::By(mailbox) => mailbox.is_open(),
            Listening::NoMore => false,
        }
    }

    /// A place for a connection that its client takes for open before a host listens there: as many as would wait to be accepted, and as
    /// with Linux one more. The handshake waits there with what is written.
    pub(super) fn take_early(self: &Arc<Self>) -> Option<EarlyPlace> {
        match &mut *self.lock() {
            Listening::Later { early, .. } if *early <= self.backlog => {
                *early += 1;
                Some(EarlyPlace(Arc::clone(self)))
            }
            _ => None,
        }
    }

    /// An endpoint listens there from now on; gives the links that have waited.
    pub(super) fn listen(&self, mailbox: &Arc<Mailbox>) -> Vec<End> {
        match mem::replace(&mut *self.lock(), Listening::By(Arc::clone(mailbox))) {
            Listening::Later { links, .. } => links,
            Listening::By(_) | Listening::NoMore => Vec::new(),
        }
    }

    /// If no host serves the queue yet, stores the end of a new link that `make` gives, and returns `None`.
    /// Otherwise returns the mailbox of the endpoint that serves it.
    pub(super) fn leave_link(&self, make: impl FnOnce() -> End) -> Result<Option<Arc<Mailbox>>, Refused> {
        match &mut *self.lock() {
            Listening::Later { links, .. } => {
                links.push(make());
                Ok(None)
            }
            Listening::By(mailbox) => Ok(Some(Arc::clone(mailbox))),
            Listening::NoMore => Err(Refused),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Listening> {
        // Nothing that can panic leaves the state half changed.
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the connections that clients take for open before a host listens. It is free again when this is dropped.
pub(super) struct EarlyPlace(Arc<Queue>);

impl Drop for EarlyPlace {
    fn drop(&mut self) {
        if let Listening::Later { early, .. } = &mut *self.0.lock() {
            *early -= 1;
        }
    }
}
