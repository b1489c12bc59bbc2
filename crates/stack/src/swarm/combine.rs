//! Waiting for the first of two things, or for no longer than some time.
//!
//! Futures of the swarm look at their condition whenever their task runs, so that waiting for two is looking at both. They can
//! be moved; a future of an `async` block is pinned first (`std::pin::pin!`).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use thiserror::Error;

use super::leaf::sleep;

/// Waits for the first of two futures, which is asked first at each poll, and drops the other one.
///
/// ```
/// use std::time::Duration;
/// use anywire_stack::swarm::{Either, Tasks, select, sleep, yield_now};
///
/// let mut tasks = Tasks::with_capacity(1)?;
/// tasks.spawn_at(0, async {
///     let first = select(sleep(Duration::from_secs(9)), yield_now()).await;
///     assert!(matches!(first, Either::Second(())));
/// })?;
/// tasks.run(usize::MAX);
/// assert_eq!(tasks.counters().finished, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const fn select<A: Future + Unpin, B: Future + Unpin>(first: A, second: B) -> Select<A, B> {
    Select { first, second }
}

/// The future of [`select`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Select<A, B> {
    first: A,
    second: B,
}

impl<A: Future + Unpin, B: Future + Unpin> Future for Select<A, B> {
    type Output = Either<A::Output, B::Output>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = Pin::new(&mut self.first).poll(cx) {
            return Poll::Ready(Either::First(output));
        }
        Pin::new(&mut self.second).poll(cx).map(Either::Second)
    }
}

/// What one of two futures gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    /// Of the first one.
    First(A),
    /// Of the second one.
    Second(B),
}

/// Waits for a future, and for so long at most.
///
/// Each call notes a time to wake up, and that note stays until then. A limit that every message moves is a
/// [`Deadline`](super::Deadline).
///
/// # Errors
///
/// The result is [`Elapsed`] if the time is over first. The other future is dropped with this one.
#[inline]
pub fn timeout<F: Future + Unpin>(
    duration: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> + Unpin {
    let mut both = select(future, sleep(duration));
    poll_fn(move |cx| {
        Pin::new(&mut both).poll(cx).map(|first| match first {
            Either::First(output) => Ok(output),
            Either::Second(()) => Err(Elapsed),
        })
    })
}

/// The time for something was over first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nothing happened in the time that was allowed")]
pub struct Elapsed;
