//! A function on its way through a pool, and its result on the way back.

use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::PoolError;
use crate::contained::{self, contain, dispose, note, panic_text};
use crate::handle::LoopHandle;

/// A function as the threads of a pool see it.
pub(super) trait Run: Send + Sync {
    /// Runs it on the calling thread. Calls `ended` when it has ended, or is not wanted, and then wakes the task that waits for the
    /// result: by then the thread is free for what that task gives it. Returns whether the result was not wanted.
    fn run(&self, ended: &mut dyn FnMut(Ended)) -> bool;

    /// Ends it with this error, if it has not run.
    fn refuse(&self, why: PoolError);

    /// Whether nobody waits for the result any more.
    fn is_abandoned(&self) -> bool;
}

/// The same, as the task sees it that waits for the result.
pub(super) trait Awaited<T>: Run {
    /// The task waits, on this loop if it runs on one. Called before the function is shared.
    fn wait(&mut self, waker: Waker, home: Option<LoopHandle>);

    /// The result once it is delivered; else the waker to be woken then.
    fn poll(&self, waker: &Waker) -> Poll<Result<T, PoolError>>;

    /// Nobody waits any more. Returns whether the function has run and its result was not taken.
    fn abandon(&self) -> bool;
}

/// How a function ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was not wanted, and has not run.
    Unwanted,
    Returned,
    Panicked,
}

/// A function and its result.
pub(super) struct Job<F, T> {
    stage: Mutex<Stage<F, T>>,
    /// The loop of the task that waits. Woken through the inbox of that, many results wake a loop once. It stays here, so that its count
    /// of references is written by that loop alone.
    home: Option<LoopHandle>,
}

enum Stage<F, T> {
    New(F),
    Waits(F, Waiter),
    Runs(Waiter),
    Delivered(Outcome<T>),
    /// The result was taken, or is not wanted.
    Gone,
}

type Outcome<T> = Result<T, PoolError>;

/// A task that waits for a result.
struct Waiter {
    waker: Waker,
    /// It runs on the loop of the job. If not, it is woken from anywhere.
    is_at_home: bool,
}

impl<F, T> Job<F, T> {
    pub(super) fn new(function: F) -> Self {
        Self { stage: Mutex::new(Stage::New(function)), home: None }
    }

    fn stage(&self) -> MutexGuard<'_, Stage<F, T>> {
        // No code of users runs under the lock.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, waiter: Waiter) {
        match self.home.as_ref().filter(|_| waiter.is_at_home) {
            Some(home) => home.wake(waiter.waker),
            None => contained::wake(waiter.waker),
        }
    }
}

impl<F, T> Run for Job<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn run(&self, ended: &mut dyn FnMut(Ended)) -> bool {
        let function = {
            let mut stage = self.stage();
            match mem::replace(&mut *stage, Stage::Gone) {
                Stage::Waits(function, waiter) => {
                    *stage = Stage::Runs(waiter);
                    function
                }
                other => {
                    *stage = other;
                    drop(stage);
                    ended(Ended::Unwanted);
                    return true;
                }
            }
        };
        let mut panic = None;
        let outcome = catch_unwind(AssertUnwindSafe(function)).map_err(|payload| {
            let text = panic_text(&*payload);
            panic = Some(payload);
            PoolError::Panicked(text)
        });
        ended(if panic.is_some() { Ended::Panicked } else { Ended::Returned });
        let mut stage = self.stage();
        match mem::replace(&mut *stage, Stage::Gone) {
            Stage::Runs(waiter) => {
                *stage = Stage::Delivered(outcome);
                drop(stage);
                self.wake(waiter);
                // The waiting task reports the panic: it knows the name of the function.
                if let Some(payload) = panic {
                    dispose(payload);
                }
                false
            }
            _ => {
                drop(stage);
                if let Some(payload) = panic {
                    note("a function on a pool", payload);
                }
                // A panic of it is logged.
                let _ = contain("a destructor", || drop(outcome));
                true
            }
        }
    }

    fn refuse(&self, why: PoolError) {
        let mut stage = self.stage();
        match mem::replace(&mut *stage, Stage::Gone) {
            Stage::Waits(function, waiter) => {
                *stage = Stage::Delivered(Err(why));
                drop(stage);
                let _ = contain("a destructor", || drop(function));
                self.wake(waiter);
            }
            other => *stage = other,
        }
    }

    fn is_abandoned(&self) -> bool {
        matches!(*self.stage(), Stage::Gone)
    }
}

impl<F, T> Awaited<T> for Job<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn wait(&mut self, waker: Waker, home: Option<LoopHandle>) {
        let stage = self.stage.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Stage::New(function) = mem::replace(stage, Stage::Gone) {
            *stage = Stage::Waits(function, Waiter { waker, is_at_home: home.is_some() });
            self.home = home;
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Outcome<T>> {
        let mut stage = self.stage();
        match &mut *stage {
            Stage::Waits(_, waiter) | Stage::Runs(waiter) => {
                if !waiter.waker.will_wake(waker) {
                    let is_at_home = self.home.as_ref().is_some_and(LoopHandle::is_current);
                    let before = mem::replace(waiter, Waiter { waker: waker.clone(), is_at_home });
                    drop(stage);
                    let _ = contain("a waker", || drop(before));
                }
                Poll::Pending
            }
            Stage::Delivered(_) => match mem::replace(&mut *stage, Stage::Gone) {
                Stage::Delivered(outcome) => Poll::Ready(outcome),
                _ => Poll::Pending,
            },
            Stage::New(_) | Stage::Gone => Poll::Pending,
        }
    }

    fn abandon(&self) -> bool {
        let before = mem::replace(&mut *self.stage(), Stage::Gone);
        let has_run = matches!(before, Stage::Delivered(Ok(_) | Err(PoolError::Panicked(_))));
        let _ = contain("a destructor", || drop(before));
        has_run
    }
}

/// Runs a function as the present one of this thread, so that it can ask whether it is abandoned. Returns whether it was not wanted.
pub(super) fn run_present(job: Arc<dyn Run>, ended: &mut dyn FnMut(Ended)) -> bool {
    PRESENT.with(|present| {
        *present.borrow_mut() = Some(job);
        // Shared with the function, which looks at it, too.
        let is_unwanted = present.borrow().as_ref().is_some_and(|job| job.run(ended));
        drop(present.take());
        is_unwanted
    })
}

pub(super) fn is_present_abandoned() -> bool {
    // A thread that is ending has no present function either.
    PRESENT
        .try_with(|present| present.borrow().as_ref().is_some_and(|job| job.is_abandoned()))
        .unwrap_or(false)
}

thread_local! {
    static PRESENT: RefCell<Option<Arc<dyn Run>>> = const { RefCell::new(None) };
}
