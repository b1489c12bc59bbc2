//! The futures that a task of a swarm may await, and the functions that wake other tasks. They know a task by its number.
//!
//! There are no wakers. While a task runs, its number is in the context of its thread ([`current`]), and so are its requests to
//! the executor: another poll, wakes of other tasks, a time to sleep. The executor reads them after each poll. A leaf
//! future of another module stores the number ([`current`]) with the condition that it waits for. The code that makes the
//! condition true wakes the number.
//!
//! A wake says "look again", and no more: a task may be woken for something that has passed meanwhile. So a leaf looks
//! at its condition at each poll.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_tcp::Instant;

use super::current::{AGAIN, CURRENT, NOBODY};

/// The number of the task that runs: its index in its [`Tasks`](super::Tasks).
///
/// # Panics
///
/// If no task of a swarm runs on this thread. [`try_current`] asks.
#[inline(always)]
pub fn current() -> u32 {
    match CURRENT.with(|cells| cells.current.get()) {
        NOBODY => outside("current()"),
        index => index,
    }
}

/// The number of the task that runs, if one does on this thread.
#[inline(always)]
pub fn try_current() -> Option<u32> {
    Some(CURRENT.with(|cells| cells.current.get())).filter(|index| *index != NOBODY)
}

/// The time of this poll: what the executor was told last ([`Tasks::advance`](super::Tasks::advance)). Reads no clock.
#[inline(always)]
pub fn now() -> Instant {
    CURRENT.with(|cells| Instant::from_micros(cells.now_micros.get()))
}

/// Has the task of this index in the same swarm polled; nothing if there is none, or it is to have one already.
///
/// Tasks that are ready now come first, and the poll never happens in the middle of this one. A task may wake itself.
///
/// # Panics
///
/// If no task of a swarm runs on this thread: from outside it is [`Tasks::wake`](super::Tasks::wake), from another
/// thread [`Remote::wake`](super::Remote::wake).
#[inline(always)]
pub fn wake(index: u32) {
    CURRENT.with(|cells| {
        let current = cells.current.get();
        if current == NOBODY {
            outside("wake()");
        }
        if index == current { cells.request(AGAIN) } else { cells.wake(index) }
    });
}

/// Lets the others that are ready run first.
///
/// ```
/// use anywire_stack::swarm::{Tasks, yield_now};
///
/// let mut tasks = Tasks::with_capacity(1)?;
/// tasks.spawn_at(0, async {
///     yield_now().await;
///     yield_now().await;
/// })?;
/// assert_eq!(tasks.run(usize::MAX), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline(always)]
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        CURRENT.with(|cells| cells.request(AGAIN));
        Poll::Pending
    }
}

/// Waits until another task ([`wake`]) or the driver wakes this one.
///
/// A wake that came before does not count, and a wake may have been meant for something else; so wait in a loop around
/// the condition.
#[inline(always)]
pub fn park() -> Park {
    Park { parked: false }
}

/// The future of [`park`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Park {
    parked: bool,
}

impl Future for Park {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if mem::replace(&mut self.parked, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Waits for so long, counted from this poll's [`now`] at the first poll, to the microsecond.
///
/// It ends with the first [`Tasks::advance`](super::Tasks::advance) at or after that time; wakes before it are ignored.
/// It takes 8 bytes of its task. Waits of the same length share a queue, in the order of their beginning. Up to 16 lengths
/// have such a queue; all others share a heap, which is slower.
#[inline(always)]
pub fn sleep(duration: Duration) -> Sleep {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Sleep::with(micros.min(BEGUN - 1))
}

// Before its first poll it holds the time to sleep, then the time to wake, marked by `ASLEEP` or `BEGUN`. It does so in two
// halves, because a `u64` would align its task to 8 bytes.
/// The future of [`sleep`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep {
    high: u32,
    low: u32,
}

impl Sleep {
    #[inline(always)]
    fn with(micros: u64) -> Self {
        Self { high: (micros >> 32) as u32, low: micros as u32 }
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let micros = u64::from(self.high) << 32 | u64::from(self.low);
        CURRENT.with(|cells| {
            let now_micros = cells.now_micros.get();
            if micros & ASLEEP != 0 {
                return if micros & !ASLEEP <= now_micros { Poll::Ready(()) } else { Poll::Pending };
            }
            let left =
                if micros & BEGUN == 0 { micros } else { (micros & !BEGUN).saturating_sub(now_micros) };
            if cells.sleep(left) {
                *self = Self::with(now_micros.saturating_add(left).min(BEGUN - 1) | ASLEEP);
            } else {
                // No place for one more request in this poll: ask again in the next. The time counts from the first.
                *self = Self::with(now_micros.saturating_add(left).min(BEGUN - 1) | BEGUN);
                cells.request(AGAIN);
            }
            Poll::Pending
        })
    }
}

/// Marks a [`Sleep`] whose wake has been asked for.
const ASLEEP: u64 = 1 << 63;

/// Marks one that has begun, and whose wake is still to be asked for. Times stay below it: 146,000 years.
const BEGUN: u64 = 1 << 62;

#[cold]
fn outside(what: &str) -> ! {
    panic!(
        "{what} was called outside of a task: only a task that runs in a swarm on this thread can; see swarm::Tasks"
    )
}
