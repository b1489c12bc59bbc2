//! What several tests of loops need: values whose destructors panic, and wakers that do.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part of this")]

pub(crate) mod pool;

use std::panic::panic_any;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use anywire_loops::{Label, LoopHandle, Task, TaskError, Work};

/// Panics when it is dropped, with a payload that panics when it is dropped, and so on, this many times.
#[derive(Debug, PartialEq)]
pub(crate) struct Bomb(pub(crate) u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        match self.0 {
            0 => {}
            1 => panic!("{BANG}"),
            more => panic_any(Self(more - 1)),
        }
    }
}

/// A waker that panics when it wakes.
pub(crate) fn panicking_waker() -> Waker {
    struct PanicsWhenWoken;
    impl Wake for PanicsWhenWoken {
        fn wake(self: Arc<Self>) {
            panic_any(Bomb(1));
        }
    }
    Arc::new(PanicsWhenWoken).into()
}

/// A waker that panics when the last of its clones is dropped.
pub(crate) fn waker_that_panics_when_dropped() -> Waker {
    struct PanicsWhenDropped(#[expect(dead_code, reason = "dropped, not read")] Bomb);
    impl Wake for PanicsWhenDropped {
        fn wake(self: Arc<Self>) {}
    }
    Arc::new(PanicsWhenDropped(Bomb(1))).into()
}

/// Polls a future once with a waker of the caller's, and then no more.
pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Keeps a loop busy until told otherwise.
pub(crate) struct Blocked {
    free: Sender<()>,
    task: Task<()>,
}

impl Blocked {
    /// Returns when the loop is busy.
    pub(crate) fn new(one: &LoopHandle) -> Self {
        Self::at_work(one, Label::NONE)
    }

    /// As [`new`](Self::new), with what the loop works on.
    pub(crate) fn at_work(one: &LoopHandle, label: Label) -> Self {
        let (free, is_free) = mpsc::channel();
        let (blocks, is_blocked) = mpsc::channel();
        let task = one.spawn(move || async move {
            let work = Work::here();
            work.begins(label);
            blocks.send(()).expect("the test listens");
            // An error says that the test has failed, and that nothing is to be waited for.
            let _ = is_free.recv();
            work.ends();
        });
        is_blocked.recv().expect("the loop runs");
        Self { free, task }
    }

    /// Lets the loop go on, and returns when it does.
    pub(crate) fn free(self) {
        self.free.send(()).expect("the loop waits");
        self.task.wait().expect("nothing in it panics");
    }
}

/// Returns when a task says so; panics if it never does.
pub(crate) fn wait_for<T>(told: &Receiver<T>) -> T {
    told.recv_timeout(HANG).expect("told within the time that a hang is taken for")
}

/// Waits for something that sends no event, such as a counter.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let hang = Instant::now() + HANG;
    while !is_so() {
        assert!(Instant::now() < hang, "never happened: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Says that a loop still takes work and gives answers.
pub(crate) fn assert_goes_on(one: &LoopHandle) {
    let (tell, told) = mpsc::channel();
    let task = one.spawn(move || async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tell.send(()).expect("the test listens");
        7
    });
    told.recv_timeout(HANG).expect("the loop goes on");
    assert_eq!(task.wait(), Ok::<_, TaskError>(7));
}

/// What the last of a bomb's panics says.
pub(crate) const BANG: &str = "a bomb went off";

/// A longer wait than this is a hang.
pub(crate) const HANG: Duration = Duration::from_secs(60);
