//! The time to within a tick, without asking the system for it.
//!
//! Reading the clock costs some tens of nanoseconds, which adds up at a million requests a second. A `date` header
//! or a log line needs no such precision. While any [`Deadline`](crate::Deadline) exists on a loop, the loop reads the
//! clock at least once every [`TICK`](crate::deadline::TICK), and these functions return the last reading. Without a
//! deadline, or on a thread that is no loop, they read the clock themselves.
//!
//! They are never ahead of the true time. They are behind it by as long as a task has blocked the loop, so a limit that
//! counts from them ends early on such a loop. To never end early, count from [`precise`].

use std::time::{Duration, Instant, SystemTime};

use crate::context::Local;

/// The monotonic time, up to one tick old (100 ms), and older only while a task blocks the loop.
#[inline]
pub fn now() -> Instant {
    reading().map_or_else(precise, |reading| reading.instant)
}

/// The time of day, up to one tick old (100 ms), and older only while a task blocks the loop.
#[inline]
pub fn unix_time() -> SystemTime {
    reading().map_or_else(SystemTime::now, |reading| reading.unix_time)
}

/// The monotonic time, read now: what deadlines count from.
///
/// The same as [`Instant::now`], except on a loop whose time a test has paused (`tokio::time::pause`).
#[inline]
pub fn precise() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The moment so long behind `since`. Ten years are the longest: as good as never, and any [`Duration`] can be added, while
/// `Instant + Duration::MAX` panics.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use anywire_loops::clock;
///
/// let now = Instant::now();
/// assert_eq!(clock::after(now, Duration::from_secs(5)), now + Duration::from_secs(5));
/// assert!(clock::after(now, Duration::MAX) > now + Duration::from_secs(1 << 28));
/// ```
#[inline]
pub fn after(since: Instant, duration: Duration) -> Instant {
    since + duration.min(NEVER)
}

/// Ten years, and less than the thirteen that a [`Deadline`](crate::Deadline) can wait.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Both clocks, as they were when the loop last looked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) instant: Instant,
    pub(crate) unix_time: SystemTime,
}

impl Reading {
    pub(crate) fn take() -> Self {
        Self { instant: precise(), unix_time: SystemTime::now() }
    }
}

#[inline]
fn reading() -> Option<Reading> {
    Local::try_with(|local| local.registry().reading()).flatten()
}
