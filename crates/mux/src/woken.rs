//! A waker for each stream: it says which one is to be polled, and wakes the connection's task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The streams of a connection that were woken, by the keys that their driver has for them.
#[derive(Debug)]
pub(crate) struct Woken<K> {
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    streams: Vec<K>,
    /// The connection's task.
    task: Option<Waker>,
}

impl<K> Default for Woken<K> {
    fn default() -> Self {
        Self { state: Mutex::new(State { streams: Vec::new(), task: None }) }
    }
}

impl<K> Woken<K> {
    /// Sets the task to wake, which [takes](Self::take) the streams each time it is polled.
    pub(crate) fn set_task(&self, task: &Waker) {
        let mut state = self.lock();
        match &mut state.task {
            Some(known) if known.will_wake(task) => {}
            known => {
                let replaced = known.replace(task.clone());
                drop(state);
                drop(replaced);
            }
        }
    }

    /// Moves the streams that were woken to `streams`.
    pub(crate) fn take(&self, streams: &mut Vec<K>) {
        streams.append(&mut self.lock().streams);
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker of one stream. It may outlive the stream: the next one with its key is polled once in vain at most.
#[derive(Debug)]
pub struct StreamWaker<K> {
    stream: K,
    woken: Arc<Woken<K>>,
}

impl<K> StreamWaker<K> {
    /// A waker of this stream, in the memory of `unused` unless somebody may still wake an earlier stream by that.
    pub(crate) fn of(stream: K, unused: Option<Arc<Self>>, woken: &Arc<Woken<K>>) -> Arc<Self> {
        if let Some(mut unused) = unused
            && let Some(waker) = Arc::get_mut(&mut unused)
        {
            waker.stream = stream;
            return unused;
        }
        Arc::new(Self { stream, woken: Arc::clone(woken) })
    }
}

impl<K: Copy + PartialEq> Wake for StreamWaker<K>
where
    Self: Send + Sync + 'static,
{
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.woken.lock();
        // The first to be woken has woken the task, which takes all of them.
        let is_first = state.streams.is_empty();
        // Once each, so that streams that wake one another between two polls do not pile up. There are few.
        if !state.streams.contains(&self.stream) {
            state.streams.push(self.stream);
        }
        let task = state.task.clone().filter(|_| is_first);
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
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
        let (task, woken, mut streams) = (Arc::<Task>::default(), Arc::<Woken<u32>>::default(), Vec::new());
        woken.set_task(&Waker::from(Arc::clone(&task)));
        let wakers = [1, 3].map(|stream| Waker::from(StreamWaker::of(stream, None, &woken)));
        for _ in 0..100 {
            wakers.iter().for_each(Waker::wake_by_ref);
        }
        woken.take(&mut streams);
        assert_eq!((&streams[..], task.0.load(Ordering::Relaxed)), (&[1, 3][..], 1));
        wakers[1].wake_by_ref();
        woken.take(&mut streams);
        assert_eq!((&streams[..], task.0.load(Ordering::Relaxed)), (&[1, 3, 3][..], 2));
    }

    #[test]
    fn a_waker_is_used_again_once_nobody_has_it() {
        let woken = Arc::<Woken<u32>>::default();
        let first = StreamWaker::of(1, None, &woken);
        let address = Arc::as_ptr(&first);
        let held = Waker::from(Arc::clone(&first));
        let second = StreamWaker::of(3, Some(first), &woken);
        assert_ne!(Arc::as_ptr(&second), address);
        drop(held);
        let address = Arc::as_ptr(&second);
        let third = StreamWaker::of(5, Some(second), &woken);
        assert_eq!((Arc::as_ptr(&third), third.stream), (address, 5));
    }
}
