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
    /// Runs it on the calling thread. Its result is kept until [`deliver`](Self::deliver) is called.
    fn run(&self) -> Ended;

    /// Wakes the task that waits for the result.
    fn deliver(&self);

    /// Ends it with this error, if it has not run.
    fn refuse(&self, why: PoolError);

    /// Whether nobody waits for the result any more.
    fn is_abandoned(&self) -> bool;
}

/// The same, as the task sees it that waits for the result.
pub(super) trait Awaited<T>: Run {
    /// The task waits. Called before a thread can get the function.
    fn wait(&self, waiter: Waiter);

    /// The result once it is delivered; else the waker to be woken then.
    fn poll(&self, waker: &Waker) -> Poll<Result<T, PoolError>>;

    /// Nobody waits any more.
    fn abandon(&self);
}

/// How a function ended.
#[derive(Clone, Copy, Default)]
pub(super) struct Ended {
    pub(super) has_panicked: bool,
    /// Nobody waited for it.
    pub(super) is_abandoned: bool,
}

/// A function and its result.
pub(super) struct Job<F, T>(Mutex<Stage<F, T>>);

enum Stage<F, T> {
    New(F),
    Waits(F, Waiter),
    Runs(Waiter),
    /// It has ended, and that is not to be known yet: its thread is not free.
    Ended(Outcome<T>, Waiter),
    Delivered(Outcome<T>),
    /// The result was taken, or is not wanted.
    Gone,
}

type Outcome<T> = Result<T, PoolError>;

/// A task that waits for a result.
pub(super) struct Waiter {
    waker: Waker,
    /// The loop it runs on. Woken through the inbox of that, many results wake a loop once.
    home: Option<LoopHandle>,
}

impl Waiter {
    /// The task of the present loop, or of any other runtime.
    pub(super) fn new(waker: &Waker) -> Self {
        Self { waker: waker.clone(), home: crate::current() }
    }

    fn wake(self) {
        match self.home {
            Some(home) => home.wake(self.waker),
            None => contained::wake(self.waker),
        }
    }
}

impl<F, T> Job<F, T> {
    pub(super) fn new(function: F) -> Self {
        Self(Mutex::new(Stage::New(function)))
    }

    fn stage(&self) -> MutexGuard<'_, Stage<F, T>> {
        // No code of users runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F, T> Run for Job<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn run(&self) -> Ended {
        let function = {
            let mut stage = self.stage();
            match mem::replace(&mut *stage, Stage::Gone) {
                Stage::Waits(function, waiter) => {
                    *stage = Stage::Runs(waiter);
                    function
                }
                other => {
                    *stage = other;
                    return Ended { is_abandoned: true, ..Ended::default() };
                }
            }
        };
        let mut panic = None;
        let outcome = catch_unwind(AssertUnwindSafe(function)).map_err(|payload| {
            let text = panic_text(&*payload);
            panic = Some(payload);
            PoolError::Panicked(text)
        });
        let ended = Ended { has_panicked: panic.is_some(), is_abandoned: false };
        let mut stage = self.stage();
        if let Stage::Runs(_) = &*stage
            && let Stage::Runs(waiter) = mem::replace(&mut *stage, Stage::Gone)
        {
            *stage = Stage::Ended(outcome, waiter);
            drop(stage);
            // Told to whoever waits, who knows better what ran.
            if let Some(payload) = panic {
                dispose(payload);
            }
            return ended;
        }
        drop(stage);
        if let Some(payload) = panic {
            note("a function on a pool", payload);
        }
        // A panic of it is logged.
        let _ = contain("a destructor", || drop(outcome));
        Ended { is_abandoned: true, ..ended }
    }

    fn deliver(&self) {
        let mut stage = self.stage();
        match mem::replace(&mut *stage, Stage::Gone) {
            Stage::Ended(outcome, waiter) => {
                *stage = Stage::Delivered(outcome);
                drop(stage);
                waiter.wake();
            }
            other => *stage = other,
        }
    }

    fn refuse(&self, why: PoolError) {
        let mut stage = self.stage();
        match mem::replace(&mut *stage, Stage::Gone) {
            Stage::Waits(function, waiter) => {
                *stage = Stage::Delivered(Err(why));
                drop(stage);
                let _ = contain("a destructor", || drop(function));
                waiter.wake();
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
    fn wait(&self, waiter: Waiter) {
        let mut stage = self.stage();
        if let Stage::New(_) = &*stage
            && let Stage::New(function) = mem::replace(&mut *stage, Stage::Gone)
        {
            *stage = Stage::Waits(function, waiter);
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Outcome<T>> {
        let mut stage = self.stage();
        match &mut *stage {
            Stage::Waits(_, waiter) | Stage::Runs(waiter) | Stage::Ended(_, waiter) => {
                if !waiter.waker.will_wake(waker) {
                    let before = mem::replace(waiter, Waiter::new(waker));
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

    fn abandon(&self) {
        let before = mem::replace(&mut *self.stage(), Stage::Gone);
        let _ = contain("a destructor", || drop(before));
    }
}

/// Makes a function the present one of this thread, so that it can ask whether it is abandoned.
pub(super) fn run_present(job: &Arc<dyn Run>) -> Ended {
    PRESENT.with(|present| present.replace(Some(Arc::clone(job))));
    let ended = job.run();
    PRESENT.with(RefCell::take);
    ended
}

pub(super) fn is_present_abandoned() -> bool {
    // Without the borrow: a thread that is ending has no present function either.
    let present = PRESENT.try_with(|present| present.borrow().clone()).ok().flatten();
    present.is_some_and(|job| job.is_abandoned())
}

thread_local! {
    static PRESENT: RefCell<Option<Arc<dyn Run>>> = const { RefCell::new(None) };
}
