//! Wakes from other threads: one list, which the executor looks at between polls.

use std::fmt;
use std::mem;

use crate::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering, PoisonError};

/// Wakes tasks of one swarm from any thread. Cheap to clone.
///
/// The executor looks for such wakes at the start of each [`run`](super::Tasks::run), and between polls. If the
/// driver waits for something else meanwhile, [`Tasks::on_remote_wake`](super::Tasks::on_remote_wake) gets it up.
///
/// ```
/// use anywire_stack::swarm::{Tasks, park};
///
/// let mut tasks = Tasks::with_capacity(10)?;
/// tasks.spawn_at(7, park())?;
/// tasks.run(usize::MAX);
/// let remote = tasks.remote();
/// std::thread::spawn(move || remote.wake(7)).join().expect("it does not panic");
/// assert_eq!((tasks.run(usize::MAX), tasks.len()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Remote {
    shared: Arc<Shared>,
}

struct Shared {
    list: Mutex<List>,
    /// Whether the list may hold something: what the executor reads between polls.
    some: AtomicBool,
    capacity: u32,
}

struct List {
    wakes: Vec<u32>,
    notify: Option<Box<dyn Fn() + Send>>,
}

impl Remote {
    pub(super) fn new(capacity: u32) -> Self {
        let list = List { wakes: Vec::new(), notify: None };
        Self { shared: Arc::new(Shared { list: Mutex::new(list), some: AtomicBool::new(false), capacity }) }
    }

    /// Has the task of this index polled; nothing if there is no such task. After the swarm is gone, nothing.
    ///
    /// The list holds at most two entries for each task the swarm has room for: repetitions are then taken out.
    pub fn wake(&self, index: u32) {
        if index >= self.shared.capacity {
            return;
        }
        let mut list = self.lock();
        if list.wakes.len() / 2 >= self.shared.capacity as usize {
            list.wakes.sort_unstable();
            list.wakes.dedup();
        }
        list.wakes.push(index);
        // Once for a list, and under the lock: the executor clears the mark under it as well.
        if !self.shared.some.swap(true, Ordering::Release)
            && let Some(notify) = &list.notify
        {
            notify();
        }
    }

    pub(super) fn notify_with(&self, notify: impl Fn() + Send + 'static) {
        self.lock().notify = Some(Box::new(notify));
    }

    /// Whether there may be something to take.
    #[inline(always)]
    pub(super) fn has_wakes(&self) -> bool {
        self.shared.some.load(Ordering::Acquire)
    }

    /// Changes the list for an empty one.
    #[cold]
    pub(super) fn take(&self, wakes: &mut Vec<u32>) {
        wakes.clear();
        let mut list = self.lock();
        self.shared.some.store(false, Ordering::Relaxed);
        mem::swap(&mut list.wakes, wakes);
    }

    /// A panic of the caller's notification leaves the list whole.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.shared.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Remote").field("capacity", &self.shared.capacity).finish_non_exhaustive()
    }
}
