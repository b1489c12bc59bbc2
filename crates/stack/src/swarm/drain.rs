//! The end of a swarm: tasks are told one after the other, and the rest is cut at a deadline.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use anywire_tcp::Instant;

use super::conn::Incoming;
use super::context::swarm_state;
use super::deadline::Deadline;
use super::driver::{RUN_LIMIT, Swarm};
use super::leaf::{current, now};
use crate::device::Device;

impl<F, S, D> Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
    D: Device,
{
    /// Begins to end the swarm: it listens no more, and tells its tasks ([`draining`]). This is spread over the first half of
    /// `deadline`, so that their peers do not all connect elsewhere at the same moment. From the deadline on the tasks that are left are
    /// dropped and [counted](super::SwarmCounters::cut), which closes their connections: some in each round, so that very many do not
    /// hold up the others. Call it once, between rounds. Afterwards the swarm takes no connections, even if its engine listens again.
    pub fn drain(&mut self, deadline: Duration) {
        let (tasks, state) = self.parts();
        let begun = tasks.now();
        let ends = begun + deadline;
        state.drain = Some(Drain { begun, told_within: deadline / 2, ends, told: 0, looked_at: 0 });
        state.engine.stop_listening_anywhere();
    }

    /// Whether it has [drained](Self::drain): no task is left, and no connection either, unless the deadline has passed.
    pub fn is_drained(&self) -> bool {
        self.drains_until()
            .is_some_and(|ends| self.tasks() == 0 && (self.connections() == 0 || self.now() >= ends))
    }

    /// Whether a round has something to do for it: tasks to tell, or to drop.
    pub(super) fn is_ending_tasks(&self, now: Instant) -> bool {
        let (tasks, state) = self.parts_to_see();
        state.drain.is_some_and(|drain| drain.told < tasks.reach() || drain.ends <= now && !tasks.is_empty())
    }

    /// A round's part of the end: tells some tasks of it, and drops some of those that are left at the deadline. A million at once
    /// would hold up frames, timers and ACKs for a second. Returns how much was done.
    pub(super) fn end_tasks(&mut self, now: Instant) -> usize {
        // Half of the room is for what others have to say: each task that is dropped sends a FIN.
        let part = (self.room() / 2).clamp(PART_MIN, PART) as u32;
        let (tasks, state) = self.parts();
        let Some(drain) = &mut state.drain else { return 0 };
        let told = drain.told..tasks.reach().min(drain.told.saturating_add(PART as u32));
        drain.told = told.end.max(drain.told);
        let done = told.len();
        told.for_each(|index| tasks.wake(index));
        if drain.ends > now || tasks.is_empty() {
            return done;
        }
        let (reach, mut next, mut cut) = (tasks.reach(), drain.looked_at, 0);
        state.lend(|| {
            for _ in 0..LOOKED_AT {
                next = if next < reach { next } else { 0 };
                if tasks.contains(next) {
                    // If its destructor panics, it is gone all the same: the panic hook has printed it.
                    let _ = catch_unwind(AssertUnwindSafe(|| tasks.remove(next)));
                    cut += 1;
                }
                next += 1;
                if cut == part || tasks.is_empty() {
                    break;
                }
            }
        });
        if let Some(drain) = &mut state.drain {
            drain.looked_at = next;
        }
        self.note_cut(cut.into());
        done + 1
    }
}

/// Tasks that one round tells of the end, and the most that it drops: as many as it polls.
const PART: usize = RUN_LIMIT;
/// So many are dropped even if the device has no room.
const PART_MIN: usize = 32;

/// Slots that one round looks at to find tasks to drop.
const LOOKED_AT: usize = 16 * PART;

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
            let Some(drain) = swarm_state().drain else { return Poll::Pending };
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
    /// Tasks below this one have been told.
    told: u32,
    /// Where to look next for tasks to drop.
    looked_at: u32,
}
