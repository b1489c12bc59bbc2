//! How long a request may wait for a thread, and since when.

use std::fmt;
use std::time::Duration;

use anywire_loops::PoolTask;

use super::Arrived;

/// How long a request may wait for a thread of its pool: [`OnPool::queue_deadline`](super::OnPool::queue_deadline).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDeadline {
    longest: Duration,
    since: Since,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    Arrival,
    Queueing,
}

impl QueueDeadline {
    /// Counted from when the head of the request was complete. So the time counts that layers take, and that the peer takes to send the
    /// body.
    pub fn from_arrival(longest: Duration) -> Self {
        Self { longest, since: Since::Arrival }
    }

    /// Counted from when the function is queued, with all its arguments there.
    pub fn from_queueing(longest: Duration) -> Self {
        Self { longest, since: Since::Queueing }
    }

    pub(crate) fn counts_from_arrival(self) -> bool {
        self.since == Since::Arrival
    }

    /// Gives the deadline to a function, whose request came then.
    pub(super) fn apply<T>(self, task: PoolTask<T>, arrived: Option<Arrived>) -> PoolTask<T> {
        match arrived.filter(|_| self.counts_from_arrival()) {
            Some(Arrived(at)) => task.queue_deadline_since(at, self.longest),
            None => task.queue_deadline(self.longest),
        }
    }
}

/// For the table of routes.
impl fmt::Display for QueueDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = if self.counts_from_arrival() { " from arrival" } else { "" };
        write!(f, "{:?}{since}", self.longest)
    }
}

impl From<Duration> for QueueDeadline {
    fn from(longest: Duration) -> Self {
        Self::from_queueing(longest)
    }
}
