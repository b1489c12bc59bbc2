//! Deadlines that cost one memory write to set.
//!
//! A server sets a deadline for each request and almost never reaches one. A timer of the runtime would cost a lock,
//! a reading of the clock and a walk through its timer wheel each time. Here setting is a store of a number, and
//! clearing another. One timer a loop is armed for the earliest of them.
//!
//! Most deadlines are only ever moved to a later time: each request puts off the end of its connection. So a new time
//! is written to the registry only if it is earlier than the time there. If the registry's time comes first, the task
//! is woken once for nothing, and the right time is written then. With 10,000 connections the registry's entry was one
//! of ten cache lines that a request touched, and all of them were cache misses.
//!
//! # How late
//!
//! A deadline is never early. It is late by 1 ms and 1 % of its length at most, and by as long as tasks have blocked the
//! loop. There are two ways to keep to that:
//! - **By the clock**: [`set_at`](Deadline::set_at) and [`set_from`](Deadline::set_from) take a time that the caller has
//!   read. So does [`set`](Deadline::set) if its length is below 30 s.
//! - **By ticks**: from 30 s on [`set`](Deadline::set) reads no clock, and counts [`TICK`]s instead. It is late by 100 to
//!   300 ms.

mod registry;

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll, RawWakerVTable, ready};
use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use crate::clock::{Reading, precise};
use crate::context::Local;

pub(crate) use self::registry::Registry;
use self::registry::{UNSET_NS, UNSET_TICK, nanoseconds};

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
    key: u32,
    /// It does not expire before this tick. 0 if the clock alone decides.
    tick: Cell<u32>,
    /// Nor before this time, in nanoseconds. 0 if ticks alone decide.
    at_ns: Cell<u64>,
    /// The time in the registry: not later than the two above by more than a part of their length, unless it has passed.
    wakes_ns: Cell<u64>,
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
        if registry.start(Reading::take()) {
            // Past the count of tasks: a shutdown need not wait for it.
            tokio::task::spawn_local(look_in_time(Rc::clone(registry)));
        }
        deadline
    }

    fn on(registry: Rc<Registry>) -> Self {
        let key = registry.insert();
        Self {
            registry,
            key,
            tick: Cell::new(UNSET_TICK),
            at_ns: Cell::new(0),
            wakes_ns: Cell::new(UNSET_NS),
            waiter: Cell::new((ptr::null(), ptr::null())),
        }
    }

    /// Sets it to expire in `after`, whatever it was set to before. Longer than thirteen years is as good as unset.
    ///
    /// Reads the clock if `after` is less than 30 s. A caller who knows the time saves that by
    /// [`set_from`](Self::set_from).
    #[inline]
    pub fn set(&self, after: Duration) {
        if after < BY_TICKS_FROM {
            return self.set_from(precise(), after);
        }
        let tick = self.registry.tick_after(after);
        self.set_to(tick, 0, self.registry.tick_ns(tick));
    }

    /// Sets it to expire `after` the time `now`, which the caller has just read by [`precise`], and not by
    /// [`clock::now`](crate::clock::now).
    #[inline]
    pub fn set_from(&self, now: Instant, after: Duration) {
        let at_ns = self.registry.ns_at(now).saturating_add(nanoseconds(after));
        self.set_to(0, at_ns, at_ns);
    }

    /// Sets it to expire at `at`. If that has passed, it expires when the loop next looks.
    #[inline]
    pub fn set_at(&self, at: Instant) {
        let at_ns = self.registry.ns_at(at);
        self.set_to(0, at_ns, at_ns);
    }

    #[inline]
    fn set_to(&self, tick: u32, at_ns: u64, wakes_ns: u64) {
        self.tick.set(tick);
        self.at_ns.set(at_ns);
        if wakes_ns < self.wakes_ns.get() || self.wakes_ns.get() <= self.registry.now_ns() {
            self.wake_at(wakes_ns);
        }
    }

    /// Unsets it: it does not expire until set again.
    #[inline]
    pub fn clear(&self) {
        self.tick.set(UNSET_TICK);
    }

    /// Ready if it has expired, and until it is set again or cleared; else wakes the task when it expires.
    ///
    /// Only the task that polled last is woken. It may be woken too early, if the deadline was moved to a later time or
    /// cleared, and must poll again then. Setting the deadline anew does not need another poll.
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
        if self.wakes_ns.get() <= self.registry.now_ns() {
            self.wake_at(match self.tick.get() {
                0 => self.at_ns.get(),
                tick => self.registry.tick_ns(tick),
            });
        }
        Poll::Pending
    }

    /// Whether it has expired, without waiting for it. It is compared with the time at which the loop last looked.
    #[inline]
    pub fn is_expired(&self) -> bool {
        self.tick.get() <= self.registry.now() && self.at_ns.get() <= self.registry.now_ns()
    }

    /// Out of line: most deadlines are moved to a later time.
    #[cold]
    fn wake_at(&self, at_ns: u64) {
        let by_clock = self.tick.get() == 0;
        let wakes_ns = if by_clock { self.registry.rounded_up(at_ns) } else { at_ns };
        let before_ns = self.wakes_ns.get();
        if wakes_ns >= before_ns && before_ns > self.registry.now_ns() {
            // The time there was rounded up by a part of its length, and is early enough for this length too.
            return;
        }
        self.wakes_ns.set(wakes_ns);
        self.registry.set(self.key, wakes_ns);
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

/// The resolution of [`clock`](crate::clock), and of deadlines that go by ticks: 100 ms.
pub const TICK: Duration = Duration::from_millis(100);

/// The least length of a deadline that goes by ticks: they are late by 300 ms at most, which is 1 % of it.
const BY_TICKS_FROM: Duration = Duration::from_secs(30);

/// The one timer of the loop: looks at each tick, and whenever a deadline comes before it. Ends with the last deadline.
async fn look_in_time(registry: Rc<Registry>) {
    let mut timer = pin!(sleep_until(registry.next_look().into()));
    poll_fn(|context| {
        registry.look_again_by(context.waker());
        loop {
            let next = registry.next_look().into();
            if timer.deadline() != next {
                timer.as_mut().reset(next);
            }
            ready!(timer.as_mut().poll(context));
            if !registry.look(Reading::take()) {
                return Poll::Ready(());
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests;
