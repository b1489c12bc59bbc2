//! How the owner of a device waits for it: a task of tokio that sleeps while nothing happens, and looks again at once while much does.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::device::{Device, Readiness};

/// How the owner of a device waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Polling {
    /// It looks again a few times before it sleeps, more often if that was worth it of late. A look is a system call, and a sleep costs
    /// a wake-up by the kernel of 5 to 25 us.
    #[default]
    Adaptive,
    /// It sleeps as soon as nothing is there: least work for a loop that has other things to do, or a core to share.
    Sleep,
    /// It never sleeps. A frame is seen at once, and a core is always busy.
    Spin,
}

/// What wakes the owner of one device.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    /// How it waits, which may change while it runs.
    pub(crate) polling: Polling,
    descriptor: Watched,
    looks: Looks,
    /// Wakes at the next deadline or before it. Most deadlines move on before they come, so the timer is not set anew for
    /// each of them.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Nothing tells when frames come.
    is_polled: bool,
}

/// The descriptor of the device, once it was asked for.
#[derive(Debug, Default)]
enum Watched {
    #[default]
    NotYet,
    /// And its number: the device may have another one later. This is a duplicate, so the number may be free when the device has
    /// closed its own: hence [`Readiness::Descriptor`] asks it not to.
    By(AsyncFd<OwnedFd>, RawFd),
    /// The system had no descriptor left to watch it by: it is looked at from time to time, and not watched before this moment.
    Failed(Instant),
}

impl Waiter {
    /// Whether to look at the device again at once. `found`: the last look has found something. If false, the task is woken when
    /// the device has something, and may [`sleep`](Self::sleep).
    pub(crate) fn stays_awake<D: Device + ?Sized>(
        &mut self,
        found: bool,
        device: &mut D,
        cx: &mut Context<'_>,
    ) -> bool {
        if found {
            self.looks.found();
            return true;
        }
        self.is_polled = false;
        if self.polling == Polling::Spin {
            return true;
        }
        match device.readiness() {
            Readiness::Hook => return device.before_sleep(cx.waker()),
            Readiness::Polled => {
                self.is_polled = true;
                return false;
            }
            Readiness::Descriptor(descriptor) => {
                let number = descriptor.as_raw_fd();
                let is_other = match self.descriptor {
                    Watched::NotYet => true,
                    Watched::By(_, watched) => watched != number,
                    Watched::Failed(again) => Instant::now() >= again,
                };
                if is_other {
                    let own = descriptor.try_clone_to_owned();
                    let watched = own.and_then(watch);
                    self.descriptor = match watched {
                        Ok(own) => Watched::By(own, number),
                        Err(_) => Watched::Failed(Instant::now() + WATCH_AGAIN_AFTER),
                    };
                }
            }
        }
        if self.polling == Polling::Adaptive && self.looks.again() || device.before_sleep(cx.waker()) {
            return true;
        }
        let Watched::By(descriptor, _) = &self.descriptor else {
            self.is_polled = true;
            return false;
        };
        // Readiness is kept until it is cleared. So it may be that of frames which were taken since: one more look tells.
        let (reading, writing) = (descriptor.poll_read_ready(cx), descriptor.poll_write_ready(cx));
        [reading, writing].into_iter().fold(false, |is_ready, direction| match direction {
            Poll::Ready(Ok(mut guard)) => {
                guard.clear_ready();
                true
            }
            // The runtime is shutting down.
            Poll::Ready(Err(_)) | Poll::Pending => is_ready,
        })
    }

    /// Has the task woken at this moment at the latest.
    pub(crate) fn sleep(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) {
        let look = self.is_polled.then(|| Instant::now() + POLL_EVERY);
        let Some(deadline) = deadline.into_iter().chain(look).min() else { return };
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                let is_over = sleep.is_elapsed();
                if !is_over && sleep.deadline() <= deadline {
                    return;
                }
                sleep.as_mut().reset(deadline);
                sleep
            }
            none => none.insert(Box::pin(sleep_until(deadline))),
        };
        if sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

