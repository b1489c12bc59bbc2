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
/// goes on waiting. It takes 12 bytes and is exact to a millisecond, never early. One that is more than 8900 years away is none.
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
    /// [`NEVER`] if there is none.
    at: Millis,
    /// When the executor will wake the task; [`NEVER`] if it will not.
    noted: Millis,
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
        Self { at: Millis::new(NEVER), noted: Millis::new(NEVER) }
    }

    /// Moves it: in so long from now.
    #[inline]
    pub fn reset(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let millis = now().as_micros().saturating_add(micros).div_ceil(1000);
        self.at = Millis::new(millis.min(NEVER));
    }

    /// Takes it away.
    pub const fn clear(&mut self) {
        self.at = Millis::new(NEVER);
    }
}

impl Future for Deadline {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let (at, noted) = (self.at.get(), self.noted.get());
        if at == NEVER {
            return Poll::Pending;
        }
        let now_micros = now().as_micros();
        let micros = (at * 1000).saturating_sub(now_micros);
        if micros == 0 {
            return Poll::Ready(());
        }
        let has_note = noted <= at && noted * 1000 > now_micros;
        if !has_note {
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

/// Milliseconds of the swarm's clock, in 48 bits: 32 would be over in 49 days, and a `u64` would align its task to 8 bytes.
#[derive(Clone, Copy, Debug)]
struct Millis([u16; 3]);

impl Millis {
    const fn new(millis: u64) -> Self {
        Self([millis as u16, (millis >> 16) as u16, (millis >> 32) as u16])
    }

    const fn get(self) -> u64 {
        let [low, middle, high] = self.0;
        low as u64 | (middle as u64) << 16 | (high as u64) << 32
    }
}

/// No time: later than any, by 8900 years.
const NEVER: u64 = (1 << 48) - 1;

const _: () = assert!(size_of::<Deadline>() == 12 && align_of::<Deadline>() <= 4);
