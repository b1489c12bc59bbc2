//! Threads for functions that block or compute: so many of them, and so many functions that wait for one.
//!
//! A function that blocks its loop holds up everything else there. A [`Pool`] runs it on a thread of its own. Its queue is
//! bounded, and a function that has waited for too long is refused in place of being run for a caller who has given up.
//!
//! Handing over costs what the ladder of I/O models calls "futex if asleep": a thread is woken only if it sleeps, and so is the loop that
//! gets the result, once for all results that come while it wakes up.

mod crew;
mod error;
mod job;
mod queue;
mod queue_times;
mod task;

use std::fmt;
use std::sync::Arc;

use anywire_sys::cpu;

use self::crew::Crew;
pub use self::error::{PoolError, PoolStartError};
use self::job::Job;
pub use self::queue_times::QueueTimes;
pub use self::task::PoolTask;

/// A set of threads with one queue. Cheap to clone; all clones are the same pool.
///
/// When the last clone is dropped, the pool [stops](Self::stop). What runs on a thread cannot be cancelled: it goes on, and its thread
/// ends behind it.
///
/// ```
/// use anywire_loops::{Loops, Pool, PoolLimits};
///
/// let pool = Pool::start("cpu", PoolLimits { threads: 2, ..PoolLimits::default() })?;
/// let loops = Loops::start(1)?;
/// let on_loop = pool.clone();
/// let sum = loops.get(0).spawn(move || async move { on_loop.run(|| (1..=10_u64).product::<u64>()).await });
/// assert_eq!(sum.wait()??, 3_628_800);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    handle: Arc<Handle>,
}

/// Stops the pool when the last of its clones is dropped. Its threads hold the crew alone.
struct Handle {
    crew: Arc<Crew>,
}

/// The size of a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Threads: 1 to [`Pool::THREADS_MAX`]. Default: one for each core that this process may use, which suits functions that
    /// compute. Functions that wait, such as for a disk or a database, may have more.
    pub threads: usize,
    /// Functions that may wait for a thread; 0 if none may. Default: 1024. Each holds its captured values. One beyond it ends with
    /// [`PoolError::Full`].
    pub queue: usize,
    /// Which of them is next. Default: [`PoolOrder::OldestFirst`].
    pub order: PoolOrder,
}

impl Default for PoolLimits {
    fn default() -> Self {
        let threads = cpu::available_cores().len().clamp(1, Pool::THREADS_MAX);
        Self { threads, queue: 1024, order: PoolOrder::OldestFirst }
    }
}

/// Which of the functions that wait for a thread is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolOrder {
    /// The one that has waited for the longest.
    #[default]
    OldestFirst,
    /// The one that came last: under overload some are answered at once and the others not in time, in place of all of them late.
    /// For functions with a queue deadline, which ends the others.
    LatestFirst,
}

/// What a [`Pool`] has counted: a copy of this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounters {
    /// Threads that there are now. While a pool grows smaller, they may be more than it is to have.
    pub threads: u64,
    /// Functions that run now.
    pub running: u64,
    /// Functions that wait for a thread now.
    pub queued: u64,
    /// Functions that have run, in whatever way they ended.
    pub ended: u64,
    /// Functions that were refused because as many waited as the limit allows.
    pub rejected_full: u64,
    /// Functions that were not run because they had waited beyond their queue deadline.
    pub rejected_late: u64,
    /// Functions that panicked.
    pub panics: u64,
    /// Functions whose task was dropped before it took their result: they were never run, or ran for nobody.
    pub abandoned: u64,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// See [`PoolStartError`]; no thread is left then.
    pub fn start(name: &str, limits: PoolLimits) -> Result<Self, PoolStartError> {
        let PoolLimits { threads, queue, order } = limits;
        // Dropped with an error, it ends the threads that run already.
        let pool = Self { handle: Arc::new(Handle { crew: Arc::new(Crew::new(name, queue, order)) }) };
        pool.resize(threads)?;
        Ok(pool)
    }

    /// Its name, which its threads have too: `NAME-0` and so on.
    pub fn name(&self) -> &str {
        self.crew().name()
    }

    /// Runs a function on a thread of this pool.
    ///
    /// The function is queued when the returned future is first polled, and the thread wakes the task that has polled it last. May be
    /// awaited on a loop, on any other runtime, and by [`block_on`](crate::block_on). Dropping it takes a function out of the queue. One
    /// that runs goes on, and may [ask](Self::is_abandoned) whether its result is still wanted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use anywire_loops::{Pool, PoolError, PoolLimits};
    ///
    /// async fn digest(pool: &Pool, text: String) -> Result<u64, PoolError> {
    ///     pool.run(move || text.bytes().map(u64::from).sum()).queue_deadline(Duration::from_millis(500)).await
    /// }
    ///
    /// let pool = Pool::start("cpu", PoolLimits::default())?;
    /// assert_eq!(anywire_loops::block_on(digest(&pool, "abc".to_owned()))?, 294);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<T: Send + 'static>(&self, function: impl FnOnce() -> T + Send + 'static) -> PoolTask<T> {
        PoolTask::new(self.clone(), Arc::new(Job::new(function)))
    }

    /// Whether the function that calls this runs on a pool and nobody waits for its result any more: a long one may ask now and then,
    /// and end. On any other thread the answer is no.
    pub fn is_abandoned() -> bool {
        job::is_present_abandoned()
    }

    /// Changes how many threads there are: 1 to [`Pool::THREADS_MAX`]. A pool that grows smaller ends threads that are idle at once, and
    /// others once their function has ended.
    ///
    /// # Errors
    /// [`PoolStartError`]. If the system gives no thread, those that there are go on, and they are what the pool has from then on.
    pub fn resize(&self, threads: usize) -> Result<(), PoolStartError> {
        if !(1..=Self::THREADS_MAX).contains(&threads) {
            return Err(PoolStartError::Threads(threads));
        }
        self.crew().resize(threads).map_err(PoolStartError::Thread)
    }

    /// Changes how many functions may wait for a thread. Those that wait already stay.
    pub fn resize_queue(&self, queue: usize) {
        self.crew().resize_queue(queue);
    }

    /// Its present limits.
    pub fn limits(&self) -> PoolLimits {
        self.crew().limits()
    }

    /// What it has counted so far.
    pub fn counters(&self) -> PoolCounters {
        self.crew().counters()
    }

    /// How long the functions have waited for a thread that have run.
    pub fn queue_times(&self) -> QueueTimes {
        self.crew().queue_times()
    }

    /// Stops at once: functions that wait, and all later ones, end with [`PoolError::Stopped`], and threads end that run none. A
    /// function that runs goes on, and whoever waits for its result gets it. Does not wait for that.
    pub fn stop(&self) {
        self.crew().stop();
    }

    /// The most threads: 1024, so that a typing error in a setting does not start ten thousand.
    pub const THREADS_MAX: usize = 1024;

    fn crew(&self) -> &Arc<Crew> {
        &self.handle.crew
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("name", &self.name()).field("limits", &self.limits()).finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.crew.stop();
    }
}
