//! Handles of running tasks, and how their outcome gets to whoever waits for it.

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::task::{AbortHandle, JoinHandle, coop};

use crate::block_on::block_on;
use crate::contained::{Contained, Relay, wake};

/// A task on some loop, awaited from anywhere: a future of its outcome.
///
/// It may be awaited on any runtime, or on none by [`Task::wait`]. Dropping it lets the task run on unattended.
pub struct Task<T> {
    packet: Arc<Packet<T>>,
}

impl<T> Task<T> {
    pub(crate) fn new(packet: Arc<Packet<T>>) -> Self {
        Self { packet }
    }

    /// Stops the task where it waits, or before it begins. The outcome is then [`TaskError::Aborted`], unless the
    /// task had ended already. Returns at once; the task's values are dropped on its loop.
    pub fn abort(&self) {
        self.packet.abort();
    }

    /// Blocks the calling thread until the task has ended. For threads that are no loop, such as `main`.
    ///
    /// # Errors
    ///
    /// Those of the task: [`TaskError`].
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

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Without this a task that awaits many others that have ended would not give way to its neighbours.
        let budget = ready!(proceed(context));
        let outcome = ready!(self.packet.poll_outcome(context.waker()));
        budget.made_progress();
        Poll::Ready(outcome)
    }
}

/// Asks the runtime for a part of the present task's budget. If there is none left, the runtime keeps the waker.
fn proceed(context: &mut Context<'_>) -> Poll<coop::RestoreOnPending> {
    if coop::has_budget_remaining() {
        return coop::poll_proceed(context);
    }
    let waker = Relay::default().to(context.waker());
    coop::poll_proceed(&mut Context::from_waker(&waker))
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
        let outcome = joined.ok().and_then(|mut outcome| outcome.take());
        Poll::Ready(
            outcome.unwrap_or_else(|| {
                Err(if self.aborted.get() { TaskError::Aborted } else { TaskError::Stopped })
            }),
        )
    }
}

/// Why a task has no output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The task's own code panicked, with this message. The fault is in that code; the loop goes on.
    #[error("the task panicked: {0}; the place is in the log, and the other tasks of the loop go on")]
    Panicked(String),
    /// The loop ended before the task did, or had ended before the task was given to it.
    #[error(
        "the task was not finished: its loop has stopped; start tasks before shutdown, or give it more time"
    )]
    Stopped,
    /// The caller aborted the task.
    #[error("the task was not finished: it was aborted")]
    Aborted,
    /// Too many hand-overs waited for the loop: [`Limits::hand_overs_waiting`](crate::Limits::hand_overs_waiting).
    #[error(
        "the task was not started: as many hand-overs as the limit allows wait for the loop; \
         wait for earlier tasks, use more loops, or raise Limits::hand_overs_waiting"
    )]
    Full,
}

/// How a task ended.
pub(crate) type Outcome<T> = Result<T, TaskError>;

/// What a [`Task`] and the task itself share: the outcome on its way from one thread to another.
pub(crate) struct Packet<T> {
    state: Mutex<State<T>>,
}

impl<T> Packet<T> {
    /// An open packet, and the promise to fill it.
    pub(crate) fn new() -> (Arc<Self>, Promise<T>) {
        let state = State { delivery: Delivery::Awaited(Contained::default()), stage: Stage::Waiting };
        let packet = Arc::new(Self { state: Mutex::new(state) });
        (Arc::clone(&packet), Promise { packet })
    }

    /// Sets the outcome, unless there is one.
    pub(crate) fn finish(&self, outcome: Contained<Outcome<T>>) {
        let mut state = self.lock();
        let Delivery::Awaited(waiter) = &mut state.delivery else {
            return;
        };
        let waiter = waiter.take();
        state.delivery = Delivery::Ready(outcome);
        // Lets the runtime's task go, which this packet must not keep in memory.
        let stage = mem::replace(&mut state.stage, Stage::Over);
        drop(state);
        drop(stage);
        if let Some(waiter) = waiter {
            wake(waiter);
        }
    }

    /// Whether the task was given up before it began.
    pub(crate) fn is_aborted(&self) -> bool {
        matches!(self.lock().stage, Stage::Aborted)
    }

    /// Says that the task has begun, and how to abort it.
    pub(crate) fn running(&self, handle: AbortHandle) {
        let mut state = self.lock();
        match state.stage {
            Stage::Waiting => state.stage = Stage::Running(handle),
            Stage::Aborted => {
                drop(state);
                handle.abort();
            }
            Stage::Running(_) | Stage::Over => {}
        }
    }

    fn abort(&self) {
        let mut state = self.lock();
        if matches!(state.stage, Stage::Over | Stage::Aborted) {
            return;
        }
        let stage = mem::replace(&mut state.stage, Stage::Aborted);
        drop(state);
        if let Stage::Running(handle) = stage {
            handle.abort();
        }
    }

    fn poll_outcome(&self, waker: &Waker) -> Poll<Outcome<T>> {
        let mut state = self.lock();
        match &mut state.delivery {
            Delivery::Awaited(waiter) if waiter.get().is_some_and(|before| before.will_wake(waker)) => {}
            Delivery::Awaited(waiter) => {
                let before = mem::replace(waiter, Contained::new(waker.clone()));
                // Not under the lock: dropping a waker may drop a task, and that may ask this packet.
                drop(state);
                drop(before);
            }
            Delivery::Ready(outcome) => {
                if let Some(outcome) = outcome.take() {
                    state.delivery = Delivery::Taken;
                    return Poll::Ready(outcome);
                }
            }
            Delivery::Taken => {
                drop(state);
                panic!("a task was polled after it had given its outcome");
            }
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing that can panic leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task's side of a packet. Dropped unfulfilled, it says that there will be no outcome.
pub(crate) struct Promise<T> {
    packet: Arc<Packet<T>>,
}

impl<T> Promise<T> {
    pub(crate) fn fulfil(self, outcome: Contained<Outcome<T>>) {
        self.packet.finish(outcome);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let error = if self.packet.is_aborted() { TaskError::Aborted } else { TaskError::Stopped };
        self.packet.finish(Contained::new(Err(error)));
    }
}

struct State<T> {
    delivery: Delivery<T>,
    stage: Stage,
}

enum Delivery<T> {
    /// The outcome is not there yet; somebody may wait for it.
    Awaited(Contained<Waker>),
    Ready(Contained<Outcome<T>>),
    Taken,
}

enum Stage {
    /// In the inbox of the loop.
    Waiting,
    Running(AbortHandle),
    Aborted,
    Over,
}
