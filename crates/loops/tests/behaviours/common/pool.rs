//! What several tests of pools need.

use std::sync::mpsc::{Sender, channel};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use anywire_loops::{Pool, PoolCounters, PoolLimits, PoolTask, block_on};

use super::{HANG, poll_with};

/// A pool that takes the oldest function first.
pub(crate) fn start(threads: usize, queue: usize) -> Pool {
    Pool::start("test", PoolLimits { threads, queue, ..PoolLimits::default() }).expect("threads can be had")
}

/// A function that has begun and waits to be told to end.
pub(crate) struct Held {
    task: PoolTask<()>,
    goes_on: Sender<()>,
}

/// Keeps a thread of the pool busy.
pub(crate) fn hold(pool: &Pool) -> Held {
    let (began, has_begun) = channel();
    let (goes_on, told) = channel::<()>();
    let mut task = pool.run(move || {
        let _ = began.send(());
        let _ = told.recv();
    });
    give(&mut task);
    has_begun.recv_timeout(HANG).expect("a thread takes it");
    Held { task, goes_on }
}

impl Held {
    pub(crate) fn end(self) {
        drop(self.goes_on);
        block_on(self.task).expect("it ends");
    }
}

/// Has a function queued.
pub(crate) fn give<T>(task: &mut PoolTask<T>) {
    assert!(poll_with(task, Waker::noop()).is_pending());
}

/// Waits until the counters are as they should be.
pub(crate) fn await_counters(pool: &Pool, is_right: impl Fn(&PoolCounters) -> bool) {
    let hang = Instant::now() + HANG;
    while !is_right(&pool.counters()) {
        assert!(Instant::now() < hang, "{:?}", pool.counters());
        thread::yield_now();
    }
}
