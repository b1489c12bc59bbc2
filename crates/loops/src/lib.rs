//! One event loop a core: placement, hand-over, loop-local storage and deadlines.
//!
//! A **loop** is one OS thread with one tokio [`LocalRuntime`](tokio::runtime::LocalRuntime). A connection stays on the
//! loop that opened it. So tasks need not be `Send`, and they share state without a lock, in an [`Rc`](std::rc::Rc)
//! or a [`Cell`](std::cell::Cell).
//!
//! | to | use |
//! | --- | --- |
//! | start loops, pick one, stop them | [`Loops`] |
//! | run something on a given loop, from anywhere | [`LoopHandle::spawn`] |
//! | run something beside the present task, on its loop | [`spawn`] |
//! | keep one value a loop: a pool, a cache | [`local`] |
//! | give up on a silent peer without a timer a connection | [`deadline::Deadline`] |
//! | run what blocks or computes for long, off the loops | [`Pool`] |
//! | wait for a future on a thread that is no loop | [`block_on`] |
//! | end the process in order at SIGINT and SIGTERM | [`Signals`] |
//! | count on one thread, read on others | [`Counter`] |
//! | measure on one thread, read on others, and tell Prometheus | [`metrics`] |
//! | know the time without asking the system | [`clock`] |
//! | be told which handler blocks a loop | [`Limits::stall_after`], [`Work`] |
//!
//! Sockets, timers and channels of tokio work on a loop too. Two things differ, because a loop is a runtime of one thread:
//! `tokio::spawn` takes `Send` futures only, so use [`spawn`], and `block_in_place` panics, so use a [`Pool`].
//!
//! ```
//! use anywire_loops::Loops;
//! use std::time::Duration;
//!
//! let loops = Loops::start(2)?;
//! let answer = loops.pick().spawn(|| async { 6 * 7 }).wait()?;
//! assert_eq!(answer, 42);
//! loops.shutdown(Duration::from_secs(1))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block_on;
pub mod clock;
mod contained;
mod context;
mod counters;
pub mod deadline;
mod guarded;
mod handle;
mod inbox;
mod limits;
mod loops;
pub mod metrics;
mod pool;
mod shared;
mod shutdown;
mod signals;
mod sources;
mod stalls;
mod task;
mod thread;
mod work;

/// The locks and atomics of the inbox. Its model test replaces them by loom's.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
    pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
}

pub use block_on::block_on;
pub use contained::wake;
pub use context::{current, give_way, local, spawn, stopping};
pub use counters::{Counter, LoopCounters, LoopState};
pub use deadline::Deadline;
pub use handle::{LoopHandle, LoopId};
pub use limits::Limits;
pub use loops::{Builder, Loops, Pinning, StartError, WeakLoops};
pub use pool::{Pool, PoolCounters, PoolError, PoolLimits, PoolOrder, PoolStartError, PoolTask, QueueTimes};
pub use shutdown::{Shutdown, ShutdownError};
pub use signals::{Signal, Signals};
pub use sources::{AddedSource, Source, add_source};
pub use task::{LocalTask, Task, TaskError};
pub use work::{Label, Work};
