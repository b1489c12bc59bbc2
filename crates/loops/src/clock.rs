//! The time to within a tick, without asking the system for it.
//!
//! Reading the clock costs some tens of nanoseconds, which adds up at a million requests a second. A `date` header
//! or a log line does not need it: while any [`Deadline`](crate::Deadline) exists on a loop, the loop reads the clock
//! once every [`TICK`](crate::deadline::TICK), and these functions give what it read. Without one, or on a thread
//! that is no loop, they read the clock themselves.
//!
//! They are never ahead of the true time, and behind by as long as a task has blocked the loop. So a limit that counts
//! from them ends early on a loop that was blocked. What must not end early counts from [`Instant::now`], or is a
//! [`Deadline`](crate::Deadline), which knows no clock: it counts ticks from when it is set.

use std::time::{Instant, SystemTime};

use crate::context::Local;

/// The monotonic time, up to one tick old (100 ms), and older only while a task blocks the loop.
#[inline]
pub fn now() -> Instant {
    reading().map_or_else(Instant::now, |reading| reading.instant)
}

/// The time of day, up to one tick old (100 ms), and older only while a task blocks the loop.
#[inline]
pub fn unix_time() -> SystemTime {
    reading().map_or_else(SystemTime::now, |reading| reading.unix_time)
}

/// Both clocks, as they were at the last tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) instant: Instant,
    pub(crate) unix_time: SystemTime,
}

impl Reading {
    pub(crate) fn take() -> Self {
        Self { instant: Instant::now(), unix_time: SystemTime::now() }
    }
}

#[inline]
fn reading() -> Option<Reading> {
    Local::try_with(|local| local.wheel().reading()).flatten()
}
