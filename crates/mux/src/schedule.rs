//! Which streams of a connection have something to do: they were woken, their deadline must be set anew, or it passes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Instant;

/// Which streams of a connection are to be polled, and when, by the keys that their driver has for them.
#[derive(Debug)]
pub struct Schedule<K> {
    woken: Arc<Mutex<Woken<K>>>,
    /// Streams to be polled in this turn.
    pub ready: Vec<K>,
    /// Streams that may wait for something else than before: their deadlines are to be set anew.
    pub dirty: Vec<K>,
    /// When the first deadline of a stream passes, or one has that does not count any more.
    pub deadline: Option<Instant>,
    /// The result of [`Streams::keeps_peer_waiting`](crate::Streams::keeps_peer_waiting) for which the deadlines were set.
    pub keeps_peer_waiting: bool,
    /// The result of [`Streams::is_window_closed`](crate::Streams::is_window_closed) for which the deadlines were set.
    pub is_window_closed: bool,
    /// Whether the deadlines were set for streams whose peer waits for responses alone, of which [all that was
    /// written](crate::Streams::has_left) has left.
    pub owes_responses: bool,
    /// How many bytes of bodies the streams have sent together, modulo 2^32: only what they send between two looks counts.
    pub sent_bytes: u32,
}

/// The streams that were woken.
#[derive(Debug)]
struct Woken<K> {
    streams: Vec<K>,
    /// The connection's task.
    task: Option<Waker>,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        let (streams, ready, dirty) = Default::default();
        let woken = Arc::new(Mutex::new(Woken { streams, task: None }));
        Self {
            woken,
            ready,
            dirty,
            deadline: None,
            keeps_peer_waiting: false,
            is_window_closed: false,
            owes_responses: false,
            sent_bytes: 0,
        }
    }
}

impl<K: Copy + PartialEq> Schedule<K> {
    /// Sets the task to wake, which [takes](Self::take_woken) the streams each time it is polled.
    pub fn set_task(&self, task: &Waker) {
        let mut woken = lock(&self.woken);
        match &mut woken.task {
            Some(known) if known.will_wake(task) => {}
            known => {
                let replaced = known.replace(task.clone());
                drop(woken);
                drop(replaced);
            }
        }
    }

    /// A waker of this stream. It reuses the memory of `unused`, unless there are clones of that.
    pub fn waker(&self, stream: K, unused: Option<Arc<StreamWaker<K>>>) -> Arc<StreamWaker<K>> {
        if let Some(mut unused) = unused
            && let Some(waker) = Arc::get_mut(&mut unused)
        {
            waker.stream = stream;
            return unused;
        }
        Arc::new(StreamWaker { stream, woken: Arc::clone(&self.woken) })
    }

    /// Adds the streams that were woken to `ready`.
    pub fn take_woken(&mut self) {
        self.ready.append(&mut lock(&self.woken).streams);
    }

    /// Adds a stream to `ready`: once, if several frames of it come together.
    #[inline]
    pub fn poll_soon(&mut self, stream: K) {
        if self.ready.last() != Some(&stream) {
            self.ready.push(stream);
        }
    }

    /// Sets the deadline of a stream.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = self.deadline.into_iter().chain(deadline).min();
    }

    /// Whether the deadline of a stream may have passed.
    pub fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Frees the memory. No stream is left.
    pub fn clear(&mut self) {
        (self.ready, self.dirty, self.deadline) = Default::default();
    }
}

/// The waker of one stream. It may outlive the stream: the next one with its key is polled once in vain at most.
#[derive(Debug)]
pub struct StreamWaker<K> {
    stream: K,
    woken: Arc<Mutex<Woken<K>>>,
}

impl<K: Copy + PartialEq> Wake for StreamWaker<K>
where
    Self: Send + Sync + 'static,
{
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut woken = lock(&self.woken);
        // The first to be woken has woken the task, which takes all of them.
        let is_first = woken.streams.is_empty();
        // Once each, so that streams that wake one another between two polls do not pile up. There are few.
        if !woken.streams.contains(&self.stream) {
            woken.streams.push(self.stream);
        }
        let task = woken.task.clone().filter(|_| is_first);
        drop(woken);
        if let Some(task) = task {
            task.wake();
        }
    }
}

fn lock<K>(woken: &Mutex<Woken<K>>) -> MutexGuard<'_, Woken<K>> {
    // Nothing panics while the lock is held.
    woken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_stream_is_woken_once_and_the_task_for_all_of_them() {
        let (task, mut schedule) = (Arc::<Task>::default(), Schedule::<u32>::default());
        schedule.set_task(&Waker::from(Arc::clone(&task)));
        let wakers = [1, 3].map(|stream| Waker::from(schedule.waker(stream, None)));
        for _ in 0..100 {
            wakers.iter().for_each(Waker::wake_by_ref);
        }
        schedule.take_woken();
        assert_eq!((&schedule.ready[..], task.0.load(Ordering::Relaxed)), (&[1, 3][..], 1));
        wakers[1].wake_by_ref();
        schedule.take_woken();
        assert_eq!((&schedule.ready[..], task.0.load(Ordering::Relaxed)), (&[1, 3, 3][..], 2));
    }

    #[test]
    fn a_waker_is_used_again_once_nobody_has_it() {
        let schedule = Schedule::<u32>::default();
        let first = schedule.waker(1, None);
        let address = Arc::as_ptr(&first);
        let held = Waker::from(Arc::clone(&first));
        let second = schedule.waker(3, Some(first));
        assert_ne!(Arc::as_ptr(&second), address);
        drop(held);
        let address = Arc::as_ptr(&second);
        let third = schedule.waker(5, Some(second));
        assert_eq!((Arc::as_ptr(&third), third.stream), (address, 5));
    }
}
