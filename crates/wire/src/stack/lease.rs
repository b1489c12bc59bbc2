//! How long an address is listened on.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What the acceptors of a listener hold together: given up with the last of them, or before by the [`Guard`] of the listener. So an
/// address is free again though the handle of a listener is kept whose loops have ended.
#[derive(Debug)]
pub(super) struct Lease<T>(Arc<Mutex<Option<T>>>);

/// Gives up a lease when it is dropped.
#[derive(Debug)]
pub(super) struct Guard<T>(Weak<Mutex<Option<T>>>);

impl<T> Lease<T> {
    pub(super) fn new(held: T) -> (Self, Guard<T>) {
        let shared = Arc::new(Mutex::new(Some(held)));
        let guard = Guard(Arc::downgrade(&shared));
        (Self(shared), guard)
    }

    /// Whether the listener has given it up: nobody may begin to listen any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl<T> Clone for Lease<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        let held =
            self.0.upgrade().and_then(|shared| shared.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(held);
    }
}
