//! A time limit of a task that moves with every message.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::current::{AGAIN, CURRENT};
use super::leaf::now;

/// A time that a task waits for, and that it may put off or take away as often as it likes: that costs a memory write.
///
/// The executor has a note of the time at which to look. If the deadline has moved to a later one by then, the task notes that and
/// goes on waiting. It takes 8 bytes and is exact to a millisecond, never early. The longest
/// time is 24 days. One that nobody has waited for in the 24 days after its time counts as not yet due.
///
/// It wakes the task that has waited for it. A task that takes over the work of another one makes a deadline of its own.
///
/// ```no_run
/// use std::time::Duration;
/// use anywire_stack::swarm::{Conn, Deadline, Either, select};
///
/// const IDLE: Duration = Duration::from_secs(300);
///
/// async fn device(mut conn: Conn) {
///     let mut idle = Deadline::after(IDLE);
///     // Ends with the peer's end, or when nothing has come for 5 minutes.
///     while let Either::First(Some(received)) = select(conn.recv(), &mut idle).await {
///         conn.send(received).await;
///         idle.reset(IDLE);
///     }
/// }
/// ```
#[derive(Debug)]
#[must_use = "a deadline does nothing unless it is awaited"]
pub struct Deadline {
    /// In milliseconds that wrap; [`NEVER`] if there is none.
    at: u32,
    /// When the executor will wake the task; [`NEVER`] if it will not.
    noted: u32,
}

impl Deadline {
    /// In so long, counted from this poll's [`now`].
    pub fn after(duration: Duration) -> Self {
        let mut deadline = Self::never();
        deadline.reset(duration);
        deadline
    }

    /// None, until it is [`reset`](Self::reset).
    pub const fn never() -> Self {
        Self { at: NEVER, noted: NEVER }
    }

    /// Moves it: in so long from now.
    #[inline]
    pub fn reset(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(MICROS_MAX);
        let millis = (now().as_micros() + micros).div_ceil(1000) as u32;
        // Late by a millisecond once in 49 days.
        self.at = if millis == NEVER { NEVER + 1 } else { millis };
    }

    /// Takes it away.
    pub const fn clear(&mut self) {
        self.at = NEVER;
    }
}

impl Future for Deadline {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.at == NEVER {
            return Poll::Pending;
        }
        let now_micros = now().as_micros();
        let now_millis = (now_micros / 1000) as u32;
        let left = |at: u32| at.wrapping_sub(now_millis) as i32;
        if left(self.at) <= 0 {
            return Poll::Ready(());
        }
        let has_note = self.noted != NEVER && left(self.noted) > 0 && left(self.noted) <= left(self.at);
        if !has_note {
            let micros = left(self.at) as u64 * 1000 - now_micros % 1000;
            CURRENT.with(|cells| {
                if cells.sleep(micros) {
                    self.noted = self.at;
                } else {
                    // No place for one more request in this poll: ask again in the next.
                    cells.request(AGAIN);
                }
            });
        }
        Poll::Pending
    }
}

/// No time.
const NEVER: u32 = 0;
/// Half of what the milliseconds can tell apart: 24 days.
const MICROS_MAX: u64 = (i32::MAX as u64 - 1000) * 1000;
