//! A value of one thread within something that may go to any thread, such as what a handler puts into a response.

use std::fmt;
use std::mem::ManuallyDrop;
use std::thread::{self, ThreadId};

/// A value that only the thread that made it can reach. The holder is `Send` and `Sync`, whatever the value is.
///
/// Dropped on another thread, the value is leaked: its destructor belongs to its own thread, too.
///
/// ```
/// use std::cell::Cell;
/// use std::thread;
///
/// use anywire_sys::thread_bound::ThreadBound;
///
/// let held = ThreadBound::new(Cell::new(7));
/// assert_eq!(held.get().map(Cell::get), Some(7));
/// let held = thread::spawn(move || {
///     assert!(held.get().is_none());
///     held
/// });
/// let held = held.join().expect("no panic");
/// assert_eq!(held.get().map(Cell::take), Some(7));
/// ```
pub struct ThreadBound<T> {
    owner: ThreadId,
    value: ManuallyDrop<T>,
}

// SAFETY: no thread but the one that made the value reads, moves or drops it. Ids of threads are never used twice.
#[allow(unsafe_code)]
unsafe impl<T> Send for ThreadBound<T> {}

// SAFETY: as above; a shared reference to the value is only given out on its own thread.
#[allow(unsafe_code)]
unsafe impl<T> Sync for ThreadBound<T> {}

impl<T> ThreadBound<T> {
    /// Keeps a value for the present thread.
    pub fn new(value: T) -> Self {
        Self { owner: thread::current().id(), value: ManuallyDrop::new(value) }
    }

    /// The value; `None` on another thread than its own.
    pub fn get(&self) -> Option<&T> {
        self.is_owner().then(|| &*self.value)
    }

    /// The value, out of its holder; `None` on another thread than its own, where it is leaked.
    #[allow(unsafe_code)]
    pub fn into_inner(self) -> Option<T> {
        let mut held = ManuallyDrop::new(self);
        if !held.is_owner() {
            return None;
        }
        // SAFETY: the value is taken once, here: the holder, whose destructor would drop it, is never used again.
        Some(unsafe { ManuallyDrop::take(&mut held.value) })
    }

    fn is_owner(&self) -> bool {
        thread::current().id() == self.owner
    }
}

impl<T> Drop for ThreadBound<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if self.is_owner() {
            // SAFETY: the value is dropped once, here, and nothing can reach it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

impl<T> fmt::Debug for ThreadBound<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBound").field("owner", &self.owner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn it_is_dropped_on_its_own_thread_alone() {
        let value = Rc::new(());
        drop(ThreadBound::new(Rc::clone(&value)));
        assert_eq!(Rc::strong_count(&value), 1);
        let held = ThreadBound::new(Rc::clone(&value));
        thread::spawn(move || drop(held)).join().expect("no panic");
        assert_eq!(Rc::strong_count(&value), 2, "the count of an `Rc` is not for other threads");
    }

    #[test]
    fn it_is_taken_out_on_its_own_thread_alone() {
        let value = Rc::new(());
        let taken = ThreadBound::new(Rc::clone(&value)).into_inner();
        assert_eq!((taken.is_some(), Rc::strong_count(&value)), (true, 2));
        drop(taken);
        let held = ThreadBound::new(Rc::clone(&value));
        assert!(thread::spawn(move || held.into_inner().is_none()).join().expect("no panic"));
        assert_eq!(Rc::strong_count(&value), 2);
    }
}
