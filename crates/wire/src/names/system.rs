//! The system's resolver, on threads of its own.

use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use anywire_loops::{Pool, PoolError, PoolLimits, PoolOrder};
use anywire_sys::names::{NameError, addresses_of};

use super::resolver::{Answer, Records, ResolveError, Resolver, Resolving};

/// Asks the system, so that `/etc/hosts`, `/etc/resolv.conf` and the rest of its set-up apply. It tells no TTL.
///
/// The system's resolver blocks, for many seconds if no name server answers. So it has a set of threads, which start with the first
/// name: 8 names are asked for at a time, and 1024 may wait. If no name server answers, names that another one would find have to
/// wait for such a thread, too. Names that are known, and addresses, do not.
pub struct SystemResolver {
    limits: PoolLimits,
    pool: OnceLock<Pool>,
}

impl SystemResolver {
    /// With so many threads, at least one, and so many names that wait for one.
    pub fn new(threads: usize, queue: usize) -> Self {
        let threads = threads.clamp(1, Pool::THREADS_MAX);
        let limits = PoolLimits { threads, queue, order: PoolOrder::OldestFirst };
        Self { limits, pool: OnceLock::new() }
    }

    fn pool(&self) -> Result<&Pool, ResolveError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let pool = Pool::start("anywire-names", self.limits)
            .map_err(|error| ResolveError::failed(io::Error::other(error)))?;
        // Another loop may have been faster. Its pool stays, and this one ends.
        Ok(self.pool.get_or_init(|| pool))
    }
}

impl Default for SystemResolver {
    /// 8 threads, and 1024 names that wait.
    fn default() -> Self {
        Self::new(8, 1024)
    }
}

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemResolver").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str, _: Records) -> Resolving<'a> {
        Box::pin(async move {
            let name = name.to_owned();
            let found = self.pool()?.run(move || addresses_of(&name)).queue_deadline(QUEUE_DEADLINE).await;
            match found {
                Ok(Ok(addresses)) => Ok(Answer::from(addresses)),
                Ok(Err(NameError::NotFound)) => Err(ResolveError::NotFound),
                Ok(Err(NameError::System(cause))) => Err(ResolveError::failed(cause)),
                Ok(Err(error)) => Err(ResolveError::failed(io::Error::other(error))),
                Err(PoolError::Full | PoolError::Late) => Err(ResolveError::Full),
                Err(error) => Err(ResolveError::failed(io::Error::other(error))),
            }
        })
    }
}

/// A name that has waited for a thread for so long is asked for by nobody any more.
const QUEUE_DEADLINE: Duration = Duration::from_secs(10);
