//! A swarm whose thread sleeps while it has nothing to do.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use anywire_tcp::Instant;
use tokio::time;

use super::conn::Incoming;
use super::driver::Swarm;
use crate::device::Device;
use crate::stream::LiveDevice;

impl<F, S, D> Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
    D: Device,
{
    /// Blocks the thread after a [`round`](Self::round) at `now` that had nothing to do: until the next deadline, until mail comes,
    /// or for `at_most`. For owners without a runtime. Frames do not end it, so with a device that is fed from outside of this
    /// thread, `at_most` is the delay of a frame.
    pub fn rest(&self, now: Instant, at_most: Duration) {
        self.alarm().set(&Waker::from(Arc::new(Unpark(thread::current()))));
        let until_due = self.next_deadline().map_or(at_most, |deadline| deadline.since(now.min(deadline)));
        // Mail that has come before the alarm was set makes the deadline now.
        if !until_due.is_zero() {
            thread::park_timeout(until_due.min(at_most));
        }
    }
}

impl<F, S, D> Swarm<F, S, D>
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
    D: LiveDevice,
{
    /// Takes [`round`](Self::round)s as a task of tokio until `stop` is ready. While there is nothing to do, it waits for the device,
    /// for mail and for deadlines. The runtime needs tokio's timer. May be called again.
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

    async fn run_while<R>(&mut self, mut stop: impl FnMut(&Self, &mut Context<'_>) -> Poll<R>) -> R {
        let started = *self.started().get_or_insert_with(time::Instant::now);
        let mut sleep = pin!(time::sleep_until(started));
        poll_fn(|cx| {
            if let Poll::Ready(result) = stop(self, cx) {
                return Poll::Ready(result);
            }
            self.alarm().set(cx.waker());
            let now = Instant::from_micros(START_MICROS + started.elapsed().as_micros() as u64);
            if self.round(now) > 0 || self.poll_device(cx).is_ready() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(deadline) = self.next_deadline() {
                let micros = deadline.as_micros().saturating_sub(START_MICROS);
                sleep.as_mut().reset(started + Duration::from_micros(micros));
                if sleep.as_mut().poll(cx).is_ready() {
                    cx.waker().wake_by_ref();
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Wakes the owner of a swarm from any thread.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    owner: Mutex<Option<Waker>>,
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
}

/// Ends the sleep of a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The engine's clock starts here, so that nothing of it lies before the start.
const START_MICROS: u64 = 1_000_000;
