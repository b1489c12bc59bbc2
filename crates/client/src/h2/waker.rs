//! A waker for each place of a session: it says which stream is to be polled, and wakes the connection's task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The places of a session whose streams were woken.
#[derive(Debug, Default)]
pub(super) struct Woken {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    places: Vec<usize>,
    /// The connection's task.
    task: Option<Waker>,
}

impl Woken {
    /// Sets the task to wake.
    pub(super) fn set_task(&self, task: &Waker) {
        let replaced = self.lock().task.replace(task.clone());
        drop(replaced);
    }

    /// Moves the places that were woken to `places`.
    pub(super) fn take(&self, places: &mut Vec<usize>) {
        places.append(&mut self.lock().places);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What wakes the stream at one place. It outlives the stream: the next one there is polled once in vain at most.
#[derive(Debug)]
pub(super) struct PlaceWaker {
    place: usize,
    woken: Arc<Woken>,
}

impl PlaceWaker {
    /// A waker of this place.
    pub(super) fn waker(place: usize, woken: &Arc<Woken>) -> Waker {
        Arc::new(Self { place, woken: Arc::clone(woken) }).into()
    }
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.woken.lock();
        // Whoever wakes first has woken the task, which takes all of them.
        let is_first = state.places.is_empty();
        // A stream that wakes itself again and again is the last one.
        if state.places.last() != Some(&self.place) {
            state.places.push(self.place);
        }
        let task = state.task.clone().filter(|_| is_first);
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}
