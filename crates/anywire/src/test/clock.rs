//! Time that stands still until a test moves it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use anywire_loops::Loops;

/// The clock of a loop that has been stopped.
///
/// tokio moves a paused clock to the next timer as soon as nobody on the loop has anything to do, except while a blocking
/// task is under way. So one is, whenever time is to stand still.
#[derive(Debug)]
pub(super) struct Clock(Mutex<Hold>);

/// Dropping it ends the blocking task.
type Hold = mpsc::Sender<()>;

impl Clock {
    /// Stops the time of the one loop.
    pub(super) fn stop(loops: &Loops) -> Self {
        let stopped = loops.get(0).spawn(|| async {
            tokio::time::pause();
            hold()
        });
        Self(Mutex::new(stopped.wait().expect("a loop that has just started runs")))
    }

    /// Lets time pass, from timer to timer.
    pub(super) fn advance(&self, loops: &Loops, time: Duration) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = Some(std::mem::replace(&mut *held, mpsc::channel().0));
        let moved = loops.get(0).spawn(move || async move {
            let mut passed = pin!(tokio::time::sleep(time));
            poll_fn(|cx| {
                let polled = passed.as_mut().poll(cx);
                // Only now, so that time finds this timer and goes no further.
                drop(before.take());
                polled
            })
            .await;
            hold()
        });
        *held = moved.wait().expect("the loop of a server that serves runs");
    }
}

/// Holds the time of this loop.
fn hold() -> Hold {
    let (hold, held) = mpsc::channel::<()>();
    drop(tokio::task::spawn_blocking(move || held.recv()));
    hold
}
