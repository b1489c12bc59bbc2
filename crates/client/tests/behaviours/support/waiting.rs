//! Waiting without a runtime.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anywire_client::Client;

/// Far beyond what any test needs: only a hang gets there.
pub const HANG: Duration = Duration::from_secs(60);

/// Runs a future on this thread, with nothing but `park`. Panics if it hangs.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let hang = Instant::now() + HANG;
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park_timeout(HANG),
        }
        assert!(Instant::now() < hang, "not ready after {HANG:?}");
    }
}

/// Runs futures side by side on this thread: what came of each.
pub fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    block_on(poll_fn(|cx| {
        let mut all_ready = true;
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(ready) => *output = Some(ready),
                Poll::Pending => all_ready = false,
            }
        }
        if all_ready { Poll::Ready(()) } else { Poll::Pending }
    }));
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

/// Polls a future once, with a waker that does nothing.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits until no call has a connection or waits for one: a call that its caller has dropped goes on until its loop hears of it.
pub fn until_no_call(client: &Client) {
    eventually("no call is under way", || {
        let counters = client.counters().total();
        (counters.active, counters.waiting) == (0, 0)
    });
}

/// Waits for something that sends no event, such as a counter.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let hang = Instant::now() + HANG;
    while !condition() {
        assert!(Instant::now() < hang, "never happened: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
