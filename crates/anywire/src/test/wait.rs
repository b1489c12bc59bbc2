//! Waiting that ends: a test that hangs says so.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Polls a future until it is ready. `None` if it is not within this much of the world's time.
pub(super) fn wait_for<F: Future>(future: F, patience: Duration) -> Option<F::Output> {
    let (wake, woken) = mpsc::sync_channel(1);
    let waker = Waker::from(Arc::new(WakeBy(wake)));
    let mut future = pin!(future);
    let began = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let left = patience.checked_sub(began.elapsed())?;
        let _ = woken.recv_timeout(left);
    }
}

struct WakeBy(mpsc::SyncSender<()>);

impl Wake for WakeBy {
    fn wake(self: Arc<Self>) {
        // A full channel wakes as well.
        let _ = self.0.try_send(());
    }
}
