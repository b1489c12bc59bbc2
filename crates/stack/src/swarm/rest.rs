//! A swarm whose thread sleeps while it has nothing to do.

use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use anywire_tcp::Instant;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::conn::Incoming;
use super::driver::Swarm;
use crate::device::{Device, Readiness};
use crate::ip::Event;
use crate::wait::POLL_EVERY;

impl<F, S, D> Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
    D: Device,
{
    /// Blocks the thread after a [`round`](Self::round) at `now` that had nothing to do: until the next deadline, until mail or a frame
    /// comes, or for `at_most`. For owners without a runtime. With a device that [does not tell](Readiness::Polled) when frames come,
    /// `at_most` is the delay of a frame.
    pub fn rest(&mut self, now: Instant, at_most: Duration) {
        let is_by_descriptor = matches!(self.device().readiness(), Readiness::Descriptor(_));
        let bell = if is_by_descriptor { self.alarm().bell() } else { None };
        let unpark = || Waker::from(Arc::new(Unpark(thread::current())));
        let owner = bell.clone().map_or_else(unpark, Waker::from);
        self.alarm().set(&owner);
        let until_due = self.next_deadline().map_or(at_most, |deadline| deadline.since(now.min(deadline)));
        let wait = until_due.min(at_most);
        // Mail that has come before the alarm was set makes the deadline now.
        if wait.is_zero() || self.device_and_waiter().0.before_sleep(&owner) {
            return;
        }
        match bell {
            Some(bell) if self.sleep_by_descriptor(&bell, wait) => {}
            // The system has no descriptor left for the alarm: it looks from time to time.
            _ if is_by_descriptor => thread::park_timeout(wait.min(POLL_EVERY)),
            _ => thread::park_timeout(wait),
        }
    }

    /// Sleeps until the device has something, the bell rings, or so much time has passed. False if the system refuses.
    fn sleep_by_descriptor(&self, bell: &Bell, wait: Duration) -> bool {
        let Readiness::Descriptor(device) = self.device().readiness() else { return false };
        let mut interest = PollFlags::IN;
        if self.waits_for_room() {
            interest |= PollFlags::OUT;
        }
        let mut watched = [PollFd::from_borrowed_fd(device, interest), PollFd::new(&bell.0, PollFlags::IN)];
        // Longer than the system can say is for ever.
        let wait = Timespec::try_from(wait).ok();
        let ended = poll(&mut watched, wait.as_ref());
        bell.silence();
        // A signal ends a rest as well as anything.
        matches!(ended, Ok(_) | Err(Errno::INTR))
    }

    /// Takes [`round`](Self::round)s as a task of tokio until `stop` is ready. While there is nothing to do, it waits for the device,
    /// for mail and for deadlines. The runtime needs tokio's timer, and its I/O if the device has a
    /// [descriptor](Readiness::Descriptor). May be called again.
    ///
    /// Its clock counts from the first call, so do not mix it with rounds of a time of your own.
    pub async fn run_until<R>(&mut self, stop: impl Future<Output = R>) -> R {
        let mut stop = pin!(stop);
        self.run_while(|_, cx| stop.as_mut().poll(cx)).await
    }

    /// The same until it has [drained](Self::drain).
    pub async fn run_until_drained(&mut self) {
        self.run_while(|swarm, _| if swarm.is_drained() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// The same until something happens below TCP, as [`next_event`](Self::next_event) tells it. May be dropped before, and called
    /// again: no event is lost.
    pub async fn run_until_event(&mut self) -> Event {
        self.run_while(|swarm, _| swarm.next_event().map_or(Poll::Pending, Poll::Ready)).await
    }

    async fn run_while<R>(&mut self, mut stop: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<R>) -> R {
        let clock = self.clock();
        poll_fn(|cx| {
            if let Poll::Ready(result) = stop(self, cx) {
                return Poll::Ready(result);
            }
            self.alarm().set(cx.waker());
            let found = self.round(clock.now()) > 0;
            let (device, waiter) = self.device_and_waiter();
            if waiter.stays_awake(found, device, cx) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let deadline = self.next_deadline().map(|deadline| clock.at(deadline));
            self.device_and_waiter().1.sleep(deadline, cx);
            Poll::Pending
        })
        .await
    }
}

/// Wakes the owner of a swarm from any thread.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    owner: Mutex<Option<Waker>>,
    /// Made when an owner first sleeps by descriptors.
    bell: Mutex<Option<Arc<Bell>>>,
}

impl Alarm {
    /// Whom to wake from now on.
    fn set(&self, waker: &Waker) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        owner.get_or_insert_with(|| waker.clone()).clone_from(waker);
    }

    pub(super) fn wake_owner(&self) {
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(owner) = owner {
            owner.wake();
        }
    }

    /// What wakes an owner that waits for descriptors. None if the system has none left.
    fn bell(&self) -> Option<Arc<Bell>> {
        let mut bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        if bell.is_none() {
            let new = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
            *bell = Some(Arc::new(Bell(new)));
        }
        bell.clone()
    }
}

/// Ends the sleep of a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Ends the sleep of a thread that waits for descriptors.
#[derive(Debug)]
struct Bell(OwnedFd);

impl Bell {
    fn silence(&self) {
        // Nothing to read means that it did not ring.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Fails only if it has rung 2^64 - 2 times unheard.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}
