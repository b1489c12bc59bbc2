//! Waiting for a moment to within a microsecond or so, on a loop that has other work.
//!
//! The runtime's own timers count in whole milliseconds. So a timerfd is registered with the loop, which the kernel's
//! high-resolution timers expire. Waking up still takes some 50 us, so the last part of the wait is a bounded spin. The task yields
//! in each turn of it, and the loop goes on to read responses.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anywire_loops::clock::precise;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// A timer of one loop.
pub(crate) struct Timer {
    /// `None` if the system gives none: then the runtime's has to do, which is late by up to a millisecond.
    fd: Option<TimerFd>,
    spin: Duration,
    /// How long it has spun while the loop had nothing else to do.
    pub(crate) spun: Duration,
}

impl Timer {
    /// One that spins for the last part of a wait.
    pub(crate) fn new(spin: Duration) -> Self {
        let fd = TimerFd::new();
        if let Err(error) = &fd {
            tracing::debug!("no timerfd, so that requests leave up to a millisecond late: {error}");
        }
        Self { fd: fd.ok(), spin, spun: Duration::ZERO }
    }

    /// What it waits with: `timerfd` or `runtime`.
    pub(crate) fn kind(&self) -> &'static str {
        if self.fd.is_some() { "timerfd" } else { "runtime" }
    }

    /// Waits for a part of the time until `at`; ready when there is none left. `work` counts what the loop does: a turn in which it
    /// has done something was no spin.
    pub(crate) async fn towards(&mut self, at: Instant, work: impl Fn() -> u64) -> bool {
        let now = precise();
        let left = at.saturating_duration_since(now);
        if left.is_zero() {
            return true;
        }
        if left > self.spin {
            self.sleep(left - self.spin).await;
            return false;
        }
        let before = work();
        tokio::task::yield_now().await;
        if work() == before {
            self.spun += precise().saturating_duration_since(now);
        }
        false
    }

    async fn sleep(&mut self, time: Duration) {
        let Some(fd) = &self.fd else { return tokio::time::sleep(time).await };
        if fd.wait(time).await.is_err() {
            self.fd = None;
        }
    }
}

/// A timer that is a descriptor.
struct TimerFd {
    fd: OwnedFd,
    /// The same on the loop. It is no pipe, but is readable as one is, and a `Receiver` takes it over together with its end.
    on_loop: Receiver,
}

impl TimerFd {
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let on_loop = Receiver::from_owned_fd_unchecked(fd.try_clone()?)?;
        Ok(Self { fd, on_loop })
    }

    async fn wait(&self, time: Duration) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        // Never zero, which would disarm it.
        let value = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().max(1).into() };
        let once = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
        loop {
            self.on_loop.readable().await?;
            match self.on_loop.try_read(&mut [0; 8]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}