#[expect(
    deprecated,
    reason = "an `OwnedFd` keeps the promises that `register` asks for in an `unsafe` block, which `sys` alone may have"
)]
fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}

/// How many looks in vain come before a sleep: more if they found something of late, fewer if not. A sleep costs a wake-up by the
/// kernel of 5 to 25 us, and a look in vain one system call.
#[derive(Debug)]
struct Looks {
    /// How many.
    budget: u32,
    /// How many there were since something was found.
    vain: u32,
    /// The owner went to sleep since.
    slept: bool,
}

impl Looks {
    fn found(&mut self) {
        if self.vain > 0 && !self.slept {
            // A look after one in vain was worth it.
            self.budget = (2 * self.budget).min(LOOKS_MAX);
        }
        (self.vain, self.slept) = (0, false);
    }

    /// Nothing was found. Whether to look once more.
    fn again(&mut self) -> bool {
        if self.vain < self.budget && !self.slept {
            self.vain += 1;
            return true;
        }
        if !std::mem::replace(&mut self.slept, true) {
            self.budget = (self.budget / 2).max(1);
        }
        false
    }
}

impl Default for Looks {
    fn default() -> Self {
        Self { budget: 1, vain: 0, slept: false }
    }
}

/// Looks in vain before a sleep, at most: about as long as it takes to be woken.
const LOOKS_MAX: u32 = 64;

/// When a device is watched that could not be for want of a descriptor: its process may have closed others.
const WATCH_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How often a device is looked at that does not tell when frames come.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use anywire_tcp::Frames;

    use super::*;
    use crate::device::{Capabilities, DeviceCounters};

    /// Looks in vain until it sleeps.
    fn vain(looks: &mut Looks) -> usize {
        (0..).take_while(|_| looks.again()).count()
    }

    #[test]
    fn who_finds_something_late_looks_longer_next_time() {
        let mut looks = Looks::default();
        assert_eq!((vain(&mut looks), vain(&mut looks)), (1, 0), "a timer that wakes it makes it look once");
        for expected in [2, 4, 8, 16, 32, 64, 64] {
            looks.found();
            assert!(looks.again());
            looks.found();
            assert_eq!(looks.budget, expected);
        }
        for expected in [64, 32, 16, 8, 4, 2, 1, 1] {
            looks.found();
            assert_eq!(vain(&mut looks), expected);
        }
    }

    /// A device with this descriptor, by which nothing comes.
    struct Silent(OwnedFd);

    impl Device for Silent {
        fn capabilities(&self) -> Capabilities {
            Capabilities::new(1500)
        }

        fn receive(&mut self, _: anywire_tcp::Instant, _: &mut Frames) -> usize {
            0
        }

        fn room(&self) -> usize {
            0
        }

        fn transmit(&mut self, _: anywire_tcp::Instant, _: &mut Frames) -> usize {
            0
        }

        fn readiness(&self) -> Readiness<'_> {
            Readiness::Descriptor(self.0.as_fd())
        }

        fn counters(&self) -> DeviceCounters {
            DeviceCounters::default()
        }
    }

    /// A process that is at its limit of descriptors closes some in time. Files cannot be watched either.
    #[test]
    fn a_device_that_cannot_be_watched_is_tried_again() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let mut device = Silent(File::open("/").expect("it is there").into());
            let mut waiter = Waiter { polling: Polling::Sleep, ..Waiter::default() };
            let cx = &mut Context::from_waker(std::task::Waker::noop());
            assert!(!waiter.stays_awake(false, &mut device, cx) && waiter.is_polled);
            device.0 = UnixDatagram::unbound().expect("a descriptor").into();
            assert!(
                !waiter.stays_awake(false, &mut device, cx) && waiter.is_polled,
                "it is tried once a second"
            );
            tokio::time::advance(WATCH_AGAIN_AFTER).await;
            waiter.stays_awake(false, &mut device, cx);
            assert!(!waiter.is_polled);
        });
    }
}
