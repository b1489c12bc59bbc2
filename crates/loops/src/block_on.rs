//! Waiting for a future on a thread that is no loop.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Polls a future on the calling thread, which sleeps in between.
///
/// There is no runtime on this thread, so the future must not need one: it may await [`Task`](crate::Task)s and
/// channels, but open no socket and set no timer.
///
/// ```
/// let loops = anywire_loops::Loops::start(2)?;
/// let (one, two) = (loops.get(0).spawn(|| async { 1 }), loops.get(1).spawn(|| async { 2 }));
/// let sum = anywire_loops::block_on(async { Ok::<_, anywire_loops::TaskError>(one.await? + two.await?) })?;
/// assert_eq!(sum, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If called on a loop: it would block all other tasks of that loop. Await the future there.
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    assert!(
        crate::current().is_none(),
        "cannot block on a loop: all other tasks of the loop would wait too; await it instead"
    );
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Ends the sleep of the thread in [`block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
