//! What every rung gets to run with: the listener, the answers, a way to be stopped, and books of threads and refusals.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anywire_sys::cpu;
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::answers::Answers;
use crate::server::Refused;

/// What a rung runs with.
pub(crate) struct Site {
    /// Non-blocking, unless the rung changes that. Shared with the [`Server`](crate::Server), which shuts it down at the end.
    pub(crate) listener: Arc<TcpListener>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) books: Arc<Books>,
}

/// What came of an attempt to accept.
pub(crate) enum Accepted {
    Socket(OwnedFd),
    /// No connection waits.
    Nobody,
    /// The process or the system is out of descriptors or memory: pause, since the listener stays ready.
    Exhausted,
}

impl Site {
    /// Accepts the next connection.
    pub(crate) fn accept(&self, flags: SocketFlags) -> Accepted {
        loop {
            match accept_with(&self.listener, flags | SocketFlags::CLOEXEC) {
                Ok(socket) if rustix::net::sockopt::set_tcp_nodelay(&socket, true).is_ok() => {
                    return Accepted::Socket(socket);
                }
                Err(Errno::AGAIN) => return Accepted::Nobody,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return Accepted::Exhausted;
                }
                Err(_) if self.is_stopped() => return Accepted::Nobody,
                // The connection died before it was taken, or a signal came: the next one may be well.
                _ => {}
            }
        }
    }

    /// Accepts all that wait; false if accepting has to pause.
    pub(crate) fn accept_all(&self, mut take: impl FnMut(OwnedFd)) -> bool {
        loop {
            match self.accept(SocketFlags::NONBLOCK) {
                Accepted::Socket(socket) => take(socket),
                Accepted::Nobody => return true,
                Accepted::Exhausted => return false,
            }
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.books.stopped.load(Ordering::Acquire)
    }

    /// Readable once the server stops.
    pub(crate) fn stop(&self) -> BorrowedFd<'_> {
        self.books.stop.as_fd()
    }
}

/// What the server and its threads share.
pub(crate) struct Books {
    stopped: AtomicBool,
    stop: OwnedFd,
    threads: Mutex<Vec<i32>>,
    refused: Mutex<Refused>,
}

impl Books {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            stopped: AtomicBool::new(false),
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            threads: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // A counter of eight bytes has room for one more.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Notes the calling thread as one that serves, until the guard is dropped.
    pub(crate) fn enter(&self) -> Entered<'_> {
        let thread = cpu::thread_id();
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Entered { books: self, thread }
    }

    pub(crate) fn threads(&self) -> Vec<i32> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a connection that was closed because the rung cannot serve it.
    pub(crate) fn refuse(&self, reason: &dyn ToString) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.connections += 1;
        refused.reason.get_or_insert_with(|| reason.to_string());
    }

    pub(crate) fn refused(&self) -> Refused {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A thread that serves.
pub(crate) struct Entered<'a> {
    books: &'a Books,
    thread: i32,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut threads = self.books.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| *thread != self.thread);
    }
}

/// How long accepting rests when descriptors have run out and none of ours is closed meanwhile.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// The same for calls that take it so.
pub(crate) const ACCEPT_PAUSE_TIMESPEC: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
