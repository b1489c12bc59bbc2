//! Something that is looked at again and again while the probe runs.
//!
//! A thread of its own looks: on a loop the reads would hold up the very requests that are measured.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Looks until it is dropped, and keeps what was seen.
#[derive(Debug)]
pub(super) struct Watch<T> {
    seen: Arc<Mutex<T>>,
    /// Dropped first, which ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Clone + Default + Send + 'static> Watch<T> {
    /// Calls `look` here and now, while nothing is under way yet, then again and again, and notes what it gives. `None` if the system
    /// has no thread for it.
    pub(super) fn start<L: 'static>(
        name: &str,
        mut look: impl FnMut() -> Option<L> + Send + 'static,
        note: fn(&mut T, L),
    ) -> Option<Self> {
        let seen = Arc::new(Mutex::new(T::default()));
        let (stop, stopped) = mpsc::channel();
        let noted = Arc::clone(&seen);
        let mut once = move || {
            let begun = Instant::now();
            if let Some(found) = look() {
                note(&mut noted.lock().unwrap_or_else(PoisonError::into_inner), found);
            }
            // A twentieth of a core at most, however much there is to read.
            begun.elapsed() * 20
        };
        let mut pause = once();
        let run = move || {
            while stopped.recv_timeout(pause.max(BETWEEN)) == Err(RecvTimeoutError::Timeout) {
                pause = once();
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        Some(Self { seen, stop: Some(stop), thread: Some(thread.ok()?) })
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> T {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell any more, even if it panicked.
            let _ = thread.join();
        }
    }
}

/// What lasts for less than this holds nobody up.
const BETWEEN: Duration = Duration::from_millis(2);
