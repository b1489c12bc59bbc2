//! The task that moves frames between an engine and its device, and sleeps in between.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::interface::Shared;
use crate::wait::Waiter;

/// The task of a [`Interface`](super::Interface): to be spawned on its thread, on a runtime of tokio with its timer, and with its I/O if the
/// device has a [descriptor](crate::device::Readiness::Descriptor).
///
/// Each time it runs, it sends what there is to send, takes a batch in, and wakes the tasks that wait for it. These
/// run before it takes the next batch. It ends when everything else of the interface has been dropped and
/// no connection is left, or when the device [is gone](crate::device::LinkEvent::Gone). If it is dropped itself, its streams fail with
/// `ConnectionAborted`. If it panics, the device is dropped as well.
#[must_use = "nothing moves unless the driver is spawned"]
pub struct Driver {
    shared: Rc<Shared>,
    waiter: Waiter,
    /// Set while the driver runs, so that a driver which is dropped with it has panicked.
    is_running: bool,
}

impl Driver {
    pub(super) fn of(shared: Rc<Shared>) -> Self {
        Self { shared, waiter: Waiter::default(), is_running: false }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.set_driver(cx.waker());
        let is_busy = self.shared.step();
        if self.shared.is_over() {
            return Poll::Ready(());
        }
        self.waiter.polling = self.shared.polling.get();
        // Runs after the woken tasks, so that their data leaves in one batch.
        if self.waiter.stays_awake(is_busy, &mut *self.shared.core.borrow_mut().device, cx) {
            cx.waker().wake_by_ref();
        } else {
            self.waiter.sleep(self.shared.next_deadline(), cx);
        }
        Poll::Pending
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.is_running = true;
        let polled = self.run(cx);
        self.is_running = false;
        polled
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stop(self.is_running);
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}
