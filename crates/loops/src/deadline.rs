//! Coarse deadlines that cost one memory write to set.
//!
//! A server sets a deadline for each request and almost never reaches one. A timer of the runtime would cost a lock,
//! a reading of the clock and a walk through its timer wheel each time. Here setting is a store of a tick number, and
//! clearing another; once a tick, one task a loop looks whether the earliest of them is due.
//!
//! Most deadlines are only ever moved to a later time: each request puts off the end of its connection. So a new time
//! is written to the registry only if it is earlier than the time there. If the registry's time comes first, the task
//! is woken once for nothing, and the right time is written then. With 10,000 connections the registry's entry was one
//! of ten cache lines that a request touched, and all of them were cache misses.
//!
//! A deadline is never early. It is late by 100 to 200 ms if its length is a multiple of [`TICK`], else by up to 300
//! ms. Added to that is the time for which tasks have blocked the loop.

mod registry;

use std::cell::Cell;
use std::fmt;
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll, RawWakerVTable};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::clock::Reading;
use crate::context::Local;

pub(crate) use self::registry::Registry;
use self::registry::UNSET;

/// One deadline of one loop, unset at first. Make one a connection, and set it as often as needed.
///
/// ```
/// use anywire_loops::Deadline;
/// use std::future::poll_fn;
/// use std::time::{Duration, Instant};
///
/// let loops = anywire_loops::Loops::start(1)?;
/// let waited = loops.get(0).spawn(|| async {
///     let deadline = Deadline::new();
///     let start = Instant::now();
///     deadline.set(Duration::from_millis(20));
///     poll_fn(|context| deadline.poll_expired(context)).await;
///     start.elapsed()
/// });
/// assert!(waited.wait()? >= Duration::from_millis(20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Deadline {
    registry: Rc<Registry>,
    key: usize,
    /// The tick at which it expires.
    due: Cell<u32>,
    /// The tick in the registry: not later than `due`, unless it has passed.
    wakes: Cell<u32>,
    /// Identifies the waker in the registry.
    waiter: Cell<Identity>,
}

/// Identifies a waker, as long as the registry holds it.
type Identity = (*const (), *const RawWakerVTable);

impl Deadline {
    /// An unset deadline on the present loop.
    ///
    /// # Panics
    ///
    /// If the caller does not run on a loop.
    #[track_caller]
    #[allow(clippy::new_without_default, reason = "it depends on where it is called")]
    pub fn new() -> Self {
        let registry = Local::with(|local| Rc::clone(local.registry()));
        let deadline = Self::on(registry);
        let registry = &deadline.registry;
        if registry.start_ticking(Reading::take()) {
            // Past the count of tasks: a shutdown need not wait for it.
            tokio::task::spawn_local(tick(Rc::clone(registry)));
        }
        deadline
    }

    fn on(registry: Rc<Registry>) -> Self {
        let key = registry.insert();
        let nobody = (ptr::null(), ptr::null());
        Self { registry, key, due: Cell::new(UNSET), wakes: Cell::new(UNSET), waiter: Cell::new(nobody) }
    }

    /// Sets it to expire in `after`, whatever it was set to before. Longer than thirteen years is as good as unset.
    #[inline]
    pub fn set(&self, after: Duration) {
        let due = self.registry.tick_after(after);
        self.due.set(due);
        if due < self.wakes.get() || self.wakes.get() <= self.registry.now() {
            self.wakes.set(due);
            self.registry.set(self.key, due);
        }
    }

    /// Unsets it: it does not expire until set again.
    #[inline]
    pub fn clear(&self) {
        self.due.set(UNSET);
        self.wakes.set(UNSET);
        self.registry.set(self.key, UNSET);
    }

