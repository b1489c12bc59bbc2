//! Wrappers of users' futures: they catch panics, and take hand-overs after each poll.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::contained::{Contained, contain};
use crate::context::Local;
use crate::task::{Outcome, Sender, TaskError};

pin_project! {
    /// A task of the loop: counted while it lives, and unable to take the loop down.
    ///
    /// The runtime catches panics of its tasks, too, but two cases get past it. A panic's payload is dropped outside of
    /// the catch, so a second panic ends the loop. An ended future is dropped while the output is on the stack, so two
    /// panicking destructors abort the process. Here the panic is caught before it reaches the runtime.
    pub(crate) struct Guarded<F> {
        #[pin]
        stage: Stage<F>,
    }

    impl<F> PinnedDrop for Guarded<F> {
        fn drop(this: Pin<&mut Self>) {
            this.end();
        }
    }
}

pin_project! {
    #[project = StageProjected]
    enum Stage<F> {
        Running {
            #[pin]
            future: F,
            presence: Presence,
        },
        Ended,
    }
}

impl<F> Guarded<F> {
    pub(crate) fn new(future: F, local: &Rc<Local>) -> Self {
        Self { stage: Stage::Running { future, presence: Presence::new(local) } }
    }

    /// Drops the future, and no longer counts the task as live.
    fn end(self: Pin<&mut Self>) {
        let mut stage = self.project().stage;
        // A panic here is counted and logged. It does not change the outcome of the task.
        let _ = contain("a destructor", || stage.set(Stage::Ended));
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Contained<Outcome<F::Output>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let StageProjected::Running { future, presence } = self.as_mut().project().stage.project() else {
            unreachable!("the runtime does not poll a task that has ended");
        };
        let outcome = match contain("a task", || future.poll(context)) {
            Ok(Poll::Pending) => {
                presence.local.after_poll();
                return Poll::Pending;
            }
            Ok(Poll::Ready(output)) => Ok(output),
            Err(text) => Err(TaskError::Panicked(text)),
        };
        let outcome = Contained::new(outcome);
        let local = Rc::clone(&presence.local);
        // The count is right before the outcome is delivered.
        self.end();
        local.after_poll();
        Poll::Ready(outcome)
    }
}

/// A future on its way to the runtime. Debug builds box it: the runtime's code for a task is then compiled once for each type of
/// output, and not twice for each future. That was three quarters of what the tests of `client` took to build (151 CPU seconds).
#[cfg(debug_assertions)]
pub(crate) fn of_one_type<F: Future + 'static>(future: F) -> Pin<Box<dyn Future<Output = F::Output>>> {
    Box::pin(future)
}

/// A future on its way to the runtime, as it is.
#[cfg(not(debug_assertions))]
pub(crate) fn of_one_type<F: Future + 'static>(future: F) -> F {
    future
}

/// Counts a task as live until dropped.
struct Presence {
    local: Rc<Local>,
}

impl Presence {
    fn new(local: &Rc<Local>) -> Self {
        local.task_begins();
        Self { local: Rc::clone(local) }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.local.task_ends();
    }
}

pin_project! {
    /// A task whose outcome is awaited on another thread.
    pub(crate) struct Delivering<F: Future> {
        #[pin]
        guarded: Guarded<F>,
        sender: Option<Sender<F::Output>>,
    }
}

impl<F: Future> Delivering<F> {
    pub(crate) fn new(guarded: Guarded<F>, sender: Sender<F::Output>) -> Self {
        Self { guarded, sender: Some(sender) }
    }
}

impl<F: Future> Future for Delivering<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let outcome = ready!(this.guarded.poll(context));
        if let Some(sender) = this.sender.take() {
            // Fails if the handle was dropped, and the outcome with it.
            let _ = sender.send(outcome);
        }
        Poll::Ready(())
    }
}
