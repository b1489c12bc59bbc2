//! Why a pool does not start, and why a function on it has no result.

use std::io;

use anywire_advice::Advice;

use super::Pool;

/// Why a function on a pool has no result. None of them has an effect on other functions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// As many functions waited as [`PoolLimits::queue`](super::PoolLimits::queue) allows. It was not run.
    #[error(
        "the function was not run: as many as the limit allows wait for the threads of the pool{help}",
        help = Advice("try again later, or resize the pool")
    )]
    Full,
    /// It waited for a thread beyond its queue deadline. It was not run.
    #[error(
        "the function was not run: no thread of the pool was free before its queue deadline{help}",
        help = Advice("try again later, or resize the pool")
    )]
    Late,
    /// The pool was stopped before a thread took it. It was not run.
    #[error("the function was not run: its pool has stopped")]
    Stopped,
    /// Its code panicked, with this message.
    #[error("the function panicked: {0}{help}", help = Advice("its thread goes on, and so do all others"))]
    Panicked(String),
}

/// Why threads of a pool could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolStartError {
    /// A number of 0, or beyond [`Pool::THREADS_MAX`]; the caller's mistake.
    #[error(
        "a pool cannot have {0} threads: between 1 and {max} are possible{help}",
        max = Pool::THREADS_MAX,
        help = Advice("one for each core is usual")
    )]
    Threads(usize),
    /// The system gave no thread.
    #[error(
        "a pool cannot start a thread: {0}{help}",
        help = Advice("fewer threads, or a higher limit on tasks, would help")
    )]
    Thread(#[source] io::Error),
}
