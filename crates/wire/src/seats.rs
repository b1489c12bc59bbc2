//! The limit of a listener: how many of its connections are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;

/// The seats of one listener, shared by its loops. Touched when a connection opens and when it closes, never between.
///
/// Who waits is served in turn, so that no loop takes each freed seat before another one has woken up.
pub(crate) struct Seats {
    max: usize,
    free: Semaphore,
    pauses: AtomicU64,
}

impl Seats {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self { max, free: Semaphore::new(max), pauses: AtomicU64::new(0) })
    }

    /// Takes a seat; waits while there is none.
    pub(crate) async fn take(self: &Arc<Self>) -> Seat {
        let taken = match self.free.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                self.pauses.fetch_add(1, Ordering::Relaxed);
                // Only a closed semaphore gives an error, and nobody closes this one.
                self.free.acquire().await.ok()
            }
        };
        // The seat gives it back itself: a permit that does so would hold a count and a second pointer a connection.
        if let Some(permit) = taken {
            permit.forget();
        }
        Seat(Arc::clone(self))
    }

    pub(crate) fn taken(&self) -> usize {
        self.max - self.free.available_permits()
    }

    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }
}

/// One connection's place; dropping it lets the next one in.
pub(crate) struct Seat(Arc<Seats>);

impl Drop for Seat {
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
    fn freed_seats_go_to_those_who_wait_in_their_order() {
        let seats = Seats::new(2);
        let (Poll::Ready(one), Poll::Ready(two)) = (poll(pin!(seats.take())), poll(pin!(seats.take())))
        else {
            panic!("two seats are free");
        };
        let (mut first, mut second) = (pin!(seats.take()), pin!(seats.take()));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert_eq!((seats.taken(), seats.pauses()), (2, 2));

        drop(one);
        assert!(poll(pin!(seats.take())).is_pending(), "nobody overtakes those who wait");
        assert!(poll(second.as_mut()).is_pending(), "nor does one of them the other");
        let Poll::Ready(three) = poll(first) else { panic!("it is the first one's turn") };
        drop(two);
        let Poll::Ready(four) = poll(second) else { panic!("it is the second one's turn") };
        drop((three, four));
        assert_eq!(seats.taken(), 0);
    }

    #[test]
    fn seats_that_are_freed_at_once_wake_as_many() {
        let seats = Seats::new(2);
        let (Poll::Ready(one), Poll::Ready(two)) = (poll(pin!(seats.take())), poll(pin!(seats.take())))
        else {
            panic!("two seats are free");
        };
        let (mut first, mut second) = (pin!(seats.take()), pin!(seats.take()));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        drop((one, two));
        assert!(poll(first).is_ready() && poll(second).is_ready());
    }
}
