//! Where a panic of users' code ends: of a closure, a future, a destructor, a waker.
//!
//! The crate runs such code inside [`contain`] and keeps such values inside [`Contained`]. So a panic never unwinds
//! into the runtime, which would end the loop, nor out of a destructor that runs during another panic, which would
//! abort the process.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::context::Local;

/// Runs code of a user. A panic of it is counted on the present loop, logged, and returned as its text.
#[inline]
pub(crate) fn contain<R>(what: &'static str, run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| note(what, payload))
}

/// Counts a panic on the present loop, and logs it. Returns its text.
#[cold]
pub(crate) fn note(what: &'static str, payload: Payload) -> String {
    let text = panic_text(&*payload);
    dispose(payload);
    let at = Local::try_with(|local| {
        local.count_panic();
        local.shared().id
    });
    // The subscriber is code of a user, too.
    let logged = catch_unwind(AssertUnwindSafe(|| match at {
        Some(id) => tracing::error!(loop_id = %id, panic = %text, "{what} panicked; its loop goes on"),
        None => tracing::error!(panic = %text, "{what} panicked; its thread goes on"),
    }));
    if let Err(payload) = logged {
        dispose(payload);
    }
    text
}

/// What a panic carries.
type Payload = Box<dyn Any + Send>;

/// Drops what a panic carried. Its destructor may panic as well, with a payload whose destructor panics, and so on.
#[allow(clippy::mem_forget, reason = "after so many panics in a row a leak is all that helps")]
pub(crate) fn dispose(mut payload: Payload) {
    for _ in 0..PAYLOADS_MAX {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    mem::forget(payload);
}

/// The words of a panic, where it has any.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "(a panic without text)".to_owned()
    }
}

/// A place for a value of a user. A panic of the value's destructor ends here, wherever the place is dropped.
#[derive(Debug)]
pub(crate) struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// Moves the value out, to where its destructor may panic.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Default for Contained<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Drop for Contained<T> {
    #[inline]
    fn drop(&mut self) {
        if mem::needs_drop::<T>()
            && let Some(value) = self.0.take()
        {
            // The panic is counted and logged, and has no caller to go to.
            let _ = contain("a destructor", || drop(value));
        }
    }
}

/// Wakes a task. If the waker panics, which one of tokio does not, that is counted on the present loop, logged, and ends here.
///
/// For code that wakes tasks of others while it has more to do: the panic would cost those behind it their wake-up.
pub fn wake(waker: Waker) {
    let _ = contain("a waker", || waker.wake());
}

/// A waker that others may wake and drop, while a panic of the one behind it ends here.
///
/// It is for the runtime's own lists of waiters: a panic there would cost the waiters behind it their wake-up.
#[derive(Debug, Default)]
pub(crate) struct Relay(Option<Arc<Relayed>>);

impl Relay {
    /// A waker that stands for `waker`; the same one as before, if it stood for the same task.
    pub(crate) fn to(&mut self, waker: &Waker) -> Waker {
        let relayed = match self.0.take() {
            Some(present) if present.0.get().is_some_and(|before| before.will_wake(waker)) => present,
            _ => Arc::new(Relayed(Contained::new(waker.clone()))),
        };
        Waker::from(Arc::clone(self.0.insert(relayed)))
    }
}

#[derive(Debug)]
struct Relayed(Contained<Waker>);

impl Wake for Relayed {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(waker) = self.0.get() {
            let _ = contain("a waker", || waker.wake_by_ref());
        }
    }
}

/// How many payloads in a row may panic when dropped before the last is leaked.
const PAYLOADS_MAX: usize = 16;
