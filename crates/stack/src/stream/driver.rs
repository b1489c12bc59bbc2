//! The task that moves frames between an engine and its device, and sleeps in between.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::interface::Shared;

/// The task of a [`Interface`](super::Interface): to be spawned on its thread, on a runtime of tokio with its timer.
///
/// Each time it runs, it sends what there is to send, takes a batch in, and wakes the tasks that wait for it. These
/// run before it takes the next batch. It ends when everything else of the interface has been dropped and
/// no connection is left. If it is dropped itself, its streams fail with `ConnectionAborted`.
#[must_use = "nothing moves unless the driver is spawned"]
pub struct Driver {
    pub(super) shared: Rc<Shared>,
    /// Wakes at the next deadline or before it. Most deadlines move on before they come, so the timer is not set anew for
    /// each of them.
    pub(super) sleep: Option<Pin<Box<Sleep>>>,
}

impl Driver {
    fn sleep_until(&mut self, deadline: Instant, cx: &mut Context<'_>) {
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

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.shared.set_driver(cx.waker());
        let is_busy = this.shared.step();
        if Rc::strong_count(&this.shared) == 1 && this.shared.core.borrow().engine.connections() == 0 {
            return Poll::Ready(());
        }
        // Runs after the woken tasks, so that their data leaves in one batch.
        if is_busy || this.shared.core.borrow_mut().device.poll_event(cx).is_ready() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(deadline) = this.shared.next_deadline() {
            this.sleep_until(deadline, cx);
        }
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}
