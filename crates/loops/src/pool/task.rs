//! A function on a pool as the caller awaits it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anywire_sys::thread_bound::ThreadBound;

use super::job::Awaited;
use super::{Pool, PoolError};
use crate::clock::{after, precise};
use crate::deadline::Deadline;

/// A function on a [`Pool`]: a future of its result. What [`Pool::run`] returns.
///
/// # Errors
/// See [`PoolError`].
#[must_use = "a function is queued when its future is first polled"]
pub struct PoolTask<T> {
    pool: Pool,
    job: Arc<dyn Awaited<T>>,
    place: Place,
    /// How long it may wait, and since when.
    queue_deadline: Option<(Duration, Option<Instant>)>,
    /// Wakes this task, where it runs on a loop, to take the function out of the queue in time.
    timer: Option<ThreadBound<Deadline>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not given to the pool.
    New,
    /// With the pool, which gave it this number.
    Given(u64),
    /// Its result was returned.
    Ended,
}

/// What a task has of its function while the pool has that.
struct Given {
    number: u64,
    timer: Option<ThreadBound<Deadline>>,
}

impl<T> PoolTask<T> {
    pub(super) fn new(pool: Pool, job: Arc<dyn Awaited<T>>) -> Self {
        Self { pool, job, place: Place::New, queue_deadline: None, timer: None }
    }

    /// Ends with [`PoolError::Late`], and does not run the function, if no thread takes it for so long after the first poll. On a loop
    /// that is answered when the time has passed, elsewhere when its turn comes.
    pub fn queue_deadline(mut self, longest: Duration) -> Self {
        self.queue_deadline = Some((longest, None));
        self
    }

    /// The same, counted from an earlier time, by [`clock::precise`](crate::clock::precise).
    pub fn queue_deadline_since(mut self, since: Instant, longest: Duration) -> Self {
        self.queue_deadline = Some((longest, Some(since)));
        self
    }

    /// Takes the function out of the queue, if no thread has it: it is never run then, and this future is not ready any more. Returns
    /// false if it runs, or has run.
    pub fn give_up(&mut self) -> bool {
        let is_given_up = match self.place {
            Place::New => true,
            Place::Given(number) => self.pool.crew().remove_abandoned(number),
            Place::Ended => false,
        };
        if is_given_up {
            self.place = Place::Ended;
            self.job.abandon();
        }
        is_given_up
    }

    /// Gives the function to the pool.
    fn give(&mut self, waker: &Waker) -> Result<Given, PoolError> {
        let left = self.queue_deadline.map(|(longest, since)| {
            longest.saturating_sub(since.map_or(Duration::ZERO, |since| precise().duration_since(since)))
        });
        if left == Some(Duration::ZERO) {
            self.pool.crew().count_late();
            return Err(PoolError::Late);
        }
        let home = crate::current();
        let is_on_loop = home.is_some();
        // Nobody else has it before it is pushed.
        if let Some(job) = Arc::get_mut(&mut self.job) {
            job.wait(waker.clone(), home);
        }
        let job = Arc::clone(&self.job);
        let queued_at = Instant::now();
        let number = self.pool.crew().push(job, queued_at, left.map(|left| after(queued_at, left)))?;
        let timer = left.filter(|_| is_on_loop).map(|left| {
            let deadline = Deadline::new();
            deadline.set(left);
            ThreadBound::new(deadline)
        });
        Ok(Given { number, timer })
    }

    /// Whether the time has passed within which a thread had to take the function.
    fn is_late(&self, cx: &mut Context<'_>) -> bool {
        let timer = self.timer.as_ref().and_then(ThreadBound::get);
        timer.is_some_and(|timer| timer.poll_expired(cx).is_ready())
    }
}

impl<T> Future for PoolTask<T> {
    type Output = Result<T, PoolError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let number = match self.place {
            Place::Ended => return Poll::Pending,
            Place::Given(number) => number,
            Place::New => match self.give(cx.waker()) {
                Ok(Given { number, timer }) => {
                    self.place = Place::Given(number);
                    self.timer = timer;
                    // The timer wakes a task that has asked it.
                    let _ = self.is_late(cx);
                    return Poll::Pending;
                }
                Err(error) => {
                    self.place = Place::Ended;
                    self.job.abandon();
                    return Poll::Ready(Err(error));
                }
            },
        };
        if self.is_late(cx) {
            self.timer = None;
            if self.pool.crew().remove_late(number) {
                self.place = Place::Ended;
                self.job.abandon();
                return Poll::Ready(Err(PoolError::Late));
            }
        }
        let polled = self.job.poll(cx.waker());
        if polled.is_ready() {
            self.place = Place::Ended;
            self.timer = None;
        }
        polled
    }
}

impl<T> Drop for PoolTask<T> {
    fn drop(&mut self) {
        if let Place::Given(number) = self.place {
            self.pool.crew().remove_abandoned(number);
            if self.job.abandon() {
                self.pool.crew().count_abandoned();
            }
        }
    }
}

impl<T> fmt::Debug for PoolTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolTask").field("pool", &self.pool.name()).finish_non_exhaustive()
    }
}
