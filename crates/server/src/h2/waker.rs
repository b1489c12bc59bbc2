//! A waker for each stream: it says which one is to be polled, and wakes the connection's task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use anywire_http::h2::StreamId;

/// The streams of a connection that were woken.
#[derive(Debug, Default)]
pub(super) struct Woken {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    streams: Vec<StreamId>,
    /// The connection's task.
    task: Option<Waker>,
}

impl Woken {
    /// Sets the task to wake.
    pub(super) fn set_task(&self, task: &Waker) {
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
    pub(super) fn take(&self, streams: &mut Vec<StreamId>) {
        streams.append(&mut self.lock().streams);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What wakes one stream.
#[derive(Debug)]
pub(super) struct StreamWaker {
    id: StreamId,
    woken: Arc<Woken>,
}

impl StreamWaker {
    /// What wakes this stream. Made of `spare`, unless somebody may still wake an earlier stream by that.
    pub(super) fn of(id: StreamId, spare: Option<Arc<Self>>, woken: &Arc<Woken>) -> Arc<Self> {
        if let Some(mut spare) = spare
            && let Some(unused) = Arc::get_mut(&mut spare)
        {
            unused.id = id;
            return spare;
        }
        Arc::new(Self { id, woken: Arc::clone(woken) })
    }
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.woken.lock();
        // Few are woken between two polls, and a stream that wakes itself again and again is the last one.
        if !state.streams.contains(&self.id) {
            state.streams.push(self.id);
        }
        let task = state.task.clone();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}
