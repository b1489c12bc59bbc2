//! The limit of a listener: how many of its connections are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The seats of one listener, shared by its loops. Touched when a connection opens and when it closes, never between.
pub(crate) struct Seats {
    max: usize,
    taken: AtomicUsize,
    freed: Notify,
    pauses: AtomicU64,
}

impl Seats {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, taken: AtomicUsize::new(0), freed: Notify::new(), pauses: AtomicU64::new(0) })
    }

    /// Takes a seat; waits while there is none.
    pub(crate) async fn take(self: &Arc<Self>) -> Seat {
        if let Some(seat) = self.try_take() {
            return seat;
        }
        self.pauses.fetch_add(1, Ordering::Relaxed);
        loop {
            // Registered before the second look, so that a seat freed in between is not missed.
            let freed = self.freed.notified();
            if let Some(seat) = self.try_take() {
                return seat;
            }
            freed.await;
        }
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }

    fn try_take(self: &Arc<Self>) -> Option<Seat> {
        let next = |taken| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()?;
        Some(Seat(Arc::clone(self)))
    }
}

/// One connection's place; dropping it lets the next one in.
pub(crate) struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
        self.0.freed.notify_one();
    }
}
