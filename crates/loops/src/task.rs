//! Handles of running tasks, and the way of a task's outcome to its handle.

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use anywire_advice::Advice;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use crate::block_on::block_on;
use crate::contained::{Contained, Relay};

/// A task on some loop, awaited from anywhere: a future of its outcome.
///
/// It may be awaited on any runtime, or on none by [`Task::wait`]. Dropping it lets the task run on unattended.
pub struct Task<T> {
    outcome: oneshot::Receiver<Contained<Outcome<T>>>,
    stage: Arc<Stage>,
    waiter: Relay,
}

impl<T> Task<T> {
    /// A task that waits for its loop, and the two ends that its loop needs.
    pub(crate) fn new() -> (Self, Sender<T>, Arc<Stage>) {
        let (sender, receiver) = oneshot::channel();
        let stage = Arc::new(Stage(Mutex::new(State::Waiting)));
        (Self { outcome: receiver, stage: Arc::clone(&stage), waiter: Relay::default() }, sender, stage)
    }

    /// A task that was refused.
    pub(crate) fn refused(error: TaskError) -> Self {
        let (task, sender, _) = Self::new();
        // Cannot fail: the task holds the receiver.
        let _ = sender.send(Contained::new(Err(error)));
        task
    }

    /// Stops the task where it waits, or before it begins. The outcome is then [`TaskError::Aborted`], unless the
    /// task had ended already. Returns at once; the task's values are dropped on its loop.
    pub fn abort(&self) {
        self.stage.abort();
    }

    /// Blocks the calling thread until the task has ended. For threads that are no loop, such as `main`.
    ///
    /// # Errors
    ///
    /// See [`TaskError`].
    ///
    /// # Panics
    ///
    /// If called on a loop, which would stand still; there, await the task.
    #[track_caller]
    pub fn wait(self) -> Result<T, TaskError> {
        block_on(self)
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = self.waiter.to(context.waker());
        let received = ready!(Pin::new(&mut self.outcome).poll(&mut Context::from_waker(&waker)));
        Poll::Ready(outcome(received.ok(), || self.stage.is_aborted()))
    }
}

/// The outcome that was received; without one, why there is none.
fn outcome<T>(received: Option<Contained<Outcome<T>>>, is_aborted: impl FnOnce() -> bool) -> Outcome<T> {
    received
        .and_then(|mut outcome| outcome.take())
        .unwrap_or_else(|| Err(if is_aborted() { TaskError::Aborted } else { TaskError::Stopped }))
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Task").finish_non_exhaustive()
    }
}

/// A task on the present loop, started by [`spawn`](crate::spawn): a future of its outcome.
///
/// Dropping it lets the task run on unattended.
#[derive(Debug)]
pub struct LocalTask<T> {
    handle: JoinHandle<Contained<Outcome<T>>>,
    aborted: Cell<bool>,
    waiter: Relay,
}

impl<T> LocalTask<T> {
    pub(crate) fn new(handle: JoinHandle<Contained<Outcome<T>>>) -> Self {
        Self { handle, aborted: Cell::new(false), waiter: Relay::default() }
    }

    /// Stops the task where it waits. The outcome is then [`TaskError::Aborted`], unless it had ended already.
    pub fn abort(&self) {
        self.aborted.set(true);
        self.handle.abort();
    }

    /// Whether the task has ended, in whatever way.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> Future for LocalTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = self.waiter.to(context.waker());
        let joined = ready!(Pin::new(&mut self.handle).poll(&mut Context::from_waker(&waker)));
        // No panic of the task gets to the runtime, so an error only says that the task did not end by itself.
        Poll::Ready(outcome(joined.ok(), || self.aborted.get()))
    }
}

/// Why a task has no output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The task's own code panicked, with this message. The fault is in that code; the loop goes on.
    #[error(
        "the task panicked: {0}{help}",
        help = Advice("the place is in the log, and the other tasks of the loop go on")
    )]
    Panicked(String),
    /// The loop ended before the task did, or had ended before the task was given to it.
    #[error(
        "the task was not finished: its loop has stopped{help}",
        help = Advice("start tasks before shutdown, or give it more time")
    )]
    Stopped,
    /// The caller aborted the task.
    #[error("the task was not finished: it was aborted")]
    Aborted,
    /// Too many hand-overs waited for the loop: [`Limits::hand_overs_waiting`](crate::Limits::hand_overs_waiting).
    #[error(
        "the task was not started: as many hand-overs as the limit allows wait for the loop{help}",
        help = Advice("wait for earlier tasks, use more loops, or raise Limits::hand_overs_waiting")
    )]
    Full,
}

/// How a task ended.
pub(crate) type Outcome<T> = Result<T, TaskError>;

/// Sends the outcome of a task to its handle. Dropped before that, it tells the handle that there is none.
pub(crate) type Sender<T> = oneshot::Sender<Contained<Outcome<T>>>;

/// The progress of a task, shared by its handle and its loop, so that it can be aborted at any stage.
pub(crate) struct Stage(Mutex<State>);

enum State {
    /// In the inbox of the loop.
    Waiting,
    Running(AbortHandle),
    Aborted,
}

impl Stage {
    /// Whether the task was aborted before it ended.
    pub(crate) fn is_aborted(&self) -> bool {
        matches!(*self.lock(), State::Aborted)
    }

    /// Says that the task has begun, and how to abort it from now on.
    pub(crate) fn begin(&self, handle: AbortHandle) {
        let mut state = self.lock();
        if matches!(*state, State::Aborted) {
            drop(state);
            handle.abort();
        } else {
            *state = State::Running(handle);
        }
    }

    fn abort(&self) {
        let mut state = self.lock();
        if matches!(&*state, State::Running(handle) if handle.is_finished()) {
            return;
        }
        let before = mem::replace(&mut *state, State::Aborted);
        // Not under the lock: the last handle of a task may drop its values.
        drop(state);
        if let State::Running(handle) = before {
            handle.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic leaves the state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
