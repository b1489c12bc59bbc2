//! The futures that a loop wraps around those of its users: panics are caught, hand-overs taken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::context::Local;
use crate::task::{Promise, TaskError, panic_text};

pin_project! {
    /// A task of the loop: counted while it lives, and unable to take the loop down.
    pub(crate) struct Guarded<F> {
        #[pin]
        future: F,
        // `None` once the future has ended, so that the count is right before anybody learns of the end.
        presence: Option<Presence>,
    }
}

impl<F> Guarded<F> {
    pub(crate) fn new(future: F, local: &Rc<Local>) -> Self {
        Self { future, presence: Some(Presence::new(local)) }
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, TaskError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = catch_unwind(AssertUnwindSafe(|| this.future.poll(context)));
        let Some(Presence(local)) = this.presence.as_ref() else {
            unreachable!("the runtime does not poll a task that has ended");
        };
        // A loop that never runs dry takes hand-overs here; one that does takes them before it sleeps.
        if local.shared().inbox.is_pending() {
            local.take_hand_overs();
        }
        let outcome = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(local.note_panic(panic_text(&*payload))),
        };
        *this.presence = None;
        Poll::Ready(outcome)
    }
}

/// Counts a task as live until dropped.
struct Presence(Rc<Local>);

impl Presence {
    fn new(local: &Rc<Local>) -> Self {
        local.task_begins();
        Self(Rc::clone(local))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.task_ends();
    }
}

pin_project! {
    /// A task whose outcome is awaited on another thread.
    pub(crate) struct Delivering<F: Future> {
        #[pin]
        guarded: Guarded<F>,
        // Taken when the outcome is there; dropped with the task, it says that there will be none.
        promise: Option<Promise<F::Output>>,
    }
}

impl<F: Future> Delivering<F> {
    pub(crate) fn new(guarded: Guarded<F>, promise: Promise<F::Output>) -> Self {
        Self { guarded, promise: Some(promise) }
    }
}

impl<F: Future> Future for Delivering<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let outcome = ready!(this.guarded.poll(context));
        if let Some(promise) = this.promise.take() {
            promise.fulfil(outcome);
        }
        Poll::Ready(())
    }
}
