//! The limit of open connections, which listeners share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anywire_sys::descriptors;
use tokio::sync::Semaphore;

/// How many accepted connections may be open at once. Clones share the limit, and so do the listeners that it is given
/// to. It is touched when a connection opens and when it closes, never between.
///
/// The default is 90 % of the process's descriptor limit: files, dials and the log need some, too.
///
/// ```
/// use anywire_wire::ConnectionLimit;
///
/// let limit = ConnectionLimit::new(1000);
/// assert_eq!((limit.max(), limit.open(), limit.pauses()), (1000, 0, 0));
/// ```
#[derive(Clone)]
pub struct ConnectionLimit(Arc<Shared>);

struct Shared {
    max: usize,
    free: Semaphore,
    pauses: AtomicU64,
}

impl ConnectionLimit {
    /// A limit of so many connections, at least one.
    pub fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared { max, free: Semaphore::new(max), pauses: AtomicU64::new(0) }))
    }

    /// The limit.
    pub fn max(&self) -> usize {
        self.0.max
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.0.max - self.0.free.available_permits()
    }

    /// How often a listener paused because the limit was reached.
    pub fn pauses(&self) -> u64 {
        self.0.pauses.load(Ordering::Relaxed)
    }

    /// A permit if one is free, and no waiter comes first.
    pub(crate) fn try_acquire(&self) -> Option<Permit> {
        // `Permit` gives it back itself: tokio's would hold a count and a second pointer for each connection.
        self.0.free.try_acquire().ok().map(|permit| permit.forget())?;
        Some(Permit(Arc::clone(&self.0)))
    }

    /// Waits for a permit. Waiters are served in order, so that no loop takes each freed permit before another one has
    /// woken up.
    pub(crate) async fn acquire(&self) -> Permit {
        self.0.pauses.fetch_add(1, Ordering::Relaxed);
        // Only a closed semaphore gives an error, and this one is never closed.
        if let Ok(permit) = self.0.free.acquire().await {
            permit.forget();
        }
        Permit(Arc::clone(&self.0))
    }
}

impl Default for ConnectionLimit {
    fn default() -> Self {
        Self::new(usize::try_from(descriptors::limit().soft).unwrap_or(usize::MAX) / 10 * 9)
    }
}

impl fmt::Debug for ConnectionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionLimit").field("max", &self.max()).field("open", &self.open()).finish()
    }
}

/// One connection's part of the limit; dropping it lets the next connection in.
pub(crate) struct Permit(Arc<Shared>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.free.add_permits(1);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn freed_permits_go_to_waiters_in_their_order() {
        let limit = ConnectionLimit::new(2);
        let [one, two] = [(); 2].map(|()| limit.try_acquire().expect("two permits are free"));
        let (mut first, mut second) = (pin!(limit.acquire()), pin!(limit.acquire()));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert_eq!((limit.open(), limit.pauses()), (2, 2));

        drop(one);
        assert!(limit.try_acquire().is_none(), "nobody overtakes the waiters");
        assert!(poll(second.as_mut()).is_pending(), "nor does one waiter the other");
        let Poll::Ready(three) = poll(first) else { panic!("it is the first one's turn") };
        drop(two);
        let Poll::Ready(four) = poll(second) else { panic!("it is the second one's turn") };
        drop((three, four));
        assert_eq!(limit.open(), 0);
    }

    #[test]
    fn permits_that_are_freed_at_once_wake_as_many_waiters() {
        let limit = ConnectionLimit::new(2);
        let both = [(); 2].map(|()| limit.try_acquire().expect("two permits are free"));
        let (mut first, mut second) = (pin!(limit.acquire()), pin!(limit.acquire()));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        drop(both);
        assert!(poll(first).is_ready() && poll(second).is_ready());
    }
}
