//! The end of a swarm: tasks are told one after the other, and the rest is cut at a deadline.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use anywire_tcp::Instant;

use super::conn::Incoming;
use super::context::here;
use super::deadline::Deadline;
use super::driver::Swarm;
use super::leaf::{current, now};
use crate::device::Device;

impl<F, S, D> Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
    D: Device,
{
    /// Begins to end the swarm: it listens no more, and tells its tasks ([`draining`]). This is spread over the first half of
    /// `deadline`, so that their peers do not all connect elsewhere at the same moment. At the deadline the tasks that are left are
    /// dropped and [counted](super::SwarmCounters::cut), which closes their connections. Call it once, between rounds. Afterwards the
    /// swarm takes no connections, even if its engine listens again.
    pub fn drain(&mut self, deadline: Duration) {
        let (tasks, here) = self.parts();
        let begun = tasks.now();
        here.drain = Some(Drain { begun, told_within: deadline / 2, ends: begun + deadline });
        here.engine.stop_listening_anywhere();
        (0..tasks.reach()).for_each(|index| tasks.wake(index));
    }

    /// Whether it has [drained](Self::drain): no task is left, and no connection either, unless the deadline has passed.
    pub fn is_drained(&self) -> bool {
        self.drains_until()
            .is_some_and(|ends| self.tasks() == 0 && (self.connections() == 0 || self.now() >= ends))
    }

    /// Drops the tasks that are left at the deadline.
    pub(super) fn cut(&mut self) {
        let (tasks, here) = self.parts();
        let mut cut = 0;
        here.lend(|| {
            for index in 0..tasks.reach() {
                // If its destructor panics, it is gone all the same: the panic hook has printed it.
                cut += u64::from(catch_unwind(AssertUnwindSafe(|| tasks.remove(index))).unwrap_or(true));
            }
        });
        self.note_cut(cut);
    }
}

/// Waits until the running task is told that its swarm [drains](Swarm::drain).
///
/// ```no_run
/// use anywire_stack::swarm::{Conn, Either, draining, select};
///
/// async fn device(mut conn: Conn) {
///     let mut draining = draining();
///     while let Either::First(Some(received)) = select(conn.recv(), &mut draining).await {
///         conn.send(received).await;
///     }
///     conn.send(&b"come back later"[..]).await;
/// }
/// ```
pub fn draining() -> impl Future<Output = ()> + Unpin {
    let mut told: Option<Deadline> = None;
    poll_fn(move |cx| {
        if told.is_none() {
            let Some(drain) = here().drain else { return Poll::Pending };
            let at = drain.begun + spread(drain.told_within);
            told = Some(Deadline::after(at.since(now().min(at))));
        }
        told.as_mut().map_or(Poll::Pending, |told| Pin::new(told).poll(cx))
    })
}

/// The running task's point in a span of time. The points of all tasks are spread evenly, so that tasks do not all act at the same
/// moment. For example, connect again after a server has restarted:
///
/// ```no_run
/// # use std::time::Duration;
/// # use anywire_stack::swarm::{sleep, spread};
/// # async fn again() {
/// sleep(spread(Duration::from_secs(60))).await;
/// # }
/// ```
///
/// # Panics
///
/// If no task of a swarm runs on this thread.
pub fn spread(within: Duration) -> Duration {
    // The golden ratio: any run of indices is spread evenly.
    let share = f64::from(current().wrapping_mul(0x9e37_79b1)) / f64::from(u32::MAX);
    within.mul_f64(share)
}

/// The end of a swarm under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    begun: Instant,
    told_within: Duration,
    pub(super) ends: Instant,
}