    /// Ready if it has expired, and until it is set again or cleared; else wakes the task when it expires.
    ///
    /// Only the task that polled last is woken. It may be woken too early, if the deadline was moved to a later time,
    /// and must poll again then. Setting the deadline anew does not need another poll.
    #[inline]
    pub fn poll_expired(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_expired() {
            return Poll::Ready(());
        }
        let waker = context.waker();
        let waiter = (waker.data(), ptr::from_ref(waker.vtable()));
        if self.waiter.get() != waiter {
            self.registry.wait(self.key, waker);
            self.waiter.set(waiter);
        }
        if self.wakes.get() <= self.registry.now() {
            self.wakes.set(self.due.get());
            self.registry.set(self.key, self.due.get());
        }
        Poll::Pending
    }

    /// Whether it has expired, without waiting for it.
    #[inline]
    pub fn is_expired(&self) -> bool {
        self.due.get() <= self.registry.now()
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.registry.remove(self.key);
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Deadline").field("is_expired", &self.is_expired()).finish_non_exhaustive()
    }
}

/// The resolution of deadlines and of [`clock`](crate::clock): 100 ms.
pub const TICK: Duration = Duration::from_millis(100);

/// Ticks while there is any deadline in the registry.
async fn tick(registry: Rc<Registry>) {
    let mut next = Instant::now() + TICK;
    let mut sleep = std::pin::pin!(sleep_until(next));
    loop {
        sleep.as_mut().await;
        let reading = Reading::take();
        if !registry.tick(reading) {
            return;
        }
        next = next_beat(next, Instant::from_std(reading.instant));
        sleep.as_mut().reset(next);
    }
}

/// When the next tick is to come, after one that was expected at a time and came `now`.
///
/// Ticks keep to a fixed beat, so that their lateness does not add up over the length of a deadline. After a delay of
/// more than a tick the beat starts anew. Otherwise the missed ticks would follow at once, and a deadline set just
/// before them would be early.
fn next_beat(expected: Instant, now: Instant) -> Instant {
    let beat = if now.saturating_duration_since(expected) <= TICK { expected } else { now };
    beat + TICK
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Ticks a registry, each tick late by `lateness` (in ms), and sets a deadline of `after` during one of them.
    /// Returns how much later than asked it expired.
    fn expires_late_by(lateness: &[u64], set_in_tick: usize, set_at_share: f64, after: Duration) -> Duration {
        let start = Instant::now();
        let registry = Rc::<Registry>::default();
        let deadline = Deadline::on(Rc::clone(&registry));
        let mut expected = start + TICK;
        let mut last = start;
        let mut set_at = None;
        for tick in 0.. {
            let late = MS(lateness[tick % lateness.len()]);
            // A tick never comes before the one before it has been seen to.
            let now = expected.max(last) + late;
            if tick == set_in_tick {
                set_at = Some(last + (now - last).mul_f64(set_at_share));
                deadline.set(after);
            }
            registry.tick(Reading { instant: now.into_std(), ..Reading::take() });
            if let Some(set_at) = set_at
                && deadline.is_expired()
            {
                return (now - set_at)
                    .checked_sub(after)
                    .unwrap_or_else(|| panic!("early: {:?}", now - set_at));
            }
            (expected, last) = (next_beat(expected, now), now);
        }
        unreachable!("the ticks never end")
    }

    proptest! {
        #[test]
        fn never_early_however_late_the_ticks_are(
            lateness in prop::collection::vec(prop_oneof![3 => 0..5u64, 1 => 0..700u64], 1..20),
            set_in_tick in 0..40usize,
            set_at_share in 0.0..=1.0,
            after_ms in 0..3000u64,
        ) {
            expires_late_by(&lateness, set_in_tick, set_at_share, MS(after_ms));
        }

        #[test]
        fn late_by_two_ticks_where_the_loop_is_not_blocked(
            lateness in prop::collection::vec(0..5u64, 1..20),
            set_in_tick in 0..40usize,
            set_at_share in 0.0..=1.0,
            ticks in 0..50u32,
        ) {
            let late = expires_late_by(&lateness, set_in_tick, set_at_share, TICK * ticks);
            prop_assert!((TICK - MS(5)..=2 * TICK + MS(5)).contains(&late), "{late:?}");
        }
    }
}
